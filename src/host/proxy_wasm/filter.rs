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
use super::streams::{Newest, NumberMap};
use super::timer_queue::{Parked, Turn};
use crate::exclusive::Exclusive;
use crate::session::Session;
use crate::time::Time;
use std::cell::Cell;
use std::rc::Rc;

/// At most this many earlier configurations are kept. Permits held by streams of older ones expire in the store.
const MOST_RETIRED: usize = 16;

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
    waits: bool,
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
    newest: Exclusive<Newest>,
    streams: Exclusive<NumberMap<Stream>>,
    /// The calls to stores that are under way, by the host's numbers: whose they are, and its own numbers.
    calls: Exclusive<NumberMap<(Rc<Plugin>, u32)>>,
    /// The calls to servers of documents that are under way, by the host's numbers, and for which plugins; few.
    polls: Exclusive<Vec<(u32, u32)>>,
    ids: Rc<Ids>,
    /// How many requests all plugins hold.
    held: Rc<Cell<usize>>,
    callbacks: Callbacks,
}

impl Filter {
    /// A filter to which only these callbacks are made.
    pub fn with(callbacks: Callbacks) -> Filter {
        Filter { callbacks, ..Filter::default() }
    }

    /// To how many streams something is owed: a charge to be given back, headers, a turn to wait for.
    pub fn streams(&self) -> usize {
        self.streams.with(|owed| owed.len()).unwrap_or(0)
    }

    /// How many calls it takes for not answered yet.
    pub fn calling(&self) -> usize {
        let polls = self.polls.with(|polls| polls.len());
        self.calls.with(|calls| calls.len()).unwrap_or(0).saturating_add(polls.unwrap_or(0))
    }

    /// A context begins: a plugin's, whose parent is 0, or that of a stream of the plugin `parent`.
    pub fn on_context_create(&self, id: u32, parent: u32) {
        if parent != 0 {
            self.end(id);
            self.newest.with(|newest| newest.put(id, parent));
        } else if self.plugin(id).is_none() {
            self.plugins.with(|plugins| plugins.push((id, None)));
        }
    }

    /// The plugin `root` gets a configuration of so many bytes. `false`, when it is refused, lets the host and
    /// the plugin keep the one they have.
    pub fn on_configure(&self, root: u32, size: usize) -> bool {
        let before = self.plugin(root).flatten();
        let Some(gateway) = Plugin::configure(size, before.as_deref(), &self.ids, self.callbacks) else {
            return false;
        };
        gateway.timer_queue.with(|waiting| waiting.count_in(&self.held));
        self.serve(root, gateway);
        true
    }

    /// The plugin `root` serves by this from now on.
    fn serve(&self, root: u32, gateway: Plugin) {
        let before = self.plugin(root).flatten();
        self.plugins.with(|plugins| {
            gateway.migrate_from(before.as_deref(), plugins);
            plugins.retain(|(known, _)| *known != root);
            plugins.push((root, Some(Rc::new(gateway))));
        });
        if let Some(before) = before {
            before.retire();
            self.exchange(&before);
            self.retired.with(|retired| {
                if retired.len() >= MOST_RETIRED {
                    retired.remove(0);
                }
                retired.push((root, before));
            });
        }
        self.wake(root);
    }

    /// Sees to it that the timer of the plugin `root` fires when that is wanted.
    fn wake(&self, root: u32) {
        self.plugin(root).flatten().iter().for_each(|gateway| gateway.wake());
    }

    /// A stream's request headers have come.
    pub fn on_request_headers(&self, id: u32) -> Action {
        let parent = self.newest.with(|newest| newest.take(id)).flatten();
        let Some(gateway) = parent.and_then(|parent| self.plugin(parent)).flatten() else {
            return self.on_request_more(id);
        };
        let Some((session, Handled { headers, next }, is_grpc, tried)) = gateway.decide() else {
            return Action::Continue;
        };
        let owed =
            Stream { plugin: Rc::clone(&gateway), session, headers, waits: false, is_grpc, candidate: tried };
        match next {
            NextAction::Query(ticket) => {
                self.keep(id, Stream { waits: true, ..owed });
                self.ask(id, ticket, &gateway)
            }
            next => {
                let waits = matches!(next, NextAction::Hold(..));
                self.keep(id, Stream { waits, ..owed });
                self.act(id, &gateway, next)
            }
        }
    }

