//! One configuration in one worker: decides about requests, and settles them. Host calls apply to
//! the effective stream; the state of streams is in [`Filter`](super::Filter).

use super::announce::{announce, plural};
use super::callbacks::Callbacks;
use super::calls::{self, HostData, LocalReply};
use super::candidate::{Candidate, CandidateDecision};
use super::metrics::{Ids, Metrics};
use super::parts::HostRequest;
use super::sampling::Sampling;
use super::source::Source;
use super::streams::NumberMap;
use super::timer_queue::{Held, TimerQueue};
use super::zone::Zone;
use crate::host::monotonic::ClockOffset;
use crate::host::nginx;
use diana_base::exclusive::Exclusive;
use diana_base::prng;
use diana_base::time::{Span, Time};
use diana_config::Configuration;
use diana_document::Error;
use diana_limiter::policy::{Decision, Outcome, Policy, Replacement};
use diana_limiter::session::{Session, Worker};
use diana_limiter::store::{Fault, Portable, Rules, Watched};
use diana_limiter::table::{Dated, Seed, shared_seed};
use log::{debug, error};
use std::cell::Cell;
use std::rc::Rc;

/// The state that the streams of one configuration share.
pub(super) struct Plugin {
    pub(super) configuration: Configuration,
    /// The document server that this plugin follows, if it follows one.
    pub(super) source: Option<Rc<Source>>,
    /// The candidate beside the active document.
    pub(super) candidate: Exclusive<Option<Rc<Candidate>>>,
    pub(super) seed: Seed,
    pub(super) store: Watched<Portable<HostData>>,
    /// Only in nginx.
    zone: Option<Zone>,
    pub(super) timer_queue: Rc<Exclusive<TimerQueue>>,
    /// Whether the configuration would hold requests but the host cannot.
    pub(super) refuses_to_wait: bool,
    /// The timeout of a call to a store.
    pub(super) timeout_ms: u32,
    /// The streams that wait for stores, by ticket.
    pub(super) querying: Exclusive<NumberMap<u32>>,
    /// The latest time at which the timer fires for the worker's own tasks.
    pub(super) wakes_at: Cell<Option<Time>>,
    /// The shortest span that the worker has wanted since `wakes_at` was first set.
    pub(super) wanted: Cell<Option<Span>>,
    clock_offset: Exclusive<ClockOffset>,
    pub(super) worker: Exclusive<Worker>,
    pub(super) metrics: Metrics,
    pub(super) sampling: Sampling,
    prng_state: Cell<u64>,
    last_now: Cell<Time>,
}

/// The action for a request, and the headers for its response.
pub(super) struct Handled {
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) action: NextAction,
}

/// The action for a request.
pub(super) enum NextAction {
    Pass,
    Reply(LocalReply),
    /// Hold the stream until this time.
    Hold(Time, Held),
    /// Hold the stream until there is a completion for this ticket.
    Query(u32),
}

impl Plugin {
    /// Reads and compiles the plugin's configuration of `size` bytes; only during
    /// `proxy_on_configure`. `before` is the configuration until now. Mistakes are logged.
    pub(super) fn configure(
        size: usize,
        before: Option<&Plugin>,
        ids: &Rc<Ids>,
        callbacks: Callbacks,
    ) -> Option<Plugin> {
        let bytes = calls::plugin_configuration(size);
        let configuration = diana_config::compile(&bytes).map_err(|errors| mistakes(&errors));
        let plugin =
            configuration.and_then(|configuration| Plugin::build(configuration, before, ids, callbacks));
        match plugin {
            Ok(mut plugin) => {
                announce(&plugin, &bytes);
                let mut generation = 0;
                if let Some(options) = plugin.configuration.remote.take() {
                    let source = Rc::new(Source::new(bytes, options, callbacks));
                    plugin.source = Some(Rc::clone(&source));
                    // Another worker, or the configuration before this one, may already have a
                    // document.
                    plugin = source.follow(&plugin, ids).unwrap_or(plugin);
                    generation = source.generation();
                }
                match generation {
                    0 => plugin.metrics.generation(0),
                    generation => plugin.metrics.switched(generation),
                }
                Some(plugin)
            }
            Err(why) => {
                error!("configuration refused, {why}");
                None
            }
        }
    }

