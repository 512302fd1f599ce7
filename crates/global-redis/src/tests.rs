//! Calls in all dialects, and replies of real proxies: webdis 0.1.9 in front of Redis 7.0, and the
//! REST API of Upstash as documented.

mod replies;
mod resp;

use super::*;
use diana_base::time::Span;
use diana_limiter::algorithm::{Admission, Charge, Parameters, PenaltyParameters, Verdict};
use diana_limiter::global::{GlobalCharge, LeaseGrant, LeaseUsage, RuleQuery, RuleReply};
use diana_limiter::policy::RuleId;
use proptest::collection::vec;
use proptest::prelude::*;

/// A bucket that allows any span in a reply.
const PARAMETERS: Parameters = Parameters { kind: 1, numbers: [MOST_NUMBER, 1, 10, MOST_NUMBER, 0, 0] };

/// The number of each call.
const NUMBER: u64 = 4_503_599_627_370_500;

const NOSCRIPT: &str = r#"{"EVALSHA":[false,"NOSCRIPT No matching script. Please use EVAL."]}"#;

fn redis(dialect: Dialect) -> Redis {
    Redis::new(dialect, "diana".into(), Vec::new())
}

fn rule_query(key: u8, lease: u64) -> RuleQuery {
    RuleQuery {
        rule: RuleId::new(0),
        key: [key; 16],
        parameters: PARAMETERS,
        enforced: key % 2 == 1,
        cost: 3,
        peeks: false,
        lease,
        penalty: None,
        headroom: 0,
        takes_grants: false,
    }
}

/// One query of each kind: two groups with three rules, one charge, two leases.
fn one_of_each() -> [GlobalQuery; 3] {
    let lease = |used| LeaseUsage {
        key: [6; 16],
        parameters: rule_query(0, 0).parameters,
        generation: 1_234,
        used,
        left: 2,
    };
    let charge = GlobalCharge {
        key: [5; 16],
        parameters: rule_query(0, 0).parameters,
        numbers: [3, 1_795_192_784_000_001, 4, 5, 6],
    };
    [
        GlobalQuery::Decide(vec![vec![rule_query(1, 7), rule_query(2, 0)], vec![rule_query(3, 0)]]),
        GlobalQuery::Refund(vec![charge]),
        GlobalQuery::ReturnLease(vec![lease(0), lease(u64::MAX)]),
    ]
}

fn text(call: HttpCall) -> String {
    String::from_utf8(call.body).unwrap()
}

/// The script's reply to one rule.
const NUMBERS: [u64; 13] = [0, 5, 9, 700, 800, 3, 1_795_192_784_000_001, 12, 13, 14, 7, 99, 250];

fn reply() -> RuleReply {
    let us = |us: u64| Span::from_ns(us * 1_000);
    let admission = Admission::Admit { delay: us(5) };
    RuleReply {
        verdict: Verdict {
            admission,
            remaining: 9,
            more_in: us(700),
            full_in: us(800),
            charge: Charge::default(),
        },
        charge: [3, 1_795_192_784_000_001, 12, 13, 14],
        grant: LeaseGrant { amount: 7, generation: 99, lasts: us(250) },
    }
}

fn json(numbers: &[u64]) -> String {
    serde_json::to_string(numbers).unwrap()
}

/// The list that a script replies to the command at index `at` of a call.
fn listed(at: u64, numbers: &[u64]) -> String {
    json(&[&[NUMBER + at], numbers].concat())
}

#[test]
fn a_call_of_webdis_is_a_path() {
    let queries = one_of_each();
    let redis = redis(Dialect::Webdis);
    let call = redis.call("redis", &queries.each_ref(), false, NUMBER);
    assert_eq!((call.path, call.headers), ("/", &[][..]));
    let keys = ["01", "02", "03", "05", "06", "06"].map(|byte| format!("diana:{{0}}:{}/", byte.repeat(16)));
    let commands = [
        "1+2+2+1+1+3+7+TERMS+1+0+3+0+TERMS+1+1+1+3+0+TERMS",
        "2+1+1+TERMS+3+1795192784000001+4+5+6",
        "3+2+1+TERMS+1234+0+2+1+TERMS+1234+9007199254740991+2",
    ];
    let commands = commands.map(|text| text.replace("TERMS", "9007199254740991+1+10+9007199254740991+0+0"));
    let (keys, commands) = (keys.concat(), commands.join("/"));
    assert_eq!(text(call), format!("EVALSHA/{}/6/{keys}{NUMBER}/{commands}", script::SHA1));
}

