//! A configuration replaces another one: which counts of an actor migrate, and which do not.

use super::remaining;
use crate::harness::{Counting, Gateway, Random, at, get, policy, store};
use diana_limiter::cells::Replacement;
use diana_limiter::cells::store::{CasSemantics, SharedDataStore};
use diana_limiter::cells::table::TableId;
use diana_limiter::session::Worker;
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

/// A gateway whose configuration replaces that of `before` at `ms`.
pub(super) fn next<'h>(
    host: &'h Simulated,
    before: &Gateway<Host>,
    json: &str,
    ms: u64,
) -> Gateway<Host<'h>> {
    Gateway::after(before, Replacement::Certain, json, store(host), at(ms))
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
            for replacement in [Replacement::Certain, Replacement::Likely] {
                let host = Simulated::new(rules);
                let kept = rule(9, kind);
                let old = Gateway::new(&limit(&[window(100), kept.clone()]), store(&host));
                let first = left(&old, 0)[1];
                assert_eq!(left(&old, 0), [98, first - 1], "{kind}");
                let json = limit(&[kept.clone(), window(90), window(80)]);
                let new = Gateway::after(&old, replacement, &json, store(&host), at(1));
                // It is not known which of both the window of 100 has become.
                let used = if replacement == Replacement::Certain { 2 } else { 0 };
                assert_eq!(left(&new, 1), [first - 2, 89 - used, 79 - used], "{kind}");
                let later = [first - 3, 88 - used, 78 - used];
                assert_eq!(left(&new, 1), later, "{kind}, of a worker that comes later");
                assert_eq!(left_of(&new, "bob", 1), [first, 89, 79], "{kind}, of somebody else");
            }
        }
    }
}

