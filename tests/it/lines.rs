//! The client of the global stores: which queries go out together, and which are retried.

mod permits;

use diana_base::time::{Span, Time};
use diana_global_redis::{Dialect, Redis};
use diana_limiter::algorithm::{Parameters, Quota};
use diana_limiter::global::{Call, CallResult, Completion, GlobalStoreOptions, Message, StoreClient, Waiter};
use diana_limiter::policy::{GlobalCharge, GlobalQuery, LeaseGrant, LeaseUsage, Policy, RuleId, RuleQuery};

const NO_SCRIPT: &[u8] = br#"{"EVALSHA":[false,"NOSCRIPT No matching script. Please use EVAL."]}"#;
/// Admitted, nine left, and a charge.
const ADMITTED: &str = "0,0,9,0,0,1,7,7,0,0,0,0,0";

fn policy() -> Policy {
    diana_config::compile(br#"{"limits": [{"url": "/", "rules": [{"rpu": 1, "unit": "day"}]}]}"#)
        .unwrap()
        .policy
}

fn client(in_flight: usize) -> StoreClient {
    let redis = Redis::new(Dialect::Webdis, "diana".into(), Vec::new());
    let options = GlobalStoreOptions {
        clusters: vec!["a".into()],
        timeout: Span::from_ms(50),
        in_flight,
        protocol: Box::new(redis),
    };
    StoreClient::new(options, 7)
}

fn at(ms: u64) -> Time {
    Time::ZERO.after(Span::from_ms(ms))
}

fn query() -> GlobalQuery {
    let rule_query = RuleQuery {
        rule: RuleId::new(0),
        key: [1; 16],
        quota: Quota { rpu: 10, unit: Span::from_secs(1) },
        parameters: Parameters { kind: 2, numbers: [10, 1_000_000, 0, 0, 0, 0] },
        enforced: true,
        cost: 1,
        lease: 0,
    };
    GlobalQuery::Decide(vec![vec![rule_query]])
}

fn body(call: &Call) -> &str {
    match &call.message {
        Message::Http { body, .. } => std::str::from_utf8(body).unwrap(),
        Message::Grpc { .. } => panic!("an HTTP call"),
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

/// The reply to a call, with these numbers.
fn reply(call: &Call, numbers: &str) -> Vec<u8> {
    let number = number(call).to_string();
    let all = [&*number, numbers].into_iter().filter(|part| !part.is_empty());
    format!(r#"{{"EVALSHA":[{}]}}"#, all.collect::<Vec<_>>().join(",")).into_bytes()
}

fn ask(client: &mut StoreClient, number: u32) {
    assert!(client.ask(0, Waiter::Request(number), query()));
}

fn answered(client: &mut StoreClient, id: u32, result: CallResult, ms: u64) -> Vec<Completion> {
    let mut completions = Vec::new();
    client.answered(id, result, at(ms), &mut completions);
    completions
}

/// A proxy may look at the host, which is the cluster's name. The configuration sets
/// `Authorization` and similar headers.
#[test]
fn a_call_names_its_cluster_and_brings_its_own_headers() {
    let token = ("authorization".to_owned(), "Bearer x".to_owned());
    let protocol = Box::new(Redis::new(Dialect::Upstash, "diana".into(), vec![token]));
    let (clusters, timeout) = (vec!["a".into(), "name.upstash.io".into()], Span::from_ms(50));
    let mut client = StoreClient::new(GlobalStoreOptions { clusters, timeout, in_flight: 1, protocol }, 7);
    assert!(client.ask(1, Waiter::Request(1), query()));
    let Message::Http { headers, .. } = client.next(&policy(), at(0)).unwrap().message else {
        panic!("an HTTP call")
    };
    // The number of headers, the length of each text, and each text with a zero after it.
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
fn questions_during_a_call_are_batched() {
    let (policy, mut client) = (policy(), client(1));
    ask(&mut client, 1);
    let first = client.next(&policy, at(0)).unwrap();
    (2..5).for_each(|number| ask(&mut client, number));
    assert!(client.next(&policy, at(0)).is_none());
    let completions = answered(&mut client, first.id, http(&reply(&first, ADMITTED)), 1);
    assert_eq!(
        (completions.len(), completions[0].waiter, completions[0].replies.as_ref().unwrap()[0].grant),
        (1, Waiter::Request(1), LeaseGrant::default())
    );
    let second = client.next(&policy, at(1)).unwrap();
    assert!(body(&second).starts_with("EVALSHA/") && body(&second).contains("/3/diana:{0}:0101"));
    assert!(client.next(&policy, at(1)).is_none());
}

#[test]
fn calls_in_flight_when_the_script_is_lost_are_retried_once() {
    let (policy, mut client) = (policy(), client(2));
    ask(&mut client, 1);
    let one = client.next(&policy, at(0)).unwrap();
    ask(&mut client, 2);
    let two = client.next(&policy, at(0)).unwrap();
    assert_eq!(answered(&mut client, one.id, http(NO_SCRIPT), 1), []);
    let with_script = client.next(&policy, at(1)).unwrap();
    assert!(body(&with_script).starts_with("EVAL/"));
    assert_eq!(answered(&mut client, two.id, http(NO_SCRIPT), 1), [], "it did not bring the script");
    let completions = answered(&mut client, with_script.id, http(&reply(&with_script, ADMITTED)), 2);
    assert_eq!((completions.len(), completions[0].replies.is_some()), (1, true));
    let again = client.next(&policy, at(2)).unwrap();
    let completions = answered(&mut client, again.id, http(&reply(&again, ADMITTED)), 3);
    assert_eq!(
        (completions.len(), completions[0].waiter, completions[0].replies.is_some()),
        (1, Waiter::Request(2), true)
    );
    // A store that lacks the script after receiving it does not work.
    ask(&mut client, 3);
    let call = client.next(&policy, at(4)).unwrap();
    assert_eq!(answered(&mut client, call.id, http(NO_SCRIPT), 4), []);
    let call = client.next(&policy, at(4)).unwrap();
    let completions = answered(&mut client, call.id, http(NO_SCRIPT), 4);
    assert_eq!(completions, [Completion { waiter: Waiter::Request(3), shard: 0, replies: None }]);
}

#[test]
fn a_request_that_left_is_refunded_and_not_answered() {
    let (policy, mut client) = (policy(), client(1));
    ask(&mut client, 1);
    let call = client.next(&policy, at(0)).unwrap();
    ask(&mut client, 2);
    [1, 2].into_iter().for_each(|number| client.cancel(Waiter::Request(number)));
    assert_eq!(answered(&mut client, call.id, http(&reply(&call, ADMITTED)), 1), []);
    let refund_call = client.next(&policy, at(1)).unwrap();
    assert!(body(&refund_call).ends_with("/2+1+2+10+1000000+0+0+0+0+1+7+7+0+0"), "{}", body(&refund_call));
    assert_eq!(answered(&mut client, refund_call.id, http(&reply(&refund_call, "0")), 2), []);
    assert!(client.next(&policy, at(2)).is_none(), "the query of a request that has left is not sent");
}

#[test]
fn a_timed_out_call_fails_and_its_late_reply_is_refunded() {
    let (policy, mut client) = (policy(), client(1));
    ask(&mut client, 1);
    let call = client.next(&policy, at(0)).unwrap();
    assert_eq!(client.wake(), Some(at(100)));
    let mut completions = Vec::new();
    client.tick(at(99), &mut completions);
    assert_eq!(completions, []);
    client.tick(at(100), &mut completions);
    assert_eq!(completions, [Completion { waiter: Waiter::Request(1), shard: 0, replies: None }]);
    assert!(client.next(&policy, at(100)).is_none());
    assert_eq!(answered(&mut client, call.id, http(&reply(&call, ADMITTED)), 300), []);
    let refund_call = client.next(&policy, at(300)).unwrap();
    assert!(body(&refund_call).contains("/2+1+2+"), "{}", body(&refund_call));
    assert_eq!(answered(&mut client, call.id, http(&reply(&call, ADMITTED)), 301), [], "once");
    answered(&mut client, refund_call.id, http(&reply(&refund_call, "0")), 301);
    assert!(client.next(&policy, at(301)).is_none());
}

#[test]
fn no_request_waits_while_the_breaker_is_open() {
    let (policy, mut client) = (policy(), client(1));
    for number in 1..4 {
        assert!(client.is_available(0));
        ask(&mut client, number);
        let call = client.next(&policy, at(0)).unwrap();
        (number == 3).then(|| ask(&mut client, 9));
        let waiters: Vec<Waiter> = answered(&mut client, call.id, CallResult::NotMade, 0)
            .iter()
            .map(|completion| completion.waiter)
            .collect();
        let queued = (number == 3).then_some(Waiter::Request(9));
        assert_eq!(waiters, [Waiter::Request(number)].into_iter().chain(queued).collect::<Vec<_>>());
    }
    assert!(!client.is_available(0) && !client.ask(0, Waiter::Request(4), query()));
    assert!(client.next(&policy, at(187)).is_none());
    let probe = client.next(&policy, at(250)).unwrap();
    assert!(body(&probe).contains("/1/diana:{0}:probe/"), "{}", body(&probe));
    assert!(client.next(&policy, at(250)).is_none() && !client.is_available(0));
    answered(&mut client, probe.id, http(&reply(&probe, "")), 251);
    assert!(client.is_available(0));
    let changes: Vec<bool> =
        client.call_stats().filter_map(|(_, stats)| stats.changed).map(|(is_closed, _)| is_closed).collect();
    assert_eq!(changes, [true]);
}

/// A refund whose key is the number, so that its place in a call is visible.
fn refund(number: u32) -> GlobalQuery {
    let parameters = Parameters { kind: 2, numbers: [10, 1_000_000, 0, 0, 0, 0] };
    let mut key = [0; 16];
    key[..4].copy_from_slice(&number.to_be_bytes());
    GlobalQuery::Refund(vec![GlobalCharge { key, parameters, numbers: [1, 7, 7, 0, 0] }])
}

/// The numbers of the refunds in a call, in order.
fn refunds(call: &Call) -> Vec<u32> {
    let keys = body(call).split("diana:{0}:").skip(1).filter(|key| !key.starts_with("probe"));
    let number = |key: &str| u32::from_str_radix(&key[..8], 16).unwrap();
    keys.map(number).filter(|number| *number != 0x0101_0101).collect()
}

fn open_breaker(client: &mut StoreClient) {
    while client.is_available(0) {
        ask(client, 1);
        let call = client.next(&policy(), at(0)).unwrap();
        answered(client, call.id, CallResult::Http { status: 503, body: b"" }, 0);
    }
}

/// Answers the due probe and all further calls. Returns the refunds in these calls.
fn recover(client: &mut StoreClient) -> Vec<u32> {
    let probe = client.next(&policy(), at(1_000)).unwrap();
    assert!(body(&probe).contains(":probe/"), "{}", body(&probe));
    answered(client, probe.id, http(&reply(&probe, "")), 1_001);
    assert!(client.is_available(0));
    let mut sent = Vec::new();
    while let Some(call) = client.next(&policy(), at(1_002)) {
        let numbers = refunds(&call);
        assert!(numbers.len() <= 64);
        let zeros = vec!["0"; numbers.len()].join(",");
        answered(client, call.id, http(&reply(&call, &zeros)), 1_002);
        sent.extend(numbers);
    }
    sent
}

#[test]
fn refunds_that_meet_an_open_breaker_are_sent_after_recovery() {
    let mut client = client(1);
    // The first two are queued when the breaker opens.
    ask(&mut client, 9);
    let call = client.next(&policy(), at(0)).unwrap();
    (1..3).for_each(|number| client.refund(0, refund(number)));
    answered(&mut client, call.id, CallResult::NotMade, 0);
    let call = client.next(&policy(), at(0)).unwrap();
    (3..5).for_each(|number| client.refund(0, refund(number)));
    answered(&mut client, call.id, CallResult::NotMade, 0);
    assert!(client.is_available(0), "two failures");
    let call = client.next(&policy(), at(0)).unwrap();
    // This one waits for the next call when the breaker opens.
    client.refund(0, refund(7));
    answered(&mut client, call.id, CallResult::NotMade, 0);
    assert!(!client.is_available(0) && !client.is_done(), "three failures");
    (5..7).for_each(|number| client.refund(0, refund(number)));
    assert!(client.next(&policy(), at(0)).is_none());
    let mut sent = recover(&mut client);
    sent.sort();
    assert_eq!(sent, [1, 2, 3, 4, 5, 6, 7]);
    assert!(client.is_done());
    assert_eq!(client.call_stats().map(|(_, stats)| stats.dropped_refunds).sum::<u32>(), 0);
}

/// A bucket would count the rest of a lease as spent.
#[test]
fn the_rest_of_a_lease_is_queued_like_a_refund() {
    let (policy, mut client) = (policy(), client(1));
    let GlobalQuery::Refund(charges) = refund(1) else { unreachable!() };
    let GlobalCharge { key, parameters, .. } = charges[0];
    client.refund(
        0,
        GlobalQuery::ReturnLease(vec![LeaseUsage { key, parameters, generation: 7, used: 1, left: 9 }]),
    );
    let call = client.next(&policy, at(0)).unwrap();
    assert_eq!(refunds(&call), [1]);
    answered(&mut client, call.id, CallResult::NotMade, 0);
    let call = client.next(&policy, at(0)).unwrap();
    assert_eq!(refunds(&call), [1]);
    answered(&mut client, call.id, http(&reply(&call, "0")), 1);
    assert!(client.is_done());
}

#[test]
fn a_refund_is_not_sent_again_if_its_call_may_have_been_carried_out() {
    let (policy, mut client) = (policy(), client(1));
    client.refund(0, refund(1));
    let call = client.next(&policy, at(0)).unwrap();
    assert_eq!(refunds(&call), [1]);
    answered(&mut client, call.id, CallResult::Http { status: 504, body: b"" }, 50);
    assert!(client.next(&policy, at(50)).is_none());
    open_breaker(&mut client);
    assert_eq!(recover(&mut client), [] as [u32; 0]);
}

#[test]
fn a_probe_that_fails_loses_no_refund() {
    let mut client = client(1);
    open_breaker(&mut client);
    client.refund(0, refund(1));
    let probe = client.next(&policy(), at(300)).unwrap();
    assert_eq!(refunds(&probe), [] as [u32; 0]);
    answered(&mut client, probe.id, CallResult::Http { status: 503, body: b"" }, 301);
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
    let probe = client.next(&policy(), at(1_000)).unwrap();
    answered(&mut client, probe.id, http(&reply(&probe, "")), 1_001);
    (0..100).for_each(|number| ask(&mut client, number));
    let call = client.next(&policy(), at(1_002)).unwrap();
    assert_eq!(refunds(&call), (1..9).collect::<Vec<u32>>());
    assert_eq!(body(&call).matches(&"01".repeat(16)).count(), 56);
}

fn strays(client: &mut StoreClient) -> (u32, u32, Option<(bool, String)>) {
    let (_, stats) = client.call_stats().next().unwrap();
    (stats.stray, stats.failed, stats.changed)
}

/// The proxy's replies have shifted by one: each call gets the reply to the previous call.
#[test]
fn a_reply_to_another_call_tells_nobody_anything_and_opens_the_breaker_at_once() {
    let (policy, mut client) = (policy(), client(2));
    (1..4).for_each(|number| ask(&mut client, number));
    let one = client.next(&policy, at(0)).unwrap();
    ask(&mut client, 4);
    let two = client.next(&policy, at(0)).unwrap();
    assert_ne!(number(&one), number(&two));
    ask(&mut client, 5);
    let waiters = |completions: Vec<Completion>| {
        assert!(completions.iter().all(|completion| completion.replies.is_none()), "{completions:?}");
        completions.into_iter().map(|completion| completion.waiter).collect::<Vec<_>>()
    };
    // All queries of the call, and those queued for the next one.
    let waiters = waiters(answered(&mut client, one.id, http(&reply(&two, &[ADMITTED; 3].join(","))), 1));
    assert_eq!(waiters, [1, 2, 3, 5].map(Waiter::Request));
    assert!(!client.is_available(0));
    let opened = Some((false, "a reply to another call".to_owned()));
    assert_eq!(strays(&mut client), (1, 1, opened));
    // A pending call still gets its own reply, and nothing else.
    assert_eq!(answered(&mut client, two.id, http(&reply(&two, ADMITTED)), 2).len(), 1);
    assert!(client.next(&policy, at(180)).is_none(), "the connection gets a pause");
    let probe = client.next(&policy, at(260)).unwrap();
    answered(&mut client, probe.id, http(&reply(&two, "")), 261);
    assert_eq!(
        (strays(&mut client), client.is_available(0)),
        ((1, 1, None), false),
        "a probe's reply has a number, too"
    );
    let probe = client.next(&policy, at(800)).unwrap();
    answered(&mut client, probe.id, http(&reply(&probe, "")), 801);
    assert!(client.is_available(0));
}

/// The reply says nothing about the charges of the call, but shows that replies have shifted.
#[test]
fn a_late_reply_to_another_call_refunds_nothing() {
    let (policy, mut client) = (policy(), client(1));
    ask(&mut client, 1);
    let call = client.next(&policy, at(0)).unwrap();
    client.tick(at(100), &mut Vec::new());
    ask(&mut client, 2);
    let next = client.next(&policy, at(100)).unwrap();
    ask(&mut client, 3);
    let completions = answered(&mut client, call.id, http(&reply(&next, ADMITTED)), 101);
    assert_eq!(
        completions,
        [Completion { waiter: Waiter::Request(3), shard: 0, replies: None }],
        "the queue ends with the breaker"
    );
    assert_eq!((strays(&mut client).0, client.is_available(0)), (1, false));
    let completions = answered(&mut client, next.id, http(&reply(&next, ADMITTED)), 102);
    assert_eq!((completions[0].waiter, completions[0].replies.is_some()), (Waiter::Request(2), true));
    let probe = client.next(&policy, at(500)).unwrap();
    assert!(body(&probe).contains(":probe/"), "nothing was refunded: {}", body(&probe));
}

/// An error carries no number. A query that met `NOSCRIPT` is sent once more, with the script, and
/// not again.
#[test]
fn a_stray_missing_script_error_does_not_loop() {
    let (policy, mut client) = (policy(), client(2));
    ask(&mut client, 1);
    let one = client.next(&policy, at(0)).unwrap();
    ask(&mut client, 2);
    let two = client.next(&policy, at(0)).unwrap();
    assert_eq!(answered(&mut client, one.id, http(NO_SCRIPT), 1), []);
    let with_script = client.next(&policy, at(1)).unwrap();
    assert!(body(&with_script).starts_with("EVAL/"));
    assert_eq!(answered(&mut client, two.id, http(NO_SCRIPT), 1), []);
    // The script is there, as far as the client knows. The other query still brings the script.
    assert_eq!(answered(&mut client, with_script.id, http(&reply(&with_script, ADMITTED)), 2).len(), 1);
    let again = client.next(&policy, at(2)).unwrap();
    assert!(body(&again).starts_with("EVAL/"), "{}", body(&again));
    let completions = answered(&mut client, again.id, http(NO_SCRIPT), 3);
    assert_eq!(completions, [Completion { waiter: Waiter::Request(2), shard: 0, replies: None }]);
    assert!(client.next(&policy, at(3)).is_none());
}
