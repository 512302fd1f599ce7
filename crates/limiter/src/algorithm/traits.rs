//! What every algorithm does, and what some do besides.

use super::{Admission, Charge, EvictionRank, Parameters, Quota, Reservation, Verdict};
use crate::adapt::Adaptive;
use diana_base::time::{Span, Time};
use diana_document::Fields;
use std::fmt;
use std::sync::Arc;

/// One algorithm with its parameters. A cell has `size()` bytes; an unused cell is all zero.
///
/// Property tests check these laws for every algorithm:
/// - A refused step leaves the cell unchanged.
/// - A step of cost 0 only reads: it changes nothing.
/// - `retry_after` is exact to the nanosecond.
/// - Any bytes are a valid cell.
/// - A clock that steps back frees at most the resolution of the algorithm's instants: a window, a
///   slice, or nothing.
/// - A clock that steps back makes no refusal last longer than without the step, plus one second:
///   the largest difference between clocks.
///
/// ```
/// use diana_base::time::{Span, Time};
/// use diana_document::{Errors, Node, parse};
/// use diana_limiter::algorithm::{Admission, KINDS, Quota};
///
/// let (keys, errors) = (parse(b"{}")?, Errors::default());
/// let mut keys = Node::root(&keys, &errors).fields().ok_or("not an object")?;
/// let quota = Quota { rpu: 1, unit: Span::from_secs(10) };
/// let token_bucket = (KINDS[0].compile)(&mut keys, quota).ok_or("a mistake in the keys")?;
///
/// let (mut cell, now) = (vec![0; token_bucket.size()], Time::from_ns(1_700_000_000_000_000_000));
/// token_bucket.prepare(&mut cell, now);
/// let first = token_bucket.step(&mut cell, now, 1);
/// assert!(first.admits());
/// let second = token_bucket.step(&mut cell, now, 1);
/// assert_eq!(second.admission, Admission::Refuse { retry_after: Some(Span::from_secs(10)) });
///
/// token_bucket.refund(&mut cell, now, first.charge);
/// assert!(token_bucket.step(&mut cell, now, 1).admits());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Algorithm: Send + Sync {
    /// The canonical text of the algorithm and its parameters, the same in every build. The text of
    /// a rule's default quota is part of the name of its cells, so configurations that differ in it
    /// count side by side.
    fn canonical_form(&self) -> String;

    /// The canonical text of what a cell holds. Algorithms of the same form count in the same cell:
    /// the cell tells what was used, whatever the quota. So a changed quota keeps what was used.
    fn form(&self) -> String {
        self.canonical_form()
    }

    /// The size of a cell in bytes.
    fn size(&self) -> usize;

    /// The quota that response headers show for `quota`: the maximum of [`Verdict::remaining`], and
    /// the time in which that much comes back. These are `q` and `w` of
    /// draft-ietf-httpapi-ratelimit-headers-10 §3.
    fn shown(&self, quota: Quota) -> Quota {
        quota
    }

    /// Makes the cell valid at `now`. A new cell is initialised. A cell from the future is clamped
    /// to the worst possible state; the clock stepped back, or the bytes are foreign. Returns
    /// whether the cell changed, because it must then be stored even if the request is refused.
    fn prepare(&self, cell: &mut [u8], now: Time) -> bool;

    /// Checks a request of `cost` units and charges the cell if the request is admitted.
    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict;

    /// Refunds a charge. Afterwards the cell admits no more than if the request had never come,
    /// whatever other charges and refunds happened in between. The cell need not be prepared.
    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge);

    /// Whether a request may have to wait.
    fn may_wait(&self) -> bool {
        false
    }

    /// The same algorithm over the same cells for a host that cannot hold requests, and whose clock
    /// counts milliseconds: it refuses requests that would have to wait beyond the present one.
    /// `None` if the algorithm already does.
    fn without_waiting(&self) -> Option<Box<dyn Algorithm>> {
        None
    }

    /// The same algorithm for requests whose cost is known at their end: settling may push the cell
    /// up to `borrow` units below empty. With a `borrow` of 0, the meaning is the same. `None` if
    /// the algorithm cannot settle.
    fn settling(&self, _borrow: u64) -> Option<Box<dyn Algorithm>> {
        None
    }

    /// The same algorithm with an adaptive limit in place of `quota.rpu`, at which the limit is now.
    /// `least` is the least that a request costs. `None` if the algorithm cannot adapt.
    fn adapting(&self, _quota: Quota, _least: u64, _adaptive: &Arc<Adaptive>) -> Option<Box<dyn Algorithm>> {
        None
    }

    /// Whether a charge ends with the request, as a permit does.
    fn ends_with_request(&self) -> bool {
        false
    }

    /// The parameters of the algorithm for a global store.
    fn parameters(&self) -> Parameters;

    /// What is lost if the cell is evicted at `now`.
    fn eviction_rank(&self, cell: &[u8], now: Time) -> EvictionRank;

    /// How workers reserve quota of a cell ahead. `None` if they may not.
    fn as_reserve(&self) -> Option<&dyn Reserve> {
        None
    }

    /// How a request is settled. `None` if the algorithm cannot settle.
    fn as_settle(&self) -> Option<&dyn Settle> {
        None
    }

    /// Records that the cell is a copy of another cell, made at `now`, because a configuration
    /// replaced another one.
    fn copied(&self, _cell: &mut [u8], _now: Time) {}

    /// When the cell was copied; zero if it was not. `None` if the algorithm does not need to know.
    fn copied_at(&self, _cell: &[u8]) -> Option<Time> {
        None
    }

    /// The adaptive limit. `None` if the quota is fixed.
    fn as_adaptive(&self) -> Option<&Arc<Adaptive>> {
        None
    }

    /// What requests without `priority: high` leave now, in units, if the quota is a share that
    /// moves with the number of gateways. `None` for any other quota.
    fn headroom_of_share(&self) -> Option<u64> {
        None
    }
}

