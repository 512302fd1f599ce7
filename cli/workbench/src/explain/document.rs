//! The limits and rules of a valid document in any of its three forms, and documents made of them.

use diana_config::{Configuration, Secret, Source};
use diana_document::{Value, fold};
use diana_limiter::matcher::pattern::{self, Pattern};
use miette::{Result, miette};
use std::slice;

/// A valid document.
pub struct Document<'a> {
    top: &'a Value,
    /// The limits, in the order of the document.
    pub limits: Vec<Limit<'a>>,
}

/// A limit of a document.
pub struct Limit<'a> {
    /// The limit's place, such as `limits[0]`; empty if the document is one limit.
    pub place: String,
    /// The limit's object.
    pub value: &'a Value,
    /// Whether the urls match in any case.
    pub ignores_case: bool,
}

impl<'a> Document<'a> {
    /// The limits of a valid document.
    pub fn of(top: &'a Value) -> Document<'a> {
        let of_document = get(top, "limits").and_then(|_| get(top, "case_sensitive"));
        let limit = |place, value| {
            let flag = get(value, "case_sensitive").or(of_document);
            Limit { place, value, ignores_case: flag == Some(&Value::Bool(false)) }
        };
        let placed = |name: &str, items: &'a [Value]| {
            let limit = |(index, value)| limit(format!("{name}[{index}]"), value);
            items.iter().enumerate().map(limit).collect()
        };
        let limits = match (top, get(top, "limits")) {
            (Value::List(items), _) => placed("", items),
            (_, Some(Value::List(items))) => placed("limits", items),
            _ => vec![limit(String::new(), top)],
        };
        Document { top, limits }
    }

    /// The value at a key of the full form.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        let is_full = get(self.top, "limits").is_some();
        get(self.top, key).filter(|_| is_full)
    }

    /// Whether a global store counts any rule.
    pub fn has_global(&self) -> bool {
        self.limits.iter().flat_map(Limit::rules).any(|(_, rule)| is_global(rule))
    }

    /// The document in the full form, with these limits in place of its own, and without `left_out`
    /// keys.
    pub fn with_limits(&self, limits: Vec<Value>, left_out: &[&str]) -> Value {
        let mut entries = vec![("limits".to_owned(), Value::List(limits))];
        if let (Value::Object(own), Some(_)) = (self.top, get(self.top, "limits")) {
            let kept = own.iter().filter(|(key, _)| key != "limits" && !left_out.contains(&key.as_str()));
            entries.extend(kept.cloned());
        }
        Value::Object(entries)
    }
}

impl<'a> Limit<'a> {
    /// The url patterns, as the document spells them.
    pub fn urls(&self) -> Vec<&'a str> {
        let url = get(self.value, "url").or_else(|| get(self.value, "Url"));
        let urls = match url {
            Some(Value::List(urls)) => urls.as_slice(),
            url => url.map_or(&[][..], slice::from_ref),
        };
        let text = |url: &'a Value| match url {
            Value::Text(url) => Some(&**url),
            _ => None,
        };
        urls.iter().filter_map(text).collect()
    }

    /// The url patterns as one text.
    pub fn url(&self) -> String {
        let case = if self.ignores_case { " in any case" } else { "" };
        format!("{}{case}", self.urls().join(", "))
    }

    /// The compiled url patterns.
    pub fn patterns(&self) -> Vec<Pattern> {
        let compile = |url: &str| match url.parse::<Pattern>() {
            Ok(pattern) if self.ignores_case => pattern.ignoring_case().ok(),
            pattern => pattern.ok(),
        };
        pattern::sorted(self.urls().into_iter().filter_map(compile).collect())
    }

    /// The rules, each with its place in the document.
    pub fn rules(&self) -> impl Iterator<Item = (String, &'a Value)> {
        let rules = match get(self.value, "rules") {
            Some(Value::List(rules)) => rules.as_slice(),
            _ => &[],
        };
        let dot = if self.place.is_empty() { "" } else { "." };
        let place = format!("{}{dot}rules", self.place);
        rules.iter().enumerate().map(move |(index, rule)| (format!("{place}[{index}]"), rule))
    }

    /// Whether the flag at `key` is set.
    pub fn has(&self, key: &str) -> bool {
        get(self.value, key) == Some(&Value::Bool(true))
    }
}

/// Whether a global store counts the rule.
pub fn is_global(rule: &Value) -> bool {
    matches!(get(rule, "scope"), Some(Value::Text(scope)) if fold(scope) == "global")
}

/// The value at `key` of an object.
pub fn get<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    let Value::Object(entries) = value else { return None };
    entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

/// The object with the entries that `is_kept` accepts, and with `added` ones.
pub fn changed(value: &Value, is_kept: impl Fn(&str) -> bool, added: Vec<(&str, Value)>) -> Value {
    let own = match value {
        Value::Object(entries) => entries.as_slice(),
        _ => &[],
    };
    let kept = own.iter().filter(|(key, _)| is_kept(key)).cloned();
    Value::Object(kept.chain(added.into_iter().map(|(key, value)| (key.to_owned(), value))).collect())
}

/// Compiles a document that was derived from a valid one. A placeholder replaces a secret of the
/// gateway.
pub fn compile(document: &Value) -> Result<Configuration> {
    let secret = Secret::Known("a secret for a store that is never asked".into());
    Source::new(document.to_string().as_bytes(), &secret).compile().map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        miette!("cannot explain the document: {}", lines.join("; "))
    })
}
