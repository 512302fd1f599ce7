//! `cargo xtask typos`: misspelt words in code and documents, by typos and `typos.toml`.

use crate::step::Step;
use crate::tool::Tool;
use anyhow::{Context, Result, bail};
use gateway::root;
use gateway::wheel::Wheel;
use std::process::Command;

const TOOL: Tool = Tool {
    package: "typos-cli",
    program: "typos",
    version: VERSION,
    features: "",
    wheel: Some(Wheel {
        package: "typos",
        version: VERSION,
        wheel: "418fd85f7fc11dec14e5482e747f6e916af56da96207cde0cdd69540a4b389f6",
        path: "typos-1.52.0.data/scripts/typos",
        program: "38b0e6d0bede64fe28e9f5bbf7bb0e528ff69927dad372a2443468cb87fae64d",
    }),
};

const VERSION: &str = "1.52.0";

/// Lists misspelt words, or corrects those with one correction if `write`.
pub fn run(write: bool) -> Result<()> {
    install()?;
    if write { find(&["--write-changes"]) } else { step().run() }
}

/// Installs the tool before the steps run, so that no step reports the installation.
pub fn install() -> Result<()> {
    TOOL.installed().map(drop)
}

/// The check as a step of other commands.
pub fn step() -> Step {
    Step::check("spelling", || find(&[]), "cargo xtask typos")
}

fn find(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(TOOL.installed()?);
    command.args(["--config", "typos.toml", "--format", "brief"]).args(arguments).current_dir(root());
    let output = command.output().context("cannot run typos")?;
    if !output.status.success() {
        let (found, said) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("words are misspelt; a word that is right goes to typos.toml:\n{found}{said}");
    }
    Ok(())
}