/// An algorithm of which workers may hold [`Reservation`]s. The algorithm's bound holds however
/// workers spend and release them.
pub trait Reserve: Algorithm {
    /// The most that workers may reserve, in units of cost. The caller also limits it to
    /// [`Verdict::remaining`].
    fn reservable(&self, _cell: &[u8], _now: Time) -> u64 {
        u64::MAX
    }

    /// Reserves `amount` units if the cell has that many at once.
    fn reserve(&self, cell: &mut [u8], now: Time, amount: u64) -> Option<Reservation> {
        let verdict = self.step(cell, now, amount);
        let at_once = verdict.admission == Admission::Admit { delay: Span::ZERO };
        at_once.then_some(Reservation { charge: verdict.charge, ..Reservation::default() })
    }

    /// Whether `reservation` may pay for requests at `now`. The caller checks that
    /// the reservation is at most 100 ms old.
    fn covers(&self, _reservation: &Reservation, _now: Time) -> bool {
        true
    }

    /// Spends `cost` units of a reservation for a request, which is charged to `copy`: the worker's
    /// copy of the cell, without the reservation. `None` if the reservation does not pay for the
    /// request, if the copy does not admit the request at once, or if the copy has to be stored
    /// first. The copy may then hold anything.
    fn spend(&self, copy: &mut [u8], reservation: &mut Reservation, now: Time, cost: u64) -> Option<Verdict> {
        if self.prepare(copy, now) {
            return None;
        }
        let verdict = self.step(copy, now, cost);
        let admits_now = verdict.admission == Admission::Admit { delay: Span::ZERO };
        let is_paid = admits_now && self.covers(reservation, now) && reservation.spend(cost);
        is_paid.then_some(verdict)
    }

    /// Returns a reservation that the worker stops spending, with any unspent rest.
    fn release(&self, cell: &mut [u8], now: Time, reservation: &Reservation) {
        let cost = reservation.charge.cost.saturating_sub(reservation.spent);
        if cost > 0 {
            self.refund(cell, now, Charge { cost, ..reservation.charge });
        }
    }
}

/// An algorithm that can settle: the cost of a request is known only when the request ends.
///
/// ```
/// # use diana_base::time::{Span, Time};
/// # use diana_document::{Errors, Node, parse};
/// # use diana_limiter::algorithm::{KINDS, Quota};
/// # let (keys, errors) = (parse(b"{}")?, Errors::default());
/// # let mut keys = Node::root(&keys, &errors).fields().ok_or("not an object")?;
/// # let quota = Quota { rpu: 10, unit: Span::from_secs(10) };
/// # let token_bucket = (KINDS[0].compile)(&mut keys, quota).ok_or("a mistake in the keys")?;
/// // A token bucket of 10 units, up to 5 units below zero.
/// let bucket = token_bucket.settling(5).ok_or("cannot settle")?;
/// let settle = bucket.as_settle().ok_or("cannot settle")?;
/// # let (mut cell, now) = (vec![0; bucket.size()], Time::from_ns(1_700_000_000_000_000_000));
///
/// // A request is charged 4 units and turns out to have cost 3, another one 13.
/// let cheap = bucket.step(&mut cell, now, 4);
/// settle.settle(&mut cell, now, cheap.charge, 3);
/// let expensive = bucket.step(&mut cell, now, 4);
/// settle.settle(&mut cell, now, expensive.charge, 13);
/// // 5 units below zero, not 6: the next unit comes in 6 s.
/// assert_eq!(bucket.step(&mut cell, now, 0).more_in, Span::from_secs(6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Settle: Algorithm {
    /// Charges `cost` units regardless of what is left, but at most down to `borrow` units below
    /// empty. Returns what was charged. The cell need not be prepared.
    fn charge(&self, cell: &mut [u8], now: Time, cost: u64) -> Charge;

    /// Refunds the part of `charge` that is above `cost`.
    fn reduce(&self, cell: &mut [u8], now: Time, charge: Charge, cost: u64) {
        self.refund(cell, now, Charge { cost: charge.cost.saturating_sub(cost), ..charge });
    }

    /// Corrects `charge` to `cost` units.
    fn settle(&self, cell: &mut [u8], now: Time, charge: Charge, cost: u64) {
        match cost.checked_sub(charge.cost) {
            Some(0) => {}
            Some(more) => _ = self.charge(cell, now, more),
            None => self.reduce(cell, now, charge, cost),
        }
    }
}

impl fmt::Debug for dyn Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical_form())
    }
}

/// A kind of algorithm: its names and its constructor.
pub struct AlgorithmKind {
    /// The long name, for example `token bucket`.
    pub name: &'static str,
    /// The abbreviation, for example `TB`.
    pub short: &'static str,
    /// The configuration keys of a rule that only this kind reads.
    pub keys: &'static [&'static str],
    /// Whether the quota is per unit of time. Otherwise `rpu` is a number of requests in flight.
    pub per_unit: bool,
    /// The most requests that pass in any span of time, as the reference documentation prints it.
    pub bound: &'static str,
    /// Builds the algorithm from the kind's own keys of a rule. A mistake is reported at its place
    /// in the document and yields `None`. `rpu` is at least 1.
    pub compile: fn(&mut Fields, Quota) -> Option<Box<dyn Algorithm>>,
}
