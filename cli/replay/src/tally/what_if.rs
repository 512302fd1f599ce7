//! Tries other quotas for a rule on the requests that the rule checked: a geometric grid, and the
//! least quotas that refuse no more than a share, by bisection.

use super::quotas::{Refused, Variants, check};
use super::stream::{Event, Stream};
use crate::summary::{Least, WhatIf};
use diana_limiter::algorithm::Allowance;
use diana_limiter::time::Span;
use std::borrow::Cow;

/// The most quotas of a grid.
const MOST: usize = 40;

/// The requests of a rule, and the rule.
#[derive(Debug)]
pub struct Trial<'a> {
    /// The rule.
    pub variants: &'a Variants,
    /// The requests of the actors in the sample.
    pub stream: &'a Stream,
    /// How many actors each actor of the sample represents.
    pub weights: &'a [u64],
}

/// The results of all quotas of a rule.
///
/// If a quota never refuses an actor, no higher quota does, except with `warm_up`, so the quotas
/// are tried in ascending order, each only on the actors that the one before refuses.
#[derive(Clone, Debug, Default)]
pub struct Trials {
    /// The grid, in ascending order.
    pub what_if: Vec<WhatIf>,
    /// The least quotas.
    pub least: Least,
}

/// A quota that was tried.
#[derive(Clone, Copy)]
struct Tried {
    rpu: u64,
    refused: u64,
}

impl Trial<'_> {
    /// The number of all requests, by weight.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let weight = |place: u32| self.weights.get(usize::try_from(place).ok()?).copied();
        self.stream.iter().filter_map(|event| weight(event.place)).fold(0, u64::saturating_add)
    }

    /// Tries quotas around `quota` and the highest `peak`, a number of requests.
    #[must_use]
    pub fn run(&self, quota: Allowance, peak: u64) -> Trials {
        let rpu = quota.rpu;
        let all = self.requests();
        let shares = [0, all / 1_000, all / 100];
        let mut least = [None; 3];
        let mut what_if = Vec::new();
        let mut before: Option<Tried> = None;
        // The requests of all actors that the quota before refuses, and perhaps of others.
        let (mut requests, mut actors) = (Cow::Borrowed(self.stream), self.weights.len());
        for next in grid(rpu, self.highest_cost(quota.unit, peak)) {
            let Some(refused) = self.check(next, None, &requests) else {
                // A mistake, such as less than the cost of a request: the least quota is above.
                before = Some(Tried { rpu: next, refused: u64::MAX });
                continue;
            };
            what_if.push(WhatIf {
                rpu: next,
                refused: refused.requests,
                refused_actors: refused.actor_count(self.weights),
            });
            for (least, share) in least.iter_mut().zip(shares) {
                if least.is_none() && refused.requests <= share {
                    *least = Some(match before {
                        Some(tried) => self.bisect(tried, next, share, &requests),
                        // The grid begins at 1.
                        None => next,
                    });
                }
            }
            if refused.requests == 0 && next >= rpu {
                break;
            }
            before = Some(Tried { rpu: next, refused: refused.requests });
            let left = refused.actors.iter().filter(|is_refused| **is_refused).count();
            // A copy pays off only if it leaves out many requests.
            if left < actors / 2 && self.variants.spares_the_same() {
                let is_refused = |place: u32| {
                    let found = refused.actors.get(usize::try_from(place).ok()?);
                    found.filter(|is_refused| **is_refused).map(|_| place)
                };
                (requests, actors) = (Cow::Owned(requests.of(is_refused)), left);
            }
        }
        let [none, per_mille, percent] = least;
        Trials { what_if, least: Least { none, per_mille, percent } }
    }

    /// The least quota above `low` and up to `high` that refuses at most `most` of `requests`.
    fn bisect(&self, low: Tried, high: u64, most: u64, requests: &Stream) -> u64 {
        debug_assert!(low.refused > most);
        let (mut refuses, mut fits) = (low.rpu, high);
        while fits.saturating_sub(refuses) > 1 {
            let middle = refuses.midpoint(fits);
            match self.check(middle, None, requests) {
                Some(refused) if refused.requests <= most => fits = middle,
                _ => refuses = middle,
            }
        }
        fits
    }

    /// What a quota refuses, with another `burst` if there is one. `None` if the rule cannot have
    /// the quota.
    #[must_use]
    pub fn check(&self, rpu: u64, burst: Option<u64>, stream: &Stream) -> Option<Refused> {
        let policy = self.variants.with(rpu, burst)?;
        let (_, rule) = policy.rules().next()?;
        Some(check(rule.quota(), stream, self.weights))
    }

    /// The most units that an actor costs within one `unit`, if at most `peak` requests of an actor
    /// come within one.
    fn highest_cost(&self, unit: Span, peak: u64) -> u64 {
        let mut costs = vec![(0, 0u64); self.weights.len()];
        let (mut highest, mut largest) = (0, 1);
        for Event { place, at, cost, .. } in self.stream.iter() {
            largest = cost.max(largest);
            let present = at.as_ns().checked_div(unit.as_ns());
            let known = usize::try_from(place).ok().and_then(|place| costs.get_mut(place));
            if let (Some(present), Some((unit, sum))) = (present, known) {
                if *unit != present {
                    (*unit, *sum) = (present, 0);
                }
                *sum = sum.saturating_add(cost);
                highest = highest.max(*sum);
            }
        }
        match largest {
            1 => peak,
            // Requests in flight have no unit.
            _ if unit == Span::ZERO => peak.saturating_mul(largest),
            _ => highest,
        }
    }
}

