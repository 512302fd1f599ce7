//! `rpu: 0`: refuses every request, whatever the algorithm.

use super::{Admission, Algorithm, Charge, EvictionRank, Parameters, Reserve, Verdict};
use diana_base::time::{Span, Time};

/// Refuses every request.
#[derive(Clone, Copy, Debug)]
pub struct RefuseAll;

impl Algorithm for RefuseAll {
    fn canonical_form(&self) -> String {
        "refuse all".into()
    }

    fn size(&self) -> usize {
        0
    }

    fn prepare(&self, _: &mut [u8], _: Time) -> bool {
        false
    }

    fn step(&self, _: &mut [u8], now: Time, cost: u64) -> Verdict {
        let outcome = match cost {
            0 => Admission::Admit { delay: Span::ZERO },
            _ => Admission::Refuse { retry_after: None },
        };
        let charge = Charge { at: now, ..Charge::default() };
        Verdict { admission: outcome, remaining: 0, more_in: Span::ZERO, full_in: Span::ZERO, charge }
    }

    fn refund(&self, _: &mut [u8], _: Time, _: Charge) {}

    fn parameters(&self) -> Parameters {
        Parameters::default()
    }

    fn eviction_rank(&self, _: &[u8], _: Time) -> EvictionRank {
        EvictionRank::Nothing
    }

    /// A reservation takes nothing here. Returning `false` would stop reservations for the other
    /// rules of the group.
    fn as_reserve(&self) -> Option<&dyn Reserve> {
        Some(self)
    }
}

impl Reserve for RefuseAll {}
