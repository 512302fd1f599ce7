//! Requests as a service reads them, and replies of services: envoyproxy/ratelimit sends a status
//! for each descriptor, Limitador sends none.

use super::headers::MAX_HEADERS;
use super::messages::{
    Descriptor, Duration, Entry, EnvoyGrpc, GrpcService, Header, Headers, OK, OVER_LIMIT, Request, Response,
    RuleLimit, Status,
};
use super::{Rls, unit};
use diana_base::time::Span;
use diana_limiter::algorithm::{Admission, Charge, Parameters, Quota, Verdict};
use diana_limiter::global::{CallError, MAX_REPLY_BYTES};
use diana_limiter::global::{GlobalQuery, LeaseUsage, RuleQuery, RuleReply};
use diana_limiter::policy::RuleId;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

const SECOND: Span = Span::from_secs(1);

const NAMES: [&str; 4] = ["per-ip", "per-user", "all", "a_b"];

fn rule_query(rule: usize, enforced: bool, cost: u64) -> RuleQuery {
    RuleQuery {
        rule: RuleId::new(rule),
        key: [rule as u8; 16],
        quota: Quota { rpu: 10 + rule as u64, unit: Span::from_secs(60) },
        parameters: Parameters::default(),
        enforced,
        cost,
        peeks: false,
        lease: 0,
        penalty: None,
        headroom: 0,
        takes_grants: false,
    }
}

fn rls() -> Rls {
    Rls::new("diana".into())
}

/// Two groups: one with a shadow rule and an enforced rule, one with an enforced rule.
fn query() -> GlobalQuery {
    GlobalQuery::Decide(vec![
        vec![rule_query(0, false, 1), rule_query(1, true, 1)],
        vec![rule_query(2, true, 1)],
    ])
}

fn requested(query: &GlobalQuery) -> Request {
    let bytes = rls().request(query, |rule| NAMES[rule.index()]);
    Request::decode(&bytes[..]).unwrap()
}

fn status(code: i32, remaining: u32, reset: Option<(i64, i32)>) -> Status {
    Status {
        code,
        current_limit: Some(()),
        limit_remaining: remaining,
        duration_until_reset: reset.map(|(seconds, nanos)| Duration { seconds, nanos }),
    }
}

fn answered(overall_code: i32, statuses: &[Status]) -> Result<Vec<RuleReply>, CallError> {
    let response = Response { overall_code, statuses: statuses.to_vec() };
    rls().read_reply(&query(), &response.encode_to_vec())
}

/// The wait of each refused rule; `None` if admitted.
fn waits(replies: Result<Vec<RuleReply>, CallError>) -> Vec<Option<Span>> {
    let wait = |reply: RuleReply| match reply.verdict.admission {
        Admission::Admit { delay } => {
            assert_eq!(delay, Span::ZERO);
            None
        }
        Admission::Refuse { retry_after } => Some(retry_after.unwrap()),
    };
    replies.unwrap().into_iter().map(wait).collect()
}

#[test]
fn a_cluster_is_named_in_a_message() {
    assert_eq!(Rls::service("ha"), b"\x0a\x04\x0a\x02ha");
    let long = "x".repeat(300);
    let read = GrpcService::decode(&Rls::service(&long)[..]).unwrap();
    assert_eq!(read.envoy_grpc, Some(EnvoyGrpc { cluster_name: long }));
}

#[test]
fn a_request_has_these_bytes() {
    let one = GlobalQuery::Decide(vec![vec![RuleQuery { key: [0xab; 16], ..rule_query(2, true, 300) }]]);
    let bytes = rls().request(&one, |_| "all");
    let entry = [&b"\x0a\x27\x0a\x03all\x12\x20"[..], "ab".repeat(16).as_bytes()].concat();
    let descriptor = [&b"\x12\x2f"[..], &entry, b"\x12\x04\x08\x0c\x10\x02"].concat();
    assert_eq!(bytes, [&b"\x0a\x05diana"[..], &descriptor, b"\x18\xac\x02"].concat());
}

#[test]
fn a_descriptor_states_its_cost_if_it_differs() {
    let costs = |costs: [u64; 3]| {
        let rules = costs.iter().enumerate().map(|(rule, cost)| rule_query(rule, true, *cost)).collect();
        let request = requested(&GlobalQuery::Decide(vec![rules]));
        let own: Vec<Option<u64>> =
            request.descriptors.iter().map(|descriptor| descriptor.hits_addend).collect();
        (request.hits_addend, own)
    };
    assert_eq!(costs([1, 1, 1]), (1, vec![None; 3]));
    assert_eq!(costs([5, 1, 0]), (5, vec![None, Some(1), Some(0)]));
    assert_eq!(costs([0, 0, 0]), (1, vec![Some(0); 3]));
    assert_eq!(costs([1 << 32, 1, 1]).0, u32::MAX);
}

