//! The actor is a host attribute: `{property: [xds, route_name]}`.
//!
//! The host decides on the attributes and their encoding. For example, Envoy encodes numbers as
//! eight bytes. The raw bytes are the value; nothing is stripped. A list, such as of metadata,
//! counts as missing.

use super::kind::append;
use super::{Actor, ActorError, FastPathPart};
use crate::request::pairs::Pairs;
use crate::request::{Part, PartId, Parts, Request};

/// The value of a host attribute.
#[derive(Debug)]
pub struct Property(PartId);

impl Property {
    /// The attribute at this path of 1 to 16 steps.
    pub fn new(steps: Vec<Box<str>>, parts: &mut Parts) -> Result<Property, ActorError> {
        let part = Part::property(steps).ok_or(ActorError::Property)?;
        Ok(Property(parts.intern(part)))
    }

    /// The value, unless it is a list.
    fn value<'r>(&self, request: &Request<'r>) -> Option<&'r [u8]> {
        request.get(self.0).filter(|value| Pairs::list(value).is_none())
    }
}

impl Actor for Property {
    fn canonical_form(&self, parts: &Parts) -> String {
        parts.canonical_form(self.0)
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        self.value(request).is_some_and(|value| append(value, key))
    }

    fn raw<'r>(&self, request: &Request<'r>) -> FastPathPart<'r> {
        FastPathPart::of(self.value(request))
    }

    fn elements(&self, request: &Request) -> Vec<Vec<u8>> {
        let value = request.get(self.0);
        let elements = value.and_then(Pairs::list).or_else(|| Some(vec![value?])).unwrap_or_default();
        elements.into_iter().map(<[u8]>::to_vec).collect()
    }
}
