//! What the files link: bills of materials by cargo-cyclonedx, and texts of licences by cargo-about.
//! Both know crates alone, so the standard library and what zig links are added here.

use super::binaries::{self, ZIG};
use super::folder::{Folder, PLAIN, sha256};
use super::source::{Source, git};
use super::{FILES, File, output, read};
use crate::tool::Tool;
use anyhow::{Context, Result};
use gateway::{filter, root};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

const CYCLONEDX: Tool = Tool::new("cargo-cyclonedx", "0.5.9");
const ABOUT: Tool = Tool { features: "cli", ..Tool::new("cargo-about", "0.9.3") };

/// Writes the bill of materials of each file, in CycloneDX.
pub fn bills(folder: &Folder, source: &Source) -> Result<()> {
    // cargo-cyclonedx writes a file of this name into the folder of each package.
    const NAME: &str = "diana-release-bill";
    let tool = CYCLONEDX.installed()?;
    for File { place, package, target } in &FILES {
        output(
            Command::new(&tool)
                .args("cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps".split(' '))
                .args(["--target", target, "--override-filename", NAME])
                .env("SOURCE_DATE_EPOCH", source.epoch.to_string())
                .current_dir(root()),
        )?;
        let text = String::from_utf8(read(&root().join(package).join(format!("{NAME}.json")))?)?;
        git(&["clean", "--force", "--quiet", "--", &format!("*{NAME}.json")])?;
        // The clone's place must not show.
        let mut bill: Value = serde_json::from_str(&text.replace(&*root().to_string_lossy(), "/diana"))?;
        let hash = sha256(&read(&folder.path().join(place))?);
        bill["metadata"]["component"]["hashes"] = json!([{"alg": "SHA-256", "content": hash}]);
        let components = bill["components"].as_array_mut().context("a bill without components")?;
        for Part { name, version, licence, .. } in toolchain(target)? {
            let licences = json!([{"expression": licence}]);
            components.push(json!({
                "type": "library", "bom-ref": name, "name": name, "version": version, "licenses": licences,
            }));
        }
        let name = format!("sbom/{}.cdx.json", place.replace('/', "-"));
        folder.write(&name, format!("{bill:#}\n").as_bytes(), PLAIN)?;
    }
    Ok(())
}

/// The texts of the licences of everything that these files link.
pub fn licences() -> Result<String> {
    let tool = ABOUT.installed()?;
    // Without network, cargo-about reads the packages alone, so that each run prints the same.
    output(filter::cargo().args(["fetch", "--quiet", "--locked"]))?;
    let mut text = String::new();
    for package in BTreeSet::from(FILES.map(|file| file.package)) {
        let of_package = || FILES.iter().filter(|file| file.package == package);
        let names: Vec<&str> = of_package().map(|file| file.place).collect();
        text.push_str(&format!("Linked into {}:\n", names.join(", ")));
        let mut command = Command::new(&tool);
        command.args("generate --offline --locked --fail --config xtask/src/dist/about.toml".split(' '));
        command.arg("--manifest-path").arg(root().join(package).join("Cargo.toml"));
        of_package().for_each(|file| _ = command.args(["--target", file.target]));
        text.push_str(&output(command.arg("xtask/src/dist/about.hbs").current_dir(root()))?);
        text.push('\n');
    }
    // musl's target links all of them.
    for Part { name, version, licence, text: place } in toolchain("-linux-musl")? {
        let licence_text = String::from_utf8(read(&place)?)?;
        text.push_str(&format!("{0}\n{name} {version} ({licence})\n{0}\n\n{licence_text}\n", "=".repeat(80)));
    }
    Ok(text)
}

/// A part of a file that is no crate.
struct Part {
    name: &'static str,
    version: String,
    licence: &'static str,
    /// The file with the text of its licence.
    text: PathBuf,
}

/// What every file for this target links beside crates.
fn toolchain(target: &str) -> Result<Vec<Part>> {
    let rustc = filter::rustc(&["--version"])?;
    let version = rustc.split(' ').nth(1).context("rustc has no version")?.to_owned();
    let standard = PathBuf::from(filter::rustc(&["--print", "sysroot"])?);
    let text = standard.join("share/doc/rust/COPYRIGHT-library.html");
    let mut parts = vec![Part { name: "rust-std", version, licence: "MIT OR Apache-2.0", text }];
    let mut of_zig = |name, licence, text: &str| -> Result<()> {
        let text = binaries::zig()?.join("lib").join(text);
        parts.push(Part { name, version: ZIG.version.into(), licence, text });
        Ok(())
    };
    if target.contains("-linux-") {
        of_zig("libunwind-of-zig", "Apache-2.0 WITH LLVM-exception", "libunwind/LICENSE.TXT")?;
    }
    if target.ends_with("-musl") {
        of_zig("musl-of-zig", "MIT", "libc/musl/COPYRIGHT")?;
    }
    Ok(parts)
}
