//! The model of the leaky bucket.

use super::{MAX_SKEW_NS, Reference, span};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Allowance, Charge, Verdict};

/// Turns that are one token's time apart. A request takes the first free turns, as many as it
/// costs. It is refused if the last of them were more than `longest` away.
///
/// Instants are in nanoseconds times `rpu`, so that they are whole numbers: a token takes `unit`.
///
/// If the clock steps back, the turns stay. But the last turn is clamped to the latest one that a
/// clock [`MAX_SKEW_NS`] ahead could have given.
#[derive(Clone, Debug)]
pub struct Queue {
    rpu: i128,
    unit: i128,
    longest: i128,
    /// The last turn in use.
    last: Option<i128>,
}

impl Queue {
    pub fn new(quota: Allowance, queue: u64, max_wait: Option<Span>) -> Queue {
        let (rpu, unit) = (i128::from(quota.rpu), i128::from(quota.unit.as_ns()));
        let queued = i128::from(queue) * unit;
        let longest = max_wait.map_or(queued, |wait| queued.min(i128::from(wait.as_ns()) * rpu));
        Queue { rpu, unit, longest, last: None }
    }

    /// The most that one request may cost.
    pub fn capacity(&self) -> u64 {
        u64::try_from(self.longest / self.unit + 1).unwrap()
    }

    /// In whole nanoseconds, rounded up.
    fn span(&self, instants: i128) -> Span {
        span((instants.max(0) + self.rpu - 1) / self.rpu)
    }

    /// The `count`-th free turn from `now` on.
    fn turn(&self, now: i128, count: u64) -> i128 {
        let first = self.last.map_or(now, |last| now.max(last + self.unit));
        first + i128::from(count - 1) * self.unit
    }
}

impl Reference for Queue {
    fn step(&mut self, now: Time, cost: u64) -> Verdict {
        let now = i128::from(now.as_ns()) * self.rpu;
        let latest_possible = now + self.longest + MAX_SKEW_NS * self.rpu;
        self.last = self.last.map(|last| last.min(latest_possible));
        let latest = now + self.longest;
        let outcome = if cost == 0 {
            Admission::Admit { delay: Span::ZERO }
        } else if cost > self.capacity() {
            Admission::Refuse { retry_after: None }
        } else if self.turn(now, cost) > latest {
            Admission::Refuse { retry_after: Some(self.span(self.turn(now, cost) - latest)) }
        } else {
            let first = self.turn(now, 1);
            self.last = Some(self.turn(now, cost));
            Admission::Admit { delay: self.span(first - now) }
        };
        let free = (latest - self.turn(now, 1)).div_euclid(self.unit) + 1;
        let remaining = u64::try_from(free.max(0)).unwrap();
        let is_most = remaining == self.capacity();
        Verdict {
            admission: outcome,
            remaining,
            more_in: if is_most { Span::ZERO } else { self.span(self.turn(now, remaining + 1) - latest) },
            full_in: self.span(self.turn(now, 1) - now),
            charge: Charge::default(),
        }
    }

    /// One request passes with its whole cost; the next one passes after as much time.
    fn most(&self, elapsed_ns: u128, largest: u64) -> u128 {
        let came = i128::try_from(elapsed_ns).unwrap() * self.rpu / self.unit;
        u128::from(largest.max(1)) + u128::try_from(came).unwrap()
    }
}
