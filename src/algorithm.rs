//! The algorithms of rules, one file each. An algorithm maps a cell, an instant and a cost to a
//! verdict and a new cell. It is pure: the caller passes the time and stores the cell.
//!
//! ```text
//!   cell ─► prepare(now) ─► step(now, cost) ─► Verdict ──► admitted: store the changed cell
//!                                                     └──► refused: the cell is unchanged
//!   later:  cell ─► refund(now, charge) ─► as if the request had never come
//! ```
//!
//! To add an algorithm, add a file in `algorithm/` with a `KIND`, its `mod` line and its line in
//! [`KINDS`]. The property tests and the error messages of the configuration walk that list.

mod bits;
mod bytes;
mod concurrency;
mod leaky_bucket;
pub mod lease;
mod parameters;
mod rate;
mod refuse_all;
mod ring;
mod sliding_log;
mod sliding_window;
mod token_bucket;
mod window;

pub use parameters::Parameters;
pub use refuse_all::RefuseAll;

use crate::document::Fields;
use crate::table::EvictionRank;
use crate::time::{Span, Time};
use std::fmt;

/// An amount of cost per unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Requests per unit, or units of cost if requests cost more than one unit: 0 to 10⁹.
    pub rpu: u64,
    /// The unit of time, from 1 ms to 7 days. Zero if `rpu` is a number of requests in flight.
    pub unit: Span,
}

impl Quota {
    /// The largest `rpu`.
    pub const MAX_RPU: u64 = 1_000_000_000;
    /// The shortest unit.
    pub const MIN_UNIT: Span = Span::from_ms(1);
    /// The longest unit.
    pub const MAX_UNIT: Span = Span::from_secs(7 * 86_400);
}

/// The answer of one rule to one request: admit or refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The request passes after `delay`; zero means at once.
    Admit {
        /// How long the request waits for its turn: 0 to 1 h.
        delay: Span,
    },
    /// The request does not pass.
    Refuse {
        /// The same request would be admitted exactly this much later if no other request came.
        /// `None`: never.
        retry_after: Option<Span>,
    },
}

/// The answer of one algorithm to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request may pass.
    pub admission: Admission,
    /// How many more units of cost would be admitted at this instant, after this request.
    pub remaining: u64,
    /// The time until `remaining` grows if no other request comes; zero if it cannot grow.
    pub more_in: Span,
    /// The time until the cell is like a new one: `remaining` is at its maximum and no request
    /// would wait.
    pub full_in: Span,
    /// The charge to pass to [`Algorithm::refund`] if the request must not count after all.
    pub charge: Charge,
}

impl Verdict {
    /// Whether the request may pass, at once or later.
    pub fn admits(&self) -> bool {
        matches!(self.admission, Admission::Admit { .. })
    }
}

/// What one request took from a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Units of cost; 0 if nothing was charged.
    pub cost: u64,
    /// The time of the request.
    pub at: Time,
    /// The instant at which the algorithm booked the charge. Its meaning depends on the algorithm,
    /// for example the start of a window.
    pub booked_at: Time,
    /// Counters of the cell at the time of the charge. A refund compares them with those of the
    /// cell.
    pub stamp: (u32, u32),
}

/// How much of its quota a cell lacked at an instant. [`Algorithm::begin_with`] takes the deficit
/// over into the cell of another quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deficit {
    /// The instant of the measurement.
    at: Time,
    /// The time in which the missing quota would come back, and the time in which an empty cell
    /// would fill, both in nanoseconds.
    ns: u64,
    of_ns: u64,
}

/// The lifetime of a reservation: a worker spends it for at most 100 ms.
pub const RESERVED_FOR: Span = Span::from_ms(100);

/// Quota that a worker holds in memory for future requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// The charge for the whole reservation, as if it were one request.
    pub charge: Charge,
    /// How many units of the reservation are spent.
    pub spent: u64,
}

