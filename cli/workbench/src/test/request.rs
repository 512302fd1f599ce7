//! What test files say about requests: each layer (the file, the case, the client, the step) adds
//! to the one before, or replaces parts of it.

use crate::explain::request::{Answer, Body, Description, Incoming, Wrong, bearer, steps};
use diana_base::time::Span;
use diana_config::Configuration;
use diana_document::{Fields, Node, Value};
use std::ops::RangeInclusive;

/// The parts of a request, as far as layers have given them.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    method: Option<String>,
    url: Option<String>,
    ip: Option<String>,
    host: Option<String>,
    scheme: Option<String>,
    /// Names in lower case. A later layer replaces all lines of a name.
    headers: Vec<(String, String)>,
    /// JSON.
    claims: Option<String>,
    properties: Vec<(Vec<String>, String)>,
    body: Option<String>,
    is_json: bool,
    body_size: Option<String>,
    lasts: Option<Span>,
    /// A later layer replaces all of it.
    response: Option<Answer>,
}

const SPANS: RangeInclusive<Span> = Span::ZERO..=Span::from_secs(366 * 86_400);

impl Layer {
    /// Takes the keys of a request from an object, over those of this layer.
    pub fn with(mut self, fields: &mut Fields) -> Layer {
        for (key, own) in [
            ("method", &mut self.method),
            ("url", &mut self.url),
            ("host", &mut self.host),
            ("scheme", &mut self.scheme),
        ] {
            if let Some(node) = fields.take(key)
                && let Some(text) = node.text().filter(|text| is_right(&node, key, text))
            {
                *own = Some(text.to_owned());
            }
        }
        if let Some(node) = fields.take("headers") {
            replace_lines(&mut self.headers, &node);
        }
        if let Some(node) = fields.take("claims") {
            match node.value() {
                Value::Object(_) => self.claims = Some(node.value().to_string()),
                _ => _ = node.expected::<()>("an object, the claims of the token"),
            }
        }
        for (path, node) in fields.take("properties").and_then(|node| node.entries()).unwrap_or_default() {
            let path = steps(path);
            self.properties.retain(|(known, _)| *known != path);
            let value = match node.value() {
                Value::Null => Some(REMOVED.to_owned()),
                _ => node.scalar(),
            };
            self.properties.extend(value.map(|value| (path, value)));
        }
        if let Some(node) = fields.take("body") {
            self.is_json = !matches!(node.value(), Value::Text(_));
            self.body = Some(match node.value() {
                Value::Text(text) => text.clone(),
                value => value.to_string(),
            });
        }
        if let Some(node) = fields.take("body_size") {
            let is_unknown = matches!(node.value(), Value::Text(text) if text == "unknown");
            let size = if is_unknown { None } else { node.size(0..=u64::MAX) };
            self.body_size = size.map(|size| size.to_string()).or(is_unknown.then(|| "unknown".into()));
        }
        if let Some(lasts) = fields.take("lasts").and_then(|node| node.span(SPANS)) {
            self.lasts = Some(lasts);
        }
        if let Some(mut fields) = fields.take("response").and_then(|node| node.fields()) {
            self.response = Some(response(&mut fields));
            fields.finish();
        }
        self
    }

    /// Takes the keys of a client, over those of this layer.
    pub fn with_client(self, fields: &mut Fields) -> Layer {
        let node = fields.take("ip");
        let ip = node.and_then(|node| node.text().filter(|text| is_right(&node, "ip", text)));
        let layer = self.with(fields);
        Layer { ip: ip.map(str::to_owned).or(layer.ip), ..layer }
    }

    /// The same request from another address.
    pub fn at_address(&self, ip: String) -> Layer {
        Layer { ip: Some(ip), ..self.clone() }
    }

    /// This layer, over another one.
    pub fn over(&self, below: &Layer) -> Layer {
        let mut layer = below.clone();
        let Layer { method, url, ip, host, scheme, claims, body, body_size, .. } = self;
        for (own, new) in [
            (&mut layer.method, method),
            (&mut layer.url, url),
            (&mut layer.ip, ip),
            (&mut layer.host, host),
            (&mut layer.scheme, scheme),
            (&mut layer.claims, claims),
            (&mut layer.body, body),
            (&mut layer.body_size, body_size),
        ] {
            if new.is_some() {
                own.clone_from(new);
            }
        }
        layer.is_json = if body.is_some() { self.is_json } else { layer.is_json };
        layer.headers.retain(|(name, _)| !self.headers.iter().any(|(known, _)| known == name));
        layer.headers.extend(self.headers.iter().cloned());
        layer.properties.retain(|(path, _)| !self.properties.iter().any(|(known, _)| known == path));
        layer.properties.extend(self.properties.iter().cloned());
        layer.lasts = self.lasts.or(layer.lasts);
        if self.response.is_some() {
            layer.response.clone_from(&self.response);
        }
        layer
    }

