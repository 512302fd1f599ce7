//! Soft limits: with `over`, requests beyond a part of a rule's quota pass with marks.

use super::access_log::NearLimit;
use diana_base::map::KeyMap;
use diana_base::sort;
use diana_base::time::Span;
use diana_document::{Node, Value};
use diana_limiter::cells::table::Hasher;
use diana_limiter::decide::{Decision, Outcome, RuleCheck, RuleResult};
use diana_limiter::policy::{Missing, OnError, Policy, Quota, RuleDraft, RuleId, SoftLimit};
use diana_response::{own_headers, percent_of};

const EXAMPLE: &str = "an object such as `{at: 80%, request_header: {x-budget: low}}`";
const TWO: &str = "expected one or two thresholds, in ascending order";
const SMALLER: &str = "a limit that refuses earlier has a smaller `rpu`: leave it out, or lower that";
const REFUSES: &str = "the rule refuses requests beyond 100%: write `admit: true` beside it to let them pass";
const NO_CHOICE: &str = "the route would stay the same: leave it out, or give `request_header` or `metadata`";
const OF_ROUTE: &str =
    "the next route may have another document, whose limits would not count the request: leave it out";
const LEASED: &str =
    "a gateway with a lease does not know what the others have left: leave `lease` or `over` out";
const WAITS: &str =
    "requests beyond the quota would pass before those that wait: leave it out, or what makes requests wait";

/// The soft limits of a document.
///
/// ```
/// let document = br#"{"url": "/", "rules": [{"rpu": 10, "unit": "day", "over": [
///     {"at": "80%", "request_header": {"x-budget": "low"}},
///     {"at": "100%", "admit": true, "request_header": {"X-Budget": "none"}}]}]}"#;
/// let configuration = diana_config::compile(document).expect("a valid document");
/// assert_eq!(&*configuration.soft_limits.headers()[0], "x-budget");
/// ```
#[derive(Debug, Default)]
pub struct SoftLimits {
    /// By rule, then by part.
    thresholds: Vec<Threshold>,
    headers: Vec<Box<str>>,
    reroutes: bool,
}

/// A part of a rule's quota, and the marks of requests beyond it.
#[derive(Debug)]
pub struct Threshold {
    /// The rule.
    pub rule: RuleId,
    /// The part, from 1 to 100. Beyond 100 are requests that the rule would refuse.
    pub percent: u32,
    /// Whether this is the rule's lowest threshold.
    pub is_first: bool,
    /// Headers for the upstream, with lower-case names.
    pub request_header: Vec<(Box<str>, Box<str>)>,
    /// Values for the host's dynamic metadata, by namespace and key with a zero byte between them.
    pub metadata: Vec<(Box<str>, Box<str>)>,
    /// Whether the host chooses the route again. `None`: as it does by itself.
    pub reroute: Option<bool>,
}

impl SoftLimits {
    /// The soft limits of these rules, by name.
    pub(super) fn new(policy: &Policy, rules: Vec<(String, Vec<Threshold>)>) -> SoftLimits {
        let mut limits = SoftLimits::default();
        if rules.is_empty() {
            return limits;
        }
        let mut ids = KeyMap::<usize>::default();
        for (id, rule) in policy.rules() {
            ids.insert(rule.name().as_bytes(), id.index());
        }
        for (name, thresholds) in rules {
            let id = ids.get(name.as_bytes()).copied();
            debug_assert!(id.is_some(), "a rule of another policy");
            for mut threshold in thresholds {
                threshold.rule = RuleId::new(id.unwrap_or(usize::MAX));
                threshold.request_header.iter().for_each(|(name, _)| limits.remove_header(name));
                limits.reroutes |= threshold.reroute == Some(true);
                limits.thresholds.push(threshold);
            }
        }
        sort::sort_by_key(&mut limits.thresholds, |threshold| (threshold.rule, threshold.percent));
        limits
    }

    fn remove_header(&mut self, name: &str) {
        if !self.headers.iter().any(|known| **known == *name) {
            self.headers.push(name.into());
        }
    }

    /// For a document that lies over another one: removes the headers that only the other one sets
    /// from clients' requests, too.
    pub fn remove_headers_of(&mut self, lower: &SoftLimits) {
        lower.headers.iter().for_each(|name| self.remove_header(name));
    }

    /// The headers that no client may send.
    #[must_use]
    pub fn headers(&self) -> &[Box<str>] {
        &self.headers
    }

    /// All thresholds.
    #[must_use]
    pub fn thresholds(&self) -> &[Threshold] {
        &self.thresholds
    }

    /// Whether a threshold asks the host to choose the route again.
    #[must_use]
    pub fn reroutes(&self) -> bool {
        self.reroutes
    }

    /// The thresholds that a request is beyond if it passes, each with the check of its rule: by
    /// part, and equal ones by rule.
    #[must_use]
    pub fn passed<'a>(&'a self, decision: &'a Decision) -> Vec<(&'a Threshold, &'a RuleCheck)> {
        let mut passed = Vec::new();
        if self.thresholds.is_empty() || !matches!(decision.outcome, Outcome::Pass | Outcome::Delay(_)) {
            return passed;
        }
        for check in &decision.checks {
            let first = self.thresholds.partition_point(|threshold| threshold.rule < check.rule());
            let own = self.thresholds.iter().skip(first).take_while(|own| own.rule == check.rule());
            passed.extend(own.filter(|own| own.is_passed(check)).map(|own| (own, check)));
        }
        sort::sort_by_key(&mut passed, |(threshold, _)| (threshold.percent, threshold.rule));
        passed
    }

    /// A hash of the soft limits, whatever the order of rules in the document; 0 without any.
    pub(super) fn canonical_hash(&self, policy: &Policy) -> u64 {
        let hash = |threshold: &Threshold| {
            let Threshold { percent, request_header, metadata, reroute, .. } = threshold;
            let rule = policy.rule(threshold.rule).map_or(0, |rule| rule.fingerprint());
            Hasher::of(&(
                "over",
                rule,
                percent,
                Hasher::of_all(request_header),
                Hasher::of_all(metadata),
                reroute,
            ))
        };
        self.thresholds.iter().map(hash).fold(0, u64::wrapping_add)
    }
}

