//! Warnings in the log: each once a gateway, however many workers accept its configuration.

use super::gateway::{Fate, Gateway};
use diana::Exports;
use diana_limiter::cells::store::CasSemantics;

const ALONE: &str = "there is no `store`";
const NO_VM_ID: &str = "`vm_id` is empty";
const WARNING: u32 = 3;

/// One limit in the original form, with a global rule and no store.
fn original(keys: &str) -> String {
    format!(r#"{{"Url": "/", "rules": [{{"name": "all", "actor": "account", "scope": "global", {keys}}}]}}"#)
}

#[test]
fn a_global_rule_without_a_store_limits_with_a_warning() {
    for rules in [CasSemantics::Lenient, CasSemantics::Strict] {
        let gateway = Gateway::start(rules, 2, &original(r#""algo": "W", "rpu": 3, "unit": "day""#));
        let fates: Vec<Fate> = (0..5).map(|turn| gateway.fate(gateway.request(turn, "/", "ann"))).collect();
        let (passed, refused) = (Fate::Upstream, Fate::Answered(429));
        assert_eq!(fates, [&passed, &passed, &passed, &refused, &refused].map(Clone::clone), "{rules:?}");
        assert_eq!(gateway.counter("diana.rule.all.degraded"), 5);
        assert_eq!(gateway.world.logged(ALONE), 1, "{rules:?}");
        let log = gateway.world.log.borrow();
        assert!(log.iter().any(|(level, line)| *level == WARNING && line.contains(ALONE)), "{log:?}");
        drop(log);
        gateway.end_all();
        gateway.no_crash();
    }
}

/// nginx crashes if a timer resumes a request, so the substitute for the store holds no requests.
#[test]
fn nginx_refuses_requests_that_would_wait_for_a_global_rule_without_a_store() {
    let gateway = Gateway::start(
        CasSemantics::Strict,
        2,
        &original(r#""algo": "LB", "rpu": 1, "unit": "minute", "queue": 5"#),
    );
    let fates: Vec<Fate> = (0..3).map(|turn| gateway.fate(gateway.request(turn, "/", "ann"))).collect();
    assert_eq!(fates, [Fate::Upstream, Fate::Answered(429), Fate::Answered(429)]);
    assert_eq!(gateway.world.logged("this host cannot hold requests"), 1);
    gateway.end_all();
    gateway.no_crash();
}

#[test]
fn an_empty_vm_id_is_logged_once_and_is_not_read_on_nginx() {
    for (rules, vm_id, times) in
        [(CasSemantics::Lenient, "", 1), (CasSemantics::Lenient, "diana", 0), (CasSemantics::Strict, "", 0)]
    {
        let gateway = Gateway::new(rules, 3, Exports::All, false);
        *gateway.world.vm_id.borrow_mut() = vm_id.into();
        assert!(gateway.configure(r#"{"limits": []}"#));
        assert_eq!(gateway.world.logged(NO_VM_ID), times, "{rules:?} `{vm_id}`");
        gateway.no_crash();
    }
}

#[test]
fn a_rule_that_never_refuses_is_named_after_the_line_of_the_configuration() {
    let json = r#"{"limits": [
        {"url": "/", "rules": [{"name": "few", "rpu": 1, "unit": "hour"}]},
        {"url": "/api", "rules": [{"name": "many", "rpu": 10, "unit": "hour"}]}]}"#;
    let gateway = Gateway::start(CasSemantics::Lenient, 3, json);
    let log = gateway.world.log.borrow();
    let place = |words: &str| log.iter().position(|(_, line)| line.contains(words));
    let warning = place("configuration, limits[1].rules[0]: the rule `many` can never refuse").unwrap();
    assert_eq!(place("configuration taken"), Some(warning - 1), "{log:?}");
    assert_eq!(gateway.world.logged("can never refuse"), 1, "{log:?}");
}

#[test]
fn zone_data_of_more_than_a_year_are_logged_once() {
    let json = |unit: &str| {
        let rule = format!(r#"{{"name": "all", "algo": "W", "rpu": 1, "unit": "{unit}"}}"#);
        format!(r#"{{"limits": [{{"url": "/", "rules": [{rule}]}}]}}"#)
    };
    // Today, and in 2033.
    for (unit, now, old) in
        [("month", 1_700_000_000, 0), ("month", 2_000_000_000, 1), ("minute", 2_000_000_000, 0)]
    {
        let gateway = Gateway::new(CasSemantics::Lenient, 2, Exports::All, false);
        gateway.world.clock.set(now * 1_000_000_000);
        assert!(gateway.configure(&json(unit)));
        assert_eq!(gateway.world.logged("are older than a year"), old, "{unit} at {now}");
        let version = ["time zones ", diana_calendar::version()].concat();
        assert_eq!(gateway.world.logged(&version), usize::from(unit == "month"), "{unit}");
        gateway.no_crash();
    }
}
