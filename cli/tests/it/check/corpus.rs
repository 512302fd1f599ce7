//! Files with planted mistakes. A comment `# ^ CODE…` at the end of a line names what is to be
//! found there. `FILE.expect` has lines `LINE CODE` for places that have no comments.

use super::places;
use diana_cli::check::code::{CODES, EVICTING_STORE};
use diana_cli::check::report::{Fleet, Version};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/check");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension != "expect"));
    files.sort();
    files
}

/// The lines and codes that a file of the corpus plants.
fn planted(file: &Path, text: &str) -> Vec<(usize, String)> {
    let mut planted = Vec::new();
    for (line, text) in text.lines().enumerate() {
        if let Some((_, codes)) = text.rsplit_once("# ^ ") {
            planted.extend(codes.split_whitespace().map(|code| (line + 1, code.to_string())));
        }
    }
    let expect = PathBuf::from(format!("{}.expect", file.display()));
    for line in fs::read_to_string(expect).unwrap_or_default().lines() {
        let (line, code) = line.split_once(' ').unwrap();
        planted.push((line.parse().unwrap(), code.to_string()));
    }
    planted.sort();
    planted
}

#[test]
fn every_planted_mistake_is_found_and_nothing_else() {
    let (mut count, mut codes, mut wrong) = (0, BTreeSet::new(), Vec::new());
    for file in files() {
        // One file is no text.
        let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        let planted = planted(&file, &text);
        let name = file.file_name().unwrap().to_str().unwrap();
        let report = diana_cli::check::report_of(&file, Fleet::default());
        let found = places(&report).into_iter();
        let mut found: Vec<(usize, String)> = found.map(|(line, code)| (line, code.to_string())).collect();
        found.sort();
        count += planted.len();
        codes.extend(planted.iter().map(|(_, code)| code.clone()));
        let is_in = |of: &[(usize, String)], one: &(usize, String)| of.contains(one);
        wrong.extend(
            planted.iter().filter(|one| !is_in(&found, one)).map(|one| format!("{name}: not found: {one:?}")),
        );
        wrong.extend(
            found
                .iter()
                .filter(|one| !is_in(&planted, one))
                .map(|one| format!("{name}: not planted: {one:?}")),
        );
        if found.len() != planted.len() {
            wrong.push(format!("{name}: {} planted, {} found", planted.len(), found.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 60, "only {count} mistakes");
    // Only a Redis says how it frees memory.
    let all = CODES.iter().filter(|code| **code != EVICTING_STORE);
    let all: BTreeSet<String> = all.map(|code| code.name.to_string()).collect();
    assert_eq!(codes, all, "every code is planted, and no other");
}

#[test]
fn a_redis_that_evicts_frees_counts_of_a_month() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/check/calendars.yaml");
    let evicting = |evicting| {
        let report = diana_cli::check::report_of(&file, Fleet { evicting, ..Fleet::default() });
        let found = report.findings.into_iter().filter(|finding| finding.code == EVICTING_STORE);
        found.map(|finding| finding.message).collect::<Vec<_>>()
    };
    assert_eq!(evicting(None), Vec::<String>::new());
    let found = evicting(Some("volatile-lfu"));
    assert_eq!(found.len(), 2, "the global rules: {found:?}");
    assert!(found.iter().all(|message| message.contains("`maxmemory-policy volatile-lfu`")), "{found:?}");
}

#[test]
fn an_old_envoy_has_no_bridge() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/check/dialects.yaml");
    let count = |envoy: &str| {
        let fleet = Fleet { envoy: Some(envoy.parse().unwrap()), ..Fleet::default() };
        let report = diana_cli::check::report_of(&file, fleet);
        report.findings.iter().filter(|finding| finding.message.contains("needs Envoy 1.39")).count()
    };
    // Each cluster with a bridge, also those that name a wrong one.
    assert_eq!(["1.38.2", "v1.38-latest", "1.9", "1.39", "1.40.0", "2.0"].map(count), [5, 5, 5, 0, 0, 0]);
    for wrong in ["", "1", "1.x", "latest"] {
        assert!(wrong.parse::<Version>().is_err(), "{wrong}");
    }
}
