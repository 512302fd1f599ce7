//! What an HTTP front of Redis replies.
//!
//! It does not know: what a real one would.
//!
//! ```text
//!   0 1 0 {"EVALSHA":[0,0,9,…]}     a digit each for the dialect, the questions and the status, without spaces; the body
//! ```

use super::asked::asked;
use super::input::Input;
use diana::algorithm::Outcome;
use diana::policy::{Account, Question, Receipt, Told};
use diana::remote::Failure;
use diana::remote::redis::{Answers, Dialect, Redis};

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
    let questions: Vec<&Question> = questions.iter().collect();
    let (status, body) = (STATUSES[input.below(STATUSES.len())], input.0);
    let redis = Redis::new(dialect, "diana".into(), Vec::new());
    if !body.is_empty() && body.len().is_multiple_of(LONG_ONE_IN) {
        let _ = redis.answer(&questions, NUMBER, status, &body.repeat(LONGEST / body.len()));
    }

    let answer = redis.answer(&questions, NUMBER, status, body);
    let spaced = [b" \n", body, b"\t "].concat();
    assert_eq!(redis.answer(&questions, NUMBER, status, &spaced), answer, "space around it");
    match &answer {
        Err(failure) => sane(failure, status),
        Ok(answers) => {
            assert_eq!(status, 200);
            told(&questions, answers);
            if answers.iter().all(Result::is_ok) {
                let said = said(dialect, &questions, answers);
                assert_eq!(redis.answer(&questions, NUMBER, 200, said.as_bytes()), answer, "{said}");
            }
        }
    }
}

fn questions(which: u8) -> Vec<Question> {
    let terms = asked(0).terms;
    let decide = Question::Decide(vec![vec![asked(0), asked(1)], vec![asked(2)]]);
    let give_back = Question::GiveBack(vec![Receipt { key: [3; 16], terms, numbers: [1, 2, 3, 4, 5] }]);
    let account = Question::Account(vec![Account { key: [4; 16], terms, generation: 1, used: 2, left: 3 }]);
    match which % 5 {
        0 => Vec::new(),
        1 => vec![Question::Decide(vec![vec![asked(0)]])],
        2 => vec![decide, give_back, account],
        // Two commands, of Upstash.
        3 => vec![account; 65],
        _ => vec![Question::Decide(vec![Vec::new()]), decide.clone(), decide],
    }
}

fn sane(failure: &Failure, status: u32) {
    match failure {
        Failure::Status(told) => assert!(*told == status && status != 200),
        Failure::Refused(words) => {
            assert!(
                words.len() <= Failure::LONGEST && words.bytes().all(|byte| (b' '..=b'~').contains(&byte))
            );
        }
        Failure::NoScript => {}
        Failure::NotMade => panic!("no call has that answer"),
        Failure::Garbage | Failure::Stray => assert_eq!(status, 200),
    }
}

fn told(questions: &[&Question], answers: &Answers) {
    assert_eq!(answers.len(), questions.len());
    assert!(answers.is_empty() || answers.iter().any(Result::is_ok), "a failure of the whole");
    for (question, answer) in questions.iter().zip(answers) {
        let rules = match question {
            Question::Decide(groups) => groups.iter().map(Vec::len).sum(),
            _ => 0,
        };
        match answer {
            Ok(told) => {
                assert_eq!(told.len(), rules);
                assert!(told.iter().all(|told| told.lent.amount <= 5));
                assert!(told.iter().flat_map(numbers).all(|number| number <= LARGEST));
            }
            Err(failure) => sane(failure, 200),
        }
    }
}

/// What the script says to tell this.
fn numbers(told: &Told) -> [u64; 13] {
    let us = |span: diana::time::Span| {
        assert!(span.as_ns().is_multiple_of(1_000));
        span.as_ns() / 1_000
    };
    let (outcome, wait) = match told.verdict.outcome {
        Outcome::Admit { delay } => (0, us(delay)),
        Outcome::Refuse { retry_after: Some(wait) } => (1, us(wait)),
        Outcome::Refuse { retry_after: None } => (2, 0),
    };
    let (verdict, [cost, at, booked_at, first, second], lent) = (told.verdict, told.receipt, told.lent);
    let (more_in, full_in, lasts) = (us(verdict.more_in), us(verdict.full_in), us(lent.lasts));
    let (remaining, amount, generation) = (verdict.remaining, lent.amount, lent.generation);
    [
        outcome, wait, remaining, more_in, full_in, cost, at, booked_at, first, second, amount, generation,
        lasts,
    ]
}

/// What a front says to tell this: a list for each command, in it the command's number, then thirteen numbers for each rule, or a zero.
fn said(dialect: Dialect, questions: &[&Question], answers: &Answers) -> String {
    let answer = |(question, answer): (&&Question, &Result<Vec<Told>, Failure>)| match (question, answer) {
        (Question::Decide(_), Ok(told)) => told.iter().flat_map(numbers).collect(),
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
