//! Calls to global stores: makes the calls that are due, and turns replies into completions. This
//! module knows streams only by their tickets.

use super::{Plugin, Response};
use crate::Host;
use diana_base::time::Time;
use diana_limiter::cells::store::Fault;
use diana_limiter::decide::Outcome;
use diana_limiter::global::{CallResult, Completion, Message};
use diana_limiter::session::{Session, Worker};
use diana_response::RefusalForm;
use log::{info, warn};

/// A call in flight: the host's number and the worker's number.
pub(crate) struct SentCall {
    pub(crate) token: u32,
    pub(crate) id: u32,
}

impl<H: Host> Plugin<H> {
    /// Makes the calls that are due. Returns completions for the calls that could not be made.
    pub(crate) fn make_due_calls(&self) -> (Vec<SentCall>, Vec<Completion>) {
        let (mut sent, mut completions) = (Vec::new(), Vec::new());
        let now = self.clock.monotonic();
        self.worker.with(|worker| {
            while let Some(call) = worker.next_call(now) {
                let cluster = worker.cluster(call.shard);
                let Message { headers, body } = &call.message;
                match self.host.http_call(cluster, headers, body, self.call_timeout_ms) {
                    Ok(token) => sent.push(SentCall { token, id: call.id }),
                    Err(Fault(_)) => completions.extend(worker.call_done(call.id, CallResult::NotMade, now)),
                }
            }
        });
        (sent, self.absorb(completions))
    }

    /// Handles the end of a call. Returns completions for requests.
    pub(crate) fn call_done(&self, id: u32, result: CallResult) -> Vec<Completion> {
        let now = self.clock.monotonic();
        let completions = self.worker.with(|worker| worker.call_done(id, result, now));
        self.absorb(completions.unwrap_or_default())
    }

    /// Whether the worker still uses a reply to this call.
    pub(crate) fn awaits(&self, id: u32) -> bool {
        self.worker.with(|worker| worker.awaits(id)) == Some(true)
    }

    /// Handles the worker's own completions, counts what happened to calls, and returns the
    /// completions for requests.
    pub(super) fn absorb(&self, mut completions: Vec<Completion>) -> Vec<Completion> {
        self.worker.with(|worker| {
            let events = worker.absorb(&mut completions, || self.now());
            let stats = worker.call_stats();
            self.metrics.events(&events);
            stats.iter().for_each(|(shard, shard_stats)| self.metrics.calls(*shard, shard_stats));
            for (shard, shard_stats) in stats {
                shard_stats
                    .changed
                    .into_iter()
                    .for_each(|(is_asked, why)| log_breaker(worker.cluster(shard), is_asked, &why));
            }
        });
        completions
    }

    /// Hands a completion to a request. Returns what follows; `None` while other replies are
    /// missing.
    pub(crate) fn answer(
        &self,
        session: &mut Session,
        completion: &Completion,
        form: &RefusalForm,
    ) -> Option<Response<H>> {
        if session.is_question() {
            return self.answer_question(session, completion.replies.as_deref());
        }
        let ticket = session.ticket();
        let advance = |worker: &mut Worker<_>| {
            session.answer(worker, completion, || self.now())?;
            self.forget(ticket);
            let response = self.respond(worker, || form.clone());
            self.note_actors(worker);
            Some(response)
        };
        self.worker.with(advance).flatten()
    }

    /// Decides about a request that has waited for `timeout`, without the global store. If
    /// `was_held` is false, the request is already counted as unheld.
    pub(crate) fn give_up(
        &self,
        session: &mut Session,
        form: &RefusalForm,
        was_held: bool,
    ) -> Option<Response<H>> {
        if session.is_question() {
            return self.answer_question(session, None);
        }
        self.forget(session.ticket());
        let is_full = || if was_held { self.cannot_hold() } else { self.is_full() };
        let advance = |worker: &mut Worker<_>| {
            let decision = session.give_up(worker, || self.now())?;
            if matches!(decision.outcome, Outcome::Delay(_)) && is_full() {
                _ = session.refuse(worker, || self.now());
            }
            let response = self.respond(worker, || form.clone());
            self.note_actors(worker);
            Some(response)
        };
        self.worker.with(advance).flatten()
    }

    /// Forgets which stream waits under this ticket.
    pub(crate) fn forget(&self, ticket: Option<u32>) {
        self.querying.with(|asking| ticket.map(|ticket| asking.remove(ticket)));
    }

    /// The time until which a request waits for global stores.
    pub(crate) fn query_deadline(&self) -> Time {
        let timeout = self.worker.with(|worker| worker.timeout()).flatten();
        self.now().after(timeout.unwrap_or_default())
    }
}

fn log_breaker(cluster: &str, is_asked: bool, why: &str) {
    match is_asked {
        true => info!("cluster {cluster} answers again"),
        false => warn!("cluster {cluster} is not asked until it answers a probe: {why}"),
    }
}
