//! The rules and alerts of `deploy/observability`, checked by Prometheus' own promtool.

use crate::step::Step;
use anyhow::{Context, Result, ensure};
use gateway::root;
use std::process::Command;

/// The check as a step of other commands. Prometheus has to be installed.
pub fn step() -> Step {
    Step::check("alerts, by promtool", check, "cargo xtask examples")
}

fn check() -> Result<()> {
    promtool(&["check", "rules", "rules.yaml", "alerts.yaml"])?;
    promtool(&["test", "rules", "tests/alerts.yaml"])
}

fn promtool(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(root().join("deploy/observability"));
    let output = command.output().context("cannot run `promtool`: install Prometheus")?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&said).trim());
    Ok(())
}
