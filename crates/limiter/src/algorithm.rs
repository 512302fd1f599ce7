//! The algorithms of rules, one file each. An algorithm maps a cell, an instant and a cost to a
//! verdict and a new cell. It is pure: the caller passes the time and stores the cell.
//!
//! ```text
//!   cell ─► prepare(now) ─► step(now, cost) ─► Verdict ──► admitted: store the changed cell
//!                                                     └──► refused: the cell is unchanged
//!   later:  cell ─► refund(now, charge) ─► as if the request had never come
//!           cell ─► settle(now, charge, cost) ─► as if the request had cost this much
//! ```
//!
//! [`Algorithm`] has a variant for each kind of a configuration, and for `warm_up`, `lease` and
//! `refuse_all`, which are no kinds. `penalty` and `grant` have states next to that of any
//! algorithm; the other files are shared code.
//!
//! To add an algorithm, add a file in `algorithm/`, its `mod` line, its variant and constructor,
//! its reader in `crates/config`, and its formulas in Lua for Redis. docs/internals/working.md has
//! all steps.

mod bytes;
mod calendar;
mod concurrency;
pub mod grant;
mod kind;
mod leaky_bucket;
pub(crate) mod lease;
mod parameters;
mod penalty;
mod rate;
mod ring;
mod sliding_log;
mod sliding_window;
mod token_bucket;
mod values;
mod warm_up;
mod window;

pub use leaky_bucket::QueueOptions;
pub use parameters::{Parameters, PenaltyParameters};
pub use penalty::Penalty;
pub use token_bucket::BucketOptions;
pub use values::{Admission, Allowance, Charge, MAX_WAIT, QuotaError, Reservation, Verdict};
pub(crate) use values::{MAX_SKEW, RESERVED_FOR, borrowed, in_proportion, part};

use calendar::CalendarWindow;
use concurrency::Concurrency;
use diana_base::time::{Span, Time};
use diana_calendar::Calendar;
use kind::{Kind, RefuseAll};
use leaky_bucket::LeakyBucket;
use lease::Lease;
use sliding_log::SlidingLog;
use sliding_window::SlidingWindow;
use std::ops::RangeInclusive;
use token_bucket::TokenBucket;
use warm_up::WarmUp;
use window::Window;

/// One algorithm with its numbers. A cell has `size()` bytes; an unused cell is all zero.
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
/// use diana_limiter::algorithm::{Admission, Algorithm, BucketOptions, Allowance, QuotaError};
///
/// let quota = Allowance { rpu: 1, unit: Span::from_secs(10) };
/// let token_bucket = Algorithm::token_bucket(quota, BucketOptions::default())?;
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
/// # Ok::<(), QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// `TB`.
    TokenBucket(TokenBucket),
    /// `TB` with `warm_up`.
    WarmUp(WarmUp),
    /// `W`.
    Window(Window),
    /// `W` of a unit of the calendar.
    Calendar(CalendarWindow),
    /// `SW`.
    SlidingWindow(SlidingWindow),
    /// `SL`.
    SlidingLog(SlidingLog),
    /// `LB`.
    LeakyBucket(LeakyBucket),
    /// `C`.
    Concurrency(Concurrency),
    /// Quota that this gateway fetched ahead from the global store: [`Algorithm::leased`].
    Lease(Lease),
    /// `rpu: 0`: refuses every request.
    RefuseAll,
}

/// A demand carries its quota by value, which has room for this.
const _: () = assert!(size_of::<Algorithm>() <= 80);

/// Evaluates an expression for the kind of an algorithm.
macro_rules! each {
    ($algorithm:expr, $kind:ident => $result:expr) => {
        match $algorithm {
            Algorithm::TokenBucket($kind) => $result,
            Algorithm::WarmUp($kind) => $result,
            Algorithm::Window($kind) => $result,
            Algorithm::Calendar($kind) => $result,
            Algorithm::SlidingWindow($kind) => $result,
            Algorithm::SlidingLog($kind) => $result,
            Algorithm::LeakyBucket($kind) => $result,
            Algorithm::Concurrency($kind) => $result,
            Algorithm::Lease($kind) => $result,
            Algorithm::RefuseAll => {
                let $kind = &RefuseAll;
                $result
            }
        }
    };
}

