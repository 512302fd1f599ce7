//! What each kind of algorithm implements in its own file, and the simplest one: `rpu: 0`. Other
//! code calls the methods of [`Algorithm`](super::Algorithm), which have the contract.

use super::{Admission, Allowance, Charge, Parameters, Reservation, Verdict};
use diana_base::time::{Span, Time};

/// The numbers of one kind. The default methods are those of most kinds.
pub(super) trait Kind {
    fn canonical_form(&self) -> String;

    fn form(&self) -> String {
        self.canonical_form()
    }

    fn size(&self) -> usize;

    fn shown(&self, quota: Allowance) -> Allowance {
        quota
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool;

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict;

    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge);

    fn parameters(&self) -> Parameters;

    fn rests_in(&self, cell: &[u8], now: Time) -> Span;

    fn may_wait(&self) -> bool {
        false
    }

    fn can_reserve(&self) -> bool {
        false
    }

    fn reservable(&self, _cell: &[u8], _now: Time) -> u64 {
        u64::MAX
    }

    fn reserve(&self, cell: &mut [u8], now: Time, amount: u64) -> Option<Reservation> {
        let verdict = self.step(cell, now, amount);
        let at_once = verdict.admission == Admission::Admit { delay: Span::ZERO };
        at_once.then_some(Reservation { charge: verdict.charge, ..Reservation::default() })
    }

    fn covers(&self, _reservation: &Reservation, _now: Time) -> bool {
        true
    }

    fn release(&self, cell: &mut [u8], now: Time, reservation: &Reservation) {
        let cost = reservation.charge.cost.saturating_sub(reservation.spent);
        if cost > 0 {
            self.refund(cell, now, Charge { cost, ..reservation.charge });
        }
    }

    fn can_settle(&self) -> bool {
        false
    }

    fn charge(&self, _cell: &mut [u8], _now: Time, _cost: u64) -> Charge {
        Charge::default()
    }

    fn reduce(&self, cell: &mut [u8], now: Time, charge: Charge, cost: u64) {
        self.refund(cell, now, Charge { cost: charge.cost.saturating_sub(cost), ..charge });
    }
}

/// `rpu: 0`: refuses every request, whatever the algorithm.
pub(super) struct RefuseAll;

impl Kind for RefuseAll {
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

    fn rests_in(&self, _: &[u8], _: Time) -> Span {
        Span::ZERO
    }

    /// A reservation takes nothing here. Returning `false` would stop reservations for the other
    /// rules of the group.
    fn can_reserve(&self) -> bool {
        true
    }
}
