//! The client of the global stores: which queries go out together, and which are retried.

mod leases;
mod permits;
mod refunds;
mod settling;
mod stray;

use crate::host::wire::{self, NO_SCRIPT, list};
use diana_base::time::{Span, Time};
use diana_global_redis::Redis;
use diana_limiter::algorithm::Parameters;
use diana_limiter::global::{Call, CallResult, Completion, GlobalStoreOptions, Message, StoreClient, Waiter};
use diana_limiter::global::{GlobalQuery, LeaseGrant, RuleQuery};
use diana_limiter::policy::RuleId;

/// Admitted, nine left, and a charge.
const ADMITTED: [u64; 13] = [0, 0, 9, 0, 0, 1, 7, 7, 0, 0, 0, 0, 0];

fn client(in_flight: usize) -> StoreClient {
    let redis = Redis::new("diana".into(), Vec::new());
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
        parameters: Parameters { kind: 2, numbers: [10, 1_000_000, 0, 0, 0, 0] },
        enforced: true,
        cost: 1,
        peeks: false,
        least_rest: 0,
        lease: 0,
        penalty: None,
        headroom: 0,
        takes_grants: false,
    };
    GlobalQuery::Decide(vec![vec![rule_query]])
}

fn body(call: &Call) -> String {
    wire::text(call)
}

fn http(body: &[u8]) -> CallResult<'_> {
    CallResult::Response { status: 200, body }
}

/// The number of a call.
fn number(call: &Call) -> u64 {
    wire::commands(&call.message.body)[0].number
}

/// The reply to a call of one command, with these numbers.
fn reply(call: &Call, numbers: &[u64]) -> Vec<u8> {
    list(&[&[number(call)], numbers].concat())
}

/// The reply to a call that asks for no decision.
fn done(call: &Call) -> Vec<u8> {
    let commands = wire::commands(&call.message.body);
    let reply =
        |command: &wire::Command| list(&[vec![command.number], vec![0; command.arguments.len()]].concat());
    commands.iter().flat_map(reply).collect()
}

fn ask(client: &mut StoreClient, number: u32) {
    assert!(client.ask(0, Waiter::Request(number), query()));
}

fn answered(client: &mut StoreClient, id: u32, result: CallResult, ms: u64) -> Vec<Completion> {
    let mut completions = Vec::new();
    client.answered(id, result, at(ms), &mut completions);
    completions
}

/// A route of a tunnel may look at the configured headers. The authority is the same for each
/// cluster, because Envoy refuses some names of clusters there.
#[test]
fn a_call_brings_its_own_headers() {
    let own = ("x-team".to_owned(), "limits".to_owned());
    let protocol = Box::new(Redis::new("diana".into(), vec![own]));
    let (clusters, timeout) = (vec!["a".into(), "outbound|6379||redis".into()], Span::from_ms(50));
    let mut client = StoreClient::new(GlobalStoreOptions { clusters, timeout, in_flight: 1, protocol }, 7);
    assert!(client.ask(1, Waiter::Request(1), query()));
    let Message { headers, .. } = client.next(at(0)).unwrap().message;
    // The number of headers, the length of each text, and each text with a zero after it.
    let texts = headers.split_at(4 + 4 * 8).1.split(|byte| *byte == 0);
    let texts: Vec<&str> = texts.map(|text| std::str::from_utf8(text).unwrap()).collect();
    let pairs = [[":method", "POST"], [":path", "/"], [":authority", "redis"], ["x-team", "limits"]];
    assert_eq!(texts, [&pairs.concat()[..], &[""]].concat());
}

#[test]
fn queries_during_a_call_are_batched() {
    let mut client = client(1);
    ask(&mut client, 1);
    let first = client.next(at(0)).unwrap();
    (2..5).for_each(|number| ask(&mut client, number));
    assert!(client.next(at(0)).is_none());
    let completions = answered(&mut client, first.id, http(&reply(&first, &ADMITTED)), 1);
    assert_eq!(
        (completions.len(), completions[0].waiter, completions[0].replies.as_ref().unwrap()[0].grant),
        (1, Waiter::Request(1), LeaseGrant::default())
    );
    let second = client.next(at(1)).unwrap();
    assert!(body(&second).starts_with("EVALSHA/") && body(&second).contains("/3/diana:{0}:0101"));
    assert!(client.next(at(1)).is_none());
}

#[test]
fn calls_in_flight_when_the_script_is_lost_are_retried_once() {
    let mut client = client(2);
    ask(&mut client, 1);
    let one = client.next(at(0)).unwrap();
    ask(&mut client, 2);
    let two = client.next(at(0)).unwrap();
    assert_eq!(answered(&mut client, one.id, http(NO_SCRIPT), 1), []);
    let with_script = client.next(at(1)).unwrap();
    assert!(body(&with_script).starts_with("EVAL/"));
    assert_eq!(answered(&mut client, two.id, http(NO_SCRIPT), 1), [], "it did not bring the script");
    let completions = answered(&mut client, with_script.id, http(&reply(&with_script, &ADMITTED)), 2);
    assert_eq!((completions.len(), completions[0].replies.is_some()), (1, true));
    let again = client.next(at(2)).unwrap();
    let completions = answered(&mut client, again.id, http(&reply(&again, &ADMITTED)), 3);
    assert_eq!(
        (completions.len(), completions[0].waiter, completions[0].replies.is_some()),
        (1, Waiter::Request(2), true)
    );
    // A store that lacks the script after receiving it does not work.
    ask(&mut client, 3);
    let call = client.next(at(4)).unwrap();
    assert_eq!(answered(&mut client, call.id, http(NO_SCRIPT), 4), []);
    let call = client.next(at(4)).unwrap();
    let completions = answered(&mut client, call.id, http(NO_SCRIPT), 4);
    assert_eq!(completions, [Completion { waiter: Waiter::Request(3), shard: 0, replies: None }]);
}