/// Constructors. `rpu` is at least 1; [`Algorithm::RefuseAll`] is the algorithm of none.
impl Algorithm {
    /// The spans that `warm_up` may last.
    pub const WARM_UP: RangeInclusive<Span> = warm_up::SPANS;
    /// How many slices a unit may have.
    pub const SLICES: RangeInclusive<u64> = SlidingWindow::SLICES;
    /// The slices of a unit if a rule does not say.
    pub const DEFAULT_SLICES: u64 = SlidingWindow::DEFAULT_SLICES;
    /// The largest `rpu` of a sliding log.
    pub const MAX_LOGGED: u64 = sliding_log::MAX_UNITS as u64;
    /// How long a permit may count.
    pub const MAX_HOLD: RangeInclusive<Span> = Concurrency::MAX_HOLD;
    /// How long a permit counts if a rule does not say.
    pub const DEFAULT_MAX_HOLD: Span = Concurrency::DEFAULT_MAX_HOLD;

    /// `TB`: refills at the rate of the quota up to `burst`, and each request takes its cost.
    pub fn token_bucket(quota: Allowance, options: BucketOptions) -> Result<Algorithm, QuotaError> {
        token_bucket::build(quota, options)
    }

    /// `W`: `rpu` in each unit since the Unix epoch.
    pub fn window(quota: Allowance) -> Result<Algorithm, QuotaError> {
        Window::new(quota).map(Algorithm::Window)
    }

    /// `W`: `rpu` in each period of a calendar.
    pub fn calendar(rpu: u64, calendar: Calendar) -> Result<Algorithm, QuotaError> {
        CalendarWindow::new(rpu, calendar).map(Algorithm::Calendar)
    }

    /// `SW`: `rpu` in the last `slices` slices of a unit.
    pub fn sliding_window(quota: Allowance, slices: u64) -> Result<Algorithm, QuotaError> {
        SlidingWindow::new(quota, slices).map(Algorithm::SlidingWindow)
    }

    /// `SL`: `rpu` in any span of a unit.
    pub fn sliding_log(quota: Allowance) -> Result<Algorithm, QuotaError> {
        SlidingLog::new(quota).map(Algorithm::SlidingLog)
    }

    /// `LB`: one request after the other, at the rate of the quota; the others wait.
    pub fn leaky_bucket(quota: Allowance, options: QueueOptions) -> Result<Algorithm, QuotaError> {
        LeakyBucket::new(quota, options).map(Algorithm::LeakyBucket)
    }

    /// `C`: so many `permits` for requests in flight, each for at most `max_hold`.
    pub fn concurrency(permits: u64, max_hold: Span) -> Result<Algorithm, QuotaError> {
        Concurrency::new(permits, max_hold).map(Algorithm::Concurrency)
    }
}

impl Algorithm {
    /// The canonical text of the algorithm and its numbers, the same in every build. It names the
    /// count of a rule without a `name` in a global store, and tells apart the counts of documents
    /// that are in force side by side.
    #[must_use]
    pub fn canonical_form(&self) -> String {
        each!(self, kind => kind.canonical_form())
    }

    /// The canonical text of what a cell holds. Algorithms of the same form count in the same cell:
    /// the cell holds what was used, whatever the quota, so usage survives a changed quota.
    #[must_use]
    pub fn form(&self) -> String {
        each!(self, kind => kind.form())
    }

