//! `LB`, the leaky bucket as a queue: passes requests one by one, `unit / rpu` apart, in the order
//! of arrival, and refuses those that would wait too long or behind too many others. A request of
//! cost `n` takes `n` consecutive turns and passes at the first.
//!
//! ```text
//!   arrives  x xx x                 turn = max(next, now)
//!   passes   │    │    │    │       admitted  ⇔  turn − now ≤ min(queue · unit / rpu, max_wait)
//!            └─ unit / rpu ─┘       and then  next := turn + unit / rpu
//! ```
//!
//! **Bound.** At most `1 + t · rpu / unit` in any span `t`; on hosts that hold no requests, whose
//! clocks count milliseconds, for `t` + 1 ms. Under another quota or a clock that steps back by at
//! most [`MAX_SKEW`], turns stay.

use super::bytes::{add_one, leading_bits, set_bits, shift_down, shift_up, u32_at, u64_at, u128_at, write};
use super::kind::Kind;
use super::rate::{Exact, Rate};
use super::values::{in_proportion, part};
use super::{Admission, Allowance, Charge, MAX_SKEW, Parameters, QuotaError, Verdict};
use diana_base::time::{Span, Time};

/// The layout of a cell, little-endian. The next turn: nanoseconds `u64`, fraction `u32`. The
/// number of clamps and of new rows `u32`. The [`Numbers`] of the carried quota. Then one bit for
/// each of the last turns, set if the turn was refunded. Bit 0 is the turn before the next one.
const BITS: usize = 32;
const NUMBERS: usize = 16;
/// The fewest bits of a cell. The number doubles as long as a queue has more turns.
const LEAST_TURN_BITS: u64 = 16;
/// The most turns that can be refunded while later requests wait.
const MAX_TURN_BITS: u64 = 1_024;
const FRACTION: usize = 8;
const CLAMPS: usize = 12;

/// The longest wait if neither `queue` nor `max_wait` is given. Longer waits outlast client
/// timeouts and fill the gateway with waiting requests.
const DEFAULT_WAIT: Span = Span::from_secs(10);

/// How far ahead a turn may be within the same millisecond.
const WITHIN_A_TICK_NS: u64 = 999_999;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeakyBucket {
    rate: Rate,
    /// Whether requests wait for their turns.
    waits: bool,
    /// The longest distance of a turn from now.
    longest: Exact,
    /// The most turns that wait, and the longest wait in ms, if there is one.
    queue: u32,
    max_wait_ms: Option<u32>,
    /// The size of a cell in bytes.
    size: u16,
    /// The numbers of this quota, as cells carry them.
    numbers: Numbers,
}

/// The numbers of a quota in a cell, from the lowest bit: `rpu` in 32 bits, `unit` in ms in 32
/// bits, and the longest distance of a turn in ns in 64 bits, rounded up. The highest bit is set if
/// the next turn does not follow the last one, because that was refunded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(Rust, packed(8))]
struct Numbers(u128);

const IS_BEHIND_REFUND: u128 = 1 << 127;

impl Numbers {
    fn of(quota: Allowance, longest: Exact) -> Numbers {
        let number = |number: u64| u128::from(u32::try_from(number).unwrap_or(u32::MAX));
        let unit_ms = quota.unit.as_ns().checked_div(1_000_000).unwrap_or(0);
        Numbers(number(quota.rpu) | number(unit_ms) << 32 | u128::from(longest.ceil()) << 64)
    }

    fn behind_refund(self) -> Numbers {
        Numbers(self.0 | IS_BEHIND_REFUND)
    }

    fn is_behind_refund(self) -> bool {
        self.0 & IS_BEHIND_REFUND > 0
    }

    /// The bucket with these numbers. `None` if no configuration has them.
    fn bucket(self) -> Option<LeakyBucket> {
        let all = self.0 & !IS_BEHIND_REFUND;
        let [rpu, unit_ms] = [all, all >> 32].map(|number| (number & u128::from(u32::MAX)) as u64);
        let (quota, longest) = (Allowance { rpu, unit: Span::from_ms(unit_ms) }, (all >> 64) as u64);
        let is_allowed = (1..=Allowance::MAX_RPU).contains(&rpu)
            && (Allowance::MIN_UNIT..=Allowance::MAX_UNIT).contains(&quota.unit)
            && longest <= super::MAX_WAIT.as_ns();
        is_allowed.then(|| LeakyBucket {
            rate: Rate::of(quota),
            waits: true,
            longest: Exact::whole(longest),
            queue: 0,
            max_wait_ms: None,
            size: 0,
            numbers: self,
        })
    }
}

