//! The limit of a rule that adapts, as one worker knows it.

use super::controller::{Controller, Resource};
use super::state::State;
use std::sync::atomic::{AtomicU64, Ordering};

/// The limit of a rule that adapts: its controller, and the limit that holds now.
/// Algorithms read the limit for each request. Several times an interval, the worker reads the
/// shared state and sets the limit.
///
/// ```
/// use diana_limiter::adapt::{Adaptive, Controller, Limits, Resource, Signal};
/// use diana_limiter::time::Span;
///
/// let limits = Limits { min: 20, max: 400, start: 200 };
/// let signal = Signal::Errors { target_ppm: 50_000 };
/// let controller = Controller::new(signal, Resource::Permits, limits, Span::from_secs(10));
/// let adaptive = Adaptive::new(controller);
/// assert_eq!(adaptive.limit(), 200);
/// assert!(!adaptive.set(controller.start()), "as before");
/// ```
#[derive(Debug)]
pub struct Adaptive {
    controller: Controller,
    limit: AtomicU64,
}

impl Adaptive {
    /// The limit at first: the controller's start.
    #[must_use]
    pub fn new(controller: Controller) -> Adaptive {
        let limit = AtomicU64::new(controller.limit(controller.start()));
        Adaptive { controller, limit }
    }

    /// The controller.
    #[must_use]
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// The limit that holds now: from 1 to 10⁹.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed).max(1)
    }

    /// Sets the limit to that of the shared `state`. Returns whether it changed.
    pub fn set(&self, state: State) -> bool {
        let limit = self.controller.limit(state);
        self.limit.swap(limit, Ordering::Relaxed) != limit
    }

    /// Whether the limit is where it returns to without measurements.
    pub(crate) fn is_at_start(&self) -> bool {
        self.limit() == self.controller.limit(self.controller.start()).max(1)
    }

    /// Whether the limit is a number of permits.
    pub(crate) fn counts_permits(&self) -> bool {
        self.controller.resource() == Resource::Permits
    }
}
