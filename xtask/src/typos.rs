//! `cargo xtask typos`: misspelt words in code and documents, by typos and `typos.toml`.

use crate::tool::Tool;
use anyhow::{Context, Result, bail};
use gateway::root;
use std::process::Command;

const TOOL: Tool = Tool { package: "typos-cli", program: "typos", version: "1.52.0" };

/// Lists misspelt words, or corrects those with one correction if `write`.
pub fn run(write: bool) -> Result<()> {
    let mut command = Command::new(TOOL.installed()?);
    command.args(["--config", "typos.toml"]).current_dir(root());
    if write {
        command.arg("--write-changes");
    }
    if !command.status().context("cannot run typos")?.success() {
        bail!("words are misspelt; a word that is right goes to typos.toml");
    }
    Ok(())
}
