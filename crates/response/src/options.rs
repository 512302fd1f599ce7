//! The options of refusals and of quota headers: `response` and `headers` at the top of a
//! configuration. The responses that override them: `response` of a limit, of `deny` and of a
//! rule's `missing`.

use super::fields::is_openai;
use diana_document::{Node, Value, quoted};
use diana_limiter::cells::table::Hasher;
use diana_limiter::policy::{Policy, Rule};
use diana_limiter::request::syntax::is_token;
use std::sync::Arc;

/// The options of responses.
///
/// ```
/// use diana_document::{Errors, Node, parse};
/// use diana_response::ResponseOptions;
///
/// let (headers, errors) = (parse(br#""off""#)?, Errors::default());
/// let options = ResponseOptions::compile(None, Some(Node::root(&headers, &errors)));
/// assert!(errors.is_empty() && !options.has_headers());
/// assert!(ResponseOptions::default().has_headers());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseOptions {
    /// From 400 to 599.
    pub(super) status: u32,
    pub(super) body: Body,
    /// Set if refused JSON-RPC requests get JSON-RPC errors.
    pub(super) json_rpc: Option<JsonRpc>,
    /// Configured headers: lower-case names, unique, and none that another component writes.
    pub(super) headers: Vec<(Box<str>, Box<str>)>,
    /// The spread of `Retry-After`, in percent of the wait: 0 to 100.
    pub(super) jitter_percent: u32,
    pub(super) form: Form,
    /// By rule; empty if no rule has a response of its own.
    pub(super) rules: Vec<RuleResponses>,
    pub(super) deny: Option<ResponseOverride>,
}

/// How JSON-RPC requests are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JsonRpc {
    /// The status of errors; `None`: that of the refusal.
    pub(super) status: Option<u32>,
}

/// The body of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Body {
    /// Problem details, see `problem`.
    Problem,
    /// The same text for every refusal.
    Text { content_type: Box<str>, text: Box<str> },
}

/// A set of forms of the headers that show the remaining quota, see `fields`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form(u8);

impl Form {
    pub(super) const OFF: Form = Form(0);
    pub(super) const IETF: Form = Form(1);
    pub(super) const X_RATELIMIT: Form = Form(2);
    pub(super) const BOTH: Form = Form(Form::IETF.0 | Form::X_RATELIMIT.0);
    /// The same as `X_RATELIMIT` for clients that take the limit for a number.
    pub(super) const PLAIN: Form = Form(4);
    pub(super) const OPENAI: Form = Form(8);

    /// A number of the set that all versions know, for hashes.
    fn number(self) -> isize {
        match self {
            Form::IETF => 0,
            Form::X_RATELIMIT => 1,
            Form::PLAIN => 2,
            Form::BOTH => 3,
            Form::OFF => 4,
            Form(bits) => bits.into(),
        }
    }

    /// Whether a form is in both sets.
    pub(super) fn has(self, other: Form) -> bool {
        self.0 & other.0 != 0
    }
}

/// The options if `response` and `headers` are absent.
impl Default for ResponseOptions {
    fn default() -> ResponseOptions {
        let (body, headers, form) = (Body::Problem, Vec::new(), Form::IETF);
        ResponseOptions {
            status: 429,
            body,
            json_rpc: None,
            headers,
            jitter_percent: 20,
            form,
            rules: Vec::new(),
            deny: None,
        }
    }
}

impl ResponseOptions {
    /// Sets the response to clients on the deny list.
    pub fn deny(&mut self, response: Option<ResponseOverride>) {
        self.deny = response;
    }

    /// A hash of all options, whatever the order of headers and rules in the document.
    #[must_use]
    pub fn canonical_hash(&self, policy: &Policy) -> u64 {
        let ResponseOptions { status, body, json_rpc, headers, jitter_percent, form, rules, deny } = self;
        let hash = |response: Option<&ResponseOverride>| response.map(ResponseOverride::canonical_hash);
        let each = |((_, rule), own): ((_, &Rule), &RuleResponses)| {
            let RuleResponses { limit, missing, is_hidden } = own;
            let own = (hash(limit.as_deref()), hash(missing.as_ref()));
            let fingerprint = rule.fingerprint().wrapping_add(u64::from(*is_hidden));
            (own != (None, None) || *is_hidden).then_some((fingerprint, own))
        };
        debug_assert!(
            rules.is_empty() || rules.len() == policy.rules().count(),
            "the responses of another policy"
        );
        let rules = Hasher::of_all(policy.rules().zip(rules).filter_map(each));
        let options = (status, body, Hasher::of_all(headers), jitter_percent, form.number());
        // Documents without `json_rpc` keep their hashes.
        let json_rpc = json_rpc.map_or(0, |options| Hasher::of(&("json_rpc", options.status)));
        Hasher::of(&(options, rules, hash(deny.as_ref()))) ^ json_rpc
    }

