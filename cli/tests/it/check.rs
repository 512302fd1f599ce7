//! `diana check`: a corpus of mistakes, the text that people see, JSON, exit codes.

mod corpus;
mod hints;
mod nginx;
mod output;
mod repository;
mod robust;
mod secrets;

use diana_cli::check::report::{Fleet, Report};
use diana_cli::source::content::File;

/// The lines and codes of the findings in a text.
fn found(name: &str, text: &str) -> Vec<(usize, &'static str)> {
    places(&Report::of(File::new(name, text), Fleet::default()))
}

/// The lines and codes of the findings of a report.
fn places(report: &Report) -> Vec<(usize, &'static str)> {
    let findings = report.findings.iter();
    findings.map(|finding| (report.file.position(finding.range.start).line, finding.code.name)).collect()
}
