//! Quotas that move: with an adaptive limit, or with the number of gateways that divide a global
//! quota while the store is down. What a counter decides by is built anew when the number moves,
//! and what was used stays used.

use crate::adapt::Adaptive;
use crate::algorithm::{Algorithm, Charge, Quota};
use diana_base::time::Time;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, TryLockError};

/// What a counter decides by as long as its quota does not move.
#[derive(Clone, Debug)]
pub(super) struct Present {
    pub(super) quota: Quota,
    pub(super) algorithm: Algorithm,
    /// What the share of one of several gateways leaves for requests of high priority, in units.
    pub(super) headroom: u64,
}

impl Present {
    /// See [`Algorithm::without_waiting`].
    fn refuse_to_wait(&mut self) {
        if let Some(algorithm) = self.algorithm.without_waiting() {
            debug_assert_eq!(algorithm.form(), self.algorithm.form());
            self.algorithm = algorithm;
        }
    }
}

/// What a counter with a quota that moves decides by.
pub(super) struct Moving {
    follows: Follows,
    /// The counter that was built first. Its cells have room for all others.
    first: Arc<Present>,
    /// Whether the host cannot hold requests: see [`Counter::refuse_to_wait`].
    ///
    /// [`Counter::refuse_to_wait`]: super::Counter::refuse_to_wait
    refuses_to_wait: bool,
    /// The last number that a request found, and what was built for it. Workers that only read do
    /// not exclude each other: one that could not read would have to build for every request.
    last: RwLock<(u64, Arc<Present>)>,
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
        let first = Arc::new(follows.at(number)?);
        let last = RwLock::new((number, Arc::clone(&first)));
        Some(Moving { follows, first, refuses_to_wait: false, last })
    }

    /// Refuses to wait from now on, at every number.
    pub(super) fn refuse_to_wait(&mut self) {
        self.refuses_to_wait = true;
        let (_, last) = self.last.get_mut().unwrap_or_else(PoisonError::into_inner);
        for present in [&mut self.first, last] {
            Arc::make_mut(present).refuse_to_wait();
        }
    }

    pub(super) fn first(&self) -> &Present {
        &self.first
    }

    /// What decides at the present number. No worker waits for another one.
    pub(super) fn now(&self) -> Arc<Present> {
        let number = self.follows.number();
        let last = unless_taken(self.last.try_read()).map(|last| (last.0, Arc::clone(&last.1)));
        match last {
            Some((built_for, present)) if built_for == number => present,
            last => self.build(number, last.map_or_else(|| Arc::clone(&self.first), |(_, present)| present)),
        }
    }

    /// Builds what decides at this number. A share may have a debt that takes too long to fill.
    /// Then the share `before` stays.
    #[inline(never)]
    fn build(&self, number: u64, before: Arc<Present>) -> Arc<Present> {
        let fits = |present: &Present| present.algorithm.size() <= self.first.algorithm.size();
        let mut present = self.follows.at(number).filter(fits);
        if let Some(present) = present.as_mut().filter(|_| self.refuses_to_wait) {
            present.refuse_to_wait();
        }
        let present = present.map_or(before, Arc::new);
        if let Some(mut last) = unless_taken(self.last.try_write()) {
            *last = (number, Arc::clone(&present));
        }
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

/// The guard; `None` if another worker holds the lock.
fn unless_taken<G>(tried: Result<G, TryLockError<G>>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
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
    pub(crate) fn has_changed_since(&self, instant: Time) -> bool {
        instant.as_ns() <= self.since.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::BucketOptions;
    use diana_base::time::Span;

    /// The share of `rpu: 100`, and how often it was built.
    fn share() -> (Moving, Arc<Replicas>, Arc<AtomicU64>) {
        let (replicas, built) = (Arc::new(Replicas::counted(1)), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&built);
        let build = move |number| {
            count.fetch_add(1, Ordering::Relaxed);
            let quota = Quota { rpu: 100 / number, unit: Span::from_secs(1) };
            let algorithm = Algorithm::token_bucket(quota, BucketOptions::default()).ok()?;
            Some(Present { quota, algorithm, headroom: 0 })
        };
        let moving = Moving::new(Follows::Gateways(Arc::clone(&replicas), Box::new(build))).unwrap();
        (moving, replicas, built)
    }

    #[test]
    fn a_share_is_built_once_for_each_number_however_many_workers_read_it() {
        let (moving, replicas, built) = share();
        replicas.set(4, Time::ZERO);
        assert_eq!(moving.now().quota.rpu, 25);
        assert_eq!(built.swap(0, Ordering::Relaxed), 2, "for one gateway, and for four");
        let other_worker = moving.last.read().unwrap();
        assert_eq!((0..9).map(|_| moving.now().quota.rpu).collect::<Vec<_>>(), [25; 9]);
        assert_eq!(built.load(Ordering::Relaxed), 0);
        drop(other_worker);
        // A worker that is just storing what it has built holds nobody up.
        let other_worker = moving.last.write().unwrap();
        assert_eq!((moving.now().quota.rpu, built.load(Ordering::Relaxed)), (25, 1));
        drop(other_worker);
    }
}
