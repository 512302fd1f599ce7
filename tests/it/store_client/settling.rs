//! Global rules that settle: what a worker tells the store when a request has ended.

use super::refunds::{open_breaker, recover};
use super::*;
use crate::harness::{START, get, store};
use diana_config::{Configuration, compile};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::global::{GlobalCharge, Settlement};
use diana_limiter::policy::{ResponseNumber, Usage};
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;

/// The commands of a call.
fn commands(call: &Call) -> Vec<String> {
    wire::commands(&call.message.body).into_iter().flat_map(|command| command.arguments).collect()
}

/// The commands of the decision about a request, to which the store replies `replied`, and those of
/// the request's end.
fn session(rule: &str, replied: &str, usage: Option<&Usage>) -> (Vec<String>, Vec<String>) {
    session_of(rule, &get("/", "ann"), replied, usage)
}

/// The same for the request of these values.
fn session_of(
    rule: &str,
    values: &Values,
    replied: &str,
    usage: Option<&Usage>,
) -> (Vec<String>, Vec<String>) {
    let json = format!(
        r#"{{"limits": [{{"url": "/", "rules": [{{"name": "r", "scope": "global", {rule}}}]}}],
            "store": {{"redis": {{"cluster": "a", "secret": "a secret of the tests only"}}}}}}"#
    );
    let Configuration { policy, store: options, .. } = compile(json.as_bytes()).unwrap();
    let host = Simulated::new(CasSemantics::Lenient);
    let mut worker =
        Worker::new(policy.clone(), store(&host), &[1; 16]).with_global_store(options.unwrap(), 1);
    let (mut session, _) = Session::start(&mut worker, &policy.request(values), || START);
    let call = worker.next_call(at(0)).unwrap();
    let asked = commands(&call);
    let replied: Vec<u64> = replied.split(',').map(|number| number.parse().unwrap()).collect();
    let completions = worker.call_done(call.id, http(&reply(&call, &replied)), at(0));
    let _ = session.answer(&mut worker, &completions[0], || START);
    assert!(session.settles());
    match usage {
        Some(usage) => session.settle_used(&mut worker, usage, || START),
        None => session.settle(&mut worker, || START),
    };
    assert!(!session.has_charges());
    let told = worker.next_call(at(0)).map(|call| commands(&call)).unwrap_or_default();
    (asked, told)
}

fn usage(status: u16, response_bytes: u64) -> Usage {
    Usage { status: Some(status), response_bytes, ..Usage::default() }
}

#[test]
fn the_store_corrects_what_was_charged_on_arrival() {
    let rule =
        r#""algo": "W", "rpu": 100, "unit": "second", "cost": {"response_bytes": true, "estimate": 7}"#;
    let replied = "0,0,93,0,0,7,5000,4000,0,2,0,0,0";
    let parameters = "2 100 1000000 100 0 0 0";
    for (used, end) in [(30, 30), (3, 3), (0, 0), (u64::MAX, 999_999_999_999_999_u64)] {
        let (asked, told) = session(rule, replied, Some(&usage(200, used)));
        assert_eq!(asked, ["1 1 1 2 1 7 0 100 1000000 100 0 0 0"]);
        assert_eq!(told, [format!("5 1 {parameters} 7 5000 4000 0 2 {end}")]);
    }
    // The store may have charged the rest of the quota. In the end, what was used counts.
    let part = replied.replace("0,7,", "0,3,");
    for (used, end) in [(30, Some(30)), (7, Some(7)), (5, Some(5)), (3, None), (1, Some(1))] {
        let told = session(rule, &part, Some(&usage(200, used))).1;
        let end = end.map(|end| format!("5 1 {parameters} 3 5000 4000 0 2 {end}"));
        assert_eq!(told, end.into_iter().collect::<Vec<_>>(), "{used}");
    }
    let nothing = [""; 0];
    assert_eq!(session(rule, replied, Some(&usage(200, 7))).1, nothing, "exactly the estimate");
    assert_eq!(session(rule, replied, None).1, nothing, "nothing was measured");
    let told = session(rule, replied, Some(&Usage::default())).1;
    assert_eq!(told, [format!("5 1 {parameters} 7 5000 4000 0 2 0")], "no response");
}

