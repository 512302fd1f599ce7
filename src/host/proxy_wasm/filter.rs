//! One VM's filter: its plugins and the state of their streams. It finds the plugin of a callback,
//! calls the session, and performs the resulting action.
//!
//! ```text
//!   proxy_on_context_create     root    adds a plugin
//!                               stream  remembers its plugin until the headers come
//!   proxy_on_configure          root    configuration, store, seed ─► Plugin
//!   proxy_on_request_headers    stream  Session::start ─► pass, hold, reply, or query a store
//!   proxy_on_http_call_response root    a store's reply ─► Session::answer of each waiting stream
//!   proxy_on_grpc_receive, …_close      the same
//!   proxy_on_response_headers   stream  adds RateLimit headers
//!   proxy_on_tick               root    resumes streams at their turns, ends queries that time out
//!   proxy_on_delete             stream  Session::settle
//!                               root    resumes all streams
//! ```
//!
//! A stream without charges, headers or a wait leaves no state here; most streams are such.

mod following;
mod global_calls;

use super::callbacks::Callbacks;
use super::calls::{self, LocalReply};
use super::candidate::CandidateDecision;
use super::metrics::Ids;
use super::plugin::{Handled, NextAction, Plugin};
use super::streams::{NewStreams, NumberMap};
use super::timer_queue::{Held, Turn};
use diana_base::exclusive::Exclusive;
use diana_base::time::Time;
use diana_limiter::session::Session;
use std::cell::Cell;
use std::rc::Rc;

/// At most this many earlier configurations are kept. Permits held by streams of older
/// configurations expire in the store.
const MAX_RETIRED: usize = 16;

/// What the host does with a request or a response after a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The host passes it on.
    Continue = 0,
    /// The host holds it until the filter resumes it or replies.
    Pause = 1,
}

