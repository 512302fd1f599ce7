//! The actor is the value of a request header: `{header: x-user-id}`.
//!
//! A client can send any header. A rule that must hold needs a header that a proxy or filter before
//! this one sets or verifies. A header whose lines differ counts as missing (see [`Request::get`]).

use super::kind::append;
use super::{Actor, ActorError, FastPathPart};
use crate::request::{Part, PartId, Parts, Request};

/// The value of a header.
#[derive(Debug)]
pub struct Header(PartId);

impl Header {
    /// The header of this name, in any case.
    pub fn new(name: &str, parts: &mut Parts) -> Result<Header, ActorError> {
        let part = Part::header(name).ok_or(ActorError::Header)?;
        Ok(Header(parts.intern(part)))
    }
}

impl Actor for Header {
    fn canonical_form(&self, parts: &Parts) -> String {
        parts.canonical_form(self.0)
    }

    /// White space around the value is not part of the value (RFC 9110, section 5.5).
    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        request.get(self.0).is_some_and(|value| append(value.trim_ascii(), key))
    }

    fn raw<'r>(&self, request: &Request<'r>) -> FastPathPart<'r> {
        FastPathPart::of(request.get(self.0).map(<[u8]>::trim_ascii))
    }

    fn header(&self) -> Option<PartId> {
        Some(self.0)
    }
}
