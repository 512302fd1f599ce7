//! A candidate in the whole filter: it decides every request, too, without any effect.

use super::*;
use crate::host::callouts::CallFault;

const CANARY: &str = r#", "canary": {"percent": 100, "hold": "1m", "max_refused": "50%"}"#;

/// A gateway with a canary of all actors, for a minute.
fn with_candidate(document: &str) -> Gateway {
    let gateway = gateway(2, r#"{"limits": []}"#);
    assert!(gateway.configure(&configuration(CANARY)));
    gateway.pass(1_000);
    put_document(&gateway, document);
    gateway.pass(1_200);
    assert_eq!(gateway.world.logged("tried beside the one that serves"), 1);
    gateway
}

fn rule(rule: &str) -> String {
    format!(r#"{{"limits": [{{"url": "/", "rules": [{{"name": "tried", {rule}}}]}}]}}"#)
}

/// How many documents were promoted, not promoted, and rolled back.
fn verdict_counts(gateway: &Gateway) -> [i64; 3] {
    ["promotions", "rejections", "rollbacks"].map(|name| gateway.counter(&format!("diana.canary.{name}")))
}

#[test]
fn a_candidate_holds_permits_as_long_as_their_requests_last() {
    let gateway = with_candidate(&rule(r#""algo": "C", "rpu": 2, "max_hold": "1h""#));
    let requests: Vec<usize> = (0..3).map(|worker| gateway.request(worker % 2, "/", "ann")).collect();
    assert_eq!(requests.iter().map(|at| gateway.fate(*at)).collect::<Vec<_>>(), vec![Fate::Upstream; 3]);
    assert_eq!(comparisons(&gateway), [2, 1, 0], "two in flight");
    gateway.end_all();
    assert_eq!(gateway.kept_streams(), 0);
    (0..2).for_each(|worker| _ = gateway.request(worker, "/", "ann"));
    assert_eq!(comparisons(&gateway), [4, 1, 0], "the permits are released");
    is_clean(&gateway);
}

/// A request that would wait passes at once, and keeps the turn that it would have had.
#[test]
fn a_queue_of_a_candidate_delays_nobody() {
    let gateway = with_candidate(&rule(r#""algo": "LB", "rpu": 1, "unit": "minute", "queue": 2"#));
    for at in 0..5 {
        let request = gateway.request(at % 2, "/", "ann");
        assert_eq!(gateway.fate(request), Fate::Upstream);
        gateway.end_all();
    }
    assert_eq!(comparisons(&gateway), [3, 2, 0], "one, and a queue of two");
    is_clean(&gateway);
}

#[test]
fn a_candidate_ends_with_the_active_document() {
    let gateway = with_candidate(&rule(r#""algo": "C", "rpu": 1, "max_hold": "1h""#));
    let held = gateway.request(0, "/", "ann");
    // The server is back to the active document; then another configuration comes.
    put_document(&gateway, r#"{"limits": []}"#);
    gateway.pass(1_200);
    gateway.request(0, "/", "ann");
    assert_eq!(comparisons(&gateway), [1, 0, 0], "the candidate is withdrawn");
    assert!(gateway.configure(&configuration("")));
    gateway.request(1, "/", "ann");
    assert_eq!((comparisons(&gateway), gateway.fate(held)), ([1, 0, 0], Fate::Upstream));
    is_clean(&gateway);
}

/// A document that refuses all requests and is a candidate, or was one and was not promoted.
fn strict(is_over: bool) -> Gateway {
    let gateway = with_candidate(&document(430));
    let requests: Vec<usize> = (0..40).map(|at| gateway.request(at % 2, "/", "ann")).collect();
    assert!(requests.into_iter().all(|request| gateway.fate(request) == Fate::Upstream));
    if is_over {
        gateway.pass(61_000);
        assert_eq!((gateway.world.logged("not promoted: "), verdict_counts(&gateway)), (1, [0, 1, 0]));
    }
    gateway
}

/// The way out in docs/configuration/canary.md, while the previous plugin still drains.
#[test]
fn a_candidate_from_a_new_path_is_active_at_once() {
    for is_over in [false, true] {
        let gateway = strict(is_over);
        let other = configuration(CANARY).replace("/diana.json", "/diana.json?now");
        assert!(gateway.configure(&other));
        gateway.pass(500);
        assert_eq!(active_statuses(&gateway), [430; 2]);
        is_clean(&gateway);
    }
}

/// The same without another path, while the previous plugin would go on with the candidate.
#[test]
fn a_candidate_is_active_at_once_without_a_canary() {
    for is_over in [false, true] {
        let gateway = strict(is_over);
        assert!(gateway.configure(&configuration("")));
        gateway.pass(3_000);
        assert_eq!(active_statuses(&gateway), [430; 2]);
        is_clean(&gateway);
    }
}

/// The newest configuration gives the verdict.
#[test]
fn a_candidate_is_promoted_under_a_larger_max_refused() {
    let gateway = strict(false);
    assert!(gateway.configure(&configuration(&CANARY.replace("50%", "100%"))));
    gateway.pass(61_000);
    assert_eq!((gateway.world.logged("not promoted"), gateway.world.logged("config promoted: ")), (0, 1));
    assert_eq!(active_statuses(&gateway), [430; 2]);
    is_clean(&gateway);
}

/// A global rule of a candidate is counted locally, and no store is queried.
#[test]
fn a_candidate_queries_no_store() {
    let gateway = gateway(1, r#"{"limits": []}"#);
    let store =
        r#", "canary": {"percent": 100}}, "store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}"#;
    assert!(gateway.configure(&configuration(store)));
    gateway.pass(1_000);
    put_document(&gateway, &rule(r#""algo": "W", "rpu": 2, "unit": "day", "scope": "global""#));
    gateway.pass(1_200);
    for _ in 0..3 {
        let request = gateway.request(0, "/", "ann");
        assert_eq!(gateway.fate(request), Fate::Upstream);
    }
    assert_eq!((comparisons(&gateway), clusters(&gateway).decisions()), ([2, 1, 0], 0));
    is_clean(&gateway);
}

/// The document becomes active, and is watched.
#[test]
fn a_document_that_refuses_too_many_is_rolled_back() {
    let gateway = with_candidate(&rule(r#""actor": "user", "algo": "W", "rpu": 3, "unit": "day""#));
    let ask = |user: usize| {
        let request = gateway.request(user % 2, "/", &format!("user-{user}"));
        gateway.fate(request)
    };
    assert_eq!(ask(1), Fate::Upstream);
    gateway.pass(61_000);
    assert_eq!(gateway.world.logged("promoted: it would newly refuse 0 of 1 requests"), 1);
    let refused = (0..40).filter(|_| ask(2) != Fate::Upstream).count();
    assert_eq!(refused, 37);
    gateway.pass(1_000);
    assert_eq!(gateway.world.logged("rolled back: it newly refused 37 of 40 requests"), 1);
    assert_eq!(ask(2), Fate::Upstream);
    assert_eq!((gateway.counter("diana.config.generation"), verdict_counts(&gateway)), (3, [1, 0, 1]));
    is_clean(&gateway);
}

/// The limits of both documents, each with one rule for `user` on all paths. The canary compares
/// all actors and allows no newly refused request.
fn changing(from: &str, to: &str) -> Gateway {
    let gateway = gateway(2, &rule(&format!(r#""actor": "user", {from}"#)));
    let more = r#", "canary": {"percent": 100, "hold": "1m", "max_refused": "0%"}}, "store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}"#;
    assert!(gateway.configure(&configuration(more)));
    gateway.pass(1_000);
    gateway.request(0, "/", "warm");
    gateway.pass(10);
    put_document(&gateway, &rule(&format!(r#""actor": "user", {to}"#)));
    gateway
}

/// How many requests of a user pass, each `ms` after the previous one.
fn passes(gateway: &Gateway, requests: usize, ms: u64, user: &str) -> usize {
    let passes = |at: &usize| {
        let request = gateway.request(at % 2, "/", user);
        gateway.pass(ms);
        gateway.fate(request) == Fate::Upstream
    };
    let passed = (0..requests).filter(passes).count();
    gateway.end_all();
    passed
}

#[test]
fn requests_that_query_a_store_are_compared() {
    let quota = |rpu: u32| format!(r#""algo": "W", "rpu": {rpu}, "unit": "day", "scope": "global""#);
    let gateway = changing(&quota(5), &quota(3));
    gateway.pass(1_200);
    let before = clusters(&gateway).decisions();
    assert_eq!(passes(&gateway, 8, 10, "ann"), 5);
    assert!(clusters(&gateway).decisions() > before);
    assert_eq!(comparisons(&gateway), [6, 2, 0], "three pass, two would not, three are refused by both");
    gateway.pass(60_000);
    assert_eq!(gateway.world.logged("not promoted: it would newly refuse 2 of 5 requests"), 1);
    is_clean(&gateway);
}

/// Both documents refuse some requests that the other admits, but equally many in total.
#[test]
fn a_candidate_that_admits_more_is_promoted_under_attack() {
    let gateway = changing(
        r#""algo": "TB", "rpu": 10, "unit": "second", "burst": 10"#,
        r#""algo": "TB", "rpu": 12, "unit": "second", "burst": 5"#,
    );
    gateway.pass(1_200);
    let passed = passes(&gateway, 2_000, 17, "ann");
    assert!((340..=360).contains(&passed), "{passed}");
    let [same, refused, admitted] = comparisons(&gateway);
    assert!(
        same + refused + admitted == 2_000 && refused > 20 && admitted > refused,
        "{same} {refused} {admitted}"
    );
    gateway.pass(60_000);
    let words = format!("config promoted: it would newly refuse 0 of {passed} requests");
    assert_eq!(gateway.world.logged(&words), 1);
    is_clean(&gateway);
}

/// Admitted actors do not make up for a refused one.
#[test]
fn newly_admitted_actors_do_not_offset_a_newly_refused_one() {
    let gateway = gateway(
        2,
        r#"[{"url": "/", "rules": [
        {"name": "a", "actor": "user", "algo": "W", "rpu": 1, "unit": "day", "overrides": {"bob": {"rpu": 100}}}
    ]}]"#,
    );
    assert!(
        gateway
            .configure(&configuration(r#", "canary": {"percent": 100, "hold": "1m", "max_refused": "10%"}"#))
    );
    gateway.pass(1_000);
    put_document(
        &gateway,
        r#"[{"url": "/", "rules": [
        {"name": "a", "actor": "user", "algo": "W", "rpu": 100, "unit": "day", "overrides": {"bob": {"rpu": 1}}}
    ]}]"#,
    );
    gateway.pass(1_200);
    assert_eq!((passes(&gateway, 20, 1, "ann"), passes(&gateway, 20, 1, "bob")), (1, 20));
    assert_eq!(comparisons(&gateway), [2, 19, 19]);
    gateway.pass(60_000);
    assert_eq!(gateway.world.logged("not promoted: it would newly refuse 19 of 21 requests"), 1);
    is_clean(&gateway);
}

/// The candidate goes on with the counts, as if it took over from the active document.
#[test]
fn a_candidate_continues_from_the_counts_of_the_active_document() {
    let quota = r#""algo": "W", "rpu": 3, "unit": "day""#;
    let more = quota.replace("3", "100");
    let gateway = changing(quota, &format!(r#"{quota}}}, {{"name": "more", "actor": "user", {more}"#));
    assert_eq!(passes(&gateway, 2, 1, "ann"), 2, "before the comparison");
    gateway.pass(1_200);
    assert_eq!(passes(&gateway, 2, 1, "ann"), 1);
    assert_eq!(comparisons(&gateway), [2, 0, 0]);
    is_clean(&gateway);
}

/// The previous document would have refused these requests, too.
#[test]
fn an_attack_rolls_nothing_back() {
    let quota = r#""algo": "TB", "rpu": 5, "unit": "minute", "burst": 5"#;
    let gateway = changing(quota, &quota.replace('5', "6"));
    gateway.pass(1_200);
    gateway.pass(60_500);
    assert_eq!(gateway.world.logged("promoted: it would newly refuse 0 of 0 requests"), 1);
    gateway.pass(1_000);
    let passed = passes(&gateway, 500, 10, "ann");
    assert!(passed < 10, "{passed}");
    assert!(comparisons(&gateway)[0] > 400, "{:?}", comparisons(&gateway));
    gateway.pass(60_000);
    assert_eq!((gateway.world.logged("rolled back"), gateway.counter("diana.config.generation")), (0, 2));
    is_clean(&gateway);
}

/// The store is down, whichever document is active.
#[test]
fn refusals_without_a_store_do_not_count_against_a_document() {
    let quota = r#""algo": "W", "rpu": 900, "unit": "day", "scope": "global", "on_error": "deny""#;
    let gateway = changing(quota, &quota.replace("900", "901"));
    gateway.pass(61_000);
    gateway.pass(1_000);
    assert_eq!(gateway.world.logged("config promoted: "), 1);
    set_call_faults(
        &gateway,
        CallFaults { faults: &[CallFault::Unavailable], one_in: 1, ..CallFaults::default() },
    );
    let before = comparisons(&gateway);
    assert_eq!(passes(&gateway, 100, 10, "ann"), 0);
    assert_eq!(comparisons(&gateway), before);
    gateway.pass(5_000);
    assert_eq!(gateway.world.logged("rolled back"), 0);
    is_clean(&gateway);
}

/// Requests of other actors are not compared, even if some of their rules are.
#[test]
fn a_canary_compares_a_part_of_all_actors() {
    let quota = |rpu: u32| rule(&format!(r#""actor": "user", "algo": "W", "rpu": {rpu}, "unit": "day""#));
    let gateway = gateway(2, &quota(9));
    assert!(gateway.configure(&configuration(r#", "canary": {"percent": 50, "hold": "1m"}"#)));
    gateway.pass(1_000);
    put_document(&gateway, &quota(1));
    gateway.pass(1_200);
    let users = (0..100).map(|user| {
        let before = comparisons(&gateway);
        assert_eq!(passes(&gateway, 2, 1, &format!("user-{user}")), 2);
        let [same, refused, admitted] = comparisons(&gateway);
        (same - before[0], refused - before[1], admitted)
    });
    let users: Vec<_> = users.collect();
    assert!(users.iter().all(|user| [(1, 1, 0), (0, 0, 0)].contains(user)), "{users:?}");
    let sampled = users.iter().filter(|(same, ..)| *same > 0).count();
    assert!((30..=70).contains(&sampled), "{sampled}");
    is_clean(&gateway);
}
