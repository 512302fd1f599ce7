//! Calls, and replies of Redis 7.0.

mod replies;

use super::*;
use diana_base::time::Span;
use diana_limiter::algorithm::{Admission, Charge, Parameters, PenaltyParameters, Verdict};
use diana_limiter::global::{
    GlobalCharge, Inspection, LeaseGrant, LeaseUsage, LevelReport, RuleQuery, RuleReply, Settlement,
    StoreChange,
};
use diana_limiter::policy::RuleId;
use proptest::collection::vec;
use proptest::prelude::*;

/// A bucket that allows any span in a reply.
const PARAMETERS: Parameters = Parameters { kind: 1, numbers: [MOST_NUMBER, 1, 10, MOST_NUMBER, 0, 0] };

/// The number of each call.
const NUMBER: u64 = 4_503_599_627_370_500;

fn redis() -> Redis {
    Redis::new("diana".into(), Vec::new())
}

fn login() -> Login {
    Login { user: Some("diana".into()), password: "a secret".into() }
}

fn rule_query(key: u8, lease: u64) -> RuleQuery {
    RuleQuery {
        rule: RuleId::new(0),
        key: [key; 16],
        parameters: PARAMETERS,
        enforced: key % 2 == 1,
        cost: 3,
        peeks: false,
        least_rest: 0,
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

/// The commands in a body.
fn commands(body: &[u8]) -> Vec<Vec<String>> {
    let (mut rest, mut commands) = (body, Vec::new());
    while let Some(parts) = diana_resp::next_command(&mut rest, 9_999) {
        commands.push(parts.iter().map(|part| String::from_utf8(part.to_vec()).unwrap()).collect());
    }
    assert!(rest.is_empty());
    commands
}

/// The commands of a call.
fn said(redis: &Redis, queries: &[&GlobalQuery], with_script: bool) -> Vec<Vec<String>> {
    commands(&redis.call("redis", queries, with_script, NUMBER))
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

/// A list of numbers, as Redis writes it.
fn list(numbers: &[u64]) -> String {
    let lines: Vec<String> = numbers.iter().map(|number| format!(":{number}\r\n")).collect();
    format!("*{}\r\n{}", numbers.len(), lines.concat())
}

/// The script's reply to the command at index `at` of a call.
fn listed(at: u64, numbers: &[u64]) -> String {
    list(&[&[NUMBER + at], numbers].concat())
}

/// What a Redis without a login reads from this reply.
fn read(queries: &[&GlobalQuery], body: &str) -> Result<Replies, CallError> {
    redis().read_reply(queries, NUMBER, 200, body.as_bytes())
}

#[test]
fn a_call_is_a_command() {
    let queries = one_of_each();
    let keys = ["01", "02", "03", "05", "06", "06"].map(|byte| format!("diana:{{0}}:{}", byte.repeat(16)));
    let arguments = [
        "1 2 2 1 1 3 7 TERMS 1 0 3 0 TERMS 1 1 1 3 0 TERMS",
        "2 1 1 TERMS 3 1795192784000001 4 5 6",
        "3 2 1 TERMS 1234 0 2 1 TERMS 1234 9007199254740991 2",
    ];
    let arguments = arguments.map(|text| text.replace("TERMS", "9007199254740991 1 10 9007199254740991 0 0"));
    let start = ["EVALSHA", script::SHA1, "6"].map(String::from);
    let expected = [&start[..], &keys, &[NUMBER.to_string()], &arguments].concat();
    assert_eq!(said(&redis(), &queries.each_ref(), false), [expected]);
}

#[test]
fn no_queries_are_a_call_as_well() {
    let probe = ["EVALSHA", script::SHA1, "1", "diana:{0}:probe", &NUMBER.to_string()];
    assert_eq!(said(&redis(), &[], false), [probe]);
    assert_eq!(read(&[], &listed(0, &[])), Ok(Vec::new()));
    assert_eq!(read(&[], "-NOSCRIPT No matching script. Please use EVAL.\r\n"), Err(CallError::NoScript));
    assert_eq!(read(&[], &listed(0, &[0])), Err(CallError::Garbage));
    assert_eq!(read(&[], "*0\r\n"), Err(CallError::Stray));
}

#[test]
fn each_call_logs_in() {
    let [query, ..] = &one_of_each();
    let evalsha = |command: &Vec<String>| command[..3] == ["EVALSHA", script::SHA1, "3"];
    let with_user = said(&redis().with_login(login()), &[query], false);
    assert_eq!((with_user.len(), &*with_user[0]), (2, &["AUTH", "diana", "a secret"].map(String::from)[..]));
    assert!(evalsha(&with_user[1]));
    let alone = redis().with_login(Login { user: None, ..login() });
    assert_eq!(said(&alone, &[query], false)[0], ["AUTH", "a secret"]);
    let without = said(&redis(), &[query], false);
    assert!(without.len() == 1 && evalsha(&without[0]));
}

/// A script's keys have to lie in one slot of a Redis Cluster, and those of another cluster in
/// another slot.
#[test]
fn each_of_several_clusters_has_a_hash_tag_of_its_own() {
    let queries = one_of_each();
    let keys = |redis: &Redis, cluster: &str, queries: &[&GlobalQuery]| {
        let said = commands(&redis.call(cluster, queries, false, NUMBER)).remove(0);
        let count: usize = said[2].parse().unwrap();
        said[3..3 + count].to_vec()
    };
    let tags = |redis: &Redis, cluster| {
        let mut tags = [keys(redis, cluster, &queries.each_ref()), keys(redis, cluster, &[])].concat();
        tags.iter_mut().for_each(|key| key.truncate(key.rfind(':').unwrap()));
        tags.dedup();
        tags
    };
    assert_eq!(tags(&redis(), "a"), ["diana:{0}"]);
    let sharded = redis().sharded();
    assert_eq!(tags(&sharded, "shard-1"), ["diana:{shard-1}"]);
    // A tag that is empty or ends early would leave the whole key to choose the slot.
    assert_eq!(tags(&sharded, "}.{x"), ["diana:{___x}"]);
}

#[test]
fn many_queries_are_a_pipeline_whose_first_command_brings_the_script() {
    let [decide, ..] = one_of_each();
    for (count, sizes) in [(1, vec![1]), (64, vec![64]), (65, vec![64, 1]), (256, vec![64; 4])] {
        let queries = vec![&decide; count];
        for with_script in [false, true] {
            let commands = said(&redis(), &queries, with_script);
            // Four parts: the name, the script, the number of keys, and the number of the command.
            // Each query adds three keys and an argument.
            let lengths: Vec<usize> = commands.iter().map(|command| (command.len() - 4) / 4).collect();
            assert_eq!(lengths, sizes);
            let names: Vec<&str> = commands.iter().map(|command| command[0].as_str()).collect();
            assert_eq!(names[0], if with_script { "EVAL" } else { "EVALSHA" });
            assert!(names[1..].iter().all(|name| *name == "EVALSHA"), "one text is enough");
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
    let replies = read(&queries.each_ref(), &listed(0, &numbers)).unwrap();
    let [Ok(decided), Ok(refunded), Ok(returned)] = replies.as_slice() else { panic!("{replies:?}") };
    assert_eq!(decided[0], reply());
    assert_eq!(decided[1].verdict.admission, refuse(Some(Span::from_ns(5_000))));
    assert_eq!((decided[2].verdict.admission, decided.len()), (refuse(None), 3));
    assert!(refunded.is_empty() && returned.is_empty());
}

#[test]
fn a_reply_that_the_script_never_sends_is_garbage() {
    let query = GlobalQuery::Decide(vec![vec![rule_query(1, 7)]]);
    let with = |at: usize, number: u64| {
        let mut numbers = NUMBERS;
        numbers[at] = number;
        listed(0, &numbers)
    };
    assert_eq!(read(&[&query], &with(0, 0)), Ok(vec![Ok(vec![reply()])]));
    assert!(read(&[&query], &with(2, (1 << 53) - 1)).is_ok());
    let five = |other: &str| with(1, 5).replacen(":5\r\n", other, 1);
    for body in [
        &with(0, 3),
        &with(2, 1 << 53),
        &with(10, 8),
        &five(":-5\r\n"),
        &five(":5.5\r\n"),
        &five("$1\r\n5\r\n"),
        &five("$-1\r\n"),
        &five("*1\r\n:5\r\n"),
        &five(""),
        &listed(0, &NUMBERS[1..]),
        &listed(0, &[&NUMBERS[..], &[0]].concat()),
        &list(&[NUMBER, NUMBER]),
        &format!("*2\r\n:{NUMBER}\r\n{}", list(&NUMBERS)),
        &"*1\r\n".repeat(1 << 17),
        &(with(1, 5) + &" ".repeat(1 << 20)),
        &(format!("+{}\r\n", "x".repeat(1 << 20)) + &with(1, 5)),
        "",
    ] {
        assert_eq!(read(&[&query], body), Err(CallError::Garbage), "{}", &body[..body.len().min(200)]);
    }
}

#[test]
fn a_reply_that_is_cut_or_followed_by_anything_fails_the_call() {
    let query = GlobalQuery::Decide(vec![vec![rule_query(1, 7)]]);
    let redis = redis().with_login(login());
    let whole = format!("+OK\r\n{}", listed(0, &NUMBERS));
    let answer = |body: &str| redis.read_reply(&[&query], NUMBER, 200, body.as_bytes());
    assert_eq!(answer(&whole), Ok(vec![Ok(vec![reply()])]));
    for end in 0..whole.len() {
        assert_eq!(answer(&whole[..end]), Err(CallError::Garbage), "{:?}", &whole[..end]);
    }
    for more in ["\r\n", "+OK\r\n", " ", "-ERR Protocol error\r\n", &listed(0, &NUMBERS)] {
        assert_eq!(answer(&format!("{whole}{more}")), Err(CallError::Garbage), "{more:?}");
    }
    assert_eq!(answer(&whole.replacen("+OK\r\n", "", 1)), Err(CallError::Garbage), "nobody has logged in");
}

proptest! {
    #[test]
    fn any_prefix_begins_each_key(prefix in ".*|[\\x00-\\x7f]*", with_script: bool, count in 0usize..200) {
        let all = one_of_each();
        let queries: Vec<&GlobalQuery> = all.iter().cycle().take(count).collect();
        for command in said(&Redis::new(prefix.clone(), Vec::new()), &queries, with_script) {
            let keys: usize = command[2].parse().unwrap();
            let start = format!("{prefix}:{{0}}:");
            prop_assert!(keys > 0 && command[3..3 + keys].iter().all(|key| key.starts_with(&start)));
        }
    }

    #[test]
    fn an_answer_is_read_back(rules in vec(vec(prop::array::uniform13(0..=MOST_NUMBER).prop_map(legal), 0..4), 0..9)) {
        let query = |rules: &Vec<[u64; 13]>| GlobalQuery::Decide(vec![rules.iter().map(|numbers| rule_query(1, numbers[10])).collect()]);
        let queries: Vec<GlobalQuery> = rules.iter().map(query).collect();
        let queries: Vec<&GlobalQuery> = queries.iter().collect();
        let replies = self::read(&queries, &listed(0, &rules.concat().concat())).unwrap();
        let read: Vec<Vec<[u64; 13]>> = replies.into_iter().map(|reply| reply.unwrap().iter().map(numbers).collect()).collect();
        prop_assert_eq!(read, rules);
    }

    #[test]
    fn any_bytes_are_read_without_harm(
        status in prop_oneof![Just(200u32), any::<u32>()],
        body: Vec<u8>,
        text in "[-+*:$0-9a\r\n]{0,60}",
        logs_in: bool,
    ) {
        let queries = one_of_each();
        let redis = if logs_in { redis().with_login(login()) } else { redis() };
        for body in [&body[..], text.as_bytes()] {
            prop_assert!(redis.read_reply(&queries.each_ref(), NUMBER, status, body).is_err());
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
