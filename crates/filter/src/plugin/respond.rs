//! What follows from a decision: the response, the metrics, and the attributes for access logs.

use super::{CellStore, Plugin, Rejection, Response};
use crate::Host;
use crate::access_log;
use diana_base::time::Span;
use diana_config::Configuration;
use diana_limiter::decide::{Decision, Outcome};
use diana_limiter::session::Worker;
use diana_response::{RefusalForm, ResponseCache};
use log::debug;

impl<H: Host> Plugin<H> {
    /// The response that follows from the worker's last decision. `form` is called for refusals
    /// only.
    pub(super) fn respond(
        &self,
        worker: &Worker<CellStore<H>>,
        form: impl Fn() -> RefusalForm,
    ) -> Response<H> {
        let Configuration { policy, response, near_limit, tickets, .. } = &self.configuration;
        let decision = worker.decision();
        let (outcome, mut headers, mut rejection) = (decision.outcome, None, None);
        if !matches!(outcome, Outcome::Query(_)) {
            match self.can_defer(decision) {
                true => self.metrics.defer(decision),
                false => self.metrics.decision(decision),
            }
            if let Some(limit) = near_limit {
                limit.rules(decision).for_each(|check| self.metrics.near_limit(check.rule()));
            }
            let over = self.mark(decision);
            access_log::set_attributes(self.host, &self.configuration, worker, &over);
            match outcome {
                Outcome::Reject(_) => {
                    let ticket = if tickets.is_some() { self.ticket(worker) } else { None };
                    rejection = self.reject(decision, RefusalForm { ticket, ..form() });
                }
                _ => {
                    headers = self.responses.with(|cache| cache.headers(response, policy, decision)).flatten()
                }
            }
        }
        Response { outcome, headers, rejection }
    }

    /// Whether the counts of a decision may wait for a tick: of a refusal from the worker's memory,
    /// and of a busy worker, which has a timer anyway.
    fn can_defer(&self, decision: &Decision) -> bool {
        let is_busy = || self.wakes_at.get().is_some() && decision.is_plain();
        !H::INCREMENTS_CHEAPLY && self.kind.has_all_metrics() && (decision.events.cached > 0 || is_busy())
    }

    /// Counts a refusal that the host replaced, and logs the first one. `status` is that of the
    /// response; empty if there was none.
    #[inline(never)]
    pub(crate) fn lost_refusal(&self, status: &[u8]) {
        self.metrics.lost_refusal();
        if !self.has_lost_refusal.replace(true) {
            self.host.log_lost_refusal(&String::from_utf8_lossy(status));
        }
    }

    /// The refusal, which is sent at once, or after a delay if there is room to hold the refusal.
    #[inline(never)]
    fn reject(&self, decision: &Decision, form: RefusalForm) -> Option<Box<Rejection<H>>> {
        let Configuration { policy, response, .. } = &self.configuration;
        let prepare = |cache: &mut ResponseCache| {
            let refusal = cache.refusal(response, policy, decision, form, self.entropy())?;
            debug!("{}", refusal.details);
            Some(Box::new(Rejection { reply: self.host.local_reply(self.kind, refusal), send_at: None }))
        };
        let mut rejection = self.responses.with(prepare)??;
        let delay = decision.reject_delay(policy);
        let has_room = || self.timer_queue.with(|queue| queue.has_room()) == Some(true);
        let is_delayed = delay > Span::ZERO && has_room();
        rejection.send_at = is_delayed.then(|| self.now().after(delay));
        Some(rejection)
    }
}
