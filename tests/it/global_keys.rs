//! The keys of counts in the global store: the same for the same rule and actor, whatever else a
//! document contains.

use crate::harness::{START, get, store};
use diana_base::time::Time;
use diana_config::{Configuration, compile};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::decide::Outcome;
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;

/// The keys of the counts that a request of `user` queries, in order.
fn keys(rules: &str, user: &str) -> Vec<String> {
    let store_of = r#"{"redis": {"cluster": "a", "secret": "a secret of the tests only"}}"#;
    let json = format!(r#"{{"limits": [{{"url": "/", "rules": [{rules}]}}], "store": {store_of}}}"#);
    let Configuration { policy, store: options, .. } = compile(json.as_bytes()).unwrap();
    let host = Simulated::new(CasSemantics::Lenient);
    let mut worker =
        Worker::new(policy.clone(), store(&host), &[1; 16]).with_global_store(options.unwrap(), 1);
    let request = get("/", user);
    let (_, decision) = Session::start(&mut worker, &policy.request(&request), || START);
    assert!(matches!(decision.outcome, Outcome::Query(_)), "{decision:?}");
    let call = worker.next_call(Time::ZERO).unwrap();
    crate::host::wire::commands(&call.message.body).into_iter().flat_map(|command| command.keys).collect()
}

const TEN: &str = r#"{"actor": "user", "rpu": 10, "unit": "hour", "scope": "global"}"#;

#[test]
fn a_key_does_not_depend_on_the_rest_of_the_document() {
    let own = keys(TEN, "ann");
    assert_eq!(own.len(), 1);
    assert_ne!(own, keys(TEN, "bob"));
    for beside in [
        r#"{"actor": "user", "rpu": 10, "unit": "hour"}"#,
        r#"{"actor": "user", "rpu": 99, "unit": "hour", "scope": "global"}"#,
        r#"{"actor": "user", "rpu": 99, "unit": "hour", "scope": "global", "on_error": "deny"}"#,
        r#"{"actor": "user", "rpu": 99, "unit": "hour", "scope": "global", "on_error": "allow", "lease": 5}"#,
        r#"{"rpu": 10, "unit": "hour", "scope": "global"}"#,
    ] {
        let both = keys(&format!("{beside}, {TEN}"), "ann");
        assert!(both.contains(&own[0]), "{beside}");
    }
    for changed in
        [r#""on_error": "allow", "#, r#""lease": 3, "#, r#""mode": "shadow", "#, r#""enforce": "5%", "#]
    {
        let changed = TEN.replace(r#""scope""#, &format!("{changed}\"scope\""));
        assert_eq!(keys(&changed, "ann"), own, "{changed}");
    }
}

/// Two rules that differ in their costs keep their counts, whichever is enforced.
#[test]
fn a_count_does_not_depend_on_whom_its_rule_refuses() {
    let rule =
        |cost: u64, more: &str| TEN.replace(r#""scope""#, &format!(r#""cost": {cost}, {more}"scope""#));
    for costs in [[1, 2], [2, 1], [3, 5], [5, 3]] {
        let both = |more: &str| keys(&format!("{}, {}", rule(costs[0], more), rule(costs[1], "")), "ann");
        for more in [r#""mode": "shadow", "#, r#""enforce": "5%", "#] {
            assert_eq!(both(more), both(""), "{costs:?} {more}");
        }
    }
}

/// A gateway that knows no penalties would not find the count behind the refusals.
#[test]
fn each_penalty_has_counts_of_its_own() {
    let penalty = |penalty| keys(&TEN.replace(r#""scope""#, &format!("{penalty} \"scope\"")), "ann");
    let all = [
        r#""penalty": {"after": 5, "for": "10m"},"#,
        r#""penalty": {"after": 6, "for": "10m"},"#,
        r#""penalty": {"after": 5, "for": "11m"},"#,
        "",
    ];
    let all = all.map(penalty);
    assert!(all.iter().enumerate().all(|(at, one)| !all[..at].contains(one)), "{all:?}");
}

#[test]
fn rules_have_separate_counts() {
    let twice = keys(&format!("{TEN}, {TEN}"), "ann");
    assert!(twice.len() == 2 && twice[0] != twice[1], "{twice:?}");
    // Both rules give one actor the same quota.
    let of = |rpu: u32| {
        format!(
            r#"{{"actor": "user", "rpu": {rpu}, "unit": "hour", "scope": "global", "overrides": {{"ann": {{"rpu": 50}}}}}}"#
        )
    };
    let both = keys(&format!("{}, {}", of(10), of(20)), "ann");
    assert!(both.len() == 2 && both[0] != both[1], "{both:?}");
    // The rules are in different groups too.
    let apart = TEN.replace(r#""scope""#, r#""on_error": "deny", "scope""#);
    let apart = keys(&format!("{TEN}, {apart}"), "ann");
    assert!(apart.len() == 2 && apart[0] != apart[1], "{apart:?}");
}

/// Another `headroom` keeps the count. Two rules that differ only in it have a count each, whatever
/// their order in the document.
#[test]
fn the_headroom_is_no_part_of_the_name() {
    let keeps = |units| TEN.replace(r#""scope""#, &format!(r#""headroom": {units}, "scope""#));
    let own = keys(TEN, "ann");
    assert_eq!([keys(&keeps(3), "ann"), keys(&keeps(4), "ann")], [own.clone(), own]);
    let [a, b] = [keys(&format!("{}, {TEN}", keeps(3)), "ann"), keys(&format!("{TEN}, {}", keeps(3)), "ann")];
    assert_ne!(a[0], a[1]);
    assert_eq!([&a[0], &a[1]], [&b[1], &b[0]]);
}

#[test]
fn a_key_does_not_depend_on_the_limit_that_a_request_brings() {
    let brought = r#"{"header": "x-user-id", "default": 10, "max": 99}"#;
    for (rule, name) in [(TEN.to_owned(), "unnamed"), (TEN.replace('{', r#"{"name": "r", "#), "named")] {
        let rule = rule.replace("10", brought);
        let of = |user: &str| keys(&rule, user);
        let of_all = rule.replace(r#""actor": "user""#, r#""actor": "all""#);
        assert_eq!(keys(&of_all, "7"), keys(&of_all, "42"), "{name}");
        assert_ne!(of("7"), of("42"), "{name}");
    }
}
