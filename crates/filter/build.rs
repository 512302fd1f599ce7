//! The version of this build. One that is no release is named by its commit, so that gateways of
//! two builds never look alike.

use std::env;
use std::process::Command;

fn main() {
    let package = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = if package.ends_with("-dev") { git(&["rev-parse", "HEAD"]) } else { None };
    // Git's own abbreviation is longer in a larger clone.
    let commit = commit.as_deref().and_then(|commit| commit.get(..12));
    let version = commit.map_or_else(|| package.clone(), |commit| format!("{package}+{commit}"));
    println!("cargo:rustc-env=DIANA_VERSION={version}");
    println!("cargo:rerun-if-changed=build.rs");
    // Grows with each commit and each checkout.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
}

/// What git prints, unless there is no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}
