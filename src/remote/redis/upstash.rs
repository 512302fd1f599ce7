//! The REST dialect of Upstash, which others speak as well: a command is a list of texts, several are a list of them.
//!
//! It does not know: which commands there are.
//!
//! ```text
//!   POST /           ["EVALSHA","4e1243…","1","diana:{0}:00ff…","1 1 1 2 …"]   ─►  {"result":[0,0,9,…]}
//!                                                                      or 400  ─►  {"error":"NOSCRIPT No matching script…"}
//!   POST /pipeline   [[…],[…]]                                                 ─►  [{"result":[…]},{"error":"ERR …"}]
//! ```

use super::super::Failure;
use crate::document::{Value, parse_json};
use crate::text::json_string;

/// Appends a part of a command, between the brackets of a list.
pub fn part(to: &mut String, text: &str, is_first: bool) {
    if !is_first {
        to.push(',');
    }
    json_string(to, text);
}

/// What the store replied to each of so many commands, the first one alone if it is the only one. An error that has words
/// is told by them, whatever its status.
pub fn replies(commands: usize, status: u32, body: &[u8]) -> Result<Vec<Result<Value, Failure>>, Failure> {
    let nothing = || if status == 200 { Failure::Garbage } else { Failure::Status(status) };
    match parse_json(body).ok_or_else(nothing)? {
        Value::List(replies) if status == 200 && commands > 1 && replies.len() == commands => {
            Ok(replies.into_iter().map(reply).collect())
        }
        // Also a pipeline's that failed as a whole.
        alone => match reply(alone) {
            Ok(result) if status == 200 && commands == 1 => Ok(vec![Ok(result)]),
            Ok(_) | Err(Failure::Garbage) => Err(nothing()),
            Err(failure) => Err(failure),
        },
    }
}

fn reply(value: Value) -> Result<Value, Failure> {
    let Value::Object(entries) = value else { return Err(Failure::Garbage) };
    let mut result = Err(Failure::Garbage);
    for (key, value) in entries {
        match (&*key, &value) {
            ("error", Value::Text(words)) => return Err(Failure::of(words)),
            ("result", _) => result = Ok(value),
            _ => {}
        }
    }
    result
}
