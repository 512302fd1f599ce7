//! The actor is the request's method: `{method: {}}`, or `method` for short.
//!
//! Methods are case-sensitive (RFC 9110, section 9.1), but over HTTP/2 a client may send any case,
//! and each would be another actor.

use super::kind::{append, text};
use super::{Actor, FastPathPart};
use crate::request::{Part, PartId, Parts, Request};

/// The request's method.
#[derive(Debug)]
pub struct Method(PartId);

impl Method {
    /// The actor; it has no options.
    pub fn new(parts: &mut Parts) -> Method {
        Method(parts.intern(Part::Method))
    }
}

impl Actor for Method {
    fn canonical_form(&self, parts: &Parts) -> String {
        parts.canonical_form(self.0)
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        request.get(self.0).is_some_and(|method| append(&method.to_ascii_uppercase(), key))
    }

    fn raw<'r>(&self, request: &Request<'r>) -> FastPathPart<'r> {
        FastPathPart::of(request.get(self.0))
    }

    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        text(value.to_ascii_uppercase().as_bytes())
    }
}
