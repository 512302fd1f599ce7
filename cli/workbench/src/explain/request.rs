//! The request of the command line, as the gateway would hand it to the engine.

use super::report::RequestView;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use diana_base::time::{Span, Time};
use diana_config::Configuration;
use diana_limiter::actor::address;
use diana_limiter::request::claims::ClaimValue;
use diana_limiter::request::syntax::is_token;
use diana_limiter::request::{HeaderLines, JsonPart, Part, PartId, Source, Values};
use diana_replay::{Record, Slot, Slots};
use diana_response::{Call, CallId, RefusalForm};
use diana_response_meter::{JsonValue, JsonValues, Pointers};
use jiff::Timestamp;
use std::net::{IpAddr, Ipv4Addr};

/// A request that comes several times.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The parts of the request.
    pub values: WithBody,
    /// The method.
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// The host, if any.
    pub host: Option<String>,
    /// The address of the peer.
    pub ip: IpAddr,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The size of the body in bytes; `None` if it is unknown.
    pub body_size: Option<u64>,
    /// What the document reads of the body.
    pub body: Body,
    /// The attributes of the gateway: the steps of the path, and the value.
    pub properties: Vec<(Vec<String>, String)>,
    /// How often the request comes.
    pub times: u32,
    /// The time between two requests.
    pub every: Span,
    /// How long each request is in flight.
    pub lasts: Span,
    /// The instant of the first request.
    pub start: Time,
    /// The upstream's response.
    pub response: Answer,
    /// Whether the global store is down.
    pub store_down: bool,
}

/// What rules read of the upstream's response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The size of the body in bytes.
    pub bytes: u64,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, if it is JSON.
    pub json: serde_json::Value,
}

impl Default for Answer {
    fn default() -> Answer {
        Answer { status: 200, bytes: 0, headers: Vec::new(), json: serde_json::Value::Null }
    }
}

/// What a document reads of a request's body.
#[derive(Clone, Debug, Default)]
pub enum Body {
    /// The user gave no body.
    #[default]
    Absent,
    /// The values by their places.
    Read(Vec<(JsonPart, JsonValue)>),
    /// A gateway cannot read the body, or parsers may read it differently.
    Unread,
}

impl Body {
    /// The value at a JSON pointer.
    pub fn value(&self, pointer: &str) -> JsonValue {
        match self {
            Body::Absent => JsonValue::Absent,
            Body::Unread => JsonValue::Unreadable,
            Body::Read(values) => {
                let found =
                    values.iter().find(|(known, _)| !known.is_fingerprint && *known.pointer == *pointer);
                found.map(|(_, value)| value.clone()).unwrap_or_default()
            }
        }
    }
}

/// The parts of a request, with those of its body.
#[derive(Clone, Debug, Default)]
pub struct WithBody {
    values: Values,
    body: Body,
}

impl Source for WithBody {
    fn lines<'s>(&'s self, id: PartId, part: &'s Part) -> HeaderLines<'s> {
        match (part, &self.body) {
            (Part::RequestJson(_), Body::Unread) => HeaderLines::Unread,
            (Part::RequestJson(part), Body::Read(values)) => {
                match values.iter().find(|(known, _)| known == part) {
                    Some((_, JsonValue::Text(text) | JsonValue::Literal(text))) => {
                        HeaderLines::One(Some(text))
                    }
                    Some((_, JsonValue::Unreadable)) => HeaderLines::Unread,
                    Some((_, JsonValue::Absent | JsonValue::Null)) | None => HeaderLines::One(None),
                }
            }
            _ => self.values.lines(id, part),
        }
    }

    fn claim(&self, token: &[u8], path: &str) -> Option<ClaimValue> {
        self.values.claim(token, path)
    }
}

/// A request as its user describes it, before it is read.
#[derive(Default)]
pub struct Description<'a> {
    /// The method.
    pub method: &'a str,
    /// The path with its query, or a whole URL.
    pub url: &'a str,
    /// The address of the peer.
    pub ip: &'a str,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The host, in place of that of the URL.
    pub host: Option<&'a str>,
    /// The scheme, in place of that of the URL.
    pub scheme: Option<&'a str>,
    /// The body.
    pub body: Option<&'a [u8]>,
    /// The size of the body, or `unknown`. By default, that of the header or of the body.
    pub body_size: Option<&'a str>,
    /// Attributes of the gateway.
    pub properties: Vec<(Vec<String>, String)>,
}

/// A mistake in a [`Description`].
pub struct Wrong {
    /// The field, such as `url`.
    pub field: &'static str,
    /// The expected value and the found one.
    pub why: String,
}

impl Wrong {
    fn new(field: &'static str, why: impl Into<String>) -> Wrong {
        Wrong { field, why: why.into() }
    }
}

