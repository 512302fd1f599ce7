//! `C`, concurrency: limits the requests in flight. A request takes a permit on arrival and returns
//! it when its stream ends; permits that were not returned expire after `max_hold` to 9/8 of it, so
//! that a worker that died does not lock a limit for ever.
//!
//! ```text
//!   taken in    │ 2 │ 0 │ 3 │ 1 │ 0 │ 0 │ 1 │ 2 │ 1 │      eighths of max_hold, and one more
//!               └─ expire unless they were returned before
//! ```
//!
//! If a limit falls or the clock steps back, permits keep their place and age.

use super::kind::Kind;
use super::ring::Ring;
use super::{Allowance, Charge, Parameters, QuotaError, Verdict};
use diana_base::time::{Span, Time};
use std::ops::RangeInclusive;

const PARTS: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concurrency {
    /// The number of permits.
    rpu: u64,
    ring: Ring,
}

impl Concurrency {
    /// The same permits with another limit.
    pub(super) fn with(&self, rpu: u64) -> Concurrency {
        Concurrency { rpu, ..*self }
    }

    /// How long a permit counts if a rule does not say.
    pub(super) const DEFAULT_MAX_HOLD: Span = Span::from_secs(60);
    pub(super) const MAX_HOLD: RangeInclusive<Span> = Span::from_secs(1)..=Span::from_secs(86_400);

    /// See [`super::Algorithm::concurrency`].
    pub(super) fn new(permits: u64, max_hold: Span) -> Result<Concurrency, QuotaError> {
        if !(1..=Allowance::MAX_RPU).contains(&permits) {
            return Err(QuotaError::Rpu);
        }
        if !Concurrency::MAX_HOLD.contains(&max_hold) {
            return Err(QuotaError::MaxHold);
        }
        let ring = Ring { span_ns: max_hold.as_ns(), per: PARTS, len: PARTS.saturating_add(1) };
        Ok(Concurrency { rpu: permits, ring })
    }
}

impl Kind for Concurrency {
    fn canonical_form(&self) -> String {
        format!("C {} for {} ns", self.rpu, self.ring.span_ns)
    }

    fn form(&self) -> String {
        format!("C for {} ns", self.ring.span_ns)
    }

    fn shown(&self, quota: Allowance) -> Allowance {
        Allowance { rpu: self.rpu, ..quota }
    }

    fn size(&self) -> usize {
        self.ring.size()
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        self.ring.repair(cell, self.ring.moment(now))
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        self.ring.step(cell, self.ring.moment(now), self.rpu, cost)
    }

    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        self.ring.repair(cell, self.ring.moment(now));
        if let Some(charge) = self.ring.relocate(cell, charge) {
            self.ring.refund(cell, charge);
        }
    }

    fn parameters(&self) -> Parameters {
        Parameters::concurrency(self.rpu, Span::from_ns(self.ring.span_ns))
    }

    fn rests_in(&self, cell: &[u8], now: Time) -> Span {
        self.ring.rests_in(cell, self.ring.moment(now))
    }
}
