//! Tests of a worker's client of the global store: batching, retries, late replies and the breaker.

mod permits;

use diana::algorithm::{Parameters, Quota};
use diana::config;
use diana::policy::{GlobalCharge, GlobalQuery, LeaseGrant, LeaseUsage, Policy, RuleId, RuleQuery};
use diana::remote::redis::{Dialect, Redis};
use diana::remote::{
    Call, CallResult, Completion, GlobalStoreOptions, Message, Protocol, StoreClient, Waiter,
};
use diana::time::{Span, Time};

const NOT_KNOWN: &[u8] = br#"{"EVALSHA":[false,"NOSCRIPT No matching script. Please use EVAL."]}"#;
/// A reply: admitted, nine left, and a charge.
const ADMITTED: &str = "0,0,9,0,0,1,7,7,0,0,0,0,0";

fn policy() -> Policy {
    config::compile(br#"{"limits": [{"url": "/", "rules": [{"rpu": 1, "unit": "day"}]}]}"#).unwrap().policy
}

fn lines(in_flight: usize) -> StoreClient {
    let redis = Redis::new(Dialect::Webdis, "diana".into(), Vec::new());
    let options = GlobalStoreOptions {
        clusters: vec!["a".into()],
        timeout: Span::from_ms(50),
        in_flight,
        protocol: Protocol::Redis(redis),
    };
    StoreClient::new(options, 7)
}

fn at(ms: u64) -> Time {
    Time::ZERO.after(Span::from_ms(ms))
}

fn question() -> GlobalQuery {
    let asked = RuleQuery {
        rule: RuleId::new(0),
        key: [1; 16],
        quota: Quota { rpu: 10, unit: Span::from_secs(1) },
        parameters: Parameters { kind: 2, numbers: [10, 1_000_000, 0, 0, 0, 0] },
        enforced: true,
        cost: 1,
        lease: 0,
    };
    GlobalQuery::Decide(vec![vec![asked]])
}

fn body(call: &Call) -> &str {
    match &call.message {
        Message::Http { body, .. } => std::str::from_utf8(body).unwrap(),
        Message::Grpc(_) => panic!("an HTTP call"),
    }
}

fn http(body: &[u8]) -> CallResult<'_> {
    CallResult::Http { status: 200, body }
}

/// The number of a call, which follows its keys.
fn number(call: &Call) -> u64 {
    let mut parts = body(call).split('/').skip(2);
    let keys: usize = parts.next().unwrap().parse().unwrap();
    parts.nth(keys).unwrap().parse().unwrap()
}

