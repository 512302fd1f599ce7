//! Findings about the place of the filter: in the list of HTTP filters, and in the lists that an
//! `EnvoyFilter` of Istio changes.

use super::code;
use super::finding::Findings;
use super::place::head;
use crate::source::documents::{Filter, FilterForm};
use crate::source::messages::message;
use crate::source::value::Value;
use diana_document::quoted;
use std::ops::Range;

/// The ends of the names of messages whose filters forward each request, and end the list.
const TERMINAL: [&str; 2] = [".router.v3.Router", ".upstream_codec.v3.UpstreamCodec"];

/// The CORS filter.
const CORS: Other = Other { name: "envoy.filters.http.cors", message: ".cors.v3.Cors" };

/// The filters that turn gRPC into another protocol before the upstream.
const REVERSE: [Other; 2] = [
    Other {
        name: "envoy.filters.http.grpc_http1_reverse_bridge",
        message: ".grpc_http1_reverse_bridge.v3.FilterConfig",
    },
    Other {
        name: "envoy.filters.http.grpc_json_reverse_transcoder",
        message: ".grpc_json_reverse_transcoder.v3.GrpcJsonReverseTranscoder",
    },
];

/// Another filter: its usual name, and the end of the name of its message.
struct Other {
    name: &'static str,
    message: &'static str,
}

impl Other {
    fn is(&self, item: &Value) -> bool {
        is_of(item, self.message, self.name)
    }
}

/// The router's name.
const ROUTER: &str = "envoy.filters.http.router";

/// Adds the findings.
pub fn warnings(filter: &Filter, findings: &mut Findings) {
    if let Some(patch) = filter.patch {
        patched(filter, patch, findings);
    }
    let items = filter.chain.map_or(&[][..], Value::items);
    let Some(own) = items.iter().position(|item| contains(item, filter.value)) else {
        return;
    };
    if items.iter().take(own).any(is_terminal) {
        findings.add(
            code::FILTER_ORDER,
            &items.get(own).map(name).unwrap_or_default(),
            "the filter is behind the router: no request would reach the filter, and Envoy refuses the configuration",
            Some("move the filter above the router, which must be the last filter"),
        );
    }
    let (before, behind) = items.split_at(own);
    let place = items.get(own).map(name).unwrap_or_default();
    if behind.iter().any(|item| CORS.is(item)) {
        findings.add(
            code::FILTER_PLACE,
            &place,
            "the filter is before the CORS filter: preflight requests count, and browsers hide refusals from pages of \
             other origins",
            Some("move the filter behind the CORS filter"),
        );
    }
    if filter.form == FilterForm::Module
        && before.iter().any(|item| REVERSE.iter().any(|other| other.is(item)))
    {
        findings.add(
            code::FILTER_PLACE,
            &place,
            "the module is behind a filter that turns gRPC into another protocol: gRPC clients see a refusal as success",
            Some("move the module before that filter"),
        );
    }
}

/// The filters of the list that come before this one; `None` if the list is unknown.
#[must_use]
pub fn before<'a>(filter: &Filter<'a>) -> Option<&'a [Value]> {
    let items = filter.chain?.items();
    let own = items.iter().position(|item| contains(item, filter.value))?;
    items.get(..own)
}

/// Patches that Istio ignores, or that put the filter behind the router.
fn patched(filter: &Filter, patch: &Value, findings: &mut Findings) {
    let target = patch.get("applyTo");
    let operation = patch.get("patch").and_then(|patch| patch.get("operation"));
    let (Some(target), Some(operation)) = (target, operation) else {
        return;
    };
    let is_of_route = filter.form == FilterForm::ModuleOfRoute;
    let sub_filter = ["match", "listener", "filterChain", "filter", "subFilter", "name"];
    let sub_filter = sub_filter.iter().try_fold(patch, |value, key| value.get(key)).and_then(Value::text);
    let is_behind_router = sub_filter.is_none_or(|name| name == ROUTER);
    let [to, name] = [target, operation].map(|value| value.text().unwrap_or_default());
    match (to, name) {
        ("HTTP_ROUTE" | "ROUTE_CONFIGURATION" | "VIRTUAL_HOST", _) if !is_of_route => findings.add(
            code::IGNORED_PATCH,
            &target.range,
            format!("the value is an HTTP filter, but `applyTo: {to}` changes routes: no request reaches the filter"),
            Some("write `applyTo: HTTP_FILTER` and `operation: INSERT_BEFORE`"),
        ),
        ("HTTP_ROUTE", "ADD") => findings.add(
            code::IGNORED_PATCH,
            &operation.range,
            "with `applyTo: HTTP_ROUTE`, Istio ignores `ADD`, or appends a route behind all others: the document applies \
             to no request",
            Some("write `operation: MERGE` to change routes, or `INSERT_FIRST` to add one"),
        ),
        ("ROUTE_CONFIGURATION", name) if name != "MERGE" => findings.add(
            code::IGNORED_PATCH,
            &operation.range,
            format!("with `applyTo: ROUTE_CONFIGURATION`, Istio ignores {}", quoted(name)),
            Some("write `operation: MERGE`"),
        ),
        ("HTTP_FILTER", "ADD") => behind(operation, "`ADD` appends the filter, behind the router", findings),
        ("HTTP_FILTER", "INSERT_AFTER") if is_behind_router => {
            behind(operation, "the filter comes behind the router", findings);
        }
        _ => {}
    }
}

fn behind(operation: &Value, why: &str, findings: &mut Findings) {
    findings.add(
        code::FILTER_ORDER,
        &operation.range,
        format!("{why}: Envoy refuses the listener"),
        Some("write `operation: INSERT_BEFORE`, or `INSERT_FIRST`"),
    );
}

fn is_terminal(item: &Value) -> bool {
    TERMINAL.iter().any(|end| is_of(item, end, ROUTER))
}

/// Whether a filter is of the message whose name ends with `end`. A filter without a message is
/// known by its name.
fn is_of(item: &Value, end: &str, usual_name: &str) -> bool {
    match item.field("typed_config").map(|config| message(config).0) {
        Some(name) if !name.is_empty() => name.ends_with(end),
        _ => item.get("name").and_then(Value::text) == Some(usual_name),
    }
}

/// Whether one value has the other. The value of an alias is a copy, which has the same place.
fn contains(item: &Value, inner: &Value) -> bool {
    item.range.start <= inner.range.start && inner.range.end <= item.range.end
}

/// The name of a filter, or its first key.
fn name(item: &Value) -> Range<usize> {
    item.get("name").map_or_else(|| head(item), |name| name.range.clone())
}