#[test]
fn a_request_names_rules_and_quotas() {
    let mut odd = rule_query(3, true, 1);
    odd.quota = Quota { rpu: 1_000_000_000, unit: Span::from_ms(100) };
    let request = requested(&GlobalQuery::Decide(vec![vec![rule_query(0, false, 1)], vec![odd]]));
    let key =
        |descriptor: &Descriptor| (descriptor.entries[0].key.clone(), descriptor.entries[0].value.clone());
    let keys: Vec<(String, String)> = request.descriptors.iter().map(key).collect();
    assert_eq!(keys, [("per-ip".into(), "00".repeat(16)), ("a_b".into(), "03".repeat(16))]);
    let limits: Vec<Option<RuleLimit>> =
        request.descriptors.iter().map(|descriptor| descriptor.limit.clone()).collect();
    assert_eq!(limits, [Some(RuleLimit { requests_per_unit: 10, unit: 2 }), None]);
    assert_eq!(request.domain, "diana");
}

/// Services refuse requests without descriptors.
#[test]
fn an_empty_query_has_a_descriptor_without_a_limit() {
    let account =
        LeaseUsage { key: [0; 16], parameters: Parameters::default(), generation: 0, used: 1, left: 0 };
    let none = GlobalQuery::Decide(Vec::new());
    for query in [none, GlobalQuery::ReturnLease(vec![account]), GlobalQuery::Refund(Vec::new())] {
        let entry = Entry { key: "probe".into(), value: "probe".into() };
        let probe = Descriptor { entries: vec![entry], limit: None, hits_addend: None };
        assert_eq!(requested(&query).descriptors, [probe]);
        assert_eq!(rls().read_reply(&query, b"\x08\x01"), Ok(Vec::new()));
    }
}

#[test]
fn units_are_those_of_the_protocol() {
    let seconds = [1, 60, 3_600, 86_400];
    assert_eq!(seconds.map(|seconds| unit(Span::from_secs(seconds))), [Some(1), Some(2), Some(3), Some(4)]);
    for span in [Span::ZERO, Span::from_ms(999), Span::from_secs(2), Span::from_secs(7 * 86_400)] {
        assert_eq!(unit(span), None);
    }
}

#[test]
fn a_status_tells_of_its_rule() {
    let replies =
        answered(2, &[status(1, 4, Some((9, 500))), status(2, 0, Some((30, 0))), status(1, 0, None)]);
    let replies = replies.unwrap();
    let seen = |reply: &RuleReply| (reply.verdict.remaining, reply.verdict.more_in, reply.verdict.full_in);
    let (nine, thirty) = (Span::from_ns(9_000_000_500), Span::from_secs(30));
    let seen: Vec<_> = replies.iter().map(seen).collect();
    assert_eq!(seen, [(4, nine, nine), (0, thirty, thirty), (0, Span::ZERO, Span::ZERO)]);
    assert_eq!(waits(Ok(replies)), [None, Some(thirty), None]);
}

#[test]
fn a_refusal_without_a_wait_waits_a_second() {
    for reset in [None, Some((0, 0)), Some((-3, 0)), Some((0, -1))] {
        assert_eq!(
            waits(answered(2, &[status(1, 4, None), status(2, 0, reset), status(1, 0, None)]))[1],
            Some(SECOND)
        );
    }
    let longest =
        answered(2, &[status(1, 4, None), status(2, 0, Some((i64::MAX, i32::MAX))), status(1, 0, None)]);
    assert_eq!(waits(longest)[1], Some(Span::from_ns(u64::MAX)));
}

#[test]
fn a_descriptor_without_a_limit_passes() {
    let unknown = Status { current_limit: None, ..status(1, 0, None) };
    let replies = answered(1, &[unknown, status(1, 3, None), status(1, 7, None)]).unwrap();
    let remaining: Vec<u64> = replies.iter().map(|reply| reply.verdict.remaining).collect();
    assert_eq!(remaining, [10, 3, 7]);
    assert_eq!(waits(Ok(replies)), [None; 3]);
}

/// If the service lacks the unit, the request carries no limit.
#[test]
fn a_rule_that_refuses_all_refuses_whatever_the_service_knows() {
    let none =
        |cost| RuleQuery { quota: Quota { rpu: 0, unit: Span::from_secs(30) }, ..rule_query(1, true, cost) };
    let replies = |cost| {
        let query = GlobalQuery::Decide(vec![vec![rule_query(0, true, 1), none(cost)]]);
        let response = Response { overall_code: 1, statuses: vec![status(1, 3, Some((9, 0))); 2] };
        let replies = rls().read_reply(&query, &response.encode_to_vec()).unwrap();
        [replies[0].verdict.admission, replies[1].verdict.admission]
    };
    let admitted = Admission::Admit { delay: Span::ZERO };
    assert_eq!(replies(1), [admitted, Admission::Refuse { retry_after: None }]);
    assert_eq!(replies(0), [admitted; 2]);
}

