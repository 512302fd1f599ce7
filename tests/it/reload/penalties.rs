//! What a new configuration keeps of a penalty.

use super::changes::{Host, limit, next, rule};
use crate::harness::{Gateway, at, get, store};
use diana_limiter::algorithm::Admission;
use diana_limiter::cells::store::CasSemantics;
use diana_testing::shared_data::Simulated;

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;

/// One a second, and a penalty after two refusals.
fn penalized(rpu: u32, keys: &str, lasts: &str) -> String {
    rule(rpu, &format!(r#", "unit": "second"{keys}, "penalty": {{"after": 2, "for": "{lasts}"}}"#))
}

/// For how many seconds a penalty of the first rule refuses ann; 0 without a penalty.
fn rest(gateway: &Gateway<Host>, ms: u64) -> u64 {
    let decision = gateway.ask_new_worker(&get("/", "ann"), at(ms));
    let verdict = decision.checks.first().unwrap().verdict().unwrap();
    match verdict.admission {
        Admission::Refuse { retry_after: Some(wait) } if verdict.is_penalty() => wait.as_ns() / 1_000_000_000,
        _ => 0,
    }
}

/// A gateway with these rules. The first rule has just begun a penalty of ann.
fn refusing<'h>(host: &'h Simulated, rules: &[String]) -> Gateway<Host<'h>> {
    let gateway = Gateway::new(&limit(rules), store(host));
    assert_eq!([rest(&gateway, 0), rest(&gateway, 0)], [0, 0]);
    assert!(rest(&gateway, 0) > 0);
    gateway
}

#[test]
fn a_penalty_stays_if_the_neighbours_of_its_rule_change() {
    for keys in ["", r#", "algo": "W""#, r#", "algo": "SW""#, r#", "algo": "SL""#] {
        let host = Simulated::new(CasSemantics::Strict);
        let own = penalized(1, keys, "1h");
        refusing(&host, std::slice::from_ref(&own));
        let new = next(&host, &limit(&[own, rule(99, r#", "unit": "hour""#)]));
        // The actor comes long after its quota is full again.
        assert_eq!([rest(&new, HOUR / 2), rest(&new, HOUR)], [1_800, 0], "{keys}");
    }
}

#[test]
fn a_penalty_stays_if_a_bucket_gets_another_quota() {
    let migrated = |json: &str, ms| {
        let host = Simulated::new(CasSemantics::Lenient);
        refusing(&host, &[penalized(1, "", "1h")]);
        rest(&next(&host, &limit(&[json.to_owned()])), ms)
    };
    assert_eq!(migrated(&penalized(2, "", "1h"), HOUR / 2), 1_800);
    assert_eq!(migrated(&penalized(2, "", "1h"), HOUR), 0);
    assert_eq!(migrated(&penalized(2, "", "10m"), 2 * SECOND), 3_598, "as long as when it began");
    assert_eq!(migrated(&rule(2, r#", "unit": "second""#), 2 * SECOND), 0, "there is no penalty any more");
    // Windows of another quota count anew, whatever they count.
    assert_eq!(migrated(&penalized(2, r#", "algo": "W""#, "1h"), 2 * SECOND), 0);
}
