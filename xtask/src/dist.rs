//! `cargo xtask dist`: the folder of a release, the same bytes from every clone of a commit.
//!
//! | file | what it makes |
//! | --- | --- |
//! | `source.rs` | the commit that is built |
//! | `agreement.rs` | one version in the manifests, the changelog, the images and the tag |
//! | `binaries.rs` | the native module and the command, by zig |
//! | `folder.rs` | files with fixed modes and times, and their checksums |
//! | `linked.rs` | which crates and libraries a file links |
//! | `sbom.rs`, `licences.rs` | that list in CycloneDX, and the texts of the licences |
//! | `image.rs` | OCI images |
//! | `provenance.rs` | what the files were built from |
//! | `check.rs`, `readers.rs` | the release, read by other people's tools and by their rules |

mod agreement;
mod binaries;
mod check;
mod folder;
mod image;
mod licences;
mod linked;
mod provenance;
mod readers;
mod sbom;
mod source;

use crate::programs;
use anyhow::{Context, Result, ensure};
use binaries::Binary;
use folder::{EXECUTABLE, Folder, PLAIN};
use gateway::filter::{self, ARTEFACTS};
use gateway::{root, target};
use linked::Linked;
use source::Source;
use std::fs;
use std::path::Path;

/// The options of the command.
#[derive(clap::Args)]
pub struct Options {
    /// Allow a commit without a tag, and changed files; the folder's name says so
    #[arg(long)]
    snapshot: bool,
    /// Fail if an architecture cannot be built, in place of leaving it out
    #[arg(long)]
    require_all: bool,
    /// Read the finished release with skopeo, umoci, hadolint and a real Envoy
    #[arg(long)]
    check: bool,
    /// Who builds, for the provenance statement
    #[arg(long, value_name = "URI", default_value = "https://github.com/diana-limiter/diana#by-hand")]
    builder: String,
}

/// Makes the release below `target/dist/`.
pub fn run(options: &Options) -> Result<()> {
    let source = Source::read()?;
    let version = agreement::check(&source, options.snapshot)?;
    let name = if options.snapshot {
        format!("{version}-snapshot+{}{}", source.short(), if source.is_dirty { ".changed" } else { "" })
    } else {
        version.clone()
    };
    programs::install_fetchers()?;
    filter::build()?;
    let binaries = binaries::build(&source, options.require_all)?;
    let folder = Folder::create(&target().join("dist").join(format!("diana-{name}")))?;
    for artefact in &ARTEFACTS {
        folder.copy(&target().join(artefact.name), artefact.name, PLAIN)?;
    }
    for binary in &binaries {
        let mode = if binary.is_command { EXECUTABLE } else { PLAIN };
        folder.write(&binary.place, &binary.bytes, mode)?;
    }
    documents(&folder, &source)?;
    folder.write("README.md", readme(&version, &source, &binaries).as_bytes(), PLAIN)?;
    let linked = lists(&folder, &version, &source, &binaries)?;
    folder.write("licences/THIRD-PARTY.txt", licences::text(&linked)?.as_bytes(), PLAIN)?;
    for image in image::images(&folder, &binaries)? {
        image.write(&folder, &version, &source)?;
    }
    let statement = provenance::statement(&folder, &name, &source, &options.builder)?;
    folder.write("provenance.intoto.json", statement.as_bytes(), PLAIN)?;
    folder.finish(source.time)?;
    println!("{}", folder.path().display());
    if options.check {
        check::run(&folder, &version)?;
    }
    Ok(())
}

/// Copies what the repository has for users: the schema, examples, and all of `deploy/`. The filter
/// lies in this folder, so configurations and commands name it there and not in `target/`.
fn documents(folder: &Folder, source: &Source) -> Result<()> {
    const FILES: [(&str, &str); 5] = [
        ("LICENSE", "LICENSE"),
        ("CHANGELOG.md", "CHANGELOG.md"),
        ("docs/schema/diana.schema.json", "diana.schema.json"),
        ("envoy.yaml", "envoy.yaml"),
        ("envoy-native.yaml", "envoy-native.yaml"),
    ];
    let copy = |from: &str, to: &str, mode| folder.write(to, &moved(read(&root().join(from))?), mode);
    for (from, to) in FILES {
        copy(from, to, PLAIN)?;
    }
    for (file, mode) in source.files(&["examples", "deploy"])? {
        // A crate of the workspace, which does not build without the rest of it.
        if !file.starts_with("examples/embed-in-sdk-filter/") {
            copy(&file, &file, mode)?;
        }
    }
    Ok(())
}

/// A text with the places that files have in a release.
fn moved(file: Vec<u8>) -> Vec<u8> {
    match String::from_utf8(file) {
        Ok(text) => text
            .replace("cargo xtask build && ", "")
            .replace("MODULES_SEARCH_PATH=target ", "MODULES_SEARCH_PATH=linux-amd64 ")
            .replace("target/diana", "diana")
            .replace("target/second.yaml", "second.yaml")
            .into_bytes(),
        Err(other) => other.into_bytes(),
    }
}

/// Writes the bill of materials of each file, and returns all that is linked.
fn lists(folder: &Folder, version: &str, source: &Source, binaries: &[Binary]) -> Result<Vec<Linked>> {
    let filter = ARTEFACTS.iter().map(|one| (one.name.to_owned(), "diana", filter::TARGET));
    let native = binaries.iter().map(|one| (one.place.clone(), one.package, one.target));
    let mut all: Vec<Linked> = Vec::new();
    for (file, package, target) in filter.chain(native) {
        let linked = Linked::of(package, target)?;
        let bytes = fs::read(folder.path().join(&file))?;
        let list = sbom::cyclone_dx(&file, &bytes, version, source, &linked)?;
        folder.write(&format!("sbom/{}.cdx.json", file.replace('/', "-")), list.as_bytes(), PLAIN)?;
        all.push(linked);
    }
    Ok(all)
}

/// The page that explains the folder.
fn readme(version: &str, source: &Source, binaries: &[Binary]) -> String {
    let mut rows = String::new();
    for binary in binaries {
        rows.push_str(&format!("| `{}` | {} |\n", binary.place, binary.what));
    }
    for architecture in binaries::missing(binaries) {
        rows.push_str(&format!("| `linux-{architecture}/` | not in this release |\n"));
    }
    include_str!("dist/README.md")
        .replace("{VERSION}", version)
        .replace("{COMMIT}", &source.commit)
        .replace("{BINARIES}\n", &rows)
}

/// Reads a file, and names it if that fails.
fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// Runs a program and returns what it prints.
fn output(command: &mut std::process::Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run `{program}`: install it"))?;
    let said = [&output.stdout[..], &output.stderr].concat();
    ensure!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&said).trim());
    String::from_utf8(output.stdout).with_context(|| format!("`{program}` prints no text"))
}
