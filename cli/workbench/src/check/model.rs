//! A valid document as the warnings see it: limits, conditions and rules with their places.

use crate::source::value::{Entry, Kind, Value};
use diana_base::time::Span;
use diana_calendar::Unit;
use diana_config::matcher::KINDS;
use diana_document::{Errors, Node, fold};
use diana_limiter::algorithm::Allowance;
use diana_limiter::matcher::pattern::{self, Pattern};
use diana_limiter::policy::Enforce;
use std::ops::Range;
use std::slice;

/// A document.
pub struct Model<'a> {
    /// The document.
    pub root: &'a Value,
    /// The limits.
    pub limits: Vec<Limit<'a>>,
}

/// A limit.
pub struct Limit<'a> {
    /// The url patterns, less specific ones first.
    pub patterns: Vec<Pattern>,
    /// Each condition: its kind, the name for kinds that have names, and the rest as JSON.
    pub conditions: Vec<Condition<'a>>,
    /// Whether less specific limits do not apply.
    pub exclusive: bool,
    /// Whether its requests may take the headroom of rules.
    pub is_high: bool,
    /// The url, or the list of urls.
    pub url: &'a Value,
    /// The rules.
    pub rules: Vec<Rule<'a>>,
}

/// A condition of a limit. `headers: {a: 1, b: 2}` are two conditions.
pub struct Condition<'a> {
    /// The kind, such as `headers`.
    pub kind: &'static str,
    /// The name, in lower case for headers; empty for kinds without names.
    pub name: String,
    /// The rest, as JSON.
    pub json: String,
    /// The value, if the condition compares one.
    pub value: Option<&'a str>,
    /// Where the document has the rest.
    pub range: Range<usize>,
}

impl Condition<'_> {
    /// What the condition requires, regardless of its place.
    #[must_use]
    pub fn canonical_form(&self) -> (&str, &str, &str) {
        (self.kind, &self.name, &self.json)
    }
}

/// A rule.
pub struct Rule<'a> {
    /// The rule.
    pub value: &'a Value,
    /// The names of the actors, sorted; a segment as `{segment: name}`.
    pub actors: Vec<String>,
    /// Requests per unit, or in flight.
    pub rpu: u64,
    /// The unit in nanoseconds; 0 if there is none.
    pub unit_ns: u64,
    /// Whether the rule refuses anybody.
    pub enforced: bool,
    /// Whether requests without the actor are not counted.
    pub skips: bool,
    /// Whether all gateways count together.
    pub is_global: bool,
}

/// The kinds whose conditions have names.
pub const NAMED: [&str; 5] = ["headers", "query", "jwt", "property", "request_json"];

impl<'a> Model<'a> {
    /// The model of a document without mistakes.
    #[must_use]
    pub fn of(root: &'a Value) -> Model<'a> {
        let mode = match root.get("limits") {
            Some(_) => Mode::of(root),
            None => Mode { is_shadow: false, enforce: None },
        };
        let case_sensitive = root.get("limits").and_then(|_| root.get("case_sensitive"));
        let case_sensitive = case_sensitive.and_then(Value::flag).unwrap_or(true);
        let limits: Vec<&Value> = match (&root.kind, root.get("limits")) {
            (Kind::List(items), _) => items.iter().collect(),
            (_, Some(limits)) => limits.items().iter().collect(),
            _ => vec![root],
        };
        let limits = limits.into_iter().filter_map(|limit| Limit::of(limit, mode, case_sensitive)).collect();
        Model { root, limits }
    }

    /// All enforced rules, each with its limit.
    pub fn enforced(&self) -> impl Iterator<Item = (&Limit<'a>, &Rule<'a>)> {
        let rules = self.limits.iter().flat_map(|limit| limit.rules.iter().map(move |rule| (limit, rule)));
        rules.filter(|(_, rule)| rule.enforced)
    }

    /// The definition of an actor, as `{header: x-user-id}`.
    #[must_use]
    pub fn actor(&self, name: &str) -> Option<&'a Value> {
        self.root.get("actors")?.get(name)
    }

    /// The header that alone gives an actor its value.
    #[must_use]
    pub fn actor_header(&self, name: &str) -> Option<String> {
        match (self.actor(name), name) {
            (Some(source), _) => source.get("header")?.text().map(str::to_ascii_lowercase),
            (None, "user" | "account") => Some("x-user-id".into()),
            (None, "device") => Some("x-device-id".into()),
            _ => None,
        }
    }

