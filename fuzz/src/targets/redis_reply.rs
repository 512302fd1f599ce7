//! Replies of Redis.
//!
//! ```text
//!   1 0 *14⏎ :4⏎ :0⏎ …     a digit each for the queries and the status, without spaces; the body
//! ```

use super::input::Input;
use super::query::query;
use diana_global_redis::Redis;
use diana_limiter::algorithm::Admission;
use diana_limiter::global::{CallError, Replies};
use diana_limiter::global::{GlobalCharge, GlobalQuery, LeaseUsage, RuleReply};

const STATUSES: [u32; 4] = [200, 403, 503, 0];

/// The number of the call. The first command carries it, and each further command the next number.
const NUMBER: u64 = 4;

/// The script counts in doubles.
const LARGEST: u64 = (1 << 53) - 1;

/// The longest body that is read. Quadratic work on it would take a minute.
const LONGEST: usize = 1 << 20;
/// One in so many input lengths is also read at the longest length.
const LONG_ONE_IN: usize = 128;

/// Any bytes are a reply to each query or an error, and the replies encode to an equal body.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let queries = queries(input.byte().wrapping_sub(b'0'));
    let queries: Vec<&GlobalQuery> = queries.iter().collect();
    let (status, body) = (STATUSES[input.below(STATUSES.len())], input.0);
    let redis = Redis::new("diana".into(), Vec::new());
    if !body.is_empty() && body.len().is_multiple_of(LONG_ONE_IN) {
        let _ = redis.read_reply(&queries, NUMBER, status, &body.repeat(LONGEST / body.len()));
    }

    let result = redis.read_reply(&queries, NUMBER, status, body);
    if result.is_ok() {
        let longer = [body, b"\n"].concat();
        assert_eq!(redis.read_reply(&queries, NUMBER, status, &longer), Err(CallError::Garbage));
    }
    match &result {
        Err(failure) => sane(failure, status),
        Ok(replies) => {
            assert_eq!(status, 200);
            check_replies(&queries, replies);
            if replies.iter().all(Result::is_ok) {
                let body = body_of(&queries, replies);
                assert_eq!(redis.read_reply(&queries, NUMBER, 200, body.as_bytes()), result, "{body}");
            }
        }
    }
}

fn queries(which: u8) -> Vec<GlobalQuery> {
    let parameters = query(0).parameters;
    let decide = GlobalQuery::Decide(vec![vec![query(0), query(1)], vec![query(2)]]);
    let give_back =
        GlobalQuery::Refund(vec![GlobalCharge { key: [3; 16], parameters, numbers: [1, 2, 3, 4, 5] }]);
    let account = GlobalQuery::ReturnLease(vec![LeaseUsage {
        key: [4; 16],
        parameters,
        generation: 1,
        used: 2,
        left: 3,
    }]);
    match which % 5 {
        0 => Vec::new(),
        1 => vec![GlobalQuery::Decide(vec![vec![query(0)]])],
        2 => vec![decide, give_back, account],
        // Two commands.
        3 => vec![account; 65],
        _ => vec![GlobalQuery::Decide(vec![Vec::new()]), decide.clone(), decide],
    }
}

fn sane(failure: &CallError, status: u32) {
    match failure {
        CallError::Status(code, words) => {
            assert!(*code == status && status != 200);
            assert!(
                words.len() <= CallError::LONGEST
                    && words.chars().all(|letter| (' '..='~').contains(&letter))
            );
        }
        CallError::Refused(words) | CallError::Unfit(words) => {
            assert!(
                words.len() <= CallError::LONGEST && words.bytes().all(|byte| (b' '..=b'~').contains(&byte))
            );
        }
        CallError::NoScript => {}
        CallError::NotMade | CallError::TimedOut => panic!("no call has that answer"),
        CallError::Http => {}
        CallError::Garbage | CallError::Stray => assert_eq!(status, 200),
    }
}

fn check_replies(queries: &[&GlobalQuery], replies: &Replies) {
    assert_eq!(replies.len(), queries.len());
    assert!(replies.is_empty() || replies.iter().any(Result::is_ok), "a failure of the whole");
    for (query, result) in queries.iter().zip(replies) {
        let rules = match query {
            GlobalQuery::Decide(groups) => groups.iter().map(Vec::len).sum(),
            _ => 0,
        };
        match result {
            Ok(replies) => {
                assert_eq!(replies.len(), rules);
                assert!(replies.iter().all(|reply| reply.grant.amount <= 5));
                assert!(replies.iter().flat_map(numbers).all(|number| number <= LARGEST));
            }
            Err(failure) => sane(failure, 200),
        }
    }
}

/// The numbers of the script for this reply.
fn numbers(reply: &RuleReply) -> [u64; 13] {
    let us = |span: diana_base::time::Span| {
        assert!(span.as_ns().is_multiple_of(1_000));
        span.as_ns() / 1_000
    };
    // A penalty refuses by 3 and 4.
    let by_penalty = if reply.verdict.is_penalty() { 2 } else { 0 };
    let (admission, wait) = match reply.verdict.admission {
        Admission::Admit { delay } => (0, us(delay)),
        Admission::Refuse { retry_after: Some(wait) } => (1 + by_penalty, us(wait)),
        Admission::Refuse { retry_after: None } => (2 + by_penalty, 0),
    };
    let (verdict, [cost, at, booked_at, first, second], grant) = (reply.verdict, reply.charge, reply.grant);
    let (more_in, full_in, lasts) = (us(verdict.more_in), us(verdict.full_in), us(grant.lasts));
    let (remaining, amount, generation) = (verdict.remaining, grant.amount, grant.generation);
    [
        admission, wait, remaining, more_in, full_in, cost, at, booked_at, first, second, amount, generation,
        lasts,
    ]
}

/// The body for these replies: for each command a list with the command's number, and then thirteen
/// numbers for each rule, or a zero.
fn body_of(queries: &[&GlobalQuery], replies: &Replies) -> String {
    let result = |(query, result): (&&GlobalQuery, &Result<Vec<RuleReply>, CallError>)| match (query, result)
    {
        (GlobalQuery::Decide(_), Ok(replies)) => replies.iter().flat_map(numbers).collect(),
        _ => vec![0],
    };
    let lists: Vec<Vec<u64>> = queries.iter().zip(replies).map(result).collect();
    let reply = |(at, lists): (usize, &[Vec<u64>])| {
        let numbers = [NUMBER + at as u64].into_iter().chain(lists.concat());
        let numbers: Vec<String> = numbers.map(|number| format!(":{number}\r\n")).collect();
        format!("*{}\r\n{}", numbers.len(), numbers.concat())
    };
    // A call without queries has one reply, too.
    let chunks = if lists.is_empty() { vec![&lists[..]] } else { lists.chunks(64).collect() };
    chunks.into_iter().enumerate().map(reply).collect()
}
