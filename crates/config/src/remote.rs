//! `remote`: the source of a remote document.

use super::global_store::{cluster, reserved};
use diana_base::sort;
use diana_base::time::Span;
use diana_document::{Fields, Node, Value};
use diana_remote_config::RemoteOptions;

const LONGEST_STALE: Span = Span::from_secs(86_400 * 365);

/// Compiles `remote`. Reports each mistake at its place and then returns `None`.
pub(super) fn compile(node: Node) -> Option<RemoteOptions> {
    let Value::Object(_) = node.value() else {
        return node.expected("`{cluster: …, path: …}`");
    };
    let mut fields = node.fields()?;
    let cluster = fields.require("cluster").and_then(|node| cluster(&node));
    let path = fields.require("path").and_then(|node| visible(&node, "a path such as `/diana.json`", "/"));
    let authority =
        fields.take("authority").map(|node| visible(&node, "a host's name, with or without a port", ""));
    let interval =
        span(&mut fields, "interval", RemoteOptions::INTERVAL, Span::from_ms(100)..=Span::from_secs(86_400));
    let timeout =
        span(&mut fields, "timeout", RemoteOptions::TIMEOUT, Span::from_ms(1)..=Span::from_secs(60));
    let max_stale = fields.take("max_stale");
    let max_stale =
        max_stale.map_or(Some(RemoteOptions::MAX_STALE.max(interval.unwrap_or_default())), |node| {
            let span = node.span(Span::from_ms(100)..=LONGEST_STALE)?;
            if interval.is_some_and(|interval| span < interval) {
                node.fail(
                    "it is shorter than `interval`: the document in force would change with each answer",
                );
            }
            Some(span)
        });
    let headers = fields
        .take("headers")
        .map(|node| diana_response::own_headers(&node, reserved_header))
        .unwrap_or_default();
    let body = fields.take("body").map(|node| body(&node));
    let pointer = fields.take("pointer").map(|node| pointer(&node));
    let encodings = [("plain", false), ("base64", true)];
    let is_base64 = fields.take("encoding").map(|node| node.choice("encoding", &encodings));
    if let Some(node) = fields.take_unoffered("canary") {
        node.fail("there is no canary: to try a rule on a part of its actors, give it `enforce: \"5%\"`");
    }
    fields.finish();
    let cluster = cluster?;
    Some(RemoteOptions {
        authority: authority.unwrap_or_else(|| Some(cluster.clone()))?,
        cluster,
        path: path?,
        headers,
        body: body.map_or(Some(None), |body| body.map(Some))?,
        interval: interval?,
        timeout: timeout?,
        max_stale: max_stale?,
        pointer: pointer.unwrap_or_else(|| Some(Vec::new()))?,
        is_base64: is_base64.unwrap_or(Some(false))?,
    })
}

fn span(
    fields: &mut Fields,
    key: &'static str,
    default: Span,
    range: std::ops::RangeInclusive<Span>,
) -> Option<Span> {
    fields.take(key).map_or(Some(default), |node| node.span(range))
}

fn visible(node: &Node, what: &str, start: &str) -> Option<String> {
    let text = node.text()?;
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    match !text.is_empty() && text.len() <= 4_096 && is_visible && text.starts_with(start) {
        true => Some(text.into()),
        false => node.expected(what),
    }
}

/// Text as it is; an object or a list as JSON.
fn body(node: &Node) -> Option<String> {
    match node.value() {
        Value::Text(text) => Some(text.clone()),
        Value::Object(_) | Value::List(_) => Some(sorted(node.value()).to_string()),
        _ => node.expected("text, or an object that is sent as JSON"),
    }
}

/// The value with sorted keys: the order of a document's keys means nothing, and Envoy may change
/// it.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let mut entries: Vec<_> =
                entries.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            sort::sort_by_key(&mut entries, |(key, _)| key.clone());
            Value::Object(entries)
        }
        Value::List(items) => Value::List(items.iter().map(sorted).collect()),
        value => value.clone(),
    }
}

fn pointer(node: &Node) -> Option<Vec<String>> {
    match diana_remote_config::pointer(node.text()?) {
        None => node.expected("a JSON pointer such as `/data/0/value`, in which `~1` is `/` and `~0` is `~`"),
        pointer => pointer,
    }
}

fn reserved_header(name: &str) -> Option<&'static str> {
    match name {
        "if-none-match" | "if-modified-since" | "if-match" | "if-unmodified-since" | "range" => {
            Some("it is set for each request")
        }
        "content-type" => None,
        name => reserved(name),
    }
}