#[test]
fn a_call_of_upstash_is_a_list() {
    let queries = one_of_each();
    let redis = redis(Dialect::Upstash);
    let call = redis.call("redis", &[&queries[1]], true, NUMBER);
    assert_eq!(call.path, "/");
    let list: Vec<String> = serde_json::from_slice(&call.body).unwrap();
    let key = "diana:{0}:05050505050505050505050505050505";
    let command = "2 1 1 9007199254740991 1 10 9007199254740991 0 0 3 1795192784000001 4 5 6";
    assert_eq!(list, ["EVAL", script::SCRIPT, "1", key, &NUMBER.to_string(), command]);
}

#[test]
fn no_questions_are_a_call_as_well() {
    let webdis = redis(Dialect::Webdis);
    let probe = format!("EVALSHA/{}/1/diana:{{0}}:probe/{NUMBER}", script::SHA1);
    assert_eq!(text(webdis.call("redis", &[], false, NUMBER)), probe);
    let answer = |body: &str| webdis.read_reply(&[], NUMBER, 200, body.as_bytes());
    assert_eq!(answer(&format!(r#"{{"EVALSHA":[{NUMBER}]}}"#)), Ok(Vec::new()));
    assert_eq!(answer(NOSCRIPT), Err(CallError::NoScript));
    assert_eq!(answer(&format!(r#"{{"EVALSHA":[{NUMBER},0]}}"#)), Err(CallError::Garbage));
    assert_eq!(answer(r#"{"EVALSHA":[]}"#), Err(CallError::Stray));
    let upstash = redis(Dialect::Upstash);
    assert_eq!(
        text(upstash.call("redis", &[], false, NUMBER)),
        format!(r#"["EVALSHA","{}","1","diana:{{0}}:probe","{NUMBER}"]"#, script::SHA1)
    );
    let result = format!(r#"{{"result":[{NUMBER}]}}"#);
    assert_eq!(upstash.read_reply(&[], NUMBER, 200, result.as_bytes()), Ok(Vec::new()));
    assert_eq!(upstash.read_reply(&[], NUMBER, 200, b"[]"), Err(CallError::Garbage));
}

#[test]
fn headers_are_brought_and_a_content_type_where_it_matters() {
    let token = ("Authorization".to_string(), "Bearer x".to_string());
    let json = ("content-type".to_string(), "application/json".to_string());
    for (dialect, given, sent) in [
        (Dialect::Webdis, vec![token.clone()], vec![token.clone()]),
        (Dialect::Upstash, vec![token.clone()], vec![token, json]),
    ] {
        assert_eq!(Redis::new(dialect, String::new(), given).call("redis", &[], false, NUMBER).headers, sent);
    }
}

#[test]
fn many_questions_are_a_pipeline_whose_first_command_brings_the_script() {
    let [decide, ..] = one_of_each();
    let redis = redis(Dialect::Upstash);
    assert_eq!((redis.max_queries(), self::redis(Dialect::Webdis).max_queries()), (256, 64));
    for (count, sizes) in [(64, vec![]), (65, vec![64, 1]), (256, vec![64; 4])] {
        let queries = vec![&decide; count];
        for with_script in [false, true] {
            let call = redis.call("redis", &queries, with_script, NUMBER);
            if sizes.is_empty() {
                assert_eq!(call.path, "/");
                assert!(serde_json::from_slice::<Vec<String>>(&call.body).is_ok());
                continue;
            }
            assert_eq!(call.path, "/pipeline");
            let commands: Vec<Vec<String>> = serde_json::from_slice(&call.body).unwrap();
            // Four parts: the name, the script, the number of keys, and the number of the call.
            // Each query adds three keys and a command.
            let lengths: Vec<usize> = commands.iter().map(|command| (command.len() - 4) / 4).collect();
            assert_eq!(lengths, sizes);
            let names: Vec<&str> = commands.iter().map(|command| command[0].as_str()).collect();
            assert_eq!(names[0], if with_script { "EVAL" } else { "EVALSHA" });
            assert!(names[1..].iter().all(|name| *name == "EVALSHA"));
            for (command, (size, number)) in commands.iter().zip(sizes.iter().zip(NUMBER..)) {
                assert_eq!(command[2], (size * 3).to_string());
                assert_eq!(command[3 + size * 3], number.to_string(), "each has one of its own");
            }
        }
    }
}

#[test]
fn replies_of_the_script_are_read() {
    let queries = one_of_each();
    let refused: [u64; 13] = [1, 5, 0, 700, 800, 0, 0, 0, 0, 0, 0, 0, 0];
    let never: [u64; 13] = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let numbers = [&NUMBERS[..], &refused, &never, &[0, 0]].concat();
    let refuse = |retry_after| Admission::Refuse { retry_after };
    for (dialect, key) in [(Dialect::Webdis, "EVALSHA"), (Dialect::Upstash, "result")] {
        let body = format!(r#"{{"{key}":{}}}"#, listed(0, &numbers));
        let replies = redis(dialect).read_reply(&queries.each_ref(), NUMBER, 200, body.as_bytes()).unwrap();
        let [Ok(decided), Ok(refunded), Ok(returned)] = replies.as_slice() else { panic!("{replies:?}") };
        assert_eq!(decided[0], reply());
        assert_eq!(decided[1].verdict.admission, refuse(Some(Span::from_ns(5_000))));
        assert_eq!((decided[2].verdict.admission, decided.len()), (refuse(None), 3));
        assert!(refunded.is_empty() && returned.is_empty());
    }
}

#[test]
fn a_reply_that_the_script_never_sends_is_garbage() {
    let query = GlobalQuery::Decide(vec![vec![rule_query(1, 7)]]);
    let with = |at: usize, number: u64| {
        let mut numbers = NUMBERS;
        numbers[at] = number;
        format!(r#"{{"EVALSHA":{}}}"#, listed(0, &numbers))
    };
    let answer = |body: &str| redis(Dialect::Webdis).read_reply(&[&query], NUMBER, 200, body.as_bytes());
    assert_eq!(answer(&with(0, 0)), Ok(vec![Ok(vec![reply()])]));
    assert!(answer(&with(2, (1 << 53) - 1)).is_ok());
    let (nested, doubled) = (
        format!(r#"{{"EVALSHA":[{NUMBER},{}]}}"#, json(&NUMBERS)),
        format!(r#"{{"EVALSHA":{}}}"#, json(&[NUMBER, NUMBER])),
    );
    for body in [
        &with(0, 3),
        &with(2, 1 << 53),
        &with(10, 8),
        &with(1, 5).replace("5,", "-5,"),
        &with(1, 5).replace("5,", "5.5,"),
        &with(1, 5).replace("5,", "\"5\","),
        &with(1, 5).replace("5,", "null,"),
        &with(1, 5).replace("5,", "5,5,"),
        &with(1, 5).replace("5,", ""),
        &with(1, 5).replace("5,", "[5],"),
        &nested,
        &doubled,
        &with(1, 5).replace('}', r#","x":0}"#),
        &with(1, 5).replace('}', ""),
        "{}",
        "[]",
        "",
        &"[".repeat(1_000),
        &format!(r#"{{"EVALSHA":{}}}"#, "[".repeat(1 << 19)),
        &(with(1, 5) + &" ".repeat(1 << 20)),
    ] {
        assert_eq!(answer(body), Err(CallError::Garbage), "{}", &body[..body.len().min(200)]);
    }
}

/// How webdis parses a body: parts, unescaped (`decode_uri` in its `cmd.c`).
fn parts(body: &[u8]) -> Vec<Vec<u8>> {
    let unescaped = |part: &[u8]| {
        let (mut out, mut rest) = (Vec::new(), part);
        while let [byte, behind @ ..] = rest {
            let (byte, behind) = match byte {
                b'%' => {
                    (u8::from_str_radix(str::from_utf8(&behind[..2]).unwrap(), 16).unwrap(), &behind[2..])
                }
                b'+' => (b' ', behind),
                byte => (*byte, behind),
            };
            out.push(byte);
            rest = behind;
        }
        out
    };
    assert!(!body.contains(&b'?') && !body.contains(&b'.'));
    body.split(|byte| *byte == b'/').map(unescaped).collect()
}

proptest! {
    #[test]
    fn both_proxies_are_told_the_same(prefix in ".*|[\\x00-\\x7f]*", with_script: bool, count in 0usize..70) {
        let all = one_of_each();
        let queries: Vec<&GlobalQuery> = all.iter().cycle().take(count).collect();
        let webdis = Redis::new(Dialect::Webdis, prefix.clone(), Vec::new());
        let upstash = Redis::new(Dialect::Upstash, prefix, Vec::new());
        let said = parts(&webdis.call("redis", &queries[..count.min(64)], with_script, NUMBER).body);
        let list: Vec<String> = serde_json::from_slice(&upstash.call("redis", &queries[..count.min(64)], with_script, NUMBER).body).unwrap();
        prop_assert_eq!(said, list.into_iter().map(String::into_bytes).collect::<Vec<_>>());
    }

    #[test]
    fn an_answer_is_read_back(rules in vec(vec(prop::array::uniform13(0..=MOST_NUMBER).prop_map(legal), 0..4), 0..9)) {
        let query = |rules: &Vec<[u64; 13]>| GlobalQuery::Decide(vec![rules.iter().map(|numbers| rule_query(1, numbers[10])).collect()]);
        let queries: Vec<GlobalQuery> = rules.iter().map(query).collect();
        let queries: Vec<&GlobalQuery> = queries.iter().collect();
        let body = format!(r#"{{"EVAL":{}}}"#, listed(0, &rules.concat().concat()));
        let replies = redis(Dialect::Webdis).read_reply(&queries, NUMBER, 200, body.as_bytes()).unwrap();
        let read: Vec<Vec<[u64; 13]>> = replies.into_iter().map(|reply| reply.unwrap().iter().map(numbers).collect()).collect();
        prop_assert_eq!(read, rules);
    }

    #[test]
    fn any_bytes_are_read_without_harm(status in prop_oneof![Just(200u32), any::<u32>()], body: Vec<u8>, json in "[\\[\\]{}0-9,:\"a-z]{0,60}") {
        let queries = one_of_each();
        for dialect in [Dialect::Webdis, Dialect::Upstash] {
            let answer = |body: &[u8]| redis(dialect).read_reply(&queries.each_ref(), NUMBER, status, body);
            prop_assert!(answer(&body).is_err());
            prop_assert!(answer(json.as_bytes()).is_err());
        }
    }
}

const MOST_NUMBER: u64 = (1 << 53) - 1;

/// Numbers that the script may reply.
fn legal(mut numbers: [u64; 13]) -> [u64; 13] {
    numbers[0] %= 3;
    if numbers[0] == 2 {
        numbers[1] = 0;
    }
    let (_, longest) = PARAMETERS.longest_us();
    for span in [1, 3, 4] {
        numbers[span] %= longest;
    }
    numbers[12] %= 2_000_000;
    numbers
}

/// The numbers from which a reply was decoded.
fn numbers(reply: &RuleReply) -> [u64; 13] {
    let us = |span: Span| span.as_ns() / 1_000;
    let (admission, wait) = match reply.verdict.admission {
        Admission::Admit { delay } => (0, us(delay)),
        Admission::Refuse { retry_after: Some(wait) } => (1, us(wait)),
        Admission::Refuse { retry_after: None } => (2, 0),
    };
    let (verdict, [cost, at, booked_at, first, second], grant) = (reply.verdict, reply.charge, reply.grant);
    [
        [admission, wait, verdict.remaining, us(verdict.more_in), us(verdict.full_in)].as_slice(),
        &[cost, at, booked_at, first, second],
        &[grant.amount, grant.generation, us(grant.lasts)],
    ]
    .concat()
    .try_into()
    .unwrap()
}
