//! The REST dialect of Upstash, which others speak as well: a command is a list of texts, several are a list of them.
//!
//! It does not know: which commands there are.
//!
//! ```text
//!   POST /           ["EVALSHA","4e1243…","1","diana:{0}:00ff…","1 1 1 2 …"]   ─►  {"result":[0,0,9,…]}
//!                                                                      or 400  ─►  {"error":"NOSCRIPT No matching script…"}
//!   POST /pipeline   [[…],[…]]                                                 ─►  [{"result":[…]},{"error":"ERR …"}]
//! ```

use super::super::CallError;
use crate::document::Value;
use crate::format::json_string;

/// Appends a part of a command, between the brackets of a list.
pub fn part(to: &mut String, text: &str, is_first: bool) {
    if !is_first {
        to.push(',');
    }
    json_string(to, text);
}

/// What the store replied to the command at this place, of so many. An error that has words is told by them, whatever the
/// status.
pub fn reply(at: usize, commands: usize, status: u32, body: Option<&Value>) -> Result<&Value, CallError> {
    let entries: &[_] = match body {
        // Also a pipeline's that failed as a whole.
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
