//! The document that a conversion builds, and its YAML.

use super::notes::Spot;
use crate::init::yaml::{SCHEMA, flow, scalar};
use diana_config::keys;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// An object of a document.
pub type Object = Map<String, Value>;

/// A document in parts.
#[derive(Debug, Default)]
pub struct Draft {
    /// The limits, in the order in which the document has them.
    pub limits: Vec<Limit>,
    /// The sources of actors, by name.
    pub actors: BTreeMap<String, Value>,
    /// The other keys at the top.
    pub top: Object,
    names: HashSet<String>,
}

/// A limit.
#[derive(Clone, Debug, Default)]
pub struct Limit {
    /// Everything but the rules.
    pub keys: Object,
    /// The rules.
    pub rules: Vec<Rule>,
    /// The lines of the source from which it comes.
    pub from: Vec<String>,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// The keys, with the name.
    pub keys: Object,
    /// The lines of the source from which it comes.
    pub from: Vec<String>,
}

/// The order of a limit's keys in YAML; others follow.
const ORDER: [&str; 11] = [
    "url",
    "methods",
    "hosts",
    "ip",
    "headers",
    "query",
    "jwt",
    "property",
    "exclusive",
    "response",
    "priority",
];

impl Draft {
    /// A name for a rule that no other rule has: `a-z 0-9 _ -`, at most 64 of them.
    pub fn name(&mut self, wish: &str) -> String {
        let plain = |c: char| match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() || c == '_' => c,
            _ => '-',
        };
        let plain: String = wish.chars().map(plain).collect();
        let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
        let mut stem: String = words.join("-").chars().take(56).collect();
        if stem.is_empty() || matches!(stem.as_str(), "allow" | "deny") {
            stem.insert_str(0, "rule");
        }
        let numbered = (2..).map(|number: u32| format!("{stem}-{number}"));
        let mut names = std::iter::once(stem.clone()).chain(numbered);
        let name = names.find(|name| !self.names.contains(name)).unwrap_or_default();
        self.names.insert(name.clone());
        name
    }

    /// The name of an actor with this source. Sources that are equal share a name.
    pub fn actor(&mut self, wish: &str, source: Value) -> String {
        if let Some((name, _)) = self.actors.iter().find(|(_, known)| **known == source) {
            return name.clone();
        }
        let plain =
            |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' };
        let stem: String = wish.chars().map(plain).take(56).collect();
        let stem = stem.trim_matches('-').to_owned();
        let is_taken = |name: &str| {
            name.is_empty()
                || matches!(name, "all" | "ip" | "user" | "account" | "device")
                || self.actors.contains_key(name)
        };
        let numbered = (2..).map(|number: u32| format!("{stem}-{number}"));
        let mut names = std::iter::once(stem.clone()).chain(numbered);
        let name = names.find(|name| !is_taken(name)).unwrap_or_default();
        self.actors.insert(name.clone(), source);
        name
    }

    /// The actor of a header.
    pub fn header(&mut self, header: &str) -> String {
        let header = header.to_ascii_lowercase();
        match header.as_str() {
            "x-user-id" => "user".into(),
            "x-device-id" => "device".into(),
            _ => self.actor(&header, json!({"header": header})),
        }
    }

    /// The document as JSON.
    #[must_use]
    pub fn document(&self) -> Value {
        let limits: Vec<Value> = self.limits.iter().map(Limit::json).collect();
        let mut document = self.top.clone();
        document.insert("limits".into(), limits.into());
        if !self.actors.is_empty() {
            let actors: Object = self.actors.clone().into_iter().collect();
            document.insert("actors".into(), actors.into());
        }
        document.into()
    }

    /// The document as YAML, with the lines of the source as comments.
    #[must_use]
    pub fn yaml(&self) -> String {
        let mut lines = vec![format!("# yaml-language-server: $schema={SCHEMA}")];
        if self.limits.is_empty() {
            lines.push("limits: []".into());
        } else {
            lines.push("limits:".into());
        }
        for limit in &self.limits {
            lines.extend(limit.from.iter().map(|from| format!("  # {from}")));
            // Sorted, because a map keeps its order only if some crate of the build wants it to.
            let rest: BTreeSet<&str> = limit.keys.keys().map(String::as_str).collect();
            let keys = ORDER.into_iter().chain(rest.into_iter().filter(|key| !ORDER.contains(key)));
            let mut start = "  - ";
            for key in keys {
                if let Some(value) = limit.keys.get(key) {
                    lines.push(format!("{start}{}: {}", scalar(key), flow(value)));
                    start = "    ";
                }
            }
            if !limit.rules.is_empty() {
                lines.push("    rules:".into());
            }
            for rule in &limit.rules {
                lines.extend(rule.from.iter().map(|from| format!("      # {from}")));
                lines.push(format!("      - {}", rule.flow()));
            }
        }
        if !self.actors.is_empty() {
            lines.push("actors:".into());
            let actors = self.actors.iter();
            lines.extend(actors.map(|(name, source)| format!("  {}: {}", scalar(name), flow(source))));
        }
        let top: BTreeMap<&String, &Value> = self.top.iter().collect();
        lines.extend(top.into_iter().map(|(key, value)| format!("{}: {}", scalar(key), flow(value))));
        lines.join("\n") + "\n"
    }
}

impl Limit {
    fn json(&self) -> Value {
        let mut limit = self.keys.clone();
        if !self.rules.is_empty() {
            let rules: Vec<Value> = self.rules.iter().map(|rule| rule.keys.clone().into()).collect();
            limit.insert("rules".into(), rules.into());
        }
        limit.into()
    }
}

impl Rule {
    /// A rule that comes from one place of the source.
    #[must_use]
    pub fn new(keys: Object, spot: &Spot) -> Rule {
        Rule { keys, from: vec![spot.place()] }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.keys.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// The rule in one line, with the keys in the order in which people write them.
    #[must_use]
    pub fn flow(&self) -> String {
        let entries = keys::of_rule().filter_map(|key| {
            let value = self.keys.get(key.name)?;
            Some(format!("{}: {}", key.name, flow(value)))
        });
        format!("{{{}}}", entries.collect::<Vec<String>>().join(", "))
    }

    /// The numbers of the rule, for a note.
    #[must_use]
    pub fn numbers(&self) -> String {
        let shown = ["algo", "rpu", "unit", "burst", "queue", "max_wait", "mode"];
        let entries = shown.into_iter().filter_map(|key| {
            let value = self.keys.get(key)?;
            Some(format!("{key}: {}", flow(value)))
        });
        format!("{}: {}", self.name(), entries.collect::<Vec<String>>().join(", "))
    }
}

/// The object with these entries, without those that are null.
#[must_use]
pub fn object(value: Value) -> Object {
    match value {
        Value::Object(entries) => entries.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => Object::new(),
    }
}
