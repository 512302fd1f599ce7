//! The number of gateways that divide a global quota while the store is down.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of gateways that divide each global quota while the store is down.
///
/// ```
/// use diana_limiter::policy::Replicas;
///
/// let replicas = Replicas::counted(7);
/// assert_eq!(replicas.number(), 1, "until the store has counted");
/// assert!(replicas.set(3) && !replicas.set(3));
/// assert_eq!(replicas.number(), 3);
/// // Whatever a store says, nobody divides by zero.
/// replicas.set(0);
/// replicas.set(u64::MAX);
/// assert_eq!(replicas.number(), Replicas::MAX);
/// assert_eq!(Replicas::fixed(4).number(), 4);
/// ```
#[derive(Debug)]
pub struct Replicas {
    number: AtomicU64,
    /// How often the number has changed.
    moves: AtomicU64,
    /// `None` if the configuration states the number.
    stores: Option<u64>,
}

impl Replicas {
    /// The largest number.
    pub const MAX: u64 = 10_000;

    /// The number that the configuration states.
    #[must_use]
    pub fn fixed(number: u64) -> Replicas {
        Replicas { number: AtomicU64::new(number.max(1)), moves: AtomicU64::new(0), stores: None }
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

    /// Sets the number, limited to its range. Returns whether it changed.
    pub fn set(&self, number: u64) -> bool {
        let number = number.clamp(1, Replicas::MAX);
        let has_changed = self.number.swap(number, Ordering::Relaxed) != number;
        if has_changed {
            self.moves.fetch_add(1, Ordering::Relaxed);
        }
        has_changed
    }

    /// How often the number has changed.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }

    /// The number for which a share needs most room: that of one gateway, unless the configuration
    /// states the number.
    pub(crate) fn fewest(&self) -> u64 {
        if self.stores.is_some() { 1 } else { self.number() }
    }
}
