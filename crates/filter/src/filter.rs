//! One VM's filter: its plugins and the state of their streams. The filter finds the plugin of a
//! callback, and carries out the plugin's decision.
//!
//! ```text
//!   proxy_on_context_create     root    adds a plugin
//!                               stream  remembers its plugin until the headers come
//!   proxy_on_configure          root    configuration, store, seed ─► Plugin
//!   proxy_on_request_headers    stream  Session::start ─► pass, hold, reply or query
//!   proxy_on_request_body       stream  reads the body that a decision needs
//!   proxy_on_http_call_response root    replies ─► Session::answer of each waiting stream
//!   proxy_on_response_headers   stream  adds RateLimit headers
//!   proxy_on_tick               root    resumes streams at their turns, ends queries that time out
//!   proxy_on_delete             stream  Session::settle
//!                               root    resumes all streams
//! ```
//!
//! A stream without charges, headers or a wait leaves no state here; most streams are such.

mod contexts;
mod following;
mod global_calls;
mod metering;
mod plugins;
mod rates;
mod request_body;
mod requests;
mod streams;
mod ticks;

use super::metering::Metering;
use super::metrics::Ids;
use super::plugin::{Plugin, Rejection};
use super::request_body::BodyReader;
use super::streams::{NewStreams, NumberMap};
use super::timer_queue::HeldStreams;
use crate::Host;
use diana_base::exclusive::Exclusive;
use diana_limiter::session::Session;
use diana_response::{QuotaHeaders, RefusalForm};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// What the host does with a request or a response after a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The host passes it on.
    Continue,
    /// The host drops it: the filter has replied to the request.
    Stop,
    /// The host holds it, with all that follows, until the filter resumes it or replies. What the
    /// host's buffers cannot hold waits at the client.
    Hold,
    /// The host holds the headers, and hands on the body as it comes, for the filter to decide. An
    /// action for headers only.
    Read,
}

impl Action {
    /// The action for a later part of a request: the part waits with the headers.
    fn of_part(is_waiting: bool) -> Action {
        if is_waiting { Action::Hold } else { Action::Continue }
    }
}

/// Plugins by their root contexts; `None` until a plugin has a configuration.
type Plugins<H> = Vec<(u32, Option<Rc<Plugin<H>>>)>;

/// The state of one stream.
struct Stream<H: Host> {
    plugin: Rc<Plugin<H>>,
    session: Session,
    /// Headers for the response.
    headers: Option<QuotaHeaders>,
    /// Whether the stream waits for its turn or for a global store.
    is_waiting: bool,
    /// Whether all of the request that the upstream waits for has arrived.
    is_complete: bool,
    /// The form of a refusal that the client expects; set only if the stream waits for a global
    /// store.
    form: RefusalForm,
    /// The refusal that was sent, if another response may replace it, until the response shows
    /// whether the client gets the refusal.
    refusal: Option<Box<Rejection<H>>>,
    /// The number of that refusal; 0 if the request was not refused.
    refusal_number: u64,
    /// What the request used so far, if a rule has to know.
    metering: Option<Box<Metering>>,
    /// Set while the request waits for its body. No rule has counted the request yet.
    body: Option<Box<BodyReader>>,
}

/// The filter of one VM, driven by the callbacks of its host.
pub struct Filter<H: Host> {
    host: H,
    /// Plugins by their root contexts; few.
    plugins: Exclusive<Plugins<H>>,
    /// Earlier configurations of plugins that still have reports for global stores, such as the
    /// permits that their streams hold.
    retired: Exclusive<Vec<(u32, Rc<Plugin<H>>)>>,
    new_streams: Exclusive<NewStreams>,
    /// The number of the plugins' mark in the host; set if the host announces no contexts.
    mark: Cell<Option<u32>>,
    streams: Exclusive<NumberMap<Box<Stream<H>>>>,
    /// The last streams that were refused, if other responses may replace refusals, oldest first,
    /// each with the number of its refusal: the requests of a connection share one id.
    refused: Exclusive<VecDeque<(u32, u64)>>,
    refusals: Cell<u64>,
    /// Calls in flight to stores, by the host's numbers: the plugin and its own number for the
    /// call.
    calls: Exclusive<NumberMap<(Rc<Plugin<H>>, u32)>>,
    /// Calls in flight to document servers: the host's number and the plugin's root context; few.
    polls: Exclusive<Vec<(u32, u32)>>,
    ids: Rc<Ids>,
    /// Whether there was an event after a configuration. Envoy first tries each configuration in a
    /// VM that ends without notice, so gauges of documents show nothing before.
    is_live: Cell<bool>,
    held_streams: Rc<HeldStreams>,
}

impl<H: Host> Filter<H> {
    /// A filter without plugins.
    pub fn new(host: H) -> Filter<H> {
        Filter {
            host,
            plugins: Exclusive::default(),
            retired: Exclusive::default(),
            new_streams: Exclusive::default(),
            mark: Cell::default(),
            streams: Exclusive::default(),
            refused: Exclusive::default(),
            refusals: Cell::default(),
            calls: Exclusive::default(),
            polls: Exclusive::default(),
            ids: Rc::default(),
            is_live: Cell::default(),
            held_streams: Rc::default(),
        }
    }

    /// How many streams have state: a charge to refund, headers to add, or a wait.
    pub fn streams(&self) -> usize {
        self.streams.with(|streams| streams.len()).unwrap_or(0)
    }

    /// How many calls are in flight.
    pub fn calling(&self) -> usize {
        let polls = self.polls.with(|polls| polls.len());
        self.calls.with(|calls| calls.len()).unwrap_or(0).saturating_add(polls.unwrap_or(0))
    }

    /// Recovers from a panic, for hosts that contain panics. The request gets what `on_error` of
    /// its rules says, as if all stores were down.
    ///
    /// Decides about the effective stream `id` of the plugin `root` after a panic in one of its
    /// callbacks, or in a callback that concerned it. `reads`: whether the decision reads the
    /// request, which may panic once more. Call [`Filter::on_delete`] for the stream first.
    pub fn on_panic(&self, root: u32, reads: bool) -> Action {
        let Some(plugin) = self.plugin(root).flatten() else {
            return Action::Continue;
        };
        let reply = plugin.decide_after_panic(reads).and_then(|response| response.rejection);
        reply.map_or(Action::Continue, |rejection| self.send(&rejection.reply))
    }
}