/// The numbers of a leaky bucket besides its quota. The default is that of a rule without them.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueOptions {
    /// How many requests may wait: 0 to 10⁹. `None`: `rpu`, but for at most 10 s if there is no
    /// `max_wait`.
    pub queue: Option<u64>,
    /// The longest wait of a request: at most [`MAX_WAIT`](super::MAX_WAIT).
    pub max_wait: Option<Span>,
}

impl LeakyBucket {
    /// See [`super::Algorithm::leaky_bucket`].
    pub(super) fn new(quota: Allowance, options: QueueOptions) -> Result<LeakyBucket, QuotaError> {
        quota.check(Allowance::MAX_RPU)?;
        let QueueOptions { queue, max_wait } = options;
        if queue.is_some_and(|queue| queue > Allowance::MAX_RPU) {
            return Err(QuotaError::Queue);
        }
        if max_wait.is_some_and(|max_wait| max_wait > super::MAX_WAIT) {
            return Err(QuotaError::MaxWait);
        }
        let longest = max_wait.or(queue.is_none().then_some(DEFAULT_WAIT));
        let bucket = LeakyBucket::of(quota, queue.unwrap_or(quota.rpu), longest);
        match queue {
            Some(queue) if bucket.longest > Exact::whole(super::MAX_WAIT.as_ns()) => {
                Err(QuotaError::QueueTime { queue })
            }
            _ => Ok(bucket),
        }
    }

    fn of(quota: Allowance, queue: u64, max_wait: Option<Span>) -> LeakyBucket {
        let rate = Rate::of(quota);
        let queued = rate.span_of(queue);
        let longest = max_wait.map_or(queued, |max_wait| queued.min(Exact::whole(max_wait.as_ns())));
        let turns = rate.tokens_in(longest).clamp(LEAST_TURN_BITS, MAX_TURN_BITS);
        let bits = turns.checked_next_power_of_two().unwrap_or(MAX_TURN_BITS);
        let size = usize::try_from(bits.div_ceil(8)).unwrap_or(0).saturating_add(BITS);
        let ms = |span: Span| span.as_ns().checked_div(1_000_000).unwrap_or(0);
        LeakyBucket {
            rate,
            waits: true,
            longest,
            queue: u32::try_from(queue).unwrap_or(u32::MAX),
            max_wait_ms: max_wait.and_then(|max_wait| u32::try_from(ms(max_wait)).ok()),
            size: u16::try_from(size).unwrap_or(u16::MAX),
            numbers: Numbers::of(quota, longest),
        }
    }

    /// See [`super::Algorithm::at`]. The queue moves from `rpu` on in proportion to the limit.
    pub(super) fn at(&self, quota: Allowance, rpu: u64) -> LeakyBucket {
        self.with(quota, in_proportion(self.queue.into(), quota.rpu, rpu).min(Allowance::MAX_RPU))
    }

    /// See [`super::Algorithm::share`]. If `rpu` was rounded down, a queue takes up to twice as
    /// long. Where that is too long, the queue is halved.
    pub(super) fn share(&self, quota: Allowance, of: u64, least: u64) -> LeakyBucket {
        let queue = part(self.queue.into(), of, least);
        let is_too_long = Rate::of(quota).span_of(queue) > Exact::whole(super::MAX_WAIT.as_ns());
        self.with(quota, if is_too_long && self.max_wait_ms.is_none() { queue >> 1 } else { queue })
    }

    /// The same queue with other numbers.
    fn with(&self, quota: Allowance, queue: u64) -> LeakyBucket {
        let max_wait = self.max_wait_ms.map(|ms| Span::from_ms(ms.into()));
        let bucket = LeakyBucket::of(quota, queue, max_wait);
        if self.waits { bucket } else { bucket.without_waiting().unwrap_or(bucket) }
    }

    /// See [`super::Algorithm::without_waiting`].
    pub(super) fn without_waiting(&self) -> Option<LeakyBucket> {
        let longest = Exact::whole(WITHIN_A_TICK_NS);
        self.waits.then_some(LeakyBucket { waits: false, longest, ..*self })
    }

