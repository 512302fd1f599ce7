//! The REST dialect of Upstash: a command is a list of strings, a pipeline a list of commands.
//!
//! ```text
//!   POST /           ["EVALSHA","4e1243…","1","diana:{0}:00ff…","1 1 1 2 …"]
//!                        ─►  {"result":[0,0,9,…]}
//!                    or 400  {"error":"NOSCRIPT No matching script…"}
//!   POST /pipeline   [[…],[…]]
//!                        ─►  [{"result":[…]},{"error":"ERR …"}]
//! ```

use diana_base::format::json_string;
use diana_document::Value;
use diana_limiter::global::CallError;

/// Appends one element of a command, between the brackets of its list.
pub fn part(to: &mut String, text: &str, is_first: bool) {
    if !is_first {
        to.push(',');
    }
    json_string(to, text);
}

/// The reply to the command at index `at` of `commands`. An error message takes precedence over the
/// status.
pub fn reply(at: usize, commands: usize, status: u32, body: Option<&Value>) -> Result<&Value, CallError> {
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
        Some(result) if !is_alone || commands == 1 => Ok(result),
        _ => Err(CallError::Garbage),
    }
}
