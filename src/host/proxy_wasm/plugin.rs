//! One configuration in one worker: decides about requests, and ends them.
//!
//! It does not know: streams. It is asked about the one whose callback runs.

use super::announce::{announce, plural};
use super::callbacks::Callbacks;
use super::calls::{self, HostData, Level, LocalReply};
use super::candidate::{Candidate, CandidateDecision};
use super::metrics::{Ids, Metrics};
use super::parts::HostRequest;
use super::sampling::Sampling;
use super::source::Source;
use super::streams::NumberMap;
use super::timer_queue::{Held, TimerQueue};
use super::zone::Zone;
use crate::config::{self, Configuration};
use crate::document::Error;
use crate::exclusive::Exclusive;
use crate::host::monotonic::ClockOffset;
use crate::host::nginx;
use crate::policy::{Decision, Outcome, Policy, Replacement};
use crate::prng;
use crate::session::{Session, Worker};
use crate::store::{Fault, Portable, Rules, Watched};
use crate::table::{Dated, Seed, shared_seed};
use crate::time::{Span, Time};
use std::cell::Cell;
use std::rc::Rc;

/// What the streams of one configuration share.
pub(super) struct Plugin {
    pub(super) configuration: Configuration,
    /// Where documents come from that are laid over the plugin's own, if there is such a place.
    pub(super) source: Option<Rc<Source>>,
    /// What is tried beside it.
    pub(super) candidate: Exclusive<Option<Rc<Candidate>>>,
    pub(super) seed: Seed,
    pub(super) store: Watched<Portable<HostData>>,
    /// Only in nginx.
    zone: Option<Zone>,
    pub(super) timer_queue: Rc<Exclusive<TimerQueue>>,
    /// Whether the configuration would make requests wait, and the host cannot.
    pub(super) refuses_to_wait: bool,
    /// How long a call to a store may take.
    pub(super) timeout_ms: u32,
    /// Which streams wait for stores, by what they asked under.
    pub(super) querying: Exclusive<NumberMap<u32>>,
    /// When the timer fires at the latest for the worker's own sake.
    pub(super) wakes_at: Cell<Option<Time>>,
    /// The shortest span that the worker has wanted since that was first set.
    pub(super) wanted: Cell<Option<Span>>,
    clock_offset: Exclusive<ClockOffset>,
    pub(super) worker: Exclusive<Worker>,
    pub(super) metrics: Metrics,
    pub(super) sampling: Sampling,
    prng_state: Cell<u64>,
    last_now: Cell<Time>,
}

/// What is to be done with a request, and what it is owed.
pub(super) struct Handled {
    /// What the response will carry.
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) action: NextAction,
}

/// What is to be done with a request.
pub(super) enum NextAction {
    Pass,
    Reply(LocalReply),
    /// Until then.
    Hold(Time, Held),
    /// Until there are news for this number.
    Query(u32),
}

