//! Findings about counts that have to last for longer than a day.

use super::code;
use super::finding::Findings;
use super::model::{Model, Rule};
use super::place::head;
use crate::source::value::Value;
use diana_document::fold;
use std::ops::Range;

const DAY_NS: u64 = 86_400_000_000_000;

/// Adds the findings. `evicting` is the policy by which the store at hand evicts counts.
pub fn warnings(model: &Model, evicting: Option<&str>, findings: &mut Findings) {
    for (_, rule) in model.enforced().filter(|(_, rule)| rule.unit_ns == 7 * DAY_NS) {
        let is_window = matches!(word(rule, "algo").as_deref(), Some("w" | "window"));
        if is_window && word(rule, "unit").as_deref() != Some("week") {
            findings.add(
                code::THURSDAY_WEEK,
                &place(rule),
                format!("the windows of the rule{} begin on Thursdays at 00:00 UTC", rule.named()),
                Some("write `unit: week`, which has an `anchor` and a `timezone`; its count starts anew"),
            );
        }
    }
    for (_, rule) in model.enforced().filter(|(_, rule)| rule.unit_ns > DAY_NS) {
        let place = place(rule);
        match evicting {
            _ if !rule.is_global => findings.add(
                code::LOCAL_PERIOD,
                &place,
                format!("the rule{} counts for longer than a day, and its counts end with the gateway", rule.named()),
                Some("count in a store with `scope: global`"),
            ),
            Some(policy) => findings.add(
                code::EVICTING_STORE,
                &place,
                format!(
                    "the rule{} counts for longer than a day, and by `maxmemory-policy {policy}` Redis may evict its \
                     counts before",
                    rule.named()
                ),
                Some("count it in a Redis with `noeviction`, or limit new actors by `ip` and watch `evicted_keys`"),
            ),
            None => {}
        }
    }
}

fn word(rule: &Rule, key: &str) -> Option<String> {
    rule.value.get(key).and_then(Value::text).map(fold)
}

fn place(rule: &Rule) -> Range<usize> {
    rule.value.entry("unit").map_or_else(|| head(rule.value), |entry| entry.value.range.clone())
}
