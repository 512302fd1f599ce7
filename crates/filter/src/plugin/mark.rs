//! Soft limits: marks requests beyond a part of a quota, and lets no client mark its own.

use super::Plugin;
use crate::Host;
use diana_base::format::number;
use diana_limiter::decide::Decision;

impl<H: Host> Plugin<H> {
    /// Removes the headers that only marks set from the effective stream's request. The header is
    /// looked up first, because in some hosts each change of a request clears the chosen route.
    pub(super) fn remove_forged_marks(&self) {
        let limits = &self.configuration.soft_limits;
        let mut is_changed = false;
        for name in limits.headers().iter().filter(|name| self.host.request_header(name.as_bytes()).is_some())
        {
            self.host.remove_request_header(name);
            is_changed = true;
        }
        if is_changed && limits.reroutes() {
            self.host.reroute();
        }
    }

    /// Marks the request of the effective stream. Returns the thresholds that it is beyond, such as
    /// `tokens:80,tokens:95`; empty if there are none. A rule in shadow only reports.
    pub(super) fn mark(&self, decision: &Decision) -> String {
        let (mut names, mut reroutes) = (String::new(), false);
        for (threshold, check) in self.configuration.soft_limits.passed(decision) {
            if threshold.is_first {
                self.metrics.over(threshold.rule);
            }
            if !names.is_empty() {
                names.push(',');
            }
            names.push_str(self.configuration.policy.rule_name(threshold.rule));
            names.push(':');
            number(&mut names, threshold.percent.into());
            if check.is_in_shadow() {
                continue;
            }
            for (name, value) in &threshold.request_header {
                self.host.replace_request_header(name, value);
            }
            for (path, value) in &threshold.metadata {
                if let Some((namespace, key)) = path.split_once('\0') {
                    self.host.set_metadata(namespace, key, value);
                }
            }
            reroutes |= threshold.reroute == Some(true);
        }
        if reroutes {
            self.host.reroute();
        }
        names
    }
}
