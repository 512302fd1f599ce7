//! `cargo xtask report [--update] [FILTER]`: the tests of the HTML report of `diana replay` in a
//! real Chromium. `--update` retakes the pictures of the documents.

use crate::programs;
use crate::step::{Step, cargo};
use anyhow::{Context, Result, bail, ensure};
use gateway::target;
use sha2::{Digest, Sha256};
use std::fs;
use std::process::Command;

/// The rules of accessibility. The tests name the folder, too.
const AXE: &str = "axe-core";
const VERSION: &str = "4.14.1";
/// Of `axe.min.js`.
const SHA256: &str = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c";

/// Installs what is missing and runs the tests whose names contain `filter`, or all.
pub fn run(update: bool, filter: Option<&str>) -> Result<()> {
    prepare()?;
    step(update, filter).run()
}

/// Installs the browser and fetches axe-core, if they are missing.
pub fn prepare() -> Result<()> {
    programs::install_browser()?;
    fetch()
}

/// The tests as a step. Two browsers at a time.
pub fn step(update: bool, filter: Option<&str>) -> Step {
    let harness = ["--test-threads", "2"];
    let arguments = ["test", "--quiet", "--package", "diana-cli", "--test", "report", "--"];
    let mut line = cargo(&[&arguments[..], &harness].concat());
    line.args.extend(filter.map(str::to_owned));
    if update {
        line.env.push(("UPDATE", "1".to_owned()));
    }
    Step::new("the report, in Chromium", line).shown()
}

/// Fetches axe-core by npm and checks its hash. The file is renamed to its place after the check,
/// so a file found there is complete and correct.
fn fetch() -> Result<()> {
    let folder = target().join("tools").join(format!("{AXE}-{VERSION}"));
    let file = folder.join("axe.min.js");
    if file.exists() {
        return Ok(());
    }
    println!("fetching {AXE} {VERSION} by npm");
    let work = folder.join(format!("unpack-{}", std::process::id()));
    fs::create_dir_all(&work).with_context(|| format!("cannot create `{}`", work.display()))?;
    let package = format!("{AXE}@{VERSION}");
    let archive = format!("{AXE}-{VERSION}.tgz");
    for (program, arguments) in [("npm", vec!["pack", "--silent", &package]), ("tar", vec!["-xzf", &archive])]
    {
        let output = Command::new(program).args(&arguments).current_dir(&work).output();
        let output = output.with_context(|| format!("cannot run `{program}`"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            bail!("`{program} {}` failed:\n{said}", arguments.join(" "));
        }
    }
    let unpacked = work.join("package").join("axe.min.js");
    let bytes = fs::read(&unpacked).with_context(|| format!("cannot read `{}`", unpacked.display()))?;
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(found == SHA256, "{AXE} {VERSION} has the SHA-256 {found}, expected {SHA256}: do not run it");
    fs::rename(&unpacked, &file).with_context(|| format!("cannot create `{}`", file.display()))?;
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove `{}`", work.display()))
}
