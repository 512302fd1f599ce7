//! The log lines about an accepted configuration.

use super::Plugin;
use crate::metrics::fingerprint_text;
use crate::wording::{MAX_LOGGED, plural};
use crate::{Host, announced};
use diana_base::format;
use log::{info, warn};

const NO_VM_ID: &str = "`vm_id` is empty: all filters of this gateway without a `vm_id` share their data, those of \
    other programs included; give this filter a `vm_id` of its own in `vm_config`";

const NS_PER_SEC: u64 = 1_000_000_000;
/// Zone data of so many days get a warning.
const A_YEAR: u64 = 365;

impl<H: Host> Plugin<H> {
    /// Logs that the configuration with these bytes is accepted, unless another worker has just
    /// logged it.
    pub(super) fn announce(&self, bytes: &[u8]) {
        // A new secret for the same document gets a line, too.
        let fingerprint = self.configuration.policy.fingerprint().to_be_bytes();
        if !announced::record(&self.store, &[bytes, &fingerprint].concat(), || self.now()) {
            return;
        }
        info!("{}", self.summary());
        if self.refuses_to_wait {
            warn!("this host cannot hold requests: requests that would wait are refused");
        }
        self.warn();
    }

    /// Logs settings that are accepted but probably not meant.
    fn warn(&self) {
        for warning in self.configuration.warnings.iter().take(MAX_LOGGED) {
            warn!("configuration, {warning}");
        }
        if self.configuration.policy.has_calendars()
            && diana_calendar::age_days(self.now().as_ns() / NS_PER_SEC) > A_YEAR
        {
            warn!(
                "the time zones of this build, {}, are older than a year: install a newer release",
                diana_calendar::version()
            );
        }
        if self.host.shares_with_others(self.kind) {
            warn!("{NO_VM_ID}");
        }
    }

    fn summary(&self) -> String {
        let policy = &self.configuration.policy;
        let (keys, size) = policy.footprint();
        let (rules, keys) = (plural(policy.rules().count(), "rule"), plural(keys, "key"));
        let kind = if self.is_of_route { "configuration of a route" } else { "configuration" };
        let version = crate::VERSION;
        let fingerprint = fingerprint_text(self.configuration.fingerprint);
        let mut words = format!(
            "diana {version}: {kind} taken, {rules}, fingerprint {fingerprint}; at most {keys} and {} KiB of \
             shared data",
            size.div_ceil(1024)
        );
        if let Some(body) = &self.body {
            words.extend(["; at most ", &body.footprint().div_ceil(1024).to_string(), " KiB of bodies"]);
        }
        let clusters = self.worker.with(|worker| worker.clusters().join(", ")).unwrap_or_default();
        if policy.has_calendars() {
            words.extend(["; time zones ", diana_calendar::version()]);
        }
        if !clusters.is_empty() {
            words.extend(["; store ", &clusters, ", fingerprint of its secret ", &self.store_secret()]);
        }
        words
    }

    /// The fingerprint of the store's secret: gateways with the same one count together.
    pub(super) fn store_secret(&self) -> String {
        let mut words = String::new();
        let fingerprint = self.configuration.policy.fingerprint().to_be_bytes();
        fingerprint.into_iter().for_each(|byte| format::hex(&mut words, byte));
        words
    }
}
