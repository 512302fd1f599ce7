//! The native module and the command `diana`, for each architecture.
//!
//! zig brings the C library of every Linux. Its linker takes the symbols of an old glibc, so the
//! module runs in old distributions; for the command, it brings musl.

use super::read;
use super::source::Source;
use crate::build;
use crate::tool::Tool;
use anyhow::{Context, Result, bail, ensure};
use gateway::wheel::{self, Wheel};
use gateway::{filter, root, target};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, elf};
use std::path::PathBuf;
use std::process::Command;

/// The oldest glibc 2 for which Rust's own standard library is built, by its minor number.
pub const GLIBC: u32 = 17;

const ZIGBUILD: Tool = Tool {
    package: "cargo-zigbuild",
    program: "cargo-zigbuild",
    version: "0.24.1",
    wheel: Some(Wheel {
        package: "cargo-zigbuild",
        version: "0.24.1",
        wheel: "238a1ab54a95053a4eadc34775c81f795a8ad75f80bfed63f3f445f518102375",
        path: "cargo_zigbuild-0.24.1.data/scripts/cargo-zigbuild",
        program: "369cae90c44059bbf5483996b901440e6b2f219817177cc80a25142b3c5b3b20",
    }),
};

/// The compiler, with its C libraries beside it.
pub const ZIG: Wheel = Wheel {
    package: "ziglang",
    version: "0.17.0",
    wheel: "97079827064a7492cce5541ceb438ae8003ce1e54e399676da2d62fb7a5dc08b",
    path: "ziglang/zig",
    program: "7c61539af19fa4082c94848f1c2b57b89e76dc6cfd5bd4c57764c3caf8f82272",
};

/// A file that is built for an architecture.
pub struct Binary {
    /// The architecture, as images call it.
    pub architecture: &'static str,
    /// Its place in the release.
    pub place: String,
    /// What the release's page says of it.
    pub what: String,
    pub bytes: Vec<u8>,
    /// The package and the target that it is built from and for.
    pub package: &'static str,
    pub target: &'static str,
    /// Whether this is the command, and not the module.
    pub is_command: bool,
}

/// An architecture, as images call it, and the targets of the module and the command.
struct Architecture {
    name: &'static str,
    module: &'static str,
    command: &'static str,
}

const ARCHITECTURES: [Architecture; 2] = [
    Architecture { name: "amd64", module: "x86_64-unknown-linux-gnu", command: "x86_64-unknown-linux-musl" },
    Architecture {
        name: "arm64",
        module: "aarch64-unknown-linux-gnu",
        command: "aarch64-unknown-linux-musl",
    },
];

/// The architectures that these files leave out.
pub fn missing(binaries: &[Binary]) -> impl Iterator<Item = &'static str> {
    let is_built = |name| binaries.iter().any(|binary| binary.architecture == name);
    ARCHITECTURES.iter().map(|one| one.name).filter(move |name| !is_built(*name))
}

/// The folder of zig, which is installed if it is missing.
pub fn zig() -> Result<PathBuf> {
    let folder = target().join("tools").join(format!("ziglang-{}", ZIG.version)).join("ziglang");
    if !folder.exists() {
        ensure!(wheel::fits(), "a release is built on Linux on x86-64");
        println!("fetching zig {} from the Python package index (100 MB, once)", ZIG.version);
        ZIG.install_folder(&folder)?;
    }
    Ok(folder)
}

/// Builds both files for each architecture whose targets the toolchain has. The command adds none:
/// other work shares the toolchain.
pub fn build(source: &Source, require_all: bool) -> Result<Vec<Binary>> {
    let mut built = Vec::new();
    for Architecture { name, module, command } in &ARCHITECTURES {
        if !(filter::has_target(module)? && filter::has_target(command)?) {
            let add = format!("linux-{name} needs `rustup target add {module} {command}`");
            ensure!(!require_all, "{add}");
            println!("left out: {add}");
            continue;
        }
        // `check.rs` runs files of this machine's architecture.
        let tested = if *name == "amd64" { "" } else { "; compiled, but not run by the tests" };
        let glibc = format!("{module}.2.{GLIBC}");
        let bytes = compile(source, &glibc, "module", "diana-envoy-module", "libdiana_envoy_module.so")?;
        check_module(&bytes)?;
        built.push(Binary {
            architecture: name,
            place: format!("linux-{name}/{}", filter::MODULE),
            what: format!("the native module for Envoy, which needs glibc 2.{GLIBC} or later{tested}"),
            bytes,
            package: "diana-envoy-module",
            target: module,
            is_command: false,
        });
        let bytes = compile(source, command, "release", "diana-cli", "diana")?;
        check_command(&bytes)?;
        built.push(Binary {
            architecture: name,
            place: format!("linux-{name}/diana"),
            what: format!("the command, linked statically with musl: it needs no other file{tested}"),
            bytes,
            package: "diana-cli",
            target: command,
            is_command: true,
        });
    }
    Ok(built)
}