#[test]
fn a_request_that_left_is_refunded_and_not_answered() {
    let mut client = client(1);
    ask(&mut client, 1);
    let call = client.next(at(0)).unwrap();
    ask(&mut client, 2);
    [1, 2].into_iter().for_each(|number| client.cancel(Waiter::Request(number)));
    assert_eq!(answered(&mut client, call.id, http(&reply(&call, &ADMITTED)), 1), []);
    let refund_call = client.next(at(1)).unwrap();
    assert!(body(&refund_call).ends_with("/2 1 2 10 1000000 0 0 0 0 1 7 7 0 0"), "{}", body(&refund_call));
    assert_eq!(answered(&mut client, refund_call.id, http(&done(&refund_call)), 2), []);
    assert!(client.next(at(2)).is_none(), "the query of a request that has left is not sent");
}

#[test]
fn a_timed_out_call_fails_and_its_late_reply_is_refunded() {
    let mut client = client(1);
    ask(&mut client, 1);
    let call = client.next(at(0)).unwrap();
    assert_eq!(client.wake(), Some(at(50)));
    let mut completions = Vec::new();
    client.tick(at(49), &mut completions);
    assert_eq!(completions, []);
    client.tick(at(50), &mut completions);
    assert_eq!(completions, [Completion { waiter: Waiter::Request(1), shard: 0, replies: None }]);
    assert!(client.next(at(50)).is_none() && !client.is_done(), "a late reply may come");
    assert_eq!(answered(&mut client, call.id, http(&reply(&call, &ADMITTED)), 300), []);
    let refund_call = client.next(at(300)).unwrap();
    assert!(body(&refund_call).contains("/2 1 2 "), "{}", body(&refund_call));
    assert_eq!(answered(&mut client, call.id, http(&reply(&call, &ADMITTED)), 301), [], "once");
    answered(&mut client, refund_call.id, http(&done(&refund_call)), 301);
    assert!(client.next(at(301)).is_none());
}

/// The queries of timed-out calls are remembered, up to a number. The oldest ones are forgotten.
#[test]
fn late_replies_to_many_calls_are_refunded() {
    let mut client = client(1_024);
    let calls: Vec<Call> = (0..1_024)
        .map(|number| {
            ask(&mut client, number);
            client.next(at(0)).unwrap()
        })
        .collect();
    let (mut completions, mut refunded) = (Vec::new(), 0);
    client.tick(at(50), &mut completions);
    assert_eq!(completions.len(), 1_024);
    for call in &calls {
        answered(&mut client, call.id, http(&reply(call, &ADMITTED)), 300);
    }
    let probe = client.next(at(300)).unwrap();
    answered(&mut client, probe.id, http(&reply(&probe, &[])), 301);
    while let Some(call) = client.next(at(302)) {
        let refunds = body(&call).matches("/2 1 2 ").count();
        refunded += refunds;
        answered(&mut client, call.id, http(&done(&call)), 303);
    }
    assert_eq!((refunded, client.is_done()), (1_024, true));
}

/// A host that loses a call does not keep a configuration for ever.
#[test]
fn calls_that_the_host_has_lost_are_forgotten() {
    let mut client = client(1);
    ask(&mut client, 1);
    let call = client.next(at(0)).unwrap();
    client.tick(at(50), &mut Vec::new());
    assert!(client.awaits(call.id) && !client.is_done());
    client.tick(at(1_549), &mut Vec::new());
    assert!(client.awaits(call.id));
    client.tick(at(1_550), &mut Vec::new());
    assert!(!client.awaits(call.id) && client.is_done());
}

#[test]
fn no_request_waits_while_the_breaker_is_open() {
    let mut client = client(1);
    for number in 1..4 {
        assert!(client.is_available(0));
        ask(&mut client, number);
        let call = client.next(at(0)).unwrap();
        (number == 3).then(|| ask(&mut client, 9));
        let waiters: Vec<Waiter> = answered(&mut client, call.id, CallResult::NotMade, 0)
            .iter()
            .map(|completion| completion.waiter)
            .collect();
        let queued = (number == 3).then_some(Waiter::Request(9));
        assert_eq!(waiters, [Waiter::Request(number)].into_iter().chain(queued).collect::<Vec<_>>());
    }
    assert!(!client.is_available(0) && !client.ask(0, Waiter::Request(4), query()));
    assert!(client.next(at(187)).is_none());
    let probe = client.next(at(250)).unwrap();
    assert!(body(&probe).contains("/1/diana:{0}:probe/"), "{}", body(&probe));
    assert!(client.next(at(250)).is_none() && !client.is_available(0));
    answered(&mut client, probe.id, http(&reply(&probe, &[])), 251);
    assert!(client.is_available(0));
    let changes: Vec<bool> =
        client.call_stats().filter_map(|(_, stats)| stats.changed).map(|(is_closed, _)| is_closed).collect();
    assert_eq!(changes, [true]);
}