    /// Whether every request has the actor.
    #[must_use]
    pub fn always_has(&self, name: &str) -> bool {
        let of_source = |source: &Value| source.get("ip").is_some() || is_method_or_host(source);
        matches!(name, "all" | "ip") || self.actor(name).is_some_and(of_source)
    }
}

fn is_method_or_host(source: &Value) -> bool {
    matches!(source.text(), Some("method" | "host"))
}

impl<'a> Limit<'a> {
    fn of(value: &'a Value, document: Mode, case_sensitive: bool) -> Option<Limit<'a>> {
        let url = value.get("url").or_else(|| value.get("Url"))?;
        let ignores_case = !value.get("case_sensitive").and_then(Value::flag).unwrap_or(case_sensitive);
        let compile = |url: &Value| match url.text()?.parse::<Pattern>() {
            Ok(pattern) if ignores_case => pattern.ignoring_case().ok(),
            pattern => pattern.ok(),
        };
        let mut conditions = Vec::new();
        for kind in KINDS {
            let Some(condition) = value.get(kind.key) else {
                continue;
            };
            if NAMED.contains(&kind.key) {
                for entry in condition.entries() {
                    let name = match kind.key {
                        "headers" => entry.key.to_ascii_lowercase(),
                        _ => entry.key.clone(),
                    };
                    let (json, value) = (entry.value.to_json(), entry.value.text());
                    let range = entry.value.range.clone();
                    conditions.push(Condition { kind: kind.key, name, json, value, range });
                }
            } else {
                let (json, range) = (condition.to_json(), condition.range.clone());
                conditions.push(Condition { kind: kind.key, name: String::new(), json, value: None, range });
            }
        }
        conditions.sort_by(|a, b| a.canonical_form().cmp(&b.canonical_form()));
        let rules = value.get("rules").map_or(&[][..], Value::items);
        Some(Limit {
            patterns: pattern::sorted(urls(url).map(compile).collect::<Option<_>>()?),
            conditions,
            exclusive: value.get("exclusive").and_then(Value::flag).unwrap_or(false),
            is_high: value.get("priority").and_then(Value::text).map(fold).as_deref() == Some("high"),
            url,
            rules: rules.iter().map(|rule| Rule::of(rule, document)).collect(),
        })
    }

    /// The urls, as the document spells them.
    pub fn urls(&self) -> impl Iterator<Item = &'a Value> {
        urls(self.url)
    }

    /// The patterns in canonical form, in one text.
    #[must_use]
    pub fn patterns_text(&self) -> String {
        let patterns: Vec<String> = self.patterns.iter().map(Pattern::to_string).collect();
        patterns.join(", ")
    }

    /// Whether this limit's patterns match every path that those of `other` match.
    #[must_use]
    pub fn contains(&self, other: &Limit) -> bool {
        other.patterns.iter().all(|url| self.patterns.iter().any(|own| own.contains(url)))
    }

    /// Whether all conditions of this limit are conditions of the other one.
    #[must_use]
    pub fn asks_no_more_than(&self, other: &Limit) -> bool {
        let has =
            |of: &Condition| other.conditions.iter().any(|own| own.canonical_form() == of.canonical_form());
        self.conditions.iter().all(has)
    }
}

fn urls(url: &Value) -> impl Iterator<Item = &Value> {
    match &url.kind {
        Kind::List(urls) => urls.iter(),
        _ => slice::from_ref(url).iter(),
    }
}

