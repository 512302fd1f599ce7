//! `LB`, the leaky bucket as a queue: passes requests one by one, `unit / rpu` apart. Requests
//! above the rate wait for their turn, in the order of arrival. A request that would wait too long,
//! or behind too many others, is refused.
//!
//! ```text
//!   arrives  x xx x                 turn = max(next, now)
//!   passes   │    │    │    │       admitted  ⇔  turn − now ≤ min(queue · unit / rpu, max_wait)
//!            └─ unit / rpu ─┘       and then  next := turn + unit / rpu
//! ```
//!
//! A request of cost `n` takes `n` consecutive turns and passes at the first one. The last one must
//! be within the limit.
//!
//! **Bound.** In any span `t` at most `1 + t · rpu / unit` requests pass, never closer together
//! than `unit / rpu`. The arithmetic is exact; a waiting request is woken at the next whole
//! nanosecond after its turn.
//!
//! **No waiting.** Hosts that hold no requests have a clock of whole milliseconds. There a request
//! passes in the millisecond of its turn; otherwise each turn would last until the next tick, and
//! the rate would be too low. The bound then holds for `t` + 1 ms.
//!
//! **Clocks.** If a clock steps back by at most [`MAX_SKEW`], all turns are kept, and requests are
//! refused for as long. If the clock steps back further, the next turn is clamped to the latest
//! possible one.

use super::bytes::{add_one, u32_at, u64_at, write};
use super::rate::{Exact, Rate};
use super::{
    Admission, Algorithm, AlgorithmKind, Charge, EvictionRank, MAX_SKEW, Parameters, Quota, Verdict, bits,
};
use diana_base::time::{Span, Time};
use diana_document::Fields;

/// The kind, for [`super::KINDS`].
pub static KIND: AlgorithmKind = AlgorithmKind {
    name: "leaky bucket",
    short: "LB",
    keys: &["queue", "max_wait"],
    per_unit: true,
    bound: "1 + t · rpu / unit in any span t",
    compile,
};

/// The layout of a cell, little-endian. The next turn: nanoseconds `u64`, fraction `u32`. The
/// number of clamps `u32`. Then one bit for each of the last turns, set if the turn was refunded.
/// Bit 0 is the turn before the next one.
const BITS: usize = 16;
/// The most turns that can be refunded while later requests wait.
const MAX_TURN_BITS: u64 = 1_024;
const FRACTION: usize = 8;
const CLAMPS: usize = 12;

/// The longest wait if neither `queue` nor `max_wait` is given. Longer waits outlast client
/// timeouts and fill the gateway with waiting requests.
const DEFAULT_WAIT: Span = Span::from_secs(10);

/// How far ahead a turn may be within the same millisecond.
const WITHIN_A_TICK_NS: u64 = 999_999;

#[derive(Debug)]
struct LeakyBucket {
    rate: Rate,
    /// Whether requests wait for their turns.
    waits: bool,
    /// The longest distance of a turn from now.
    longest: Exact,
    /// The size of a cell in bytes.
    size: usize,
}

fn compile(fields: &mut Fields, quota: Quota) -> Option<Box<dyn Algorithm>> {
    let rate = Rate::of(quota);
    let given = fields.take("queue");
    let is_given = given.is_some();
    let queue = given.map_or(Some(quota.rpu), |node| node.whole(0..=Quota::MAX_RPU));
    let max_wait = match fields.take("max_wait") {
        Some(node) => node.span(Span::ZERO..=super::MAX_WAIT).map(Some),
        None => Some(None),
    };
    let (queue, max_wait) = (queue?, max_wait?);
    let (queued, most) = (rate.span_of(queue), Exact::whole(super::MAX_WAIT.as_ns()));
    let longest = match max_wait {
        Some(max_wait) => queued.min(Exact::whole(max_wait.as_ns())),
        None if is_given => queued,
        None => queued.min(Exact::whole(DEFAULT_WAIT.as_ns())),
    };
    if longest > most {
        fields.fail(format!(
            "the last of a `queue` of {queue} at {} per {} waits longer than the {} that are allowed: give a `max_wait`",
            quota.rpu,
            quota.unit,
            super::MAX_WAIT
        ));
        return None;
    }
    let turns = rate.tokens_in(longest).min(MAX_TURN_BITS);
    let bits = usize::try_from(turns.div_ceil(8)).unwrap_or(0);
    Some(Box::new(LeakyBucket { rate, waits: true, longest, size: bits.saturating_add(BITS) }))
}