    /// The size of a cell in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        each!(self, kind => kind.size())
    }

    /// The quota that response headers show for `quota`: the maximum of [`Verdict::remaining`], and
    /// the time in which that much comes back. These are `q` and `w` of
    /// draft-ietf-httpapi-ratelimit-headers-10 §3.
    #[must_use]
    pub fn shown(&self, quota: Allowance) -> Allowance {
        each!(self, kind => kind.shown(quota))
    }

    /// Makes the cell valid at `now`. A new cell is initialised. A cell from the future is clamped
    /// to the worst possible state; the clock stepped back, or the bytes are foreign. Returns
    /// whether the cell changed, because it must then be stored even if the request is refused.
    pub fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        each!(self, kind => kind.prepare(cell, now))
    }

    /// Checks a request of `cost` units and charges the cell if the request is admitted.
    pub fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        each!(self, kind => kind.step(cell, now, cost))
    }

    /// Refunds a charge. Afterwards the cell admits no more than if the request had never come,
    /// whatever other charges and refunds happened in between. The cell need not be prepared.
    pub fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        each!(self, kind => kind.refund(cell, now, charge));
    }

    /// The parameters of the algorithm for a global store. Those of a calendar lack the periods.
    #[must_use]
    pub fn parameters(&self) -> Parameters {
        each!(self, kind => kind.parameters())
    }

    /// The parameters for a question to a global store at `now`.
    #[must_use]
    pub fn parameters_at(&self, now: Time) -> Parameters {
        match self {
            Algorithm::Calendar(window) => window.parameters_at(now),
            _ => self.parameters(),
        }
    }

    /// The calendar whose periods the algorithm counts.
    #[must_use]
    pub fn of_calendar(&self) -> Option<&Calendar> {
        if let Algorithm::Calendar(window) = self { Some(&window.calendar) } else { None }
    }

    /// The same algorithm, whose periods begin on this day of a month.
    pub(crate) fn on_day(self, day: u8) -> Algorithm {
        let Algorithm::Calendar(mut window) = self else { return self };
        window.calendar.day = day;
        Algorithm::Calendar(window)
    }

    /// The unit of the quota at `now`: the length of the calendar's present period.
    #[must_use]
    pub fn unit_at(&self, now: Time, unit: Span) -> Span {
        if let Algorithm::Calendar(window) = self { window.length(now) } else { unit }
    }

    /// The time until the cell rests if no request comes: a new cell then behaves the same, under
    /// any quota of the same [form](Algorithm::form).
    #[must_use]
    pub fn rests_in(&self, cell: &[u8], now: Time) -> Span {
        each!(self, kind => kind.rests_in(cell, now))
    }

    /// Whether a request may have to wait.
    #[must_use]
    pub fn may_wait(&self) -> bool {
        each!(self, kind => kind.may_wait())
    }

    /// Whether a cell keeps when it is full in the units of one limit, so that a charge from before
    /// the limit moved is not refunded.
    pub(crate) fn keeps_its_instant(&self) -> bool {
        matches!(self, Algorithm::WarmUp(_))
    }

    /// Whether a smaller cell of the same form is the beginning of a larger one, and the rest of it
    /// still counts.
    pub(crate) fn keeps_rest(&self) -> bool {
        matches!(self, Algorithm::SlidingWindow(_))
    }

    /// Whether a charge ends with the request, as a permit does.
    #[must_use]
    pub fn ends_with_request(&self) -> bool {
        match self {
            Algorithm::Concurrency(_) => true,
            Algorithm::TokenBucket(_)
            | Algorithm::WarmUp(_)
            | Algorithm::Window(_)
            | Algorithm::Calendar(_)
            | Algorithm::SlidingWindow(_)
            | Algorithm::SlidingLog(_)
            | Algorithm::LeakyBucket(_)
            | Algorithm::Lease(_)
            | Algorithm::RefuseAll => false,
        }
    }

    /// The same algorithm over the same cells for a host that cannot hold requests, and whose clock
    /// counts milliseconds: it refuses requests that would have to wait beyond the present one.
    /// `None` if the algorithm already does.
    #[must_use]
    pub fn without_waiting(&self) -> Option<Algorithm> {
        match self {
            Algorithm::TokenBucket(bucket) => bucket.without_waiting().map(Algorithm::TokenBucket),
            Algorithm::LeakyBucket(bucket) => bucket.without_waiting().map(Algorithm::LeakyBucket),
            Algorithm::WarmUp(_)
            | Algorithm::Window(_)
            | Algorithm::Calendar(_)
            | Algorithm::SlidingWindow(_)
            | Algorithm::SlidingLog(_)
            | Algorithm::Concurrency(_)
            | Algorithm::Lease(_)
            | Algorithm::RefuseAll => None,
        }
    }

    /// The same algorithm for limits from `lowest` on, which move while it counts. `None` if it
    /// cannot adapt. `least` is the least that a request costs.
    #[must_use]
    pub(crate) fn adapting(&self, quota: Allowance, lowest: u64, least: u64) -> Option<Algorithm> {
        match self {
            Algorithm::TokenBucket(bucket) => bucket.can_adapt().then_some(*self),
            Algorithm::WarmUp(bucket) => Some(Algorithm::WarmUp(bucket.adapting(quota, lowest, least))),
            Algorithm::Concurrency(_) => Some(*self),
            Algorithm::Window(_)
            | Algorithm::Calendar(_)
            | Algorithm::SlidingWindow(_)
            | Algorithm::SlidingLog(_)
            | Algorithm::LeakyBucket(_)
            | Algorithm::Lease(_)
            | Algorithm::RefuseAll => None,
        }
    }

    /// The same algorithm with `quota.rpu` in place of `rpu`, and burst and queue in proportion. It
    /// admits at least a request of `least` units. Usage survives the change: a bucket that lacks
    /// 10 tokens under one limit lacks 10 tokens under the next one.
    pub(crate) fn at(&self, quota: Allowance, rpu: u64, least: u64) -> Algorithm {
        match self {
            Algorithm::TokenBucket(bucket) => Algorithm::TokenBucket(bucket.at(quota, rpu, least)),
            Algorithm::WarmUp(bucket) => Algorithm::WarmUp(bucket.at(quota)),
            Algorithm::Window(window) => {
                let borrow = in_proportion(window.borrow, quota.rpu, rpu);
                Algorithm::Window(window.with(quota.rpu.max(least), borrow))
            }
            Algorithm::Calendar(window) => {
                let borrow = in_proportion(window.borrow, quota.rpu, rpu);
                Algorithm::Calendar(window.with(quota.rpu.max(least), borrow))
            }
            Algorithm::SlidingWindow(window) => {
                let borrow = in_proportion(window.borrow, quota.rpu, rpu);
                Algorithm::SlidingWindow(window.with(quota.rpu.max(least), borrow))
            }
            Algorithm::SlidingLog(log) => Algorithm::SlidingLog(log.at(quota.rpu.max(least))),
            Algorithm::LeakyBucket(bucket) => Algorithm::LeakyBucket(bucket.at(quota, rpu)),
            Algorithm::Concurrency(permits) => {
                Algorithm::Concurrency(permits.with(quota.rpu.max(least.min(rpu))))
            }
            Algorithm::Lease(_) | Algorithm::RefuseAll => *self,
        }
    }

    /// The share of one of so many gateways: each quantity is divided, but stays at least `least`,
    /// the cost of a request. `quota` is the share of the quota.
    pub(crate) fn share(&self, quota: Allowance, of: u64, least: u64) -> Algorithm {
        match self {
            Algorithm::TokenBucket(bucket) => Algorithm::TokenBucket(bucket.share(quota, of, least)),
            Algorithm::WarmUp(bucket) => Algorithm::WarmUp(bucket.share(quota, of, least)),
            Algorithm::Window(window) => {
                Algorithm::Window(window.with(quota.rpu, part(window.borrow, of, least)))
            }
            Algorithm::Calendar(window) => {
                Algorithm::Calendar(window.with(quota.rpu, part(window.borrow, of, least)))
            }
            Algorithm::SlidingWindow(window) => {
                Algorithm::SlidingWindow(window.with(quota.rpu, part(window.borrow, of, least)))
            }
            Algorithm::SlidingLog(log) => Algorithm::SlidingLog(log.at(quota.rpu)),
            Algorithm::LeakyBucket(bucket) => Algorithm::LeakyBucket(bucket.share(quota, of, least)),
            Algorithm::Concurrency(permits) => Algorithm::Concurrency(permits.with(quota.rpu)),
            Algorithm::Lease(_) | Algorithm::RefuseAll => *self,
        }
    }

    /// The algorithm of a rule with this algorithm that holds at most `piece` units of quota ahead,
    /// which were fetched from the global store. The leased quota is spent in this gateway.
    #[must_use]
    pub fn leased(&self, piece: u64, quota: Allowance) -> Algorithm {
        let (parameters, shown) = (self.parameters(), self.shown(quota));
        Algorithm::Lease(Lease::new(parameters, piece, quota.unit, shown))
    }
}

