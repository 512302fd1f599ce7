//! The verdicts that other limiters' test suites state: those of nginx, envoyproxy/ratelimit and
//! Envoy's `local_ratelimit`, written as test files of ours. `cargo xtask foreign` runs nginx' own.

use diana_cli::test;
use std::fs;
use std::path::Path;

/// A comment in the document or in the case says where the verdicts differ, and why.
#[test]
fn other_suites_verdicts_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/foreign");
    let (mut tests, mut documents) = (0, 0);
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display().to_string();
        if !name.ends_with(".test.yaml") {
            documents += 1;
            continue;
        }
        tests += 1;
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# The verdicts of "), "{name} names no suite");
        let report = test::file_report(&path).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert!(!report.is_failed(), "{name}: {:#?}", report.cases);
    }
    assert_eq!((tests, documents), (12, 12));
}
