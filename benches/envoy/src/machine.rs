//! Describes the machine of the measurement, in terms that fit any machine.

use anyhow::{Context, Result};
use gateway::envoy;
use std::fs;
use std::process::Command;
use std::thread;

/// The environment that the results depend on.
pub struct Machine {
    /// Processors.
    pub cores: usize,
    /// The kernel's version, without the builder's suffix.
    pub kernel: String,
    /// Envoy's version.
    pub envoy: String,
    /// The commit of the sources, `unknown` outside a repository.
    pub commit: String,
}

impl Machine {
    /// Describes this machine.
    pub fn find() -> Result<Self> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").context("the kernel is not Linux")?;
        let output = Command::new(envoy::find()?).arg("--version").output()?;
        Ok(Self {
            cores: thread::available_parallelism()?.get(),
            kernel: leading_version(&release),
            envoy: envoy_version(&String::from_utf8_lossy(&output.stdout))
                .context("`envoy --version` printed no version")?,
            commit: commit().unwrap_or_else(|| "unknown".to_owned()),
        })
    }
}

fn commit() -> Option<String> {
    let output = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .current_dir(gateway::root())
        .output()
        .ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !commit.is_empty()).then_some(commit)
}

fn leading_version(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_ascii_digit() || *letter == '.').collect()
}

/// Parses `… version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL`.
fn envoy_version(text: &str) -> Option<String> {
    text.split("version:").nth(1)?.trim().split('/').nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found() {
        assert_eq!(leading_version("6.12.3-1-amd64\n"), "6.12.3");
        let text = "\nenvoy  version: 1f2e/1.40.0/Clean/RELEASE/BoringSSL\n\n";
        assert_eq!(envoy_version(text).as_deref(), Some("1.40.0"));
    }
}
