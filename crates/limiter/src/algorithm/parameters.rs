//! The parameters of an algorithm as numbers, for the Lua script of the Redis store
//! (`crates/global-redis/src/script.lua`). Spans are in microseconds, the resolution of Redis.
//! Every number is below 2⁵³, because Lua's numbers are doubles.

use super::Penalty;
use super::rate::{Exact, Rate};
use super::ring::Ring;
use super::values::{Allowance, COLD_FACTOR, MAX_WAIT};
use diana_base::time::Span;
use diana_calendar::Period;

/// The number of an algorithm kind, and up to six parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The kind; 0 refuses every request.
    pub kind: u8,
    /// The parameters; their meaning depends on the kind. Unused ones are 0.
    pub numbers: [u64; 6],
}

/// The parameters of a [`Penalty`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PenaltyParameters {
    /// The number of refusals that begin the penalty; 0 if refusals do not count.
    pub after: u64,
    /// The span in which refusals are counted together, in µs.
    pub unit_us: u64,
    /// The length of the penalty in µs.
    pub lasts_us: u64,
}

impl PenaltyParameters {
    pub(super) fn new(after: u32, unit: Span, lasts: Span) -> PenaltyParameters {
        PenaltyParameters { after: after.into(), unit_us: us(unit), lasts_us: us(lasts) }
    }

    /// The longest rest of a penalty that the store may report, in µs. It may have begun under
    /// another quota of the rule, with another length.
    #[must_use]
    pub fn longest_us() -> u64 {
        u64::try_from(SLACK_US).unwrap_or(u64::MAX).saturating_add(us(Penalty::MAX_SPAN))
    }
}

const REFUSE_ALL: u8 = 0;
const TOKEN_BUCKET: u8 = 1;
const WINDOW: u8 = 2;
const SLIDING_WINDOW: u8 = 3;
const SLIDING_LOG: u8 = 4;
const LEAKY_BUCKET: u8 = 5;
/// Number 6 is taken: a retired layout, a ring of permits by age that workers returned one by one.
const CONCURRENCY: u8 = 7;

/// The token bucket that warms up.
const WARM_UP: u8 = 8;

/// Number 9 is taken: adaptive limits, which no store counts.
/// Running gateways. Each holds one permit, so they are counted as permits are.
const GATEWAYS: u8 = 10;

/// `W` of a unit of the calendar.
const CALENDAR: u8 = 11;

/// No period of a calendar is further away: two years, and a changed anchor.
const LONGEST_PERIOD_US: u128 = 3 * 366 * 86_400 * 1_000_000;

/// No bucket of a configuration takes longer to fill: 100 years.
const LONGEST_FILL_US: u128 = 100 * 365 * 86_400 * 1_000_000;

/// The store cannot know when a permit returns, so it reports one second.
const NO_PERMIT_US: u64 = 1_000_000;

const NS_PER_US: u64 = 1_000;

/// The largest lead of another gateway's or the store's clock in µs, plus the error of rounding up.
const SLACK_US: u128 = 1_000_002;

/// Converts to µs, rounded up. Spans in a configuration are whole milliseconds.
fn us(span: Span) -> u64 {
    span.as_ns().div_ceil(NS_PER_US)
}

impl Parameters {
    /// Whether a charge ends with the request, as a permit does.
    #[must_use]
    pub fn ends_with_request(&self) -> bool {
        self.kind == CONCURRENCY
    }

    /// The most tokens that a unit of cost takes: three if the rule warms up, while it is cold.
    #[must_use]
    pub fn tokens_per_unit(&self) -> u64 {
        if self.kind == WARM_UP { COLD_FACTOR } else { 1 }
    }

    /// The longest time that a permit counts.
    #[must_use]
    pub fn max_hold(&self) -> Span {
        let [_, us, ..] = self.numbers;
        Span::from_ns(us.saturating_mul(NS_PER_US))
    }

    /// The parameters of a call in which the worker `holder` reports that it holds `level` permits.
    /// `call` increases from call to call. The report counts for `expire`.
    #[must_use]
    pub(crate) fn reporting(&self, holder: u64, call: u64, level: u64, expire: Span) -> Parameters {
        let [rpu, max_hold, ..] = self.numbers;
        Parameters { numbers: [rpu, max_hold, holder, call, level, us(expire)], ..*self }
    }

