//! `cargo xtask dist`: the folder of a release, the same bytes from every clone of a commit.
//!
//! | file | what it makes |
//! | --- | --- |
//! | `source.rs` | the commit that is built |
//! | `agreement.rs` | one version in the manifests, the changelog, the images and the tag |
//! | `binaries.rs` | the native module and the command, by zig |
//! | `folder.rs` | files with fixed modes and times, and their checksums |
//! | `lists.rs` | bills of materials, and the texts of licences |
//! | `image.rs` | OCI images |
//! | `provenance.rs` | what the files were built from |
//! | `check.rs` | the release, read by other people's tools |

mod agreement;
mod binaries;
mod check;
pub mod folder;
pub mod image;
mod lists;
mod provenance;
mod source;

use crate::{alerts, playground, programs};
use anyhow::{Context, Result, ensure};
use folder::{EXECUTABLE, Folder, PLAIN};
use gateway::filter;
use gateway::{root, target};
use source::Source;
use std::fs;
use std::path::Path;

/// The options of the command.
#[derive(clap::Args)]
pub struct Options {
    /// Allow a commit without a tag, and changed files; the folder's name says so
    #[arg(long)]
    snapshot: bool,
    /// Read the finished release with skopeo and a real Envoy
    #[arg(long)]
    check: bool,
    /// Who builds, for the provenance statement
    #[arg(long, value_name = "URI", default_value = "https://github.com/diana-limiter/diana#by-hand")]
    builder: String,
}

/// A file that is built, the folder of its package, and the target that it is built for.
struct File {
    place: &'static str,
    package: &'static str,
    target: &'static str,
}

const FILES: [File; 7] = [
    File { place: "diana.wasm", package: ".", target: filter::TARGET },
    File { place: "diana-nginx.wasm", package: ".", target: filter::TARGET },
    File { place: playground::FILE, package: "cli/playground", target: filter::TARGET },
    File { place: "linux-amd64/libdiana.so", package: "envoy-module", target: "x86_64-unknown-linux-gnu" },
    File { place: "linux-amd64/diana", package: "cli", target: "x86_64-unknown-linux-musl" },
    File { place: "linux-arm64/libdiana.so", package: "envoy-module", target: "aarch64-unknown-linux-gnu" },
    File { place: "linux-arm64/diana", package: "cli", target: "aarch64-unknown-linux-musl" },
];

impl File {
    fn is_command(&self) -> bool {
        self.package == "cli"
    }
}

/// Makes the release below `target/dist/`.
pub fn run(options: &Options) -> Result<()> {
    let source = Source::read()?;
    let version = agreement::check(&source, options.snapshot)?;
    let is_named_by_commit = version.contains('+');
    let commit = match options.snapshot && !is_named_by_commit {
        true => format!("-snapshot+{}", source.short()),
        false => String::new(),
    };
    let name = format!("{version}{commit}{}", if source.is_dirty { ".changed" } else { "" });
    programs::install_fetchers()?;
    filter::build()?;
    playground::build()?;
    let folder = Folder::create(&target().join("dist").join(format!("diana-{name}")))?;
    for file in &FILES {
        let bytes = match file.target {
            filter::TARGET => read(&target().join(file.place))?,
            _ => binaries::build(file, &source)?,
        };
        folder.write(file.place, &bytes, if file.is_command() { EXECUTABLE } else { PLAIN })?;
    }
    let images = image::write(&folder, &version, &source)?;
    documents(&folder, &source, &images)?;
    let page =
        include_str!("dist/README.md").replace("{TAG}", &image::tag(&version)).replace("{VERSION}", &version);
    folder.write("README.md", page.replace("{COMMIT}", &source.commit).as_bytes(), PLAIN)?;
    lists::bills(&folder, &source)?;
    folder.write("licences/THIRD-PARTY.txt", lists::licences()?.as_bytes(), PLAIN)?;
    let statement = provenance::statement(&folder, &name, &source, &options.builder)?;
    folder.write("provenance.intoto.json", statement.as_bytes(), PLAIN)?;
    folder.finish(source.epoch)?;
    println!("{}", folder.path().display());
    if options.check {
        check::run(&folder, &version)?;
    }
    Ok(())
}

