//! The model of the token bucket with `warm_up`.

use super::{MAX_SKEW_NS, Reference, span};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Allowance, Charge, Verdict};

/// The bucket by its definition, unit by unit: a request takes one token for each unit, and the
/// area under the line above them.
///
/// Spans are in ticks, so that they are whole numbers: a nanosecond has `per` ticks, and a token
/// takes `token` ticks.
#[derive(Clone, Debug)]
pub struct Warming {
    per: i128,
    token: i128,
    burst: u64,
    full: bool,
    warm_up: i128,
    slack: i128,
    /// When the bucket is full, and the coldness at that instant. `None`: no request has come yet.
    state: Option<(i128, i128)>,
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `a · b / c`, rounded down, digit by digit: the product may exceed 128 bits.
fn product_over(a: i128, b: i128, c: i128) -> i128 {
    let (mut quotient, mut rest) = (0, 0);
    for bit in (0..100).rev() {
        (quotient, rest) = (2 * quotient, 2 * rest + if a >> bit & 1 == 1 { b } else { 0 });
        while rest >= c {
            (quotient, rest) = (quotient + 1, rest - c);
        }
    }
    quotient
}

impl Warming {
    pub fn new(quota: Allowance, burst: u64, full: bool, warm_up: Span) -> Warming {
        Warming::with_resolution(1, quota, burst, full, warm_up)
    }

    /// The model for Redis. All instants and spans that it takes and returns are in µs.
    pub fn in_us(quota: Allowance, burst: u64, full: bool, warm_up: Span) -> Warming {
        Warming::with_resolution(1_000, quota, burst, full, warm_up)
    }

    fn with_resolution(ns: i128, quota: Allowance, burst: u64, full: bool, warm_up: Span) -> Warming {
        let (rpu, unit) = (i128::from(quota.rpu), i128::from(quota.unit.as_ns()) / ns);
        let (per, token) = (rpu / gcd(rpu, unit), unit / gcd(rpu, unit));
        let slack = (unit * per - token).min(MAX_SKEW_NS / ns * per);
        let warm_up = i128::from(warm_up.as_ns()) / ns * per;
        Warming { per, token, burst, full, warm_up, slack, state: None }
    }

    /// The area above the line of one token, from half of the warm-up to `cold`.
    fn area(&self, cold: i128) -> i128 {
        let above = (cold - self.warm_up / 2).max(0);
        product_over(above, 2 * above, self.warm_up)
    }

    /// The ticks that `cost` units take.
    pub fn price(&self, cold: i128, cost: u64) -> i128 {
        let tokens = i128::from(cost) * self.token;
        tokens + self.area(cold) - self.area(cold - tokens)
    }

    fn fill(&self) -> i128 {
        i128::from(self.burst) * self.token
    }

    /// Moves the bucket to `now`: the instant at which it is full, and the coldness.
    fn at(&mut self, now: i128) -> (i128, i128) {
        let ticks = now * self.per;
        let empty = (ticks + self.fill(), self.warm_up);
        // A bucket that starts full has always been full.
        let (full_at, cold) = *self.state.get_or_insert(if self.full { (0, 0) } else { empty });
        if full_at > ticks + self.fill() + self.slack {
            self.state = Some((ticks + self.fill() + self.slack, self.warm_up));
            return self.at(now);
        }
        // Idleness begins with a whole nanosecond.
        let begins = (full_at + self.per - 1) / self.per;
        let idle = (now - begins).max(0) * self.per;
        (full_at.max(ticks), (cold + idle).min(self.warm_up))
    }

    /// The ticks from `now` until `cost` units can pass; at most 0 if they can. `None`: never.
    fn wait(&self, now: i128, (full_at, cold): (i128, i128), cost: u64) -> Option<i128> {
        let price = self.price(cold, cost);
        (cost <= self.burst && price <= self.fill()).then_some(full_at + price - now * self.per - self.fill())
    }

    fn span(&self, ticks: i128) -> Span {
        span((ticks.max(0) + self.per - 1) / self.per)
    }
}

impl Reference for Warming {
    fn step(&mut self, now: Time, cost: u64) -> Verdict {
        let now = i128::from(now.as_ns());
        let mut at = self.at(now);
        let admission = match self.wait(now, at, cost) {
            _ if cost == 0 => Admission::Admit { delay: Span::ZERO },
            None => Admission::Refuse { retry_after: None },
            Some(wait) if wait > 0 => Admission::Refuse { retry_after: Some(self.span(wait)) },
            Some(_) => {
                let tokens = i128::from(cost) * self.token;
                at = (at.0 + self.price(at.1, cost), (at.1 - tokens).max(0));
                self.state = Some(at);
                Admission::Admit { delay: Span::ZERO }
            }
        };
        let can_pass = |cost: u64| self.wait(now, at, cost).is_some_and(|wait| wait <= 0);
        // The price grows with the cost.
        let (mut least, mut most) = (0, self.burst + 1);
        while most - least > 1 {
            let middle = least + (most - least) / 2;
            (least, most) = if can_pass(middle) { (middle, most) } else { (least, middle) };
        }
        Verdict {
            admission,
            remaining: least,
            more_in: self.wait(now, at, least + 1).map_or(Span::ZERO, |wait| self.span(wait)),
            full_in: self.span(at.0 - now * self.per),
            charge: Charge::default(),
        }
    }

    fn most(&self, elapsed_ns: u128, _: u64) -> u128 {
        let ticks = elapsed_ns * self.per.unsigned_abs();
        u128::from(self.burst) + ticks / self.token.unsigned_abs()
    }
}
