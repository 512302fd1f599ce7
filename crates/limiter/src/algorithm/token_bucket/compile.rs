//! Builds a token bucket from the keys of a rule.

use super::{Start, TokenBucket};
use crate::algorithm::values::COLD_FACTOR;
use crate::algorithm::warm_up::WarmUp;
use crate::algorithm::{Algorithm, MAX_WAIT, Quota};
use diana_base::time::Span;
use diana_document::Fields;

/// A longer fill time is surely a mistake, and would overflow the arithmetic.
const LONGEST_FILL_YEARS: u128 = 100;
const YEAR_NS: u64 = 365 * 86_400 * 1_000_000_000;

impl TokenBucket {
    /// The bucket of a rule; with `warm_up` another algorithm around the same rate.
    pub(super) fn compile(fields: &mut Fields, quota: Quota) -> Option<Box<dyn Algorithm>> {
        let warm_up = fields.take("warm_up");
        let (given, least) = (fields.take("burst"), if warm_up.is_some() { COLD_FACTOR } else { 1 });
        let burst = match given {
            Some(node) => node.size(1..=Quota::MAX_RPU),
            None => Some(quota.rpu.max(least)),
        };
        let start = match fields.take("start") {
            Some(node) => node.choice("start", &[("full", Start::Full), ("empty", Start::Empty)]),
            None => Some(Start::Full),
        };
        let max_wait = match fields.take("max_wait") {
            Some(node) => node.span(Span::ZERO..=MAX_WAIT),
            None => Some(Span::ZERO),
        };
        let (burst, start, max_wait) = (burst?, start?, max_wait?);
        let a_year = u128::from(quota.rpu.max(1)).saturating_mul(YEAR_NS.into());
        let years = u128::from(burst).saturating_mul(quota.unit.as_ns().into()).div_ceil(a_year);
        if years > LONGEST_FILL_YEARS {
            let why = format!(
                "at {} per {} a `burst` of {burst} takes longer to fill than the {LONGEST_FILL_YEARS} years that are allowed",
                quota.rpu, quota.unit
            );
            // Any of the three keys may come from the rule that an override changes, so the error
            // points at both together.
            fields.fail(why);
            return None;
        }
        match warm_up {
            Some(node) => WarmUp::compile(node, quota, burst, start == Start::Empty, max_wait),
            None => Some(Box::new(TokenBucket::new(quota, burst, start, max_wait))),
        }
    }
}
