//! The dialect of Webdis: a command is a path in the body of a `POST`; the reply is an object whose
//! one key is the command's name.
//!
//! ```text
//!   EVALSHA/4e1243…/1/diana:{0}:00ff…/1+1+1+2+…
//!       ─►  {"EVALSHA":[0,0,9,…]}
//!       ─►  {"EVALSHA":[false,"NOSCRIPT No matching script. Please use EVAL."]}
//! ```
//!
//! Webdis 0.1.9 reads what follows the last dot of the last part as a format, so dots are escaped.

use super::answer::{self, Numbers};
use diana_base::format::hex;
use diana_document::Value;
use diana_limiter::global::CallError;
use std::borrow::Cow;

/// Appends a command, escaped: `/` ends a part, `?` begins options, and `+` stands for a space.
pub fn command(to: &mut String, parts: &[Cow<str>]) {
    for (at, text) in parts.iter().enumerate() {
        if at > 0 {
            to.push('/');
        }
        part(to, text);
    }
}

fn part(to: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b':' | b'{' | b'}' => {
                to.push(byte.into())
            }
            b' ' => to.push('+'),
            _ => {
                to.push('%');
                hex(to, byte);
            }
        }
    }
}

/// The reply to a command. Redis errors have the status 200. Other statuses have no body: 503 if
/// Redis is down, 403 if webdis does not allow the command.
pub fn reply(status: u32, body: Option<&Value>) -> Result<Numbers, CallError> {
    let entries: &[_] = match body {
        _ if status != 200 => return Err(CallError::Status(status)),
        Some(Value::Object(entries)) => entries,
        _ => &[],
    };
    let [(_, reply)] = entries else { return Err(CallError::Garbage) };
    match reply {
        Value::List(items) => match items.as_slice() {
            [Value::Bool(false), Value::Text(words)] => Err(CallError::of(words)),
            _ => answer::numbers(reply),
        },
        _ => answer::numbers(reply),
    }
}
