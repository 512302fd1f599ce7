//! The native module and the command `diana`, for each architecture.
//!
//! zig brings the C library of every Linux. Its linker takes the symbols of an old glibc, so the
//! module runs in old distributions; for the command, it brings musl.

use super::source::Source;
use super::{File, output, read};
use crate::build;
use crate::tool::Tool;
use anyhow::{Context, Result, ensure};
use gateway::wheel::{self, Wheel};
use gateway::{filter, root, target};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The oldest glibc 2 for which Rust's own standard library is built, by its minor number.
pub const GLIBC: u32 = 17;

const ZIGBUILD: Tool = Tool {
    package: "cargo-zigbuild",
    program: "cargo-zigbuild",
    features: "",
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

/// Builds a file of the release, and checks that it runs as the release's page says.
pub fn build(file: &File, source: &Source) -> Result<Vec<u8>> {
    filter::add_target(file.target)?;
    if file.is_command() {
        let bytes = compile(source, file.target, "release", "diana-cli", "diana")?;
        ensure!(needed(&bytes)?.is_empty(), "the command needs {}", needed(&bytes)?.join(", "));
        return Ok(bytes);
    }
    let glibc = format!("{}.2.{GLIBC}", file.target);
    let bytes = compile(source, &glibc, "module", "diana-envoy-module", "libdiana_envoy_module.so")?;
    let minor = build::glibc(&bytes).context("the native module names no version of glibc")?;
    ensure!(minor <= GLIBC, "the native module needs glibc 2.{minor}, not 2.{GLIBC}");
    for library in needed(&bytes)? {
        let is_of_glibc =
            ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"].contains(&library.as_str());
        ensure!(is_of_glibc || library.starts_with("ld-linux-"), "the native module needs `{library}`");
    }
    Ok(bytes)
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

/// The dynamic linker and the shared objects that a file needs, as binutils' readelf lists them.
fn needed(bytes: &[u8]) -> Result<Vec<String>> {
    let file = target().join("dist-build/needed");
    fs::write(&file, bytes)?;
    let listed =
        output(Command::new("readelf").args(["--wide", "--program-headers", "--dynamic"]).arg(file))?;
    let needs = |line: &&str| line.contains("(NEEDED)") || line.contains("program interpreter:");
    let name = |line: &str| Some(line.rsplit_once(['[', ' '])?.1.trim_end_matches(']').to_owned());
    Ok(listed.lines().filter(needs).filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test's own program is linked dynamically.
    #[test]
    fn what_a_program_needs_is_found() {
        fs::create_dir_all(target().join("dist-build")).unwrap();
        let found = needed(&read(&std::env::current_exe().unwrap()).unwrap()).unwrap();
        assert!(found.contains(&"libc.so.6".into()), "{found:?}");
        assert!(found.iter().any(|name| name.starts_with("/lib64/ld-linux")), "{found:?}");
    }

    #[test]
    fn the_pages_name_the_version_of_glibc() {
        for page in [include_str!("../../../docs/guide.md"), include_str!("README.md")] {
            assert!(page.contains(&format!("glibc 2.{GLIBC} or later")));
        }
    }
}
