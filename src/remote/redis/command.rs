//! A question as the script reads it: whole numbers with single spaces between them, the first of which says what to do.
//!
//! It does not know: how it gets to the script, or what the numbers of a kind mean.
//!
//! ```text
//!   decide      1 groups  (rules  (kind enforced cost ahead a b c d e f)…)…
//!   give back   2 rules  (kind a b c d e f  cost at booked-at stamp stamp)…
//!   account     3 rules  (kind a b c d e f  generation used left)…
//!   report      4 rules  (kind a b c d e f)…
//! ```

use crate::algorithm::Parameters;
use crate::format::number;
use crate::policy::{CountKey, GlobalQuery};

/// The script counts in doubles, which are exact up to here.
pub const MOST: u64 = (1 << 53) - 1;

/// Hands out the key of every rule, in the order in which [`write()`] writes the rules.
pub fn keys(question: &GlobalQuery, each: &mut dyn FnMut(&CountKey)) {
    match question {
        GlobalQuery::Decide(groups) => groups.iter().flatten().for_each(|asked| each(&asked.key)),
        GlobalQuery::Refund(receipts) => receipts.iter().for_each(|receipt| each(&receipt.key)),
        GlobalQuery::ReturnLease(accounts) => accounts.iter().for_each(|account| each(&account.key)),
        GlobalQuery::ReportPermits(reports) => reports.iter().for_each(|report| each(&report.key)),
    }
}

/// Appends the command to an empty text. Numbers beyond [`MOST`] are taken for it.
pub fn write(to: &mut String, question: &GlobalQuery) {
    match question {
        GlobalQuery::Decide(groups) => {
            put(to, &[1, groups.len() as u64]);
            for group in groups {
                put(to, &[group.len() as u64]);
                for asked in group {
                    put(to, &[asked.parameters.kind.into(), asked.enforced.into(), asked.cost, asked.lease]);
                    put(to, &asked.parameters.numbers);
                }
            }
        }
        GlobalQuery::Refund(receipts) => {
            put(to, &[2, receipts.len() as u64]);
            for receipt in receipts {
                terms(to, &receipt.parameters);
                put(to, &receipt.numbers);
            }
        }
        GlobalQuery::ReturnLease(accounts) => {
            put(to, &[3, accounts.len() as u64]);
            for account in accounts {
                terms(to, &account.parameters);
                put(to, &[account.generation, account.used, account.left]);
            }
        }
        GlobalQuery::ReportPermits(reports) => {
            put(to, &[4, reports.len() as u64]);
            reports.iter().for_each(|report| terms(to, &report.parameters));
        }
    }
}

fn terms(to: &mut String, terms: &Parameters) {
    put(to, &[terms.kind.into()]);
    put(to, &terms.numbers);
}

fn put(to: &mut String, numbers: &[u64]) {
    for each in numbers {
        if !to.is_empty() {
            to.push(' ');
        }
        number(to, (*each).min(MOST));
    }
}
