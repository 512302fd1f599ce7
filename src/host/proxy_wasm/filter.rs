//! One VM's filter: its plugins, and what it owes to their streams.
//!
//! It does not know: rules. It finds whom a callback is about, and does what comes of it.
//!
//! ```text
//!   proxy_on_context_create     root    a plugin          stream  remembered until its headers come
//!   proxy_on_configure          root    configuration, store, seed ─► Gateway
//!   proxy_on_request_headers    stream  Session::start ─► pass, wait, send_local_response, or ask a store
//!   proxy_on_http_call_response root    a store has answered: Session::answer of each stream that it is about
//!   proxy_on_grpc_receive, …_close      the same
//!   proxy_on_response_headers   stream  adds RateLimit headers
//!   proxy_on_tick               root    lets go on whose turn has come, or who has waited long enough for a store
//!   proxy_on_delete             stream  Session::settle   root  lets go on who waits
//! ```
//!
//! A stream to which nothing is owed leaves nothing behind here, and most are such.

mod following;
mod global_calls;

use super::callbacks::Callbacks;
use super::calls::{self, LocalReply};
use super::candidate::CandidateDecision;
use super::metrics::Ids;
use super::plugin::{Handled, NextAction, Plugin};
use super::streams::{NewStreams, NumberMap};
use super::timer_queue::{Held, Turn};
use crate::exclusive::Exclusive;
use crate::session::Session;
use crate::time::Time;
use std::cell::Cell;
use std::rc::Rc;

/// At most this many earlier configurations are kept. Permits held by streams of older ones expire in the store.
const MAX_RETIRED: usize = 16;

/// What becomes of a request or a response now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It goes on.
    Continue = 0,
    /// It stays where it is until the filter resumes or answers it.
    Pause = 1,
}

/// What is owed to one stream.
struct Stream {
    plugin: Rc<Plugin>,
    session: Session,
    /// What the response will carry.
    headers: Vec<(&'static str, String)>,
    /// Whether it has a turn to wait for, or a store.
    is_waiting: bool,
    /// Whether its client speaks gRPC, if it has to wait for a store.
    is_grpc: bool,
    /// What was decided about it by what is tried.
    candidate: Option<CandidateDecision>,
}

/// The filter of one VM, driven by the callbacks of its host.
#[derive(Default)]
pub struct Filter {
    /// By the number of its root context; few.
    plugins: Exclusive<Vec<(u32, Option<Rc<Plugin>>)>>,
    /// Earlier configurations of plugins that still have reports for stores, such as the permits that their streams hold.
    retired: Exclusive<Vec<(u32, Rc<Plugin>)>>,
    new_streams: Exclusive<NewStreams>,
    streams: Exclusive<NumberMap<Stream>>,
    /// The calls to stores that are under way, by the host's numbers: whose they are, and its own numbers.
    calls: Exclusive<NumberMap<(Rc<Plugin>, u32)>>,
    /// The calls to servers of documents that are under way, by the host's numbers, and for which plugins; few.
    polls: Exclusive<Vec<(u32, u32)>>,
    ids: Rc<Ids>,
    /// How many requests all plugins hold.
    held_requests: Rc<Cell<usize>>,
    callbacks: Callbacks,
}

impl Filter {
    /// A filter to which only these callbacks are made.
    pub fn with(callbacks: Callbacks) -> Filter {
        Filter { callbacks, ..Filter::default() }
    }

    /// To how many streams something is owed: a charge to be given back, headers, a turn to wait for.
    pub fn streams(&self) -> usize {
        self.streams.with(|streams| streams.len()).unwrap_or(0)
    }

    /// How many calls it takes for not answered yet.
    pub fn calling(&self) -> usize {
        let polls = self.polls.with(|polls| polls.len());
        self.calls.with(|calls| calls.len()).unwrap_or(0).saturating_add(polls.unwrap_or(0))
    }

    /// A context begins: a plugin's, whose parent is 0, or that of a stream of the plugin `parent`.
    pub fn on_context_create(&self, id: u32, parent: u32) {
        if parent != 0 {
            self.end_stream(id);
            self.new_streams.with(|streams| streams.put(id, parent));
        } else if self.plugin(id).is_none() {
            self.plugins.with(|plugins| plugins.push((id, None)));
        }
    }

    /// The plugin `root` gets a configuration of so many bytes. `false`, when it is refused, lets the host and
    /// the plugin keep the one they have.
    pub fn on_configure(&self, root: u32, size: usize) -> bool {
        let before = self.plugin(root).flatten();
        let Some(plugin) = Plugin::configure(size, before.as_deref(), &self.ids, self.callbacks) else {
            return false;
        };
        plugin.timer_queue.with(|queue| queue.share_held_requests(&self.held_requests));
        self.activate(root, plugin);
        true
    }

    /// The plugin `root` serves by this from now on.
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

    /// Sees to it that the timer of the plugin `root` fires when that is wanted.
    fn wake(&self, root: u32) {
        self.plugin(root).flatten().iter().for_each(|plugin| plugin.wake());
    }