/// Reservations: quota of a cell that workers hold ahead. The algorithm's bound holds however
/// workers spend and release them.
impl Algorithm {
    /// Whether workers may reserve quota of a cell ahead. If not, the other methods are not called.
    #[must_use]
    pub fn can_reserve(&self) -> bool {
        each!(self, kind => kind.can_reserve())
    }

    /// The most that workers may reserve, in units of cost. The caller also limits it to
    /// [`Verdict::remaining`].
    #[must_use]
    pub(crate) fn reservable(&self, cell: &[u8], now: Time) -> u64 {
        each!(self, kind => kind.reservable(cell, now))
    }

    /// Reserves `amount` units if the cell has that many at once.
    pub fn reserve(&self, cell: &mut [u8], now: Time, amount: u64) -> Option<Reservation> {
        debug_assert!(self.can_reserve());
        each!(self, kind => kind.reserve(cell, now, amount))
    }

    /// Whether `reservation` may pay for requests at `now`. The caller checks that
    /// the reservation is at most 100 ms old.
    #[must_use]
    pub fn covers(&self, reservation: &Reservation, now: Time) -> bool {
        each!(self, kind => kind.covers(reservation, now))
    }

    /// Spends `cost` units of a reservation for a request, which is charged to `copy`: the worker's
    /// copy of the cell, without the reservation. `None` if the reservation does not pay for the
    /// request, if the copy does not admit the request at once, or if the copy has to be stored
    /// first. The copy may then hold anything.
    pub fn spend(
        &self,
        copy: &mut [u8],
        reservation: &mut Reservation,
        now: Time,
        cost: u64,
    ) -> Option<Verdict> {
        debug_assert!(self.can_reserve());
        if self.prepare(copy, now) {
            return None;
        }
        let verdict = self.step(copy, now, cost);
        let admits_now = verdict.admission == Admission::Admit { delay: Span::ZERO };
        let is_paid = admits_now && self.covers(reservation, now) && reservation.spend(cost);
        is_paid.then_some(verdict)
    }

