//! The texts of a file that a gateway or a tool reads: the file's own, and those in strings of
//! Kubernetes manifests.

use super::content::{Content, File, SyntaxError};
use super::embedded;
use super::nginx::{self, Directive};
use super::resolve::resolve;
use super::scalar::Dialect;
use super::value::{Kind, Value};
use super::{json, yaml};

/// How deep texts may stand in strings of other texts.
const MAX_DEPTH: usize = 4;

/// A text that is read as a whole.
#[derive(Debug)]
pub struct Part {
    /// The text.
    pub content: Content,
    /// What it is.
    pub form: Form,
    /// Whether this is JSON.
    pub is_json: bool,
}

/// What a text is.
#[derive(Debug)]
pub enum Form {
    /// A document of Diana.
    Document(Value),
    /// A configuration of Envoy, or a piece of one.
    Envoy(Value),
    /// A Kubernetes manifest.
    Kubernetes(Value),
    /// A configuration of nginx.
    Nginx(Vec<Directive>),
    /// A text that cannot be read.
    Wrong(SyntaxError),
}

impl Part {
    /// The value of the text, if it is YAML or JSON.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        match &self.form {
            Form::Document(value) | Form::Envoy(value) | Form::Kubernetes(value) => Some(value),
            Form::Nginx(_) | Form::Wrong(_) => None,
        }
    }
}

/// All texts of a file.
#[must_use]
pub fn parts(file: &File) -> Vec<Part> {
    let mut parts = Vec::new();
    read(file.content(), &file.name, 0, &mut parts);
    parts
}

fn read(content: Content, name: &str, depth: usize, parts: &mut Vec<Part>) {
    match syntax(name, &content.text) {
        Syntax::Nginx => {
            let form = nginx::directives(&content.text).map_or_else(Form::Wrong, Form::Nginx);
            parts.push(Part { content, form, is_json: false });
        }
        Syntax::Json => {
            let form = json::value(&content.text).map_or_else(Form::Wrong, form);
            push(Part { content, form, is_json: true }, depth, parts);
        }
        Syntax::Yaml => match yaml::documents(&content.text) {
            Ok(documents) => {
                // A file of comments alone is one empty document.
                for root in documents.into_iter().filter(|root| root.text() != Some("")) {
                    push(Part { content: content.clone(), form: form(root), is_json: false }, depth, parts);
                }
            }
            Err(error) => parts.push(Part { content, form: Form::Wrong(error), is_json: false }),
        },
    }
}

fn push(part: Part, depth: usize, parts: &mut Vec<Part>) {
    let mut inner = Vec::new();
    if let Form::Kubernetes(root) = &part.form
        && depth < MAX_DEPTH
    {
        let mut texts = Vec::new();
        strings(root, "", &mut texts);
        for (name, value) in texts {
            if let Some(content) = embedded::content(&part.content, value) {
                read(content, name, depth.saturating_add(1), &mut inner);
            }
        }
    }
    parts.push(part);
    // Other texts in strings, such as scripts, do not configure Diana.
    parts.extend(inner.into_iter().filter(|part| match &part.form {
        Form::Document(value) => is_document(value),
        Form::Envoy(_) | Form::Kubernetes(_) => true,
        Form::Nginx(directives) => directives.iter().any(is_of_diana),
        Form::Wrong(_) => is_about_diana(&part.content.text),
    }));
}

/// The strings that may hold a text, each with its key.
fn strings<'a>(value: &'a Value, key: &'a str, found: &mut Vec<(&'a str, &'a Value)>) {
    match &value.kind {
        Kind::Text(text) => {
            let is_long = text.trim_end().contains('\n') || text.trim_start().starts_with(['{', '[']);
            // The text of a protobuf message is a configuration's own: see `documents`.
            if is_long && (key != "value" || !is_json(text)) {
                found.push((key, value));
            }
        }
        Kind::List(items) => items.iter().for_each(|item| strings(item, key, found)),
        Kind::Object(entries) => entries.iter().for_each(|entry| strings(&entry.value, &entry.key, found)),
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Plain(_) => {}
    }
}

enum Syntax {
    Json,
    Yaml,
    Nginx,
}

fn syntax(name: &str, text: &str) -> Syntax {
    let (_, extension) = name.rsplit_once('.').unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "yaml" | "yml" => Syntax::Yaml,
        "json" => Syntax::Json,
        _ if is_json(text) => Syntax::Json,
        "conf" => Syntax::Nginx,
        _ if is_nginx(text) => Syntax::Nginx,
        _ => Syntax::Yaml,
    }
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// Whether lines end as directives do.
fn is_nginx(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.next().is_some_and(|line| {
        let ends = |line: &str| line.ends_with(';') || line.ends_with('{') && !line.contains(':');
        let line = line.split(" #").next().unwrap_or_default().trim_end();
        ends(line) || line.starts_with("proxy_wasm ")
    })
}

fn form(mut root: Value) -> Form {
    if root.get("apiVersion").is_some() && root.get("kind").is_some() {
        resolve(&mut root, Dialect::Kubernetes);
        return Form::Kubernetes(root);
    }
    resolve(&mut root, Dialect::Envoy);
    match is_envoy(&root) {
        true => Form::Envoy(root),
        false => Form::Document(root),
    }
}

/// Keys at the top of what Envoy reads from files.
const ENVOY_KEYS: [&str; 8] = [
    "static_resources",
    "dynamic_resources",
    "bootstrap_extensions",
    "layered_runtime",
    "admin",
    "node",
    "resources",
    "version_info",
];

fn is_envoy(root: &Value) -> bool {
    let is_fragment = ["configuration", "filter_config"]
        .iter()
        .any(|key| root.field(key).is_some_and(|any| is_document(any.get("value").unwrap_or(any))));
    is_fragment || ENVOY_KEYS.iter().any(|key| root.field(key).is_some()) || has_extension(root)
}

/// Whether an object configures an extension of Envoy.
fn has_extension(value: &Value) -> bool {
    ["typed_config", "typed_per_filter_config"].iter().any(|key| value.field(key).is_some())
        || value.entries().iter().any(|entry| has_extension(&entry.value))
        || value.items().iter().any(has_extension)
}

/// Whether a value is probably a document of Diana, even if it has mistakes.
#[must_use]
pub fn is_document(value: &Value) -> bool {
    let is_limit = |value: &Value| {
        (value.get("url").is_some() || value.get("Url").is_some()) && value.get("rules").is_some()
    };
    value.get("limits").is_some() || is_limit(value) || value.items().first().is_some_and(is_limit)
}

/// Whether a directive configures Diana in nginx.
#[must_use]
pub fn is_of_diana(directive: &Directive) -> bool {
    matches!(directive.texts()[..], ["proxy_wasm", "diana", ..])
}

/// Whether a text that cannot be read probably belongs to Diana.
fn is_about_diana(text: &str) -> bool {
    text.contains("diana") || text.contains("limits:") || text.contains("\"limits\"")
}