    /// The parameters of a call in which a gateway reports that it lives: it holds one of `most`
    /// permits. `call` increases from call to call. The report counts for `expire`.
    #[must_use]
    pub(crate) fn gateway(most: u64, gateway: u64, call: u64, expire: Span) -> Parameters {
        Parameters { kind: GATEWAYS, numbers: [most, NO_PERMIT_US, gateway, call, 1, us(expire)] }
    }

    /// The same parameters for a rule that settles, down to `borrow` units below empty.
    pub(super) fn borrowing(mut self, borrow: u64) -> Parameters {
        let [_, _, c, d, e, _] = &mut self.numbers;
        match self.kind {
            TOKEN_BUCKET => *e = e.saturating_add(borrow.saturating_mul(2)),
            WINDOW => *c = borrow,
            _ => *d = borrow,
        }
        self
    }

    /// A number in the Redis key that separates stored layouts: during a rolling upgrade, gateways
    /// of two versions must not overwrite each other's values.
    #[must_use]
    pub fn layout(&self) -> u64 {
        if self.ends_with_request() { 1 << 32 } else { 0 }
    }

    /// Whether the store takes back the rest of a lease that has expired. A window has ended by
    /// then.
    #[must_use]
    pub(crate) fn takes_back(&self) -> bool {
        matches!(self.kind, TOKEN_BUCKET | SLIDING_WINDOW)
    }

    /// Whether the store must learn how much of a lease was used. The other kinds charge a lease
    /// when they grant it.
    #[must_use]
    pub(crate) fn wants_usage(&self) -> bool {
        self.kind == TOKEN_BUCKET
    }

    /// The units that arrive within a second, whatever was used.
    #[must_use]
    pub(super) fn arriving(&self) -> u64 {
        let [us, per, ..] = self.numbers;
        debug_assert!(us > 0 || self.kind != TOKEN_BUCKET, "a bucket that never fills");
        if self.kind == TOKEN_BUCKET { per.saturating_mul(1_000_000).checked_div(us).unwrap_or(0) } else { 0 }
    }

    /// The longest spans that the store may report, in µs: first the wait of an admitted request,
    /// then any other span, such as the `Retry-After` of a refused request.
    pub fn longest_us(&self) -> (u64, u64) {
        let [a, b, c, d, ..] = self.numbers.map(u128::from);
        let span_of = |tokens: u128| tokens.saturating_mul(a).div_ceil(b.max(1));
        let (wait, reach) = match self.kind {
            // What the cell lacks may be missing of any quota of any configuration.
            TOKEN_BUCKET => (d, LONGEST_FILL_US.saturating_add(us(MAX_WAIT).into())),
            WARM_UP => (0, span_of(c)),
            LEAKY_BUCKET => {
                let longest = c.saturating_add(u128::from(d > 0));
                let others = us(MAX_WAIT).saturating_add(us(Allowance::MAX_UNIT));
                (longest, longest.saturating_add(span_of(1)).max(others.into()))
            }
            CONCURRENCY => (0, NO_PERMIT_US.into()),
            REFUSE_ALL => (0, 0),
            CALENDAR => (0, LONGEST_PERIOD_US),
            _ => (0, b),
        };
        [(wait, 0), (reach, SLACK_US)]
            .map(|(us, more)| u64::try_from(us.saturating_add(more)).unwrap_or(u64::MAX))
            .into()
    }

    /// The longest time that a lease lasts, in µs: that of a window or slice; of a bucket, the
    /// second of the lease and a part of the next one.
    #[must_use]
    pub fn longest_lease_us(&self) -> u64 {
        let [_, unit, ..] = self.numbers;
        let longest = if self.kind == TOKEN_BUCKET { us(Span::from_secs(2)) } else { unit };
        longest.saturating_add(u64::try_from(SLACK_US).unwrap_or(u64::MAX))
    }

    /// The burst of a token bucket, in units of cost.
    #[must_use]
    pub fn burst(&self) -> Option<u64> {
        let [_, _, burst, ..] = self.numbers;
        (self.kind == TOKEN_BUCKET).then_some(burst)
    }

