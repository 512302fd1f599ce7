//! The repository's own examples and pages have no findings. Every code has its section.

use super::found;
use diana_cli::check::code::CODES;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files below a folder with this ending.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path, ending));
        } else if path.to_str().unwrap().ends_with(ending) {
            files.push(path);
        }
    }
    files
}

#[test]
fn the_examples_have_no_findings() {
    let mut examples = vec![root().join("envoy.yaml"), root().join("envoy-native.yaml")];
    examples.extend(files(&root().join("examples"), "/envoy.yaml"));
    examples.extend(files(&root().join("examples"), "/envoy-native.yaml"));
    examples.extend(files(&root().join("examples"), "/nginx.conf"));
    for file in [
        "kubernetes/native/diana.yaml",
        "kubernetes/component/diana.yaml",
        "kubernetes/redis/diana.yaml",
        "istio/traffic-extension.yaml",
        "istio/wasm-plugin.yaml",
        "envoy-gateway/native.yaml",
        "envoy-gateway/wasm.yaml",
    ] {
        examples.push(root().join("examples").join(file));
    }
    let mut checked = 0;
    for file in examples {
        let text = fs::read_to_string(&file).unwrap();
        // The filter of one is not Diana, but embeds the engine. The other gets its filter by ECDS.
        let without = ["embed-in-sdk-filter", "kubernetes/base"];
        let expected = match without.iter().any(|folder| file.to_str().unwrap().contains(folder)) {
            true => vec![(1, "no-configuration")],
            false => Vec::new(),
        };
        assert_eq!(found(file.to_str().unwrap(), &text), expected, "{}", file.display());
        checked += 1;
    }
    assert!(checked >= 16, "{checked}");
}

#[test]
fn the_pages_have_no_findings() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    let mut pages = files(&root().join("docs"), ".md");
    pages.extend(["README.md", "README.zh-CN.md"].map(|page| root().join(page)));
    for page in pages {
        // This page shows mistakes.
        if page.ends_with("docs/cli/check.md") {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        for block in text.split("```yaml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            // The configuration of another limiter, in a migration guide.
            if block.starts_with("# before:") {
                continue;
            }
            let is_whole = ["limits:", "url:"].iter().any(|key| block.contains(key));
            let mut findings = found("block.yaml", block);
            // A migration guide shows the limits, not the labels of metrics.
            findings.retain(|(_, code)| !block.starts_with("# after:") || *code != "stats-tags");
            if is_whole && !findings.is_empty() && findings != [(1, "no-configuration")] {
                wrong.push(format!("{}: {findings:?}\n{block}", page.display()));
            }
            checked += usize::from(is_whole);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked >= 15, "{checked}");
}

#[test]
fn every_code_has_a_section() {
    let page = fs::read_to_string(root().join("docs/cli/check.md")).unwrap();
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let codes: Vec<&str> = CODES.iter().map(|code| code.name).collect();
    assert_eq!(sections, codes);
}
