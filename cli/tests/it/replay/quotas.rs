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
    let (_, rule) = rule("burst", keys, &STEADY);
    // Two at once; the next token comes after three seconds.
    assert_eq!((rule.refused, rule.burst), (8, Some(2)));
    let suggestion = rule.suggestion.unwrap();
    assert_eq!((suggestion.rpu, suggestion.burst), (12, Some(12)));
    assert!(suggestion.caveat.unwrap().starts_with("The log covers only 900 ms, less than a day"));
    assert!(suggestion.why.contains("after 2 at once, the bucket refuses requests"), "{}", suggestion.why);
    // Under the suggested quota with a burst of 2, the rule would still refuse.
    assert!(suggestion.why.contains("would have refused nothing"), "{}", suggestion.why);
}