    /// Whether a rule with the parameters `other` can never refuse. Condition: a rule with these
    /// parameters counts the same requests, and a request passes only if both rules admit it. In
    /// the table, "as" means "at least as".
    ///
    /// | these | other | if |
    /// | --- | --- | --- |
    /// | `TB` | `TB` | neither waits; the other starts full, refills as fast and holds as much |
    /// | `TB` | `W`, `SW`, `SL` | no wait; `burst` plus refill in the other's unit ≤ its `rpu` |
    /// | `W` | `W` | the other's unit is `n` units of this one; `n · rpu` ≤ its `rpu` |
    /// | `W` | `SW`, `SL` | the other's unit touches up to `n` windows; `n · rpu` ≤ its `rpu` |
    /// | `SW` | `SW` | same unit and slices; `rpu` ≤ the other's |
    /// | `SL` | `W`, `SW`, `SL` | `n` units cover one of the other; `n · rpu` ≤ its `rpu` |
    /// | `LB` | `LB` | the other's turns are as close, and its queue is as long |
    /// | `C` | `C` | same `max_hold`; `rpu` ≤ the other's |
    #[must_use]
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

    /// `TB`: a token takes `a / b` µs, in lowest terms. `c` is the burst, `d` the longest wait in
    /// µs, and `e` is 1 if the bucket starts empty, plus twice the units that settling may borrow.
    /// `f` is one token plus the slack in µs: the unit, as far as it matters.
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

    /// `TB` with `warm_up`: as for `TB`, but `d` is `warm_up` in µs.
    pub(super) fn warm_up(rate: Rate, burst: u64, warm_up: Span, is_empty: bool, slack: Exact) -> Parameters {
        let bucket = Parameters::token_bucket(rate, burst, warm_up, is_empty, slack);
        Parameters { kind: WARM_UP, ..bucket }
    }

    /// `W`: at most `a` units in each window of `b` µs. Settling may borrow `c` units.
    pub(super) fn window(rpu: u64, unit: Span) -> Parameters {
        Parameters { kind: WINDOW, numbers: [rpu, us(unit), 0, 0, 0, 0] }
    }

    /// `W` of a unit of the calendar: at most `a` units in each period. The present one has the
    /// number `b`, begins at `c` µs and ends at `d` µs; the next one ends at `e` µs. Settling may
    /// borrow `f` units.
    pub(super) fn calendar(rpu: u64, period: Period, borrow: u64) -> Parameters {
        let Period { number, start, end, next_end } = period;
        let [start, end, next_end] = [start, end, next_end].map(|second| us(Span::from_secs(second)));
        Parameters { kind: CALENDAR, numbers: [rpu, number.into(), start, end, next_end, borrow] }
    }

    /// `SW`: at most `a` units in `b` µs, divided into `c` slices. Settling may borrow `d` units.
    pub(super) fn sliding_window(rpu: u64, ring: Ring) -> Parameters {
        Parameters {
            kind: SLIDING_WINDOW,
            numbers: [rpu, us(Span::from_ns(ring.span_ns)), ring.len, 0, 0, 0],
        }
    }

    /// `SL`: at most `a` units in any span of `b` µs.
    pub(super) fn sliding_log(rpu: u64, unit: Span) -> Parameters {
        Parameters { kind: SLIDING_LOG, numbers: [rpu, us(unit), 0, 0, 0, 0] }
    }

    /// `LB`: a turn takes `a / b` µs, in lowest terms. The last turn is at most `c + d / b` µs
    /// away. `e` turns can be refunded while later requests wait.
    pub(super) fn leaky_bucket(rate: Rate, longest: Exact, turns: u64) -> Parameters {
        let (in_us, queued) = (rate.in_us(), rate.tokens_in(longest));
        // The limit is either a number of turns, or a span that the rule gives.
        let longest = match rate.span_of(queued) == longest {
            true => in_us.span_of(queued),
            false => Exact::whole(us(Span::from_ns(longest.ns))),
        };
        Parameters {
            kind: LEAKY_BUCKET,
            numbers: [in_us.ns, in_us.per.into(), longest.ns, longest.fraction.into(), turns, 0],
        }
    }

    /// `C`: at most `a` requests in flight, each for at most `b` µs; the worker adds an eighth. See
    /// [`Parameters::reporting`] for `c` to `f`.
    pub(super) fn concurrency(rpu: u64, max_hold: Span) -> Parameters {
        Parameters { kind: CONCURRENCY, numbers: [rpu, us(max_hold), 0, 0, 0, 0] }
    }
}
