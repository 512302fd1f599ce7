//! Reads one rule: actors, quota, algorithm, overrides and plans. The algorithm reads its own keys.

use super::actor::{Actors, Scope};
use super::adapt::{adapt, refuse_others};
use super::algorithm::AlgorithmKind;
use super::calendar::day_source;
use super::cost;
use super::global_rule;
use super::headroom::{headroom, never_admits};
use super::keys::{LIMIT_KEYS, RULE_KEYS, TOP_KEYS};
use super::limit_source::{limit_source, refuse_in_change};
use super::mode::Mode;
use super::names::Names;
use super::plans::Plans;
use super::quota::{TimeBase, Weight, algorithm, quota};
use super::soft_limit::{Threshold, over, soft_limit};
use diana_base::map::KeyMap;
use diana_base::time::Span;
use diana_document::{Error, Fields, Node, Value};
use diana_limiter::actor::{NamedActor, parse_key};
use diana_limiter::matcher::pattern::Pattern;
use diana_limiter::policy::{Cost, Missing, Quota, RuleDraft, SoftLimit};
use diana_response::{ResponseOverride, RuleResponses};

/// The context in which a rule is read.
pub(super) struct Reader<'a> {
    pub(super) actors: &'a Actors,
    /// Whether urls distinguish cases, unless their limit says it.
    pub(super) case_sensitive: bool,
    /// The document's mode.
    pub(super) mode: Mode,
    /// Whether the document may be that of a route.
    pub(super) is_of_route: bool,
    pub(super) names: Names,
    pub(super) plans: Plans<'a>,
    pub(super) costs: cost::Costs<'a>,
    pub(super) global: global_rule::Reader<'a>,
    /// About quotas that admit no request.
    pub(super) warnings: Vec<Error>,
    /// The responses of the rules read so far, by name.
    pub(super) responses: Vec<(String, RuleResponses)>,
    /// The soft limits of the rules read so far, by name.
    pub(super) soft_limits: Vec<(String, Vec<Threshold>)>,
}

