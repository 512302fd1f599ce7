//! Rules of nginx and of ingress-nginx, which have the same algorithms: `limit_req` and
//! `limit_conn`.

use super::draft::{Object, object};
use super::rate::{span, unit};
use serde_json::json;

/// What happens to a request that comes early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Early {
    /// It passes at once: `nodelay`.
    Passes,
    /// It waits for its turn.
    Waits,
    /// It passes at once while at most this number have come early, else it waits: `delay=`.
    WaitsBeyond(u64),
}

/// A `limit_req` and the rate of its zone.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    /// Requests per unit.
    pub rpu: u64,
    /// The unit in milliseconds.
    pub unit_ms: u64,
    /// How many requests may come early.
    pub burst: u64,
    /// What happens to these.
    pub early: Early,
}

/// The longest wait that Diana allows, in milliseconds.
const LONGEST_WAIT_MS: u64 = 3_600_000;

impl Requests {
    /// The keys of the rule, and the reason if it admits less than nginx.
    ///
    /// The formula of nginx is that of a bucket of `burst + 1` tokens: docs/migrate/nginx.md.
    #[must_use]
    pub fn rule(&self) -> (Object, Option<String>) {
        let Requests { rpu, unit_ms, burst, early } = *self;
        let tokens = burst.saturating_add(1);
        let base = json!({"rpu": rpu, "unit": unit(unit_ms)});
        let with = |more: serde_json::Value| {
            let mut keys = object(base.clone());
            keys.extend(object(more));
            keys
        };
        match early {
            Early::Passes => (with(json!({"burst": tokens})), None),
            _ if burst == 0 => (with(json!({"burst": 1})), None),
            Early::WaitsBeyond(delay) if delay >= burst => (with(json!({"burst": tokens})), None),
            Early::Waits | Early::WaitsBeyond(0) => {
                let most = LONGEST_WAIT_MS.saturating_mul(rpu).checked_div(unit_ms).unwrap_or(0);
                let why = (burst > most).then(|| {
                    format!("a request waits for at most an hour, so {most} of {burst} requests may wait")
                });
                (with(json!({"algo": "LB", "queue": burst.min(most)})), why)
            }
            Early::WaitsBeyond(delay) => {
                let wait = burst.saturating_sub(delay).saturating_mul(unit_ms).div_ceil(rpu.max(1));
                let why = (wait > LONGEST_WAIT_MS)
                    .then(|| format!("a request waits for at most an hour, not for {}", span(wait)));
                let wait = span(wait.min(LONGEST_WAIT_MS));
                (with(json!({"burst": delay.saturating_add(1), "max_wait": wait})), why)
            }
        }
    }
}

/// The keys of a rule for `limit_conn`.
#[must_use]
pub fn connections(most: u64) -> Object {
    object(json!({"algo": "C", "rpu": most, "max_hold": "1h"}))
}

/// What differs for each `limit_conn`.
pub const PERMITS: &str = "a permit also returns after `max_hold`: set it longer than your longest request";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn rule(rpu: u64, unit_ms: u64, burst: u64, early: Early) -> (Value, bool) {
        let (keys, why) = Requests { rpu, unit_ms, burst, early }.rule();
        (Value::from(keys), why.is_some())
    }

    /// The table of docs/migrate/nginx.md.
    #[test]
    fn the_numbers_are_those_of_the_guide() {
        let minute = 60_000;
        let cases = [
            (Early::Passes, json!({"rpu": 12, "unit": "minute", "burst": 6})),
            (Early::Waits, json!({"rpu": 12, "unit": "minute", "algo": "LB", "queue": 5})),
            // (5 - 2) requests at one in 5 s.
            (Early::WaitsBeyond(2), json!({"rpu": 12, "unit": "minute", "burst": 3, "max_wait": "15s"})),
            (Early::WaitsBeyond(5), json!({"rpu": 12, "unit": "minute", "burst": 6})),
        ];
        for (early, expected) in cases {
            assert_eq!(rule(12, minute, 5, early), (expected, false), "{early:?}");
        }
        for early in [Early::Passes, Early::Waits, Early::WaitsBeyond(3)] {
            let expected = json!({"rpu": 12, "unit": "minute", "burst": 1});
            assert_eq!(rule(12, minute, 0, early), (expected, false), "{early:?}");
        }
        let expected = json!({"rpu": 1, "unit": "minute", "algo": "LB", "queue": 60});
        assert_eq!(rule(1, minute, 100, Early::Waits), (expected, true), "100 minutes");
        let expected = json!({"rpu": 3, "unit": "second", "burst": 2, "max_wait": "334ms"});
        assert_eq!(rule(3, 1_000, 2, Early::WaitsBeyond(1)), (expected, false), "rounded up");
    }
}
