//! Encodes a query as an argument of the script: whole numbers separated by single spaces. The
//! first number is the command.
//!
//! ```text
//!   decide   1 groups  (rules  (kind flags cost lease a b c d e f  [after unit for]  [headroom])…)…
//!   refund   2 rules  (kind a b c d e f  cost at booked-at stamp stamp)…
//!   return   3 rules  (kind a b c d e f  generation used left)…
//!   report   4 rules  (kind a b c d e f)…
//!   inspect  6 change amount lasts  decide's groups
//!   settle   5 rules  (kind a b c d e f  cost at booked-at stamp stamp  final-cost)…
//! ```

use diana_base::format::number;
use diana_limiter::algorithm::{Parameters, PenaltyParameters};
use diana_limiter::global::{GlobalQuery, RuleQuery, Settlement, StoreChange};
use diana_limiter::policy::CountKey;

/// The largest number of the script, which counts in doubles.
pub const MAX_NUMBER: u64 = (1 << 53) - 1;

/// Calls `each` with the key of every rule, in the order in which [`write()`] writes the rules.
pub fn keys(query: &GlobalQuery, each: &mut dyn FnMut(&CountKey)) {
    match query {
        GlobalQuery::Decide(groups) => groups.iter().flatten().for_each(|rule_query| each(&rule_query.key)),
        GlobalQuery::Inspect(inspection) => inspection.queries.iter().for_each(|query| each(&query.key)),
        GlobalQuery::Refund(charges) => charges.iter().for_each(|charge| each(&charge.key)),
        GlobalQuery::Settle(settled) => settled.iter().for_each(|settled| each(&settled.charge.key)),
        GlobalQuery::ReturnLease(leases) => leases.iter().for_each(|lease| each(&lease.key)),
        GlobalQuery::ReportPermits(reports) => reports.iter().for_each(|report| each(&report.key)),
    }
}

/// Appends the command to an empty text. Numbers above [`MAX_NUMBER`] are written as
/// [`MAX_NUMBER`].
pub fn write(to: &mut String, query: &GlobalQuery) {
    match query {
        GlobalQuery::Decide(groups) => {
            put(to, &[1, groups.len() as u64]);
            for group in groups {
                put(to, &[group.len() as u64]);
                group.iter().for_each(|query| rule_query(to, query));
            }
        }
        GlobalQuery::Inspect(inspection) => {
            let change = match inspection.change {
                StoreChange::Nothing => [0, 0, 0],
                StoreChange::Reset => [1, 0, 0],
                StoreChange::EndPenalty => [2, 0, 0],
                StoreChange::Grant { amount, lasts } => [3, amount, lasts.as_ns() / 1_000],
            };
            put(to, &[6]);
            put(to, &change);
            put(to, &[inspection.queries.len() as u64]);
            for query in &inspection.queries {
                put(to, &[1]);
                rule_query(to, query);
            }
        }
        GlobalQuery::Refund(charges) => {
            put(to, &[2, charges.len() as u64]);
            for charge in charges {
                parameters(to, &charge.parameters);
                put(to, &charge.numbers);
            }
        }
        GlobalQuery::Settle(settled) => {
            put(to, &[5, settled.len() as u64]);
            for Settlement { charge, cost } in settled {
                parameters(to, &charge.parameters);
                put(to, &charge.numbers);
                put(to, &[*cost]);
            }
        }
        GlobalQuery::ReturnLease(leases) => {
            put(to, &[3, leases.len() as u64]);
            for lease in leases {
                parameters(to, &lease.parameters);
                put(to, &[lease.generation, lease.used, lease.left]);
            }
        }
        GlobalQuery::ReportPermits(reports) => {
            put(to, &[4, reports.len() as u64]);
            reports.iter().for_each(|report| parameters(to, &report.parameters));
        }
    }
}

fn rule_query(to: &mut String, rule_query: &RuleQuery) {
    let RuleQuery { parameters, enforced, cost, peeks, lease, penalty, headroom, takes_grants, .. } =
        rule_query;
    // 1: the rule refuses. 2: a cost of 0 needs one unit. 4: a penalty. 8: the request leaves
    // units. 16: a grant may pay.
    let flags = u64::from(*enforced)
        | u64::from(*peeks) << 1
        | u64::from(penalty.is_some()) << 2
        | u64::from(*headroom > 0) << 3
        | u64::from(*takes_grants) << 4;
    put(to, &[parameters.kind.into(), flags, *cost, *lease]);
    put(to, &parameters.numbers);
    if let Some(PenaltyParameters { after, unit_us, lasts_us }) = *penalty {
        put(to, &[after, unit_us, lasts_us]);
    }
    if *headroom > 0 {
        put(to, &[*headroom]);
    }
}

fn parameters(to: &mut String, parameters: &Parameters) {
    put(to, &[parameters.kind.into()]);
    put(to, &parameters.numbers);
}

fn put(to: &mut String, numbers: &[u64]) {
    for each in numbers {
        if !to.is_empty() {
            to.push(' ');
        }
        number(to, (*each).min(MAX_NUMBER));
    }
}
