//! Decides about a request when its headers arrive.

use super::{Decided, Plugin, Response};
use crate::Host;
use crate::request_body::{BodyReader, ReadBody};
use diana_base::time::Time;
use diana_limiter::decide::Outcome;
use diana_limiter::request::Source;
use diana_limiter::request::protocol::Protocol;
use diana_limiter::session::Session;
use diana_response::RefusalForm;
use log::warn;
use std::cell::OnceCell;

/// After so many requests without a body, the log says why.
const MISSED_BODIES: u32 = 3;

impl<H: Host> Plugin<H> {
    /// Decides about the request of the effective stream. `None` if the host called back during
    /// another decision, which no host does; the request then passes.
    /// `ends`: whether the request ends with its headers. `body`: its body, `None` if it was
    /// not read.
    #[inline(never)]
    pub(crate) fn decide(&self, ends: bool, body: Option<&ReadBody>) -> Option<Decided<H>> {
        let policy = &self.configuration.policy;
        self.remove_forged_marks();
        let (source, with_body) = (self.host.request(policy, self.kind, ends), OnceCell::new());
        let source: &dyn Source = match self.body.as_ref().zip(body) {
            Some((parts, body)) => with_body.get_or_init(|| parts.request(&source, body)),
            None => &source,
        };
        let request = policy.request(source);
        if self.configuration.inspect.is_some()
            && let Some(answered) = self.inspect(&request)
        {
            return Some(answered);
        }
        let decided = self.worker.with(|worker| {
            let start = Session::start(worker, &request, || self.now());
            let (mut session, decision) = start;
            let mut outcome = decision.outcome;
            if matches!(outcome, Outcome::Delay(_)) && self.cannot_hold() {
                outcome = session.refuse(worker, || self.now()).outcome;
            }
            let asks_stores = matches!(outcome, Outcome::Query(_));
            let form = || {
                let call = self.body.as_ref().zip(body).and_then(|(parts, values)| parts.call(values));
                RefusalForm { protocol: policy.protocol(&request), call, ticket: None }
            };
            let response = self.respond(worker, form);
            self.note_actors(worker);
            let form = if asks_stores { form() } else { RefusalForm::default() };
            Decided { session, response, form }
        })?;
        self.show_limits();
        self.wake_if_needed();
        self.sample_cells();
        self.keep_zone();
        Some(decided)
    }

    /// A reader for the body of the effective stream, if the decision depends on the body.
    pub(crate) fn body_reader(&self) -> Option<BodyReader> {
        let policy = &self.configuration.policy;
        self.body.as_ref()?.reader(self.host, policy, || self.host.request(policy, self.kind, false))
    }

    /// Until when the host's clock lets a request wait for its body.
    pub(crate) fn body_deadline(&self) -> Time {
        self.now().after(self.configuration.request_body.wait)
    }

    /// A request has waited for its body in vain: no part of it has come. Logs the third one.
    pub(crate) fn missed_body(&self) {
        let missed = self.missed_bodies.get().saturating_add(1);
        self.missed_bodies.set(missed);
        if missed == MISSED_BODIES {
            warn!(
                "{missed} requests have waited for `request_body.wait` without any part of their bodies, which count as \
                 unread: {}",
                H::MISSING_BODIES
            );
        }
    }

    /// Decides about the request of the effective stream after a panic. If `reads` is false, the
    /// request is not read. `None` if the worker is in use.
    pub(crate) fn decide_after_panic(&self, reads: bool) -> Option<Response<H>> {
        let policy = &self.configuration.policy;
        if reads {
            self.remove_forged_marks();
        }
        let source = self.host.request(policy, self.kind, true);
        let request = policy.request(&source);
        self.worker.with(|worker| {
            let read = reads.then_some(&request);
            _ = Session::fail(worker, read, || self.now());
            let protocol = || if reads { policy.protocol(&request) } else { Protocol::default() };
            self.respond(worker, || protocol().into())
        })
    }

    /// Sets the gauges of what has moved: limits, and the number of gateways.
    pub(super) fn show_limits(&self) {
        if self.worker.with(|worker| worker.take_moved()) == Some(true) {
            self.metrics.limits(&self.configuration.policy);
        }
    }

    /// Arms the timer if the worker needs the timer, or if the plugin follows a server or samples
    /// rates and no timer runs.
    fn wake_if_needed(&self) {
        let has_tasks = self.remote.is_some() || self.has_rates();
        let is_asleep = || has_tasks && self.timer_queue.with(|queue| queue.has_timer()) == Some(false);
        if self.must_wake() || is_asleep() {
            self.wake();
        }
    }

    /// Samples how many cells are in use, if a sample is due. There are no samples if the
    /// host evicts keys, because a load would keep the set from being evicted.
    fn sample_cells(&self) {
        if self.sampling.is_due() && !self.kind.evicts_keys() {
            self.take_sample();
        }
    }

    #[inline(never)]
    fn take_sample(&self) {
        let policy = &self.configuration.policy;
        let used_cells = |table, random| {
            let last_now = self.clock.last_now();
            self.worker.with(|worker| worker.used_cells(table, random, last_now)).flatten()
        };
        if let Some((rule, used)) = self.sampling.sample(policy, || self.entropy(), used_cells) {
            self.metrics.used_cells(rule, used);
        }
    }

    /// Keeps the seed in the zone, and logs if the zone is too small.
    fn keep_zone(&self) {
        if let Some(zone) = &self.zone {
            zone.after_decision(&self.configuration.policy, &self.worker, &self.store, &self.metrics);
        }
    }
}