/// Compiles a package for a target, which may end with a version of glibc, and returns this file.
fn compile(source: &Source, target: &str, profile: &str, package: &str, file: &str) -> Result<Vec<u8>> {
    // A folder of its own: builds for development have other flags.
    let folder = gateway::target().join("dist-build");
    let command = ["zigbuild", "--quiet", "--locked", "--profile", profile, "--package", package];
    let zig = zig()?;
    let remapped = remapped()?;
    let flags: Vec<String> =
        remapped.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect();
    let for_c = |(from, to): &(PathBuf, &str)| format!("-ffile-prefix-map={}={to}", from.display());
    let status = Command::new(ZIGBUILD.installed()?)
        .args(command)
        .args(["--target", target, "--target-dir"])
        .arg(&folder)
        .env("CARGO_ZIGBUILD_ZIG_PATH", zig.join("zig"))
        .env("ZIG_GLOBAL_CACHE_DIR", folder.join("zig-cache"))
        .env("ZIG_LOCAL_CACHE_DIR", folder.join("zig-cache"))
        .env("CARGO_ZIGBUILD_CACHE_DIR", folder.join("zigbuild-cache"))
        // These win over flags of the machine's own configuration.
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .env("CFLAGS", remapped.iter().map(for_c).collect::<Vec<_>>().join(" "))
        .env("SOURCE_DATE_EPOCH", source.epoch.to_string())
        .current_dir(root())
        .status()
        .context("cannot run cargo-zigbuild")?;
    ensure!(status.success(), "`{package}` does not build for {target}");
    let target = target.split(".2.").next().unwrap_or(target);
    let bytes = read(&folder.join(target).join(profile).join(file))?;
    for (private, _) in remapped {
        let path = private.to_string_lossy();
        ensure!(!contains(&bytes, path.as_bytes()), "`{file}` names `{path}`, a folder of this machine");
    }
    Ok(bytes)
}

/// Folders of this machine, and what stands for them in the files.
fn remapped() -> Result<Vec<(PathBuf, &'static str)>> {
    let mut all: Vec<(PathBuf, &str)> =
        filter::source_folders()?.into_iter().map(|folder| (folder, "/")).collect();
    all.push((root().to_owned(), "/diana"));
    Ok(all)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && bytes.windows(part.len()).any(|window| window == part)
}

/// Checks that the module runs with the promised glibc.
fn check_module(bytes: &[u8]) -> Result<()> {
    let minor = build::glibc(bytes).context("the native module names no version of glibc")?;
    ensure!(minor <= GLIBC, "the native module needs glibc 2.{minor}, not 2.{GLIBC}");
    for library in needed(bytes)?.libraries {
        let is_of_glibc =
            ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"].contains(&library.as_str());
        ensure!(is_of_glibc || library.starts_with("ld-linux-"), "the native module needs `{library}`");
    }
    Ok(())
}

/// Checks that the command needs no file of the machine it runs on.
fn check_command(bytes: &[u8]) -> Result<()> {
    let Needed { interpreter, libraries } = needed(bytes)?;
    ensure!(!interpreter, "the command needs a dynamic linker");
    ensure!(libraries.is_empty(), "the command needs {}", libraries.join(", "));
    Ok(())
}

/// What a file needs of the machine it runs on.
struct Needed {
    /// A program that starts it.
    interpreter: bool,
    /// Shared objects.
    libraries: Vec<String>,
}

fn needed(bytes: &[u8]) -> Result<Needed> {
    let header = elf::FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, bytes)?;
    let interpreter = segments.iter().any(|segment| segment.p_type(endian) == elf::PT_INTERP);
    let sections = header.sections(endian, bytes)?;
    let mut libraries = Vec::new();
    if let Some((entries, strings)) = sections.dynamic(endian, bytes)? {
        let strings = sections.strings(endian, bytes, strings)?;
        for entry in entries.iter().filter(|entry| entry.d_tag(endian) == elf::DT_NEEDED) {
            let name = entry.string(endian, strings)?;
            libraries.push(String::from_utf8_lossy(name).into_owned());
        }
    } else if segments.iter().any(|segment| segment.p_type(endian) == elf::PT_DYNAMIC) {
        bail!("a dynamic segment without its section");
    }
    Ok(Needed { interpreter, libraries })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test's own program is linked dynamically.
    #[test]
    fn a_program_with_a_linker_is_not_static() {
        let bytes = read(&std::env::current_exe().unwrap()).unwrap();
        assert!(needed(&bytes).unwrap().libraries.contains(&"libc.so.6".into()));
        let error = check_command(&bytes).unwrap_err().to_string();
        assert_eq!(error, "the command needs a dynamic linker");
    }

    #[test]
    fn the_page_names_the_version_of_glibc() {
        let page = include_str!("../../../docs/guide.md");
        assert!(page.contains(&format!("glibc 2.{GLIBC} or later")));
    }
}
