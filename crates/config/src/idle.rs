//! Warns about rules that can never refuse, because another rule always refuses first. There is a
//! warning only if the case is certain.

use diana_document::{Error, Node, quoted};
use diana_limiter::algorithm::{Allowance, Parameters};
use diana_limiter::matcher::pattern::Pattern;
use diana_limiter::policy::{Enforce, LimitDraft, RuleDraft, SoftLimit};

/// The number of rules above which there are no warnings, because each rule is compared with every
/// other one.
const MAX_RULES: usize = 1_000;

struct ComparedRule<'a> {
    limit: &'a LimitDraft,
    node: &'a Node<'a>,
    index: usize,
    rule: &'a RuleDraft,
    parameters: Parameters,
}

/// One warning for each rule that can never refuse; `nodes` are the places of the limits.
///
/// Both rules must be enforced for everybody and refuse, have no overrides, plans or lease and no
/// limit that moves or comes with the request, and count the same actor at the same cost in the
/// same scope. The other rule must apply whenever this one does: its limit is the same, or a less
/// specific one without conditions whose patterns contain this one's, and no `exclusive` limit can
/// switch it off alone. [`Parameters::covers`](diana_limiter::algorithm::Parameters::covers)
/// compares how much the two rules admit.
pub(super) fn warnings(nodes: &[Node], limits: &[LimitDraft]) -> Vec<Error> {
    let mut candidates = Vec::new();
    for (node, limit) in nodes.iter().zip(limits) {
        for (index, rule) in limit.rules.iter().enumerate() {
            let leases = rule.on_error.is_some() && rule.quota.lease() > 0;
            let is_plain = rule.overrides.is_empty() && rule.plans.is_empty();
            let is_plain = is_plain && rule.adaptive.is_none() && rule.limit_source.is_none();
            let refuses = rule.enforce == Enforce::EVERYBODY && rule.soft_limit != SoftLimit::Admits;
            if refuses && is_plain && !leases {
                let parameters = rule.quota.parameters();
                candidates.push(ComparedRule { limit, node, index, rule, parameters });
            }
        }
    }
    if candidates.len() > MAX_RULES {
        return Vec::new();
    }
    let warning = |(at, idle): (usize, &ComparedRule)| {
        // If two rules are the same, the later one is idle.
        let is_first = |index: usize, other: &ComparedRule| index < at || !idle.covers(other, limits);
        let mut others = candidates.iter().enumerate().filter(|(index, _)| *index != at);
        let (_, other) =
            others.find(|(index, other)| other.covers(idle, limits) && is_first(*index, other))?;
        Some(idle.warning(other))
    };
    candidates.iter().enumerate().filter_map(warning).collect()
}

impl ComparedRule<'_> {
    /// Whether this rule refuses whatever the other one would. A penalty or the headroom of the
    /// other rule also refuses requests within the quota.
    fn covers(&self, other: &ComparedRule, limits: &[LimitDraft]) -> bool {
        self.parameters.covers(&other.parameters)
            && self.rule.cost == other.rule.cost
            && other.rule.quota.penalty().is_none()
            && other.rule.quota.headroom() == 0
            && self.rule.missing == other.rule.missing
            && self.rule.on_error == other.rule.on_error
            && self.rule.actors == other.rule.actors
            && self.applies_with(other.limit, limits)
    }

    /// Whether this rule applies to every request to which `other` applies.
    fn applies_with(&self, other: &LimitDraft, limits: &[LimitDraft]) -> bool {
        let of_all = self.limit.conditions.is_empty() || self.limit.canonical_form == other.canonical_form;
        let applies_by = |own: &Pattern, url: &Pattern| {
            let (least, most) = (self.limit.specificity(own), other.specificity(url));
            let is_between = |limit: &LimitDraft, pattern: &Pattern| {
                let specificity = limit.specificity(pattern);
                least < specificity && specificity <= most && pattern.overlaps(url)
            };
            let switches_off = |limit: &LimitDraft| {
                limit.exclusive && limit.patterns.iter().any(|pattern| is_between(limit, pattern))
            };
            own.contains(url) && !limits.iter().any(switches_off)
        };
        let applies = |url: &Pattern| self.limit.patterns.iter().any(|own| applies_by(own, url));
        of_all && other.patterns.iter().all(applies)
    }

    fn warning(&self, other: &ComparedRule) -> Error {
        let (own, others) = (quoted(&self.rule.name), quoted(&other.rule.name));
        let is_same = self.limit.patterns == other.limit.patterns
            && self.limit.canonical_form == other.limit.canonical_form;
        let raises = !is_same && is_larger(self.rule.quota.configured(), other.rule.quota.configured());
        let hint = match raises {
            true => "; if this limit is meant to raise the quota, give it `exclusive: true`",
            false => "",
        };
        let why = [
            "the rule ",
            &*own,
            " can never refuse: ",
            &*others,
            " counts the same actor and always refuses first",
            hint,
        ];
        let warning = self.node.warning(why.concat());
        let dot = if warning.path.is_empty() { "" } else { "." };
        Error { path: format!("{}{dot}rules[{}]", warning.path, self.index), ..warning }
    }
}

fn is_larger(quota: Allowance, other: Allowance) -> bool {
    // A quota of requests in flight has no unit.
    let per = |quota: Allowance| u128::from(quota.unit.as_ns().max(1));
    u128::from(quota.rpu).saturating_mul(per(other)) > u128::from(other.rpu).saturating_mul(per(quota))
}
