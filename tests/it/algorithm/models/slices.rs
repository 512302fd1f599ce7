//! The model of the fixed window, the sliding window and the permits of a concurrency limit: the
//! sum over the last few slices of time.

use super::{MAX_SKEW_NS, Reference, span};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Charge, Verdict};

/// Every charge with the number of its slice. A span of `span` has `per` slices, counted from the
/// epoch. The limit applies to the last `len` slices, including the current one.
///
/// If the clock steps back by at most [`MAX_SKEW_NS`], the newest charged slice stays current until
/// it ends. If the clock steps back further, every charge keeps its age in slices.
#[derive(Clone, Debug)]
pub struct Slices {
    span: i128,
    per: i128,
    len: i128,
    limit: u64,
    borrow: u64,
    charges: Vec<(i128, u64)>,
}

impl Slices {
    pub fn new(limit: u64, span: Span, per: u64, len: u64) -> Slices {
        let (span, per, len) = (span.as_ns().into(), per.into(), len.into());
        Slices { span, per, len, limit, borrow: 0, charges: Vec::new() }
    }

    /// The first whole nanosecond of a slice.
    fn begins(&self, slice: i128) -> i128 {
        (slice * self.span + self.per - 1).div_euclid(self.per)
    }

    /// Moves the log to `now` and returns the current slice.
    fn slice(&mut self, now: i128) -> i128 {
        let current = now * self.per / self.span;
        let Some(last) = self.charges.iter().map(|(slice, _)| *slice).max().filter(|last| *last > current)
        else {
            return current;
        };
        if self.begins(last) - now <= MAX_SKEW_NS {
            return last;
        }
        // Expired charges stay expired; the others cannot lie before the epoch.
        let len = self.len;
        self.charges.retain(|(slice, _)| *slice > last - len);
        self.charges.iter_mut().for_each(|(slice, _)| *slice = (*slice - (last - current)).max(0));
        current
    }

    fn live(&self, current: i128) -> u64 {
        self.charges.iter().filter(|(slice, _)| *slice > current - self.len).map(|(_, cost)| cost).sum()
    }

    /// The time until at most `rest` units are live.
    fn wait(&self, current: i128, now: i128, rest: u64) -> Span {
        let then = (current..).find(|slice| self.live(*slice) <= rest).unwrap();
        if then == current { Span::ZERO } else { span(self.begins(then) - now) }
    }
}

impl Reference for Slices {
    fn step(&mut self, now: Time, cost: u64) -> Verdict {
        let now = i128::from(now.as_ns());
        let current = self.slice(now);
        let outcome = if cost > self.limit {
            Admission::Refuse { retry_after: None }
        } else if cost > 0 && self.live(current) + cost > self.limit {
            Admission::Refuse { retry_after: Some(self.wait(current, now, self.limit - cost)) }
        } else {
            self.charges.extend((cost > 0).then_some((current, cost)));
            Admission::Admit { delay: Span::ZERO }
        };
        let live = self.live(current);
        Verdict {
            admission: outcome,
            remaining: self.limit.saturating_sub(live),
            more_in: if live == 0 { Span::ZERO } else { self.wait(current, now, live.min(self.limit) - 1) },
            full_in: self.wait(current, now, 0),
            charge: Charge::default(),
        }
    }

    fn borrow(&mut self, borrow: u64) {
        self.borrow = borrow;
    }

    fn charge(&mut self, now: Time, cost: u64) {
        let current = self.slice(i128::from(now.as_ns()));
        let cost = cost.min(self.limit + self.borrow - self.live(current));
        self.charges.extend((cost > 0).then_some((current, cost)));
    }

    /// As many rings as cover all slices that the span can touch.
    fn most(&self, elapsed_ns: u128, _: u64) -> u128 {
        let (span, per) = (self.span.unsigned_abs(), self.per.unsigned_abs());
        let touched = (elapsed_ns * per).div_ceil(span) + 1;
        touched.div_ceil(self.len.unsigned_abs()) * u128::from(self.limit)
    }

    fn coarse_ns(&self) -> u128 {
        self.span.unsigned_abs().div_ceil(self.per.unsigned_abs())
    }
}