impl<'a> Rule<'a> {
    fn of(value: &'a Value, document: Mode) -> Rule<'a> {
        let name = |actor: &Value| match actor.text() {
            Some("account") => "user".to_string(),
            Some(name) => name.to_string(),
            None => actor.to_json(),
        };
        let mut actors = match value.get("actor") {
            Some(Value { kind: Kind::List(items), .. }) => items.iter().map(name).collect(),
            Some(actor) => vec![name(actor)],
            None => vec!["all".into()],
        };
        actors.sort();
        let missing = value.get("missing").map(|missing| missing.get("action").unwrap_or(missing));
        let folded = |key: &str| value.get(key).and_then(Value::text).map(fold);
        Rule {
            value,
            actors,
            rpu: value.get("rpu").and_then(size).unwrap_or(0),
            unit_ns: value.get("unit").and_then(Value::text).and_then(unit_ns).unwrap_or(0),
            enforced: Mode::of(value).enforces(document),
            skips: missing.and_then(Value::text).map(fold).as_deref() == Some("skip"),
            is_global: folded("scope").as_deref() == Some("global"),
        }
    }

    /// The name in messages, with a space in front; empty if the rule has none.
    #[must_use]
    pub fn named(&self) -> String {
        let name = self.value.get("name").and_then(Value::text);
        name.map_or(String::new(), |name| format!(" {}", diana_document::quoted(name)))
    }

    /// The rule's own quota, and those of its overrides and plans.
    pub fn quotas(&self) -> impl Iterator<Item = Quota<'a>> {
        let rule = self.value;
        let named = ["overrides", "plans"].into_iter().filter_map(|key| rule.get(key));
        let named = named.flat_map(Value::entries).map(|entry| &entry.value);
        [rule].into_iter().chain(named).map(move |value| Quota { value, rule })
    }

    /// Whether this rule admits more over a long time than the other one does.
    #[must_use]
    pub fn is_looser_than(&self, other: &Rule) -> bool {
        let is_rate = |rule: &Rule| rule.unit_ns > 0;
        let product = |rpu: u64, unit: u64| u128::from(rpu).saturating_mul(unit.max(1).into());
        is_rate(self) == is_rate(other) && product(self.rpu, other.unit_ns) > product(other.rpu, self.unit_ns)
    }
}

/// A quota of a rule: the rule's own, or that of an override or a plan.
pub struct Quota<'a> {
    value: &'a Value,
    rule: &'a Value,
}

impl<'a> Quota<'a> {
    /// Where the quota itself has this key.
    #[must_use]
    pub fn own(&self, key: &str) -> Option<&'a Entry> {
        self.value.entry(key)
    }

    fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.own(key).or_else(|| self.rule.entry(key))
    }

    /// A number of requests.
    #[must_use]
    pub fn size(&self, key: &str) -> Option<u64> {
        size(&self.entry(key)?.value)
    }

    /// The unit in nanoseconds.
    #[must_use]
    pub fn unit_ns(&self) -> Option<u64> {
        unit_ns(self.entry("unit")?.value.text()?)
    }
}

/// The `mode` and `enforce` of a document or of a rule.
#[derive(Clone, Copy)]
struct Mode {
    is_shadow: bool,
    enforce: Option<Enforce>,
}

impl Mode {
    fn of(value: &Value) -> Mode {
        let text = |key: &str| value.get(key).and_then(Value::text);
        Mode {
            is_shadow: text("mode").map(fold).as_deref() == Some("shadow"),
            enforce: text("enforce").and_then(Enforce::parse),
        }
    }

    /// Whether a rule of this mode refuses anybody in a document of the mode `document`.
    fn enforces(self, document: Mode) -> bool {
        let part = self.enforce.or(document.enforce);
        !self.is_shadow && !document.is_shadow && part != Some(Enforce::NOBODY)
    }
}

/// A number, or a size such as `10k`.
fn size(value: &Value) -> Option<u64> {
    match &value.kind {
        Kind::Text(text) => {
            let (value, errors) = (diana_document::Value::Text(text.clone()), Errors::default());
            Node::root(&value, &errors).size(0..=Allowance::MAX_IN_WINDOW)
        }
        Kind::Number(number) => number.parse::<f64>().ok().map(|number| number as u64),
        _ => None,
    }
}

fn unit_ns(text: &str) -> Option<u64> {
    let units = [Unit::Week, Unit::Month, Unit::Year];
    if let Some(unit) = units.into_iter().find(|unit| unit.name() == fold(text)) {
        return Some(Span::from_secs(unit.days() * 86_400).as_ns());
    }
    let span = diana_document::unit(text).or_else(|| {
        let (value, errors) = (diana_document::Value::Text(text.into()), Errors::default());
        Node::root(&value, &errors).span(Span::ZERO..=Span::from_secs(u32::MAX.into()))
    });
    span.map(Span::as_ns)
}
