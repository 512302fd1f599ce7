//! The one valid document of a file, for commands that decide by it. A mistake is shown as
//! `diana check` shows it.

use crate::check::code::{self, Severity};
use crate::check::finding::Finding;
use crate::check::render;
use crate::check::report::Report;
use crate::source::{self, content::File};
use miette::{Diagnostic, Result};
use std::fmt;
use std::io::{IsTerminal, stderr};
use std::path::Path;

/// The document of a file, as JSON. The path may end with a line, as in `envoy.yaml:43`.
pub fn document(path: &Path) -> Result<Vec<u8>> {
    let (file, line) = source::read(path)?;
    let selected = match source::select(&file, line) {
        Ok(selected) => selected,
        Err(error) => {
            let says_why = |finding: &Finding| [code::SYNTAX, code::NO_CONFIGURATION].contains(&finding.code);
            return Err(shown(file, says_why).unwrap_or(error));
        }
    };
    let Err(error) = source::configuration(&selected.json) else { return Ok(selected.json) };
    // Mistakes elsewhere in the file do not concern the document.
    let is_of_document = |finding: &Finding| {
        finding.code.severity == Severity::Error
            && (selected.range.start..=selected.range.end).contains(&finding.range.start)
    };
    Err(shown(file, is_of_document).unwrap_or(error))
}

/// The error that shows these findings of a check; `None` without such findings.
fn shown(file: File, is_meant: impl Fn(&Finding) -> bool) -> Option<miette::Report> {
    let mut report = Report::of(file, None);
    report.documents.clear();
    report.findings.retain(is_meant);
    let errors = report.findings.len();
    let text = render::text(&[report], stderr().is_terminal());
    let count = if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") };
    (errors > 0).then(|| Mistakes { text: text + &count }.into())
}

/// The mistakes of a document, as `diana check` shows them. The text is complete: nothing is added
/// to it when it is printed.
#[derive(Debug)]
pub struct Mistakes {
    text: String,
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Mistakes {}

impl Diagnostic for Mistakes {}
