//! How a rule counts: old state in, verdict and new state out; each kind a file.
//!
//! It does not know: where the state is kept, whose it is, what time it is, or that there are other rules.
//!
//! ```text
//!   cell ─► prepare(now) ─► step(now, cost) ─► Verdict ──► admitted: the cell as changed is stored
//!                                                     └──► refused: the cell is as it was
//!   later:  cell ─► give_back(now, charge) ─► as if the request had not been
//! ```
//!
//! To add a kind: a file in `algorithm/` with a `KIND`, its `mod` line and its line in [`KINDS`]. The laws
//! in the tests, and the configuration's error messages, walk that list.

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

/// So many units of cost per unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Requests per unit, or units of cost where requests weigh more than one: 0 to 10⁹.
    pub rpu: u64,
    /// The unit of time, from 1 ms to 7 days; zero where `rpu` is a number of requests in flight.
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

/// Whether a request may pass, as far as one rule is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may, `delay` from now; zero is at once.
    Admit {
        /// How long the request has to wait for its turn.
        delay: Span,
    },
    /// It may not.
    Refuse {
        /// After just so long the same request would be admitted, if nobody else came; `None`: never.
        retry_after: Option<Span>,
    },
}

/// What one algorithm says to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request may pass.
    pub admission: Admission,
    /// How many units of cost would still be admitted at this instant, this request already counted.
    pub remaining: u64,
    /// How long until `remaining` grows, if nobody comes; zero when it cannot grow.
    pub more_in: Span,
    /// How long until the cell is as good as new: `remaining` can grow no further, and nobody would wait.
    pub full_in: Span,
    /// What to hand to [`Algorithm::refund`] when the request is to be uncounted.
    pub charge: Charge,
}

impl Verdict {
    /// Whether the request may pass, at once or later.
    pub fn admits(&self) -> bool {
        matches!(self.admission, Admission::Admit { .. })
    }
}

/// What a cell was charged for one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Units of cost; 0 when nothing was charged.
    pub cost: u64,
    /// When.
    pub at: Time,
    /// The instant it was booked at, in the algorithm's own sense.
    pub booked_at: Time,
    /// What the algorithm needs to know of the cell as it was.
    pub stamp: (u32, u32),
}

/// What a cell lacked at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deficit {
    /// When.
    at: Time,
    /// How long what it lacked takes to come, and all that it can hold, in nanoseconds.
    ns: u64,
    of_ns: u64,
}

/// For how long a worker may spend a piece.
pub const RESERVED_FOR: Span = Span::from_ms(100);

/// What a worker holds ahead for requests that have yet to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// The whole of it, as if it were one request.
    pub charge: Charge,
    /// How much of it is spent.
    pub spent: u64,
}

impl Reservation {
    /// Spends `cost` of it, if there is so much.
    pub fn spend(&mut self, cost: u64) -> bool {
        let spent = self.spent.saturating_add(cost);
        let fits = spent <= self.charge.cost;
        if fits {
            self.spent = spent;
        }
        fits
    }
}

/// A way of counting. A cell is `size()` bytes; all zero is a cell nobody has used.
///
/// Laws, tested for every kind: a refused step leaves the cell as it is; a step of cost 0 is a look and
/// changes nothing; `retry_after` is exact to the nanosecond; any bytes are a valid cell; a clock that
/// steps back frees no more than what the kind's instants are coarse by (a window, a slice, else nothing), and
/// locks nobody out for longer than the kind would without it and the second by which clocks may differ.
pub trait Algorithm: Send + Sync {
    /// How it counts, in words that are the same in every build: rules of one meaning read each other's
    /// cells, others have cells of their own.
    fn meaning(&self) -> String;

    /// Bytes of a cell.
    fn size(&self) -> usize;

    /// What clients are shown of `quota`: the most that [`Verdict::remaining`] can be, and how long that much takes to come.
    /// These are `q` and `w` of draft-ietf-httpapi-ratelimit-headers-10 §3.
    fn shown(&self, quota: Quota) -> Quota {
        quota
    }

    /// Brings a cell to a state that is possible at `now`: a new one starts, one from the future (the clock
    /// stepped back, or the bytes are not ours) is cut to the worst that could be. Returns whether the cell
    /// changed and has to be stored even if the request is refused.
    fn prepare(&self, cell: &mut [u8], now: Time) -> bool;

