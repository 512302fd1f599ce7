//! The values that an algorithm takes and returns.

use diana_base::time::{Span, Time};
use std::fmt;

/// An amount of cost per unit of time.
///
/// ```
/// use diana_base::time::Span;
/// use diana_limiter::algorithm::Allowance;
///
/// let ten_per_minute = Allowance { rpu: 10, unit: Span::from_secs(60) };
/// assert!(ten_per_minute.rpu <= Allowance::MAX_RPU);
/// assert!((Allowance::MIN_UNIT..=Allowance::MAX_UNIT).contains(&ten_per_minute.unit));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Allowance {
    /// Requests per unit, or units of cost if requests cost more than one unit: from 0 to
    /// [`Allowance::MAX_RPU`], or to [`Allowance::MAX_IN_WINDOW`].
    pub rpu: u64,
    /// The unit of time, from 1 ms to 7 days; of a calendar, the longest period. Zero if `rpu` is a
    /// number of requests in flight.
    pub unit: Span,
}

impl Allowance {
    /// The largest `rpu` of most algorithms.
    pub const MAX_RPU: u64 = 1_000_000_000;
    /// The largest `rpu` of `W` and `SW`: the largest whole number of a response header (RFC 9651
    /// §3.3.1). Twice as many units, with what settling borrows, are exact in Redis.
    pub const MAX_IN_WINDOW: u64 = 999_999_999_999_999;
    /// The shortest unit.
    pub const MIN_UNIT: Span = Span::from_ms(1);
    /// The longest unit.
    pub const MAX_UNIT: Span = Span::from_secs(7 * 86_400);

    /// The rate of the quota is one that an algorithm of at most so many units can have.
    pub(super) fn check(self, most: u64) -> Result<(), QuotaError> {
        match (1..=most).contains(&self.rpu) {
            false => Err(QuotaError::Rpu),
            // The laws also hold for shorter units than a configuration may have.
            true if !(Span::from_ns(1)..=Allowance::MAX_UNIT).contains(&self.unit) => Err(QuotaError::Unit),
            true => Ok(()),
        }
    }
}

/// The first of its numbers that an algorithm cannot have.
///
/// ```
/// use diana_base::time::Span;
/// use diana_limiter::algorithm::{Algorithm, BucketOptions, Allowance, QuotaError};
///
/// let ten_per_minute = Allowance { rpu: 10, unit: Span::from_secs(60) };
/// let none = BucketOptions { burst: Some(0), ..BucketOptions::default() };
/// let error = Algorithm::token_bucket(ten_per_minute, none).map(|bucket| bucket.form());
/// assert_eq!(error, Err(QuotaError::Burst));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaError {
    /// `rpu` is not from 1 to [`Allowance::MAX_RPU`]; for a window, to
    /// [`Allowance::MAX_IN_WINDOW`]; for a sliding log, to 128.
    Rpu,
    /// The unit is zero, or longer than [`Allowance::MAX_UNIT`].
    Unit,
    /// `burst` is not from 1 to [`Allowance::MAX_RPU`].
    Burst,
    /// A bucket of this `burst` takes longer than 100 years to fill.
    FillTime {
        /// The burst.
        burst: u64,
    },
    /// `max_wait` is longer than [`MAX_WAIT`].
    MaxWait,
    /// `warm_up` is not from 1 s to one day.
    WarmUp,
    /// `warm_up` stands next to a `max_wait`: requests that wait would warm the rule up before they
    /// go on.
    WarmUpWaits,
    /// `warm_up` stands next to a `burst` below 3, the tokens of a cold request.
    WarmUpBurst,
    /// `slices` is not from 2 to 60.
    Slices,
    /// `queue` is more than [`Allowance::MAX_RPU`].
    Queue,
    /// The last of this `queue` waits longer than [`MAX_WAIT`], and no `max_wait` is given.
    QueueTime {
        /// The queue.
        queue: u64,
    },
    /// `max_hold` is not from 1 s to one day.
    MaxHold,
}

impl QuotaError {
    /// The number that is wrong, as configurations call it.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            QuotaError::Rpu => "rpu",
            QuotaError::Unit => "unit",
            QuotaError::Burst | QuotaError::FillTime { .. } => "burst",
            QuotaError::MaxWait => "max_wait",
            QuotaError::WarmUp | QuotaError::WarmUpWaits | QuotaError::WarmUpBurst => "warm_up",
            QuotaError::Slices => "slices",
            QuotaError::Queue | QuotaError::QueueTime { .. } => "queue",
            QuotaError::MaxHold => "max_hold",
        }
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "`{}` is out of range", self.field())
    }
}

