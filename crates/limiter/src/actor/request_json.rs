//! The actor is a value in the request's body, at a JSON pointer: `{request_json: /model}`.
//!
//! Clients choose the value. A body that cannot be read lacks the actor.

use super::kind::append;
use super::{Actor, ActorError, FastPathPart};
use crate::request::{Part, PartId, Parts, Request};

/// A value in the request's body.
#[derive(Debug)]
pub struct RequestJson(PartId);

impl RequestJson {
    /// The value at a pointer: see [`Part::request_json`].
    pub fn new(pointer: &str, parts: &mut Parts) -> Result<RequestJson, ActorError> {
        let part = Part::request_json(pointer).ok_or(ActorError::Pointer)?;
        Ok(RequestJson(parts.intern(part)))
    }
}

impl Actor for RequestJson {
    fn canonical_form(&self, parts: &Parts) -> String {
        parts.canonical_form(self.0)
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        request.get(self.0).is_some_and(|value| append(value, key))
    }

    fn raw<'r>(&self, request: &Request<'r>) -> FastPathPart<'r> {
        FastPathPart::of(request.get(self.0))
    }
}