    /// Judges a request of `cost` units and, if it is admitted, charges the cell for it.
    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict;

    /// Takes a charge back: afterwards no more is admitted than if the request had never come, whoever came
    /// and whatever was given back meanwhile. The cell need not be prepared.
    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge);

    /// The cell is a copy of another one from now on.
    fn copied(&self, _cell: &mut [u8], _now: Time) {}

    /// When the cell was copied; `None` if the algorithm can do without knowing that.
    fn copied_at(&self, _cell: &[u8]) -> Option<Time> {
        None
    }

    /// The same for a host that cannot hold requests, over the same cells: what would have to wait is refused.
    /// `None`: it makes nobody wait.
    fn without_waiting(&self) -> Option<Box<dyn Algorithm>> {
        None
    }

    /// Whether a worker may hold a [`Reservation`] that it then spends by itself. Whoever spends so, and whatever is taken
    /// back, no more pass in any span than the bound says.
    fn can_reserve(&self) -> bool {
        false
    }

    /// The most that pieces are a part of: of what remains, as far as the cell has it.
    fn reservable(&self, _cell: &[u8], _now: Time) -> u64 {
        u64::MAX
    }

    /// Hands out a piece of so much, if so much is left at once.
    fn reserve(&self, cell: &mut [u8], now: Time, amount: u64) -> Option<Reservation> {
        let verdict = self.step(cell, now, amount);
        let at_once = verdict.admission == Admission::Admit { delay: Span::ZERO };
        at_once.then_some(Reservation { charge: verdict.charge, spent: 0 })
    }

    /// Whether a piece stands for requests at `now`, within [`RESERVED_FOR`] of when it was handed out.
    fn covers(&self, _reservation: &Reservation, _now: Time) -> bool {
        true
    }

    /// Takes a piece back, spent or not, that is not spent from now on.
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

    /// How it counts, for a store that counts for all gateways.
    fn parameters(&self) -> Parameters;

    /// What the cell lacked when another quota took the place of this one, at `since`, or when it was charged last, if
    /// that was later. `None`: it means nothing to another quota.
    fn deficit(&self, _cell: &[u8], _since: Time, _now: Time) -> Option<Deficit> {
        None
    }

    /// Begins a cell that lacks in proportion what one of another quota lacked: never less, and no debt is paid sooner.
    fn begin_with(&self, _cell: &mut [u8], _deficit: Deficit) {}

    /// What is lost if the cell is dropped at `now`.
    fn eviction_rank(&self, cell: &[u8], now: Time) -> EvictionRank;
}

impl fmt::Debug for dyn Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.meaning())
    }
}

/// A kind of algorithm: its names and its compiler.
pub struct Kind {
    /// The long name, `token bucket`.
    pub name: &'static str,
    /// The abbreviation, `TB`.
    pub short: &'static str,
    /// The keys of a rule that are the kind's own.
    pub keys: &'static [&'static str],
    /// Whether its quota is per unit of time; else `rpu` is a number of requests in flight.
    pub per_unit: bool,
    /// How many requests can pass in any span of time, as the reference says it.
    pub bound: &'static str,
    /// Takes the kind's own keys of a rule; mistakes are reported at their place and give `None`.
    /// `rpu` is at least 1.
    pub compile: fn(&mut Fields, Quota) -> Option<Box<dyn Algorithm>>,
}

/// Every kind of algorithm; the first is the default.
pub static KINDS: &[&Kind] = &[
    &token_bucket::KIND,
    &window::KIND,
    &sliding_window::KIND,
    &sliding_log::KIND,
    &leaky_bucket::KIND,
    &concurrency::KIND,
];

/// By how much the clocks of two workers may differ, caches and pauses included: a cell that is no further in
/// the future is left as it is.
const MAX_SKEW: Span = Span::from_secs(1);

/// The longest a request may be made to wait: while it does, it holds memory of the gateway and a connection.
pub const MAX_WAIT: Span = Span::from_secs(3_600);

/// How much of `span` a use of `used` out of `limit` stands for.
fn proportional_span(used: u64, limit: u64, span_ns: u64) -> Span {
    let all = u128::from(used).saturating_mul(span_ns.into());
    Span::from_ns(u64::try_from(all.checked_div(limit.into()).unwrap_or(0)).unwrap_or(u64::MAX))
}
