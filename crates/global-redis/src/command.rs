//! Encodes a query as an argument of the script: whole numbers separated by single spaces. The
//! first number is the command.
//!
//! ```text
//!   decide   1 groups  (rules  (kind flags cost lease a b c d e f  [after unit for]  [headroom]
//!                               [rest])…)…
//!   refund   2 rules  (kind a b c d e f  cost at booked-at stamp stamp)…
//!   return   3 rules  (kind a b c d e f  generation used left)…
//!   report   4 rules  (kind a b c d e f)…
//!   inspect  6 change amount lasts  decide's groups
//!   settle   5 rules  (kind a b c d e f  cost at booked-at stamp stamp  final-cost)…
//! ```

use diana_base::format::number;
use diana_limiter::algorithm::{Parameters, PenaltyParameters};
use diana_limiter::global::{GlobalCharge, GlobalQuery, RuleQuery, Settlement, StoreChange};
use diana_limiter::policy::CountKey;

/// The largest number of the script, which counts in doubles.
pub const MAX_NUMBER: u64 = (1 << 53) - 1;

/// The commands by their names in `script.lua`.
const DECIDE: u64 = 1;
const REFUND: u64 = 2;
const RETURN: u64 = 3;
const REPORT: u64 = 4;
const SETTLE: u64 = 5;
const INSPECT: u64 = 6;

/// The flags of a rule.
const ENFORCED: u64 = 1;
const PEEKS: u64 = 2;
const PENALTY: u64 = 4;
const HEADROOM: u64 = 8;
const GRANTS: u64 = 16;
const RESTS: u64 = 32;

/// Calls `each` with the key of every rule, in the order in which [`write()`] writes the rules, and
/// whether the script also touches the key of a grant.
pub fn keys(query: &GlobalQuery, each: &mut dyn FnMut(&CountKey, bool)) {
    let of_query = |query: &RuleQuery| each(&query.key, query.takes_grants);
    match query {
        GlobalQuery::Decide(groups) => groups.iter().flatten().for_each(of_query),
        GlobalQuery::Inspect(inspection) => inspection.queries.iter().for_each(of_query),
        GlobalQuery::Refund(charges) => charges.iter().for_each(|charge| each(&charge.key, by_grant(charge))),
        GlobalQuery::Settle(settled) => {
            settled.iter().for_each(|Settlement { charge, .. }| each(&charge.key, by_grant(charge)));
        }
        GlobalQuery::ReturnLease(leases) => leases.iter().for_each(|lease| each(&lease.key, false)),
        GlobalQuery::ReportPermits(reports) => reports.iter().for_each(|report| each(&report.key, false)),
    }
}

/// Whether a grant has paid the charge, which is then booked at an instant of no algorithm.
fn by_grant(charge: &GlobalCharge) -> bool {
    let [_, _, booked_at, ..] = charge.numbers;
    booked_at >= MAX_NUMBER
}

/// Appends the command to an empty text. Numbers above [`MAX_NUMBER`] are written as
/// [`MAX_NUMBER`].
pub fn write(to: &mut String, query: &GlobalQuery) {
    match query {
        GlobalQuery::Decide(groups) => {
            put(to, &[DECIDE, groups.len() as u64]);
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
            put(to, &[INSPECT]);
            put(to, &change);
            put(to, &[inspection.queries.len() as u64]);
            for query in &inspection.queries {
                put(to, &[1]);
                rule_query(to, query);
            }
        }
        GlobalQuery::Refund(charges) => {
            put(to, &[REFUND, charges.len() as u64]);
            for charge in charges {
                parameters(to, &charge.parameters);
                put(to, &charge.numbers);
            }
        }
        GlobalQuery::Settle(settled) => {
            put(to, &[SETTLE, settled.len() as u64]);
            for Settlement { charge, cost } in settled {
                parameters(to, &charge.parameters);
                put(to, &charge.numbers);
                put(to, &[*cost]);
            }
        }
        GlobalQuery::ReturnLease(leases) => {
            put(to, &[RETURN, leases.len() as u64]);
            for lease in leases {
                parameters(to, &lease.parameters);
                put(to, &[lease.generation, lease.used, lease.left]);
            }
        }
        GlobalQuery::ReportPermits(reports) => {
            put(to, &[REPORT, reports.len() as u64]);
            reports.iter().for_each(|report| parameters(to, &report.parameters));
        }
    }
}

fn rule_query(to: &mut String, rule_query: &RuleQuery) {
    let RuleQuery {
        parameters,
        enforced,
        cost,
        peeks,
        lease,
        penalty,
        headroom,
        least_rest,
        takes_grants,
        ..
    } = rule_query;
    let flags = [
        (*enforced, ENFORCED),
        (*peeks, PEEKS),
        (penalty.is_some(), PENALTY),
        (*headroom > 0, HEADROOM),
        (*takes_grants, GRANTS),
        (*least_rest > 0, RESTS),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, flag)| flags | flag);
    put(to, &[parameters.kind.into(), flags, *cost, *lease]);
    put(to, &parameters.numbers);
    if let Some(PenaltyParameters { after, unit_us, lasts_us }) = *penalty {
        put(to, &[after, unit_us, lasts_us]);
    }
    if *headroom > 0 {
        put(to, &[*headroom]);
    }
    if *least_rest > 0 {
        put(to, &[*least_rest]);
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