/// Reads rule `index` of the limit whose first url is `url`, and whose urls are `patterns`, or
/// `None` if one is wrong. Reports each mistake at its place and then returns `None`.
pub(super) fn compile(
    node: Node,
    reader: &mut Reader,
    scope: &mut Scope,
    (url, patterns): (&str, Option<&[Pattern]>),
    index: usize,
) -> Option<RuleDraft> {
    let Value::Object(_) = node.value() else {
        return node.expected("a rule such as `{actor: ip, rpu: 10, unit: second}`");
    };
    let mut fields = node.fields()?;
    let given = fields.take("name");
    let is_named = given.is_some();
    let name = reader.names.name(given, url, index);
    let actors = match fields.take("actor") {
        Some(node) => reader.actors.select(node, patterns, scope),
        None => Some(Vec::new()),
    };
    let missing = fields.take("missing").and_then(|node| missing(&node, actors.as_deref()));
    let mode = Mode::compile(fields.take("mode"), fields.take("enforce"));
    let kind = algorithm(fields.take("algo"));
    let global = reader.global.rule(&mut fields, kind);
    let reject_delay = match fields.take("reject_delay") {
        Some(node) => node.span(Span::ZERO..=MAX_REJECT_DELAY),
        None => Some(Span::ZERO),
    };
    let is_hidden = fields.take("shown").and_then(|node| node.flag()) == Some(false);
    let cost_node = fields.take("cost");
    let cost = match &cost_node {
        Some(node) => {
            reader.costs.read(node, kind, &mut cost::Place { actors: reader.actors, urls: patterns, scope })
        }
        None => Some(Cost::default()),
    };
    let cost = statuses(&mut fields, cost);
    if global.is_some() && cost.as_ref().is_some_and(Cost::learns) {
        fields.fail(LEARNS_LOCALLY);
    }
    let headroom = headroom(&mut fields, kind);
    fields.renamed("priority", "`headroom`: write `headroom: \"30%\"`, or `priority: high` beside `rules`");
    let weight = Weight::of(cost.as_ref(), headroom.flatten());
    // Each override and each plan reads the rule's keys again, below its own. A mistake in the
    // rule's keys is reported once.
    let (overrides, plans) = (fields.take("overrides"), fields.take("plans"));
    if fields.has("adapt") {
        overrides.iter().chain(&plans).for_each(refuse_others);
    }
    let adapt = adapt(&mut fields, weight, global.is_some());
    let quota = quota(&mut fields, kind, global.as_ref(), weight);
    let limit_source = limit_source(&mut fields, kind, scope);
    let changes: Vec<&Node> = overrides.iter().chain(&plans).collect();
    let day_source = day_source(&mut fields, &changes, scope);
    if limit_source.is_some() && fields.has("adapt") {
        fields.fail(ADAPTS);
    }
    let adapt = adapt?;
    if let (Some(adapt), Some(actors)) = (&adapt, &actors) {
        adapt.refuse_actors(actors);
    }
    let (quota, adaptive) = match (quota, adapt) {
        (Some(quota), Some(adapt)) => match adapt.around(quota, kind?, weight) {
            Some((adapting, Some(adaptive))) => {
                let fits = weight
                    .headroom
                    .is_none_or(|headroom| headroom.fits_lowest(&quota, &adaptive, weight.least));
                (Some(adapting).filter(|_| fits), Some(adaptive))
            }
            around => (around.map(|(quota, _)| quota), None),
        },
        (quota, _) => (quota, None),
    };
    // The quota that judges until an adaptive limit moves.
    let first = quota.map(|quota| match &adaptive {
        Some(adaptive) => quota.at(adaptive.limit(), weight.least),
        None => quota,
    });
    if let (Some(node), Some(first)) = (&cost_node, &first) {
        fits(first, node, weight.least);
        let never = never_admits(first, adaptive.as_deref(), weight.on_arrival);
        reader.warnings.extend(never.map(|why| node.warning(why)));
    }
    let mut time_base = TimeBase::of(kind, first.as_ref());
    let overrides = match overrides {
        Some(node) => {
            let (actors, warnings) = (actors.as_deref(), &mut reader.warnings);
            self::overrides(&node, &fields, (kind, weight), actors, global.as_ref(), &mut time_base, warnings)
        }
        None => Some(KeyMap::default()),
    };
    let plans = match plans {
        Some(node) => reader.plans.rule(&node, &fields, (kind, weight), global.as_ref(), &mut time_base),
        None => Some(Vec::new()),
    };
    let over_node = fields.take("over");
    let thresholds = match &over_node {
        Some(node) => over(node, reader.is_of_route),
        None => Some(Vec::new()),
    };
    fields.belong(
        &["ip", "response", "case_sensitive"],
        "to the limit, beside `rules`, or at the top, beside `limits`",
    );
    fields.belong(LIMIT_KEYS, "to the limit, beside `rules`");
    fields.belong(TOP_KEYS, "at the top, beside `limits`");
    fields.finish();
    let (missing, own) = missing.unwrap_or((Missing::Ip, None));
    let (name, _) = (name?, headroom?);
    reader.responses.push((name.clone(), RuleResponses { limit: None, missing: own, is_hidden }));
    let mut draft = RuleDraft {
        name,
        is_named,
        actors: actors?,
        missing,
        enforce: mode.within(reader.mode),
        reject_delay: reject_delay?,
        cost: cost?,
        quota: quota?,
        overrides: overrides?,
        plans: plans?,
        adaptive,
        limit_source,
        day_source,
        soft_limit: SoftLimit::None,
        on_error: global.map(|global| global.on_error),
    };
    if let (Some(node), thresholds) = (&over_node, thresholds?) {
        draft.soft_limit = soft_limit(node, &thresholds, &draft);
        reader.soft_limits.push((draft.name.clone(), thresholds));
    }
    Some(draft)
}

/// Reports a fixed cost of `least` units that the rule can never admit. A quota of 0 refuses all
/// requests anyway.
fn fits(quota: &Quota, cost: &Node, least: u64) {
    let most = quota.shown().rpu;
    // A rule that is cold has to admit a request as well.
    let most = most.checked_div(quota.parameters().tokens_per_unit()).unwrap_or(most);
    if quota.configured().rpu > 0 && least > most {
        cost.fail(format!("no request could ever pass: the rule admits a cost of at most {most}"));
    }
}

