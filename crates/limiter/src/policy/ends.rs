//! Whether a policy depends on what becomes of a request after the decision.

use super::Policy;
use super::counter::Counters;
use diana_base::time::Span;

impl Policy {
    /// Whether a host has to tell when a request ends: a request may wait, hold a permit, or be
    /// settled. If not, the decision about its headers is all that a request needs.
    ///
    /// ```
    /// let needs_ends = |rule: &str| {
    ///     let document = format!(r#"[{{"url": "/", "rules": [{rule}]}}]"#);
    ///     let configuration = diana_config::compile(document.as_bytes());
    ///     configuration.expect("a valid document").policy.needs_ends()
    /// };
    /// assert!(!needs_ends(r#"{"actor": "ip", "rpu": 10, "unit": "second"}"#));
    /// assert!(needs_ends(r#"{"algo": "C", "rpu": 10}"#), "permits");
    /// assert!(needs_ends(r#"{"algo": "LB", "rpu": 10, "unit": "second", "queue": 3}"#), "turns");
    /// assert!(needs_ends(r#"{"rpu": 10, "unit": "second", "charge": {"status": [401]}}"#));
    /// ```
    #[must_use]
    pub fn needs_ends(&self) -> bool {
        let waits_or_holds = |counters: &Counters| {
            let mut algorithms = counters.all().map(|counter| &counter.algorithm);
            algorithms.any(|algorithm| algorithm.ends_with_request() || algorithm.may_wait())
        };
        // A request may wait for the store of a global rule.
        self.measures().any()
            || self
                .rules
                .iter()
                .any(|rule| rule.is_global || rule.reject_delay > Span::ZERO || waits_or_holds(&rule.primary))
    }
}