    /// The plugin of a configuration, or why it cannot be built.
    pub(super) fn build(
        configuration: Configuration,
        before: Option<&Plugin>,
        ids: &Rc<Ids>,
        callbacks: Callbacks,
    ) -> Result<Plugin, String> {
        callbacks.suffice(&configuration.response)?;
        let plugin = Plugin::new(configuration, before, ids).map_err(|Fault(status)| {
            format!("the host's clock or its shared data does not work: status {status}")
        })?;
        let is_nginx = plugin.zone.is_some();
        callbacks.suffice_under(if is_nginx { Rules::Strict } else { Rules::Lenient })?;
        let refusals = if is_nginx { nginx::refusals(&plugin.configuration) } else { Vec::new() };
        if refusals.is_empty() { Ok(plugin) } else { Err(refusals.join("; ")) }
    }

    fn new(
        mut configuration: Configuration,
        before: Option<&Plugin>,
        ids: &Rc<Ids>,
    ) -> Result<Plugin, Fault> {
        let store = Portable::probe(HostData)?;
        let (low, high) = (calls::random(), calls::random());
        let mut fresh = Seed::default();
        fresh
            .iter_mut()
            .zip(low.to_le_bytes().into_iter().chain(high.to_le_bytes()))
            .for_each(|(to, b)| *to = b);
        // nginx crashes when a timer resumes a request, or a stream sets the timer. The swap rules
        // tell nginx from other hosts.
        let rules = store.rules();
        let is_nginx = rules == Rules::Strict;
        let refuses_to_wait = is_nginx && configuration.policy.refuse_to_wait();
        let store = Watched::new(store, is_nginx);
        // Only nginx loses seeds.
        let since = if is_nginx { calls::now()? } else { Time::from_ns(0) };
        let dated = shared_seed(&store, Dated { since, seed: fresh })?;
        let seed = dated.seed;
        let mut worker = Worker::new(&configuration.policy, &seed);
        let mut timeout = Span::ZERO;
        if is_nginx {
            worker.disable_reservations();
        } else if let Some(options) = configuration.store.take() {
            timeout = options.timeout;
            worker = worker.with_global_store(options, calls::random());
        }
        let metrics = Metrics::new(&configuration, worker.clusters(), rules, ids);
        // There is one timer, and it resumes waiting requests under any configuration.
        let timer_queue: Rc<Exclusive<TimerQueue>> =
            before.map(|before| Rc::clone(&before.timer_queue)).unwrap_or_default();
        timer_queue.with(|queue| queue.set_gauge(metrics.waiting_requests()));
        Ok(Plugin {
            configuration,
            source: None,
            candidate: Exclusive::default(),
            seed,
            store,
            zone: is_nginx.then(|| Zone::new(dated)),
            timer_queue,
            refuses_to_wait,
            timeout_ms: u32::try_from(timeout.as_ns() / 1_000_000).unwrap_or(u32::MAX),
            querying: Exclusive::default(),
            wakes_at: Cell::new(None),
            wanted: Cell::new(None),
            clock_offset: Exclusive::default(),
            worker: Exclusive::new(worker),
            metrics,
            sampling: Sampling::default(),
            prng_state: Cell::new(calls::random()),
            last_now: Cell::new(calls::now()?),
        })
    }

    /// Migrates the counts of actors from the configuration `before`. A new plugin may replace
    /// another one or stand beside it. In either case the counts of rules that both have continue.
    pub(super) fn migrate_from(&self, before: Option<&Plugin>, plugins: &[(u32, Option<Rc<Plugin>>)]) {
        let mut previous = Vec::new();
        let mut add = |other: &Plugin| {
            previous.extend(other.worker.with(|worker| worker.previous(&other.configuration.policy)));
        };
        let replacement = if before.is_some() { Replacement::Certain } else { Replacement::Likely };
        match before {
            Some(before) => add(before),
            None => plugins.iter().rev().filter_map(|(_, other)| other.as_deref()).for_each(add),
        }
        let now = self.now();
        self.worker
            .with(|worker| worker.migrate_from(&self.configuration.policy, &previous, replacement, now));
    }

