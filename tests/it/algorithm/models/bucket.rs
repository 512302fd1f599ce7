//! The model of the token bucket.

use super::{MAX_SKEW_NS, Reference, span};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Allowance, Charge, Verdict};

/// The token bucket by its definition: a level that grows by `rpu` per unit, up to `burst`. A
/// request may take the level below zero by what comes in `max_wait`, and waits until the level is
/// zero again.
///
/// Levels are in tokens times `unit`, so that they are whole numbers: one nanosecond adds `rpu`.
///
/// The level follows the clock both ways. If the clock steps back, the tokens since that instant
/// are removed, even below zero. But it never falls below the debt of one second, or of the unit
/// less one token.
#[derive(Clone, Debug)]
pub struct Bucket {
    rpu: i128,
    unit: i128,
    burst: i128,
    full: bool,
    /// How far the level may fall below zero.
    overdraft: i128,
    /// How far settling may take the level below zero.
    borrow: i128,
    /// The latest instant of a charge. If the clock steps back by more than a second since, a
    /// bucket that may borrow has the level that it had at that instant.
    latest: i128,
    /// The level at the last charge, and the instant of that charge. `None`: no request has come
    /// yet.
    state: Option<(i128, i128)>,
}

impl Bucket {
    pub fn new(quota: Allowance, burst: u64, full: bool, max_wait: Span) -> Bucket {
        let (rpu, unit) = (i128::from(quota.rpu), i128::from(quota.unit.as_ns()));
        let overdraft = i128::from(max_wait.as_ns()) * rpu;
        Bucket {
            rpu,
            unit,
            burst: i128::from(burst) * unit,
            full,
            overdraft,
            borrow: 0,
            latest: 0,
            state: None,
        }
    }

    /// The most that one request may cost.
    pub fn capacity(&self) -> u64 {
        u64::try_from((self.burst + self.overdraft) / self.unit).unwrap()
    }

    fn level(&mut self, now: i128) -> i128 {
        // A bucket that starts full has always been full.
        let first = if self.full { (self.burst, 0) } else { (0, now) };
        let (level, at) = *self.state.get_or_insert(first);
        if self.borrow > 0 && self.latest - now > MAX_SKEW_NS {
            let then = (level + (self.latest - at) * self.rpu).min(self.burst);
            (self.state, self.latest) = (Some((then, now)), now);
        }
        let (level, at) = self.state.unwrap();
        let level = level + (now - at) * self.rpu;
        let least = -self.overdraft - self.borrow - (self.unit * (self.rpu - 1)).min(self.rpu * MAX_SKEW_NS);
        if level < least {
            (self.state, self.latest) = (Some((least, now)), now);
        }
        level.clamp(least, self.burst)
    }

    /// The time until `level` reaches `wanted`.
    fn wait(&self, level: i128, wanted: i128) -> Span {
        span(((wanted - level).max(0) + self.rpu - 1) / self.rpu)
    }
}

impl Reference for Bucket {
    fn step(&mut self, now: Time, cost: u64) -> Verdict {
        let now = i128::from(now.as_ns());
        let (mut level, wanted) = (self.level(now), i128::from(cost) * self.unit);
        let outcome = if cost == 0 {
            Admission::Admit { delay: Span::ZERO }
        } else if cost > self.capacity() {
            Admission::Refuse { retry_after: None }
        } else if level - wanted < -self.overdraft {
            Admission::Refuse { retry_after: Some(self.wait(level, wanted - self.overdraft)) }
        } else {
            level -= wanted;
            (self.state, self.latest) = (Some((level, now)), self.latest.max(now));
            Admission::Admit { delay: self.wait(level, 0) }
        };
        let remaining = u64::try_from((level + self.overdraft).max(0) / self.unit).unwrap();
        let more = i128::from(remaining + 1) * self.unit - self.overdraft;
        Verdict {
            admission: outcome,
            remaining,
            more_in: if remaining == self.capacity() { Span::ZERO } else { self.wait(level, more) },
            full_in: self.wait(level, self.burst),
            charge: Charge::default(),
        }
    }

    fn borrow(&mut self, borrow: u64) {
        self.borrow = i128::from(borrow) * self.unit;
    }

    fn charge(&mut self, now: Time, cost: u64) {
        let now = i128::from(now.as_ns());
        let level = self.level(now);
        let cost = i128::from(cost).min((level + self.borrow).max(0) / self.unit);
        if cost > 0 {
            let level = level - cost * self.unit;
            (self.state, self.latest) = (Some((level, now)), self.latest.max(now));
        }
    }

    /// A request that costs more than the burst passes at once when all its tokens have come.
    fn most(&self, elapsed_ns: u128, largest: u64) -> u128 {
        let came = i128::try_from(elapsed_ns).unwrap() * self.rpu / self.unit;
        u128::try_from((self.burst / self.unit).max(largest.into()) + came).unwrap()
    }
}
