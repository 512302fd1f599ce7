//! The rules and alerts of `deploy/observability`, checked by Prometheus' own promtool, and the
//! same for Prometheus Operator.

use crate::step::Step;
use anyhow::{Context, Result, ensure};
use gateway::root;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The file of [`resource`] in a release.
pub const RESOURCE: &str = "deploy/observability/prometheus-rule.yaml";

const FILES: [&str; 2] = ["rules.yaml", "alerts.yaml"];

/// The check as a step of other commands. Prometheus has to be installed.
pub fn step() -> Step {
    Step::check("alerts, by promtool", check, "cargo xtask examples")
}

fn check() -> Result<()> {
    promtool(&[&["check", "rules"], &FILES[..]].concat())?;
    promtool(&["test", "rules", "tests/alerts.yaml"])
}

fn promtool(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(folder());
    let output = command.output().context("cannot run `promtool`: install Prometheus")?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&said).trim());
    Ok(())
}

fn folder() -> PathBuf {
    root().join("deploy/observability")
}

/// Both files as one `PrometheusRule`, which Kustomize cannot make of files that are no resources.
pub fn resource() -> Result<String> {
    let mut text = "# rules.yaml and alerts.yaml as a resource, made by `cargo xtask dist`.\n\
        apiVersion: monitoring.coreos.com/v1\n\
        kind: PrometheusRule\n\
        metadata: {name: diana}\n\
        spec:\n\
        \u{20} groups:\n"
        .to_owned();
    for name in FILES {
        let file = fs::read_to_string(folder().join(name))?;
        let (_, groups) =
            file.split_once("\ngroups:\n").with_context(|| format!("`{name}` has no groups"))?;
        groups.lines().for_each(|line| text.extend(["  ", line, "\n"]));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn the_resource_has_the_groups_of_both_files() {
        let yaml = |text: &str| serde_norway::from_str::<Value>(text).unwrap();
        let files = FILES.map(|name| yaml(&fs::read_to_string(folder().join(name)).unwrap()));
        let groups: Vec<&Value> = files.iter().flat_map(|file| file["groups"].as_array().unwrap()).collect();
        assert!(groups.len() > 1, "{groups:?}");
        let resource = yaml(&resource().unwrap());
        assert_eq!(resource["spec"]["groups"].as_array().unwrap().iter().collect::<Vec<_>>(), groups);
        assert!(!root().join(RESOURCE).exists(), "a clone has no copy");
    }
}