    /// Does what was decided about the stream whose callback runs.
    fn act(&self, id: u32, gateway: &Plugin, next: NextAction) -> Action {
        match next {
            NextAction::Pass | NextAction::Query(_) => Action::Continue,
            // A host that cannot answer must not be left holding the request.
            NextAction::Reply(answer) if calls::send_local_response(&answer).is_err() => Action::Continue,
            NextAction::Reply(_) => Action::Pause,
            NextAction::Hold(until, parked) => match gateway.park(id, until, parked) {
                Ok(()) => Action::Pause,
                Err(parked) => self.cannot_wait(id, parked),
            },
        }
    }

    /// More of a request has come: its body, or its trailers. It has to wait with it.
    pub fn on_request_more(&self, id: u32) -> Action {
        match self.waits(id) {
            true => Action::Pause,
            false => Action::Continue,
        }
    }

    /// The headers of a stream's response are about to go.
    pub fn on_response_headers(&self, id: u32) -> Action {
        let headers =
            self.streams.with(|owed| owed.get_mut(id).map(|owed| std::mem::take(&mut owed.headers)));
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
        let Some(gateway) = self.plugin(root).flatten() else {
            return;
        };
        let now = gateway.monotonic();
        let due = gateway.timer_queue.with(|waiting| waiting.due(now)).unwrap_or_default();
        // First of all, so that the timer is not stopped, which might not be had again.
        self.follow(root, &gateway);
        let news = gateway.tick(now);
        let some = !due.is_empty() || !news.is_empty();
        let late: Vec<(u32, Turn)> =
            due.into_iter().filter_map(|(id, turn)| self.resume(id, turn, &gateway, now)).collect();
        self.spread(&gateway, news);
        self.exchange(&gateway);
        let retired = self.work_retired(root, now);
        if some || retired {
            // The timer is the plugin's. If this fails the timer goes on as it is.
            _ = calls::set_effective_context(root);
        }
        let lost = gateway.timer_queue.with(|waiting| waiting.again(late, now));
        self.wake(root);
        lost.unwrap_or_default().into_iter().for_each(|id| self.end(id));
    }

    /// A context is gone: a stream's, or a plugin's with all that waits there.
    pub fn on_delete(&self, id: u32) {
        self.newest.with(|newest| newest.take(id));
        if self.is_kept(id) {
            return self.end(id);
        }
        let place = |plugins: &mut Vec<(u32, _)>| {
            let place = plugins.iter().position(|(known, _)| *known == id)?;
            Some(plugins.swap_remove(place))
        };
        if let Some((_, Some(gateway))) = self.plugins.with(place).flatten() {
            self.polls.with(|polls| polls.retain(|(_, root)| *root != id));
            gateway.retire();
            self.exchange(&gateway);
            self.retired.with(|retired| retired.retain(|(of, _)| *of != id));
            // A request that gives up its store may have to wait for its turn, which no timer ends any more. The second
            // pass resumes such requests.
            for _ in 0..2 {
                let (all, now) = (gateway.timer_queue.with(|waiting| waiting.all()), gateway.monotonic());
                let all = all.unwrap_or_default().into_iter();
                all.for_each(|(id, turn)| _ = self.resume(id, turn, &gateway, now));
            }
            self.hang_up(&gateway);
        }
    }

    /// Lets earlier configurations of the plugin send their reports to stores. Returns whether the host's calls may be
    /// about a stream now.
    fn work_retired(&self, root: u32, now: Time) -> bool {
        self.retired.with(|retired| retired.retain(|(_, gateway)| !gateway.is_done()));
        let of = |retired: &mut Vec<(u32, Rc<Plugin>)>| {
            let own = retired.iter().filter(|(of, _)| *of == root);
            own.map(|(_, gateway)| Rc::clone(gateway)).collect::<Vec<_>>()
        };
        let retired = self.retired.with(of).unwrap_or_default();
        for gateway in &retired {
            let news = gateway.tick(now);
            self.spread(gateway, news);
            self.exchange(gateway);
        }
        !retired.is_empty()
    }

