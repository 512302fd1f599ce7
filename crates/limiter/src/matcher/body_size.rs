//! `body_size`: the declared sizes to which a limit applies: `{min: 1, max: 64Ki}` in bytes, both
//! inclusive. If the size is unknown, as of a chunked body, the condition holds and is not certain,
//! so that no client evades a limit by leaving the length out.

use super::{ConditionError, Matcher};
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::decimal;
use std::ops::RangeInclusive;

/// The condition `body_size`.
#[derive(Debug)]
pub struct BodySize {
    part: PartId,
    /// In bytes.
    allowed: RangeInclusive<u64>,
}

impl BodySize {
    /// The sizes in `allowed`, in bytes.
    pub fn new(allowed: RangeInclusive<u64>, parts: &mut Parts) -> Result<BodySize, ConditionError> {
        let is_any = allowed == (0..=u64::MAX);
        if allowed.is_empty() || is_any {
            return Err(if is_any { ConditionError::Anything } else { ConditionError::Nothing });
        }
        Ok(BodySize { part: parts.intern(Part::BodySize), allowed })
    }

    /// Whether the size in a line is in the range; `None` if the line is no size.
    fn allows(&self, line: &[u8]) -> Option<bool> {
        let digits = str::from_utf8(line.trim_ascii()).ok()?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let size = digits.parse().ok().filter(|_| is_number)?;
        Some(self.allowed.contains(&size))
    }
}

impl Matcher for BodySize {
    fn canonical_form(&self, parts: &Parts) -> String {
        let [min, max] = [self.allowed.start(), self.allowed.end()].map(|size| decimal(*size));
        [&parts.canonical_form(self.part), " ", &*min, " ", &max].concat()
    }

    fn matches(&self, request: &Request) -> bool {
        let lines = request.lines(self.part);
        let is_unknown = lines.are_too_many() || lines.clone().next().is_none();
        is_unknown || lines.into_iter().any(|line| self.allows(line) != Some(false))
    }

    fn is_certain(&self, request: &Request) -> bool {
        let mut lines = request.lines(self.part);
        let is_known = !lines.are_too_many() && lines.clone().next().is_some();
        is_known && lines.all(|line| self.allows(line) == Some(true))
    }
}
