//! `cargo xtask report [--update] [FILTER]`: the tests of the HTML report of `diana replay` in a
//! real Chromium. `--update` retakes the pictures of the documents.

use crate::programs;
use crate::step::{Step, cargo};
use anyhow::Result;
use gateway::npm::PackageFile;

/// The rules of accessibility. The tests name the file's folder, too.
const AXE: PackageFile = PackageFile {
    package: "axe-core",
    version: "4.14.1",
    path: "axe.min.js",
    sha256: "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c",
};

/// Installs what is missing and runs the tests whose names contain `filter`, or all.
pub fn run(update: bool, filter: Option<&str>) -> Result<()> {
    prepare()?;
    step(update, filter).run()
}

/// Installs the browser and fetches axe-core, if they are missing.
pub fn prepare() -> Result<()> {
    programs::install_browser()?;
    AXE.fetch().map(drop)
}

/// The tests as a step. Two browsers at a time.
pub fn step(update: bool, filter: Option<&str>) -> Step {
    let harness = ["--test-threads", "2"];
    let arguments = ["test", "--quiet", "--package", "diana-replay", "--test", "report", "--"];
    let mut line = cargo(&[&arguments[..], &harness].concat());
    line.args.extend(filter.map(str::to_owned));
    if update {
        line.env.push(("UPDATE", "1".to_owned()));
    }
    Step::new("the report, in Chromium", line).shown()
}
