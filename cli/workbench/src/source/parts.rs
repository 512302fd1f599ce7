//! The texts of a file that a gateway or a tool reads: the file's own, and those in strings of
//! Kubernetes manifests.

use super::blame::blame;
use super::content::{Content, File, SyntaxError};
use super::embedded;
use super::nginx::{self, Directive};
use super::recognize::{is_broken_text_of_diana, is_document, is_embedded_document, is_of_diana};
use super::resolve::resolve;
use super::scalar::Dialect;
use super::value::{Entry, Kind, Value};
use super::{json, yaml};

/// How deep texts may be nested in strings of other texts.
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
            Err(error) => {
                let error = blame(&content.text, error);
                parts.push(Part { content, form: Form::Wrong(error), is_json: false });
            }
        },
    }
}

fn push(part: Part, depth: usize, parts: &mut Vec<Part>) {
    let mut inner = Vec::new();
    if let Form::Kubernetes(root) = &part.form
        && depth < MAX_DEPTH
    {
        let mut texts = Vec::new();
        embedded_texts(root, &mut texts);
        for (name, value) in texts {
            if let Some(content) = embedded::content(&part.content, value) {
                let first = inner.len();
                read(content.without_mark(), name, depth.saturating_add(1), &mut inner);
                let read = inner.split_off(first);
                inner.extend(read.into_iter().filter(|part| is_about_diana(name, part)));
            }
        }
    }
    parts.push(part);
    parts.extend(inner);
}

/// The texts of files in a manifest, each with the file's name.
fn embedded_texts<'a>(value: &'a Value, found: &mut Vec<(&'a str, &'a Value)>) {
    if value.get("kind").and_then(Value::text) == Some("EnvoyProxy") {
        let path = ["spec", "bootstrap", "value"];
        let bootstrap = path.iter().try_fold(value, |value, key| value.get(key));
        found.extend(bootstrap.filter(|text| text.text().is_some()).map(|text| ("bootstrap.yaml", text)));
    }
    let mut entry = |entry: &'a Entry| match &entry.value.kind {
        Kind::Text(_) if is_file(&entry.key) => found.push((&entry.key, &entry.value)),
        _ => embedded_texts(&entry.value, found),
    };
    value.entries().iter().for_each(&mut entry);
    value.items().iter().for_each(|item| embedded_texts(item, found));
}

/// Whether a key is the name of a file that may configure Diana.
fn is_file(key: &str) -> bool {
    matches!(extension(key).as_str(), "json" | "yaml" | "yml" | "conf")
}

/// Whether a text within a manifest configures Diana, or embeds the filter.
fn is_about_diana(name: &str, part: &Part) -> bool {
    match &part.form {
        Form::Document(value) => is_embedded_document(name, value),
        Form::Envoy(root) => has_extension(root) || bodies(root).any(is_document),
        Form::Kubernetes(_) => true,
        Form::Nginx(directives) => directives.iter().any(is_of_diana),
        Form::Wrong(_) => is_broken_text_of_diana(&part.content.text),
    }
}

enum Syntax {
    Json,
    Yaml,
    Nginx,
}

fn syntax(name: &str, text: &str) -> Syntax {
    match extension(name).as_str() {
        "yaml" | "yml" => Syntax::Yaml,
        "json" => Syntax::Json,
        _ if is_json(text) => Syntax::Json,
        "conf" => Syntax::Nginx,
        _ if is_nginx(text) => Syntax::Nginx,
        _ => Syntax::Yaml,
    }
}

fn extension(name: &str) -> String {
    let (_, extension) = name.rsplit_once('.').unwrap_or_default();
    extension.to_ascii_lowercase()
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
    let is_fragment = bodies(root).any(|body| body.get("limits").is_some() || is_document(body));
    is_fragment || ENVOY_KEYS.iter().any(|key| root.field(key).is_some()) || has_extension(root)
}

/// What may be a document, if a text is the end of a filter's configuration.
fn bodies(root: &Value) -> impl Iterator<Item = &Value> {
    let any = ["configuration", "filter_config"].into_iter().filter_map(|key| root.field(key));
    any.map(|any| any.get("value").unwrap_or(any))
}

/// Whether an object configures an extension of Envoy.
fn has_extension(value: &Value) -> bool {
    ["typed_config", "typed_per_filter_config"].iter().any(|key| value.field(key).is_some())
        || value.entries().iter().any(|entry| has_extension(&entry.value))
        || value.items().iter().any(has_extension)
}