impl Reservation {
    /// Spends `cost` units if that many are left. Returns whether they were.
    pub fn spend(&mut self, cost: u64) -> bool {
        let spent = self.spent.saturating_add(cost);
        let fits = spent <= self.charge.cost;
        if fits {
            self.spent = spent;
        }
        fits
    }
}

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
pub trait Algorithm: Send + Sync {
    /// The canonical text of the algorithm and its parameters. Rules with equal texts share cells;
    /// other rules have their own. The text is part of the store's layout and is the same in every
    /// build.
    fn meaning(&self) -> String;

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

    /// Records that the cell is a copy of another cell, made at `now`.
    fn copied(&self, _cell: &mut [u8], _now: Time) {}

    /// When the cell was copied; zero if it was not. `None` if the algorithm does not need to know.
    fn copied_at(&self, _cell: &[u8]) -> Option<Time> {
        None
    }

    /// The same algorithm over the same cells for a host that cannot hold requests: it refuses
    /// requests that would have to wait. `None` if the algorithm never makes requests wait.
    fn without_waiting(&self) -> Option<Box<dyn Algorithm>> {
        None
    }

    /// Whether workers may hold [`Reservation`]s. The algorithm's bound holds however workers spend
    /// and release them.
    fn can_reserve(&self) -> bool {
        false
    }

    /// The most that workers may reserve, in units of cost. The caller also limits it to
    /// [`Verdict::remaining`].
    fn reservable(&self, _cell: &[u8], _now: Time) -> u64 {
        u64::MAX
    }

    /// Reserves `amount` units if the cell has that many at once.
    fn reserve(&self, cell: &mut [u8], now: Time, amount: u64) -> Option<Reservation> {
        let verdict = self.step(cell, now, amount);
        let at_once = verdict.admission == Admission::Admit { delay: Span::ZERO };
        at_once.then_some(Reservation { charge: verdict.charge, spent: 0 })
    }

    /// Whether `reservation` may pay for requests at `now`. The caller checks [`RESERVED_FOR`].
    fn covers(&self, _reservation: &Reservation, _now: Time) -> bool {
        true
    }

    /// Returns a reservation that the worker stops spending, with any unspent rest.
    fn release(&self, cell: &mut [u8], now: Time, reservation: &Reservation) {
        let cost = reservation.charge.cost.saturating_sub(reservation.spent);
        if cost > 0 {
            self.refund(cell, now, Charge { cost, ..reservation.charge });
        }
    }

    /// Whether a charge ends with the request, as a permit does.
    fn ends_with_request(&self) -> bool {
        false
    }

    /// The parameters of the algorithm for a global store.
    fn parameters(&self) -> Parameters;

    /// What the cell lacked when another quota replaced this one at `since`, or at its last charge
    /// if that was later. `None` if the cell means nothing to another quota.
    fn deficit(&self, _cell: &[u8], _since: Time, _now: Time) -> Option<Deficit> {
        None
    }

    /// Initialises a cell of this quota so that it lacks the same proportion as `deficit`. It
    /// rounds up, and debt beyond an empty cell keeps its duration.
    fn begin_with(&self, _cell: &mut [u8], _deficit: Deficit) {}

    /// What is lost if the cell is evicted at `now`.
    fn eviction_rank(&self, cell: &[u8], now: Time) -> EvictionRank;
}

impl fmt::Debug for dyn Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.meaning())
    }
}

/// A kind of algorithm: its names and its constructor.
pub struct Kind {
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

/// All kinds of algorithms. The first one is the default.
pub static KINDS: &[&Kind] = &[
    &token_bucket::KIND,
    &window::KIND,
    &sliding_window::KIND,
    &sliding_log::KIND,
    &leaky_bucket::KIND,
    &concurrency::KIND,
];

/// The largest difference between the clocks of two workers, including cached clocks and pauses. A
/// cell is not clamped if it is at most this far in the future.
const MAX_SKEW: Span = Span::from_secs(1);

/// The longest wait of a request. A waiting request holds memory of the gateway and a connection.
pub const MAX_WAIT: Span = Span::from_secs(3_600);

/// The part of `span_ns` that corresponds to `used` of `limit`.
fn proportional_span(used: u64, limit: u64, span_ns: u64) -> Span {
    let all = u128::from(used).saturating_mul(span_ns.into());
    Span::from_ns(u64::try_from(all.checked_div(limit.into()).unwrap_or(0)).unwrap_or(u64::MAX))
}