impl LeakyBucket {
    fn next(&self, cell: &[u8]) -> Exact {
        let fraction = u32_at(cell, FRACTION).min(self.rate.per.saturating_sub(1));
        Exact { ns: u64_at(cell, 0), fraction }
    }

    fn store(&self, cell: &mut [u8], next: Exact) {
        write(cell, 0, next.ns.to_le_bytes());
        write(cell, FRACTION, next.fraction.to_le_bytes());
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

/// The bits of refunded turns.
fn refunded_turns(cell: &mut [u8]) -> &mut [u8] {
    cell.get_mut(BITS..).unwrap_or_default()
}

impl Algorithm for LeakyBucket {
    fn meaning(&self) -> String {
        // The wait is part of the text, because a shorter queue would clamp the turns of a longer
        // one.
        let Exact { ns, fraction } = self.longest;
        format!("LB {} in {} ns, {ns} ns and {fraction} long", self.rate.per, self.rate.ns)
    }

    fn size(&self) -> usize {
        self.size
    }

    /// One request passes at once; the queue holds the rest.
    fn shown(&self, _: Quota) -> Quota {
        let places = self.rate.tokens_in(self.longest).saturating_add(1);
        Quota { rpu: places, unit: Span::from_ns(self.rate.span_of(places).ceil()) }
    }

    fn may_wait(&self) -> bool {
        self.waits && self.longest > Exact::default()
    }

    fn without_waiting(&self) -> Option<Box<dyn Algorithm>> {
        let longest = Exact::whole(WITHIN_A_TICK_NS);
        self.waits.then(|| Box::new(LeakyBucket { waits: false, longest, ..*self }) as Box<_>)
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        let latest_next = self.latest_next(now);
        let is_too_far_ahead = self.next(cell) > latest_next;
        if is_too_far_ahead {
            self.store(cell, latest_next);
            refunded_turns(cell).fill(0);
            add_one(cell, CLAMPS);
        }
        is_too_far_ahead
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        let rate = self.rate;
        let (instant, latest_turn) = (Exact::whole(now.as_ns()), self.latest_turn(now));
        // A client that comes back at its turn is sure to pass.
        let passes_at = if self.waits { latest_turn } else { instant };
        let turn = self.next(cell).min(self.latest_next(now)).max(instant);
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
                bits::shift_up(refunded_turns(cell), charged)
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
    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        self.prepare(cell, now);
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
            bits::shift_down(row, freed);
        } else {
            bits::set(row, between, charge.cost);
        }
        let refunded_before = bits::leading(row);
        bits::shift_down(row, refunded_before);
        let turns = freed.saturating_add(refunded_before);
        self.store(cell, rate.sub(next, rate.span_of(turns)));
    }

    fn parameters(&self) -> Parameters {
        Parameters::leaky_bucket(
            self.rate,
            self.longest,
            self.rate.tokens_in(self.longest).min(MAX_TURN_BITS),
        )
    }

    fn eviction_rank(&self, cell: &[u8], now: Time) -> EvictionRank {
        let instant = Exact::whole(now.as_ns());
        let turn = self.next(cell).min(self.latest_next(now));
        let free_in = Span::from_ns(self.rate.sub(turn, instant).ceil());
        if turn <= instant {
            EvictionRank::Nothing
        } else if turn > self.latest_turn(now) {
            EvictionRank::Refusing(free_in)
        } else {
            EvictionRank::Used(free_in)
        }
    }
}
