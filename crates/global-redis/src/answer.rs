//! Decodes the script's reply: one flat list of whole numbers for all queries of a command. The
//! list begins with the number of the command; a reply without that number answers another call.
//!
//! ```text
//!   number of the command
//!   decide, of each rule    outcome wait remaining more-in full-in  cost at booked-at stamp stamp
//!                           leased generation lasts
//!   inspect   the same of both queries, then the rest of the penalty, the units of a grant and
//!             its rest
//!   refund, return, report, settle  0
//! ```

use super::command::MAX_NUMBER;
use diana_base::time::Span;
use diana_limiter::algorithm::{Admission, Charge, PenaltyParameters, Verdict};
use diana_limiter::global::{CallError, Replies};
use diana_limiter::global::{GlobalQuery, LeaseGrant, RuleQuery, RuleReply};
use std::slice::Iter;

/// Appends the reply to each query of the call with this number. After an error, some replies may
/// have been appended.
pub fn decode(
    queries: &[&GlobalQuery],
    number: u64,
    numbers: &[u64],
    to: &mut Replies,
) -> Result<(), CallError> {
    let mut numbers = numbers.iter();
    match next(&mut numbers) {
        Some(own) if own == number => all(queries, &mut numbers, to).ok_or(CallError::Garbage),
        _ => Err(CallError::Stray),
    }
}

fn all(queries: &[&GlobalQuery], numbers: &mut Iter<u64>, to: &mut Replies) -> Option<()> {
    for query in queries {
        let mut replies = Vec::new();
        match query {
            GlobalQuery::Decide(groups) => {
                for rule_query in groups.iter().flatten() {
                    replies.push(rule_reply(rule_query, numbers)?);
                }
            }
            GlobalQuery::Inspect(inspection) => {
                for rule_query in &inspection.queries {
                    replies.push(rule_reply(rule_query, numbers)?);
                }
                let (penalty_us, granted, granted_us) = (next(numbers)?, next(numbers)?, next(numbers)?);
                if penalty_us.max(granted_us) > PenaltyParameters::longest_us() {
                    return None;
                }
                replies.first_mut()?.charge = [penalty_us, granted, granted_us, 0, 0];
            }
            _ if next(numbers)? == 0 => {}
            _ => return None,
        }
        to.push(Ok(replies));
    }
    numbers.as_slice().is_empty().then_some(())
}

fn rule_reply(rule_query: &RuleQuery, numbers: &mut Iter<u64>) -> Option<RuleReply> {
    let mut read = [0; 13];
    for number in &mut read {
        *number = next(numbers)?;
    }
    let [
        admission,
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
    // A hostile global store could hold a request longer than its rule allows, so longer spans are
    // an error.
    let (longest_wait, longest) = rule_query.parameters.longest_us();
    let longest = rule_query.penalty.map_or(longest, |_| PenaltyParameters::longest_us().max(longest));
    let max_wait = if admission == 0 { longest_wait } else { longest };
    if wait > max_wait || more_in.max(full_in) > longest {
        return None;
    }
    let (admission, by_penalty) = match (admission, rule_query.penalty) {
        (0, _) => (Admission::Admit { delay: us(wait) }, false),
        (1, _) => (Admission::Refuse { retry_after: Some(us(wait)) }, false),
        (2, _) => (Admission::Refuse { retry_after: None }, false),
        (3, Some(_)) => (Admission::Refuse { retry_after: Some(us(wait)) }, true),
        (4, Some(_)) => (Admission::Refuse { retry_after: None }, true),
        _ => return None,
    };
    let charge = Charge::default();
    let verdict = Verdict { admission, remaining, more_in: us(more_in), full_in: us(full_in), charge };
    let reply = RuleReply {
        verdict: verdict.with_penalty(by_penalty),
        charge: [cost, at, booked_at, first, second],
        grant: LeaseGrant { amount, generation, lasts: us(lasts) },
    };
    // A grant may not exceed the queried lease, or last longer than its generation.
    let is_lease = amount == 0 || lasts <= rule_query.parameters.longest_lease_us();
    (amount <= rule_query.lease && is_lease).then_some(reply)
}

fn next(numbers: &mut Iter<u64>) -> Option<u64> {
    numbers.next().copied().filter(|number| *number <= MAX_NUMBER)
}

/// Numbers are at most 2⁵³, so the product is below 2⁶³ ns.
fn us(number: u64) -> Span {
    Span::from_ns(number.saturating_mul(1_000))
}
