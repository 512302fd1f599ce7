//! One version: the manifests, the changelog, the images that files name, and the tag agree.

use super::source::Source;
use super::{folder, output, read};
use anyhow::{Context, Result, bail, ensure};
use gateway::{filter, root};
use serde_json::Value;

/// How the images of this project begin.
pub const IMAGES: &str = "ghcr.io/diana-limiter/";

/// Whatever names a version.
#[derive(Default)]
struct Named {
    /// The version of the root package.
    version: String,
    /// The place of each other mention in the tree, and the version there.
    mentions: Vec<(String, String)>,
    changelog: String,
    tags: Vec<String>,
    is_dirty: bool,
}

/// The version of the workspace, unless something disagrees with it.
pub fn check(source: &Source, snapshot: bool) -> Result<String> {
    let named = Named { tags: source.tags.clone(), is_dirty: source.is_dirty, ..Named::read()? };
    let found = named.disagreements(snapshot);
    ensure!(found.is_empty(), "this is not version {}:\n  {}", named.version, found.join("\n  "));
    Ok(named.version)
}

impl Named {
    /// What the tree says; git is not asked.
    fn read() -> Result<Self> {
        let metadata = output(filter::cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
        let metadata: Value = serde_json::from_str(&metadata)?;
        let mut named =
            Self { changelog: String::from_utf8(read(&root().join("CHANGELOG.md"))?)?, ..Self::default() };
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (name, version) = (text(&package["name"]), text(&package["version"]));
            if name == "diana" {
                named.version.clone_from(&version);
            }
            for needed in package["dependencies"].as_array().into_iter().flatten() {
                // A requirement of another crate of this workspace. Those of tests have no version.
                if let Some(required) = text(&needed["req"]).strip_prefix('^')
                    && needed["path"].is_string()
                {
                    let place = format!("`{name}` needs `{}`", text(&needed["name"]));
                    named.mentions.push((place, required.to_owned()));
                }
            }
            named.mentions.push((format!("the manifest of `{name}`"), version));
        }
        ensure!(!named.version.is_empty(), "the workspace has no package `diana`");
        for place in ["deploy", "examples"] {
            for file in folder::files(&root().join(place))? {
                let file = format!("{place}/{file}");
                let bytes = read(&root().join(&file))?;
                let text = String::from_utf8_lossy(&bytes);
                // Of Built On Envoy's manifest.
                let own = text.lines().filter_map(|line| line.strip_prefix("version: "));
                let own = own.filter(|_| file.ends_with("/manifest.yaml"));
                named.mentions.extend(tags(&text).chain(own).map(|found| (file.clone(), found.to_owned())));
            }
        }
        Ok(named)
    }

    fn disagreements(&self, snapshot: bool) -> Vec<String> {
        let Self { version, mentions, changelog, tags, is_dirty } = self;
        let others = mentions.iter().filter(|(_, named)| named != version);
        let mut found: Vec<String> = others.map(|(place, named)| format!("{place} has {named}")).collect();
        if snapshot {
            return found;
        }
        if let Err(error) = newest(changelog, version) {
            found.push(format!("CHANGELOG.md: {error}"));
        }
        if !tags.contains(&format!("v{version}")) {
            found.push(format!("the commit has no tag `v{version}`; `--snapshot` builds it nevertheless"));
        }
        if *is_dirty {
            found.push("files are not committed; `--snapshot` builds them nevertheless".into());
        }
        found
    }
}

/// Whether this version is the newest heading. Above it, "Unreleased" may stand without lines.
fn newest(changelog: &str, version: &str) -> Result<()> {
    let mut sections = changelog.split("\n## [").skip(1).map(|section| {
        let (heading, lines) = section.split_once(']')?;
        Some((heading, lines.split_once('\n').map_or("", |(_, lines)| lines.trim())))
    });
    let mut first = sections.next().flatten().context("it has no heading")?;
    if first.0 == "Unreleased" {
        ensure!(first.1.is_empty(), "\"Unreleased\" has lines; they belong under [{version}]");
        first = sections.next().flatten().context("it has no version")?;
    }
    if first.0 != version {
        bail!("the newest version is {}", first.0);
    }
    Ok(())
}

/// The tags of this project's images in a text.
fn tags(text: &str) -> impl Iterator<Item = &str> {
    let is_end = |letter: char| !(letter.is_ascii_alphanumeric() || "._-".contains(letter));
    text.split(IMAGES).skip(1).filter_map(move |rest| {
        let (name, rest) = rest.split_once(':')?;
        let tag = rest.split(is_end).next().unwrap_or_default();
        (!name.contains(is_end) && !tag.is_empty()).then_some(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str =
        "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-01\n\n- One.\n\n## [1.2.2] - 2025\n";

    type Change = fn(&mut Named);

    fn agreeing() -> Named {
        Named {
            version: "1.2.3".into(),
            mentions: vec![("a".into(), "1.2.3".into())],
            changelog: LOG.into(),
            tags: vec!["v1.2.3".into()],
            is_dirty: false,
        }
    }

    #[test]
    fn each_disagreement_is_found_alone() {
        assert!(agreeing().disagreements(false).is_empty());
        let found = |change: Change| {
            let mut named = agreeing();
            change(&mut named);
            (named.disagreements(false).join("\n"), named.disagreements(true).join("\n"))
        };
        let (release, snapshot) = found(|named| named.mentions.push(("deploy/x".into(), "1.2.2".into())));
        assert_eq!((release.as_str(), snapshot.as_str()), ("deploy/x has 1.2.2", "deploy/x has 1.2.2"));
        let only_of_releases: [(Change, &str); 5] = [
            (|named| named.tags = vec!["1.2.3".into(), "v1.2.30".into()], "no tag `v1.2.3`"),
            (|named| named.is_dirty = true, "not committed"),
            (|named| named.changelog = LOG.replace("1.2.3]", "1.2.4]"), "the newest version is 1.2.4"),
            (|named| named.changelog = LOG.replace("ed]\n", "ed]\n\n- Two.\n"), "\"Unreleased\" has lines"),
            (|named| named.changelog.clear(), "no heading"),
        ];
        for (change, expected) in only_of_releases {
            let (release, snapshot) = found(change);
            assert!(release.contains(expected) && !release.contains('\n'), "{release}");
            assert_eq!(snapshot, "");
        }
    }

    #[test]
    fn tags_of_this_projects_images_are_found() {
        let text = "FROM envoyproxy/envoy:v1.40\nCOPY --from=ghcr.io/diana-limiter/diana-module:1.2.3 /x\n\
            image: \"ghcr.io/diana-limiter/diana:v2\"\nsee ghcr.io/diana-limiter/diana and: 7";
        assert_eq!(tags(text).collect::<Vec<_>>(), ["1.2.3", "v2"]);
    }

    #[test]
    fn this_tree_agrees_with_itself() {
        let named = Named::read().unwrap();
        assert_eq!(named.disagreements(true), [""; 0]);
        assert_eq!(named.version, env!("CARGO_PKG_VERSION"));
        for file in [
            "deploy/images/diana-envoy.Dockerfile",
            "deploy/built-on-envoy/manifest.yaml",
            "examples/kubernetes/native/kustomization.yaml",
        ] {
            assert!(named.mentions.iter().any(|(place, _)| place == file), "{file}");
        }
    }
}
