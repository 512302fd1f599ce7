//! The one valid document of a file, for commands that decide by it. A mistake is shown as
//! `diana check` shows it.

use crate::check::code::{self, Severity};
use crate::check::finding::Finding;
use crate::check::render;
use crate::check::report::{Fleet, Report};
use crate::secrets::Secrets;
use crate::source::{self, content::File};
use miette::{Diagnostic, Result};
use std::fmt;
use std::ops::Range;
use std::slice;

/// The file, and its only document or the one at a line, as JSON.
pub fn document_of(file: File, line: Option<usize>) -> Result<(File, Vec<u8>)> {
    let selected = match source::select(&file, line) {
        Ok(selected) => selected,
        Err(error) => return Err(shown(file, None).unwrap_or(error)),
    };
    match source::configuration(&selected.json) {
        Ok(_) => Ok((file, selected.json)),
        Err(error) => Err(shown(file, Some(selected.range)).unwrap_or(error)),
    }
}

/// The error with the mistakes in the document at this range, or with what hides the documents.
/// `None` if a check of the file finds no such mistake.
fn shown(file: File, document: Option<Range<usize>>) -> Option<miette::Report> {
    let mut report = Report::of(file, Fleet::default());
    report.documents.clear();
    report.findings.retain(|finding| match &document {
        None => [code::SYNTAX, code::NO_CONFIGURATION].contains(&finding.code),
        // Mistakes elsewhere in the file do not concern the document.
        Some(range) => {
            finding.code.severity == Severity::Error
                && (range.start..=range.end).contains(&finding.range.start)
        }
    });
    (!report.findings.is_empty()).then(|| Mistakes::of(report).into())
}

/// The mistakes of a document, as `diana check` shows them. The text is complete: nothing is added
/// to it when it is printed.
#[derive(Debug)]
pub struct Mistakes {
    report: Report,
}

impl Mistakes {
    /// The findings of a report.
    #[must_use]
    pub fn of(report: Report) -> Mistakes {
        Mistakes { report }
    }

    /// One mistake at a place of a file that has no document.
    #[must_use]
    pub fn at(file: File, mut finding: Finding) -> Mistakes {
        let secrets = Secrets::of_text(&file.text);
        finding.message = secrets.redacted(finding.message);
        Mistakes { report: Report { file, findings: vec![finding], documents: Vec::new(), secrets } }
    }

    /// The text, with colors for a terminal.
    #[must_use]
    pub fn text(&self, is_terminal: bool) -> String {
        let errors = self.report.findings.len();
        let count = if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") };
        render::text(slice::from_ref(&self.report), is_terminal) + &count
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(false))
    }
}

impl std::error::Error for Mistakes {}

impl Diagnostic for Mistakes {}