/// The reply to a call with these numbers.
fn reply(call: &Call, numbers: &str) -> Vec<u8> {
    let number = number(call).to_string();
    let all = [&*number, numbers].into_iter().filter(|part| !part.is_empty());
    format!(r#"{{"EVALSHA":[{}]}}"#, all.collect::<Vec<_>>().join(",")).into_bytes()
}

fn ask(lines: &mut StoreClient, number: u32) {
    assert!(lines.ask(0, Waiter::Request(number), question()));
}

fn answered(lines: &mut StoreClient, id: u32, answer: CallResult, ms: u64) -> Vec<Completion> {
    let mut news = Vec::new();
    lines.answered(id, answer, at(ms), &mut news);
    news
}

/// A proxy may check the host, which is the cluster's name. `Authorization` and similar headers
/// come from the configuration.
#[test]
fn a_call_names_its_cluster_and_brings_its_own_headers() {
    let token = ("authorization".to_owned(), "Bearer x".to_owned());
    let protocol = Protocol::Redis(Redis::new(Dialect::Upstash, "diana".into(), vec![token]));
    let (clusters, timeout) = (vec!["a".into(), "name.upstash.io".into()], Span::from_ms(50));
    let mut lines = StoreClient::new(GlobalStoreOptions { clusters, timeout, in_flight: 1, protocol }, 7);
    assert!(lines.ask(1, Waiter::Request(1), question()));
    let Message::Http { headers, .. } = lines.next(&policy(), at(0)).unwrap().message else {
        panic!("an HTTP call")
    };
    // The number of headers, then the length of each, then each with a zero byte after it.
    let texts = headers.split_at(4 + 5 * 8).1.split(|byte| *byte == 0);
    let texts: Vec<&str> = texts.map(|text| std::str::from_utf8(text).unwrap()).collect();
    let pairs = [
        [":method", "POST"],
        [":path", "/"],
        [":authority", "name.upstash.io"],
        ["authorization", "Bearer x"],
        ["content-type", "application/json"],
    ];
    assert_eq!(texts, [&pairs.concat()[..], &[""]].concat());
}

#[test]
fn what_arrives_while_a_call_is_under_way_goes_out_together() {
    let (policy, mut lines) = (policy(), lines(1));
    ask(&mut lines, 1);
    let first = lines.next(&policy, at(0)).unwrap();
    (2..5).for_each(|number| ask(&mut lines, number));
    assert!(lines.next(&policy, at(0)).is_none());
    let news = answered(&mut lines, first.id, http(&reply(&first, ADMITTED)), 1);
    assert_eq!(
        (news.len(), news[0].waiter, news[0].replies.as_ref().unwrap()[0].grant),
        (1, Waiter::Request(1), LeaseGrant::default())
    );
    let second = lines.next(&policy, at(1)).unwrap();
    assert!(body(&second).starts_with("EVALSHA/") && body(&second).contains("/3/diana:{0}:0101"));
    assert!(lines.next(&policy, at(1)).is_none());
}

#[test]
fn calls_that_were_under_way_when_the_script_was_lost_are_made_once_more() {
    let (policy, mut lines) = (policy(), lines(2));
    ask(&mut lines, 1);
    let one = lines.next(&policy, at(0)).unwrap();
    ask(&mut lines, 2);
    let two = lines.next(&policy, at(0)).unwrap();
    assert_eq!(answered(&mut lines, one.id, http(NOT_KNOWN), 1), []);
    let whole = lines.next(&policy, at(1)).unwrap();
    assert!(body(&whole).starts_with("EVAL/"));
    assert_eq!(answered(&mut lines, two.id, http(NOT_KNOWN), 1), [], "it did not bring the script");
    let told = answered(&mut lines, whole.id, http(&reply(&whole, ADMITTED)), 2);
    assert_eq!((told.len(), told[0].replies.is_some()), (1, true));
    let again = lines.next(&policy, at(2)).unwrap();
    let told = answered(&mut lines, again.id, http(&reply(&again, ADMITTED)), 3);
    assert_eq!((told.len(), told[0].waiter, told[0].replies.is_some()), (1, Waiter::Request(2), true));
    // A store that misses the script although the call brought it is broken.
    ask(&mut lines, 3);
    let call = lines.next(&policy, at(4)).unwrap();
    assert_eq!(answered(&mut lines, call.id, http(NOT_KNOWN), 4), []);
    let call = lines.next(&policy, at(4)).unwrap();
    let told = answered(&mut lines, call.id, http(NOT_KNOWN), 4);
    assert_eq!(told, [Completion { waiter: Waiter::Request(3), shard: 0, replies: None }]);
}

#[test]
fn who_has_left_is_not_told_and_what_he_was_charged_goes_back() {
    let (policy, mut lines) = (policy(), lines(1));
    ask(&mut lines, 1);
    let call = lines.next(&policy, at(0)).unwrap();
    ask(&mut lines, 2);
    [1, 2].into_iter().for_each(|number| lines.cancel(Waiter::Request(number)));
    assert_eq!(answered(&mut lines, call.id, http(&reply(&call, ADMITTED)), 1), []);
    let back = lines.next(&policy, at(1)).unwrap();
    assert!(body(&back).ends_with("/2+1+2+10+1000000+0+0+0+0+1+7+7+0+0"), "{}", body(&back));
    assert_eq!(answered(&mut lines, back.id, http(&reply(&back, "0")), 2), []);
    assert!(lines.next(&policy, at(2)).is_none(), "who left before he was asked about is not asked about");
}

#[test]
fn a_call_that_is_not_answered_fails_and_what_it_charged_goes_back_when_it_is() {
    let (policy, mut lines) = (policy(), lines(1));
    ask(&mut lines, 1);
    let call = lines.next(&policy, at(0)).unwrap();
    assert_eq!(lines.wake(), Some(at(100)));
    let mut news = Vec::new();
    lines.tick(at(99), &mut news);
    assert_eq!(news, []);
    lines.tick(at(100), &mut news);
    assert_eq!(news, [Completion { waiter: Waiter::Request(1), shard: 0, replies: None }]);
    assert!(lines.next(&policy, at(100)).is_none());
    assert_eq!(answered(&mut lines, call.id, http(&reply(&call, ADMITTED)), 300), []);
    let back = lines.next(&policy, at(300)).unwrap();
    assert!(body(&back).contains("/2+1+2+"), "{}", body(&back));
    assert_eq!(answered(&mut lines, call.id, http(&reply(&call, ADMITTED)), 301), [], "once");
    answered(&mut lines, back.id, http(&reply(&back, "0")), 301);
    assert!(lines.next(&policy, at(301)).is_none());
}

#[test]
fn while_a_store_is_not_asked_nobody_waits_for_it() {
    let (policy, mut lines) = (policy(), lines(1));
    for number in 1..4 {
        assert!(lines.is_available(0));
        ask(&mut lines, number);
        let call = lines.next(&policy, at(0)).unwrap();
        (number == 3).then(|| ask(&mut lines, 9));
        let told: Vec<Waiter> =
            answered(&mut lines, call.id, CallResult::NotMade, 0).iter().map(|news| news.waiter).collect();
        let queued = (number == 3).then_some(Waiter::Request(9));
        assert_eq!(told, [Waiter::Request(number)].into_iter().chain(queued).collect::<Vec<_>>());
    }
    assert!(!lines.is_available(0) && !lines.ask(0, Waiter::Request(4), question()));
    assert!(lines.next(&policy, at(187)).is_none());
    let probe = lines.next(&policy, at(250)).unwrap();
    assert!(body(&probe).contains("/1/diana:{0}:probe/"), "{}", body(&probe));
    assert!(lines.next(&policy, at(250)).is_none() && !lines.is_available(0));
    answered(&mut lines, probe.id, http(&reply(&probe, "")), 251);
    assert!(lines.is_available(0));
    let changes: Vec<bool> =
        lines.call_stats().filter_map(|(_, tally)| tally.changed).map(|(is_asked, _)| is_asked).collect();
    assert_eq!(changes, [true]);
}

/// A refund with a key that contains a number, to recognise it in a call.
fn refund(number: u32) -> GlobalQuery {
    let terms = Parameters { kind: 2, numbers: [10, 1_000_000, 0, 0, 0, 0] };
    let mut key = [0; 16];
    key[..4].copy_from_slice(&number.to_be_bytes());
    GlobalQuery::Refund(vec![GlobalCharge { key, parameters: terms, numbers: [1, 7, 7, 0, 0] }])
}

/// The numbers of the refunds in a call, in order.
fn refunds(call: &Call) -> Vec<u32> {
    let keys = body(call).split("diana:{0}:").skip(1).filter(|key| !key.starts_with("probe"));
    let number = |key: &str| u32::from_str_radix(&key[..8], 16).unwrap();
    keys.map(number).filter(|number| *number != 0x0101_0101).collect()
}

fn open_breaker(lines: &mut StoreClient) {
    while lines.is_available(0) {
        ask(lines, 1);
        let call = lines.next(&policy(), at(0)).unwrap();
        answered(lines, call.id, CallResult::Http { status: 503, body: b"" }, 0);
    }
}

/// Answers the probe that is due and each call after it. Returns the numbers of the refunds in the
/// calls.
fn recover(lines: &mut StoreClient) -> Vec<u32> {
    let probe = lines.next(&policy(), at(1_000)).unwrap();
    assert!(body(&probe).contains(":probe/"), "{}", body(&probe));
    answered(lines, probe.id, http(&reply(&probe, "")), 1_001);
    assert!(lines.is_available(0));
    let mut sent = Vec::new();
    while let Some(call) = lines.next(&policy(), at(1_002)) {
        let numbers = refunds(&call);
        assert!(numbers.len() <= 64);
        let zeros = vec!["0"; numbers.len()].join(",");
        answered(lines, call.id, http(&reply(&call, &zeros)), 1_002);
        sent.extend(numbers);
    }
    sent
}

#[test]
fn refunds_that_meet_an_open_breaker_are_sent_after_recovery() {
    let mut lines = lines(1);
    // The first two are queued when the breaker opens.
    ask(&mut lines, 9);
    let call = lines.next(&policy(), at(0)).unwrap();
    (1..3).for_each(|number| lines.refund(0, refund(number)));
    answered(&mut lines, call.id, CallResult::NotMade, 0);
    let call = lines.next(&policy(), at(0)).unwrap();
    (3..5).for_each(|number| lines.refund(0, refund(number)));
    answered(&mut lines, call.id, CallResult::NotMade, 0);
    assert!(lines.is_available(0), "two failures");
    let call = lines.next(&policy(), at(0)).unwrap();
    // This one waits for the next call when the breaker opens.
    lines.refund(0, refund(7));
    answered(&mut lines, call.id, CallResult::NotMade, 0);
    assert!(!lines.is_available(0) && !lines.is_done(), "three failures");
    (5..7).for_each(|number| lines.refund(0, refund(number)));
    assert!(lines.next(&policy(), at(0)).is_none());
    let mut sent = recover(&mut lines);
    sent.sort();
    assert_eq!(sent, [1, 2, 3, 4, 5, 6, 7]);
    assert!(lines.is_done());
    assert_eq!(lines.call_stats().map(|(_, tally)| tally.dropped_refunds).sum::<u32>(), 0);
}

/// A bucket would count the rest of a lease as spent.
#[test]
fn what_is_left_of_a_lease_is_queued_as_a_refund_is() {
    let (policy, mut lines) = (policy(), lines(1));
    let GlobalQuery::Refund(receipts) = refund(1) else { unreachable!() };
    let GlobalCharge { key, parameters: terms, .. } = receipts[0];
    lines.refund(
        0,
        GlobalQuery::ReturnLease(vec![LeaseUsage {
            key,
            parameters: terms,
            generation: 7,
            used: 1,
            left: 9,
        }]),
    );
    let call = lines.next(&policy, at(0)).unwrap();
    assert_eq!(refunds(&call), [1]);
    answered(&mut lines, call.id, CallResult::NotMade, 0);
    let call = lines.next(&policy, at(0)).unwrap();
    assert_eq!(refunds(&call), [1]);
    answered(&mut lines, call.id, http(&reply(&call, "0")), 1);
    assert!(lines.is_done());
}

/// A second refund of one charge would admit too much.
#[test]
fn a_refund_is_not_sent_again_if_its_call_may_have_been_carried_out() {
    let (policy, mut lines) = (policy(), lines(1));
    lines.refund(0, refund(1));
    let call = lines.next(&policy, at(0)).unwrap();
    assert_eq!(refunds(&call), [1]);
    answered(&mut lines, call.id, CallResult::Http { status: 504, body: b"" }, 50);
    assert!(lines.next(&policy, at(50)).is_none());
    open_breaker(&mut lines);
    assert_eq!(recover(&mut lines), [] as [u32; 0]);
}

#[test]
fn a_probe_that_fails_loses_no_refund() {
    let mut lines = lines(1);
    open_breaker(&mut lines);
    lines.refund(0, refund(1));
    let probe = lines.next(&policy(), at(300)).unwrap();
    assert_eq!(refunds(&probe), [] as [u32; 0]);
    answered(&mut lines, probe.id, CallResult::Http { status: 503, body: b"" }, 301);
    assert_eq!(recover(&mut lines), [1]);
}

#[test]
fn the_oldest_of_too_many_refunds_are_dropped_and_counted() {
    let mut lines = lines(1);
    open_breaker(&mut lines);
    (0..1_030).for_each(|number| lines.refund(0, refund(number)));
    assert_eq!(lines.call_stats().map(|(_, tally)| tally.dropped_refunds).sum::<u32>(), 6);
    assert_eq!(recover(&mut lines), (6..1_030).collect::<Vec<u32>>());
}

/// After an outage requests go first, but do not delay the refunds forever.
#[test]
fn requests_and_refunds_share_the_calls_after_an_outage() {
    let mut lines = lines(1);
    open_breaker(&mut lines);
    (1..101).for_each(|number| lines.refund(0, refund(number)));
    let probe = lines.next(&policy(), at(1_000)).unwrap();
    answered(&mut lines, probe.id, http(&reply(&probe, "")), 1_001);
    (0..100).for_each(|number| ask(&mut lines, number));
    let call = lines.next(&policy(), at(1_002)).unwrap();
    assert_eq!(refunds(&call), (1..9).collect::<Vec<u32>>());
    assert_eq!(body(&call).matches(&"01".repeat(16)).count(), 56);
}

fn strays(lines: &mut StoreClient) -> (u32, u32, Option<(bool, String)>) {
    let (_, tally) = lines.call_stats().next().unwrap();
    (tally.stray, tally.failed, tally.changed)
}

/// The proxy's replies have shifted by one: each call gets the reply to the call before.
#[test]
fn a_reply_to_another_call_tells_nobody_anything_and_opens_the_breaker_at_once() {
    let (policy, mut lines) = (policy(), lines(2));
    (1..4).for_each(|number| ask(&mut lines, number));
    let one = lines.next(&policy, at(0)).unwrap();
    ask(&mut lines, 4);
    let two = lines.next(&policy, at(0)).unwrap();
    assert_ne!(number(&one), number(&two));
    ask(&mut lines, 5);
    let refused = |told: Vec<Completion>| {
        assert!(told.iter().all(|news| news.replies.is_none()), "{told:?}");
        told.into_iter().map(|news| news.waiter).collect::<Vec<_>>()
    };
    // All requests of the call fail, and the one that waits for the next call.
    let told = refused(answered(&mut lines, one.id, http(&reply(&two, &[ADMITTED; 3].join(","))), 1));
    assert_eq!(told, [1, 2, 3, 5].map(Waiter::Request));
    assert!(!lines.is_available(0));
    let opened = Some((false, "a reply to another call".to_owned()));
    assert_eq!(strays(&mut lines), (1, 1, opened));
    // A call in flight still gets its own reply, and nothing else.
    assert_eq!(answered(&mut lines, two.id, http(&reply(&two, ADMITTED)), 2).len(), 1);
    assert!(lines.next(&policy, at(180)).is_none(), "the connection gets a pause");
    let probe = lines.next(&policy, at(260)).unwrap();
    answered(&mut lines, probe.id, http(&reply(&two, "")), 261);
    assert_eq!(
        (strays(&mut lines), lines.is_available(0)),
        ((1, 1, None), false),
        "a probe's reply has a number, too"
    );
    let probe = lines.next(&policy, at(800)).unwrap();
    answered(&mut lines, probe.id, http(&reply(&probe, "")), 801);
    assert!(lines.is_available(0));
}

/// The reply says nothing about the charges of the call, but shows that replies have shifted.
#[test]
fn a_late_reply_to_another_call_gives_nothing_back() {
    let (policy, mut lines) = (policy(), lines(1));
    ask(&mut lines, 1);
    let call = lines.next(&policy, at(0)).unwrap();
    lines.tick(at(100), &mut Vec::new());
    ask(&mut lines, 2);
    let next = lines.next(&policy, at(100)).unwrap();
    ask(&mut lines, 3);
    let told = answered(&mut lines, call.id, http(&reply(&next, ADMITTED)), 101);
    assert_eq!(
        told,
        [Completion { waiter: Waiter::Request(3), shard: 0, replies: None }],
        "the queue ends with the breaker"
    );
    assert_eq!((strays(&mut lines).0, lines.is_available(0)), (1, false));
    let told = answered(&mut lines, next.id, http(&reply(&next, ADMITTED)), 102);
    assert_eq!((told[0].waiter, told[0].replies.is_some()), (Waiter::Request(2), true));
    let probe = lines.next(&policy, at(500)).unwrap();
    assert!(body(&probe).contains(":probe/"), "nothing was given back: {}", body(&probe));
}

/// An error carries no number: its questions are retried once, with the script.
#[test]
fn a_stray_word_that_the_script_is_missing_does_not_loop() {
    let (policy, mut lines) = (policy(), lines(2));
    ask(&mut lines, 1);
    let one = lines.next(&policy, at(0)).unwrap();
    ask(&mut lines, 2);
    let two = lines.next(&policy, at(0)).unwrap();
    assert_eq!(answered(&mut lines, one.id, http(NOT_KNOWN), 1), []);
    let whole = lines.next(&policy, at(1)).unwrap();
    assert!(body(&whole).starts_with("EVAL/"));
    assert_eq!(answered(&mut lines, two.id, http(NOT_KNOWN), 1), []);
    // The client knows that the script is there. The retry of the other question brings it all the
    // same.
    assert_eq!(answered(&mut lines, whole.id, http(&reply(&whole, ADMITTED)), 2).len(), 1);
    let again = lines.next(&policy, at(2)).unwrap();
    assert!(body(&again).starts_with("EVAL/"), "{}", body(&again));
    let told = answered(&mut lines, again.id, http(NOT_KNOWN), 3);
    assert_eq!(told, [Completion { waiter: Waiter::Request(2), shard: 0, replies: None }]);
    assert!(lines.next(&policy, at(3)).is_none());
}
