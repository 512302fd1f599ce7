//! Runs the cases of test files: requests on a virtual clock, and the outcomes that they expect.
//! The engine decides, as for `explain`.
//!
//! ```text
//!   limits.test.yaml ─ file ─► cases ─► arrivals ─► gateways ─► expectations ─► report
//!   limits.yaml ────────────────────────────────────┘    └────► coverage
//! ```

mod arrival;
mod case;
mod coverage;
mod expectation;
mod file;
mod moment;
mod report;
mod request;
mod run;

pub use expectation::Kind;
pub use file::{ENDINGS, TestFile};
pub use report::{CaseReport, DocumentCoverage, Failure, FileReport, Uncovered, tap, text};
pub use run::{Observed, Observer};

use crate::source::content::File;
use crate::valid;
use miette::Result;

/// Runs the cases of a test file, given as text, against a document, also given as text.
///
/// ```
/// use diana_workbench::test;
///
/// let document = "limits: [{url: /, rules: [{name: per-ip, actor: ip, algo: W, rpu: 2, unit: minute}]}]";
/// let cases = "
/// cases:
///   - name: a third request in a minute is refused
///     requests:
///       - {url: /orders, repeat: 2, expect: pass}
///       - {url: /orders, expect: refused by per-ip}
///       - {url: /orders, after: 1m, expect: pass}
/// ";
/// let report = test::text_report(document, cases).expect("valid files");
/// assert!(!report.is_failed() && report.uncovered.is_empty());
/// ```
pub fn text_report(document: &str, cases: &str) -> Result<FileReport> {
    observed_report(document, cases, &mut |_| {})
}

/// The same report. `observe` sees each request.
pub fn observed_report(document: &str, cases: &str, observe: &mut Observer) -> Result<FileReport> {
    let (document, json) = valid::document_of(File::new("limits.yaml", document), None)?;
    TestFile::of(File::new("limits.test.yaml", cases))?.run(&json, &document, "limits.yaml", observe)
}