    fn next(&self, cell: &[u8]) -> Exact {
        let fraction = u32_at(cell, FRACTION).min(self.rate.per.saturating_sub(1));
        Exact { ns: u64_at(cell, 0), fraction }
    }

    fn store(&self, cell: &mut [u8], next: Exact) {
        write(cell, 0, next.ns.to_le_bytes());
        write(cell, FRACTION, next.fraction.to_le_bytes());
        write(cell, NUMBERS, self.numbers.0.to_le_bytes());
    }

    /// The bucket with the quota that the cell carries, if this is another one.
    fn other(&self, cell: &[u8]) -> Option<LeakyBucket> {
        let numbers = Numbers(u128_at(cell, NUMBERS));
        if [self.numbers, self.numbers.behind_refund()].contains(&numbers) { None } else { numbers.bucket() }
    }

    /// Takes over a prepared cell of another bucket.
    fn take_over(&self, other: &LeakyBucket, cell: &mut [u8]) {
        let (next, spacing, others) = (other.next(cell), self.rate.span_of(1), other.rate.span_of(1));
        // Fractions of two rates have different parts, so the sum is rounded up.
        let sooner =
            if other.numbers.is_behind_refund() { 0 } else { others.ns.saturating_sub(spacing.ceil()) };
        let is_same = (self.rate.ns, self.rate.per) == (other.rate.ns, other.rate.per);
        if is_same {
            self.store(cell, next);
        } else {
            self.store(cell, Exact::whole(next.ceil().saturating_sub(sooner)));
            refunded_turns(cell).fill(0);
            add_one(cell, CLAMPS);
        }
    }

    /// The latest turn that a request at `now` may take.
    fn latest_turn(&self, now: Time) -> Exact {
        self.rate.add(Exact::whole(now.as_ns()), self.longest)
    }

    /// The latest value of the next turn that is possible at `now`: one turn after the latest turn,
    /// plus [`MAX_SKEW`].
    fn latest_next(&self, now: Time) -> Exact {
        let behind = self.rate.add(self.latest_turn(now), self.rate.span_of(1));
        self.rate.add(behind, Exact::whole(MAX_SKEW.as_ns()))
    }

    /// How many units fit into the turns from `turn` to `latest_turn`.
    fn places(&self, turn: Exact, latest_turn: Exact) -> u64 {
        if turn > latest_turn {
            return 0;
        }
        self.rate.tokens_in(self.rate.sub(latest_turn, turn)).saturating_add(1)
    }
}

impl LeakyBucket {
    /// [`Kind::prepare`] of a cell that carries this quota.
    fn prepare_own(&self, cell: &mut [u8], now: Time) -> bool {
        let latest_next = self.latest_next(now);
        let is_too_far_ahead = self.next(cell) > latest_next;
        if is_too_far_ahead {
            self.store(cell, latest_next);
            write(cell, NUMBERS, self.numbers.behind_refund().0.to_le_bytes());
            refunded_turns(cell).fill(0);
            add_one(cell, CLAMPS);
        }
        is_too_far_ahead
    }

    /// [`Kind::step`] of a cell that carries this quota.
    fn step_own(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        let rate = self.rate;
        let (instant, latest_turn) = (Exact::whole(now.as_ns()), self.latest_turn(now));
        // A client that comes back at its turn is sure to pass.
        let passes_at = if self.waits { latest_turn } else { instant };
        let turn = self.next(cell).max(instant);
        let places = self.places(turn, latest_turn);
        let capacity = self.places(instant, latest_turn);
        let (outcome, charged) = if cost == 0 {
            (Admission::Admit { delay: Span::ZERO }, 0)
        } else if cost > capacity {
            (Admission::Refuse { retry_after: None }, 0)
        } else if cost > places {
            // The turn of the last unit has to come within the limit.
            let last_unit_turn = rate.add(turn, rate.span_of(cost.saturating_sub(1)));
            (
                Admission::Refuse {
                    retry_after: Some(Span::from_ns(rate.sub(last_unit_turn, passes_at).ceil())),
                },
                0,
            )
        } else {
            let delay = if self.waits { rate.sub(turn, instant).ceil() } else { 0 };
            (Admission::Admit { delay: Span::from_ns(delay) }, cost)
        };
        let next = rate.add(turn, rate.span_of(charged));
        if charged > 0 {
            // Turns are contiguous while the queue is not empty. A gap starts a new row of bits.
            if self.next(cell) < turn {
                refunded_turns(cell).fill(0)
            } else {
                shift_up(refunded_turns(cell), charged)
            }
            self.store(cell, next);
        }
        let remaining = self.places(next, latest_turn);
        let one_more = rate.add(next, rate.span_of(remaining));
        let full = remaining == capacity;
        Verdict {
            admission: outcome,
            remaining,
            more_in: if full { Span::ZERO } else { Span::from_ns(rate.sub(one_more, passes_at).ceil()) },
            full_in: Span::from_ns(rate.sub(next, instant).ceil()),
            charge: Charge {
                cost: charged,
                at: now,
                booked_at: Time::from_ns(turn.ns),
                stamp: (turn.fraction, u32_at(cell, CLAMPS)),
            },
        }
    }

