//! Conditions on the lines of a header or of a host attribute: `headers: {x-plan: free}`,
//! `property: {xds.route_name: main}`.
//!
//! Values are bytes and need not be text. If the host joins the lines of a header, a condition
//! holds if any run of pieces that may be a line matches; the condition is certain if all runs
//! match. A value with too many runs matches every condition and is certain of none.
//!
//! A host attribute may be a list, such as of metadata.

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
}

impl Lines {
    /// The lines of a header, in any case.
    pub fn header(name: &str, parts: &mut Parts) -> Result<Lines, ConditionError> {
        let part = Part::header(name).ok_or(ConditionError::Header)?;
        Ok(Lines { part: parts.intern(part), trims: true })
    }

    /// The value of a host attribute, by the steps of its path.
    pub fn property(steps: Vec<Box<str>>, parts: &mut Parts) -> Result<Lines, ConditionError> {
        let part = Part::property(steps).ok_or(ConditionError::Property)?;
        Ok(Lines { part: parts.intern(part), trims: false })
    }
}

impl Lookup for Lines {
    fn any(&self, request: &Request, test: &mut dyn FnMut(&[&[u8]]) -> bool) -> bool {
        let mut lines = request.lines(self.part);
        lines.any(|line| match self.trims {
            true => test(&[line.trim_ascii()]),
            false => match Pairs::list(line) {
                Some(elements) => test(&elements),
                None => test(&[line]),
            },
        })
    }

    fn trims(&self) -> bool {
        self.trims
    }

    fn are_too_many(&self, request: &Request) -> bool {
        HeaderLines::are_too_many(&request.lines(self.part))
    }

    fn canonical_form(&self, parts: &Parts) -> String {
        parts.canonical_form(self.part)
    }
}
