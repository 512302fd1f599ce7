//! Tests of `headroom` with `scope: global`: the gateways have one headroom in one Redis.

use super::gateways::Gateway;
use super::redis::TestRedis;
use crate::harness::{at, get};
use diana_base::time::Time;
use diana_limiter::algorithm::Admission;
use diana_limiter::request::Part;

/// The limits of a shop whose checkouts have a high priority.
fn shop(rules: &str) -> String {
    format!(r#"{{"url": "/", "rules": [{rules}]}}, {{"url": "/pay", "priority": "high"}}"#)
}

/// One global rule.
fn global(keys: &str) -> String {
    shop(&format!(r#"{{"name": "all", "unit": "hour", "scope": "global", {keys}}}"#))
}

/// What a request sees of the first rule, also in shadow.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// Passes, and so much is left for it.
    Left(u64),
    /// Refused; the wait in seconds.
    Wait(u64),
    Never,
}

fn ask(gateway: &mut Gateway, ms: u64, path: &str) -> Seen {
    let decision = gateway.ask(ms, &get(path, "ann"));
    let verdict = decision.checks.first().unwrap().verdict().unwrap();
    match verdict.admission {
        Admission::Admit { .. } => Seen::Left(verdict.remaining),
        Admission::Refuse { retry_after: Some(wait) } => Seen::Wait(wait.as_ns().div_ceil(1_000_000_000)),
        Admission::Refuse { retry_after: None } => Seen::Never,
    }
}

/// The hour of the tests ends so many seconds after the first request.
fn until_the_hour() -> u64 {
    3_600 - at(0).since(Time::ZERO).as_ns() / 1_000_000_000 % 3_600
}

#[test]
fn two_gateways_leave_one_headroom() {
    let redis = TestRedis::start();
    for kind in ["TB", "W", "SW", "SL"] {
        let actor = format!(r#""algo": "{kind}", "rpu": 5, "headroom": "40%""#);
        let limits = global(&actor);
        let [mut one, mut two] = [(); 2].map(|()| Gateway::with_limits(&limits, &redis));
        assert_eq!(ask(&mut one, 0, "/pay"), Seen::Left(4), "{kind}");
        assert_eq!([ask(&mut one, 1, "/"), ask(&mut two, 2, "/")], [Seen::Left(1), Seen::Left(0)], "{kind}");
        assert!(matches!(ask(&mut two, 3, "/"), Seen::Wait(1..)), "{kind}");
        assert!(matches!(ask(&mut one, 4, "/"), Seen::Wait(1..)), "{kind}");
        assert_eq!(ask(&mut two, 5, "/pay"), Seen::Left(1), "{kind}");
        assert_eq!(ask(&mut one, 6, "/pay"), Seen::Left(0), "{kind}");
        assert!(matches!(ask(&mut one, 7, "/pay"), Seen::Wait(1..)), "{kind}");
        assert!(matches!(ask(&mut two, 8, "/"), Seen::Wait(1..)), "{kind}");
    }
}

/// Of a bucket, the third unit comes after two periods and more.
#[test]
fn each_refusal_tells_when_the_same_request_passes() {
    let redis = TestRedis::start();
    let limits = global(r#""rpu": 4, "headroom": 2"#);
    let [mut one, mut two] = [(); 2].map(|()| Gateway::with_limits(&limits, &redis));
    for left in [3, 2, 1] {
        assert_eq!(ask(&mut one, 0, "/pay"), Seen::Left(left));
    }
    assert_eq!(ask(&mut two, 0, "/"), Seen::Wait(1_800));
    assert_eq!(ask(&mut two, 0, "/pay"), Seen::Left(0));
    assert_eq!(ask(&mut two, 1, "/pay"), Seen::Wait(900));
    assert_eq!(ask(&mut one, 2_699_999, "/"), Seen::Wait(1));
    assert_eq!(ask(&mut one, 2_700_000, "/"), Seen::Left(0));
}

/// A cached refusal serves only requests that have to leave as much.
#[test]
fn a_cached_refusal_refuses_no_request_of_high_priority() {
    let redis = TestRedis::start();
    let limits = global(r#""algo": "W", "rpu": 3, "headroom": 2"#);
    let mut gateway = Gateway::with_limits(&limits, &redis);
    let wait = || Seen::Wait(until_the_hour());
    assert_eq!([ask(&mut gateway, 0, "/"), ask(&mut gateway, 0, "/")], [Seen::Left(0), wait()]);
    let calls = gateway.calls;
    assert_eq!((ask(&mut gateway, 1, "/"), gateway.calls), (wait(), calls), "from the cache");
    assert_eq!([ask(&mut gateway, 2, "/pay"), ask(&mut gateway, 3, "/pay")], [Seen::Left(1), Seen::Left(0)]);
    assert_eq!([ask(&mut gateway, 4, "/pay"), ask(&mut gateway, 4, "/")], [wait(), wait()]);
    let calls = gateway.calls;
    assert_eq!([ask(&mut gateway, 5, "/pay"), ask(&mut gateway, 5, "/")], [wait(), wait()]);
    assert_eq!(gateway.calls, calls, "both from the cache");
}

/// Requests of one plan count in the quota of the other plan, also in its headroom.
#[test]
fn quotas_of_other_plans_count_to_the_last_unit() {
    let redis = TestRedis::start();
    let keys = r#""algo": "W", "rpu": 4, "headroom": "50%", "plans": {"gold": {"rpu": 8}}"#;
    let [mut one, mut two] = [(); 2].map(|()| Gateway::with_limits(&global(keys), &redis));
    let left = |gateway: &mut Gateway, path: &str, plan: &str| {
        let request = get(path, "ann").with(Part::Header("x-plan".into()), plan);
        gateway.ask(0, &request).checks.first().unwrap().verdict().copied().unwrap()
    };
    for rest in [3, 2, 1, 0] {
        assert_eq!(left(&mut one, "/", "gold").remaining, rest);
    }
    assert!(!left(&mut two, "/", "gold").admits());
    // Four of eight are headroom. The other quota has only four.
    assert!(!left(&mut two, "/", "").admits() && !left(&mut two, "/pay", "").admits());
    for rest in [3, 2, 1, 0] {
        assert_eq!(left(&mut one, "/pay", "gold").remaining, rest);
    }
    assert!(!left(&mut two, "/pay", "gold").admits());
}

#[test]
fn a_rule_in_shadow_keeps_in_shadow() {
    let redis = TestRedis::start();
    let keys = r#""algo": "W", "rpu": 2, "headroom": 1, "mode": "shadow""#;
    let mut gateway = Gateway::with_limits(&global(keys), &redis);
    assert_eq!(ask(&mut gateway, 0, "/"), Seen::Left(0));
    assert_eq!(ask(&mut gateway, 1, "/"), Seen::Wait(until_the_hour()));
    assert!(!gateway.ask(2, &get("/", "ann")).is_rejected());
    assert_eq!(ask(&mut gateway, 3, "/pay"), Seen::Left(0));
}

/// With `on_error: deny` a rule has no local counter with headroom.
#[test]
fn a_rule_without_a_fallback_knows_the_priority() {
    let redis = TestRedis::start();
    let keys = r#""algo": "W", "rpu": 2, "headroom": 1, "on_error": "deny""#;
    let mut gateway = Gateway::with_limits(&global(keys), &redis);
    assert_eq!([ask(&mut gateway, 0, "/"), ask(&mut gateway, 1, "/pay")], [Seen::Left(0), Seen::Left(0)]);
}

/// A local rule is checked after Redis has answered. It still knows whether the request has
/// a high priority.
#[test]
fn a_local_rule_beside_a_global_rule_keeps_its_part() {
    let redis = TestRedis::start();
    let rules = r#"{"name": "all", "algo": "W", "rpu": 2, "unit": "hour", "headroom": 1},
        {"name": "far", "algo": "W", "rpu": 9, "unit": "hour", "scope": "global"}"#;
    let mut gateway = Gateway::with_limits(&shop(rules), &redis);
    assert_eq!([ask(&mut gateway, 0, "/"), ask(&mut gateway, 1, "/pay")], [Seen::Left(0), Seen::Left(0)]);
    assert_eq!(ask(&mut gateway, 2, "/pay"), Seen::Wait(until_the_hour()));
}

/// One of two gateways leaves half of the units, rounded up, or the same percentage. One request
/// passes.
#[test]
fn without_redis_each_gateway_has_its_part_of_the_headroom() {
    let redis = TestRedis::start();
    // The quota, the headroom, and how many requests pass of each sort.
    for (rpu, headroom, others, all) in [
        (10, "3", 3, 5),
        (10, "8", 1, 5),
        (10, "9", 1, 5),
        (10, r#""30%""#, 3, 5),
        (4, r#""75%""#, 1, 2),
        (2, r#""50%""#, 1, 1),
        (3, "2", 1, 1),
    ] {
        let keys = format!(r#""algo": "W", "rpu": {rpu}, "headroom": {headroom}"#);
        let mut gateway = Gateway::with_limits(&global(&keys), &redis);
        gateway.is_down = true;
        let mut passed =
            |path| (0..20).filter(|_| matches!(ask(&mut gateway, 0, path), Seen::Left(_))).count();
        let seen = (passed("/"), passed("/pay"));
        assert_eq!(seen, (others, all - others), "{rpu} {headroom}");
    }
}
