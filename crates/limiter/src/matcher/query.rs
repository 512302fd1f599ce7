//! `query`: a limit's conditions on query parameters: `{debug: {present: true}, format: csv}`.
//!
//! Names and values are [decoded](query_values). A parameter without `=` is present and empty. If a
//! parameter occurs several times, one matching value is enough.

use super::{ConditionError, Lookup};
use crate::request::syntax::query_values;
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::netstring;

/// The values of a parameter of the query.
#[derive(Debug)]
pub struct Parameter {
    target: PartId,
    /// The decoded name.
    name: Box<str>,
}

impl Parameter {
    /// The parameter of this decoded name.
    pub fn new(name: &str, parts: &mut Parts) -> Result<Parameter, ConditionError> {
        if name.is_empty() {
            return Err(ConditionError::Parameter);
        }
        Ok(Parameter { target: parts.intern(Part::Path), name: name.into() })
    }
}

impl Lookup for Parameter {
    fn any(&self, request: &Request, test: &mut dyn FnMut(&[&[u8]]) -> bool) -> bool {
        let target = request.get(self.target).unwrap_or_default();
        query_values(target, self.name.as_bytes()).any(|value| test(&[&value]))
    }

    fn canonical_form(&self, _: &Parts) -> String {
        ["query ", &netstring(&self.name)].concat()
    }
}