impl Description<'_> {
    /// The request, which comes once, at the instant 0.
    pub fn read(self) -> Result<Incoming, Wrong> {
        let Description { method, host, scheme, body, headers, .. } = self;
        let ip: IpAddr = self.ip.parse().map_err(|_| {
            Wrong::new(
                "ip",
                format!("expected an address such as `203.0.113.7`, found `{}`", self.ip.escape_debug()),
            )
        })?;
        if !is_token(method.as_bytes()) {
            let why = format!("expected a method such as `GET`, found `{}`", method.escape_debug());
            return Err(Wrong::new("method", why));
        }
        let headers: Vec<(String, String)> = headers
            .into_iter()
            .map(|(name, value)| header(&name, &value).map_err(|why| Wrong::new("headers", why)))
            .collect::<Result<_, Wrong>>()?;
        let url = Url::of(self.url).map_err(|why| Wrong::new("url", why))?;
        let header = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        if host == Some("") {
            return Err(Wrong::new("host", "expected a host such as `example.org`, found nothing"));
        }
        if scheme == Some("") {
            return Err(Wrong::new("scheme", "expected a scheme such as `https`, found nothing"));
        }
        let host = host.map(str::to_owned).or(url.authority).or_else(|| header("host").cloned());
        let scheme = scheme.map(str::to_owned).or(url.scheme).unwrap_or_else(|| "http".into());
        let body_size = match self.body_size {
            Some("unknown") => None,
            Some(text) => Some(size(text).map_err(|why| Wrong::new("body_size", why))?),
            None => match header("content-length") {
                Some(text) => {
                    let wrong = |why| Wrong::new("headers", format!("content-length: {why}"));
                    Some(size(text).map_err(wrong)?)
                }
                None => Some(bytes(body.unwrap_or_default())),
            },
        };
        let mut properties = vec![
            (vec!["request".to_owned(), "method".into()], method.to_owned()),
            (vec!["request".into(), "path".into()], url.target.clone()),
            (vec!["request".into(), "scheme".into()], scheme),
        ];
        properties.extend(host.iter().map(|host| (vec!["request".into(), "host".into()], host.clone())));
        for (path, value) in self.properties {
            properties.retain(|(known, _)| *known != path);
            properties.push((path, value));
        }
        let mut incoming = Incoming {
            method: method.to_owned(),
            target: url.target,
            host,
            ip,
            headers,
            body_size,
            properties,
            ..Incoming::default()
        };
        incoming.values = incoming.parts();
        Ok(incoming)
    }
}

impl Default for Incoming {
    /// A request without parts, which comes once.
    fn default() -> Incoming {
        Incoming {
            values: WithBody::default(),
            method: String::new(),
            target: String::new(),
            host: None,
            ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            headers: Vec::new(),
            body_size: None,
            body: Body::Absent,
            properties: Vec::new(),
            times: 1,
            every: Span::ZERO,
            lasts: Span::ZERO,
            start: Time::ZERO,
            response: Answer::default(),
            store_down: false,
        }
    }
}

impl Incoming {
    /// The request of a record, which has these values.
    pub fn logged(record: &Record, slots: &Slots) -> Incoming {
        let text = |at: usize| record.get(at).map(|value| String::from_utf8_lossy(value).into_owned());
        let mut incoming = Incoming {
            body_size: record.received,
            lasts: Span::from_ns(record.duration_ns.unwrap_or(0)),
            start: record.start,
            response: Answer {
                status: record.status.unwrap_or(200),
                bytes: record.sent.unwrap_or(0),
                ..Answer::default()
            },
            ..Incoming::default()
        };
        let mut values = Vec::new();
        for (slot, value) in slots.iter().enumerate().filter_map(|(at, slot)| Some((slot, text(at)?))) {
            match slot {
                Slot::Method => incoming.method = value,
                Slot::Target => incoming.target = value,
                Slot::Host => incoming.host = Some(value),
                Slot::Address => incoming.ip = address::parse(value.as_bytes()).unwrap_or(incoming.ip),
                Slot::Header(name) => incoming.headers.push((name.to_string(), value)),
                Slot::Attribute(path) => {
                    incoming.properties.push((path.split('.').map(str::to_owned).collect(), value));
                }
                Slot::RequestJson(pointer) => {
                    let part = JsonPart { pointer: pointer.clone(), is_fingerprint: false };
                    values.push((part, JsonValue::Text(value.into_bytes().into())));
                }
                Slot::ResponseHeader(_) | Slot::ResponseJson(_) => {}
            }
        }
        incoming.body = Body::Read(values);
        if incoming.ip.is_unspecified() {
            // As a replay does.
            let last = incoming.lines("x-forwarded-for").last().and_then(|list| list.rsplit(',').next());
            incoming.ip = last.and_then(|last| address::parse(last.as_bytes())).unwrap_or(incoming.ip);
        }
        incoming.values = incoming.parts();
        incoming
    }