    /// Returns a reservation that the worker stops spending, with any unspent rest.
    pub fn release(&self, cell: &mut [u8], now: Time, reservation: &Reservation) {
        debug_assert!(self.can_reserve());
        each!(self, kind => kind.release(cell, now, reservation));
    }
}

impl Algorithm {
    /// The verdict about a request of this cost after a long time without requests. With `warm_up`,
    /// the rule is then cold.
    pub fn at_rest(&self, cost: u64) -> Verdict {
        let (begin, later) = (Time::from_ns(1), Time::from_ns(u64::MAX / 2));
        let mut cell = vec![0; self.size()];
        self.prepare(&mut cell, begin);
        self.prepare(&mut cell, later);
        self.step(&mut cell, later, cost)
    }
}

/// Settling: the cost of a request is known only when the request ends.
impl Algorithm {
    /// Whether requests can be settled. If not, the other methods are not called.
    #[must_use]
    pub fn can_settle(&self) -> bool {
        each!(self, kind => kind.can_settle())
    }

    /// The same algorithm for requests whose cost is known at their end: settling may push the cell
    /// up to `borrow` units below empty. With a `borrow` of 0, the meaning is the same. `None` if
    /// the algorithm cannot settle.
    #[must_use]
    pub fn borrowing(mut self, borrow: u64) -> Option<Algorithm> {
        match &mut self {
            Algorithm::TokenBucket(bucket) if bucket.can_settle() => *bucket = bucket.borrowing(borrow),
            Algorithm::Window(window) => window.borrow = borrow,
            Algorithm::Calendar(window) => window.borrow = borrow,
            Algorithm::SlidingWindow(window) => window.borrow = borrow,
            Algorithm::TokenBucket(_)
            | Algorithm::WarmUp(_)
            | Algorithm::SlidingLog(_)
            | Algorithm::LeakyBucket(_)
            | Algorithm::Concurrency(_)
            | Algorithm::Lease(_)
            | Algorithm::RefuseAll => return None,
        }
        Some(self)
    }

