//! Values of a text, each with its range in the text.

use std::collections::HashSet;
use std::ops::Range;

/// A value and where the text has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The bytes of the text.
    pub range: Range<usize>,
    /// The value.
    pub kind: Kind,
    /// The quotes of a string.
    pub quote: Option<char>,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as JSON writes it.
    Number(String),
    /// Text.
    Text(String),
    /// A YAML scalar without quotes, whose type depends on the reader: see `resolve`.
    Plain(String),
    /// A list.
    List(Vec<Value>),
    /// An object, with repeated keys.
    Object(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The bytes of the key in the text.
    pub key_range: Range<usize>,
    /// The value.
    pub value: Value,
}

impl Value {
    /// The entries of an object. Any other value has none.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Object(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list. Any other value has none.
    #[must_use]
    pub fn items(&self) -> &[Value] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    /// The text of a string.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) | Kind::Plain(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number.
    #[must_use]
    pub fn whole(&self) -> Option<u64> {
        match &self.kind {
            Kind::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// `true` or `false`.
    #[must_use]
    pub fn flag(&self) -> Option<bool> {
        match self.kind {
            Kind::Bool(flag) => Some(flag),
            _ => None,
        }
    }

    /// The last entry with this key, which is the one that counts.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().rev().find(|entry| entry.key == key)
    }

    /// The value at this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The entry of a protobuf field, whose name may also be in camel case.
    #[must_use]
    pub fn field_entry(&self, name: &str) -> Option<&Entry> {
        self.entry(name).or_else(|| self.entry(&camel(name)))
    }

    /// The value of a protobuf field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.field_entry(name).map(|entry| &entry.value)
    }

    /// The value of a protobuf field of a field, and so on.
    #[must_use]
    pub fn fields(&self, names: &[&str]) -> Option<&Value> {
        names.iter().try_fold(self, |value, name| value.field(name))
    }

    /// The value as compact JSON. Of a repeated key, the last entry stays, as in a gateway.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = String::new();
        self.write(&mut json);
        json
    }

    fn write(&self, json: &mut String) {
        match &self.kind {
            Kind::Null => json.push_str("null"),
            Kind::Bool(flag) => json.push_str(if *flag { "true" } else { "false" }),
            Kind::Number(number) => json.push_str(number),
            Kind::Text(text) | Kind::Plain(text) => json.push_str(&escaped(text)),
            Kind::List(items) => {
                json.push('[');
                for (index, item) in items.iter().enumerate() {
                    json.push_str(if index > 0 { "," } else { "" });
                    item.write(json);
                }
                json.push(']');
            }
            Kind::Object(entries) => {
                json.push('{');
                let mut seen = HashSet::new();
                let mut kept = Vec::new();
                for entry in entries.iter().rev() {
                    if seen.insert(entry.key.as_str()) {
                        kept.push(entry);
                    }
                }
                for (index, entry) in kept.into_iter().rev().enumerate() {
                    json.push_str(if index > 0 { "," } else { "" });
                    json.push_str(&escaped(&entry.key));
                    json.push(':');
                    entry.value.write(json);
                }
                json.push('}');
            }
        }
    }
}

fn escaped(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `vm_config` → `vmConfig`.
#[must_use]
pub fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_string();
    for word in words {
        let mut rest = word.chars();
        camel.extend(rest.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(rest.as_str());
    }
    camel
}