    /// The size that the gateway believes. A tunnel may declare any.
    pub fn declared_size(&self) -> Option<u64> {
        let is_tunnel = self.method == "CONNECT" || self.headers.iter().any(|(name, _)| name == "upgrade");
        self.body_size.filter(|_| !is_tunnel)
    }

    /// Reads the body as a gateway with this configuration does.
    pub fn read_body(&mut self, body: &[u8], configuration: &Configuration) {
        let line = |name: &'static str| self.lines(name).last().unwrap_or_default().as_bytes();
        let content_type =
            if line("content-type").is_empty() { b"application/json" } else { line("content-type") };
        let has = |name: &str| self.headers.iter().any(|(known, _)| known == name);
        let can_read = JsonValues::can_read(content_type, line("content-encoding"))
            && bytes(body) <= configuration.request_body.max
            && self.method != "CONNECT"
            && !has("upgrade")
            && !has("expect");
        let parts: Vec<&JsonPart> = configuration.policy.body_parts().collect();
        let bits = (0..).zip(&parts).filter(|(_, part)| part.is_fingerprint);
        let fingerprinted = bits.fold(0, |bits, (at, _)| bits | 1 << at);
        let read = || {
            let pointers = Pointers::parse(parts.iter().map(|part| &*part.pointer)).ok()?;
            let mut values = JsonValues::fingerprinting(&pointers, fingerprinted);
            values.push(body);
            Some(parts.into_iter().cloned().zip(values.finish()?).collect())
        };
        self.set_body(can_read.then(read).flatten().map_or(Body::Unread, Body::Read));
    }

    /// Sets what the document reads of the body.
    pub fn set_body(&mut self, body: Body) {
        self.body = body;
        self.values = self.parts();
    }

    fn parts(&self) -> WithBody {
        let mut values = Values::default()
            .with_claims(diana_config::claim)
            .with(Part::Method, self.method.as_bytes())
            .with(Part::Path, self.target.as_bytes())
            .with(Part::Address, self.ip.to_string());
        if let Some(host) = &self.host {
            values = values.with(Part::Host, host.as_bytes());
        }
        if let Some(size) = self.declared_size() {
            values = values.with(Part::BodySize, size.to_string());
        }
        for (name, value) in &self.headers {
            values = values.with(Part::Header(name.as_str().into()), value.as_bytes());
        }
        for (path, value) in &self.properties {
            let steps = path.iter().map(|step| step.as_str().into()).collect();
            values = values.with(Part::Property(steps), value.as_bytes());
        }
        WithBody { values, body: self.body.clone() }
    }

    /// The form in which the client expects a refusal.
    pub fn form(&self, configuration: &Configuration) -> RefusalForm {
        let policy = &configuration.policy;
        let protocol = policy.protocol(&policy.request(&self.values));
        let [version, method, id] = Call::POINTERS.map(|pointer| self.body.value(pointer));
        let is_call = configuration.response.reads_calls()
            && matches!(&version, JsonValue::Text(text) if **text == *Call::VERSION)
            && matches!(method, JsonValue::Text(_));
        let id = match &id {
            JsonValue::Absent => None,
            JsonValue::Text(text) => Some(CallId::Text(text)),
            JsonValue::Literal(text) => Some(CallId::Literal(text)),
            JsonValue::Null | JsonValue::Unreadable => Some(CallId::Other),
        };
        RefusalForm { call: is_call.then(|| Call::new(id)), ..protocol.into() }
    }

    /// The attribute of the gateway at this path.
    pub fn property(&self, path: &[Box<str>]) -> Option<&str> {
        let is_path = |known: &[String]| known.iter().map(|step| &**step).eq(path.iter().map(|step| &**step));
        self.properties.iter().find(|(known, _)| is_path(known)).map(|(_, value)| value.as_str())
    }

    /// The lines of a header, by its name in lower case.
    pub fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The instant of a request, from 0.
    pub fn instant(&self, index: u32) -> Time {
        self.start.after(Span::from_ns(self.every.as_ns().saturating_mul(index.into())))
    }

    /// The request for the output.
    pub fn view(&self) -> RequestView {
        RequestView {
            method: self.method.clone(),
            url: self.target.clone(),
            host: self.host.clone(),
            ip: self.ip.to_string(),
            headers: self.headers.iter().map(|(name, value)| [name.clone(), value.clone()]).collect(),
            at: timestamp(self.start),
            times: self.times,
            every_s: seconds(self.every),
            lasts_s: seconds(self.lasts),
        }
    }
}

