//! Conditions on the lines of a header or of a host attribute: `headers: {x-plan: free}`,
//! `property: {xds.route_name: main}`.
//!
//! Values are bytes and need not be text. If the host joins the lines of a header, a condition
//! holds if any run of pieces that may be a line matches; the condition is certain if all runs
//! match. A value with too many runs matches every condition and is certain of none.
//!
//! A host attribute may be a list, such as of metadata.
//!
//! The same conditions apply to parts of the request's body: `request_json: {/model: small}`. If
//! the body cannot be read, they all hold, and none is certain.

use super::{ConditionError, Lookup};
use crate::request::pairs::Pairs;
use crate::request::{HeaderLines, Part, PartId, Parts, Request};

/// The values are the lines of a part.
#[derive(Debug)]
pub struct Lines {
    part: PartId,
    /// Whether white space around a line is no part of the value, as in a header (RFC 9110, section
    /// 5.5); hosts keep some of it.
    trims: bool,
    /// Whether a value may be a list in the encoding of hosts.
    has_lists: bool,
}

impl Lines {
    /// The lines of a header, in any case.
    pub fn header(name: &str, parts: &mut Parts) -> Result<Lines, ConditionError> {
        let part = Part::header(name).ok_or(ConditionError::Header)?;
        Ok(Lines { part: parts.intern(part), trims: true, has_lists: false })
    }

    /// The value of a host attribute, by the steps of its path.
    pub fn property(steps: Vec<Box<str>>, parts: &mut Parts) -> Result<Lines, ConditionError> {
        let part = Part::property(steps).ok_or(ConditionError::Property)?;
        Ok(Lines { part: parts.intern(part), trims: false, has_lists: true })
    }

    /// The value at a pointer in the request's body: see [`Part::request_json`].
    pub fn request_json(pointer: &str, parts: &mut Parts) -> Result<Lines, ConditionError> {
        let part = Part::request_json(pointer).ok_or(ConditionError::Pointer)?;
        Ok(Lines { part: parts.intern(part), trims: false, has_lists: false })
    }
}

impl Lookup for Lines {
    fn any(&self, request: &Request, test: &mut dyn FnMut(&[&[u8]]) -> bool) -> bool {
        let mut lines = request.lines(self.part);
        let elements = |line| if self.has_lists { Pairs::list(line) } else { None };
        lines.any(|line| match elements(line) {
            Some(elements) => test(&elements),
            None if self.trims => test(&[line.trim_ascii()]),
            None => test(&[line]),
        })
    }

    fn trims(&self) -> bool {
        self.trims
    }

    fn is_unread(&self, request: &Request) -> bool {
        request.lines(self.part).are_unread()
    }

    fn are_too_many(&self, request: &Request) -> bool {
        HeaderLines::are_too_many(&request.lines(self.part))
    }

    fn canonical_form(&self, parts: &Parts) -> String {
        parts.canonical_form(self.part)
    }
}
