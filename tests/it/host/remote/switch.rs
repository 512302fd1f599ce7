//! Requests that wait or hold permits while another document becomes active.

use super::*;

const QUEUE: &str = r#"{"algo": "LB", "rpu": 1, "unit": "second", "queue": 3}"#;
const PERMITS: &str = r#"{"name": "permits", "algo": "C", "rpu": 2, "max_hold": "1d"}"#;

fn limits(url: &str, rules: &str) -> String {
    format!(r#"{{"limits": [{{"url": "{url}", "rules": [{rules}]}}]}}"#)
}

fn fates(gateway: &Gateway, count: usize) -> Vec<Fate> {
    let requests: Vec<usize> = (0..count).map(|_| gateway.request(0, "/", "ann")).collect();
    requests.into_iter().map(|request| gateway.fate(request)).collect()
}

#[test]
fn a_waiting_request_keeps_its_turn_under_the_next_document() {
    let gateway = start(1, &limits("/", QUEUE));
    gateway.pass(1_000);
    let came = gateway.world.clock.get();
    assert_eq!(fates(&gateway, 4), [Fate::Upstream, Fate::Paused, Fate::Paused, Fate::Paused]);
    put_document(&gateway, &document(431));
    gateway.pass(900);
    assert_eq!((active_statuses(&gateway), gateway.paused()), (vec![431], 3));
    gateway.settle();
    let records = gateway.world.records.borrow();
    let went: Vec<u64> = records.iter().filter_map(|record| Some(record.went? - came)).collect();
    assert_eq!(went, [0, 1_000_000_000, 2_000_000_000, 3_000_000_000], "each when its turn came");
    drop(records);
    is_clean(&gateway);
}

#[test]
fn a_permit_held_under_the_previous_document_is_released() {
    let gateway = start(1, &limits("/", PERMITS));
    gateway.pass(1_000);
    assert_eq!(fates(&gateway, 3), [Fate::Upstream, Fate::Upstream, Fate::Answered(420)]);
    put_document(&gateway, &document(431));
    gateway.pass(1_000);
    put_document(&gateway, &limits("/", PERMITS));
    gateway.pass(1_000);
    assert_eq!(fates(&gateway, 1), [Fate::Answered(420)], "both are still held");
    gateway.end_all();
    assert_eq!(fates(&gateway, 3), [Fate::Upstream, Fate::Upstream, Fate::Answered(420)]);
    is_clean(&gateway);
}

/// The store is slow, and the document changes before the reply.
#[test]
fn a_request_that_waits_for_a_store_goes_on_and_is_refunded() {
    let shared = PERMITS.replace('}', r#", "scope": "global"}"#);
    let store =
        r#""store": {"redis": {"cluster": "a", "secret": "sixteen letters!", "timeout": "1s"}}, "remote""#;
    let gateway = gateway(2, &limits("/", &shared));
    assert!(gateway.configure(&configuration("").replace("\"remote\"", store)));
    gateway.pass(1_000);
    let slow = CallFaults { longest_us: 190_000, ..CallFaults::default() };
    let mut waited = 0;
    for round in 0..30 {
        set_call_faults(&gateway, CallFaults { seed: round, ..slow.clone() });
        let requests: Vec<usize> = (0..4).map(|worker| gateway.request(worker, "/", "ann")).collect();
        put_document(&gateway, &document(431));
        let mut switched = false;
        for _ in 0..100 {
            gateway.pass(10);
            let here = gateway.counter("diana.config.generation") % 2 == 0;
            waited += usize::from(here && !switched && gateway.paused() > 0);
            switched |= here;
        }
        gateway.pass(1_000);
        assert!(requests.iter().all(|request| gateway.fate(*request) != Fate::Paused));
        gateway.end_all();
        gateway.pass(500);
        assert_eq!((clusters(&gateway).outstanding(6, 2), gateway.kept_streams()), (0, 0), "round {round}");
        put_document(&gateway, &limits("/", &shared));
        gateway.pass(2_000);
    }
    assert!(waited > 3, "{waited} waited while the document changed");
    is_clean(&gateway);
}
