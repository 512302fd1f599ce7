//! The results as JUnit XML.

use super::FileReport;
use miette::{IntoDiagnostic, Result};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// The results as XML. `unreadable`: the files that could not be read.
pub fn text(reports: &[FileReport], unreadable: &[String]) -> Result<String> {
    let mut junit = Report::new("diana test");
    for report in reports {
        let mut suite = TestSuite::new(report.file.as_str());
        for case in &report.cases {
            let mut status = TestCaseStatus::success();
            if let Some(first) = case.failures.first() {
                status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                status.set_message(format!(
                    "line {}: {}: {}",
                    first.line,
                    first.request,
                    first.why.join("; ")
                ));
                let all: Vec<&str> =
                    case.failures.iter().map(|failure| failure.explanation.as_str()).collect();
                status.set_description(all.join("\n"));
            }
            let mut of_case = TestCase::new(case.name.as_str(), status);
            of_case.set_time(case.took);
            suite.add_test_case(of_case);
        }
        junit.add_test_suite(suite);
    }
    for file in unreadable {
        let mut suite = TestSuite::new(file.as_str());
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message("cannot be read");
        suite.add_test_case(TestCase::new("all cases", status));
        junit.add_test_suite(suite);
    }
    junit.to_string().into_diagnostic()
}
