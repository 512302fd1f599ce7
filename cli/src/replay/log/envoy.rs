//! Envoy's text formats: command operators such as `%START_TIME%` and `%REQ(X-USER-ID)%`.

use super::field::{Field, MILLIS, header_name};
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
        tokens.push(Token::Field(field(&operator, slots)));
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

/// The operator at the beginning of `text`, which stands behind a `%`, and the text behind it.
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

fn field(operator: &Operator, slots: &Slots) -> Field {
    let Operator { name, argument } = *operator;
    let attribute = |name: &str| Field::value(slots, &Slot::Attribute(name.into()));
    match name {
        "START_TIME" => Field::Start(TimeFormat::of_envoy(argument)),
        "DURATION" => Field::Duration(MILLIS),
        "RESPONSE_DURATION" => Field::Latency(MILLIS),
        "RESPONSE_CODE" => Field::Status,
        "BYTES_RECEIVED" => Field::Received,
        "BYTES_SENT" => Field::Sent,
        "REQ" => request_header(argument, slots),
        "RESP" if argument.eq_ignore_ascii_case("x-envoy-upstream-service-time") => Field::Latency(MILLIS),
        "RESP" => Field::value(slots, &Slot::ResponseHeader(header_name(first(argument)))),
        "DOWNSTREAM_REMOTE_ADDRESS" | "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT" => {
            Field::value(slots, &Slot::Address)
        }
        "PATH" => Field::value(slots, &Slot::Target),
        "PROTOCOL" => attribute("request.protocol"),
        "ROUTE_NAME" => attribute("xds.route_name"),
        "UPSTREAM_CLUSTER" | "UPSTREAM_CLUSTER_RAW" => attribute("xds.cluster_name"),
        "VIRTUAL_CLUSTER_NAME" => attribute("xds.virtual_cluster_name"),
        "REQUESTED_SERVER_NAME" => attribute("connection.requested_server_name"),
        _ => Field::Unread,
    }
}

/// The first of two names: `A?B` is the header `A`, or else the header `B`.
fn first(argument: &str) -> &str {
    argument.split_once('?').map_or(argument, |(first, _)| first)
}

fn request_header(argument: &str, slots: &Slots) -> Field {
    let pseudo = argument.split('?').find_map(|name| match &*name.to_ascii_lowercase() {
        ":method" => Some(Slot::Method),
        ":path" => Some(Slot::Target),
        ":authority" | "host" => Some(Slot::Host),
        _ => None,
    });
    Field::value(slots, &pseudo.unwrap_or_else(|| Slot::Header(header_name(first(argument)))))
}