impl Plugin {
    /// Takes the plugin's configuration of so many bytes; only while it is being configured. `before` is what
    /// it had until now. A mistake is told in the log.
    pub(super) fn configure(
        size: usize,
        before: Option<&Plugin>,
        ids: &Rc<Ids>,
        callbacks: Callbacks,
    ) -> Option<Plugin> {
        let bytes = calls::plugin_configuration(size);
        let configuration = config::compile(&bytes).map_err(|errors| mistakes(&errors));
        let plugin =
            configuration.and_then(|configuration| Plugin::build(configuration, before, ids, callbacks));
        match plugin {
            Ok(mut plugin) => {
                announce(&plugin, &bytes);
                let mut generation = 0;
                if let Some(options) = plugin.configuration.remote.take() {
                    let source = Rc::new(Source::new(bytes, options, callbacks));
                    plugin.source = Some(Rc::clone(&source));
                    // Another worker, or the configuration before this one, may have a document already.
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
                calls::log(Level::Error, &format!("configuration refused, {why}"));
                None
            }
        }
    }

    /// What decides by this configuration, or why it cannot.
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
        // nginx crashes when a request is resumed from a timer, or the timer is set for a stream; its swap rules
        // give it away.
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
        // There is one timer, and waiting requests resume under any configuration.
        let waiting: Rc<Exclusive<TimerQueue>> =
            before.map(|before| Rc::clone(&before.timer_queue)).unwrap_or_default();
        waiting.with(|queue| queue.set_gauge(metrics.waiting_requests()));
        Ok(Plugin {
            configuration,
            source: None,
            candidate: Exclusive::default(),
            seed,
            store,
            zone: is_nginx.then(|| Zone::new(dated)),
            timer_queue: waiting,
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

    /// Actors take along what was counted under what its plugin had `before`. A plugin that is new may stand in another's
    /// place, or beside it: in any case what both count alike goes on.
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

    /// Decides about the request of the stream whose callback runs; `None`, which lets it pass, never comes
    /// about. A request that has to wait for stores is told whether its client speaks gRPC.
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

    /// Has what is tried decide as well.
    fn decide_by_candidate(&self) -> Option<CandidateDecision> {
        Some(self.candidate.with(|candidate| candidate.clone()).flatten()?.decide(self))
    }

    /// It was decided just now about a request about which what is tried has decided.
    pub(super) fn compare(&self, candidate: &mut Option<CandidateDecision>) {
        self.worker.with(|worker| candidate.iter_mut().for_each(|candidate| candidate.compare(self, worker)));
        _ = candidate.take_if(|candidate| candidate.is_done());
    }

    /// Whether the worker holds too many requests to hold this one. If so, the request is counted as unheld.
    pub(super) fn cannot_hold(&self) -> bool {
        let is_full = self.is_full();
        if is_full {
            self.metrics.unheld();
        }
        is_full
    }

    /// Whether the worker holds as many requests as it may.
    pub(super) fn is_full(&self) -> bool {
        self.timer_queue.with(|queue| queue.is_full()) == Some(true)
    }

    /// What the host does about a decision. `is_grpc` is read for a refusal only.
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
        let next = refusal.map_or(NextAction::Pass, |refusal| {
            calls::log(Level::Debug, &refusal.details);
            self.refuse(LocalReply::new(refusal, self.zone.is_some()), policy.reject_delay(decision))
        });
        Handled { headers: Vec::new(), action: next }
    }

    /// At once, or after a while if there is room for it.
    fn refuse(&self, answer: LocalReply, delay: Span) -> NextAction {
        let has_room = || self.timer_queue.with(|queue| queue.has_room()) == Some(true);
        match delay > Span::ZERO && has_room() {
            true => NextAction::Hold(self.now().after(delay), Held::Refusal(answer)),
            false => NextAction::Reply(answer),
        }
    }

    /// A request is over that holds something.
    pub(super) fn settle(&self, session: &mut Session) {
        let policy = &self.configuration.policy;
        self.worker.with(|worker| {
            let events = session.settle(policy, worker, &self.store, || self.now());
            self.metrics.events(&events);
        });
    }

    /// A request is about to be over about which this has decided. What serves by now, or is tried beside that, may have
    /// taken along what it gives back.
    pub(super) fn settle_migrated(&self, session: &Session, serves: &Plugin) {
        let settle = |later: &Policy, successor: &Worker| {
            let policy = &self.configuration.policy;
            let events = self.worker.with(|worker| {
                session.settle_migrated((policy, worker), (later, successor), &self.store, || self.now())
            });
            events.iter().for_each(|events| self.metrics.events(events));
        };
        if !std::ptr::eq(self, serves) {
            serves.worker.with(|successor| settle(&serves.configuration.policy, successor));
        }
        let candidate = serves.candidate.with(|candidate| candidate.clone()).flatten();
        candidate.iter().for_each(|candidate| candidate.with_worker(settle));
    }

    /// Holds a stream until the host's clock shows `until`, steps apart; it is returned if that cannot be.
    pub(super) fn hold(&self, id: u32, until: Time, held: Held) -> Result<(), Held> {
        let (now, monotonic) = (self.now(), self.monotonic());
        let deadline =
            self.clock_offset.with(|clocks| clocks.deadline(until, now, monotonic)).unwrap_or(monotonic);
        let mut held = Some(held);
        let park = |waiting: &mut TimerQueue| match held.take() {
            Some(held) => waiting.hold(id, deadline, held, monotonic),
            None => Ok(()),
        };
        match self.timer_queue.with(park) {
            Some(done) => done,
            None => held.map_or(Ok(()), Err),
        }
    }

    /// Whether this configuration has nothing left to send to stores.
    pub(super) fn is_done(&self) -> bool {
        self.worker.with(|worker| worker.is_done()) != Some(false)
    }

    /// The clock that those who wait go by; the host's own if there is none that never steps.
    pub(super) fn monotonic(&self) -> Time {
        calls::monotonic().unwrap_or_else(|| self.now())
    }

    /// The last reading of the host's clock.
    pub(super) fn last_now(&self) -> Time {
        self.last_now.get()
    }

    /// The host's clock; when it cannot be read, what it said last.
    pub(super) fn now(&self) -> Time {
        let now = calls::now().unwrap_or(self.last_now.get());
        self.last_now.set(now);
        now
    }

    /// A number that clients cannot foresee, for jitter.
    pub(super) fn entropy(&self) -> u32 {
        let mut state = self.prng_state.get();
        let number = prng::next(&mut state);
        self.prng_state.set(state);
        number
    }
}

/// A server may send any number of mistakes.
pub(super) const MAX_LOGGED: usize = 100;

/// What is wrong with a configuration.
pub(super) fn mistakes(errors: &[Error]) -> String {
    let logged = (1..).zip(errors).map(|(number, error)| format!("({number}) {error}"));
    let logged: Vec<String> = logged.take(MAX_LOGGED).collect();
    format!("{}: {}", plural(errors.len(), "mistake"), logged.join(" "))
}
