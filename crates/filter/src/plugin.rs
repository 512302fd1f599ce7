//! One configuration in one worker. Host calls apply to the effective stream; the state of streams
//! is in [`Filter`](super::Filter).
//!
//! ```text
//!   configure ─► Plugin ─┬─ decide        a request's headers ─► Session::start ─► Decision
//!                        ├─ inspect       an operator's question ─► JSON
//!                        ├─ respond       Decision ─► Response, metrics, attributes
//!                        ├─ ticket        a refusal ─► what only the key's owner reads
//!                        ├─ mark          soft limits ─► headers for the upstream, metadata
//!                        ├─ global_calls  calls to global stores; their replies ─► Decision
//!                        ├─ timer         holds requests, wakes the worker for its own tasks
//!                        ├─ settle        a request's end ─► refunds
//!                        └─ follow        another document ─► the next Plugin
//! ```

mod announce;
mod configure;
mod decide;
mod decided;
mod follow;
mod global_calls;
mod inspect;
mod mark;
mod respond;
mod settle;
mod ticket;
mod timer;

pub(super) use decided::{Decided, Rejection, Response};
pub use inspect::{ACTOR_HEADER, ONLY_READS, WRONG_TOKEN};
use inspect::{Sampler, WrongTokens};

use super::clock::Clock;
use super::metering::MeteredValues;
use super::metrics::Metrics;
use super::remote_source::RemoteSource;
use super::request_body::BodyParts;
use super::sampling::Sampling;
use super::streams::NumberMap;
use super::timer_queue::TimerQueue;
use super::zone::Zone;
use crate::{Host, HostKind};
use diana_base::exclusive::Exclusive;
use diana_base::prng;
use diana_base::time::{Span, Time};
use diana_config::Configuration;
use diana_inspect::rates::Series;
use diana_inspect::top::WorkerTop;
use diana_limiter::cells::store::EvictionDetector;
use diana_limiter::session::Worker;
use diana_response::ResponseCache;
use std::cell::Cell;
use std::rc::Rc;

/// The store of the cells. The worker changes the cells; the plugin keeps other values there.
pub(super) type CellStore<H> = Rc<EvictionDetector<<H as Host>::Store>>;

/// The state that the streams of one configuration share.
pub(super) struct Plugin<H: Host> {
    pub(super) host: H,
    pub(super) kind: HostKind,
    pub(super) configuration: Configuration,
    /// Whether a route's document is laid over the listener's.
    pub(super) is_of_route: bool,
    pub(super) clock: Clock<H>,
    pub(super) store: CellStore<H>,
    /// Only if the host evicts keys.
    zone: Option<Zone>,
    /// Whether the log already reports a refusal that the host replaced.
    has_lost_refusal: Cell<bool>,
    pub(super) worker: Exclusive<Worker<CellStore<H>>>,
    /// Which actors are refused and charged most; only with `inspect: {top: true}`.
    top: Option<Exclusive<WorkerTop>>,
    /// The document server that this plugin follows, if it follows one.
    pub(super) remote: Option<Rc<RemoteSource<H>>>,
    pub(super) timer_queue: Rc<Exclusive<TimerQueue<H>>>,
    /// Whether the configuration would hold requests but the host cannot.
    refuses_to_wait: bool,
    /// How long the host waits for the reply to a call to a global store.
    call_timeout_ms: u32,
    /// The streams that wait for global stores, by ticket.
    pub(super) querying: Exclusive<NumberMap<u32>>,
    /// The latest time at which the timer fires for the worker's own tasks.
    wakes_at: Cell<Option<Time>>,
    /// The shortest span that the worker has wanted since `wakes_at` was first set.
    wanted: Cell<Option<Span>>,
    /// What the policy measures of requests.
    pub(super) metered: MeteredValues,
    /// What the policy reads of bodies before it decides.
    pub(super) body: Option<BodyParts>,
    /// How many requests have waited for their bodies in vain.
    missed_bodies: Cell<u32>,
    pub(super) metrics: Metrics<H>,
    wrong_tokens: Exclusive<WrongTokens>,
    responses: Exclusive<ResponseCache>,
    sampling: Sampling,
    /// Only with `inspect`, in a host with timers.
    sampler: Option<Sampler>,
    prng_state: Cell<u64>,
}

impl<H: Host> Plugin<H> {
    /// The host's clock. If the clock cannot be read, this is its last reading.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// The present totals of the counters that are sampled; empty if the host does not tell them.
    pub(super) fn series(&self) -> Vec<Series> {
        let clusters = self.worker.with(|worker| worker.clusters().to_vec()).unwrap_or_default();
        self.metrics.series(&self.configuration.policy, &clusters)
    }

    /// A number that clients cannot predict, for jitter.
    fn entropy(&self) -> u32 {
        let mut state = self.prng_state.get();
        let number = prng::next(&mut state);
        self.prng_state.set(state);
        number
    }
}