#[test]
fn a_service_in_shadow_refuses_nobody() {
    assert_eq!(waits(answered(1, &[status(2, 0, None), status(2, 0, None), status(1, 7, None)])), [None; 3]);
}

#[test]
fn only_a_rule_in_shadow_may_be_over() {
    let replies = answered(2, &[status(2, 0, None), status(1, 1, None), status(1, 7, None)]);
    assert_eq!(waits(replies), [Some(SECOND), None, None]);
}

/// `response_headers_to_add` of Limitador, for a limit of this name.
fn left(name: &str, remaining: &str, reset: &str) -> Headers {
    let header =
        |key: &str, value: &str| Header { key: key.into(), value: value.into(), raw_value: Vec::new() };
    let limit = format!("10, 10;w=60;name=\"{name}\"");
    let headers = vec![
        header("X-RateLimit-Limit", &limit),
        header("X-RateLimit-Remaining", remaining),
        header("X-RateLimit-Reset", reset),
    ];
    Headers { headers }
}

/// The replies of a service without `statuses` to these rules.
fn unnamed(query: &GlobalQuery, overall_code: i32, headers: &Headers) -> Vec<RuleReply> {
    let mut rls = rls();
    rls.names = NAMES.map(Into::into).into();
    let response = Response { overall_code, statuses: Vec::new() };
    let message = [response.encode_to_vec(), headers.encode_to_vec()].concat();
    rls.read_reply(query, &message).unwrap()
}

fn attributed(replies: &[RuleReply]) -> Vec<bool> {
    replies.iter().map(|reply| reply.attributed).collect()
}

#[test]
fn a_refusal_that_names_no_rule_is_attributed_to_none() {
    let replies = unnamed(&query(), OVER_LIMIT, &Headers::default());
    assert_eq!(attributed(&replies), [false; 3]);
    assert_eq!(waits(Ok(replies)), [Some(SECOND); 3]);
    // Two limits may have nothing left, so the limit in the headers need not be the one that
    // refuses.
    let replies = unnamed(&query(), OVER_LIMIT, &left("all", "0", "30"));
    assert_eq!(attributed(&replies), [false; 3]);
    assert_eq!(waits(Ok(replies)), [Some(Span::from_secs(30)); 3]);
    let all_ok = answered(OVER_LIMIT, &[status(1, 4, None), status(1, 4, None), status(1, 4, None)]);
    assert_eq!(attributed(all_ok.as_ref().unwrap()), [false; 3]);
    assert_eq!(waits(all_ok), [Some(SECOND); 3]);
}

#[test]
fn a_refusal_is_attributed_to_the_only_rule() {
    let only = GlobalQuery::Decide(vec![vec![rule_query(2, true, 1)]]);
    for (headers, wait) in [
        (Headers::default(), SECOND),
        (left("other", "0", "30"), Span::from_secs(30)),
        (left("", "0", "0"), SECOND),
    ] {
        let replies = unnamed(&only, OVER_LIMIT, &headers);
        assert_eq!((attributed(&replies), replies[0].verdict.remaining), (vec![true], 0));
        assert_eq!(waits(Ok(replies)), [Some(wait)]);
    }
}

#[test]
fn headers_tell_what_is_left_of_the_rule_that_they_name() {
    let replies = unnamed(&query(), OK, &left("per-user", "4", "30"));
    assert_eq!(attributed(&replies), [false, true, false]);
    assert_eq!((replies[1].verdict.remaining, replies[1].verdict.more_in), (4, Span::from_secs(30)));
    assert_eq!(waits(Ok(replies)), [None; 3]);
    for headers in
        [Headers::default(), left("other", "4", "30"), left("per-user", "many", "30"), left("", "4", "30")]
    {
        assert_eq!(attributed(&unnamed(&query(), OK, &headers)), [false; 3]);
    }
    let only = GlobalQuery::Decide(vec![vec![rule_query(2, true, 1)]]);
    for name in ["all", "other", ""] {
        let replies = unnamed(&only, OK, &left(name, "4", "30"));
        assert_eq!((attributed(&replies), replies[0].verdict.remaining), (vec![true], 4), "{name}");
    }
}

#[test]
fn too_many_headers_are_not_read() {
    let mut headers = left("all", "4", "30");
    let only = GlobalQuery::Decide(vec![vec![rule_query(2, true, 1)]]);
    let other = headers.headers[0].clone();
    headers.headers.resize(MAX_HEADERS, other.clone());
    assert_eq!(attributed(&unnamed(&only, OK, &headers)), [true]);
    headers.headers.push(other);
    assert_eq!(attributed(&unnamed(&only, OK, &headers)), [false]);
}

