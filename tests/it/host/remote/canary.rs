//! A document that is tried, in the whole filter: it decides about each request as well, and nothing comes of that.
//!
//! It does not know: for whom it is tried, or what follows from how it fares.

use super::*;

/// What is tried for everybody, for a minute.
fn trying(document: &str) -> Gateway {
    let gateway = gateway(2, r#"{"limits": []}"#);
    let canary = r#", "canary": {"percent": 100, "hold": "1m", "max_refused": "50%"}"#;
    assert!(gateway.configure(&configuration(canary)));
    gateway.pass(1_000);
    has(&gateway, document);
    gateway.pass(1_200);
    assert_eq!(gateway.world.said("tried beside the one that serves"), 1);
    gateway
}

fn rule(rule: &str) -> String {
    format!(r#"{{"limits": [{{"url": "/", "rules": [{{"name": "tried", {rule}}}]}}]}}"#)
}

/// How many requests have fared so: the same, newly refused, newly admitted.
fn fared(gateway: &Gateway) -> [i64; 3] {
    ["same", "newly_refused", "newly_admitted"]
        .map(|result| gateway.counter(&format!("diana.canary.result.{result}.requests")))
}

#[test]
fn permits_are_tried_as_long_as_their_requests_last() {
    let gateway = trying(&rule(r#""algo": "C", "rpu": 2, "max_hold": "1h""#));
    let requests: Vec<usize> = (0..3).map(|worker| gateway.request(worker % 2, "/", "ann")).collect();
    assert_eq!(requests.iter().map(|at| gateway.fate(*at)).collect::<Vec<_>>(), vec![Fate::Upstream; 3]);
    assert_eq!(fared(&gateway), [2, 1, 0], "two in flight");
    gateway.end_all();
    assert_eq!(gateway.owing(), 0);
    (0..2).for_each(|worker| _ = gateway.request(worker, "/", "ann"));
    assert_eq!(fared(&gateway), [4, 1, 0], "they came back");
    is_clean(&gateway);
}

/// Who would wait passes at once, and keeps the turn that it would have had.
#[test]
fn queues_are_tried_without_waiting() {
    let gateway = trying(&rule(r#""algo": "LB", "rpu": 1, "unit": "minute", "queue": 2"#));
    for at in 0..5 {
        let request = gateway.request(at % 2, "/", "ann");
        assert_eq!(gateway.fate(request), Fate::Upstream);
        gateway.end_all();
    }
    assert_eq!(fared(&gateway), [3, 2, 0], "one, and a queue of two");
    is_clean(&gateway);
}

#[test]
fn what_is_tried_ends_with_what_it_is_tried_beside() {
    let gateway = trying(&rule(r#""algo": "C", "rpu": 1, "max_hold": "1h""#));
    let held = gateway.request(0, "/", "ann");
    // The server is back to what serves; then another configuration comes.
    has(&gateway, r#"{"limits": []}"#);
    gateway.pass(1_200);
    gateway.request(0, "/", "ann");
    assert_eq!(fared(&gateway), [1, 0, 0], "it is tried no more");
    assert!(gateway.configure(&configuration("")));
    gateway.request(1, "/", "ann");
    assert_eq!((fared(&gateway), gateway.fate(held)), ([1, 0, 0], Fate::Upstream));
    is_clean(&gateway);
}

/// A rule that a store counts is tried here, and no store hears of it.
#[test]
fn no_store_is_asked_for_what_is_tried() {
    let gateway = gateway(1, r#"{"limits": []}"#);
    let store =
        r#", "canary": {"percent": 100}}, "store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}"#;
    assert!(gateway.configure(&configuration(store)), "{:?}", gateway.world.log.borrow());
    gateway.pass(1_000);
    has(&gateway, &rule(r#""algo": "W", "rpu": 2, "unit": "day", "scope": "global""#));
    gateway.pass(1_200);
    for _ in 0..3 {
        let request = gateway.request(0, "/", "ann");
        assert_eq!(gateway.fate(request), Fate::Upstream);
    }
    assert_eq!((fared(&gateway), clusters(&gateway).decisions()), ([2, 1, 0], 0));
    is_clean(&gateway);
}

/// It serves from then on, and is watched.
#[test]
fn what_served_before_serves_again_when_too_many_are_refused() {
    let gateway = trying(&rule(r#""actor": "user", "algo": "W", "rpu": 3, "unit": "day""#));
    let ask = |user: usize| {
        let request = gateway.request(user % 2, "/", &format!("user-{user}"));
        gateway.fate(request)
    };
    assert_eq!(ask(1), Fate::Upstream);
    gateway.pass(61_000);
    assert_eq!(gateway.world.said("promoted: it would newly refuse 0 of 1 requests"), 1);
    let refused = (0..40).filter(|_| ask(2) != Fate::Upstream).count();
    assert_eq!(refused, 37);
    gateway.pass(1_000);
    assert_eq!(gateway.world.said("rolled back: it newly refused 37 of 40 requests"), 1);
    assert_eq!(ask(2), Fate::Upstream);
    assert_eq!(gateway.counter("diana.config.generation"), 3);
    is_clean(&gateway);
}
