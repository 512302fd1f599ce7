//! A configuration replaces another one: which counts of an actor continue, and which do not.

use super::remaining;
use crate::harness::{Counting, Gateway, Random, at, get, store};
use diana_limiter::cells::store::{CasSemantics, SharedDataStore};
use diana_testing::shared_data::Simulated;
use proptest::prelude::*;

pub(super) type Host<'h> = SharedDataStore<&'h Simulated>;

pub(super) const DAY: u64 = 86_400_000;

/// One limit for everything, with these rules.
pub(super) fn limit(rules: &[String]) -> String {
    format!(r#"[{{"url": "/", "rules": [{}]}}]"#, rules.join(", "))
}

/// A rule that counts users. Each kind but the first has configuration keys of its own.
pub(super) fn rule(rpu: u32, rest: &str) -> String {
    format!(r#"{{"actor": "user", "rpu": {rpu}{rest}}}"#)
}

fn window(rpu: u32) -> String {
    rule(rpu, r#", "algo": "W", "unit": "hour""#)
}

/// A gateway with another configuration over the same shared data.
pub(super) fn next<'h>(host: &'h Simulated, json: &str) -> Gateway<Host<'h>> {
    Gateway::new(json, store(host))
}

/// The quota that ann has left after one more request.
pub(super) fn left(gateway: &Gateway<Host>, ms: u64) -> Vec<u64> {
    left_of(gateway, "ann", ms)
}

pub(super) fn left_of(gateway: &Gateway<Host>, user: &str, ms: u64) -> Vec<u64> {
    remaining(&gateway.ask_new_worker(&get("/", user), at(ms)))
}

#[test]
fn a_rule_keeps_its_count_if_its_neighbours_change() {
    let kinds = [
        r#", "unit": "hour""#,
        r#", "unit": "hour", "burst": 20, "max_wait": "1m""#,
        r#", "algo": "W", "unit": "hour""#,
        r#", "algo": "SW", "unit": "hour""#,
        r#", "algo": "SL", "unit": "hour""#,
        r#", "algo": "C""#,
    ];
    for kind in kinds {
        for rules in [CasSemantics::Lenient, CasSemantics::Strict] {
            let host = Simulated::new(rules);
            let kept = rule(9, kind);
            let old = Gateway::new(&limit(&[window(100), kept.clone()]), store(&host));
            let first = left(&old, 0)[1];
            assert_eq!(left(&old, 0), [98, first - 1], "{kind}");
            // Of windows without names, the smallest of the one document is that of the other.
            let new = next(&host, &limit(&[kept.clone(), window(90), window(80)]));
            assert_eq!(left(&new, 1), [first - 2, 89, 77], "{kind}");
            assert_eq!(left(&new, 1), [first - 3, 88, 76], "{kind}, of a worker that comes later");
            assert_eq!(left_of(&new, "bob", 1), [first, 89, 79], "{kind}, of somebody else");
        }
    }
}

/// A day without anchor and zone is a span. With either of them it has one count in all zones.
#[test]
fn another_zone_of_a_day_gives_no_quota() {
    let host = Simulated::new(CasSemantics::Lenient);
    for (keys, expected) in [
        (r#""unit": "day", "timezone": "Europe/Berlin""#, 8),
        (r#""unit": "day", "timezone": "UTC""#, 7),
        (r#""unit": "day", "anchor": {"hour": 0}"#, 6),
        (r#""unit": "day", "anchor": {"hour": 1}"#, 5),
        (r#""unit": "day""#, 8),
        (r#""unit": "24h""#, 7),
    ] {
        let gateway = next(&host, &limit(&[rule(9, &format!(r#", "algo": "W", {keys}"#))]));
        assert_eq!(left(&gateway, 0), [expected], "{keys}");
    }
}

#[test]
fn a_queue_keeps_its_turns_if_its_neighbours_change() {
    let host = Simulated::new(CasSemantics::Lenient);
    let queue = rule(1, r#", "algo": "LB", "unit": "second", "queue": 3, "max_wait": "1m""#);
    let mut old = Gateway::new(&limit(&[window(100), queue.clone()]), store(&host));
    let passes = |gateway: &mut Gateway<Host>| !gateway.ask(0, &get("/", "ann"), at(0)).is_rejected();
    assert_eq!([(); 3].map(|()| passes(&mut old)), [true; 3]);
    let mut new = next(&host, &limit(&[queue, window(90)]));
    assert_eq!([(); 2].map(|()| passes(&mut new)), [true, false]);
}

#[test]
fn another_algorithm_or_time_base_starts_empty() {
    let all = [
        r#", "unit": "hour""#,
        r#", "unit": "2h""#,
        r#", "unit": "hour", "start": "empty""#,
        r#", "unit": "hour", "max_wait": "1h""#,
        r#", "algo": "W", "unit": "hour""#,
        r#", "algo": "W", "unit": "2h""#,
        r#", "algo": "SW", "unit": "hour""#,
        r#", "algo": "SL", "unit": "hour""#,
        r#", "algo": "LB", "unit": "hour", "queue": 8, "max_wait": "1h""#,
        r#", "algo": "C""#,
    ];
    // A bucket carries its unit and its wait.
    let is_full_bucket = |rest: &str| !rest.contains("algo") && !rest.contains("start");
    for old in all {
        for new in all.iter().filter(|new| **new != old && !(is_full_bucket(new) && is_full_bucket(old))) {
            let (host, other) =
                (Simulated::new(CasSemantics::Lenient), Simulated::new(CasSemantics::Lenient));
            let before = Gateway::new(&limit(&[rule(9, old)]), store(&host));
            (0..4).for_each(|_| _ = left(&before, 0));
            let after = next(&host, &limit(&[rule(9, new)]));
            let fresh = Gateway::new(&limit(&[rule(9, new)]), store(&other));
            assert_eq!(left(&after, 0), left(&fresh, 0), "{old} to {new}");
        }
    }
}

#[test]
fn another_quota_keeps_what_was_used() {
    let host = Simulated::new(CasSemantics::Lenient);
    for kind in ["W", "SW", "SL"] {
        let rules = |rpu| limit(&[rule(rpu, &format!(r#", "algo": "{kind}", "unit": "hour""#))]);
        let old = Gateway::new(&rules(9), store(&host));
        assert_eq!((left(&old, 0), left(&old, 0)), (vec![8], vec![7]), "{kind}");
        let new = next(&host, &rules(10));
        assert_eq!(left(&new, 0), [7], "{kind}");
        let raised = next(&host, &rules(if kind == "SL" { 100 } else { 2_000 }));
        assert_eq!(left(&raised, 0), [if kind == "SL" { 96 } else { 1_996 }], "{kind}");
        let lowered = next(&host, &rules(2));
        assert_eq!(left(&lowered, 0), [0], "{kind}");
        let back = next(&host, &rules(10));
        assert_eq!(left(&back, 0), [5], "{kind}: a refusal changes nothing");
    }
}

/// An adaptive limit is a quota like any other, whatever its numbers.
#[test]
fn another_adaptive_limit_keeps_what_was_used() {
    let host = Simulated::new(CasSemantics::Lenient);
    for kind in [r#", "unit": "hour""#, r#", "algo": "C""#] {
        let rules = |rpu, adapt: &str| limit(&[rule(rpu, &format!("{kind}{adapt}"))]);
        let adapt = |max: u32| format!(r#", "adapt": {{"signal": "errors", "target": "5%", "max": {max}}}"#);
        let old = Gateway::new(&rules(9, &adapt(20)), store(&host));
        assert_eq!((left(&old, 0), left(&old, 0)), (vec![8], vec![7]), "{kind}");
        let new = next(&host, &rules(9, &adapt(30)));
        assert_eq!(left(&new, 0), [6], "{kind}");
        let raised = next(&host, &rules(12, &adapt(30)));
        assert_eq!(left(&raised, 0), [8], "{kind}");
        let fixed = next(&host, &rules(12, ""));
        assert_eq!(left(&fixed, 0), [7], "{kind}");
    }
}

#[test]
fn an_unchanged_override_keeps_its_count() {
    let host = Simulated::new(CasSemantics::Lenient);
    let rules = |bob: u32, base: u32, other: u32| {
        let overridden =
            format!(r#", "algo": "W", "unit": "hour", "overrides": {{"bob": {{"rpu": {bob}}}}}"#);
        limit(&[rule(base, &overridden), window(other)])
    };
    let one = Gateway::new(&rules(50, 9, 100), store(&host));
    assert_eq!((left_of(&one, "ann", 0), left_of(&one, "bob", 0)), (vec![8, 99], vec![49, 99]));
    let two = next(&host, &rules(50, 8, 100));
    assert_eq!((left_of(&two, "ann", 1), left_of(&two, "bob", 1)), (vec![6, 98], vec![48, 98]));
    let three = next(&host, &rules(60, 8, 100));
    assert_eq!((left_of(&three, "ann", 2), left_of(&three, "bob", 2)), (vec![5, 97], vec![57, 97]));
    let none = next(&host, &limit(&[window(8), window(100)]));
    assert_eq!((left_of(&none, "ann", 3), left_of(&none, "bob", 3)), (vec![4, 96], vec![4, 96]));
    let again = next(&host, &rules(60, 8, 90));
    assert_eq!((left_of(&again, "ann", 4), left_of(&again, "bob", 4)), (vec![3, 85], vec![55, 85]));
}

/// The number of sets is part of the keys.
#[test]
fn another_number_of_actors_starts_empty() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json =
        |actors| format!(r#"{{"local": {{"max_actors": {actors}}}, "limits": {}}}"#, limit(&[window(9)]));
    for (actors, left) in [(1_000, 8), (5_000, 8), (1_000, 7)] {
        assert_eq!(self::left(&Gateway::new(&json(actors), store(&host)), 0), [left], "{actors}");
    }
}

/// Ann sends requests under the first and the last configuration only, bob under all.
#[test]
fn counts_migrate_through_three_changes() {
    let host = Simulated::new(CasSemantics::Lenient);
    let rules = |other| limit(&[window(9), window(other)]);
    let mut gateways = vec![Gateway::new(&rules(100), store(&host))];
    assert_eq!(left(&gateways[0], 0), [8, 99]);
    for (change, bobs) in (1..4).zip((5..8).rev()) {
        let before = gateways.last().unwrap();
        assert_eq!(left_of(before, "bob", 0), [bobs + 1, 99]);
        gateways.push(next(&host, &rules(100 + change)));
    }
    let last = gateways.last().unwrap();
    assert_eq!((left(last, 0), left_of(last, "bob", 0)), (vec![7, 101], vec![5, 99]));
}

/// However often other groups change.
#[test]
fn an_unchanged_group_adds_no_previous_configuration() {
    let changes = ["", r#", "overrides": {"bob": {"rpu": 3}, "eve": {"rpu": 4}}"#];
    for overrides in changes {
        let host = Simulated::new(CasSemantics::Lenient);
        let json = |other, beside| {
            let kept = rule(9, &format!(r#", "algo": "W", "unit": "7d"{overrides}"#));
            let beside = format!(r#"{{"url": "/b", "rules": [{}]}}"#, window(beside));
            format!(r#"[{beside}, {}"#, &limit(&[kept, window(other)])[1..])
        };
        let mut gateway = Gateway::new(&json(100, 1), store(&host));
        for (user, kept) in [("ann", 8), ("bob", if overrides.is_empty() { 8 } else { 2 })] {
            assert_eq!(left_of(&gateway, user, 0), [kept, 99]);
        }
        gateway = next(&host, &json(200, 1));
        for beside in 2..10 {
            gateway = next(&host, &json(200, beside));
        }
        for (user, kept) in [("ann", 7), ("bob", if overrides.is_empty() { 7 } else { 1 })] {
            assert_eq!(left_of(&gateway, user, 0), [kept, 198], "{user}{overrides}");
        }
    }
}

/// The counts of the meantime stay, in whichever worker the actor's next request arrives.
#[test]
fn a_reverted_change_keeps_counts() {
    let host = Simulated::new(CasSemantics::Lenient);
    let rules = |other| limit(&[window(9), window(other)]);
    let one = Gateway::new(&rules(100), store(&host));
    assert_eq!(left(&one, 0), [8, 99]);
    let two = next(&host, &rules(200));
    assert_eq!((left(&two, 1), left(&two, 1)), (vec![7, 198], vec![6, 197]));
    let mut back = next(&host, &rules(100));
    for (worker, kept) in [(0, 5), (0, 4), (1, 3), (0, 2)] {
        assert_eq!(remaining(&back.ask(worker, &get("/", "ann"), at(2))), [kept, 91 + kept]);
    }
}

/// As while the older configuration drains, or a worker has not switched yet.
#[test]
fn old_and_new_configurations_count_together() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut old = Gateway::new(&limit(&[window(9), window(100)]), store(&host));
    let mut new = Gateway::new(&limit(&[window(9), window(50)]), store(&host));
    for turn in 0..4 {
        let used = 2 * turn as u64;
        let ask = |gateway: &mut Gateway<Host>| remaining(&gateway.ask(turn, &get("/", "ann"), at(0)));
        assert_eq!(ask(&mut old), [8 - used, 99 - used]);
        assert_eq!(ask(&mut new), [7 - used, 48 - used]);
    }
}

#[test]
fn a_change_costs_no_load() {
    let host = Simulated::new(CasSemantics::Lenient);
    let old = Gateway::new(&limit(&[window(9), window(100)]), store(&host));
    left(&old, 0);
    let mut new =
        Gateway::new(&limit(&[window(9), rule(50, r#", "unit": "hour""#)]), Counting::new(store(&host)));
    new.store.take_counts();
    for user in ["ann", "ann", "bob"] {
        new.ask(0, &get("/", user), at(0));
        assert_eq!(new.store.take_counts(), (1, 1));
    }
}

/// The keys of a rule, and how many requests it admits in a day without a refill.
fn kept_rules() -> impl Strategy<Value = (String, usize)> {
    let kinds = [
        (r#", "unit": "7d""#, 0),
        (r#", "unit": "7d", "burst": 12"#, 12),
        (r#", "algo": "W", "unit": "7d""#, 0),
        (r#", "algo": "SW", "unit": "7d""#, 0),
        (r#", "algo": "SL", "unit": "7d""#, 0),
        (r#", "algo": "C", "max_hold": "1d""#, 0),
    ];
    (prop::sample::select(kinds.to_vec()), 1..10u32)
        .prop_map(|((kind, burst), rpu)| (rule(rpu, kind), if burst > 0 { burst } else { rpu as usize }))
}

fn neighbours() -> impl Strategy<Value = Vec<String>> {
    let kinds = [
        r#", "unit": "hour""#,
        r#", "algo": "W", "unit": "hour""#,
        r#", "algo": "SW", "unit": "7d""#,
        r#", "unit": "7d", "overrides": {"bob": {"rpu": 2000}}"#,
        r#", "unit": "second", "mode": "shadow""#,
    ];
    let one = (prop::sample::select(kinds.to_vec()), 1_000..1_005u32).prop_map(|(kind, rpu)| rule(rpu, kind));
    prop::collection::vec(one, 0..3)
}

proptest! {
    /// Configurations in a row, each new in all workers at once: in total, no more requests pass
    /// than the rule admits.
    #[test]
    fn a_rule_admits_no_more_over_any_changes(
        (kept, most) in kept_rules(),
        changes in prop::collection::vec((neighbours(), any::<bool>(), 1..8usize), 2..8),
        seed in any::<u64>(),
    ) {
        let (host, mut random) = (Simulated::new(CasSemantics::Lenient), Random(seed));
        let mut passed = [0; 3];
        let mut ms = 0;
        for (mut rules, first, requests) in changes {
            rules.insert(if first { 0 } else { rules.len() }, kept.clone());
            let mut gateway = next(&host, &limit(&rules));
            for _ in 0..requests * 3 {
                let user = random.below(3);
                let decision = gateway.ask(random.below(2), &get("/", ["ann", "bob", "eve"][user]), at(ms));
                passed[user] += usize::from(!decision.is_rejected());
                ms += random.below(1_000) as u64;
            }
        }
        prop_assert!(passed.iter().all(|passed| *passed <= most), "{passed:?} of {most}");
    }
}
