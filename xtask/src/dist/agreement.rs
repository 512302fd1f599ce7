//! One version: the workspace's, that of its own crates, of the changelog and of the images that
//! files name, and the tag.

use super::read;
use super::source::{Source, git};
use anyhow::{Context, Result, ensure};
use gateway::root;

/// How the images of this project begin.
pub const REGISTRY: &str = "ghcr.io/diana-limiter/";

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How the version of a build between two releases ends.
const DEV: &str = "-dev";

/// The version of the build, unless something disagrees with it: the workspace's, between two
/// releases with the commit.
pub fn check(source: &Source, snapshot: bool) -> Result<String> {
    let released = released()?;
    let mut found: Vec<String> =
        mentions()?.lines().filter(|line| !agrees(line, &released)).map(str::to_owned).collect();
    if !snapshot {
        let changelog = changelog()?;
        let newest = newest(&changelog)?;
        if newest != VERSION {
            found.push(format!("CHANGELOG.md: {newest}"));
        }
        if !source.tags.contains(&format!("v{VERSION}")) {
            found.push(format!("the commit has no tag `v{VERSION}`; `--snapshot` builds it nevertheless"));
        }
        if source.is_dirty {
            found.push("files are not committed; `--snapshot` builds them nevertheless".into());
        }
    }
    ensure!(found.is_empty(), "this is not version {VERSION}:\n  {}", found.join("\n  "));
    Ok(match VERSION.ends_with(DEV) {
        true => format!("{VERSION}+{}", source.short()),
        false => VERSION.into(),
    })
}

fn changelog() -> Result<String> {
    Ok(String::from_utf8(read(&root().join("CHANGELOG.md"))?)?)
}

/// The version whose images exist: the workspace's, or between two releases the one before.
fn released() -> Result<String> {
    if !VERSION.ends_with(DEV) {
        return Ok(VERSION.into());
    }
    let changelog = changelog()?;
    let versions = changelog.split("\n## [").skip(1).filter_map(|rest| rest.split(']').next());
    let newest = versions.filter(|version| *version != "Unreleased").map(str::to_owned).next();
    newest.context("CHANGELOG.md has no version")
}

/// Whatever names the version, each with its file, in lines that end with the version.
fn mentions() -> Result<String> {
    const CRATE: &str = r#"path = "crates/.*version = "[^"]+"#;
    let image = format!("{}[a-z-]+:[A-Za-z0-9._-]+", REGISTRY.replace('.', r"\."));
    // Built On Envoy's manifest has a version of its own.
    let patterns = ["-e", CRATE, "-e", &image, "-e", "^version: .+"];
    git(&[&["grep", "-oE"], &patterns[..], &["--", "Cargo.toml", "deploy", "examples"]].concat())
}

fn agrees(mention: &str, released: &str) -> bool {
    let version = if mention.starts_with("Cargo.toml:") { VERSION } else { released };
    mention.rsplit([':', ' ', '"']).next() == Some(version)
}

/// The version of the newest heading. Above it, "Unreleased" may stand without lines.
fn newest(changelog: &str) -> Result<&str> {
    let rest = changelog.split_once("\n## [").context("CHANGELOG.md has no heading")?.1;
    let rest = match rest.strip_prefix("Unreleased]") {
        Some(rest) => rest.trim_start().strip_prefix("## [").context("\"Unreleased\" has lines")?,
        None => rest,
    };
    Ok(rest.split(']').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_a_changelog_is_found() {
        const LOG: &str =
            "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-01\n\n- One.\n\n## [1.2.2]\n";
        assert_eq!(newest(LOG).unwrap(), "1.2.3");
        assert_eq!(newest(&LOG.replace("[Unreleased]", "[1.3.0] - 2026-02-01")).unwrap(), "1.3.0");
        assert!(newest(&LOG.replace("ed]\n", "ed]\n\n- Two.\n")).is_err());
        assert!(newest("").is_err());
    }

    #[test]
    fn this_tree_agrees_with_itself() {
        let mentions = mentions().unwrap();
        let released = released().unwrap();
        assert!(!released.ends_with(DEV), "{released}");
        assert!(mentions.lines().all(|line| agrees(line, &released)), "{mentions}");
        for file in [
            "Cargo.toml:",
            "deploy/images/diana-envoy.Dockerfile:",
            "deploy/built-on-envoy/manifest.yaml:",
            "deploy/built-on-envoy/wasm.yaml:",
            "examples/kubernetes/native/kustomization.yaml:",
        ] {
            assert!(mentions.contains(file), "{file}");
        }
        assert!(!agrees("Cargo.toml:path = \"crates/base\", version = \"0.0.0", &released));
        assert!(!agrees("a:ghcr.io/diana-limiter/diana:0.0.0", &released));
    }
}
