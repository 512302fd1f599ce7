//! Settles requests at their ends: permits are released, and refunds are made.

use super::Plugin;
use crate::Host;
use crate::metering::Metering;
use diana_limiter::cells::table::TableId;
use diana_limiter::policy::Usage;
use diana_limiter::session::Session;

impl<H: Host> Plugin<H> {
    /// Settles a request that has charges. Without a metering, nothing has come since the decision:
    /// neither a part of the request's body nor a response.
    pub(crate) fn settle(&self, session: &mut Session, metering: Option<&mut Metering>) {
        let nothing = Usage::default();
        let usage = metering.map_or(&nothing, |metering| metering.usage());
        self.worker.with(|worker| {
            let events = session.settle_used(worker, usage, || self.now());
            self.metrics.events(&events);
        });
    }

    /// Before a request ends, refunds charges that were migrated: the active configuration may have
    /// copied the cells that this request charged.
    pub(crate) fn settle_migrated(&self, session: &Session, active: &Plugin<H>) {
        // No counts migrate to the configuration of a route.
        if active.is_of_route || std::ptr::eq(self, active) {
            return;
        }
        active.worker.with(|successor| {
            let events = self.worker.with(|worker| session.settle_migrated(worker, successor, || self.now()));
            events.iter().for_each(|events| self.metrics.events(events));
        });
    }

    /// Adds the tables that this configuration uses. `None` if its worker is in use.
    pub(crate) fn tables(&self, to: &mut Vec<TableId>) -> Option<()> {
        let now = self.now();
        self.worker.with(|worker| to.extend(worker.tables(now)))
    }

    /// Whether this configuration has nothing left to send to stores.
    pub(crate) fn is_done(&self) -> bool {
        self.worker.with(|worker| worker.is_done()) != Some(false)
    }
}
