//! Responses that override the document's own: `response` of a limit, of `deny` and of a rule's
//! `missing`. The headers that a configuration adds to a response.

use crate::cells::table::Hasher;
use crate::request::token::header_name;
use diana_document::{Node, Value};
use std::sync::Arc;

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
        fields.belong(&["body", "content_type", "jitter"], "to the `response` at the top, beside `limits`");
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
        | "x-ratelimit-reset" => "it is set by `headers` at the top",
        "grpc-status" | "grpc-message" => "it is set when the client speaks gRPC",
        // Headers of message framing, of the connection (RFC 9113 §8.2.2), or of the responding
        // server.
        "content-length" | "transfer-encoding" | "connection" | "keep-alive" | "proxy-connection" | "te"
        | "trailer" | "upgrade" | "date" | "server" => "it is the gateway's own",
        _ => return None,
    })
}

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