    /// Decides about the request of the effective stream. The third value is whether the client
    /// speaks gRPC, read only if the request waits for stores. `None`, which lets the request pass,
    /// never occurs.
    pub(super) fn decide(&self) -> Option<(Session, Handled, bool, Option<CandidateDecision>)> {
        let policy = &self.configuration.policy;
        let mut candidate = self.source.as_ref().and_then(|_| self.decide_by_candidate());
        let source = HostRequest::new(policy, self.zone.is_some());
        let request = policy.request(&source);
        let ((session, handled, is_grpc), must_wake) = self.worker.with(|worker| {
            let (mut session, decision) =
                Session::start(policy, worker, &self.store, &request, || self.now());
            let decision = match decision.outcome {
                Outcome::Delay(_) if self.cannot_hold() => {
                    session.refuse(policy, worker, &self.store, || self.now())
                }
                _ => worker.decision(),
            };
            let is_grpc = matches!(decision.outcome, Outcome::Query(_)) && policy.is_grpc(&request);
            let handled = self.handle(decision, || policy.is_grpc(&request));
            ((session, handled, is_grpc), self.must_wake(worker))
        })?;
        if !matches!(handled.action, NextAction::Query(_)) {
            self.compare(&mut candidate);
        }
        let is_asleep =
            || self.source.is_some() && self.timer_queue.with(|queue| queue.has_timer()) == Some(false);
        if must_wake || is_asleep() {
            self.wake();
        }
        self.sample_cells();
        self.zone.iter().for_each(|zone| zone.after_decision(self));
        Some((session, handled, is_grpc, candidate))
    }

    /// Lets the candidate decide about the same request.
    fn decide_by_candidate(&self) -> Option<CandidateDecision> {
        Some(self.candidate.with(|candidate| candidate.clone()).flatten()?.decide(self))
    }

    /// Compares the decision that was just made with the candidate's decision.
    pub(super) fn compare(&self, candidate: &mut Option<CandidateDecision>) {
        self.worker.with(|worker| candidate.iter_mut().for_each(|candidate| candidate.compare(self, worker)));
        _ = candidate.take_if(|candidate| candidate.is_done());
    }

    /// Whether the worker holds too many requests to hold this one. If so, the request is counted
    /// as unheld.
    pub(super) fn cannot_hold(&self) -> bool {
        let is_full = self.is_full();
        if is_full {
            self.metrics.unheld();
        }
        is_full
    }

    /// Whether the worker holds the maximum of requests.
    pub(super) fn is_full(&self) -> bool {
        self.timer_queue.with(|queue| queue.is_full()) == Some(true)
    }

    /// The action that follows from a decision. `is_grpc` is called for refusals only.
    pub(super) fn handle(&self, decision: &Decision, is_grpc: impl Fn() -> bool) -> Handled {
        let Configuration { policy, response, .. } = &self.configuration;
        if let Outcome::Query(ticket) = decision.outcome {
            return Handled { headers: Vec::new(), action: NextAction::Query(ticket) };
        }
        self.metrics.decision(policy, decision);
        self.set_attributes(decision);
        let action = match decision.outcome {
            Outcome::Delay(until) => Some(NextAction::Hold(until, Held::Request)),
            Outcome::Reject(_) => None,
            Outcome::Pass | Outcome::Allowed | Outcome::Query(_) => Some(NextAction::Pass),
        };
        if let Some(action) = action {
            return Handled { headers: response.headers(policy, decision), action };
        }
        let refusal = response.refusal(policy, decision, is_grpc(), self.entropy());
        let action = refusal.map_or(NextAction::Pass, |refusal| {
            debug!("{}", refusal.details);
            self.refuse(LocalReply::new(refusal, self.zone.is_some()), policy.reject_delay(decision))
        });
        Handled { headers: Vec::new(), action }
    }

