//! Envoy's text formats: command operators such as `%START_TIME%` and `%REQ(X-USER-ID)%`.

use super::field::{Field, MILLIS, header_name};
use super::incoming::Rank;
use super::pattern::Token;
use super::record::{Slot, Slots};
use super::time::TimeFormat;

/// Envoy's default format.
pub const DEFAULT: &str = "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" \
    %RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% \
    %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" \
    \"%REQ(X-REQUEST-ID)%\" \"%REQ(:AUTHORITY)%\" \"%UPSTREAM_HOST%\"";

/// Istio's default format.
pub const ISTIO: &str = "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" \
    %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% \
    \"%UPSTREAM_TRANSPORT_FAILURE_REASON%\" %BYTES_RECEIVED% %BYTES_SENT% %DURATION% \
    %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" \
    \"%REQ(X-REQUEST-ID)%\" \"%REQ(:AUTHORITY)%\" \"%UPSTREAM_HOST%\" %UPSTREAM_CLUSTER_RAW% \
    %UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% \
    %REQUESTED_SERVER_NAME% %ROUTE_NAME%";

/// The tokens of a format. The error says what is wrong.
pub fn tokens(format: &str, slots: &Slots) -> Result<Vec<Token>, String> {
    let (mut tokens, mut rest) = (Vec::new(), format);
    while let Some((text, behind)) = rest.split_once('%') {
        tokens.push(Token::Literal(text.into()));
        if let Some(behind) = behind.strip_prefix('%') {
            tokens.push(Token::Literal(b"%".into()));
            rest = behind;
            continue;
        }
        let (operator, behind) = operator(behind)?;
        let (field, rank) = field(&operator, slots);
        tokens.push(Token::Field(field, rank));
        rest = behind;
    }
    tokens.push(Token::Literal(rest.into()));
    Ok(tokens)
}

/// A command operator.
#[derive(Debug)]
struct Operator<'a> {
    name: &'a str,
    argument: &'a str,
}

/// The operator at the beginning of `text`, after a `%`, and the text after the operator.
fn operator(text: &str) -> Result<(Operator<'_>, &str), String> {
    let wrong = || {
        let start: String = text.chars().take(30).collect();
        format!("`%{start}` is not a command operator such as `%REQ(X-USER-ID)%`; a percent sign is `%%`")
    };
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let end = text.find(|c| !is_name(c)).filter(|end| *end > 0).ok_or_else(wrong)?;
    let (name, mut rest) = text.split_at(end);
    let mut argument = "";
    if let Some(inner) = rest.strip_prefix('(') {
        (argument, rest) = inner.split_once(')').ok_or_else(wrong)?;
    }
    if let Some(length) = rest.strip_prefix(':') {
        rest = length.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    let rest = rest.strip_prefix('%').ok_or_else(wrong)?;
    Ok((Operator { name, argument }, rest))
}

/// What an operator means, and its rank among the operators of this meaning.
fn field(operator: &Operator, slots: &Slots) -> (Field, Rank) {
    let Operator { name, argument } = *operator;
    let value = |slot: Slot| Field::value(slots, &slot);
    let attribute = |name: &str| value(Slot::Attribute(name.into()));
    match name {
        "START_TIME" => {
            let format = TimeFormat::of_envoy(argument);
            let rank = format.is_whole_seconds().into();
            (Field::Start(format), rank)
        }
        "DURATION" => (Field::Duration(MILLIS), 0),
        "RESPONSE_DURATION" => (Field::Latency(MILLIS), 0),
        "RESPONSE_CODE" => (Field::Status, 0),
        "BYTES_RECEIVED" => (Field::Received, 0),
        "BYTES_SENT" => (Field::Sent, 0),
        "REQ" => request_header(argument, slots),
        "RESP" if argument.eq_ignore_ascii_case("x-envoy-upstream-service-time") => {
            (Field::Latency(MILLIS), 1)
        }
        "RESP" => {
            let (name, rank) = first(argument);
            (value(Slot::ResponseHeader(header_name(name))), rank)
        }
        "DOWNSTREAM_REMOTE_ADDRESS" => (value(Slot::Address), 0),
        "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT" => (value(Slot::Address), 1),
        // By default, the operator writes the original path with its query.
        "PATH" if argument.starts_with("NQ") => (value(Slot::Target), 2),
        "PATH" => (value(Slot::Target), argument.ends_with(":PATH").into()),
        "PROTOCOL" => (attribute("request.protocol"), 0),
        "ROUTE_NAME" => (attribute("xds.route_name"), 0),
        // Without `_RAW`, the name may be the one for metrics.
        "UPSTREAM_CLUSTER_RAW" => (attribute("xds.cluster_name"), 0),
        "UPSTREAM_CLUSTER" => (attribute("xds.cluster_name"), 1),
        "VIRTUAL_CLUSTER_NAME" => (attribute("xds.virtual_cluster_name"), 0),
        "REQUESTED_SERVER_NAME" => (attribute("connection.requested_server_name"), 0),
        _ => (Field::Unread, 0),
    }
}

/// The first of two names: `A?B` is the header `A`, or else the header `B`. A header that is surely
/// `A` has a lower rank.
fn first(argument: &str) -> (&str, Rank) {
    argument.split_once('?').map_or((argument, 0), |(first, _)| (first, 1))
}

fn request_header(argument: &str, slots: &Slots) -> (Field, Rank) {
    let special = |name: &str| match &*name.to_ascii_lowercase() {
        // The path before the route rewrote it, which is the one that the filter reads.
        "x-envoy-original-path" => Some((Slot::Target, 0)),
        ":path" => Some((Slot::Target, 1)),
        ":method" => Some((Slot::Method, 0)),
        ":authority" | "host" => Some((Slot::Host, 0)),
        _ => None,
    };
    let (slot, rank) = argument.split('?').find_map(special).unwrap_or_else(|| {
        let (name, rank) = first(argument);
        (Slot::Header(header_name(name)), rank)
    });
    (Field::value(slots, &slot), rank)
}