/// Copies what the repository has for users: the schema, examples, and all of `deploy/`. The filter
/// lies in this folder, so configurations and commands name it there and not in `target/`, and name
/// these images by their digests.
fn documents(folder: &Folder, source: &Source, images: &[(&str, String)]) -> Result<()> {
    const FILES: [(&str, &str); 6] = [
        ("LICENSE", "LICENSE"),
        ("CHANGELOG.md", "CHANGELOG.md"),
        ("llms.txt", "llms.txt"),
        ("docs/schema/diana.schema.json", "diana.schema.json"),
        ("envoy.yaml", "envoy.yaml"),
        ("envoy-native.yaml", "envoy-native.yaml"),
    ];
    let copy = |from: &str, to: &str, mode| {
        let bytes = match String::from_utf8(read(&root().join(from))?) {
            Ok(text) => image::pinned(&linked(&moved(&text), &source.commit), images).into_bytes(),
            Err(other) => other.into_bytes(),
        };
        folder.write(to, &bytes, mode)
    };
    for (from, to) in FILES {
        copy(from, to, PLAIN)?;
    }
    for (file, mode) in source.files(&["examples", "deploy"])? {
        // A crate of the workspace, which does not build without the rest of it.
        if !file.starts_with("examples/embed-in-sdk-filter/") {
            copy(&file, &file, mode)?;
        }
    }
    folder.write(alerts::RESOURCE, alerts::resource()?.as_bytes(), PLAIN)
}

/// A text with the places that files have in a release.
fn moved(text: &str) -> String {
    text.replace("cargo xtask build && ", "")
        .replace("MODULES_SEARCH_PATH=target ", "MODULES_SEARCH_PATH=linux-amd64 ")
        .replace("target/diana", "diana")
        .replace("target/libdiana", "linux-amd64/libdiana")
        .replace("target/second.yaml", "second.yaml")
}

/// A text whose links to pages, which a release lacks, lead to the repository.
fn linked(text: &str, commit: &str) -> String {
    let pages = format!("](https://github.com/diana-limiter/diana/blob/{commit}/docs/");
    text.replace("](../../docs/", &pages).replace("](docs/", &pages)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_release_lead_somewhere() {
        let source = Source::read().unwrap();
        let files = source.files(&["CHANGELOG.md", "examples", "deploy"]).unwrap();
        for (file, _) in files.iter().filter(|(file, _)| file.ends_with(".md")) {
            let folder = root().join(file).parent().unwrap().to_path_buf();
            let text = linked(&fs::read_to_string(root().join(file)).unwrap(), "COMMIT");
            for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
                if target.is_empty() || target.starts_with("http") {
                    continue;
                }
                let place = folder.join(target).canonicalize();
                let place = place.unwrap_or_else(|_| panic!("{file}: {target}"));
                let place = place.strip_prefix(root().canonicalize().unwrap()).unwrap();
                let is_there = ["examples", "deploy", "envoy.yaml", "envoy-native.yaml"];
                assert!(is_there.iter().any(|part| place.starts_with(part)), "{file}: {target}");
            }
        }
        assert!(linked("[a](docs/b.md)", "1").contains("diana/blob/1/docs/b.md"));
    }

    #[test]
    fn compose_finds_the_files_of_a_release() {
        for file in ["compose.yaml", "run"] {
            let text = fs::read_to_string(root().join("examples/docker-compose").join(file)).unwrap();
            let text = moved(&text);
            assert!(!text.contains("target/"), "{file}");
            for built in ["../../diana.wasm", "../../linux-amd64/libdiana.so"] {
                assert!(text.contains(built), "{file}: {built}");
            }
        }
    }
}
