//! What a file links: crates as cargo resolves them for the file's target, the standard library,
//! and what zig adds.

use super::binaries::{self, ZIG};
use super::{output, read};
use anyhow::{Context, Result};
use gateway::{filter, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A crate or a library.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub licence: String,
    pub origin: Origin,
    /// Folders and files with the texts of its licences.
    pub texts: Vec<PathBuf>,
}

/// Where a part comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A crate of this repository.
    Workspace,
    /// crates.io, with the SHA-256 of the package.
    Registry { sha256: String },
    /// The toolchain of Rust, or zig.
    Toolchain,
}

/// What one file links.
pub struct Linked {
    /// The package of the file.
    pub root: usize,
    pub parts: Vec<Part>,
    /// For each part, the parts that it needs.
    pub edges: Vec<BTreeSet<usize>>,
}

impl Linked {
    /// What the library or the command of this package links for this target.
    pub fn of(package: &str, target: &str) -> Result<Self> {
        let cargo = |words: &[&str]| output(filter::cargo().args(words));
        let tree = cargo(&[
            "tree",
            "--locked",
            "--package",
            package,
            "--target",
            target,
            "--edges",
            "normal,no-proc-macro",
            "--prefix",
            "depth",
        ])?;
        let metadata =
            cargo(&["metadata", "--locked", "--format-version", "1", "--filter-platform", target])?;
        let lock = String::from_utf8(read(&root().join("Cargo.lock"))?)?;
        let known = known(&serde_json::from_str(&metadata)?, &checksums(&lock));
        let mut linked = parse(&tree, &known)?;
        linked.add_toolchain(target)?;
        Ok(linked)
    }

    /// Adds what every file for this target links beside crates.
    fn add_toolchain(&mut self, target: &str) -> Result<()> {
        let rustc = filter::rustc(&["--version"])?;
        let version = rustc.split(' ').nth(1).context("rustc has no version")?.to_owned();
        let texts = PathBuf::from(filter::rustc(&["--print", "sysroot"])?).join("share/doc/rust");
        let zig = binaries::zig()?.join("lib");
        let part = |name: &str, version: &str, licence: &str, texts: Vec<PathBuf>| Part {
            name: name.into(),
            version: version.into(),
            licence: licence.into(),
            origin: Origin::Toolchain,
            texts,
        };
        let standard = texts.join("COPYRIGHT-library.html");
        let mut added = vec![part("rust-std", &version, "MIT OR Apache-2.0", vec![standard])];
        if target.contains("-linux-") {
            let licence = zig.join("libunwind/LICENSE.TXT");
            let unwind = "Apache-2.0 WITH LLVM-exception";
            added.push(part("libunwind-of-zig", ZIG.version, unwind, vec![licence]));
        }
        if target.ends_with("-musl") {
            added.push(part("musl-of-zig", ZIG.version, "MIT", vec![zig.join("libc/musl/COPYRIGHT")]));
        }
        for part in added {
            self.edges[self.root].insert(self.parts.len());
            self.parts.push(part);
            self.edges.push(BTreeSet::new());
        }
        Ok(())
    }
}

/// The SHA-256 of each package in a Cargo.lock, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]\n").skip(1);
    let entry =
        |package| Some(((value(package, "name")?, value(package, "version")?), value(package, "checksum")?));
    packages.filter_map(entry).collect()
}

/// All packages, by name and version.
fn known(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
) -> BTreeMap<(String, String), Part> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let part = |package: &Value| {
        let key = (text(&package["name"]), text(&package["version"]));
        let mut folder = PathBuf::from(text(&package["manifest_path"]));
        folder.pop();
        let (origin, texts) = match checksums.get(&key) {
            Some(sha256) => (Origin::Registry { sha256: sha256.clone() }, vec![folder]),
            None => (Origin::Workspace, Vec::new()),
        };
        // Old manifests have a slash for `OR`.
        let licence = text(&package["license"]).replace('/', " OR ");
        (key.clone(), Part { name: key.0, version: key.1, licence, origin, texts })
    };
    packages.map(part).collect()
}

/// Reads the lines of `cargo tree`, each of which begins with its depth.
fn parse(tree: &str, known: &BTreeMap<(String, String), Part>) -> Result<Linked> {
    let mut indices: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut linked = Linked { root: 0, parts: Vec::new(), edges: Vec::new() };
    // The part of each depth above the present line.
    let mut above: Vec<usize> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let words = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let depth: usize = line[..line.len() - words.len()].parse().context("a line without a depth")?;
        let mut words = words.split(' ');
        let name = words.next().unwrap_or_default().to_owned();
        let version = words.next().unwrap_or_default().trim_start_matches('v').to_owned();
        let key = (name, version);
        let part = known.get(&key).with_context(|| format!("cargo does not know {key:?}"))?;
        let index = *indices.entry(key).or_insert_with(|| {
            linked.parts.push(part.clone());
            linked.edges.push(BTreeSet::new());
            linked.parts.len() - 1
        });
        above.truncate(depth);
        if let Some(parent) = above.last() {
            linked.edges[*parent].insert(index);
        }
        above.push(index);
    }
    Ok(linked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_tree_of_cargo_becomes_parts_and_edges() {
        let lock = "[[package]]\nname = \"b\"\nversion = \"2.0.0\"\nchecksum = \"beef\"\n\
            [[package]]\nname = \"c\"\nversion = \"3.0.0+x\"\nchecksum = \"cafe\"\n\
            [[package]]\nname = \"a\"\nversion = \"1.0.0\"\n";
        let package = |name: &str, version: &str, license: &str| json!({"name": name, "version": version, "license": license, "manifest_path": format!("/{name}/Cargo.toml")});
        let metadata = json!({"packages": [
            package("a", "1.0.0", "Apache-2.0"), package("b", "2.0.0", "MIT/Apache-2.0"), package("c", "3.0.0+x", "MIT"),
        ]});
        let known = known(&metadata, &checksums(lock));
        let tree = "0a v1.0.0 (/somewhere/a)\n1b v2.0.0\n2c v3.0.0+x\n1c v3.0.0+x (*)\n";
        let linked = parse(tree, &known).unwrap();
        let names: Vec<_> = linked.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(linked.edges, [[1, 2].into(), [2].into(), BTreeSet::new()]);
        assert_eq!(linked.parts[0].origin, Origin::Workspace);
        assert_eq!(linked.parts[1].origin, Origin::Registry { sha256: "beef".into() });
        assert_eq!(linked.parts[1].licence, "MIT OR Apache-2.0");
        assert_eq!(linked.parts[2].texts, [PathBuf::from("/c")]);
        assert!(parse("0d v1.0.0", &known).is_err());
    }
}
