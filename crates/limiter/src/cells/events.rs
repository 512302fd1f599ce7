//! What happened to cells, for metrics.

use super::table::Eviction;

/// Events of one or more operations on cells, for metrics.
///
/// ```
/// # use diana_limiter::request::{Part, Values};
/// # use diana_limiter::session::{Session, Worker};
/// # use diana_limiter::time::Time;
/// use diana_limiter::cells::store::{Fault, Loaded, Store, Swap, Version};
/// use diana_limiter::decide::RuleResult;
///
/// /// A store that is down.
/// struct Down;
///
/// impl Store for Down {
///     fn load(&self, _: &[u8]) -> Result<Option<Loaded>, Fault> {
///         Err(Fault(10))
///     }
///
///     fn swap(&self, _: &[u8], _: &[u8], _: Option<Version>) -> Result<Swap, Fault> {
///         Err(Fault(10))
///     }
/// }
///
/// let document = br#"{"url": "/", "rules": [{"name": "all", "rpu": 1, "unit": "minute"}]}"#;
/// # let policy = diana_config::compile(document).expect("a valid document").policy;
/// # let mut worker = Worker::new(&policy, &[7; 16]);
/// # let values = Values::default().with(Part::Path, "/");
/// # let request = policy.request(&values);
/// # let now = || Time::from_ns(1_795_392_000_000_000_000);
/// // The engine fails open: the request passes uncounted, and the metrics tell.
/// let (_, decision) = Session::start(&policy, &mut worker, &Down, &request, now);
/// assert!(!decision.is_rejected());
/// assert_eq!(decision.reports[0].result, RuleResult::Uncounted);
/// assert_eq!((decision.events.faults, decision.events.swaps_lost), (1, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Cells that were evicted without loss.
    pub evicted_lossless: u32,
    /// Cells that were evicted although their actors then start anew.
    pub evicted_lossy: u32,
    /// Newcomers that were refused because every cell of their set refuses.
    pub set_full: u32,
    /// Swaps that were lost to another worker.
    pub swaps_lost: u32,
    /// Loads or swaps that failed.
    pub faults: u32,
    /// Foreign values: Diana did not write them, or they have another shape.
    pub foreign: u32,
    /// Refusals from the worker's refusal cache.
    pub cached: u32,
    /// Requests that pass although a deny list in shadow names the client.
    pub denied_in_shadow: u32,
    /// Costs that are a number of a response and could not be read.
    pub unread: u32,
}

impl Events {
    /// Adds the lost swaps, the faults and the unread costs of `other`.
    pub(crate) fn add(&mut self, other: &Events) {
        self.swaps_lost = self.swaps_lost.saturating_add(other.swaps_lost);
        self.faults = self.faults.saturating_add(other.faults);
        self.unread = self.unread.saturating_add(other.unread);
    }

    pub(crate) fn evicted(&mut self, eviction: Option<Eviction>) {
        let counter = match eviction {
            Some(Eviction::Lossless) => &mut self.evicted_lossless,
            Some(Eviction::Lossy) => &mut self.evicted_lossy,
            Some(Eviction::SetFull { .. }) => &mut self.set_full,
            None => return,
        };
        *counter = counter.saturating_add(1);
    }
}
