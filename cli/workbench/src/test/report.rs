//! The results of test files: as text, in the Test Anything Protocol, and as JUnit XML.

use crate::check::render;
use crate::source::content::File;
use diana_replay::number::plural;
use diana_replay::printable::printable;
use serde::Serialize;
use std::collections::HashSet;
use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

pub use super::coverage::Uncovered;

/// The results of a test file.
#[derive(Debug, Serialize)]
pub struct FileReport {
    /// The test file.
    pub file: String,
    /// The document.
    pub document: String,
    /// The cases, in the order of the file.
    pub cases: Vec<CaseReport>,
    /// The number of branches of rules that cases have reached, and of all.
    pub branches: [usize; 2],
    /// The branches that no case has reached.
    pub uncovered: Vec<Uncovered>,
}

/// Which branches of a document's rules the cases of all its test files have reached.
#[derive(Debug, Serialize)]
pub struct DocumentCoverage {
    /// The document.
    pub document: String,
    /// The number of branches that were reached, and of all.
    pub branches: [usize; 2],
    /// The branches that were not reached.
    pub uncovered: Vec<Uncovered>,
}

impl DocumentCoverage {
    /// The coverage of each document, in the order of the files. `same`: one path for all names of
    /// a document.
    #[must_use]
    pub fn of(reports: &[FileReport], same: &dyn Fn(&str) -> PathBuf) -> Vec<DocumentCoverage> {
        let mut all: Vec<(PathBuf, DocumentCoverage)> = Vec::new();
        for report in reports {
            let FileReport { document, branches: [_, count], uncovered, .. } = report;
            let path = same(document);
            let rules = |missed: &Uncovered| (missed.rule.clone(), missed.never.clone());
            match all.iter_mut().find(|(known, _)| *known == path) {
                Some((_, one)) => {
                    let own: HashSet<_> = uncovered.iter().map(rules).collect();
                    one.uncovered.retain(|missed| own.contains(&rules(missed)));
                }
                None => {
                    let one = DocumentCoverage {
                        document: document.clone(),
                        branches: [0, *count],
                        uncovered: uncovered.clone(),
                    };
                    all.push((path, one));
                }
            }
        }
        let counted = |(_, one): (PathBuf, DocumentCoverage)| {
            let [_, count] = one.branches;
            DocumentCoverage { branches: [count.saturating_sub(one.uncovered.len()), count], ..one }
        };
        all.into_iter().map(counted).collect()
    }
}

/// The result of a case.
#[derive(Debug, Serialize)]
pub struct CaseReport {
    /// The name.
    pub name: String,
    /// The first line of the case.
    pub line: usize,
    /// The number of its requests.
    pub requests: usize,
    /// The steps that differ; none if the case has passed.
    pub failures: Vec<Failure>,
    /// How long the case ran.
    #[serde(skip)]
    pub took: Duration,
}

/// A step whose requests differ from what it expects.
#[derive(Debug, Serialize)]
pub struct Failure {
    /// The line of what the step expects.
    pub line: usize,
    /// Which request differs.
    pub request: String,
    /// How the request differs, one sentence each.
    pub why: Vec<String>,
    /// What `diana explain` prints about the request, with the counts of the case.
    pub explanation: String,
    /// The lines of the test file.
    #[serde(skip)]
    excerpts: [String; 2],
}

impl Failure {
    /// A failure at this place of the test file.
    pub fn new(
        file: &File,
        range: &Range<usize>,
        why: Vec<String>,
        request: String,
        explanation: String,
    ) -> Failure {
        let title = format!("{request}: {}", why.join("; "));
        let excerpts = [false, true].map(|is_terminal| render::excerpt(file, range, &title, is_terminal));
        Failure { line: file.position(range.start).line, request, why, explanation, excerpts }
    }
}

impl FileReport {
    /// Whether any case has failed.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.failed() > 0
    }

    fn failed(&self) -> usize {
        self.cases.iter().filter(|case| !case.failures.is_empty()).count()
    }
}

/// The results as text for people.
#[must_use]
pub fn text(reports: &[FileReport], coverage: &[DocumentCoverage], is_terminal: bool) -> String {
    let mut text = String::new();
    for report in reports {
        let _ = writeln!(text, "{}", printable(&report.file));
        for case in &report.cases {
            let result = if case.failures.is_empty() { "ok  " } else { "FAIL" };
            let requests = plural(case.requests as u64, "request");
            let _ = writeln!(text, "  {result}  {} ({requests})", printable(&case.name));
            for failure in &case.failures {
                let [plain, colored] = &failure.excerpts;
                text.push('\n');
                text.push_str(if is_terminal { colored } else { plain });
                for line in failure.explanation.lines() {
                    let _ = writeln!(text, "{}{line}", if line.is_empty() { "" } else { "      " });
                }
                text.push('\n');
            }
        }
    }
    for Uncovered { rule, never, place } in coverage.iter().flat_map(|one| &one.uncovered) {
        let _ = writeln!(text, "never {never}: {rule} ({})", printable(place));
    }
    let all: usize = reports.iter().map(|report| report.cases.len()).sum();
    let failed: usize = reports.iter().map(FileReport::failed).sum();
    let sum = |at: fn(&[usize; 2]) -> usize| coverage.iter().map(|one| at(&one.branches)).sum::<usize>();
    let (reached, branches) = (sum(|[reached, _]| *reached), sum(|[_, all]| *all));
    let passed = plural(all.saturating_sub(failed) as u64, "case");
    let _ =
        writeln!(text, "{passed} passed, {failed} failed; {reached} of {branches} branches of rules reached");
    text
}

/// The results in the Test Anything Protocol, version 14.
#[must_use]
pub fn tap(reports: &[FileReport], unreadable: &[String]) -> String {
    let cases = || reports.iter().flat_map(|report| report.cases.iter().map(move |case| (report, case)));
    let count = cases().count();
    let mut text = format!("TAP version 14\n1..{}\n", count.saturating_add(unreadable.len()));
    for (number, (report, case)) in (1..).zip(cases()) {
        let result = if case.failures.is_empty() { "ok" } else { "not ok" };
        // `#` begins a directive.
        let name = printable(&case.name).replace('\\', "\\\\").replace('#', "\\#");
        let _ = writeln!(text, "{result} {number} - {}: {name}", printable(&report.file));
        for failure in &case.failures {
            let why = format!("{}: {}", failure.request, failure.why.join("; "));
            // YAML takes JSON text.
            let message = serde_json::Value::from(why).to_string();
            let at = serde_json::Value::from(format!("{}:{}", report.file, failure.line)).to_string();
            let _ = writeln!(text, "  ---\n  message: {message}\n  at: {at}\n  ...");
        }
    }
    for (number, file) in (count.saturating_add(1)..).zip(unreadable) {
        let _ = writeln!(text, "not ok {number} - {}: cannot be read", printable(file));
    }
    text
}