    /// Makes the last turn the next one again. If later requests wait, they keep their turns. The
    /// bit of the turn is then set, and the turn is reused once all later turns are refunded.
    fn refund_own(&self, cell: &mut [u8], charge: Charge) {
        let rate = self.rate;
        let (next, turn) =
            (self.next(cell), Exact { ns: charge.booked_at.as_ns(), fraction: charge.stamp.0 });
        let behind = rate.add(turn, rate.span_of(charge.cost));
        let between = rate.tokens_in(rate.sub(next, behind));
        if charge.stamp.1 != u32_at(cell, CLAMPS) || rate.add(behind, rate.span_of(between)) != next {
            return;
        }
        let row = refunded_turns(cell);
        let freed = if between == 0 { charge.cost } else { 0 };
        if freed > 0 {
            shift_down(row, freed);
        } else {
            set_bits(row, between, charge.cost);
        }
        let refunded_before = leading_bits(row);
        shift_down(row, refunded_before);
        let turns = freed.saturating_add(refunded_before);
        self.store(cell, rate.sub(next, rate.span_of(turns)));
        write(cell, NUMBERS, self.numbers.behind_refund().0.to_le_bytes());
    }
}

/// The bits of refunded turns.
fn refunded_turns(cell: &mut [u8]) -> &mut [u8] {
    cell.get_mut(BITS..).unwrap_or_default()
}

impl Kind for LeakyBucket {
    fn canonical_form(&self) -> String {
        let Exact { ns, fraction } = self.longest;
        let Rate { ns: spacing, per } = self.rate;
        format!("LB {per} in {spacing} ns, {ns} ns and {fraction} long")
    }

    /// Any two queues: the cell carries its quota.
    fn form(&self) -> String {
        "LB".into()
    }

    fn size(&self) -> usize {
        self.size.into()
    }

    /// One request passes at once; the queue holds the rest.
    fn shown(&self, _: Allowance) -> Allowance {
        let places = self.rate.tokens_in(self.longest).saturating_add(1);
        Allowance { rpu: places, unit: Span::from_ns(self.rate.span_of(places).ceil()) }
    }

    fn may_wait(&self) -> bool {
        self.waits && self.longest > Exact::default()
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        self.other(cell).unwrap_or(*self).prepare_own(cell, now)
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        let Some(other) = self.other(cell) else {
            return self.step_own(cell, now, cost);
        };
        let mut taken = cell.to_vec();
        self.take_over(&other, &mut taken);
        let verdict = self.step_own(&mut taken, now, cost);
        if verdict.charge.cost > 0 {
            cell.copy_from_slice(&taken);
        }
        verdict
    }

    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        let bucket = self.other(cell).unwrap_or(*self);
        bucket.prepare_own(cell, now);
        bucket.refund_own(cell, charge);
    }

    fn parameters(&self) -> Parameters {
        let bits = self.size().saturating_sub(BITS).saturating_mul(8);
        Parameters::leaky_bucket(self.rate, self.longest, u64::try_from(bits).unwrap_or(0))
    }

    fn rests_in(&self, cell: &[u8], now: Time) -> Span {
        let bucket = self.other(cell).unwrap_or(*self);
        let next = bucket.next(cell).min(bucket.latest_next(now));
        Span::from_ns(bucket.rate.sub(next, Exact::whole(now.as_ns())).ceil())
    }
}