    /// A stream's request headers have come.
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
                let waits = matches!(action, NextAction::Hold(..));
                self.keep_stream(id, Stream { is_waiting: waits, ..stream });
                self.perform(id, &plugin, action)
            }
        }
    }

    /// Does what was decided about the stream whose callback runs.
    fn perform(&self, id: u32, plugin: &Plugin, action: NextAction) -> Action {
        match action {
            NextAction::Pass | NextAction::Query(_) => Action::Continue,
            // A host that cannot answer must not be left holding the request.
            NextAction::Reply(reply) if calls::send_local_response(&reply).is_err() => Action::Continue,
            NextAction::Reply(_) => Action::Pause,
            NextAction::Hold(until, held) => match plugin.hold(id, until, held) {
                Ok(()) => Action::Pause,
                Err(held) => self.act_without_timer(id, held),
            },
        }
    }

    /// More of a request has come: its body, or its trailers. It has to wait with it.
    pub fn on_request_more(&self, id: u32) -> Action {
        match self.is_waiting(id) {
            true => Action::Pause,
            false => Action::Continue,
        }
    }

    /// The headers of a stream's response are about to go.
    pub fn on_response_headers(&self, id: u32) -> Action {
        let headers = self
            .streams
            .with(|streams| streams.get_mut(id).map(|stream| std::mem::take(&mut stream.headers)));
        for (name, value) in headers.flatten().unwrap_or_default() {
            // Lists may be made of several lines, and an upstream's own limits are true as well.
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
        // First of all, so that the timer is not stopped, which might not be had again.
        self.follow(root, &plugin);
        let completions = plugin.tick(now);
        let some = !due.is_empty() || !completions.is_empty();
        let late: Vec<(u32, Turn)> =
            due.into_iter().filter_map(|(id, turn)| self.resume(id, turn, &plugin, now)).collect();
        self.deliver(&plugin, completions);
        self.send_calls(&plugin);
        let retired = self.tick_retired(root, now);
        if some || retired {
            // The timer is the plugin's. If this fails the timer goes on as it is.
            _ = calls::set_effective_context(root);
        }
        let lost = plugin.timer_queue.with(|queue| queue.finish_tick(late, now));
        self.wake(root);
        lost.unwrap_or_default().into_iter().for_each(|id| self.end_stream(id));
    }

    /// A context is gone: a stream's, or a plugin's with all that waits there.
    pub fn on_delete(&self, id: u32) {
        self.new_streams.with(|streams| streams.take(id));
        if self.has_stream(id) {
            return self.end_stream(id);
        }
        let place = |plugins: &mut Vec<(u32, _)>| {
            let place = plugins.iter().position(|(known, _)| *known == id)?;
            Some(plugins.swap_remove(place))
        };
        if let Some((_, Some(plugin))) = self.plugins.with(place).flatten() {
            self.polls.with(|polls| polls.retain(|(_, root)| *root != id));
            plugin.retire();
            self.send_calls(&plugin);
            self.retired.with(|retired| retired.retain(|(of, _)| *of != id));
            // A request that gives up its store may have to wait for its turn, which no timer ends any more. The second
            // pass resumes such requests.
            for _ in 0..2 {
                let (all, now) = (plugin.timer_queue.with(|queue| queue.drain()), plugin.monotonic());
                let all = all.unwrap_or_default().into_iter();
                all.for_each(|(id, turn)| _ = self.resume(id, turn, &plugin, now));
            }
            self.forget_calls(&plugin);
        }
    }

    /// Lets earlier configurations of the plugin send their reports to stores. Returns whether the host's calls may be
    /// about a stream now.
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

    /// A plugin that has begun, and what it was configured to.
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

    /// Remembers what is owed to a stream, if anything is.
    fn keep_stream(&self, id: u32, stream: Stream) {
        let has_charges = stream.session.has_charges() || stream.candidate.is_some();
        if stream.is_waiting || has_charges || !stream.headers.is_empty() {
            self.streams.with(|all| all.insert(id, stream));
        }
    }

    /// Sets whether a stream has a turn to wait for; `false` if it is gone. One that goes on keeps its turn.
    fn set_waiting(&self, id: u32, waits: bool) -> bool {
        let set = |all: &mut NumberMap<Stream>| {
            let stream = all.get_mut(id)?;
            stream.is_waiting = waits;
            if !waits {
                stream.session.resume();
            }
            Some(())
        };
        self.streams.with(set).flatten().is_some()
    }

    /// There is no timer to wait for: what would have happened then happens at once.
    fn act_without_timer(&self, id: u32, held: Held) -> Action {
        self.set_waiting(id, false);
        match held {
            Held::Refusal(reply) if calls::send_local_response(&reply).is_ok() => Action::Pause,
            Held::Request | Held::Refusal(_) | Held::Query => Action::Continue,
        }
    }

    /// Lets a stream go whose turn has come. Returned is one that the host does not let go, though it has not
    /// said that it is gone.
    fn resume(&self, id: u32, turn: Turn, plugin: &Plugin, now: Time) -> Option<(u32, Turn)> {
        if let Held::Query = turn.held {
            let is_lost = !self.give_up(id) && self.is_waiting(id);
            return is_lost.then_some((id, turn));
        }
        // Before the host is told: it may end the stream before it returns.
        if !self.set_waiting(id, false) {
            return None;
        }
        let replied = |reply: &LocalReply| calls::send_local_response(reply).is_ok();
        let resumes = || {
            let waited = now.since(turn.since);
            Plugin::set_waited(waited);
            let resumes = calls::resume_request().is_ok();
            if resumes {
                plugin.metrics.waited(waited);
            }
            resumes
        };
        let gone = calls::set_effective_context(id).is_ok()
            && match &turn.held {
                Held::Request => resumes(),
                Held::Refusal(reply) if replied(reply) => true,
                // A host that cannot answer must not be left holding the request.
                Held::Refusal(_) | Held::Query => calls::resume_request().is_ok(),
            };
        (!gone && self.set_waiting(id, true)).then_some((id, turn))
    }

    /// A stream is over: what was held for its duration is given back, or all of it if it waited.
    fn end_stream(&self, id: u32) {
        let Some(mut stream) = self.streams.with(|all| all.remove(id)).flatten() else {
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
