//! `cargo xtask deny`: licences, sources and advisories of all dependencies, by cargo-deny and
//! `deny.toml`.

use crate::tool::Tool;
use anyhow::{Context, Result, bail};
use gateway::root;
use std::process::Command;

const TOOL: Tool = Tool::new("cargo-deny", "0.20.2");

/// The two workspaces. cargo-deny reads `deny.toml` of the root for both.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

/// Checks both workspaces; `offline` leaves out the advisories, whose list lies on github.com.
pub fn run(offline: bool) -> Result<()> {
    let tool = TOOL.installed()?;
    let checks: &[&[&str]] = &[&["licenses", "bans", "sources"], &["advisories"]];
    for what in &checks[..if offline { 1 } else { 2 }] {
        for manifest in MANIFESTS {
            println!("{manifest}: {}", what.join(", "));
            let status = Command::new(&tool)
                .args(["--manifest-path", manifest, "check"])
                .args(*what)
                .current_dir(root())
                .status()
                .context("cannot run cargo-deny")?;
            if !status.success() {
                bail!("the {} of {manifest} do not pass; deny.toml has the rules", what.join(", "));
            }
        }
    }
    Ok(())
}
