//! What an HTTP front of Redis replies.
//!
//! It does not know: what a real one would.
//!
//! ```text
//!   0 1 0 {"EVALSHA":[0,0,9,…]}     a digit each for the dialect, the questions and the status, without spaces; the body
//! ```

use super::input::Input;
use super::query::query;
use diana::algorithm::Admission;
use diana::policy::{GlobalCharge, GlobalQuery, LeaseUsage, RuleReply};
use diana::remote::CallError;
use diana::remote::redis::{Dialect, Redis, Replies};

const STATUSES: [u32; 4] = [200, 400, 503, 0];

/// The number of the call. The first command carries it, each other one the next.
const NUMBER: u64 = 4;

/// The script counts in doubles.
const LARGEST: u64 = (1 << 53) - 1;

/// As long as what is read at most, so that a square of it takes a minute.
const LONGEST: usize = 1 << 20;
/// Of so many lengths inputs have, one is read at that length as well.
const LONG_ONE_IN: usize = 128;

/// Any bytes are an answer to each question or a failure, and what was told says again what was said.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let dialect = if input.flag() { Dialect::Upstash } else { Dialect::Webdis };
    let questions = questions(input.byte().wrapping_sub(b'0'));
    let questions: Vec<&GlobalQuery> = questions.iter().collect();
    let (status, body) = (STATUSES[input.below(STATUSES.len())], input.0);
    let redis = Redis::new(dialect, "diana".into(), Vec::new());
    if !body.is_empty() && body.len().is_multiple_of(LONG_ONE_IN) {
        let _ = redis.read_reply(&questions, NUMBER, status, &body.repeat(LONGEST / body.len()));
    }

    let answer = redis.read_reply(&questions, NUMBER, status, body);
    let spaced = [b" \n", body, b"\t "].concat();
    assert_eq!(redis.read_reply(&questions, NUMBER, status, &spaced), answer, "space around it");
    match &answer {
        Err(failure) => sane(failure, status),
        Ok(answers) => {
            assert_eq!(status, 200);
            told(&questions, answers);
            if answers.iter().all(Result::is_ok) {
                let said = said(dialect, &questions, answers);
                assert_eq!(redis.read_reply(&questions, NUMBER, 200, said.as_bytes()), answer, "{said}");
            }
        }
    }
}

fn questions(which: u8) -> Vec<GlobalQuery> {
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
        // Two commands, of Upstash.
        3 => vec![account; 65],
        _ => vec![GlobalQuery::Decide(vec![Vec::new()]), decide.clone(), decide],
    }
}

fn sane(failure: &CallError, status: u32) {
    match failure {
        CallError::Status(told) => assert!(*told == status && status != 200),
        CallError::Refused(words) => {
            assert!(
                words.len() <= CallError::LONGEST && words.bytes().all(|byte| (b' '..=b'~').contains(&byte))
            );
        }
        CallError::NoScript => {}
        CallError::NotMade => panic!("no call has that answer"),
        CallError::Garbage | CallError::Stray => assert_eq!(status, 200),
    }
}

fn told(questions: &[&GlobalQuery], answers: &Replies) {
    assert_eq!(answers.len(), questions.len());
    assert!(answers.is_empty() || answers.iter().any(Result::is_ok), "a failure of the whole");
    for (question, answer) in questions.iter().zip(answers) {
        let rules = match question {
            GlobalQuery::Decide(groups) => groups.iter().map(Vec::len).sum(),
            _ => 0,
        };
        match answer {
            Ok(told) => {
                assert_eq!(told.len(), rules);
                assert!(told.iter().all(|told| told.grant.amount <= 5));
                assert!(told.iter().flat_map(numbers).all(|number| number <= LARGEST));
            }
            Err(failure) => sane(failure, 200),
        }
    }
}

/// What the script says to tell this.
fn numbers(told: &RuleReply) -> [u64; 13] {
    let us = |span: diana::time::Span| {
        assert!(span.as_ns().is_multiple_of(1_000));
        span.as_ns() / 1_000
    };
    let (admission, wait) = match told.verdict.admission {
        Admission::Admit { delay } => (0, us(delay)),
        Admission::Refuse { retry_after: Some(wait) } => (1, us(wait)),
        Admission::Refuse { retry_after: None } => (2, 0),
    };
    let (verdict, [cost, at, booked_at, first, second], grant) = (told.verdict, told.charge, told.grant);
    let (more_in, full_in, lasts) = (us(verdict.more_in), us(verdict.full_in), us(grant.lasts));
    let (remaining, amount, generation) = (verdict.remaining, grant.amount, grant.generation);
    [
        admission, wait, remaining, more_in, full_in, cost, at, booked_at, first, second, amount, generation,
        lasts,
    ]
}

/// What a front says to tell this: a list for each command, in it the command's number, then thirteen numbers for each rule, or a zero.
fn said(dialect: Dialect, questions: &[&GlobalQuery], answers: &Replies) -> String {
    let answer =
        |(question, answer): (&&GlobalQuery, &Result<Vec<RuleReply>, CallError>)| match (question, answer) {
            (GlobalQuery::Decide(_), Ok(told)) => told.iter().flat_map(numbers).collect(),
            _ => vec![0],
        };
    let said: Vec<Vec<u64>> = questions.iter().zip(answers).map(answer).collect();
    let list = |at: usize, said: &[Vec<u64>]| {
        let numbers = [NUMBER + at as u64].into_iter().chain(said.concat());
        let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
        numbers.join(",")
    };
    match dialect {
        Dialect::Webdis => format!(r#"{{"EVAL":[{}]}}"#, list(0, &said)),
        Dialect::Upstash if said.len() <= 64 => format!(r#"{{"result":[{}]}}"#, list(0, &said)),
        Dialect::Upstash => {
            let reply = |(at, said)| format!(r#"{{"result":[{}]}}"#, list(at, said));
            format!("[{}]", said.chunks(64).enumerate().map(reply).collect::<Vec<_>>().join(","))
        }
    }
}
