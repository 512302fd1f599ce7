//! nginx' `log_format`: variables such as `$remote_addr` and `$http_x_user_id`.

use super::field::{Field, MILLIS, SECONDS};
use super::pattern::Token;
use super::record::{Slot, Slots};
use super::time::{TIME_LOCAL, TimeFormat};

/// The format `combined`, nginx' default.
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
        tokens.push(Token::Field(field(name, slots)));
        rest = behind;
    }
    tokens.push(Token::Literal(rest.into()));
    Ok(tokens)
}

fn field(variable: &str, slots: &Slots) -> Field {
    let value = |slot| Field::value(slots, &slot);
    let header = |name: &str| name.replace('_', "-").into_boxed_str();
    match variable {
        "remote_addr" => value(Slot::Address),
        "time_local" => Field::End(TimeFormat::Strftime(TIME_LOCAL.into())),
        "time_iso8601" => Field::End(TimeFormat::Strftime("%Y-%m-%dT%H:%M:%S%:z".into())),
        "msec" => Field::End(TimeFormat::Seconds),
        "request_time" => Field::Duration(SECONDS),
        "request_time_msec" => Field::Duration(MILLIS),
        "upstream_header_time" | "upstream_response_time" => Field::Latency(SECONDS),
        "status" => Field::Status,
        "body_bytes_sent" => Field::Sent,
        "request" => Field::request_line(slots),
        "request_method" => value(Slot::Method),
        "request_uri" => value(Slot::Target),
        "host" | "http_host" => value(Slot::Host),
        "content_length" => value(Slot::Header("content-length".into())),
        "content_type" => value(Slot::Header("content-type".into())),
        "server_protocol" => value(Slot::Attribute("request.protocol".into())),
        _ => match variable.split_once("http_") {
            Some(("", name)) => value(Slot::Header(header(name))),
            Some(("sent_" | "upstream_", name)) => value(Slot::ResponseHeader(header(name))),
            _ => Field::Unread,
        },
    }
}