/// The declared length is charged by the query, and corrected to what came.
#[test]
fn the_store_corrects_a_declared_length() {
    let rule = r#""algo": "W", "rpu": 100, "unit": "second", "cost": "request_bytes""#;
    let values = get("/", "ann").with(Part::BodySize, "90");
    let replied = "0,0,10,0,0,90,5000,4000,0,2,0,0,0";
    let parameters = "2 100 1000000 100 0 0 0";
    for (came, end) in [(60, Some(60)), (0, Some(0)), (90, None), (300, Some(300))] {
        let used = Usage { request_bytes: came, ..Usage::default() };
        let (asked, told) = session_of(rule, &values, replied, Some(&used));
        assert_eq!(asked, ["1 1 1 2 1 90 0 100 1000000 100 0 0 0"]);
        let end = end.map(|end| format!("5 1 {parameters} 90 5000 4000 0 2 {end}"));
        assert_eq!(told, end.into_iter().collect::<Vec<_>>(), "{came}");
    }
}

/// Without a response the number is unknown, and the store is told the most.
#[test]
fn the_store_is_told_the_most_of_a_number_that_cannot_be_read() {
    let rule = r#""algo": "W", "rpu": 100, "unit": "second", "cost": {"response_json": "/n", "estimate": 7, "default": 30}"#;
    let replied = "0,0,93,0,0,7,5000,4000,0,2,0,0,0";
    let number = |seen, is_final| ResponseNumber { seen, is_final };
    for (values, end) in [
        (vec![], 30),
        (vec![number(None, false)], 30),
        (vec![number(Some(9), false)], 30),
        (vec![number(Some(90), false)], 90),
        (vec![number(Some(9), true)], 9),
    ] {
        let used = Usage { status: Some(200), values, ..Usage::default() };
        let told = session(rule, replied, Some(&used)).1;
        assert_eq!(told, [format!("5 1 2 100 1000000 100 0 0 0 7 5000 4000 0 2 {end}")], "{used:?}");
    }
}

#[test]
fn a_failed_log_in_is_charged_afterwards() {
    let rule = r#""rpu": 5, "unit": "second", "charge": {"status": 401}"#;
    let replied = "0,0,5,0,0,0,5000,5000,0,0,0,0,0";
    // The query charges nothing and is refused without one unit left. Five units may be borrowed.
    let parameters = "1 200000 1 5 0 10 1000000";
    let (asked, told) = session(rule, replied, Some(&usage(401, 0)));
    assert_eq!(asked, ["1 1 1 1 3 0 0 200000 1 5 0 10 1000000"]);
    assert_eq!(told, [format!("5 1 {parameters} 0 5000 5000 0 0 1")]);
    assert_eq!(session(rule, replied, Some(&usage(200, 0))).1, [""; 0]);
}

#[test]
fn corrections_wait_for_the_recovery_of_the_store() {
    let parameters = Parameters { kind: 2, numbers: [10, 1_000_000, 5, 0, 0, 0] };
    let settle = |number: u32| {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&number.to_be_bytes());
        let charge = GlobalCharge { key, parameters, numbers: [1, 7, 7, 0, 0] };
        GlobalQuery::Settle(vec![Settlement { charge, cost: 3 }])
    };
    let mut few = client(1);
    open_breaker(&mut few);
    (1..4).for_each(|number| few.refund(0, settle(number)));
    assert_eq!(recover(&mut few), [1, 2, 3]);
    assert!(few.is_done());
    // The queue is bounded, and tells what it dropped.
    let mut many = client(1);
    open_breaker(&mut many);
    (1..1_031).for_each(|number| many.refund(0, settle(number)));
    assert_eq!(recover(&mut many).len(), 1_024);
    assert_eq!(many.call_stats().map(|(_, stats)| stats.dropped_refunds).sum::<u32>(), 6);
}