/// Reads `charge` and `refund`: the statuses by which a request is settled.
fn statuses(fields: &mut Fields, cost: Option<Cost>) -> Option<Cost> {
    let (charge, refund) = (fields.take("charge"), fields.take("refund"));
    if let (Some(_), Some(refund)) = (&charge, &refund) {
        refund.fail("`charge` and `refund` exclude each other: leave one of them out");
        return None;
    }
    let statuses = |node: Option<Node>| match node {
        Some(node) => cost::statuses(&node).map(Some),
        None => Some(None),
    };
    let (charge, refund) = (statuses(charge), statuses(refund));
    let mut cost = cost?;
    (cost.charge, cost.refund) = (charge?, refund?);
    Some(cost)
}

const ADAPTS: &str = "`adapt` moves one limit for all requests, and each request brings its own: leave `adapt` out, or write a number";

const LEARNS_LOCALLY: &str =
    "`learned` is kept with the count, and the global store keeps no such number: leave `scope` out";

/// The longest `reject_delay`.
const MAX_REJECT_DELAY: Span = Span::from_secs(60);

/// A word, or `{action, response}`.
fn missing(node: &Node, actors: Option<&[NamedActor]>) -> Option<(Missing, Option<ResponseOverride>)> {
    let Value::Object(_) = node.value() else {
        return Some((action(node, actors)?, None));
    };
    let mut fields = node.fields()?;
    let action = fields.require("action").and_then(|node| action(&node, actors));
    let response = fields.take("response");
    if let (Some(node), Some(Missing::Ip | Missing::Skip | Missing::Share)) = (&response, action) {
        node.fail("only `action: deny` refuses the request: leave `response` out");
    }
    let response = response.and_then(|node| ResponseOverride::compile(&node));
    fields.finish();
    Some((action?, response))
}

fn action(node: &Node, actors: Option<&[NamedActor]>) -> Option<Missing> {
    let choices = [Missing::Ip, Missing::Skip, Missing::Share, Missing::Deny];
    let missing = node.choice("value", &choices.map(|missing| (missing.name(), missing)))?;
    if let Some([]) = actors {
        node.fail("no request lacks the actor `all`: leave `missing` out, or name another `actor`");
    }
    Some(missing)
}

/// The key of an override, whose addresses are those that the rule counts.
fn key_of_override(actors: &[NamedActor], value: &str, node: &Node) -> Option<Vec<u8>> {
    let fail = |why: String| {
        let is_network = value.contains('/') && actors.iter().any(|named| named.actor().is_address());
        node.fail(match is_network {
            true => format!(
                "{why}; a plan has networks, as in `plan: {{actor: ip, members: {{office: [10.0.0.0/8]}}}}`"
            ),
            false => why,
        });
    };
    parse_key(actors, value).map_err(fail).ok()
}

/// How the rule counts the actors that `overrides` names by value.
fn overrides(
    node: &Node,
    rule: &Fields,
    (kind, weight): (Option<&'static AlgorithmKind>, Weight),
    actors: Option<&[NamedActor]>,
    global: Option<&global_rule::Rule>,
    time_base: &mut TimeBase,
    warnings: &mut Vec<Error>,
) -> Option<KeyMap<Quota>> {
    let mut overrides = KeyMap::default();
    let (mut complete, mut is_reported) = (true, false);
    let entries = node.entries()?;
    if entries.is_empty() {
        node.fail("an empty object changes nothing: leave `overrides` out");
    }
    for (value, node) in entries {
        let key = actors.and_then(|actors| key_of_override(actors, value, &node));
        let fields = match node.value() {
            Value::Object(_) => node.fields(),
            _ => node.expected("what is different for it, such as `{rpu: 100}`"),
        };
        let quota = fields.and_then(|fields| {
            refuse_in_change(&node);
            let mut fields = fields.over(rule);
            let quota = quota(&mut fields, kind, global, weight);
            fields.belong(RULE_KEYS, "to the rule itself: an override changes how much");
            fields.finish();
            quota
        });
        match (key, quota) {
            (Some(key), Some(quota)) => {
                // One for each rule suffices.
                let never = never_admits(&quota, None, weight.on_arrival).filter(|_| !is_reported);
                is_reported |= never.is_some();
                warnings.extend(never.map(|why| node.warning(why)));
                complete &= time_base.check(&node, &quota);
                if !overrides.insert(&key, quota) {
                    node.fail("another key names the same actor");
                    complete = false;
                }
            }
            _ => complete = false,
        }
    }
    complete.then_some(overrides)
}
