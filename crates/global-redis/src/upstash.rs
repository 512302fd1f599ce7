//! The REST dialect of Upstash: a command is a list of strings, a pipeline a list of commands.
//!
//! ```text
//!   POST /           ["EVALSHA","4e1243…","1","diana:{0}:00ff…","1 1 1 2 …"]
//!                        ─►  {"result":[0,0,9,…]}
//!                    or 400  {"error":"NOSCRIPT No matching script…"}
//!   POST /pipeline   [[…],[…]]
//!                        ─►  [{"result":[…]},{"error":"ERR …"}]
//! ```

use super::answer::{self, Numbers};
use diana_base::format::json_string;
use diana_document::Value;
use diana_limiter::global::CallError;
use std::borrow::Cow;

/// Appends commands: a list, or a list of lists.
pub fn commands(to: &mut String, commands: &[Vec<Cow<str>>]) {
    let is_pipeline = commands.len() > 1;
    for (at, parts) in commands.iter().enumerate() {
        if is_pipeline {
            to.push(if at == 0 { '[' } else { ',' });
        }
        for (at, text) in parts.iter().enumerate() {
            to.push(if at == 0 { '[' } else { ',' });
            json_string(to, text);
        }
        to.push(']');
    }
    if is_pipeline {
        to.push(']');
    }
}

/// The reply to the command at index `at` of `commands`. An error message takes precedence over the
/// status.
pub fn reply(at: usize, commands: usize, status: u32, body: Option<&Value>) -> Result<Numbers, CallError> {
    let entries: &[_] = match body {
        // Also the reply to a pipeline that failed as a whole.
        Some(Value::Object(entries)) => entries,
        Some(Value::List(replies)) if commands > 1 && replies.len() == commands => match replies.get(at) {
            Some(Value::Object(entries)) => entries,
            _ => &[],
        },
        _ => &[],
    };
    let mut result = None;
    for (key, value) in entries {
        match (&**key, value) {
            ("error", Value::Text(words)) => return Err(CallError::of(words)),
            ("result", _) => result = Some(value),
            _ => {}
        }
    }
    let is_alone = matches!(body, Some(Value::Object(_)));
    match result {
        _ if status != 200 => Err(CallError::Status(status)),
        Some(result) if !is_alone || commands == 1 => answer::numbers(result),
        _ => Err(CallError::Garbage),
    }
}
