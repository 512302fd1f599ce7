//! Warnings about accepted configurations: their text, and that a rule reported as idle never
//! refuses.

use crate::algorithm::subject::cases;
use crate::harness::{Random, at, get, policy, store};
use diana_config::compile;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::decide::RuleResult;
use diana_limiter::session::Worker;
use diana_testing::shared_data::Simulated;
use proptest::prelude::*;

fn warnings(json: &str) -> Vec<String> {
    match compile(json.as_bytes()) {
        Ok(configuration) => configuration.warnings.iter().map(ToString::to_string).collect(),
        Err(errors) => panic!("{errors:?}\n{json}"),
    }
}

const ALONE: &str = "there is no `store`: each gateway counts this rule, and every other global one, by itself; \
    to count them together write the full form with `limits` and `store`";

#[test]
fn a_short_form_counts_global_rules_alone_and_warns_once() {
    let rule = |scope: &str| format!(r#"{{"actor": "user", "rpu": 9, "unit": "day", "scope": "{scope}"}}"#);
    let one =
        format!(r#"{{"url": "/", "rules": [{}, {}]}}"#, rule("local").replace("9", "8"), rule("global"));
    assert_eq!(warnings(&one), [format!("rules[1].scope: {ALONE}")]);
    let limit = format!(r#"{{"url": "/", "rules": [{}]}}"#, rule("global"));
    let list = format!("[{limit}, {}]", limit.replace("\"/\"", "\"/api\"").replace("user", "device"));
    assert_eq!(warnings(&list), [format!("[0].rules[0].scope: {ALONE}")]);
    let full = format!(r#"{{"limits": [{limit}]}}"#);
    assert!(compile(full.as_bytes()).is_err(), "the full form has a place for a store");
}

#[test]
fn a_place_for_a_ticket_that_no_key_fills_is_reported() {
    let body = r#"{"limits": [], "response": {"body": "{ticket}"}"#;
    let why = "without `tickets` at the top, clients see the text `{ticket}` of the `body` as it is written";
    assert_eq!(warnings(&format!("{body}}}")), [format!("response: {why}")]);
    let with_key = format!(r#"{body}, "tickets": {{"secret": "0123456789abcdef"}}}}"#);
    assert_eq!(warnings(&with_key), [""; 0]);
}

/// By the number of gateways that the document states.
#[test]
fn each_lease_of_more_than_half_a_quota_is_reported() {
    let of = |lease: &str, replicas: u64| {
        let rule = format!(
            r#"{{"actor": "user", "rpu": 100, "unit": "minute", "scope": "global", "lease": {lease}}}"#
        );
        let limit = |url: &str| format!(r#"{{"url": "{url}", "rules": [{rule}]}}"#);
        warnings(&format!(
            r#"{{"limits": [{}, {}], "store": {{"redis": {{"cluster": "a", "secret": "sixteen letters!",
                "replicas": {replicas}}}}}}}"#,
            limit("/"),
            limit("/api").replace("user", "device"),
        ))
    };
    let warning = "all gateways together lease more than half of the quota, and near \
        its end one may hold what others need: write a smaller `lease`, or leave it out";
    for (lease, replicas, warns) in [
        (r#""12%""#, 4, false),
        (r#""13%""#, 4, true),
        ("12", 4, false),
        ("13", 4, true),
        ("100", 1, false),
        ("0", 100, false),
        (r#""1%""#, 51, true),
    ] {
        let places = if warns { &["limits[0]", "limits[1]"][..] } else { &[] };
        let expected: Vec<String> =
            places.iter().map(|place| format!("{place}.rules[0].lease: {warning}")).collect();
        assert_eq!(of(lease, replicas), expected, "{lease}, {replicas}");
    }
}

/// A limit on a path with one rule for `user` with these keys.
fn limit(url: &str, keys: &str) -> String {
    format!(r#"{{"url": "{url}", "rules": [{{"actor": "user", {keys}}}]}}"#)
}

fn limits(limits: &[String]) -> Vec<String> {
    warnings(&format!(r#"{{"limits": [{}]}}"#, limits.join(", ")))
}

#[test]
fn a_rule_behind_a_tighter_one_is_named() {
    let rules = r#"[{"name": "tight", "rpu": 10, "unit": "second"}, {"name": "wide", "rpu": 1000, "unit": "minute", "algo": "W"}]"#;
    assert_eq!(
        warnings(&format!(r#"{{"limits": [{{"url": "/", "rules": {rules}}}]}}"#)),
        [
            "limits[0].rules[1]: the rule `wide` can never refuse: `tight` counts the same actor and always refuses first"
        ]
    );
    // Of two equal rules, the second one is reported.
    let same = r#"[{"name": "a", "rpu": 10, "unit": "second"}, {"name": "b", "rpu": 600, "burst": 10, "unit": "minute"}]"#;
    assert_eq!(
        warnings(&format!(r#"{{"url": "/", "rules": {same}}}"#)),
        ["rules[1]: the rule `b` can never refuse: `a` counts the same actor and always refuses first"]
    );
}

/// A rule that marks what it would refuse leaves refusing to the next one.
#[test]
fn no_rule_is_idle_behind_one_that_admits() {
    let hard = r#"{"name": "hard", "rpu": 1000, "unit": "day"}"#;
    for (at, expected) in [(r#""80%""#, 1), (r#""100%", "admit": true"#, 0)] {
        let soft = format!(r#"{{"name": "soft", "rpu": 100, "unit": "day", "over": {{"at": {at}}}}}"#);
        let found = warnings(&format!(r#"{{"url": "/", "rules": [{soft}, {hard}]}}"#));
        assert_eq!(found.len(), expected, "{found:?}");
    }
}

/// A rule with headroom refuses earlier than a rule that admits less.
#[test]
fn a_rule_with_headroom_is_never_idle() {
    let rule = |name: &str, rpu: u32, keys: &str| {
        let keys = format!(r#""rpu": {rpu}, "unit": "second"{keys}"#);
        limit("/", &format!(r#""name": "{name}", {keys}"#))
    };
    let with = |first: &str, second: &str| {
        let high = r#"{"url": "/pay", "priority": "high"}"#.to_owned();
        limits(&[first.to_owned(), second.to_owned(), high]).len()
    };
    let (keeps, few) = (r#", "headroom": "90%""#, rule("few", 5, ""));
    assert_eq!(with(&few, &rule("keeps", 10, keeps)), 0);
    assert_eq!(
        with(&rule("few", 5, r#", "headroom": 1"#), &rule("plain", 10, "")),
        1,
        "it refuses whatever another would"
    );
}

#[test]
fn an_unpaired_priority_is_named() {
    let keeps = r#"{"url": "/", "rules": [{"rpu": 9, "unit": "day"},
        {"rpu": 5, "unit": "day", "algo": "SL", "headroom": 1}]}"#;
    let high = r#"{"url": "/pay", "priority": "high", "rules": []}"#;
    assert_eq!(
        warnings(&format!("[{keeps}]")),
        [
            "[0].rules[1].headroom: no limit has `priority: high`: no request ever takes the headroom, so the rule admits less"
        ]
    );
    assert_eq!(warnings(high), ["priority: no rule has `headroom`, so `priority: high` changes nothing"]);
    assert_eq!(warnings(&format!("[{high}, {keeps}]")), [""; 0]);
    // A quota of a plan or an override has headroom as well.
    let plans =
        keeps.replace(r#""rpu": 5,"#, r#""rpu": 0, "actor": "user", "overrides": {"ann": {"rpu": 5}},"#);
    assert_eq!(warnings(&format!("[{high}, {plans}]")), [""; 0]);
}

/// Both rules refuse at the same time, and then the penalty refuses alone.
#[test]
fn a_rule_with_a_penalty_is_never_idle() {
    let penalty = r#", "penalty": {"after": 1, "for": "1m"}"#;
    let rule = |name: &str, rpu: u32, keys: &str| {
        format!(r#"{{"name": "{name}", "rpu": {rpu}, "unit": "second"{keys}}}"#)
    };
    let warnings =
        |rules: [&str; 2]| warnings(&format!(r#"{{"url": "/", "rules": [{}]}}"#, rules.join(", ")));
    let (plain, penal) = (rule("plain", 10, ""), rule("penal", 10, penalty));
    let why = "the rule `plain` can never refuse: `penal` counts the same actor and always refuses first";
    assert_eq!(warnings([&plain, &penal]), [format!("rules[0]: {why}")]);
    assert_eq!(warnings([&penal, &plain]), [format!("rules[1]: {why}")]);
    assert_eq!(warnings([&rule("few", 5, penalty), &penal]), [""; 0]);
}

#[test]
fn a_limit_that_should_raise_a_quota_gets_a_hint() {
    let (few, many) =
        (r#""name": "few", "rpu": 10, "unit": "second""#, r#""name": "many", "rpu": 100, "unit": "second""#);
    let raised = |at: usize| {
        format!(
            "limits[{at}].rules[0]: the rule `many` can never refuse: `few` counts the same actor and always refuses \
             first; if this limit is meant to raise the quota, give it `exclusive: true`"
        )
    };
    assert_eq!(limits(&[limit("/", few), limit("/api", many)]), [raised(1)]);
    assert_eq!(limits(&[limit("/api/x", many), limit("/*", few)]), [raised(0)]);
    let gold = limit("/", many).replacen("\"rules\"", r#""headers": {"x-plan": "gold"}, "rules""#, 1);
    assert_eq!(limits(&[limit("/", few), gold.clone()]), [raised(1)]);
    let exclusive = |limit: &str| limit.replacen("\"rules\"", r#""exclusive": true, "rules""#, 1);
    for fine in [
        vec![limit("/", few), exclusive(&limit("/api", many))],
        vec![
            limit("/", few),
            exclusive(&limit("/api", r#""rpu": 5, "unit": "second""#)).replace("user", "device"),
            limit("/api/x", many),
        ],
        vec![limit("/", many), limit("/api", few)],
        vec![limit("/other", few), limit("/api", many)],
        vec![gold.replace("many", "few").replace("100", "10"), limit("/api", many)],
        vec![limit("/", &few.replace("10", r#"10, "mode": "shadow""#)), limit("/api", many)],
        vec![limit("/", few), limit("/api", &many.replace("100", r#"100, "mode": "shadow""#))],
        vec![
            limit("/", &few.replace("10", r#"10, "overrides": {"vip": {"rpu": 1000}}"#)),
            limit("/api", many),
        ],
        vec![limit("/", &few.replace("10", r#"10, "missing": "skip""#)), limit("/api", many)],
        vec![limit("/", few), limit("/api", many).replace("user", "device")],
    ] {
        assert_eq!(limits(&fine), [""; 0], "{fine:#?}");
    }
    // An exclusive limit that shares no requests with the others switches none of them off.
    let beside =
        [limit("/", few), limit("/api/big", many), r#"{"url": "/health", "exclusive": true}"#.to_owned()];
    assert_eq!(limits(&beside), [raised(1)]);
    // A less or more specific exclusive limit switches neither rule off alone.
    let beside = [
        exclusive(&limit("=/api/x/y", r#""rpu": 5, "unit": "second""#)),
        limit("/", few),
        limit("/api", many),
    ];
    assert_eq!(limits(&beside), [raised(2)]);
}

/// A rule with a small quota, so that random requests often reach its bound.
fn rule(random: &mut Random) -> String {
    let mut pick = |of: &[&str]| of[random.below(of.len())].to_string();
    let (rpu, unit) = (pick(&["1", "2", "3", "4", "8"]), pick(&["1s", "2s", "3s", "4s"]));
    let own = match &*pick(&["TB", "TB", "W", "SW", "SL", "LB", "C"]) {
        "TB" => format!(
            r#""unit": "{unit}", "burst": {}, "start": "{}", "max_wait": "{}""#,
            pick(&["1", "2", "4"]),
            pick(&["full", "full", "empty"]),
            pick(&["0s", "0s", "1s"])
        ),
        "SW" => format!(r#""algo": "SW", "unit": "{unit}", "slices": {}"#, pick(&["2", "4"])),
        "LB" => format!(r#""algo": "LB", "unit": "{unit}", "queue": {}"#, pick(&["0", "1", "3"])),
        "C" => format!(r#""algo": "C", "max_hold": "{}""#, pick(&["1s", "2s"])),
        algo => format!(r#""algo": "{algo}", "unit": "{unit}""#),
    };
    format!(r#""rpu": {rpu}, {own}"#)
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_rule_reported_as_idle_never_refuses_alone(seed: u64) {
        let mut random = Random(seed);
        let (above, below) = (rule(&mut random), rule(&mut random));
        let json = format!(
            r#"{{"limits": [{}, {}]}}"#,
            limit("/", &format!(r#""name": "above", {above}"#)),
            limit("/api", &format!(r#""name": "below", {below}"#))
        );
        if warnings(&json).is_empty() {
            return Ok(());
        }
        let (policy, host) = (policy(&json), Simulated::new(CasSemantics::Lenient));
        let (mut worker, mut ms) = (Worker::new(policy.clone(), store(&host), &[7; 16]), 0);
        for _ in 0..200 {
            ms += [0, 0, 1, 250, 333, 1_000][random.below(6)];
            let target = ["/api", "/api", "/"][random.below(3)];
            let decision = crate::harness::ask(&mut worker, &get(target, "ann"), || at(ms));
            if let [above, below] = decision.checks.iter().collect::<Vec<_>>()[..] {
                let alone =
                    above.result() == RuleResult::Admitted && below.result() == RuleResult::Refused;
                prop_assert!(!alone, "at {} ms under {}", ms, json);
            }
        }
    }
}

#[test]
fn a_quota_without_room_for_the_cheapest_request_is_named() {
    let of = |keys: &str| {
        let rule = format!(r#"{{"actor": "user", "rpu": 10, "unit": "minute", {keys}}}"#);
        let found = warnings(&format!(
            r#"{{"limits": [{{"url": "/", "rules": [{rule}]}}, {{"url": "/pay", "priority": "high"}}],
                "plan": {{"header": "x-plan"}}}}"#
        ));
        let is_about = |one: &String| one.contains("can ever pass");
        found
            .into_iter()
            .filter(is_about)
            .map(|one| one.split(": ").next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let estimate = |units: u64| format!(r#""cost": {{"response_header": "x-tokens", "estimate": {units}}}"#);
    let least = |units: u64| format!(r#""cost": {{"header": "x-cost", "min": {units}, "max": 99}}"#);
    let (cost, rule) = ("limits[0].rules[0].cost", "limits[0].rules[0]");
    for (keys, places) in [
        (estimate(10), vec![]),
        (estimate(11), vec![cost.to_owned()]),
        (least(10), vec![]),
        (least(11), vec![cost.to_owned()]),
        (format!(r#"{}, "burst": 20"#, least(11)), vec![]),
        (format!(r#"{}, "charge": {{"status": 401}}"#, least(11)), vec![]),
        (format!(r#"{}, "headroom": 2"#, least(9)), vec![cost.to_owned()]),
        (format!(r#"{}, "headroom": 1"#, least(9)), vec![]),
        (format!(r#"{}, "algo": "LB", "queue": 3"#, least(3)), vec![]),
        (
            format!(r#"{}, "overrides": {{"ann": {{"rpu": 4}}, "bob": {{"rpu": 0}}}}"#, least(5)),
            vec![format!("{rule}.overrides.ann")],
        ),
        (r#""cost": 5, "overrides": {"ann": {"rpu": 4}}"#.into(), vec![format!("{rule}.overrides.ann")]),
        (
            format!(r#"{}, "plans": {{"free": {{"rpu": 4}}, "gold": {{"rpu": 40}}}}"#, estimate(5)),
            vec![format!("{rule}.plans.free")],
        ),
        (
            format!(r#"{}, "adapt": {{"signal": "errors", "target": "5%", "min": 1, "max": 20}}"#, least(20)),
            vec![],
        ),
        (
            format!(r#"{}, "adapt": {{"signal": "errors", "target": "5%", "min": 1, "max": 20}}"#, least(21)),
            vec![cost.to_owned()],
        ),
    ] {
        assert_eq!(of(&keys), places, "{keys}");
    }
}

proptest! {
    #![proptest_config(cases(400))]

    /// A client that has waited for days is admitted unless there is a warning.
    #[test]
    fn a_rule_is_reported_exactly_if_it_never_admits(seed: u64, least in 1u64..9) {
        let rule = rule(&mut Random(seed));
        let json = limit("/", &format!(r#"{rule}, "cost": {{"header": "x-cost", "min": {least}, "max": 99}}"#));
        let is_reported = warnings(&json).iter().any(|one| one.contains("can ever pass"));
        let (policy, host) = (policy(&json), Simulated::new(CasSemantics::Lenient));
        let mut worker = Worker::new(policy.clone(), store(&host), &[7; 16]);
        let passes = [0, 200_000_000, 400_000_000].into_iter().any(|ms| {
            let decision = crate::harness::ask(&mut worker, &get("/", "ann"), || at(ms));
            decision.checks.iter().all(|report| report.result() == RuleResult::Admitted)
        });
        prop_assert_eq!(is_reported, !passes, "{}", json);
    }
}

/// Whoever reads the log could use the credentials in it.
#[test]
fn an_access_log_with_credentials_is_reported() {
    let of = |access_log: &str| {
        warnings(&format!(
            r#"{{"access_log": {access_log}, "actors": {{
                "session": {{"cookie": "sid"}}, "key": {{"header": "X-Api-Key"}}, "bearer": {{"header": "authorization"}},
                "unused": {{"cookie": "other"}}, "sub": {{"jwt": "sub"}}, "name": {{"header": "x-api-key-name"}}}},
                "limits": [{{"url": "/", "rules": [
                    {{"actor": "user", "rpu": 9, "unit": "hour"}}, {{"actor": "session", "rpu": 9, "unit": "hour"}},
                    {{"actor": ["ip", "key"], "rpu": 9, "unit": "hour"}}, {{"actor": "session", "rpu": 9, "unit": "day"}},
                    {{"actor": "bearer", "rpu": 9, "unit": "hour"}}, {{"actor": "sub", "rpu": 9, "unit": "hour"}},
                    {{"actor": "name", "rpu": 9, "unit": "hour"}}]}}]}}"#
        ))
    };
    let found = of(r#"{"actor": "value"}"#);
    let expected = ["session", "key", "bearer"].map(|actor| {
        format!(
            "access_log: the values of `{actor}` are credentials, which everybody who reads the log could use: \
             write `actor: hash`"
        )
    });
    let about_log =
        |all: Vec<String>| all.into_iter().filter(|one| one.starts_with("access_log")).collect::<Vec<_>>();
    assert_eq!(about_log(found), expected);
    assert_eq!(about_log(of(r#"{"actor": "hash", "secret": "0123456789abcdef"}"#)), [""; 0]);
    assert_eq!(about_log(of(r#""all""#)), [""; 0]);
}