#[test]
fn a_rule_that_refuses_all_is_attributed_without_a_status() {
    let none = RuleQuery { quota: Quota { rpu: 0, unit: SECOND }, ..rule_query(1, true, 1) };
    let query = GlobalQuery::Decide(vec![vec![rule_query(0, true, 1), none]]);
    for (code, first) in [
        (OK, Admission::Admit { delay: Span::ZERO }),
        (OVER_LIMIT, Admission::Refuse { retry_after: Some(SECOND) }),
    ] {
        let replies = unnamed(&query, code, &Headers::default());
        assert_eq!(attributed(&replies), [false, true]);
        let outcomes = [replies[0].verdict.admission, replies[1].verdict.admission];
        assert_eq!(outcomes, [first, Admission::Refuse { retry_after: None }]);
    }
}

#[test]
fn a_reply_that_no_service_sends_is_garbage() {
    let ok = status(1, 4, None);
    for (overall, statuses) in [
        (0, vec![ok.clone(); 3]),
        (3, vec![ok.clone(); 3]),
        (-1, vec![]),
        (1, vec![ok.clone(); 2]),
        (2, vec![ok.clone(); 4]),
        (1, vec![ok.clone(), status(0, 4, None), ok.clone()]),
        (1, vec![ok.clone(), status(3, 4, None), ok.clone()]),
    ] {
        assert_eq!(answered(overall, &statuses), Err(CallError::Garbage), "{overall} {statuses:?}");
    }
    let long = [&b"\x08\x01"[..], &b"\x08\x01".repeat(MAX_REPLY_BYTES / 2)].concat();
    assert!(rls().read_reply(&query(), &long[2..]).is_ok());
    for bytes in [&b""[..], b"\x08", b"\x12\x05\x08\x01", b"\x0b", &long] {
        assert_eq!(rls().read_reply(&query(), bytes), Err(CallError::Garbage));
    }
}

#[test]
fn unused_fields_of_a_reply_are_ignored() {
    // `response_headers_to_add`, `raw_body`, `dynamic_metadata`, a `quota`; also within a status,
    // and a name in its limit.
    let limit = b"\x08\x0a\x10\x02\x1a\x03abc";
    let status = [&b"\x08\x01\x12\x09"[..], limit, b"\x18\x04\x22\x02\x08\x1e\x2a\x02\x08\x05"].concat();
    let status = [&[0x12, status.len() as u8], &status[..]].concat();
    let rest =
        b"\x1a\x06\x0a\x01a\x12\x01b\x2a\x02no\x32\x00\x3a\x02\x08\x05\x39\0\0\0\0\0\0\0\0\x4d\0\0\0\0";
    let bytes = [&b"\x08\x01"[..], &status, &status, &status, rest].concat();
    let replies = rls().read_reply(&query(), &bytes).unwrap();
    assert!(
        replies
            .iter()
            .all(|reply| reply.verdict.remaining == 4 && reply.verdict.more_in == Span::from_secs(30))
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes: Vec<u8>, small in vec(0u8..0x40, 0..60)) {
        for bytes in [&bytes, &small] {
            if let Ok(replies) = rls().read_reply(&query(), bytes) {
                prop_assert_eq!(replies.len(), 3);
            }
        }
    }

    #[test]
    fn an_answer_is_read_back(rules in vec((1i32..3, any::<u32>(), 0i64..1_000_000, 0i32..1_000_000_000), 1..9)) {
        let statuses: Vec<Status> = rules.iter().map(|(code, left, secs, ns)| status(*code, *left, Some((*secs, *ns)))).collect();
        let overall_code = rules.iter().map(|(code, ..)| *code).max().unwrap();
        let query = GlobalQuery::Decide(vec![(0..rules.len()).map(|_| rule_query(0, true, 1)).collect()]);
        let replies = rls().read_reply(&query, &Response { overall_code, statuses }.encode_to_vec()).unwrap();
        for (reply, (code, left, secs, ns)) in replies.iter().zip(rules) {
            let reset = Span::from_ns(secs as u64 * 1_000_000_000 + ns as u64);
            let wait = if reset == Span::ZERO { SECOND } else { reset };
            let outcome = match code {
                1 => Admission::Admit { delay: Span::ZERO },
                _ => Admission::Refuse { retry_after: Some(wait) },
            };
            let expected = Verdict { admission: outcome, remaining: left.into(), more_in: reset, full_in: reset, charge: Charge::default() };
            prop_assert_eq!(reply.verdict, expected);
        }
    }
}
