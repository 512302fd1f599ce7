//! The tickets of refusals.

use super::{CellStore, Plugin};
use crate::{Host, access_log};
use diana_config::Configuration;
use diana_limiter::session::Worker;
use diana_response::TicketRecord;

impl<H: Host> Plugin<H> {
    /// The ticket of the worker's last decision, which is also an attribute for the access log.
    /// `None` without a key, or if the decision does not refuse.
    #[cold]
    #[inline(never)]
    pub(super) fn ticket(&self, worker: &Worker<CellStore<H>>) -> Option<String> {
        let Configuration { policy, tickets, fingerprint, .. } = &self.configuration;
        let (key, decision) = (&tickets.as_ref()?.key, worker.decision());
        let record = TicketRecord::of(policy, decision, self.now())?;
        let actor = decision.decisive().map(|check| access_log::actor_text(check, worker, usize::MAX));
        let actor = actor.filter(|actor| !actor.is_empty()).map_or(0, |actor| key.actor(&actor));
        let ticket =
            key.seal(&TicketRecord { document: *fingerprint, gateway: worker.gateway(), actor, ..record });
        self.host.set_attribute(access_log::TICKET, &ticket);
        Some(ticket)
    }
}
