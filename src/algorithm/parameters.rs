//! What a kind is in numbers, for a program in another language that counts as it does: in microseconds, as a store
//! that tells time in them can have them, and each below 2⁵³, as a language may have that knows only doubles.
//!
//! It does not know: that program, `remote/redis/script.lua`.

use super::rate::{Exact, Rate};
use super::ring::Ring;
use crate::time::Span;

/// A kind by its number, and up to six numbers that it counts by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Which kind; 0 refuses all.
    pub kind: u8,
    /// What they mean is the kind's; unused ones are 0.
    pub numbers: [u64; 6],
}

const REFUSE_ALL: u8 = 0;
const TOKEN_BUCKET: u8 = 1;
const WINDOW: u8 = 2;
const SLIDING_WINDOW: u8 = 3;
const SLIDING_LOG: u8 = 4;
const LEAKY_BUCKET: u8 = 5;
/// 6 was a ring of permits by age, which workers returned one by one.
const CONCURRENCY: u8 = 7;

const NS_PER_US: u64 = 1_000;

/// How far another gateway's or the store's clock may have been ahead, plus what rounding up adds.
const SLACK_US: u128 = 1_000_002;

/// Spans are whole milliseconds in a configuration; what is not a whole microsecond is rounded up.
fn us(span: Span) -> u64 {
    span.as_ns().div_ceil(NS_PER_US)
}

impl Parameters {
    /// Whether what it charges ends with the request, as a permit does.
    pub fn ends_with_request(&self) -> bool {
        self.kind == CONCURRENCY
    }

    /// How long a permit counts.
    pub fn max_hold(&self) -> Span {
        let [_, us, ..] = self.numbers;
        Span::from_ns(us.saturating_mul(NS_PER_US))
    }

    /// The same for a call in which the worker `holder` reports its `level` of permits. Later calls have higher numbers
    /// (`call`), and the report counts for `expire`.
    pub fn reporting(&self, holder: u64, call: u64, level: u64, expire: Span) -> Parameters {
        let [rpu, max_hold, ..] = self.numbers;
        Parameters { numbers: [rpu, max_hold, holder, call, level, us(expire)], ..*self }
    }

    /// Distinguishes the key of a count from that of an earlier layout: during a rolling upgrade, gateways of the two
    /// versions must not overwrite each other's values.
    pub fn layout(&self) -> u64 {
        if self.ends_with_request() { 1 << 32 } else { 0 }
    }

    /// Whether it has to be told what became of what it has handed out ahead; else that is charged already.
    pub fn wants_account(&self) -> bool {
        self.kind == TOKEN_BUCKET
    }

    /// The longest spans that such a count can report, in µs: the wait of an admitted request, and all other spans, such as
    /// the `Retry-After` of a refused request.
    pub fn longest_us(&self) -> (u64, u64) {
        let [a, b, c, d, ..] = self.numbers.map(u128::from);
        let span_of = |tokens: u128| tokens.saturating_mul(a).div_ceil(b.max(1));
        let (wait, reach) = match self.kind {
            TOKEN_BUCKET => (d, span_of(c).saturating_add(d)),
            LEAKY_BUCKET => {
                let longest = c.saturating_add(u128::from(d > 0));
                (longest, longest.saturating_add(span_of(1)))
            }
            // It is unknown when a permit comes back: the store reports one second.
            CONCURRENCY => (0, 1_000_000),
            REFUSE_ALL => (0, 0),
            _ => (0, b),
        };
        [(wait, 0), (reach, SLACK_US)]
            .map(|(us, more)| u64::try_from(us.saturating_add(more)).unwrap_or(u64::MAX))
            .into()
    }

    /// The burst of a token bucket.
    pub fn burst(&self) -> Option<u64> {
        let [_, _, burst, ..] = self.numbers;
        (self.kind == TOKEN_BUCKET).then_some(burst)
    }

    /// Whether both are of a token bucket that differs in `rpu` and `burst` alone; whoever asks knows its unit.
    pub fn is_resized(&self, other: &Parameters) -> bool {
        let Parameters { kind, numbers: [.., max_wait, start, _] } = *self;
        let Parameters { numbers: [.., others_wait, others_start, _], .. } = *other;
        kind == TOKEN_BUCKET && other.kind == kind && (max_wait, start) == (others_wait, others_start)
    }