impl std::error::Error for QuotaError {}

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
        /// The same request would be admitted exactly this much later if no other request came, and
        /// no [`Reservation`] of a token bucket expired. `None`: never.
        retry_after: Option<Span>,
    },
}

/// The answer of one algorithm to one request.
#[must_use]
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
    /// The charge to pass to [`super::Algorithm::refund`] if the request must not count after all.
    pub charge: Charge,
}

impl Verdict {
    /// Whether the request may pass, at once or later.
    #[must_use]
    pub fn admits(&self) -> bool {
        matches!(self.admission, Admission::Admit { .. })
    }

    /// Marks the verdict of a penalty. No algorithm books a charge at this instant.
    pub const PENALTY: Time = Time::from_ns(u64::MAX);

    /// Marks a charge that a [grant](super::grant) has paid. No algorithm books a charge at this
    /// instant.
    pub(crate) const GRANT: Time = Time::from_ns(u64::MAX - 1);

    /// The verdict, marked as that of a penalty if `by_penalty`.
    pub fn with_penalty(self, by_penalty: bool) -> Verdict {
        let booked_at = if by_penalty { Verdict::PENALTY } else { self.charge.booked_at };
        Verdict { charge: Charge { booked_at, ..self.charge }, ..self }
    }

    /// Whether a penalty refuses the request, and not only the quota.
    #[must_use]
    pub fn is_penalty(&self) -> bool {
        !self.admits() && self.charge.booked_at == Verdict::PENALTY
    }
}

/// What one request took from a cell.
#[must_use]
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

impl Charge {
    /// Whether a [grant](super::grant) has paid, and not the quota.
    pub(crate) fn is_granted(&self) -> bool {
        self.booked_at == Verdict::GRANT
    }
}

/// The lifetime of a reservation: a worker spends it for at most 100 ms.
pub(crate) const RESERVED_FOR: Span = Span::from_ms(100);

/// Quota that a worker holds in memory for future requests.
///
/// ```
/// use diana_limiter::algorithm::{Charge, Reservation};
///
/// let charge = Charge { cost: 2, ..Charge::default() };
/// let mut reservation = Reservation { charge, ..Reservation::default() };
/// assert!(reservation.spend(1) && reservation.spend(1));
/// assert!(!reservation.spend(1), "both units are spent");
/// ```
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

/// The largest difference between the clocks of two workers, including cached clocks and pauses. A
/// cell is not clamped if it is at most this far in the future.
pub(crate) const MAX_SKEW: Span = Span::from_secs(1);

/// How many tokens a request of a cold rule takes: the cold factor of Guava and Sentinel.
pub(super) const COLD_FACTOR: u64 = 3;

/// The longest wait of a request. A waiting request holds memory of the gateway and a connection.
pub const MAX_WAIT: Span = Span::from_secs(3_600);

/// How long the state of a bucket that starts empty rests: forgetting it takes what the actor has
/// saved.
pub(super) const SAVED_FOR: Span = Span::from_secs(7 * 86_400);

/// The meaning of an algorithm that settles, down to `borrow` units below empty.
pub(crate) fn borrowed(canonical_form: String, borrow: u64) -> String {
    match borrow {
        0 => canonical_form,
        _ => format!("{canonical_form}, {borrow} borrowed"),
    }
}

/// What `number` of a quota becomes when `rpu` moves `from` one limit `to` another: 0 to
/// [`Allowance::MAX_IN_WINDOW`].
pub(crate) fn in_proportion(number: u64, to: u64, from: u64) -> u64 {
    let moved = u128::from(number).saturating_mul(to.into()).checked_div(from.into()).unwrap_or(0);
    u64::try_from(moved).unwrap_or(u64::MAX).min(Allowance::MAX_IN_WINDOW)
}

/// The share of `number` for one of so many gateways: at least `least`, the cost of a request, if
/// there is that much.
pub(crate) fn part(number: u64, of: u64, least: u64) -> u64 {
    number.checked_div(of).unwrap_or(number).max(least.min(number))
}
