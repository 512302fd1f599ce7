//! `cargo xtask report [--update] [FILTER]`: the tests of the HTML report of `diana replay` and of
//! the page of `diana console` in a real Chromium. `--update` retakes the pictures of the docs.

use crate::programs;
use crate::step::{self, Step, cargo};
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
    step::run_all(&steps(update, filter))
}

/// Installs the browser and what the filter's build needs, and fetches axe-core, if they are
/// missing.
pub fn prepare() -> Result<()> {
    programs::install_browser()?;
    programs::install_fetchers()?;
    AXE.fetch().map(drop)
}

/// The tests as steps. Two browsers at a time. The page of the console has real gateways, too.
pub fn steps(update: bool, filter: Option<&str>) -> Vec<Step> {
    let all = [
        ("the report, in Chromium", "diana-replay", "report"),
        ("the console, in Chromium", "diana-console", "page"),
    ];
    all.map(|(name, package, test)| in_browser(name, package, test, update, filter)).into()
}

/// A package's test in Chromium.
pub fn in_browser(name: &'static str, package: &str, test: &str, update: bool, filter: Option<&str>) -> Step {
    let arguments = ["test", "--quiet", "--package", package, "--test", test, "--", "--test-threads", "2"];
    let mut line = cargo(&arguments);
    line.args.extend(filter.map(str::to_owned));
    if update {
        line.env.push(("UPDATE", "1".to_owned()));
    }
    Step::new(name, line).shown()
}
