//! Queries to a global store.

use diana_base::time::Span;
use diana_limiter::algorithm::{Parameters, Quota};
use diana_limiter::global::RuleQuery;
use diana_limiter::policy::RuleId;

/// The query of this number; odd numbers are rules in shadow.
pub fn query(number: usize) -> RuleQuery {
    RuleQuery {
        rule: RuleId::new(number),
        key: [number as u8; 16],
        quota: Quota { rpu: 10, unit: Span::from_secs(1) },
        parameters: Parameters { kind: 2, numbers: [10, 1_000_000, 0, 0, 0, 0] },
        enforced: number.is_multiple_of(2),
        cost: 1,
        peeks: false,
        lease: 5,
    }
}
