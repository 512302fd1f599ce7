//! What a candidate counts, and for which actors.

use super::*;

/// A candidate does not continue from the counts of an earlier candidate.
#[test]
fn a_candidate_begins_with_the_counts_of_the_active_document() {
    let window = r#"{"name": "w", "actor": "user", "algo": "W", "rpu": 10, "unit": "day"}"#;
    let bucket =
        r#"{"url": "/", "rules": [{"name": "b", "actor": "user", "rpu": 1, "unit": "minute", "burst": 1}]}"#;
    let both = format!(r#"{{"limits": [{{"url": "/", "rules": [{window}]}}, {bucket}]}}"#);
    let gateway = with_canary(1, &both, 100, "5%", "");
    // Too loose a document: its author withdraws it.
    put_candidate(&gateway, &rules(window));
    assert_eq!(passes(&gateway, 20, 1, "ann"), 1);
    put_document(&gateway, &both);
    gateway.pass(120_000);
    // Another document, in which nothing has changed for her.
    let before = comparisons(&gateway);
    put_candidate(&gateway, &with_unused_rule(&both, "c"));
    assert_eq!(passes(&gateway, 1, 1, "ann"), 1, "two of ten");
    gateway.pass(61_000);
    assert_eq!(comparisons(&gateway)[1], before[1], "nothing is newly refused: {:?}", log_lines(&gateway));
    assert_eq!(gateway.world.logged("config promoted: "), 1, "{:?}", log_lines(&gateway));
}

/// One client with a connection to each of two workers. Both documents admit equally many requests,
/// but in different workers.
#[test]
fn an_actor_is_compared_over_all_workers() {
    let one = |algo: &str| {
        rules(&format!(r#"{{"name": "one", "actor": "user", "algo": "{algo}", "rpu": 1, "unit": "second"}}"#))
    };
    let mut phases = 0;
    for early in 3..9 {
        let gateway = with_canary(2, &one("TB"), 100, "5%", "");
        let mut at = 0;
        let mut ask = |gateway: &Gateway, count: usize| {
            for _ in 0..count {
                gateway.request(at, "/", "ann");
                gateway.end_all();
                gateway.pass(510);
                at += 1;
            }
        };
        ask(&gateway, early);
        gateway.pass(early as u64 * 150);
        put_document(&gateway, &one("SL"));
        ask(&gateway, 130);
        let [same, refused, admitted] = comparisons(&gateway);
        assert!(refused.abs_diff(admitted) <= 1, "{same} {refused} {admitted}");
        phases += usize::from(refused > 40);
        assert_eq!(
            gateway.world.logged(" not promoted: "),
            0,
            "{same} {refused} {admitted} {:?}",
            log_lines(&gateway)
        );
    }
    assert!(phases > 0, "no case in which the two documents admit different requests");
}

/// The actor has another cell under each document.
#[test]
fn an_actor_with_an_override_is_the_same_under_both_documents() {
    let bucket = |rpu: u32, burst: u32| {
        rules(&format!(
            r#"{{"name": "b", "actor": "user", "rpu": 1, "unit": "second", "burst": 1,
                "overrides": {{"ann": {{"rpu": {rpu}, "burst": {burst}}}}}}}"#
        ))
    };
    let gateway = with_canary(1, &bucket(10, 10), 100, "0%", "");
    assert_eq!(passes(&gateway, 1, 1, "ann"), 1);
    put_candidate(&gateway, &bucket(12, 5));
    passes(&gateway, 2_000, 17, "ann");
    let [_, refused, admitted] = comparisons(&gateway);
    assert!(refused > 20 && admitted > refused, "{refused} {admitted}");
    gateway.pass(60_000);
    assert_eq!(
        gateway.world.logged("config promoted: it would newly refuse 0 of "),
        1,
        "{:?}",
        log_lines(&gateway)
    );
}

/// Clients that leave while they wait refund their turns.
#[test]
fn requests_that_leave_free_the_queue_of_a_candidate() {
    let queue = |places: u32| {
        rules(&format!(r#"{{"name": "q", "algo": "LB", "rpu": 1, "unit": "minute", "queue": {places}}}"#))
    };
    let gateway = with_canary(1, &queue(3), 100, "5%", "");
    put_candidate(&gateway, &queue(2));
    // One request holds the place at the upstream; the others come and go.
    gateway.request(0, "/", "ann");
    for _ in 0..20 {
        let waits = gateway.request(0, "/", "ann");
        assert_eq!(gateway.fate(waits), Fate::Paused);
        gateway.end_all();
        gateway.pass(10);
    }
    assert_eq!(comparisons(&gateway), [21, 0, 0]);
}

/// Otherwise the previous document would seem to admit actors that it has refused and would refuse.
#[test]
fn the_previous_document_keeps_its_counts_while_the_active_one_is_watched() {
    let window = |rpu: u32| rules(&window("w", "user", rpu, "day"));
    let gateway = with_canary(1, &window(5), 100, "5%", "");
    for user in 0..10 {
        assert_eq!(passes(&gateway, 5, 1, &format!("user-{user}")), 5, "the whole quota");
    }
    put_candidate(&gateway, &window(4));
    gateway.pass(61_000);
    assert_eq!(gateway.world.logged("config promoted: "), 1);
    gateway.pass(1_000);
    for user in 0..10 {
        assert_eq!(passes(&gateway, 5, 1, &format!("user-{user}")), 4, "it starts empty");
    }
    gateway.pass(1_000);
    // The previous document would have admitted none of these, and refuses again as soon as it is
    // active.
    let is_back = gateway.world.logged("rolled back");
    let passed = passes(&gateway, 5, 1, "user-0");
    assert_eq!((is_back, passed), (0, 0), "{:?}", log_lines(&gateway));
}

/// A host frees no keys, so a candidate takes over the keys of an earlier one.
#[test]
fn tables_of_rejected_candidates_do_not_pile_up() {
    let gateway = with_canary(1, r#"{"limits": []}"#, 100, "0%", r#", "local": {"max_actors": 100"#);
    let mut sizes = Vec::new();
    for number in 0..20 {
        let document = format!(
            r#"{{"limits": [{{"url": "/", "headers": {{"x-{number}": {{"present": false}}}}, "rules": [{{"actor": "user", "rpu": 1, "unit": "day"}}]}}]}}"#
        );
        put_document(&gateway, &document);
        gateway.pass(1_200);
        for user in 0..200 {
            passes(&gateway, 1, 0, &format!("user-{user}"));
        }
        sizes.push(size(&gateway));
    }
    let candidates = gateway.world.logged("tried beside");
    assert!(candidates == 20 && sizes[19] < sizes[9] * 11 / 10, "{candidates} candidates: {sizes:?}");
}

/// The same requests at the same time in a gateway without a canary.
#[test]
fn a_candidate_changes_the_fate_of_no_request() {
    let active = r#"{"limits": [{"url": "/", "rules": [
        {"name": "tb", "actor": "user", "rpu": 600, "unit": "second", "burst": 600},
        {"name": "w", "actor": "user", "algo": "W", "rpu": 900, "unit": "minute", "overrides": {"bob": {"rpu": 40}}},
        {"name": "c", "actor": "user", "algo": "C", "rpu": 5, "max_hold": "1m"}]},
        {"url": "/queue", "rules": [{"name": "lb", "algo": "LB", "rpu": 5, "unit": "second", "queue": 4}]},
        {"url": "/free", "exclusive": true}]}"#;
    let candidate = active
        .replace("900", "300")
        .replace(r#""queue": 4"#, r#""queue": 9"#)
        .replace(r#""rpu": 5,"#, r#""rpu": 3,"#);
    for seed in 0..30u64 {
        let gateways = [(); 2].map(|()| with_canary(3, active, 100, "100%", ""));
        put_document(&gateways[1], &candidate);
        gateways.iter().for_each(|gateway| gateway.pass(1_200));
        assert_eq!(gateways[1].world.logged("tried beside"), 1);
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for step in 0..600 {
            let (kind, worker, user) =
                (random(20), random(3) as usize, ["ann", "bob", "cid"][random(3) as usize]);
            let (path, ms) = (["/", "/", "/", "/queue", "/free"][random(5) as usize], random(90));
            for gateway in &gateways {
                match kind {
                    0 => gateway.end_all(),
                    1..4 => gateway.pass(ms),
                    _ => _ = gateway.request(worker, path, user),
                }
            }
            let fates = |gateway: &Gateway| {
                gateway
                    .world
                    .records
                    .borrow()
                    .iter()
                    .map(|record| (record.fate.clone(), record.went))
                    .collect::<Vec<_>>()
            };
            assert_eq!(fates(&gateways[0]), fates(&gateways[1]), "seed {seed}, step {step}");
        }
        assert!(comparisons(&gateways[1])[1] > 0);
        gateways.iter().for_each(is_clean);
    }
}

/// A second candidate begins with the counts of the active document, not with those of the first
/// one.
#[test]
fn a_second_candidate_begins_with_the_active_counts() {
    let window = |rpu: u32| rules(&window("w", "user", rpu, "day"));
    let gateway = with_canary(1, &window(9), 100, "5%", "");
    put_candidate(&gateway, &window(2));
    passes(&gateway, 3, 1, "ann");
    assert_eq!(comparisons(&gateway), [2, 1, 0]);
    put_document(&gateway, &window(9));
    gateway.pass(1_200);
    put_candidate(&gateway, &window(2));
    passes(&gateway, 3, 1, "ann");
    assert_eq!(comparisons(&gateway), [4, 2, 0]);
}

/// Such quota would never be returned.
#[test]
fn no_worker_reserves_quota_of_a_candidate() {
    let window = |rpu: u32| rules(&window("w", "user", rpu, "day"));
    let gateway = with_canary(2, &window(2_000), 100, "5%", "");
    put_candidate(&gateway, &window(1_900));
    let passes = |worker: usize, requests: usize| {
        (0..requests).for_each(|_| {
            gateway.request(worker, "/", "ann");
            gateway.pass(1);
            gateway.end_all();
        });
    };
    passes(0, 1_000);
    gateway.pass(1_000);
    passes(1, 900);
    assert_eq!(comparisons(&gateway), [1_900, 0, 0]);
    passes(1, 1);
    assert_eq!(comparisons(&gateway), [1_900, 1, 0]);
}
