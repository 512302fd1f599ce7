//! nginx's `log_format`: variables such as `$remote_addr` and `$http_x_user_id`.

use super::field::{Field, MILLIS, SECONDS};
use super::incoming::Rank;
use super::pattern::Token;
use super::record::{Slot, Slots};
use super::time::{TIME_LOCAL, TimeFormat};

/// The format `combined`, nginx's default.
pub const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
    \"$http_referer\" \"$http_user_agent\"";

/// The tokens of a format. The error says what is wrong.
pub fn tokens(format: &str, slots: &Slots) -> Result<Vec<Token>, String> {
    let (mut tokens, mut rest) = (Vec::new(), format);
    while let Some((text, behind)) = rest.split_once('$') {
        tokens.push(Token::Literal(text.into()));
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, behind) = match behind.strip_prefix('{') {
            Some(inner) => inner.split_once('}').ok_or("a `${` has no `}`")?,
            None => behind.split_at(behind.find(|c| !is_name(c)).unwrap_or(behind.len())),
        };
        if name.is_empty() || !name.chars().all(is_name) {
            return Err("a `$` is not followed by the name of a variable".into());
        }
        let (field, rank) = field(name, slots);
        tokens.push(Token::Field(field, rank));
        rest = behind;
    }
    tokens.push(Token::Literal(rest.into()));
    Ok(tokens)
}

/// What a variable means, and its rank among the variables of this meaning. The filter reads
/// `$request_uri`, `$request_method` and `$host`.
fn field(variable: &str, slots: &Slots) -> (Field, Rank) {
    let value = |slot| Field::value(slots, &slot);
    let header = |name: &str| name.replace('_', "-").into_boxed_str();
    let end = |format: &str| Field::End(TimeFormat::Strftime(format.into()));
    match variable {
        "remote_addr" => (value(Slot::Address), 0),
        "msec" => (Field::End(TimeFormat::Seconds), 0),
        "time_iso8601" => (end("%Y-%m-%dT%H:%M:%S%:z"), 1),
        "time_local" => (end(TIME_LOCAL), 1),
        "request_time" => (Field::Duration(SECONDS), 0),
        "request_time_msec" => (Field::Duration(MILLIS), 1),
        "upstream_header_time" => (Field::Latency(SECONDS), 0),
        "upstream_response_time" => (Field::Latency(SECONDS), 1),
        "status" => (Field::Status, 0),
        "body_bytes_sent" => (Field::Sent, 0),
        "request" => (Field::request_line(slots, 1, 1), 0),
        "request_method" => (value(Slot::Method), 0),
        "request_uri" => (value(Slot::Target), 0),
        "host" => (value(Slot::Host), 0),
        "http_host" => (value(Slot::Host), 1),
        "content_length" => (value(Slot::Header("content-length".into())), 1),
        "content_type" => (value(Slot::Header("content-type".into())), 1),
        "server_protocol" => (value(Slot::Attribute("request.protocol".into())), 0),
        _ => match variable.split_once("http_") {
            Some(("", name)) => (value(Slot::Header(header(name))), 0),
            Some(("sent_", name)) => (value(Slot::ResponseHeader(header(name))), 1),
            Some(("upstream_", name)) => (value(Slot::ResponseHeader(header(name))), 0),
            _ => (Field::Unread, 0),
        },
    }
}