    /// Charges `cost` units regardless of what is left, but at most down to `borrow` units below
    /// empty. Returns what was charged. The cell need not be prepared.
    pub fn charge(&self, cell: &mut [u8], now: Time, cost: u64) -> Charge {
        debug_assert!(self.can_settle());
        each!(self, kind => kind.charge(cell, now, cost))
    }

    /// Corrects `charge` to `cost` units.
    pub fn settle(&self, cell: &mut [u8], now: Time, charge: Charge, cost: u64) {
        match cost.checked_sub(charge.cost) {
            Some(0) => {}
            Some(more) => _ = self.charge(cell, now, more),
            // The part above `cost` is refunded.
            None => each!(self, kind => kind.reduce(cell, now, charge, cost)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructors_name_the_number_that_is_wrong() {
        let quota = Allowance { rpu: 10, unit: Span::from_secs(1) };
        let weekly = Allowance { rpu: 1, unit: Allowance::MAX_UNIT };
        let error =
            |built: Result<Algorithm, QuotaError>| built.map(|algorithm| algorithm.form()).unwrap_err();
        let bucket = |quota, options| error(Algorithm::token_bucket(quota, options));
        let queue = |quota, queue, max_wait| {
            error(Algorithm::leaky_bucket(quota, QueueOptions { queue: Some(queue), max_wait }))
        };
        let (any, longest) = (BucketOptions::default(), Span::from_ns(MAX_WAIT.as_ns() + 1));
        let warm = BucketOptions { warm_up: Some(Span::from_secs(1)), ..any };

        assert_eq!(error(Algorithm::window(Allowance { rpu: 0, ..quota })), QuotaError::Rpu);
        assert_eq!(error(Algorithm::window(Allowance { unit: Span::ZERO, ..quota })), QuotaError::Unit);
        assert_eq!(error(Algorithm::sliding_window(quota, 1)), QuotaError::Slices);
        assert_eq!(error(Algorithm::sliding_log(Allowance { rpu: 129, ..quota })), QuotaError::Rpu);
        assert_eq!(
            error(Algorithm::concurrency(Allowance::MAX_RPU + 1, Span::from_secs(1))),
            QuotaError::Rpu
        );
        assert_eq!(error(Algorithm::concurrency(1, Span::from_ms(999))), QuotaError::MaxHold);
        assert_eq!(queue(quota, Allowance::MAX_RPU + 1, None), QuotaError::Queue);
        assert_eq!(queue(quota, 1, Some(longest)), QuotaError::MaxWait);
        assert_eq!(queue(weekly, 1, None), QuotaError::QueueTime { queue: 1 });
        assert_eq!(bucket(quota, BucketOptions { burst: Some(0), ..any }), QuotaError::Burst);
        assert_eq!(bucket(quota, BucketOptions { max_wait: longest, ..any }), QuotaError::MaxWait);
        let burst = 1_000_000;
        let slow = bucket(weekly, BucketOptions { burst: Some(burst), ..any });
        assert_eq!((slow, slow.field()), (QuotaError::FillTime { burst }, "burst"));
        assert_eq!(bucket(quota, BucketOptions { warm_up: Some(Span::ZERO), ..any }), QuotaError::WarmUp);
        let waits = BucketOptions { max_wait: MAX_WAIT, ..warm };
        assert_eq!(bucket(quota, waits), QuotaError::WarmUpWaits);
        assert_eq!(bucket(quota, BucketOptions { burst: Some(2), ..warm }), QuotaError::WarmUpBurst);
    }
}