#[test]
fn a_queue_keeps_its_turns_if_its_neighbours_change() {
    let host = Simulated::new(CasSemantics::Lenient);
    let queue = rule(1, r#", "algo": "LB", "unit": "second", "queue": 3, "max_wait": "1m""#);
    let mut old = Gateway::new(&limit(&[window(100), queue.clone()]), store(&host));
    let passes = |gateway: &mut Gateway<Host>| !gateway.ask(0, &get("/", "ann"), at(0)).is_rejected();
    assert_eq!([(); 3].map(|()| passes(&mut old)), [true; 3]);
    let mut new = next(&host, &old, &limit(&[queue, window(90)]), 0);
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
            let after = next(&host, &before, &limit(&[rule(9, new)]), 0);
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
        let new = next(&host, &old, &rules(10), 0);
        assert_eq!(left(&new, 0), [7], "{kind}");
        let raised = next(&host, &new, &rules(if kind == "SL" { 100 } else { 2_000 }), 0);
        assert_eq!(left(&raised, 0), [if kind == "SL" { 96 } else { 1_996 }], "{kind}");
        let lowered = next(&host, &raised, &rules(2), 0);
        assert_eq!(left(&lowered, 0), [0], "{kind}");
        let back = next(&host, &lowered, &rules(10), 0);
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
        let new = next(&host, &old, &rules(9, &adapt(30)), 0);
        assert_eq!(left(&new, 0), [6], "{kind}");
        let raised = next(&host, &new, &rules(12, &adapt(30)), 0);
        assert_eq!(left(&raised, 0), [8], "{kind}");
        let fixed = next(&host, &raised, &rules(12, ""), 0);
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
    let two = next(&host, &one, &rules(50, 8, 100), 1);
    assert_eq!((left_of(&two, "ann", 1), left_of(&two, "bob", 1)), (vec![6, 98], vec![48, 98]));
    let three = next(&host, &two, &rules(60, 8, 100), 2);
    assert_eq!((left_of(&three, "ann", 2), left_of(&three, "bob", 2)), (vec![5, 97], vec![57, 97]));
    let none = next(&host, &three, &limit(&[window(8), window(100)]), 3);
    assert_eq!((left_of(&none, "ann", 3), left_of(&none, "bob", 3)), (vec![4, 96], vec![4, 96]));
    let again = next(&host, &none, &rules(60, 8, 90), 4);
    assert_eq!((left_of(&again, "ann", 4), left_of(&again, "bob", 4)), (vec![3, 85], vec![55, 85]));
}

#[test]
fn another_number_of_actors_keeps_counts() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json =
        |actors| format!(r#"{{"local": {{"max_actors": {actors}}}, "limits": {}}}"#, limit(&[window(9)]));
    let old = Gateway::new(&json(1_000), store(&host));
    let users: Vec<String> = (0..50).map(|user| format!("user {user}")).collect();
    users.iter().for_each(|user| assert_eq!(left_of(&old, user, 0), [8]));
    let new = next(&host, &old, &json(5_000), 0);
    users.iter().for_each(|user| assert_eq!(left_of(&new, user, 0), [7]));
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
        gateways.push(next(&host, before, &rules(100 + change), 0));
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
        gateway = next(&host, &gateway, &json(200, 1), 0);
        for beside in 2..10 {
            gateway = next(&host, &gateway, &json(200, beside), 0);
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
    let two = next(&host, &one, &rules(200), 1);
    assert_eq!((left(&two, 1), left(&two, 1)), (vec![7, 198], vec![6, 197]));
    let mut back = next(&host, &two, &rules(100), 2);
    for (worker, kept) in [(0, 5), (0, 4), (1, 3), (0, 2)] {
        assert_eq!(remaining(&back.ask(worker, &get("/", "ann"), at(2))), [kept, 91 + kept]);
    }
}

/// As while the older configuration drains: each continues from its own count.
#[test]
fn old_and_new_configurations_count_independently() {
    for replacement in [Replacement::Certain, Replacement::Likely] {
        let host = Simulated::new(CasSemantics::Lenient);
        let mut old = Gateway::new(&limit(&[window(9), window(100)]), store(&host));
        let ask = |gateway: &mut Gateway<Host>, turn| remaining(&gateway.ask(turn, &get("/", "ann"), at(0)));
        assert_eq!(ask(&mut old, 0), [8, 99]);
        let json = limit(&[window(9), window(50)]);
        let mut new = Gateway::after(&old, replacement, &json, store(&host), at(0));
        for turn in 0..7 {
            let kept = 7 - turn as u64;
            assert_eq!(ask(&mut old, turn), [kept, 91 + kept]);
            // At its first request under the new configuration, the old one had counted two.
            if kept > 1 || replacement == Replacement::Certain {
                let used = if replacement == Replacement::Certain { 2 } else { 0 };
                assert_eq!(ask(&mut new, turn), [kept - 1, 42 + kept - used], "{replacement:?}");
            }
        }
    }
}

#[test]
fn a_migration_costs_one_load_an_actor() {
    let host = Simulated::new(CasSemantics::Lenient);
    let old = Gateway::new(&limit(&[window(9), window(100)]), store(&host));
    left(&old, 0);
    let json = limit(&[window(9), window(50)]);
    let mut new = Gateway::after(&old, Replacement::Certain, &json, Counting::new(store(&host)), at(0));
    new.store.take_counts();
    let mut cost = |user: &str, ms| {
        new.ask(0, &get("/", user), at(ms));
        new.store.take_counts()
    };
    assert_eq!([cost("ann", 0), cost("ann", 0)], [(2, 1), (1, 1)]);
    assert_eq!([cost("bob", 0), cost("bob", 0)], [(2, 1), (1, 1)]);
    assert_eq!(cost("eve", DAY), (1, 1));
    // The same group, beside another one: no older cell is read.
    let json = limit(&[window(9), window(100)])
        .replace(r#"[{"url""#, r#"[{"url": "/b", "rules": [{"rpu": 1, "unit": "hour"}]}, {"url""#);
    let mut new = Gateway::after(&old, Replacement::Certain, &json, Counting::new(store(&host)), at(0));
    new.store.take_counts();
    new.ask(0, &get("/", "new"), at(0));
    assert_eq!(new.store.take_counts(), (1, 1));
}

#[test]
fn a_refused_actor_migrates_once() {
    let host = Simulated::new(CasSemantics::Lenient);
    let old = Gateway::new(&limit(&[window(1), window(100)]), store(&host));
    left(&old, 0);
    let json = limit(&[window(1), window(50)]);
    let mut new = Gateway::after(&old, Replacement::Certain, &json, Counting::new(store(&host)), at(0));
    new.store.take_counts();
    for (worker, calls) in [(0, (2, 1)), (1, (1, 0))] {
        assert!(new.ask(worker, &get("/", "ann"), at(0)).is_rejected());
        assert_eq!(new.store.take_counts(), calls, "of worker {worker}");
    }
}

/// All cells of the actor's set refuse. The older cells are read when the actor gets a cell, and
/// not before.
#[test]
fn an_actor_without_a_cell_migrates_when_it_gets_one() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = |hourly: u32| {
        let kept = rule(5, r#", "algo": "W", "unit": "7d""#);
        let rules = limit(&[kept, rule(hourly, r#", "algo": "W", "unit": "hour""#)]);
        format!(r#"{{"local": {{"max_actors": 8}}, "limits": {rules}}}"#)
    };
    let old = Gateway::new(&json(100), store(&host));
    assert_eq!((left(&old, 0), left(&old, 0), left(&old, 0)), (vec![4, 99], vec![3, 98], vec![2, 97]));
    let mut new = Gateway::after(&old, Replacement::Certain, &json(1), Counting::new(store(&host)), at(0));
    let mut invented = (0..).map(|user| new.ask(0, &get("/", &format!("invented {user}")), at(0)));
    assert!(invented.any(|decision| decision.events.set_full > 0));
    new.store.take_counts();
    for _ in 0..3 {
        assert_eq!(new.ask(0, &get("/", "ann"), at(0)).events.set_full, 1);
        assert_eq!(new.store.take_counts(), (1, 0));
    }
    let hour = 3_600_000;
    assert_eq!(remaining(&new.ask(0, &get("/", "ann"), at(hour))), [1, 0]);
    assert_eq!(new.store.take_counts(), (2, 1));
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
        changes in prop::collection::vec((neighbours(), any::<bool>(), any::<bool>(), 1..8usize), 2..5),
        seed in any::<u64>(),
    ) {
        let (host, mut random) = (Simulated::new(CasSemantics::Lenient), Random(seed));
        let mut passed = [0; 3];
        let mut gateway: Option<Gateway<Host>> = None;
        let mut ms = 0;
        for (mut rules, first, is_certain, requests) in changes {
            rules.insert(if first { 0 } else { rules.len() }, kept.clone());
            let replacement = if is_certain { Replacement::Certain } else { Replacement::Likely };
            let json = limit(&rules);
            let mut next = match &gateway {
                Some(before) => Gateway::after(before, replacement, &json, store(&host), at(ms)),
                None => Gateway::new(&json, store(&host)),
            };
            for _ in 0..requests * 3 {
                let user = random.below(3);
                let decision = next.ask(random.below(2), &get("/", ["ann", "bob", "eve"][user]), at(ms));
                passed[user] += usize::from(!decision.is_rejected());
                ms += random.below(1_000) as u64;
            }
            gateway = Some(next);
        }
        prop_assert!(passed.iter().all(|passed| *passed <= most), "{passed:?} of {most}");
    }
}

/// A host that deletes keys keeps the old table until its counts no longer matter.
#[test]
fn the_old_table_is_in_use_as_long_as_its_counts_matter() {
    let old = policy(&limit(&[rule(9, r#", "unit": "hour""#)]));
    let new = policy(&limit(&[rule(9, r#", "unit": "hour""#), rule(1, r#", "algo": "C""#)]));
    let host = Simulated::new(CasSemantics::Strict);
    let worker = Worker::new(old, store(&host), &[7; 16]);
    let before: Vec<TableId> = worker.tables(at(0)).collect();
    assert_eq!(before.len(), 1);
    let mut successor = Worker::new(new, store(&host), &[7; 16]);
    successor.migrate_from(&[worker.previous()], Replacement::Certain, at(0));
    let uses_old = |ms| successor.tables(at(ms)).any(|table| table == before[0]);
    assert_eq!((uses_old(0), uses_old(DAY)), (true, false));
    assert_eq!(TableId::of_key(b"diana/seed"), None);
}
