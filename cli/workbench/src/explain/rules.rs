//! The limits that apply, with their rules: the actor and the verdicts of each rule.

use super::actors::RuleActors;
use super::conditions;
use super::document::{Document, get, is_global};
use super::limits::Matched;
use super::report::{ActorView, LimitView, RuleView};
use super::request::seconds;
use super::runs;
use super::simulation::Simulation;
use diana_base::time::Span;
use diana_config::algorithm::KINDS;
use diana_document::{Value, fold};
use diana_limiter::algorithm::Allowance;
use diana_limiter::policy::{ActorSource, RuleId};
use std::collections::BTreeMap;

/// The limits that apply, in the order of their checks.
pub fn views(
    document: &Document,
    matched: &Matched,
    mut actors: BTreeMap<(usize, usize), RuleActors>,
    simulation: &Simulation,
) -> Vec<LimitView> {
    let mut views = Vec::new();
    for at in &matched.applying {
        let Some(limit) = document.limits.get(*at) else { continue };
        let rules = limit.rules().enumerate().filter_map(|(index, (place, value))| {
            let actors = actors.remove(&(*at, index)).unwrap_or_default();
            rule(simulation, simulation.rule((*at, index))?, place, value, actors)
        });
        views.push(LimitView {
            place: limit.place.clone(),
            url: limit.url(),
            conditions: conditions::of(limit.value).iter().map(conditions::Aspect::spelling).collect(),
            is_exclusive: limit.has("exclusive"),
            is_high_priority: matches!(get(limit.value, "priority"), Some(Value::Text(word)) if fold(word) == "high"),
            rules: rules.collect(),
        });
    }
    views
}

fn rule(
    simulation: &Simulation,
    id: RuleId,
    place: String,
    value: &Value,
    actors: RuleActors,
) -> Option<RuleView> {
    let compiled = simulation.policy().rule(id)?;
    let first = simulation.decisions.iter().find_map(|decided| decided.check(id));
    let algorithm = algorithm(value);
    // An override or a plan counts this actor in another way.
    let calendar = compiled.quota().algorithm().of_calendar().copied();
    let is_other = |quota: &Allowance| match calendar {
        // The length of the present period differs.
        Some(_) => quota.rpu != compiled.quota().shown().rpu,
        None => *quota != compiled.quota().shown(),
    };
    let other = first.map(|check| check.shown()).filter(is_other);
    let brought = first.filter(|check| check.brings_limit()).map(|check| check.configured());
    let quota = brought.or(other).unwrap_or_else(|| compiled.configured());
    let by = if brought.is_some() { ", by the request" } else { "" };
    let hidden =
        if matches!(get(value, "shown"), Some(Value::Bool(false))) { ", hidden from clients" } else { "" };
    let factor = first.and_then(|check| check.factor());
    let price = factor.map_or(String::new(), |factor| format!(", costs times {}", f64::from(factor) / 1e3));
    let is_enforced = first.map_or_else(|| compiled.enforced(), |check| check.is_enforced());
    Some(RuleView {
        name: compiled.name().into(),
        place,
        algorithm,
        rpu: quota.rpu,
        unit_s: seconds(quota.unit),
        quota: match calendar {
            Some(calendar) => {
                format!("{}/{}{by}{}{price}{hidden}", quota.rpu, calendar.unit.name(), begins(value))
            }
            None => shown(quota) + by + &price + hidden,
        },
        is_global: is_global(value),
        is_enforced,
        enforce: compiled.enforce().to_string(),
        actor: actor(first.map(|check| check.actor()), actors),
        runs: runs::of(&simulation.decisions, id),
    })
}

/// The short name of the rule's algorithm. Without `algo`, the first algorithm counts.
fn algorithm(rule: &Value) -> &'static str {
    let named = match get(rule, "algo") {
        Some(Value::Text(name)) => {
            KINDS.iter().find(|kind| [kind.name, kind.short].iter().any(|known| fold(known) == fold(name)))
        }
        _ => KINDS.first(),
    };
    named.map_or("", |kind| kind.short)
}

/// A quota such as `10/s`, `100/30s` or `4 in flight`.
fn shown(quota: Allowance) -> String {
    if quota.unit == Span::ZERO {
        return format!("{} in flight", quota.rpu);
    }
    let unit = match quota.unit.to_string() {
        one if one == "1s" => "s".into(),
        one if one == "1m" => "min".into(),
        one if one == "1h" => "h".into(),
        one if one == "1d" => "day".into(),
        other => other,
    };
    format!("{}/{unit}", quota.rpu)
}

/// Where the periods of a rule begin, as ` from day 31, 6:00, in Europe/Berlin`.
fn begins(rule: &Value) -> String {
    let anchor = get(rule, "anchor");
    let key = |key: &str| match get(anchor?, key)? {
        Value::Whole(number) => Some(number.to_string()),
        Value::Text(text) => Some(fold(text)),
        Value::Object(_) => Some("of the request".into()),
        _ => None,
    };
    let words = [("month", "month "), ("weekday", ""), ("day", "day "), ("hour", "")];
    let words = words.map(|(name, word)| {
        let end = if name == "hour" { ":00" } else { "" };
        Some([word, &key(name)?, end].concat())
    });
    let words: Vec<String> = words.into_iter().flatten().collect();
    let from = if words.is_empty() { String::new() } else { format!(" from {}", words.join(", ")) };
    match get(rule, "timezone") {
        Some(Value::Text(zone)) => format!("{from} in {zone}"),
        _ => from,
    }
}

/// The actor that the rule counts. `source` is what the engine reports; `None` if the rule reported
/// nothing.
fn actor(source: Option<ActorSource>, actors: RuleActors) -> ActorView {
    let RuleActors { values, address } = actors;
    let names: Vec<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
    let name = if names.is_empty() { "all".to_owned() } else { names.join(", ") };
    let lacks: Vec<String> =
        values.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name.clone()).collect();
    let all: Option<Vec<&str>> = values.iter().map(|(_, value)| value.as_deref()).collect();
    let value = all.filter(|values| !values.is_empty()).map(|values| values.join(", "));
    let (found, value) = match source {
        Some(ActorSource::Actor) if values.is_empty() => ("all", None),
        Some(ActorSource::Actor) => ("actor", value),
        Some(ActorSource::Address) => ("ip", address),
        Some(ActorSource::Shared) => ("shared", None),
        Some(ActorSource::Missing) => ("denied", None),
        None if !lacks.is_empty() => ("skipped", None),
        None if values.is_empty() => ("all", None),
        None => ("actor", value),
    };
    ActorView { name, found, value, lacks }
}
