//! Other quotas, and the quota that a log suggests.

use super::{FORMAT, Folder, STEADY, log, rule, summary};

#[test]
fn other_quotas_are_those_of_actors_without_an_override() {
    let keys = r#"{"name": "each", "actor": "user", "rpu": 3, "unit": "day", "algo": "W",
        "overrides": {"vip": {"rpu": 100}}}"#;
    let requests: Vec<(u64, u64, &str)> =
        (0..20).map(|at| (at, 1, if at % 2 == 0 { "ann" } else { "vip" })).collect();
    let (summary, rule) = rule("overrides", keys, &requests);
    assert_eq!((rule.checked, rule.refused, rule.least.none), (20, 7, Some(10)));
    assert_eq!(
        summary.log.assumptions,
        ["Other quotas of rule `each` leave out requests with an override or a plan."]
    );
}

#[test]
fn a_global_rule_counts_with_its_full_quota() {
    let folder = Folder::new("global");
    let document = folder.file(
        "limits.json",
        r#"{"limits": [{"url": "/", "rules": [
            {"name": "all", "rpu": 4, "unit": "day", "scope": "global", "lease": "50%"}]}],
            "store": {"redis": {"cluster": "redis", "secret": "0123456789abcdef", "replicas": 2}}}"#,
    );
    let log = folder.file("access.log", &log(&STEADY));
    let found = summary(&[&document, "--log", &log, "--format", FORMAT, "--what-if"]).unwrap();
    assert_eq!((found.totals.refused, found.rules[0].rpu, found.rules[0].least.none), (6, 4, Some(10)));
}

#[test]
fn a_rule_that_refuses_all_has_no_other_quotas() {
    let keys = r#"{"name": "closed", "rpu": 0, "unit": "minute"}"#;
    let (_, rule) = rule("closed", keys, &STEADY);
    assert_eq!((rule.checked, rule.refused), (10, 10));
    assert!(rule.suggestion.is_none() && rule.what_if.is_empty() && rule.least.none.is_none());
}

#[test]
fn a_suggestion_comes_with_its_burst_and_the_length_of_the_log() {
    let keys = r#"{"name": "r", "rpu": 20, "unit": "minute", "burst": 2}"#;
    let requests = [&STEADY[..], &[(61_000, 250, "ann")]].concat();
    let (_, rule) = rule("burst", keys, &requests);
    // Two at once; the next token comes after three seconds.
    assert_eq!((rule.refused, rule.burst), (8, Some(2)));
    let suggestion = rule.suggestion.unwrap();
    assert_eq!((suggestion.rpu, suggestion.burst), (12, Some(12)));
    assert!(suggestion.caveat.unwrap().starts_with("The log covers only 1 min 1 s, less than a day"));
    assert!(suggestion.why.contains("after 2 at once, the bucket refuses requests"), "{}", suggestion.why);
    // Under the suggested quota with a burst of 2, the rule would still refuse.
    assert!(suggestion.why.contains("would have refused nothing"), "{}", suggestion.why);
}