    /// Whether refusals depend on `jsonrpc`, `method` and `id` in the request's body.
    #[must_use]
    pub fn reads_calls(&self) -> bool {
        self.json_rpc.is_some()
    }

    /// Whether the configured body has a place for the ticket of a refusal.
    #[must_use]
    pub fn shows_ticket(&self) -> bool {
        matches!(&self.body, Body::Text { text, .. } if text.contains(TICKET))
    }

    /// Reads the values at `response` and at `headers`. A mistake is reported at its place and
    /// leaves the default.
    pub fn compile(response: Option<Node>, headers: Option<Node>) -> ResponseOptions {
        let mut options = ResponseOptions::default();
        if let Some(form) = headers.and_then(|node| form(&node)) {
            options.form = form;
        }
        let Some(mut fields) = response.and_then(|node| node.fields()) else {
            return options;
        };
        let status = fields.take("status").and_then(|node| node.whole(400..=599));
        if let Some(status) = status.and_then(|status| u32::try_from(status).ok()) {
            options.status = status;
        }
        if let Some(body) = body(fields.take("body"), fields.take("content_type")) {
            options.body = body;
        }
        options.json_rpc = fields.take("json_rpc").and_then(|node| json_rpc(&node));
        if let Some(node) = fields.take("headers") {
            options.headers = own_headers(&node, reserved);
        }
        if let Some(percent) = fields.take("jitter").and_then(|node| percent(&node)) {
            options.jitter_percent = percent;
        }
        fields.finish();
        options
    }
}

/// The names of the forms. Those that are sets of others come last and are in no list.
const FORMS: &[(&str, Form)] = &[
    ("ietf", Form::IETF),
    ("x-ratelimit", Form::X_RATELIMIT),
    ("x-ratelimit-plain", Form::PLAIN),
    ("openai", Form::OPENAI),
    ("both", Form::BOTH),
    ("off", Form::OFF),
];

/// The name of a form, or a list of names.
fn form(node: &Node) -> Option<Form> {
    let choices = match node.value() {
        // An unquoted `off` is `false` in YAML 1.1, which Envoy reads.
        Value::Bool(false) => return Some(Form::OFF),
        Value::List(_) => FORMS.split_at(4).0,
        _ => FORMS,
    };
    let mut all = Form::OFF;
    for item in node.one_or_many() {
        all.0 |= item.choice("form of headers", choices)?.0;
    }
    let why = match all {
        _ if all.has(Form::X_RATELIMIT) && all.has(Form::PLAIN) => {
            "`x-ratelimit` and `x-ratelimit-plain` set the same headers, expected one of them"
        }
        Form::OFF if matches!(node.value(), Value::List(_)) => "no form of headers is listed",
        _ => return Some(all),
    };
    node.fail(why);
    None
}

/// `true`, or an object with the status of errors.
fn json_rpc(node: &Node) -> Option<JsonRpc> {
    if let Value::Bool(is_on) = node.value() {
        return is_on.then(JsonRpc::default);
    }
    let Value::Object(_) = node.value() else {
        return node.expected("true or false, or an object such as `{status: 200}`");
    };
    let mut fields = node.fields()?;
    let status = fields.take("status").and_then(|node| match node.value() {
        Value::Whole(200) => Some(200),
        _ => node.expected("200"),
    });
    fields.finish();
    Some(JsonRpc { status })
}

/// What stands for the ticket in a configured body.
const TICKET: &str = "{ticket}";

/// A configured body with the ticket in its place. A ticket needs no escapes in text, JSON or HTML.
pub(super) fn with_ticket(body: &str, ticket: &str) -> String {
    body.replace(TICKET, ticket)
}