    /// A plugin that has begun, and what it was configured to.
    fn plugin(&self, root: u32) -> Option<Option<Rc<Plugin>>> {
        let find = |plugins: &mut Vec<(u32, Option<Rc<Plugin>>)>| {
            plugins.iter().find(|(known, _)| *known == root).map(|(_, gateway)| gateway.clone())
        };
        self.plugins.with(find).flatten()
    }

    fn waits(&self, id: u32) -> bool {
        self.streams.with(|owed| owed.get_mut(id).is_some_and(|owed| owed.waits)) == Some(true)
    }

    fn is_kept(&self, id: u32) -> bool {
        self.streams.with(|owed| owed.get_mut(id).is_some()) == Some(true)
    }

    /// Remembers what is owed to a stream, if anything is.
    fn keep(&self, id: u32, owed: Stream) {
        let owes = owed.session.has_charges() || owed.candidate.is_some();
        if owed.waits || owes || !owed.headers.is_empty() {
            self.streams.with(|all| all.insert(id, owed));
        }
    }

    /// Sets whether a stream has a turn to wait for; `false` if it is gone. One that goes on keeps its turn.
    fn wait(&self, id: u32, waits: bool) -> bool {
        let set = |all: &mut NumberMap<Stream>| {
            let owed = all.get_mut(id)?;
            owed.waits = waits;
            if !waits {
                owed.session.resume();
            }
            Some(())
        };
        self.streams.with(set).flatten().is_some()
    }

    /// There is no timer to wait for: what would have happened then happens at once.
    fn cannot_wait(&self, id: u32, parked: Parked) -> Action {
        self.wait(id, false);
        match parked {
            Parked::Refusal(answer) if calls::send_local_response(&answer).is_ok() => Action::Pause,
            Parked::Request | Parked::Refusal(_) | Parked::Query => Action::Continue,
        }
    }

    /// Lets a stream go whose turn has come. Returned is one that the host does not let go, though it has not
    /// said that it is gone.
    fn resume(&self, id: u32, turn: Turn, gateway: &Plugin, now: Time) -> Option<(u32, Turn)> {
        if let Parked::Query = turn.parked {
            let is_lost = !self.give_up(id) && self.waits(id);
            return is_lost.then_some((id, turn));
        }
        // Before the host is told: it may end the stream before it returns.
        if !self.wait(id, false) {
            return None;
        }
        let answered = |answer: &LocalReply| calls::send_local_response(answer).is_ok();
        let resumes = || {
            let waited = now.since(turn.since);
            Plugin::tell_waited(waited);
            let resumes = calls::resume_request().is_ok();
            if resumes {
                gateway.metrics.waited(waited);
            }
            resumes
        };
        let gone = calls::set_effective_context(id).is_ok()
            && match &turn.parked {
                Parked::Request => resumes(),
                Parked::Refusal(answer) if answered(answer) => true,
                // A host that cannot answer must not be left holding the request.
                Parked::Refusal(_) | Parked::Query => calls::resume_request().is_ok(),
            };
        (!gone && self.wait(id, true)).then_some((id, turn))
    }

    /// A stream is over: what was held for its duration is given back, or all of it if it waited.
    fn end(&self, id: u32) {
        let Some(mut owed) = self.streams.with(|all| all.remove(id)).flatten() else {
            return;
        };
        if owed.waits {
            owed.plugin.timer_queue.with(|waiting| waiting.leave(id));
        }
        owed.candidate.iter_mut().for_each(|tried| tried.settle(&owed.plugin, owed.waits));
        if owed.session.has_charges() {
            self.plugins.with(|plugins| {
                let serves = plugins.iter().filter_map(|(_, gateway)| gateway.as_ref());
                serves.for_each(|serves| owed.plugin.settle_migrated(&owed.session, serves));
            });
            owed.plugin.forget(owed.session.ticket());
            owed.plugin.settle(&mut owed.session);
            self.exchange(&owed.plugin);
        }
    }
}
