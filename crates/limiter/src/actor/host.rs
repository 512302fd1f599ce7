//! The actor is the requested host: `{host: {}}`, or `host` for short.
//!
//! A client can request any host. All spellings of a host are one actor (see
//! [`syntax::host_name`]).

use super::kind::{append, text};
use super::{Actor, FastPathPart};
use crate::request::{Part, PartId, Parts, Request, syntax};

/// The requested host.
#[derive(Debug)]
pub struct Host(PartId);

impl Host {
    /// The actor; it has no options.
    pub fn new(parts: &mut Parts) -> Host {
        Host(parts.intern(Part::Host))
    }
}

impl Actor for Host {
    fn canonical_form(&self, parts: &Parts) -> String {
        parts.canonical_form(self.0)
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        request.get(self.0).is_some_and(|authority| append(&syntax::host_name(authority), key))
    }

    fn raw<'r>(&self, request: &Request<'r>) -> FastPathPart<'r> {
        FastPathPart::of(request.get(self.0))
    }

    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        text(&syntax::host_name(value.as_bytes()))
    }
}
