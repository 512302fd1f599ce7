//! One rule: whom it counts, how much per unit, by which algorithm, and for whom that differs.
//!
//! It does not know: any algorithm's keys; what is left of a rule after the common ones is the algorithm's.

use super::Mode;
use super::global_rule::{self, Roles, roles};
use super::names::Names;
use crate::actor::{self, Actors, Named, Scope};
use crate::algorithm::{self, Kind, Quota, RefuseAll};
use crate::document::{Fields, Node, Value, fold, nearest, one_of, quoted};
use crate::map::KeySet;
use crate::policy::{Counter, Missing, RuleDraft};
use crate::response::{ResponseOverride, RuleResponses};
use crate::time::Span;

/// What reading a rule depends on beside the rule.
pub(super) struct Reader<'a> {
    pub(super) actors: &'a Actors,
    /// The document's mode: shadow there puts every rule into shadow.
    pub(super) mode: Mode,
    pub(super) names: Names,
    pub(super) shared: global_rule::Reader<'a>,
    /// Of the rules that have been read, by name.
    pub(super) responses: Vec<(String, RuleResponses)>,
}

/// Reads rule `index` of the limit on `url`. Mistakes are reported at their place and give `None`.
pub(super) fn compile(
    node: Node,
    reader: &mut Reader,
    scope: &mut Scope,
    url: &str,
    index: usize,
) -> Option<RuleDraft> {
    let Value::Object(_) = node.value() else {
        return node.expected("a rule such as `{actor: ip, rpu: 10, unit: second}`");
    };
    let mut fields = node.fields()?;
    let name = reader.names.name(fields.take("name"), url, index);
    let actors = match fields.take("actor") {
        Some(node) => reader.actors.select(node, scope),
        None => Some(Vec::new()),
    };
    let missing = fields.take("missing").and_then(|node| missing(&node, actors.as_deref()));
    let mode = Mode::compile(fields.take("mode"));
    let shared = reader.shared.rule(&mut fields);
    let reject_delay = match fields.take("reject_delay") {
        Some(node) => node.span(Span::ZERO..=MAX_REJECT_DELAY),
        None => Some(Span::ZERO),
    };
    let kind = algorithm(fields.take("algo"));
    // An override reads the rule's keys again, laid over with its own; a mistake in them is told once.
    let overrides = fields.take("overrides");
    let ways = roles(&mut fields, kind, shared.as_ref());
    let overrides = match overrides {
        Some(node) => self::overrides(&node, &fields, kind, actors.as_deref(), shared.as_ref()),
        None => Some(Vec::new()),
    };
    fields.belong(&["response"], "to the limit, beside `rules`, or at the top, beside `limits`");
    fields.belong(super::LIMIT_KEYS, "to the limit, beside `rules`");
    fields.belong(super::TOP_KEYS, "at the top, beside `limits`");
    fields.finish();
    let (missing, own) = missing.unwrap_or((Missing::Ip, None));
    let (counts, shared) = global_rule::draft(ways?, overrides?, shared);
    let name = name?;
    reader.responses.push((name.clone(), RuleResponses { limit: None, missing: own }));
    Some(RuleDraft {
        name,
        actors: actors?,
        missing,
        enforced: mode == Mode::Enforce && reader.mode == Mode::Enforce,
        reject_delay: reject_delay?,
        counters: counts,
        global: shared,
    })
}

/// The longest that a refusal is held back.
const MAX_REJECT_DELAY: Span = Span::from_secs(60);

/// A word, or `{action, response}`.
fn missing(node: &Node, actors: Option<&[Named]>) -> Option<(Missing, Option<ResponseOverride>)> {
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

fn action(node: &Node, actors: Option<&[Named]>) -> Option<Missing> {
    let choices = [Missing::Ip, Missing::Skip, Missing::Share, Missing::Deny];
    let missing = node.choice("value", &choices.map(|missing| (missing.name(), missing)))?;
    if let Some([]) = actors {
        node.fail("no request lacks the actor `all`: leave `missing` out, or name another `actor`");
    }
    Some(missing)
}

fn algorithm(node: Option<Node>) -> Option<&'static Kind> {
    let Some(node) = node else {
        return algorithm::KINDS.first().copied();
    };
    let text = node.text()?;
    let named = |kind: &&&Kind| [kind.name, kind.short].into_iter().any(|name| fold(name) == fold(text));
    let kind = algorithm::KINDS.iter().find(named);
    if kind.is_none() {
        // Of abbreviations any is near any other.
        let names: Vec<&str> = algorithm::KINDS.iter().map(|kind| kind.name).collect();
        let hint = match nearest(text, &names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => {
                let both = algorithm::KINDS.iter().map(|kind| format!("{} ({})", kind.short, kind.name));
                let both: Vec<String> = both.collect();
                format!("expected {}", one_of(&both.iter().map(String::as_str).collect::<Vec<_>>()))
            }
        };
        node.fail(format!("unknown algorithm {}, {hint}", quoted(text)));
    }
    kind.copied()
}

