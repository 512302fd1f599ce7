//! Quotas that move: with an adaptive limit, or with the number of gateways that divide a global
//! quota while the store is down. What a counter decides by is built anew when the number moves, and
//! what was used stays used.

use crate::adapt::Adaptive;
use crate::algorithm::{Algorithm, Charge, Quota};
use diana_base::time::Time;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

/// What a counter decides by as long as its quota does not move.
#[derive(Clone, Debug)]
pub(super) struct Present {
    pub(super) quota: Quota,
    pub(super) algorithm: Algorithm,
    /// What the share of one of several gateways leaves for requests of high priority, in units.
    pub(super) headroom: u64,
}

/// What a counter with a quota that moves decides by.
pub(super) struct Moving {
    follows: Follows,
    /// The counter that was built first. Its cells have room for all others.
    first: Present,
    /// The last number that a request found, and what was built for it.
    last: Mutex<(u64, Present)>,
}

/// The number that a quota follows.
pub(super) enum Follows {
    /// An adaptive limit, in place of `rpu` of an algorithm. The last number is the least that a
    /// request costs. In any span, no more passes than under the highest limit within the span.
    Limit(Arc<Adaptive>, Present, u64),
    /// The number of gateways. A share is compiled like a rule.
    Gateways(Arc<Replicas>, Box<dyn Fn(u64) -> Option<Present> + Send + Sync>),
}

impl Follows {
    fn number(&self) -> u64 {
        match self {
            Follows::Limit(adaptive, ..) => adaptive.limit(),
            Follows::Gateways(replicas, _) => replicas.number(),
        }
    }

    fn at(&self, number: u64) -> Option<Present> {
        match self {
            Follows::Limit(adaptive, base, least) => {
                let (lowest, _) = adaptive.controller().range();
                let algorithm = base.algorithm.at_limit(base.quota, lowest, *least, number)?;
                Some(Present { algorithm, ..*base })
            }
            Follows::Gateways(_, build) => build(number),
        }
    }
}

impl Moving {
    /// `None` if nothing can be built for the first number: the limit now, or one gateway, which
    /// has the largest share.
    pub(super) fn new(follows: Follows) -> Option<Moving> {
        let number = if let Follows::Limit(adaptive, ..) = &follows { adaptive.limit() } else { 1 };
        let first = follows.at(number)?;
        Some(Moving { follows, last: Mutex::new((number, first.clone())), first })
    }

    pub(super) fn first(&self) -> &Present {
        &self.first
    }

    /// What decides at the present number. No worker waits for another one.
    pub(super) fn now(&self) -> Present {
        let number = self.follows.number();
        let last = match self.last.try_lock() {
            Ok(last) => Some(last),
            Err(TryLockError::Poisoned(last)) => Some(last.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(last) = last.as_ref().filter(|last| last.0 == number) {
            return last.1.clone();
        }
        let fits = |present: &Present| present.algorithm.size() <= self.first.algorithm.size();
        // A share may have a debt that takes too long to fill. Then the present share stays.
        let before = || last.as_ref().map_or(&self.first, |last| &last.1).clone();
        let present = self.follows.at(number).filter(fits).unwrap_or_else(before);
        last.into_iter().for_each(|mut last| *last = (number, present.clone()));
        present
    }

    /// The adaptive limit that the quota follows.
    pub(super) fn adaptive(&self) -> Option<&Arc<Adaptive>> {
        if let Follows::Limit(adaptive, ..) = &self.follows { Some(adaptive) } else { None }
    }

    /// What this adds to the canonical text of the first algorithm.
    pub(super) fn canonical_form(&self) -> String {
        match &self.follows {
            Follows::Limit(adaptive, ..) => [", ", &adaptive.controller().canonical_form()].concat(),
            Follows::Gateways(..) => ", shared".into(),
        }
    }

    /// Whether the units of a charge had another length than those of the present share: only a
    /// bucket that warms up keeps when it is full, in place of what it lacks.
    pub(super) fn is_outdated(&self, charge: Charge) -> bool {
        let Follows::Gateways(replicas, _) = &self.follows else { return false };
        matches!(self.first.algorithm, Algorithm::WarmUp(_)) && replicas.has_changed_since(charge.at)
    }
}

impl fmt::Debug for Moving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moving").field("first", &self.first).finish_non_exhaustive()
    }
}

/// The number of gateways that divide each global quota while the store is down.
///
/// ```
/// use diana_limiter::policy::Replicas;
/// use diana_limiter::time::Time;
///
/// let replicas = Replicas::counted(7);
/// assert_eq!(replicas.number(), 1, "until the store has counted");
/// assert!(replicas.set(3, Time::from_ns(1)) && !replicas.set(3, Time::from_ns(2)));
/// assert_eq!(replicas.number(), 3);
/// // Whatever a store says, nobody divides by zero.
/// replicas.set(0, Time::from_ns(3));
/// replicas.set(u64::MAX, Time::from_ns(3));
/// assert_eq!(replicas.number(), Replicas::MAX);
/// assert_eq!(Replicas::fixed(4).number(), 4);
/// ```
#[derive(Debug)]
pub struct Replicas {
    number: AtomicU64,
    /// When the number last changed, in nanoseconds.
    since: AtomicU64,
    /// `None` if the configuration states the number.
    stores: Option<u64>,
}

impl Replicas {
    /// The largest number.
    pub const MAX: u64 = 10_000;

    /// The number that the configuration states.
    #[must_use]
    pub fn fixed(number: u64) -> Replicas {
        Replicas { number: AtomicU64::new(number.max(1)), since: AtomicU64::new(0), stores: None }
    }

    /// A number that the stores count. `stores` is a hash of where they count.
    #[must_use]
    pub fn counted(stores: u64) -> Replicas {
        Replicas { stores: Some(stores), ..Replicas::fixed(1) }
    }

    /// The present number, from 1 to [`Replicas::MAX`].
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// The hash of where the stores count; `None` if the configuration states the number.
    #[must_use]
    pub fn stores(&self) -> Option<u64> {
        self.stores
    }

    /// Sets the number, limited to its range, at `now`. Returns whether it changed.
    pub fn set(&self, number: u64, now: Time) -> bool {
        let number = number.clamp(1, Replicas::MAX);
        let has_changed = self.number.swap(number, Ordering::Relaxed) != number;
        if has_changed {
            self.since.store(now.as_ns(), Ordering::Relaxed);
        }
        has_changed
    }

    /// Whether the number has changed since this instant.
    #[must_use]
    pub fn has_changed_since(&self, instant: Time) -> bool {
        instant.as_ns() <= self.since.load(Ordering::Relaxed)
    }
}
