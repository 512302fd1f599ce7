//! Webdis: a command is a path, in the body of a `POST`; the answer is an object whose one key is the command's name.
//!
//! It does not know: which commands there are.
//!
//! ```text
//!   EVALSHA/4e1243…/1/diana:{0}:00ff…/1+1+1+2+…    ─►  {"EVALSHA":[0,0,9,…]}
//!                                                  ─►  {"EVALSHA":[false,"NOSCRIPT No matching script. Please use EVAL."]}
//! ```
//!
//! What comes behind the last dot of its last part is a format, so that part must have none. (Webdis 0.1.9.)

use super::super::CallError;
use crate::document::Value;
use crate::format::hex;

/// Appends a part of a command, escaped: a `/` would end it, a `?` begins options, and a `+` stands for a space.
pub fn part(to: &mut String, text: &str, is_first: bool) {
    if !is_first {
        to.push('/');
    }
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

/// What the store replied. An error of Redis has the status 200; other statuses (503 without a Redis, 403 where webdis may
/// not ask it) have no body.
pub fn reply(status: u32, body: Option<&Value>) -> Result<&Value, CallError> {
    let entries: &[_] = match body {
        _ if status != 200 => return Err(CallError::Status(status)),
        Some(Value::Object(entries)) => entries,
        _ => &[],
    };
    let [(_, reply)] = entries else { return Err(CallError::Garbage) };
    match reply {
        Value::List(items) => match items.as_slice() {
            [Value::Bool(false), Value::Text(words)] => Err(CallError::of(words)),
            _ => Ok(reply),
        },
        _ => Ok(reply),
    }
}
