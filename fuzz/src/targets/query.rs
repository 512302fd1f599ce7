//! Queries to a global store.

use diana_limiter::algorithm::{Parameters, PenaltyParameters};
use diana_limiter::global::RuleQuery;
use diana_limiter::policy::RuleId;

const PENALTY: PenaltyParameters = PenaltyParameters { after: 5, unit_us: 1_000_000, lasts_us: 600_000_000 };

/// The query of this number; odd numbers are rules in shadow. Every third rule has a penalty. The
/// request leaves as many units as the number.
pub fn query(number: usize) -> RuleQuery {
    RuleQuery {
        rule: RuleId::new(number),
        key: [number as u8; 16],
        parameters: Parameters { kind: 2, numbers: [10, 1_000_000, 0, 0, 0, 0] },
        enforced: number.is_multiple_of(2),
        cost: 1,
        peeks: false,
        least_rest: number as u64 % 5,
        lease: 5,
        penalty: number.is_multiple_of(3).then_some(PENALTY),
        headroom: number as u64,
        takes_grants: false,
    }
}
