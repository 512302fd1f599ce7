//! What the script answers: for all questions of a call one flat list of whole numbers, since webdis 0.1.9 prints a list
//! within a list as `null`. The list begins with the number that the call carried; a reply without that number answers
//! another call.
//!
//! It does not know: how the list came here, or what a receipt's numbers mean.
//!
//! ```text
//!   number of the call
//!   decide, of each rule    outcome wait remaining more-in full-in  cost at booked-at stamp stamp  lent generation lasts
//!   give back, account, report      0
//! ```

use super::command::MOST;
use super::{CallError, Replies};
use crate::algorithm::{Admission, Charge, Verdict};
use crate::document::Value;
use crate::policy::{GlobalQuery, LeaseGrant, RuleQuery, RuleReply};
use crate::time::Span;
use std::slice::Iter;

/// Appends what each question was told by the reply to the call of this number. After a failure some may have been
/// appended.
pub fn told(
    questions: &[&GlobalQuery],
    number: u64,
    reply: &Value,
    to: &mut Replies,
) -> Result<(), CallError> {
    let Value::List(numbers) = reply else { return Err(CallError::Stray) };
    let mut numbers = numbers.iter();
    match next(&mut numbers) {
        Some(own) if own == number => all(questions, &mut numbers, to).ok_or(CallError::Garbage),
        _ => Err(CallError::Stray),
    }
}

fn all(questions: &[&GlobalQuery], numbers: &mut Iter<Value>, to: &mut Replies) -> Option<()> {
    for question in questions {
        let mut told = Vec::new();
        match question {
            GlobalQuery::Decide(groups) => {
                for asked in groups.iter().flatten() {
                    told.push(told_of(asked, numbers)?);
                }
            }
            _ if next(numbers)? == 0 => {}
            _ => return None,
        }
        to.push(Ok(told));
    }
    numbers.as_slice().is_empty().then_some(())
}

fn told_of(asked: &RuleQuery, numbers: &mut Iter<Value>) -> Option<RuleReply> {
    let mut read = [0; 13];
    for number in &mut read {
        *number = next(numbers)?;
    }
    let [
        outcome,
        wait,
        remaining,
        more_in,
        full_in,
        cost,
        at,
        booked_at,
        first,
        second,
        amount,
        generation,
        lasts,
    ] = read;
    // A store that makes a request wait longer than its rule may holds the request; no rule tells such spans.
    let (longest_wait, longest) = asked.parameters.longest_us();
    let most_wait = if outcome == 0 { longest_wait } else { longest };
    if wait > most_wait || more_in.max(full_in) > longest {
        return None;
    }
    let outcome = match outcome {
        0 => Admission::Admit { delay: us(wait) },
        1 => Admission::Refuse { retry_after: Some(us(wait)) },
        2 => Admission::Refuse { retry_after: None },
        _ => return None,
    };
    let charge = Charge::default();
    let told = RuleReply {
        verdict: Verdict {
            admission: outcome,
            remaining,
            more_in: us(more_in),
            full_in: us(full_in),
            charge,
        },
        charge: [cost, at, booked_at, first, second],
        grant: LeaseGrant { amount, generation, lasts: us(lasts) },
        attributed: true,
    };
    // Nobody is lent what was not asked for, or for longer than a generation lasts.
    (amount <= asked.lease && (amount == 0 || lasts <= longest.max(MOST_LASTS))).then_some(told)
}

/// The longest that a bucket lends for, µs.
const MOST_LASTS: u64 = 2_000_000;

fn next(numbers: &mut Iter<Value>) -> Option<u64> {
    match numbers.next()? {
        Value::Whole(number) if *number <= MOST => Some(*number),
        _ => None,
    }
}

/// Up to 2⁵³ of them are less than 2⁶³ ns.
fn us(number: u64) -> Span {
    Span::from_ns(number.saturating_mul(1_000))
}