#[test]
fn a_log_that_is_shorter_than_the_unit_suggests_nothing() {
    let keys = |unit: &str| format!(r#"{{"name": "r", "rpu": 1000, "unit": "{unit}"}}"#);
    let nineteen_minutes: Vec<(u64, u64, &str)> = (0..=38).map(|at| (at * 30_000, 1, "ann")).collect();
    let suggestion = |unit: &str| rule("short", &keys(unit), &nineteen_minutes).1.suggestion;
    assert!(suggestion("hour").is_none() && suggestion("20 min").is_none());
    assert!(suggestion("19 min").is_some());
}

#[test]
fn a_suggestion_that_is_no_improvement_says_so() {
    let requests: Vec<(u64, u64, &str)> = (0..240).map(|at| (at * 500, 1, "ann")).collect();
    let compared = |rpu: u64| {
        let keys = format!(r#"{{"name": "r", "algo": "W", "rpu": {rpu}, "unit": "minute"}}"#);
        let suggestion = rule("compared", &keys, &requests).1.suggestion.unwrap();
        assert_eq!(suggestion.rpu, 150);
        suggestion.compared
    };
    assert_eq!(compared(100), None);
    assert_eq!(compared(150), None);
    let lower = "This is lower than the quota now, which refuses nothing.";
    assert_eq!(compared(1_000).as_deref(), Some(lower));
    // Of 200 actors, the suggestion is for 99 %: it refuses the two busiest.
    let users: Vec<String> = (0..200).map(|user| format!("u{user}")).collect();
    let mut requests: Vec<(u64, u64, &str)> = Vec::new();
    for at in 0..50u64 {
        let busy = usize::from(at > 0) * 2;
        let some = if at == 0 { &users[..] } else { &users[..busy] };
        requests.extend(some.iter().map(|user| (at, 1, &**user)));
    }
    requests.push((61_000, 1, "u9"));
    let keys = r#"{"name": "r", "actor": "user", "algo": "W", "rpu": 40, "unit": "minute"}"#;
    let suggestion = rule("compared", keys, &requests).1.suggestion.unwrap();
    assert_eq!(suggestion.rpu, 2);
    let more = "This refuses more than the quota now: 32.1 % against 6.69 %.";
    assert_eq!(suggestion.compared.as_deref(), Some(more));
}

/// A log in JSON: 600 requests of five actors, some with a cost, some to `/important`.
fn mixed() -> String {
    let mut at = 1_795_392_000_000u64;
    let line = |number: u64| {
        // The numbers look random, so that bursts and idle times occur.
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        at += [0, 0, 3, 20, 300, 3_000][(random % 6) as usize];
        // Two of three requests are ann's.
        let user = *["bob", "cleo", "dan", "eve"].get((random / 6 % 12) as usize).unwrap_or(&"ann");
        let cost = [0, 1, 1, 1, 7, 30][(random / 72 % 6) as usize];
        let path = if (random / 432).is_multiple_of(4) { "/important" } else { "/" };
        format!(
            r#"{{"start_time": {}.{:03}, "path": "{path}", "x-user-id": "{user}", "x-cost": {cost}, "duration": 300}}"#,
            at / 1_000,
            at % 1_000
        ) + "\n"
    };
    (0..600).map(line).collect()
}

#[test]
fn a_replay_with_another_quota_refuses_as_other_quotas_say() {
    let folder = Folder::new("again");
    let log = folder.file("access.log", &mixed());
    let with = |rpu: u64, keys: &str, options: &[&str]| {
        let rule = format!(r#"{{"name": "r", "actor": "user", "rpu": {rpu}, {keys}}}"#);
        let text = format!(
            r#"{{"limits": [{{"url": "/", "rules": [{rule}]}}, {{"url": "/important", "priority": "high"}}]}}"#
        );
        let document = folder.file("limits.json", &text);
        summary(&[&[&document, "--log", &log, "--format", "json"], options].concat()).unwrap().rules.remove(0)
    };
    for keys in [
        r#""unit": "minute", "algo": "W", "headroom": "30%""#,
        r#""unit": "minute", "burst": 12, "headroom": 5"#,
        r#""algo": "C", "headroom": "50%""#,
        r#""unit": "minute", "algo": "W", "cost": {"header": "x-cost", "min": 0, "max": 100}"#,
        r#""unit": "minute", "algo": "SW", "cost": {"header": "x-cost", "max": 100}"#,
        r#""algo": "C", "cost": {"header": "x-cost", "min": 0, "max": 100}"#,
        r#""unit": "minute", "burst": 6, "warm_up": "10s""#,
        r#""unit": "minute", "algo": "W", "penalty": {"after": 3, "for": "20s"}"#,
        r#""unit": "minute", "algo": "W", "cost": 20"#,
    ] {
        let rule = with(40, keys, &["--what-if"]);
        assert!(rule.what_if.len() > 5, "{keys}");
        for quota in &rule.what_if {
            let replayed = with(quota.rpu, keys, &[]);
            let expected = (quota.rpu, quota.refused, quota.refused_actors);
            assert_eq!((replayed.rpu, replayed.refused, replayed.refused_actors), expected, "{keys}");
        }
        let Some(least) = rule.least.none else {
            // A cold bucket of six tokens never admits three requests at once.
            assert!(keys.contains("warm_up"), "{keys}");
            continue;
        };
        assert_eq!(with(least, keys, &[]).refused, 0, "{keys}");
        assert_ne!(with(least - 1, keys, &[]).refused, 0, "{keys}");
    }
}

#[test]
fn the_least_quota_is_found_for_any_cost() {
    // One request of a user costs 50,000 units: lower quotas are a mistake, and a hundred times
    // the present one is necessary for all ten.
    let requests: Vec<(u64, u64, &str)> = (0..10).map(|at| (at, 1, "ann")).collect();
    let header = r#"{"name": "r", "unit": "day", "algo": "W", "rpu": 5000,
        "cost": {"header": "x-user-id", "default": 50000, "max": 50000}}"#;
    assert_eq!(rule("cost-header", header, &requests).1.least.none, Some(500_000));
    let fixed = r#"{"name": "r", "unit": "day", "algo": "W", "rpu": 70000, "cost": 50000}"#;
    assert_eq!(rule("cost-fixed", fixed, &requests[..1]).1.least.none, Some(50_000));
}

#[test]
fn what_other_quotas_leave_out_is_stated() {
    for (keys, stated) in [
        (
            r#""unit": "day", "actor": "user", "missing": "deny""#,
            "leave out requests without the actor, which `missing: deny` refuses.",
        ),
        (
            r#""unit": "second", "adapt": {"signal": "errors", "target": "5%", "min": 1, "max": 9, "every": "1s"}"#,
            "stay the same over time, without `adapt`.",
        ),
    ] {
        let requests = [(0, 1, "-"), (100, 1, "ann"), (200, 1, "ann")];
        let (summary, _) = rule("stated", &format!(r#"{{"name": "r", "rpu": 2, {keys}}}"#), &requests);
        let stated = format!("Other quotas of rule `r` {stated}");
        assert!(summary.log.assumptions.contains(&stated), "{:?}", summary.log.assumptions);
    }
}
