//! Settles requests at their ends: permits are released, and refunds are made.

use super::Plugin;
use crate::Host;
use crate::metering::Metering;
use diana_limiter::policy::Usage;
use diana_limiter::session::Session;

impl<H: Host> Plugin<H> {
    /// Settles a request that has charges. Without a metering, nothing has come since the decision:
    /// neither a part of the request's body nor a response.
    pub(crate) fn settle(&self, session: &mut Session, metering: Option<&mut Metering>) {
        let nothing = Usage::default();
        let usage = metering.map_or(&nothing, |metering| metering.usage(self.host, &self.metered));
        self.worker.with(|worker| {
            let events = session.settle_used(worker, usage, || self.now());
            self.metrics.events(&events);
        });
    }

    /// Whether this configuration has nothing left to send to stores.
    pub(crate) fn is_done(&self) -> bool {
        self.worker.with(|worker| worker.is_done()) != Some(false)
    }
}