fn bytes(body: &[u8]) -> u64 {
    u64::try_from(body.len()).unwrap_or(u64::MAX)
}

/// So many milliseconds.
pub fn span_of(ms: u64) -> Span {
    Span::from_ms(ms)
}

/// So many seconds after the beginning of 2026, where cases without a start begin.
pub fn instant_after(seconds: f64) -> Time {
    let start = Time::from_ns(1_767_225_600_000_000_000);
    // A cast saturates.
    start.after(Span::from_ns((seconds * 1e9) as u64))
}

/// A span in seconds, for programs.
pub fn seconds(span: Span) -> f64 {
    span.as_ns() as f64 / 1e9
}

/// An instant in RFC 3339.
pub fn timestamp(time: Time) -> String {
    match Timestamp::from_nanosecond(time.as_ns().into()) {
        Ok(timestamp) => timestamp.to_string(),
        Err(_) => format!("{} ns after 1970", time.as_ns()),
    }
}

/// The expected form of `--url`, for errors.
const URL: &str = "expected a path such as `/orders`, or a URL such as `https://example.org/orders`";

/// The parts of a URL.
struct Url {
    scheme: Option<String>,
    authority: Option<String>,
    target: String,
}

impl Url {
    fn of(text: &str) -> Result<Url, String> {
        // A target with other bytes never reaches a filter: gateways refuse the request.
        if text.chars().any(|c| c.is_ascii_control() || c == ' ') {
            return Err("a space or a control character cannot be sent: write a space as `%20`".into());
        }
        if text.is_empty() {
            return Err(format!("{URL}, found nothing"));
        }
        let without_fragment = text.split('#').next().unwrap_or(text);
        if text == "*" || without_fragment.starts_with('/') {
            return Ok(Url { scheme: None, authority: None, target: without_fragment.into() });
        }
        let Some((scheme, rest)) = without_fragment.split_once("://") else {
            return Err(format!("{URL}, found `{}`", text.escape_debug()));
        };
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https") {
            return Err(format!("expected a URL with `http` or `https`, found `{}`", text.escape_debug()));
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at_checked(end).unwrap_or((rest, ""));
        // Clients send `user:password@` in a header of its own.
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        if host.is_empty() || host.starts_with(':') {
            return Err(format!("`{}` has no host, {URL}", text.escape_debug()));
        }
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Url { scheme: Some(scheme), authority: Some(host.into()), target: format!("{slash}{target}") })
    }
}

/// A header with its name in lower case, without white space around its value.
fn header(name: &str, value: &str) -> Result<(String, String), String> {
    if !is_token(name.as_bytes()) {
        return Err(format!(
            "expected letters, digits and marks such as `-` in the name of a header, found `{}`",
            name.escape_debug()
        ));
    }
    let value = value.trim_matches([' ', '\t']);
    if value.contains(['\r', '\n', '\0']) {
        return Err(format!("{name}: a value with a line break or a zero byte cannot be sent"));
    }
    Ok((name.to_ascii_lowercase(), value.into()))
}

/// The header with a bearer token of these claims, in JSON. The token has no signature, because
/// Diana verifies none.
pub fn bearer(claims: &str) -> (String, String) {
    let part = |json: &str| BASE64_URL_SAFE_NO_PAD.encode(json);
    ("authorization".into(), format!("Bearer {}.{}.", part(r#"{"alg":"none"}"#), part(claims)))
}

/// The steps of the path to an attribute.
pub fn steps(path: &str) -> Vec<String> {
    // As in a document, `\.` is a dot of a step.
    let (mut steps, mut step, mut is_escaped) = (Vec::new(), String::new(), false);
    for character in path.chars() {
        match character {
            '\\' if !is_escaped => is_escaped = true,
            '.' if !is_escaped => steps.push(std::mem::take(&mut step)),
            other => {
                step.push(other);
                is_escaped = false;
            }
        }
    }
    steps.push(step);
    steps
}

fn size(text: &str) -> Result<u64, String> {
    let why = || format!("expected a number of bytes, or `unknown`, found `{}`", text.escape_debug());
    text.parse().map_err(|_| why())
}

/// The instant in a text: RFC 3339, or seconds since 1970.
pub fn parsed_instant(text: &str) -> Result<Time, String> {
    let timestamp = match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok()),
        false => text.parse().ok(),
    };
    timestamp.and_then(instant_of).ok_or_else(|| {
        let text = text.escape_debug();
        format!("expected a time such as `2026-01-31T12:00:00Z`, or seconds since 1970, found `{text}`")
    })
}

/// The instant of a timestamp; `None` before 1970.
pub fn instant_of(timestamp: Timestamp) -> Option<Time> {
    u64::try_from(timestamp.as_nanosecond()).ok().map(Time::from_ns)
}