/// Quotas in ascending order, from below the configured one and the highest peak to above both.
fn grid(rpu: u64, peak: u64) -> Vec<u64> {
    let (rpu, peak) = (rpu.max(1), peak.max(1));
    // Only a window can have more.
    let most = if rpu > Allowance::MAX_RPU { Allowance::MAX_IN_WINDOW } else { Allowance::MAX_RPU };
    let low = (rpu.min(peak) / 32).max(1);
    // Even an interval that begins in the middle of a unit has at most twice the peak.
    let high = rpu.max(peak.saturating_mul(2)).saturating_mul(2).min(most);
    let steps = MOST.saturating_sub(2);
    let ratio = ((high as f64 / low as f64).powf(1.0 / steps as f64)).max(std::f64::consts::SQRT_2);
    let lanes = (0..=steps).map(|step| {
        let exact = low as f64 * ratio.powi(i32::try_from(step).unwrap_or(i32::MAX));
        (exact.round() as u64).clamp(1, most)
    });
    let mut lanes: Vec<u64> = lanes.chain([1, rpu]).collect();
    lanes.sort_unstable();
    lanes.dedup();
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use diana_config::rule_places;
    use diana_limiter::time::Time;

    fn variants(rule: &str) -> Variants {
        let document = format!(r#"[{{"url": "/", "rules": [{rule}]}}]"#);
        let places = rule_places(document.as_bytes()).unwrap();
        Variants::new(&serde_json::from_str(&document).unwrap(), &places[0]).unwrap()
    }

    fn quota(rpu: u64) -> Allowance {
        Allowance { rpu, unit: Span::from_secs(1) }
    }

    /// Four actors with peaks of 1, 2, 4 and 100 requests in one second.
    fn stream() -> Stream {
        let mut stream = Stream::new(false);
        let counts = [1u32, 2, 4, 100];
        for round in 0..100 {
            for (place, _) in counts.iter().enumerate().filter(|(_, count)| round < **count) {
                let at = Time::from_ns(1_795_392_000_000_000_000 + u64::from(round));
                stream.push(Event {
                    place: place as u32,
                    at,
                    cost: 1,
                    is_high_priority: false,
                    duration_ns: 0,
                });
            }
        }
        stream
    }

    #[test]
    fn the_grid_and_the_least_quotas_are_exact() {
        for algo in ["W", "SW", "SL", "TB"] {
            let variants =
                variants(&format!(r#"{{"rpu": 3, "unit": "second", "algo": "{algo}", "overrides": {{}}}}"#));
            let stream = stream();
            let trial = Trial { variants: &variants, stream: &stream, weights: &[1; 4] };
            let Trials { what_if, least } = trial.run(quota(3), 100);
            for WhatIf { rpu, refused, refused_actors } in &what_if {
                let over = [1u64, 2, 4, 100].map(|count| count.saturating_sub(*rpu));
                assert_eq!(*refused, over.iter().sum::<u64>(), "{algo} {rpu}");
                assert_eq!(
                    *refused_actors,
                    over.iter().filter(|over| **over > 0).count() as u64,
                    "{algo} {rpu}"
                );
            }
            assert!(what_if.iter().any(|lane| lane.rpu == 3));
            assert_eq!(least.none, Some(100), "{algo}");
            // Of 107 requests, none is 0.1 %, and one is 1 %.
            assert_eq!((least.per_mille, least.percent), (Some(100), Some(99)), "{algo}");
        }
    }

    #[test]
    fn permits_return_at_the_end() {
        let variants = variants(r#"{"rpu": 1, "algo": "C"}"#);
        let mut stream = Stream::new(true);
        for at in 0..10u64 {
            stream.push(Event {
                place: 0,
                at: Time::from_ns(1_795_392_000_000_000_000 + at),
                cost: 1,
                is_high_priority: false,
                duration_ns: 3,
            });
        }
        let trial = Trial { variants: &variants, stream: &stream, weights: &[1] };
        let Trials { what_if, least } = trial.run(Allowance { rpu: 1, unit: Span::ZERO }, 3);
        let refused: Vec<(u64, u64)> = what_if.iter().map(|lane| (lane.rpu, lane.refused)).collect();
        assert_eq!(refused, [(1, 6), (2, 3), (3, 0)]);
        assert_eq!(least.none, Some(3));
    }

    #[test]
    fn a_sample_is_extrapolated() {
        let variants = variants(r#"{"rpu": 50, "unit": "hour", "algo": "W"}"#);
        let stream = stream();
        let trial = Trial { variants: &variants, stream: &stream, weights: &[8, 4, 2, 1] };
        let found = trial.run(quota(3), 100).what_if.into_iter().find(|lane| lane.rpu == 3).unwrap();
        // One request of the third actor, who represents two, and 97 of the last one.
        assert_eq!((found.refused, found.refused_actors), (2 + 97, 2 + 1));
        assert_eq!(trial.requests(), 8 + 2 * 4 + 4 * 2 + 100);
    }
}
