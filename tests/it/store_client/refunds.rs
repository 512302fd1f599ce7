//! Refunds: when the client sends them, and which ones it drops.

use super::*;
use diana_limiter::global::{GlobalCharge, LeaseUsage};

/// A refund whose key is the number, so that its place in a call is visible.
fn refund(number: u32) -> GlobalQuery {
    let parameters = Parameters { kind: 2, numbers: [10, 1_000_000, 0, 0, 0, 0] };
    let mut key = [0; 16];
    key[..4].copy_from_slice(&number.to_be_bytes());
    GlobalQuery::Refund(vec![GlobalCharge { key, parameters, numbers: [1, 7, 7, 0, 0] }])
}

/// The numbers of the refunds in a call, in order.
fn refunds(call: &Call) -> Vec<u32> {
    let body = body(call);
    let keys = body.split("diana:{0}:").skip(1).filter(|key| !key.starts_with("probe"));
    let number = |key: &str| u32::from_str_radix(&key[..8], 16).unwrap();
    keys.map(number).filter(|number| *number != 0x0101_0101).collect()
}

pub(super) fn open_breaker(client: &mut StoreClient) {
    while client.is_available(0) {
        ask(client, 1);
        let call = client.next(at(0)).unwrap();
        answered(client, call.id, CallResult::Response { status: 503, body: b"" }, 0);
    }
}

/// Answers the due probe and all further calls. Returns the refunds in these calls.
pub(super) fn recover(client: &mut StoreClient) -> Vec<u32> {
    let probe = client.next(at(1_000)).unwrap();
    assert!(body(&probe).contains(":probe/"), "{}", body(&probe));
    answered(client, probe.id, http(&reply(&probe, &[])), 1_001);
    assert!(client.is_available(0));
    let mut sent = Vec::new();
    while let Some(call) = client.next(at(1_002)) {
        let numbers = refunds(&call);
        assert!(numbers.len() <= 256);
        answered(client, call.id, http(&done(&call)), 1_002);
        sent.extend(numbers);
    }
    sent
}

#[test]
fn refunds_that_meet_an_open_breaker_are_sent_after_recovery() {
    let mut client = client(1);
    // The first two are queued when the breaker opens.
    ask(&mut client, 9);
    let call = client.next(at(0)).unwrap();
    (1..3).for_each(|number| client.refund(0, refund(number)));
    answered(&mut client, call.id, CallResult::NotMade, 0);
    let call = client.next(at(0)).unwrap();
    (3..5).for_each(|number| client.refund(0, refund(number)));
    answered(&mut client, call.id, CallResult::NotMade, 0);
    assert!(client.is_available(0), "two failures");
    let call = client.next(at(0)).unwrap();
    // This one waits for the next call when the breaker opens.
    client.refund(0, refund(7));
    answered(&mut client, call.id, CallResult::NotMade, 0);
    assert!(!client.is_available(0) && !client.is_done(), "three failures");
    (5..7).for_each(|number| client.refund(0, refund(number)));
    assert!(client.next(at(0)).is_none());
    let mut sent = recover(&mut client);
    sent.sort();
    assert_eq!(sent, [1, 2, 3, 4, 5, 6, 7]);
    assert!(client.is_done());
    assert_eq!(client.call_stats().map(|(_, stats)| stats.dropped_refunds).sum::<u32>(), 0);
}

/// A bucket would count the rest of a lease as spent.
#[test]
fn the_rest_of_a_lease_is_queued_like_a_refund() {
    let mut client = client(1);
    let GlobalQuery::Refund(charges) = refund(1) else { unreachable!() };
    let GlobalCharge { key, parameters, .. } = charges[0];
    client.refund(
        0,
        GlobalQuery::ReturnLease(vec![LeaseUsage { key, parameters, generation: 7, used: 1, left: 9 }]),
    );
    let call = client.next(at(0)).unwrap();
    assert_eq!(refunds(&call), [1]);
    answered(&mut client, call.id, CallResult::NotMade, 0);
    let call = client.next(at(0)).unwrap();
    assert_eq!(refunds(&call), [1]);
    answered(&mut client, call.id, http(&done(&call)), 1);
    assert!(client.is_done());
}

#[test]
fn a_refund_is_not_retried_if_the_store_may_have_executed_it() {
    let mut client = client(1);
    client.refund(0, refund(1));
    let call = client.next(at(0)).unwrap();
    assert_eq!(refunds(&call), [1]);
    answered(&mut client, call.id, CallResult::Response { status: 504, body: b"" }, 50);
    assert!(client.next(at(50)).is_none());
    open_breaker(&mut client);
    assert_eq!(recover(&mut client), [] as [u32; 0]);
}

#[test]
fn a_failed_probe_loses_no_refund() {
    let mut client = client(1);
    open_breaker(&mut client);
    client.refund(0, refund(1));
    let probe = client.next(at(300)).unwrap();
    assert_eq!(refunds(&probe), [] as [u32; 0]);
    answered(&mut client, probe.id, CallResult::Response { status: 503, body: b"" }, 301);
    assert_eq!(recover(&mut client), [1]);
}

#[test]
fn the_oldest_of_too_many_refunds_are_dropped_and_counted() {
    let mut client = client(1);
    open_breaker(&mut client);
    (0..1_030).for_each(|number| client.refund(0, refund(number)));
    assert_eq!(client.call_stats().map(|(_, stats)| stats.dropped_refunds).sum::<u32>(), 6);
    assert_eq!(recover(&mut client), (6..1_030).collect::<Vec<u32>>());
}

/// Requests go first after an outage, but do not delay the refunds for ever.
#[test]
fn requests_and_refunds_share_the_calls_after_an_outage() {
    let mut client = client(1);
    open_breaker(&mut client);
    (1..101).for_each(|number| client.refund(0, refund(number)));
    let probe = client.next(at(1_000)).unwrap();
    answered(&mut client, probe.id, http(&reply(&probe, &[])), 1_001);
    (0..300).for_each(|number| ask(&mut client, number));
    let call = client.next(at(1_002)).unwrap();
    assert_eq!(refunds(&call), (1..33).collect::<Vec<u32>>());
    assert_eq!(body(&call).matches(&"01".repeat(16)).count(), 224);
}
