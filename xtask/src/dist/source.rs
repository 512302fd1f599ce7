//! The commit that a release is built from, as git tells.

use super::folder::{EXECUTABLE, PLAIN};
use super::output;
use anyhow::{Context, Result};
use gateway::root;
use std::process::Command;

/// A commit.
pub struct Source {
    pub commit: String,
    /// The time of the commit, which all files of a release have, in seconds since 1970.
    pub epoch: u64,
    /// The same time by RFC 3339.
    pub date: String,
    /// The tags of this commit.
    pub tags: Vec<String>,
    /// Whether tracked files differ from the commit, or untracked ones exist.
    pub is_dirty: bool,
}

impl Source {
    pub fn read() -> Result<Self> {
        let one = |arguments: &[&str]| Ok::<_, anyhow::Error>(git(arguments)?.trim().to_owned());
        Ok(Self {
            commit: one(&["rev-parse", "HEAD"])?,
            epoch: one(&["log", "-1", "--format=%ct"])?.parse().context("a time of git")?,
            date: one(&["log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"])?,
            tags: one(&["tag", "--points-at", "HEAD"])?.lines().map(str::to_owned).collect(),
            is_dirty: !one(&["status", "--porcelain"])?.is_empty(),
        })
    }

    /// The commit's abbreviation. Git's own one is longer in a larger clone.
    pub fn short(&self) -> &str {
        self.commit.get(..12).unwrap_or(&self.commit)
    }

    /// The tracked files below these folders, with the modes of a release.
    pub fn files(&self, folders: &[&str]) -> Result<Vec<(String, u32)>> {
        let listed = git(&[&["ls-files", "--stage", "-z", "--"], folders].concat())?;
        let entries = listed.split('\0').filter(|entry| !entry.is_empty()).map(|entry| {
            let (stage, file) = entry.split_once('\t').context("an entry of git")?;
            Ok((file.to_owned(), if stage.starts_with("100755") { EXECUTABLE } else { PLAIN }))
        });
        entries.collect()
    }
}

/// What git prints.
pub fn git(arguments: &[&str]) -> Result<String> {
    output(Command::new("git").args(arguments).env("TZ", "UTC").current_dir(root()))
}