    /// Whether a rule with the other terms can never refuse. Condition: a rule with these terms counts the same requests,
    /// and a request passes only if both rules admit it.
    ///
    /// | these | other | if |
    /// | --- | --- | --- |
    /// | `TB` | `TB` | neither waits; the other starts full, fills at least as fast and holds at least as much |
    /// | `TB` | `W`, `SW`, `SL` | this one does not wait; `burst` and the refill in the other's unit are within its `rpu` |
    /// | `W` | `W` | the other's unit is a multiple of this one, and that multiple of `rpu` is within the other's |
    /// | `W` | `SW`, `SL` | `rpu` of all windows that a unit of the other can touch is within the other's |
    /// | `SW` | `SW` | unit and slices are the same, and `rpu` is within the other's |
    /// | `SL` | `W`, `SW`, `SL` | `rpu` of all units that fit into one of the other, rounded up, is within the other's |
    /// | `LB` | `LB` | the other's turns are at least as close, and its queue is at least as long |
    /// | `C` | `C` | `max_hold` is the same, and `rpu` is within the other's |
    pub fn covers(&self, other: &Parameters) -> bool {
        let product = |a: u64, b: u64| u128::from(a).saturating_mul(b.into());
        let ([a, b, c, d, ..], [oa, ob, oc, od, oe, _]) = (self.numbers, other.numbers);
        let is_within = |times: Option<u64>| times.is_some_and(|times| product(a, times) <= oa.into());
        match (self.kind, other.kind) {
            (TOKEN_BUCKET, TOKEN_BUCKET) => {
                (d, od, oe) == (0, 0, 0) && c <= oc && product(a, ob) >= product(oa, b)
            }
            (TOKEN_BUCKET, WINDOW | SLIDING_WINDOW | SLIDING_LOG) => {
                let refilled = product(ob, b).checked_div(a.into()).unwrap_or(u128::MAX);
                d == 0 && refilled.saturating_add(c.into()) <= oa.into()
            }
            (WINDOW, WINDOW) => ob.checked_rem(b) == Some(0) && is_within(ob.checked_div(b)),
            (WINDOW, SLIDING_WINDOW | SLIDING_LOG) => {
                is_within(ob.saturating_sub(1).checked_div(b).map(|times| times.saturating_add(2)))
            }
            (SLIDING_WINDOW, SLIDING_WINDOW) => (b, c) == (ob, oc) && a <= oa,
            (SLIDING_LOG, WINDOW | SLIDING_WINDOW | SLIDING_LOG) => {
                is_within(ob.saturating_sub(1).checked_div(b).map(|times| times.saturating_add(1)))
            }
            (LEAKY_BUCKET, LEAKY_BUCKET) => {
                product(a, ob) >= product(oa, b) && (c < oc || (c == oc && product(d, ob) <= product(od, b)))
            }
            (CONCURRENCY, CONCURRENCY) => b == ob && a <= oa,
            _ => false,
        }
    }

    /// `TB`: a token takes `a / b` µs, in lowest terms; `c` is the burst, `d` the longest wait in µs, `e` is 1 for one
    /// that starts empty, `f` is the unit in µs, or as much of it as matters.
    pub(super) fn token_bucket(
        rate: Rate,
        burst: u64,
        max_wait: Span,
        is_empty: bool,
        slack: Exact,
    ) -> Parameters {
        let unit = us(Span::from_ns(rate.add(slack, rate.span_of(1)).ceil()));
        let rate = rate.in_us();
        Parameters {
            kind: TOKEN_BUCKET,
            numbers: [rate.ns, rate.per.into(), burst, us(max_wait), is_empty.into(), unit],
        }
    }

    /// `W`: at most `a` in a window of `b` µs.
    pub(super) fn window(rpu: u64, unit: Span) -> Parameters {
        Parameters { kind: WINDOW, numbers: [rpu, us(unit), 0, 0, 0, 0] }
    }

    /// `SW`: at most `a` in `b` µs, cut into `c` slices.
    pub(super) fn sliding_window(rpu: u64, ring: Ring) -> Parameters {
        Parameters {
            kind: SLIDING_WINDOW,
            numbers: [rpu, us(Span::from_ns(ring.span_ns)), ring.len, 0, 0, 0],
        }
    }

    /// `SL`: at most `a` in any `b` µs.
    pub(super) fn sliding_log(rpu: u64, unit: Span) -> Parameters {
        Parameters { kind: SLIDING_LOG, numbers: [rpu, us(unit), 0, 0, 0, 0] }
    }

    /// `LB`: a turn takes `a / b` µs, in lowest terms; the last may be `c + d / b` µs off; `e` turns can be given back
    /// while others wait behind them.
    pub(super) fn leaky_bucket(rate: Rate, longest: Exact, turns: u64) -> Parameters {
        let (in_us, queued) = (rate.in_us(), rate.tokens_in(longest));
        // It is so many turns, or a span that a rule names.
        let longest = match rate.span_of(queued) == longest {
            true => in_us.span_of(queued),
            false => Exact::whole(us(Span::from_ns(longest.ns))),
        };
        Parameters {
            kind: LEAKY_BUCKET,
            numbers: [in_us.ns, in_us.per.into(), longest.ns, longest.fraction.into(), turns, 0],
        }
    }

    /// `C`: at most `a` in flight, each for at most `b` µs and an eighth more, which the worker sees to. See
    /// [`Terms::reporting`] for `c` to `f`.
    pub(super) fn concurrency(rpu: u64, max_hold: Span) -> Parameters {
        Parameters { kind: CONCURRENCY, numbers: [rpu, us(max_hold), 0, 0, 0, 0] }
    }
}
