//! What a reader must know before the numbers: the text and the page show it above the totals.

use super::number::{count, plural, span};
use super::summary::{RuleSummary, Summary};

/// What makes the numbers of this replay doubtful, one sentence or two each.
#[must_use]
pub fn cautions(summary: &Summary) -> Vec<String> {
    let mut cautions = Vec::new();
    if summary.log.whole_seconds {
        cautions.push(
            "All times in the log are whole seconds: bursts look larger or smaller than they were, \
             and the refusals are estimates."
                .to_owned(),
        );
    }
    cautions.extend(summary.rules.iter().filter(|rule| lacks_actor(rule)).map(|rule| {
        let RuleSummary { name, actor, checked, .. } = rule;
        format!(
            "Rule `{name}` cannot be replayed: {} lack the actor `{actor}`. If the gateway sees the actor, log it.",
            plural(*checked, "request")
        )
    }));
    cautions.extend(summary.rules.iter().filter(|rule| finds_one_address(rule)).map(|rule| {
        let RuleSummary { name, checked, .. } = rule;
        format!(
            "All {} requests of rule `{name}` have the same client address, probably that of a proxy. The numbers \
             of the rule are those of all clients together. If the clients' addresses are in `x-forwarded-for`, log \
             the header, and set `ip.trusted_hops`.",
            count(*checked)
        )
    }));
    cautions
}

/// Whether a rule never found its actor: then its numbers say nothing about the actors.
#[must_use]
pub fn lacks_actor(rule: &RuleSummary) -> bool {
    rule.checked > 0 && rule.without_actor == rule.checked
}

/// Whether the whole log has one client address, and the rule counts by it. Then the rule's numbers
/// say nothing about clients.
#[must_use]
pub fn finds_one_address(rule: &RuleSummary) -> bool {
    rule.one_address && rule.actors == 1 && rule.checked > 1 && !lacks_actor(rule)
}

/// Why the log does not show what other quotas of this rule would refuse, if it does not.
#[must_use]
pub fn no_quotas(rule: &RuleSummary, log_s: f64) -> Option<String> {
    let why = if lacks_actor(rule) {
        "it lacks the rule's actor".to_owned()
    } else if finds_one_address(rule) {
        "it has one client address for all requests".to_owned()
    } else if rule.unit_s > log_s {
        format!("it covers only {}, less than the rule's unit", span(log_s))
    } else {
        return None;
    };
    Some(format!("The log does not show what other quotas of this rule would refuse: {why}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_never_found_its_actor_is_named() {
        let rule = |checked, without_actor| RuleSummary {
            name: "each".into(),
            actor: "user".into(),
            checked,
            without_actor,
            ..RuleSummary::default()
        };
        let rules = vec![rule(0, 0), rule(1_000, 999), rule(1_000, 1_000)];
        let cautions = cautions(&Summary { rules, ..Summary::default() });
        assert_eq!(cautions.len(), 1);
        assert!(
            cautions[0].contains("Rule `each` cannot be replayed: 1,000 requests lack the actor `user`."),
            "{cautions:?}"
        );
    }
}