fn body(body: Option<Node>, content_type: Option<Node>) -> Option<Body> {
    // Read both before returning, so that the mistakes in each are reported.
    let media_type = content_type.as_ref().map(media_type);
    match (body, content_type) {
        (Some(body), _) => {
            let content_type = media_type.unwrap_or_else(|| Some("text/plain; charset=utf-8".into()));
            Some(Body::Text { text: body.text()?.into(), content_type: content_type? })
        }
        (None, Some(node)) => {
            node.fail("there is no `body` that it could describe, the default one has a type of its own");
            None
        }
        (None, None) => None,
    }
}

/// A media type, `type/subtype` with or without parameters (RFC 9110 §8.3.1).
fn media_type(node: &Node) -> Option<Box<str>> {
    let value = field_value(node)?;
    let essence = value.split_once(';').map_or(&*value, |(essence, _)| essence).trim_ascii_end();
    let (kind, subtype) = essence.split_once('/').unwrap_or_default();
    if !is_token(kind.as_bytes()) || !is_token(subtype.as_bytes()) {
        return node.expected("a media type such as `application/json`");
    }
    Some(value)
}

/// `20%`, in whole percent, or the number 0.
#[must_use]
fn percent(node: &Node) -> Option<u32> {
    let found = match node.value() {
        Value::Whole(0) => Some(0),
        Value::Text(text) => percent_of(text),
        _ => None,
    };
    match found {
        Some(percent) if percent <= 100 => Some(percent),
        _ => node.expected("whole percent from `0%` to `100%`"),
    }
}

/// The number in `20%`. No sign is allowed; `parse` alone would accept one.
#[must_use]
pub fn percent_of(text: &str) -> Option<u32> {
    let digits = text.trim().strip_suffix('%')?.trim_end();
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// A configured status and headers. Absent parts come from the enclosing `response`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseOverride {
    /// From 400 to 599.
    pub(super) status: Option<u32>,
    pub(super) headers: Vec<(Box<str>, Box<str>)>,
}

/// The responses of one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleResponses {
    /// The response of the rule's limit.
    pub limit: Option<Arc<ResponseOverride>>,
    /// The response to a request without the actor.
    pub missing: Option<ResponseOverride>,
    /// Whether clients see nothing of the rule but its refusals.
    pub is_hidden: bool,
}

impl ResponseOverride {
    /// A hash of the response, whatever the order of its headers.
    pub(super) fn canonical_hash(&self) -> u64 {
        Hasher::of(&(self.status, Hasher::of_all(&self.headers)))
    }

    /// Reads `{status, headers}`. Each mistake is reported at its place.
    #[must_use]
    pub fn compile(node: &Node) -> Option<ResponseOverride> {
        let mut fields = node.fields()?;
        let status = fields.take("status").and_then(|node| node.whole(400..=599));
        let headers = fields.take("headers").map(|node| own_headers(&node, reserved)).unwrap_or_default();
        fields.belong(
            &["body", "content_type", "jitter", "json_rpc"],
            "to the `response` at the top, beside `limits`",
        );
        fields.finish();
        let status = status.and_then(|status| u32::try_from(status).ok());
        Some(ResponseOverride { status, headers })
    }
}

/// Configured headers by name. `reserved` returns the reason why a name is not allowed.
pub fn own_headers(node: &Node, reserved: fn(&str) -> Option<&'static str>) -> Vec<(Box<str>, Box<str>)> {
    let mut headers: Vec<(Box<str>, Box<str>)> = Vec::new();
    if let Value::Text(_) = node.value() {
        node.fail("expected an object, found text");
        return headers;
    }
    for (key, node) in node.entries().unwrap_or_default() {
        let (Some(name), Some(value)) = (header_name(key, &node, reserved), field_value(&node)) else {
            continue;
        };
        if headers.iter().any(|(known, _)| *known == name) {
            node.fail("this header is given twice, names of headers ignore case");
        } else {
            headers.push((name, value));
        }
    }
    headers
}

/// The reason why a configuration may not set a header.
pub(super) fn reserved(name: &str) -> Option<&'static str> {
    Some(match name {
        ":status" => "it is set by `status`",
        "content-type" => "it is set by `content_type`",
        "content-encoding" => "the body is sent as it is written",
        "retry-after" => "it is sent if waiting helps, spread by `jitter`",
        "ratelimit"
        | "ratelimit-policy"
        | "x-ratelimit-limit"
        | "x-ratelimit-remaining"
        | "x-ratelimit-reset" => OF_HEADERS,
        _ if is_openai(name) => OF_HEADERS,
        "grpc-status" | "grpc-message" => "it is set when the client speaks gRPC",
        // Headers of message framing, of the connection (RFC 9113 §8.2.2), or of the responding
        // server.
        "content-length" | "transfer-encoding" | "connection" | "keep-alive" | "proxy-connection" | "te"
        | "trailer" | "upgrade" | "date" | "server" => "it is the gateway's own",
        _ => return None,
    })
}

