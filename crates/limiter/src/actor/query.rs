//! The actor is a query parameter: `{query: api_key}`.
//!
//! Names and values are [decoded](query_values), so `k=a+b` and `%6B=a%20b` are one actor. The
//! decoded value may be any bytes.
//!
//! A parameter with two different values counts as missing, because backends disagree whether the
//! first or the last one counts. Otherwise a client could get a fresh quota with a second parameter
//! that its backend ignores.

use super::kind::{append, only};
use super::{Actor, ActorError};
use crate::request::syntax::query_values;
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::netstring;

/// The value of a parameter of the query.
#[derive(Debug)]
pub struct Query {
    target: PartId,
    /// The decoded name.
    name: Box<str>,
}

impl Query {
    /// The parameter of this decoded name.
    pub fn new(name: &str, parts: &mut Parts) -> Result<Query, ActorError> {
        if name.is_empty() {
            return Err(ActorError::Parameter);
        }
        Ok(Query { target: parts.intern(Part::Path), name: name.into() })
    }
}

impl Actor for Query {
    fn canonical_form(&self, _: &Parts) -> String {
        ["query ", &netstring(&self.name)].concat()
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        let Some(target) = request.get(self.target) else { return false };
        only(query_values(target, self.name.as_bytes())).is_some_and(|value| append(&value, key))
    }
}
