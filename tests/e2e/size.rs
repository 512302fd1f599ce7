//! The size of the filter as the documents state it.

use gateway::{filter, root};
use std::fs;
use std::process::Command;

/// A stated size is wrong if it differs by more than this.
const TOLERANCE_PERCENT: u64 = 2;

/// The number between these words in a file, in bytes, times `unit`.
fn stated(file: &str, before: &str, after: &str, unit: u64) -> u64 {
    let text = fs::read_to_string(root().join(file)).unwrap();
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("{file} does not say `{before}`"));
    let (number, _) = rest.split_once(after).unwrap();
    number.parse::<u64>().unwrap_or_else(|error| panic!("{file}: {number}: {error}")) * unit
}

fn is_near(stated: u64, built: u64) -> bool {
    stated.abs_diff(built) * 100 <= built * TOLERANCE_PERCENT
}

/// The measured part of `docs/bench/README.md` states the size at its commit, its section *Size* the
/// present one.
#[test]
fn the_documents_state_the_size_of_the_built_filter() {
    assert!(is_near(98, 100) && !is_near(97, 100) && is_near(102, 100) && !is_near(103, 100));
    let built = fs::metadata(filter::filter().unwrap()).unwrap().len();
    for (file, before) in
        [("docs/guide.md", "Each file is "), ("docs/bench/README.md", "`diana.wasm` has **")]
    {
        let stated = stated(file, before, " kB", 1_000);
        assert!(
            is_near(stated, built),
            "{file} says {stated} bytes, the filter has {built}: write that there"
        );
    }
}

/// Envoy loads a module although it lacks a function that the module does not need at once. The
/// module looks all of them up itself, so an older Envoy lacks a feature and does not crash.
#[test]
fn the_module_takes_no_function_of_envoy_for_granted() {
    let module = filter::module().unwrap();
    let output = Command::new("nm").args(["--dynamic", "--undefined-only"]).arg(module).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let symbols = String::from_utf8(output.stdout).unwrap();
    assert!(symbols.contains("dlsym"), "{symbols}");
    let taken: Vec<&str> = symbols.lines().filter(|line| line.contains("envoy")).collect();
    assert!(taken.is_empty(), "{taken:?}");
}
