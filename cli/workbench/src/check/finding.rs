//! What a check finds.

use super::code::Code;
use crate::source::content::Content;
use std::ops::Range;

/// A finding at a place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind.
    pub code: Code,
    /// The mistake: lower case, no full stop.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// The bytes of the file.
    pub range: Range<usize>,
}

/// Findings about a text.
#[derive(Debug)]
pub struct Findings<'a> {
    content: &'a Content,
    found: &'a mut Vec<Finding>,
}

impl<'a> Findings<'a> {
    /// Findings about `content`, added to `found`.
    pub fn new(content: &'a Content, found: &'a mut Vec<Finding>) -> Findings<'a> {
        Findings { content, found }
    }

    /// Adds a finding about a range of the text.
    pub fn add(&mut self, code: Code, range: &Range<usize>, message: impl Into<String>, hint: Option<&str>) {
        let range = self.content.outer(range);
        self.found.push(Finding { code, message: message.into(), hint: hint.map(Into::into), range });
    }
}