/// The keys that say how much: `rpu` and `unit`, and those of the algorithm.
pub(super) fn count(fields: &mut Fields, kind: Option<&Kind>) -> Option<Counter> {
    let rpu = fields.require("rpu").and_then(|node| node.whole(0..=Quota::MAX_RPU));
    let unit = match kind {
        Some(Kind { per_unit: false, name, .. }) => {
            if let Some(node) = fields.take("unit") {
                node.fail(format!("{name} has no unit: `rpu` is how many may be in flight at once"));
            }
            Some(Span::ZERO)
        }
        Some(_) => fields.require("unit").and_then(unit),
        // Whichever was meant may have none.
        None => fields.take("unit").and_then(unit),
    };
    // Without a quota the algorithm's own keys are read for their own mistakes: one per nanosecond makes none
    // with them, neither too many to remember nor too slow to wait for.
    let quota = match (rpu, unit) {
        (Some(rpu @ 1..), Some(unit)) => Quota { rpu, unit },
        _ => Quota { rpu: 1, unit: Span::from_ns(1) },
    };
    let Some(kind) = kind else {
        // Whichever was meant, its keys are not unknown.
        for key in algorithm::KINDS.iter().flat_map(|kind| kind.keys) {
            fields.take(key);
        }
        return None;
    };
    let algorithm = (kind.compile)(fields, quota);
    others_keys(fields, kind);
    let (rpu, unit) = (rpu?, unit?);
    let algorithm = if rpu == 0 { Box::new(RefuseAll) } else { algorithm? };
    Some(Counter::new(Quota { rpu, unit }, algorithm))
}

/// Notes the keys that only other algorithms have, and which those are.
fn others_keys(fields: &mut Fields, own: &Kind) {
    for key in algorithm::KINDS.iter().flat_map(|kind| kind.keys).filter(|key| !own.keys.contains(key)) {
        let having = algorithm::KINDS.iter().filter(|kind| kind.keys.contains(key));
        let having: Vec<&str> = having.map(|kind| kind.short).collect();
        let place = format!("to the algorithm {}, and `algo` is {} here", one_of(&having), own.short);
        fields.belong(&[*key], place);
    }
}

fn unit(node: Node) -> Option<Span> {
    const WORDS: [(&str, u64); 4] = [("second", 1), ("minute", 60), ("hour", 3_600), ("day", 86_400)];
    let Value::Text(text) = node.value() else {
        return node.expected("second, minute, hour, day or a span such as `30s`");
    };
    if let Some((_, secs)) = WORDS.iter().find(|(word, _)| *word == fold(text)) {
        return Some(Span::from_secs(*secs));
    }
    if !text.trim_start().starts_with(|first: char| first.is_ascii_digit()) {
        node.fail(format!(
            "unknown unit {}, expected second, minute, hour, day or a span such as `30s`",
            quoted(text)
        ));
        return None;
    }
    node.span(Quota::MIN_UNIT..=Quota::MAX_UNIT)
}

/// How the rule counts the actors that are named by value.
fn overrides(
    node: &Node,
    rule: &Fields,
    kind: Option<&Kind>,
    actors: Option<&[Named]>,
    shared: Option<&global_rule::Rule>,
) -> Option<Vec<(Vec<u8>, Roles)>> {
    let (mut overrides, mut seen) = (Vec::new(), KeySet::default());
    let mut whole = true;
    let entries = node.entries()?;
    if entries.is_empty() {
        node.fail("it changes nothing: leave it out, or name an actor's value as in `{vip-42: {rpu: 100}}`");
    }
    for (value, node) in entries {
        let key =
            actors.and_then(|actors| actor::parse_key(actors, value).map_err(|why| node.fail(why)).ok());
        let fields = match node.value() {
            Value::Object(_) => node.fields(),
            _ => node.expected("what is different for it, such as `{rpu: 100}`"),
        };
        let count = fields.and_then(|fields| {
            let mut fields = fields.over(rule);
            let ways = roles(&mut fields, kind, shared);
            fields.belong(&super::rule_keys(), "to the rule itself: an override changes how much");
            fields.finish();
            ways
        });
        match (key, count) {
            (Some(key), Some(ways)) => {
                let is_first = seen.add(&key);
                overrides.push((key, ways));
                if !is_first {
                    node.fail("another key names the same actor");
                    whole = false;
                }
            }
            _ => whole = false,
        }
    }
    whole.then_some(overrides)
}