    /// Refuses at once, or after `delay` if there is room to hold the refusal.
    fn refuse(&self, reply: LocalReply, delay: Span) -> NextAction {
        let has_room = || self.timer_queue.with(|queue| queue.has_room()) == Some(true);
        match delay > Span::ZERO && has_room() {
            true => NextAction::Hold(self.now().after(delay), Held::Refusal(reply)),
            false => NextAction::Reply(reply),
        }
    }

    /// Settles a request that has charges.
    pub(super) fn settle(&self, session: &mut Session) {
        let policy = &self.configuration.policy;
        self.worker.with(|worker| {
            let events = session.settle(policy, worker, &self.store, || self.now());
            self.metrics.events(&events);
        });
    }

    /// Before a request ends, refunds charges that were migrated. The active configuration, or its
    /// candidate, may have copied the cells that this request charged.
    pub(super) fn settle_migrated(&self, session: &Session, active: &Plugin) {
        let settle = |later: &Policy, successor: &Worker| {
            let policy = &self.configuration.policy;
            let events = self.worker.with(|worker| {
                session.settle_migrated((policy, worker), (later, successor), &self.store, || self.now())
            });
            events.iter().for_each(|events| self.metrics.events(events));
        };
        if !std::ptr::eq(self, active) {
            active.worker.with(|successor| settle(&active.configuration.policy, successor));
        }
        let candidate = active.candidate.with(|candidate| candidate.clone()).flatten();
        candidate.iter().for_each(|candidate| candidate.with_worker(settle));
    }

    /// Holds a stream until the host's clock shows `until`, disregarding steps of that clock.
    /// Returns `held` if the stream cannot be held.
    pub(super) fn hold(&self, id: u32, until: Time, held: Held) -> Result<(), Held> {
        let (now, monotonic) = (self.now(), self.monotonic());
        let deadline =
            self.clock_offset.with(|clocks| clocks.deadline(until, now, monotonic)).unwrap_or(monotonic);
        let mut held = Some(held);
        let hold = |queue: &mut TimerQueue| match held.take() {
            Some(held) => queue.hold(id, deadline, held, monotonic),
            None => Ok(()),
        };
        match self.timer_queue.with(hold) {
            Some(result) => result,
            None => held.map_or(Ok(()), Err),
        }
    }

    /// Whether this configuration has nothing left to send to stores.
    pub(super) fn is_done(&self) -> bool {
        self.worker.with(|worker| worker.is_done()) != Some(false)
    }

    /// The clock for deadlines: the monotonic clock, or the host's clock if there is no monotonic
    /// one.
    pub(super) fn monotonic(&self) -> Time {
        calls::monotonic().unwrap_or_else(|| self.now())
    }

    /// The last reading of the host's clock.
    pub(super) fn last_now(&self) -> Time {
        self.last_now.get()
    }

    /// The host's clock. If the clock cannot be read, this is its last reading.
    pub(super) fn now(&self) -> Time {
        let now = calls::now().unwrap_or(self.last_now.get());
        self.last_now.set(now);
        now
    }

    /// A number that clients cannot predict, for jitter.
    pub(super) fn entropy(&self) -> u32 {
        let mut state = self.prng_state.get();
        let number = prng::next(&mut state);
        self.prng_state.set(state);
        number
    }
}

/// At most this many mistakes are logged, because a server may send any number.
pub(super) const MAX_LOGGED: usize = 100;

/// The mistakes of a configuration as one line.
pub(super) fn mistakes(errors: &[Error]) -> String {
    let logged = (1..).zip(errors).map(|(number, error)| format!("({number}) {error}"));
    let logged: Vec<String> = logged.take(MAX_LOGGED).collect();
    format!("{}: {}", plural(errors.len(), "mistake"), logged.join(" "))
}
