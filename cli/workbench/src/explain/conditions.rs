//! The conditions of a limit beside its url, one by one, and what the request has in their place.

use super::document::get;
use super::request::Incoming;
use super::visible::quoted;
use crate::secrets::is_secret_of_request;
use diana_config::matcher;
use diana_document::Value;
use diana_limiter::request::{claims, syntax};
use diana_response_meter::JsonValue;
use std::net::IpAddr;

/// A condition of a limit, on one name if its kind has names.
pub struct Aspect {
    /// The key in the limit, such as `headers`.
    pub key: &'static str,
    /// The name, such as a header's.
    name: Option<String>,
    /// The value at the key, with this name only.
    pub value: Value,
}

/// The kinds whose value is an object of names and conditions.
const NAMED: [&str; 5] = ["headers", "query", "jwt", "property", "request_json"];

/// The conditions of a limit, in the order of their kinds.
pub fn of(limit: &Value) -> Vec<Aspect> {
    let mut aspects = Vec::new();
    for kind in matcher::KINDS {
        match get(limit, kind.key) {
            Some(Value::Object(entries)) if NAMED.contains(&kind.key) => {
                aspects.extend(entries.iter().map(|(name, condition)| Aspect {
                    key: kind.key,
                    name: Some(name.clone()),
                    value: Value::Object(vec![(name.clone(), condition.clone())]),
                }));
            }
            Some(value) => aspects.push(Aspect { key: kind.key, name: None, value: value.clone() }),
            None => {}
        }
    }
    aspects
}

impl Aspect {
    /// The condition in the document's spelling: `methods: ["GET"]`.
    pub fn spelling(&self) -> String {
        match (&self.name, self.condition()) {
            (Some(name), Some(_)) if self.is_secret() => format!("{}.{name}: …", self.key),
            (Some(name), Some(condition)) => format!("{}.{name}: {condition}", self.key),
            _ => format!("{}: {}", self.key, self.value),
        }
    }

    /// What the request of this client has, and what the condition expects.
    pub fn reason(&self, incoming: &Incoming, client: Option<IpAddr>) -> String {
        let found = match (self.key, client) {
            ("ip", Some(client)) => vec![client.to_string()],
            _ => self.found(incoming),
        };
        let expected = match self.condition() {
            Some(condition) if self.is_secret() && get(condition, "present").is_none() => {
                "another value".into()
            }
            Some(condition) => expected(condition),
            None => expected(&self.value),
        };
        let what = match self.key {
            "methods" => "the method".to_owned(),
            "hosts" => "the host".to_owned(),
            "ip" => "the client's address".to_owned(),
            "body_size" => "the size of the body".to_owned(),
            "headers" => format!("the header {}", self.quoted_name()),
            "query" => format!("the query parameter {}", self.quoted_name()),
            "jwt" => format!("the claim {}", self.quoted_name()),
            "property" => format!("the attribute {}", self.quoted_name()),
            "request_json" => format!("the value {} of the body", self.quoted_name()),
            other => format!("{} {}", quoted(other), self.quoted_name()),
        };
        match found.as_slice() {
            [] => format!("{what} is absent, expected {expected}"),
            [only] => format!("{what} is {}, expected {expected}", quoted(only)),
            [first, others @ ..] => {
                format!("{what} is {} and {} more, expected {expected}", quoted(first), others.len())
            }
        }
    }

    /// Whether the condition compares a secret, such as an API key.
    fn is_secret(&self) -> bool {
        matches!(self.key, "headers" | "query") && self.name.as_deref().is_some_and(is_secret_of_request)
    }

    fn quoted_name(&self) -> String {
        self.name.as_deref().map(quoted).unwrap_or_default()
    }

    fn condition(&self) -> Option<&Value> {
        get(&self.value, self.name.as_deref()?)
    }

    /// The values that the request has.
    fn found(&self, incoming: &Incoming) -> Vec<String> {
        let name = self.name.as_deref().unwrap_or_default();
        match self.key {
            "methods" => vec![incoming.method.clone()],
            "hosts" => incoming.host.iter().cloned().collect(),
            "body_size" => incoming.declared_size().iter().map(u64::to_string).collect(),
            "headers" => incoming.lines(&name.to_ascii_lowercase()).map(str::to_owned).collect(),
            "query" => {
                let values = syntax::query_values(incoming.target.as_bytes(), name.as_bytes());
                values.map(|value| String::from_utf8_lossy(&value).into_owned()).collect()
            }
            "jwt" => {
                let lines = incoming.lines("authorization");
                let tokens = lines.filter_map(|line| claims::token(line.as_bytes()));
                let claims = tokens.filter_map(|token| diana_config::claim(token, name));
                claims.flat_map(|claim| claim.values().map(text_of).collect::<Vec<_>>()).collect()
            }
            "property" => {
                let of_name = |(path, _): &&(Vec<String>, String)| spelt(path) == name;
                incoming.properties.iter().filter(of_name).map(|(_, value)| value.clone()).collect()
            }
            "request_json" => match incoming.body.value(name) {
                JsonValue::Text(text) | JsonValue::Literal(text) => vec![text_of(&text)],
                JsonValue::Absent | JsonValue::Null | JsonValue::Unreadable => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

fn text_of(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

/// The path of an attribute, as a document spells it.
fn spelt(path: &[String]) -> String {
    let steps: Vec<String> = path.iter().map(|step| step.replace('\\', "\\\\").replace('.', "\\.")).collect();
    steps.join(".")
}

/// What a condition expects, in words.
fn expected(condition: &Value) -> String {
    let text = |value: &Value| match value {
        Value::Text(text) => quoted(text),
        other => quoted(&other.to_string()),
    };
    let of_key = |key| get(condition, key);
    match condition {
        Value::List(items) => {
            let words: Vec<String> = items.iter().map(text).collect();
            diana_document::one_of(&words.iter().map(String::as_str).collect::<Vec<_>>())
        }
        Value::Object(_) => match (of_key("prefix"), of_key("regex"), of_key("present")) {
            (Some(prefix), ..) => format!("a value that begins with {}", text(prefix)),
            (_, Some(regex), _) => format!("a value that matches {}", text(regex)),
            (_, _, Some(Value::Bool(true))) => "any value".into(),
            (_, _, Some(_)) => "none".into(),
            _ if let Some(excluded) = of_key("not") => format!("anything but {}", expected(excluded)),
            _ => match (of_key("min"), of_key("max")) {
                (Some(min), Some(max)) => format!("{} to {} bytes", text(min), text(max)),
                (Some(min), None) => format!("at least {} bytes", text(min)),
                (None, Some(max)) => format!("at most {} bytes", text(max)),
                (None, None) => text(condition),
            },
        },
        other => text(other),
    }
}