    /// The request, as the gateway of this configuration sees it.
    pub fn read(&self, configuration: &Configuration) -> Result<Incoming, Wrong> {
        let mut headers = self.headers.clone();
        headers.retain(|(_, value)| value != REMOVED);
        if let Some(claims) = &self.claims
            && !headers.iter().any(|(name, _)| name == "authorization")
        {
            headers.push(bearer(claims));
        }
        let has_type = headers.iter().any(|(name, _)| name == "content-type");
        if self.is_json && self.body.is_some() && !has_type {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        let description = Description {
            method: self.method.as_deref().unwrap_or("GET"),
            url: self.url.as_deref().unwrap_or("/"),
            ip: self.ip.as_deref().unwrap_or("127.0.0.1"),
            headers,
            host: self.host.as_deref(),
            scheme: self.scheme.as_deref(),
            body: self.body.as_deref().map(str::as_bytes),
            body_size: self.body_size.as_deref(),
            properties: self.properties.iter().filter(|(_, value)| value != REMOVED).cloned().collect(),
        };
        let mut incoming = description.read()?;
        incoming.lasts = self.lasts.unwrap_or(Span::ZERO);
        incoming.response = self.response.clone().unwrap_or_default();
        if let Some(body) = &self.body {
            incoming.read_body(body.as_bytes(), configuration);
            // Without a content type, a gateway does not read the body.
            if !self.is_json && !has_type {
                incoming.set_body(Body::Unread);
            }
        }
        Ok(incoming)
    }
}

/// Marks a header or an attribute that a later layer removes. No header can have this value.
const REMOVED: &str = "\0";

/// Whether a request could have this text at this key. If not, reports the mistake.
fn is_right(node: &Node, key: &str, text: &str) -> bool {
    let mut description = Description { method: "GET", url: "/", ip: "127.0.0.1", ..Description::default() };
    match key {
        "method" => description.method = text,
        "url" => description.url = text,
        "ip" => description.ip = text,
        "host" => description.host = Some(text),
        "scheme" => description.scheme = Some(text),
        name => description.headers = vec![(name.to_owned(), text.to_owned())],
    }
    let wrong = description.read().err();
    wrong.iter().for_each(|Wrong { why, .. }| node.fail(why.clone()));
    wrong.is_none()
}

/// Replaces the lines of the headers at `node`: text, a list of texts, or `null` for none.
fn replace_lines(headers: &mut Vec<(String, String)>, node: &Node) {
    for (name, node) in node.entries().unwrap_or_default() {
        let name = name.to_ascii_lowercase();
        headers.retain(|(known, _)| *known != name);
        if matches!(node.value(), Value::Null) {
            headers.push((name, REMOVED.to_owned()));
            continue;
        }
        for line in node.one_or_many() {
            let value = line.scalar().filter(|value| is_right(&line, &name, value));
            headers.extend(value.map(|value| (name.clone(), value)));
        }
    }
}

/// Takes what the upstream answers.
fn response(fields: &mut Fields) -> Answer {
    let mut answer = Answer::default();
    if let Some(status) = fields.take("status").and_then(|node| node.whole(100..=599)) {
        answer.status = u16::try_from(status).unwrap_or(answer.status);
    }
    if let Some(bytes) = fields.take("bytes").and_then(|node| node.size(0..=u64::MAX)) {
        answer.bytes = bytes;
    }
    if let Some(node) = fields.take("headers") {
        replace_lines(&mut answer.headers, &node);
        answer.headers.retain(|(_, value)| value != REMOVED);
    }
    if let Some(node) = fields.take("json") {
        answer.json = json(node.value());
    }
    answer
}

/// The value as JSON.
pub fn json(value: &Value) -> serde_json::Value {
    let parsed = serde_json::from_str(&value.to_string());
    debug_assert!(parsed.is_ok(), "a value of a document is JSON");
    parsed.unwrap_or_default()
}