const OF_HEADERS: &str = "it is set by `headers` at the top";

/// A field value of visible ASCII, spaces and tabs. Surrounding white space is not part of the
/// value (RFC 9110 §5.5). The error omits a wrong value, because it may be a secret and mistakes
/// are logged.
pub(super) fn field_value(node: &Node) -> Option<Box<str>> {
    if let Value::Number(_) = node.value() {
        node.fail("expected text, found a number, put it in quotes");
        return None;
    }
    let value = node.scalar()?;
    let allowed = |byte: u8| matches!(byte, b'\t' | b' '..=b'~');
    if !value.bytes().all(allowed) {
        node.fail("this is not a header value, expected visible ASCII and spaces");
        return None;
    }
    Some(value.trim_ascii().into())
}

/// Reads `text` as a header name (RFC 9110 §5.1) and turns the name to lower case. For a
/// lower-case name that is not allowed here, `reserved` returns the reason. Mistakes are reported
/// at `node`.
pub fn header_name(
    text: &str,
    node: &Node,
    reserved: impl Fn(&str) -> Option<&'static str>,
) -> Option<Box<str>> {
    let name = text.to_ascii_lowercase();
    if let Some(why) = reserved(&name) {
        node.fail(format!("{} cannot be given here: {why}", quoted(&name)));
    } else if !is_token(name.as_bytes()) {
        let allowed = "letters, digits and marks such as `-` and `_`";
        node.fail(format!("{} is not a header name, expected {allowed}", quoted(text)));
    } else {
        return Some(name.into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use diana_document::{Error, Errors};

    /// Compiles `{response: …, headers: …}`.
    fn compile(json: &str) -> (ResponseOptions, Vec<String>) {
        let (value, errors) = (diana_document::parse(json.as_bytes()).unwrap(), Errors::default());
        let mut fields = Node::root(&value, &errors).fields().unwrap();
        let options = ResponseOptions::compile(fields.take("response"), fields.take("headers"));
        fields.finish();
        (options, errors.into_vec().iter().map(Error::to_string).collect())
    }

    fn accept(json: &str) -> ResponseOptions {
        let (options, mistakes) = compile(json);
        assert_eq!(mistakes, [""; 0], "{json}");
        options
    }

    #[test]
    fn absent_options_have_their_defaults() {
        for json in
            ["{}", r#"{"response": {}}"#, r#"{"headers": "ietf"}"#, r#"{"response": {"headers": {}}}"#]
        {
            assert_eq!(accept(json), ResponseOptions::default(), "{json}");
        }
        let expected = ResponseOptions {
            status: 429,
            body: Body::Problem,
            json_rpc: None,
            headers: vec![],
            jitter_percent: 20,
            form: Form::IETF,
            rules: vec![],
            deny: None,
        };
        assert_eq!(ResponseOptions::default(), expected);
    }

    #[test]
    fn every_option_is_read() {
        let options = accept(
            r#"{
                "response": {
                    "status": 503,
                    "body": "later\n",
                    "content_type": "text/html; charset=utf-8",
                    "headers": {"X-Reason": " too\tmany ", "x-code": 7, "x-empty": ""},
                    "jitter": "100 %"
                },
                "headers": "X_RateLimit"
            }"#,
        );
        let headers = [("x-reason", "too\tmany"), ("x-code", "7"), ("x-empty", "")];
        let expected = ResponseOptions {
            status: 503,
            body: Body::Text { content_type: "text/html; charset=utf-8".into(), text: "later\n".into() },
            headers: headers.map(|(name, value)| (name.into(), value.into())).into(),
            jitter_percent: 100,
            form: Form::X_RATELIMIT,
            ..ResponseOptions::default()
        };
        assert_eq!(options, expected);
        for (json, form) in [
            (r#"{"headers": "x-ratelimit-plain"}"#, Form::PLAIN),
            (r#"{"headers": "both"}"#, Form::BOTH),
            (r#"{"headers": "off"}"#, Form::OFF),
            (r#"{"headers": false}"#, Form::OFF),
            (r#"{"headers": "openai"}"#, Form::OPENAI),
            (r#"{"headers": ["ietf"]}"#, Form::IETF),
            (r#"{"headers": ["x-ratelimit", "IETF", "ietf"]}"#, Form::BOTH),
        ] {
            assert_eq!(accept(json).form, form, "{json}");
        }
        for (json, percent) in [("0", 0), (r#""0%""#, 0), (r#""5%""#, 5)] {
            let options = accept(&format!(r#"{{"response": {{"jitter": {json}}}}}"#));
            assert_eq!(options.jitter_percent, percent, "{json}");
        }
    }

    #[test]
    fn json_rpc_may_have_a_status() {
        for (json, expected) in [
            ("false", None),
            ("true", Some(JsonRpc { status: None })),
            ("{}", Some(JsonRpc { status: None })),
            (r#"{"status": 200}"#, Some(JsonRpc { status: Some(200) })),
        ] {
            let options = accept(&format!(r#"{{"response": {{"json_rpc": {json}}}}}"#));
            assert_eq!((options.json_rpc, options.reads_calls()), (expected, expected.is_some()), "{json}");
        }
        for (json, expected) in [
            ("200", ": expected true or false, or an object such as `{status: 200}`, found `200`"),
            (r#"{"status": 429}"#, ".status: expected 200, found `429`"),
            (r#"{"code": 1}"#, ": unknown key `code`, expected status"),
        ] {
            let (_, mistakes) = compile(&format!(r#"{{"response": {{"json_rpc": {json}}}}}"#));
            assert_eq!(mistakes, [format!("response.json_rpc{expected}")]);
        }
    }

    #[test]
    fn a_body_without_a_type_is_plain_text() {
        let Body::Text { content_type, text } = accept(r#"{"response": {"body": "no"}}"#).body else {
            panic!("a text");
        };
        assert_eq!((&*content_type, &*text), ("text/plain; charset=utf-8", "no"));
    }

    #[test]
    fn a_mistake_names_its_place_and_leaves_the_default() {
        for (response, expected) in [
            (r#"{"status": 200}"#, "status: expected a whole number from 400 to 599, found `200`"),
            (r#"{"status": 600}"#, "status: expected a whole number from 400 to 599, found `600`"),
            (r#"{"body": 1}"#, "body: expected text, found `1`, put it in quotes"),
            (
                r#"{"content_type": "text/html"}"#,
                "content_type: there is no `body` that it could describe, the default one has a type of its own",
            ),
            (
                r#"{"body": "", "content_type": "html"}"#,
                "content_type: expected a media type such as `application/json`, found `html`",
            ),
            (
                r#"{"body": "", "content_type": "text/"}"#,
                "content_type: expected a media type such as `application/json`, found `text/`",
            ),
            (
                r#"{"body": "", "content_type": "text/html;\r\nx: y"}"#,
                "content_type: this is not a header value, expected visible ASCII and spaces",
            ),
            (r#"{"jitter": 20}"#, "jitter: expected whole percent from `0%` to `100%`, found `20`"),
            (r#"{"jitter": "101%"}"#, "jitter: expected whole percent from `0%` to `100%`, found `101%`"),
            (r#"{"jitter": "+5%"}"#, "jitter: expected whole percent from `0%` to `100%`, found `+5%`"),
            (r#"{"jitter": "%"}"#, "jitter: expected whole percent from `0%` to `100%`, found `%`"),
            (r#"{"jitter": "5"}"#, "jitter: expected whole percent from `0%` to `100%`, found `5`"),
        ] {
            let (options, mistakes) = compile(&format!(r#"{{"response": {response}}}"#));
            assert_eq!(mistakes, [format!("response.{expected}")]);
            assert_eq!(options, ResponseOptions::default(), "{response}");
        }
        let unknown = r#"{"response": {"states": 429}, "headers": "yes"}"#;
        assert_eq!(
            compile(unknown).1,
            [
                "headers: unknown form of headers `yes`, expected ietf, x-ratelimit, x-ratelimit-plain, openai, both or off",
                "response: unknown key `states`, did you mean `status`?",
            ]
        );
        for (headers, expected) in [
            ("[]", ": no form of headers is listed"),
            (
                r#"["ietf", "off"]"#,
                "[1]: unknown form of headers `off`, expected ietf, x-ratelimit, x-ratelimit-plain or openai",
            ),
            (
                r#"["x-ratelimit", "x-ratelimit-plain"]"#,
                ": `x-ratelimit` and `x-ratelimit-plain` set the same headers, expected one of them",
            ),
        ] {
            let (options, mistakes) = compile(&format!(r#"{{"headers": {headers}}}"#));
            assert_eq!((options, mistakes), (ResponseOptions::default(), vec![format!("headers{expected}")]));
        }
        assert_eq!(compile(r#"{"response": 429}"#).1, ["response: expected an object, found `429`"]);
    }

    #[test]
    fn a_header_that_is_not_the_users_to_set_is_refused_with_the_reason() {
        let gateway = "it is the gateway's own";
        let limits = "it is set by `headers` at the top";
        for (name, why) in [
            (":status", "it is set by `status`"),
            ("content-type", "it is set by `content_type`"),
            ("content-encoding", "the body is sent as it is written"),
            ("retry-after", "it is sent if waiting helps, spread by `jitter`"),
            ("ratelimit", limits),
            ("ratelimit-policy", limits),
            ("x-ratelimit-limit", limits),
            ("x-ratelimit-remaining", limits),
            ("x-ratelimit-reset", limits),
            ("x-ratelimit-limit-tokens", limits),
            ("x-ratelimit-reset-requests", limits),
            ("grpc-status", "it is set when the client speaks gRPC"),
            ("grpc-message", "it is set when the client speaks gRPC"),
            ("content-length", gateway),
            ("transfer-encoding", gateway),
            ("connection", gateway),
            ("keep-alive", gateway),
            ("upgrade", gateway),
            ("date", gateway),
            ("server", gateway),
        ] {
            for spelt in [name.to_string(), name.to_uppercase()] {
                let (options, mistakes) =
                    compile(&format!(r#"{{"response": {{"headers": {{"{spelt}": "1"}}}}}}"#));
                assert_eq!(mistakes.len(), 1, "{spelt}");
                assert!(
                    mistakes[0].ends_with(&format!(": `{name}` cannot be given here: {why}")),
                    "{mistakes:?}"
                );
                assert_eq!(options.headers, []);
            }
        }
    }

    #[test]
    fn a_header_that_could_not_be_sent_is_refused() {
        let form = "is not a header name, expected letters, digits and marks such as `-` and `_`";
        for (headers, expected) in [
            (r#"{"": "1"}"#, &*format!(r#"[""]: `` {form}"#)),
            (r#"{":x": "1"}"#, &format!(r#"[":x"]: `:x` {form}"#)),
            (r#"{"a b": "1"}"#, &format!(r#"["a b"]: `a b` {form}"#)),
            (r#"{"a": "1\r\nb: 2"}"#, r".a: this is not a header value, expected visible ASCII and spaces"),
            (r#"{"a": "\u0000"}"#, r".a: this is not a header value, expected visible ASCII and spaces"),
            (r#"{"a": "\u007f"}"#, r".a: this is not a header value, expected visible ASCII and spaces"),
            (r#"{"a": "é"}"#, ".a: this is not a header value, expected visible ASCII and spaces"),
            (r#"{"a": ["1"]}"#, ".a: expected text, found a list"),
            (r#"{"a": "1", "A": "2"}"#, ".A: this header is given twice, names of headers ignore case"),
            ("[]", ": expected an object, found a list"),
        ] {
            let (_, mistakes) = compile(&format!(r#"{{"response": {{"headers": {headers}}}}}"#));
            assert_eq!(mistakes, [format!("response.headers{expected}")]);
        }
    }

    #[test]
    fn a_header_name_is_a_token_that_is_not_reserved() {
        for (text, expected) in [
            ("X-User_ID", Ok("x-user_id")),
            ("Host", Err("`host` cannot be given here: name it elsewhere")),
            (":Path", Err("`:path` cannot be given here: name it elsewhere")),
            (":X", Err("`:X` is not a header name, expected letters, digits and marks such as `-` and `_`")),
            ("", Err("`` is not a header name, expected letters, digits and marks such as `-` and `_`")),
        ] {
            let errors = Errors::default();
            let reserved = |name: &str| matches!(name, "host" | ":path").then_some("name it elsewhere");
            let name = header_name(text, &Node::root(&Value::Null, &errors), reserved);
            let mistakes: Vec<String> = errors.into_vec().iter().map(Error::to_string).collect();
            assert_eq!(name.as_deref(), expected.ok(), "{text}");
            assert_eq!(mistakes, expected.err().into_iter().collect::<Vec<_>>());
        }
    }
}