/// The state of one stream.
struct Stream {
    plugin: Rc<Plugin>,
    session: Session,
    /// Headers for the response.
    headers: Vec<(&'static str, String)>,
    /// Whether the stream waits for its turn or for a store.
    is_waiting: bool,
    /// Whether the client speaks gRPC; set only if the stream waits for a store.
    is_grpc: bool,
    /// The candidate's decision about the same request.
    candidate: Option<CandidateDecision>,
}

/// The filter of one VM, driven by the callbacks of its host.
#[derive(Default)]
pub struct Filter {
    /// Plugins by their root contexts; few.
    plugins: Exclusive<Vec<(u32, Option<Rc<Plugin>>)>>,
    /// Earlier configurations of plugins that still have reports for stores, such as the permits
    /// that their streams hold.
    retired: Exclusive<Vec<(u32, Rc<Plugin>)>>,
    new_streams: Exclusive<NewStreams>,
    streams: Exclusive<NumberMap<Stream>>,
    /// Calls in flight to stores, by the host's numbers: the plugin and its own number for the
    /// call.
    calls: Exclusive<NumberMap<(Rc<Plugin>, u32)>>,
    /// Calls in flight to document servers: the host's number and the plugin's root context; few.
    polls: Exclusive<Vec<(u32, u32)>>,
    ids: Rc<Ids>,
    /// How many requests all plugins hold.
    held_requests: Rc<Cell<usize>>,
    callbacks: Callbacks,
}

impl Filter {
    /// A filter that receives only these callbacks.
    pub fn with(callbacks: Callbacks) -> Filter {
        #[cfg(not(target_arch = "wasm32"))]
        super::logger::install();
        Filter { callbacks, ..Filter::default() }
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

    /// Creates a context: a plugin's if `parent` is 0, else that of a stream of the plugin
    /// `parent`.
    pub fn on_context_create(&self, id: u32, parent: u32) {
        if parent != 0 {
            self.end_stream(id);
            self.new_streams.with(|streams| streams.put(id, parent));
        } else if self.plugin(id).is_none() {
            self.plugins.with(|plugins| plugins.push((id, None)));
        }
    }

    /// Configures the plugin `root` with `size` bytes. If the result is `false`, the configuration
    /// is refused, and the host and the plugin keep the previous one.
    pub fn on_configure(&self, root: u32, size: usize) -> bool {
        let before = self.plugin(root).flatten();
        let Some(plugin) = Plugin::configure(size, before.as_deref(), &self.ids, self.callbacks) else {
            return false;
        };
        plugin.timer_queue.with(|queue| queue.share_held_requests(&self.held_requests));
        self.activate(root, plugin);
        true
    }

    /// Replaces the active configuration of the plugin `root`.
    fn activate(&self, root: u32, plugin: Plugin) {
        let before = self.plugin(root).flatten();
        self.plugins.with(|plugins| {
            plugin.migrate_from(before.as_deref(), plugins);
            plugins.retain(|(known, _)| *known != root);
            plugins.push((root, Some(Rc::new(plugin))));
        });
        if let Some(before) = before {
            before.retire();
            self.send_calls(&before);
            self.retired.with(|retired| {
                if retired.len() >= MAX_RETIRED {
                    retired.remove(0);
                }
                retired.push((root, before));
            });
        }
        self.wake(root);
    }

    /// Arms the timer for the next task of the plugin `root`.
    fn wake(&self, root: u32) {
        self.plugin(root).flatten().iter().for_each(|plugin| plugin.wake());
    }

    /// Decides about a stream when its request headers arrive.
    pub fn on_request_headers(&self, id: u32) -> Action {
        let parent = self.new_streams.with(|streams| streams.take(id)).flatten();
        let Some(plugin) = parent.and_then(|parent| self.plugin(parent)).flatten() else {
            return self.on_request_more(id);
        };
        let Some((session, Handled { headers, action }, is_grpc, candidate)) = plugin.decide() else {
            return Action::Continue;
        };
        let stream =
            Stream { plugin: Rc::clone(&plugin), session, headers, is_waiting: false, is_grpc, candidate };
        match action {
            NextAction::Query(ticket) => {
                self.keep_stream(id, Stream { is_waiting: true, ..stream });
                self.hold_for_query(id, ticket, &plugin)
            }
            action => {
                let is_waiting = matches!(action, NextAction::Hold(..));
                self.keep_stream(id, Stream { is_waiting, ..stream });
                self.perform(id, &plugin, action)
            }
        }
    }

    /// Performs an action on the effective stream.
    fn perform(&self, id: u32, plugin: &Plugin, action: NextAction) -> Action {
        match action {
            NextAction::Pass | NextAction::Query(_) => Action::Continue,
            // If the reply cannot be sent, the host must not keep the request.
            NextAction::Reply(reply) if calls::send_local_response(&reply).is_err() => Action::Continue,
            NextAction::Reply(_) => Action::Pause,
            NextAction::Hold(until, held) => match plugin.hold(id, until, held) {
                Ok(()) => Action::Pause,
                Err(held) => self.act_without_timer(id, held),
            },
        }
    }

    /// The request's body or trailers have arrived. They wait with the headers.
    pub fn on_request_more(&self, id: u32) -> Action {
        match self.is_waiting(id) {
            true => Action::Pause,
            false => Action::Continue,
        }
    }

    /// Adds headers to the response before the host sends it.
    pub fn on_response_headers(&self, id: u32) -> Action {
        let headers = self
            .streams
            .with(|streams| streams.get_mut(id).map(|stream| std::mem::take(&mut stream.headers)));
        for (name, value) in headers.flatten().unwrap_or_default() {
            // List-valued headers may have several lines, and an upstream's own limits stay valid
            // beside ours.
            if name.starts_with("x-") {
                calls::replace_response_header(name, &value);
            } else {
                calls::add_response_header(name, &value);
            }
        }
        Action::Continue
    }

    /// The timer of the plugin `root` has fired.
    pub fn on_tick(&self, root: u32) {
        let Some(plugin) = self.plugin(root).flatten() else {
            return;
        };
        let now = plugin.monotonic();
        let due = plugin.timer_queue.with(|queue| queue.begin_tick(now)).unwrap_or_default();
        // This runs first because it arms the timer again. A stopped timer might fail to start
        // again.
        self.follow(root, &plugin);
        let completions = plugin.tick(now);
        let touched_streams = !due.is_empty() || !completions.is_empty();
        let stuck: Vec<(u32, Turn)> =
            due.into_iter().filter_map(|(id, turn)| self.resume(id, turn, &plugin, now)).collect();
        self.deliver(&plugin, completions);
        self.send_calls(&plugin);
        let touched_retired = self.tick_retired(root, now);
        if touched_streams || touched_retired {
            // The timer belongs to the plugin's context. If this call fails, the timer keeps its
            // period.
            _ = calls::set_effective_context(root);
        }
        let abandoned = plugin.timer_queue.with(|queue| queue.finish_tick(stuck, now));
        self.wake(root);
        abandoned.unwrap_or_default().into_iter().for_each(|id| self.end_stream(id));
    }

    /// The host has deleted a context: a stream's, or a plugin's with all streams that wait there.
    pub fn on_delete(&self, id: u32) {
        self.new_streams.with(|streams| streams.take(id));
        if self.has_stream(id) {
            return self.end_stream(id);
        }
        let remove = |plugins: &mut Vec<(u32, _)>| {
            let index = plugins.iter().position(|(root, _)| *root == id)?;
            Some(plugins.swap_remove(index))
        };
        if let Some((_, Some(plugin))) = self.plugins.with(remove).flatten() {
            self.polls.with(|polls| polls.retain(|(_, root)| *root != id));
            plugin.retire();
            self.send_calls(&plugin);
            self.retired.with(|retired| retired.retain(|(of, _)| *of != id));
            // A request that stops waiting for its store may then wait for its turn, but no timer
            // fires any more. The second pass resumes these requests.
            for _ in 0..2 {
                let (all, now) = (plugin.timer_queue.with(|queue| queue.drain()), plugin.monotonic());
                let all = all.unwrap_or_default().into_iter();
                all.for_each(|(id, turn)| _ = self.resume(id, turn, &plugin, now));
            }
            self.forget_calls(&plugin);
        }
    }

    /// Lets earlier configurations of the plugin send their reports to stores. Returns whether the
    /// effective context may be a stream now.
    fn tick_retired(&self, root: u32, now: Time) -> bool {
        self.retired.with(|retired| retired.retain(|(_, plugin)| !plugin.is_done()));
        let of = |retired: &mut Vec<(u32, Rc<Plugin>)>| {
            let own = retired.iter().filter(|(of, _)| *of == root);
            own.map(|(_, plugin)| Rc::clone(plugin)).collect::<Vec<_>>()
        };
        let retired = self.retired.with(of).unwrap_or_default();
        for plugin in &retired {
            let completions = plugin.tick(now);
            self.deliver(plugin, completions);
            self.send_calls(plugin);
        }
        !retired.is_empty()
    }

    /// The plugin of a root context: `None` if the context does not exist, `Some(None)` if it has
    /// no configuration yet.
    fn plugin(&self, root: u32) -> Option<Option<Rc<Plugin>>> {
        let find = |plugins: &mut Vec<(u32, Option<Rc<Plugin>>)>| {
            plugins.iter().find(|(known, _)| *known == root).map(|(_, plugin)| plugin.clone())
        };
        self.plugins.with(find).flatten()
    }

    fn is_waiting(&self, id: u32) -> bool {
        self.streams.with(|streams| streams.get_mut(id).is_some_and(|stream| stream.is_waiting)) == Some(true)
    }

    fn has_stream(&self, id: u32) -> bool {
        self.streams.with(|streams| streams.get_mut(id).is_some()) == Some(true)
    }

    /// Keeps the state of a stream if anything remains to be done for it.
    fn keep_stream(&self, id: u32, stream: Stream) {
        let needs_settling = stream.session.has_charges() || stream.candidate.is_some();
        if stream.is_waiting || needs_settling || !stream.headers.is_empty() {
            self.streams.with(|streams| streams.insert(id, stream));
        }
    }

    /// Sets whether a stream waits; `false` if the stream has ended. A stream that stops waiting
    /// has used its turn, so its end does not refund the turn.
    fn set_waiting(&self, id: u32, is_waiting: bool) -> bool {
        let set = |streams: &mut NumberMap<Stream>| {
            let stream = streams.get_mut(id)?;
            stream.is_waiting = is_waiting;
            if !is_waiting {
                stream.session.resume();
            }
            Some(())
        };
        self.streams.with(set).flatten().is_some()
    }

    /// Acts at once on a stream that cannot be held because the host has no timer.
    fn act_without_timer(&self, id: u32, held: Held) -> Action {
        self.set_waiting(id, false);
        match held {
            Held::Refusal(reply) if calls::send_local_response(&reply).is_ok() => Action::Pause,
            Held::Request | Held::Refusal(_) | Held::Query => Action::Continue,
        }
    }

    /// Resumes a stream whose turn has come. Returns the stream if the host does not resume it and
    /// has not reported its end.
    fn resume(&self, id: u32, turn: Turn, plugin: &Plugin, now: Time) -> Option<(u32, Turn)> {
        if let Held::Query = turn.held {
            let is_stuck = !self.give_up(id) && self.is_waiting(id);
            return is_stuck.then_some((id, turn));
        }
        // The state changes before the host call, because the host may end the stream before the
        // call returns.
        if !self.set_waiting(id, false) {
            return None;
        }
        let send = |reply: &LocalReply| calls::send_local_response(reply).is_ok();
        let resume = || {
            let waited = now.since(turn.since);
            Plugin::set_waited(waited);
            let is_resumed = calls::resume_request().is_ok();
            if is_resumed {
                plugin.metrics.waited(waited);
            }
            is_resumed
        };
        let is_released = calls::set_effective_context(id).is_ok()
            && match &turn.held {
                Held::Request => resume(),
                Held::Refusal(reply) if send(reply) => true,
                // If the reply cannot be sent, the host must not keep the request.
                Held::Refusal(_) | Held::Query => calls::resume_request().is_ok(),
            };
        (!is_released && self.set_waiting(id, true)).then_some((id, turn))
    }

    /// Settles a stream that has ended: releases its permits, or refunds all its charges if it
    /// waited.
    fn end_stream(&self, id: u32) {
        let Some(mut stream) = self.streams.with(|streams| streams.remove(id)).flatten() else {
            return;
        };
        if stream.is_waiting {
            stream.plugin.timer_queue.with(|queue| queue.remove(id));
        }
        stream.candidate.iter_mut().for_each(|candidate| candidate.settle(&stream.plugin, stream.is_waiting));
        if stream.session.has_charges() {
            self.plugins.with(|plugins| {
                let active = plugins.iter().filter_map(|(_, plugin)| plugin.as_ref());
                active.for_each(|active| stream.plugin.settle_migrated(&stream.session, active));
            });
            stream.plugin.forget(stream.session.ticket());
            stream.plugin.settle(&mut stream.session);
            self.send_calls(&stream.plugin);
        }
    }
}