impl Threshold {
    fn is_passed(&self, check: &RuleCheck) -> bool {
        let part_left = NearLimit::of(100u32.saturating_sub(self.percent));
        match check.result() {
            RuleResult::Shadowed => true,
            RuleResult::Admitted => {
                check.verdict().is_some_and(|verdict| part_left.holds(verdict.remaining, check.shown().rpu))
            }
            RuleResult::Refused | RuleResult::Uncounted => false,
        }
    }
}

/// Reads `over`. `is_of_route`: whether the document may be that of a route.
pub(super) fn over(node: &Node, is_of_route: bool) -> Option<Vec<Threshold>> {
    let items = node.one_or_many();
    if !(1..=2).contains(&items.len()) {
        node.fail(TWO);
        return None;
    }
    let (mut all, mut last) = (Vec::new(), Some(0));
    for item in &items {
        let next = threshold(item, is_of_route);
        let percent = next.as_ref().map(|next| next.percent);
        if let (Some(mut next), Some(before)) = (next, last) {
            next.is_first = all.is_empty();
            if next.percent <= before {
                node.fail(TWO);
            }
            all.push(next);
        }
        last = percent.and(last).and(percent);
    }
    last?;
    Some(all)
}

fn threshold(node: &Node, is_of_route: bool) -> Option<Threshold> {
    let Value::Object(_) = node.value() else {
        return node.expected(EXAMPLE);
    };
    let mut fields = node.fields()?;
    let (at, admit) = (fields.require("at"), fields.take("admit"));
    let part = |node: &Node| match node.value() {
        Value::Text(text) => percent_of(text).filter(|percent| (1..=100).contains(percent)),
        _ => None,
    };
    let percent = at.and_then(|node| {
        part(&node).or_else(|| node.expected("whole percent from `1%` to `100%`, such as `80%`"))
    });
    match (admit.map(|node| (node, node.flag())), at, percent) {
        (Some((node, Some(false))), ..) => node.fail(SMALLER),
        (None, Some(node), Some(100)) => node.fail(REFUSES),
        _ => {}
    }
    let header = fields.take("request_header").map(|node| own_headers(&node, reserved));
    let metadata = fields.take("metadata").map(|node| metadata(&node));
    let reroute = fields.take("reroute");
    let reroutes = reroute.and_then(|node| node.flag());
    if let Some(node) = reroute {
        match reroutes {
            _ if header.is_none() && metadata.is_none() => node.fail(NO_CHOICE),
            Some(true) if is_of_route => node.fail(OF_ROUTE),
            _ => {}
        }
    }
    fields.finish();
    Some(Threshold {
        rule: RuleId::new(0),
        percent: percent?,
        is_first: true,
        request_header: header.unwrap_or_default(),
        metadata: metadata.unwrap_or_default(),
        reroute: reroutes,
    })
}

/// `{namespace: {key: value}}`.
fn metadata(node: &Node) -> Vec<(Box<str>, Box<str>)> {
    let mut all = Vec::new();
    for (namespace, node) in node.entries().unwrap_or_default() {
        for (key, node) in node.entries().unwrap_or_default() {
            if let Some(value) = node.scalar() {
                all.push(([namespace, "\0", key].concat().into(), value.into()));
            }
        }
    }
    all
}

/// The reason why a mark must not be this header, which is removed from each request that has it.
fn reserved(name: &str) -> Option<&'static str> {
    const RESERVED: [&str; 15] = [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "authorization",
        "cookie",
        "content-type",
        "content-encoding",
        "forwarded",
    ];
    let is_reserved = RESERVED.contains(&name) || name.starts_with(':') || name.starts_with("x-forwarded-");
    is_reserved.then_some("it would be removed from clients' requests")
}

/// How a rule with these thresholds decides. Reports what the rule cannot have beside them.
pub(super) fn soft_limit(node: &Node, thresholds: &[Threshold], rule: &RuleDraft) -> SoftLimit {
    if rule.quota.lease() > 0 {
        node.fail(LEASED);
    }
    if thresholds.iter().all(|threshold| threshold.percent < 100) {
        return SoftLimit::Marks;
    }
    let changed =
        rule.overrides.values().iter().chain(rule.plans.iter().filter_map(|(_, quota)| quota.as_ref()));
    let any = |is: fn(&Quota) -> bool| is(&rule.quota) || changed.clone().any(is);
    if any(|quota| quota.algorithm().may_wait()) {
        node.fail(WAITS);
    }
    for (key, is_given) in [
        ("missing: deny", rule.missing == Missing::Deny),
        ("on_error: deny", rule.on_error == Some(OnError::Deny)),
        ("penalty", any(|quota| quota.penalty().is_some())),
        ("reject_delay", rule.reject_delay > Span::ZERO),
        ("rpu: 0", any(|quota| quota.configured().rpu == 0)),
    ] {
        if is_given {
            node.fail(
                ["with `admit: true`, the rule refuses nobody by `", key, "`: leave it out, or that"]
                    .concat(),
            );
        }
    }
    SoftLimit::Admits
}
