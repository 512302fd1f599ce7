//! The filter as a gateway loads it: built for `wasm32-wasip1`, and made into one file for each
//! use.
//!
//! Every callback that a module exports costs a gateway some half a microsecond for each request,
//! even if it is empty. nginx' module calls all of them without looking whether they are there, so
//! it gets them all.

pub mod module;
mod trap;

use crate::{root, target};
use anyhow::{Context, Result, bail};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::sync::OnceLock;
pub use trap::TRAP_BYTES;

/// The target the filter is built for.
pub const TARGET: &str = "wasm32-wasip1";

/// The filter the tests run, built once in this process. `$DIANA_WASM` names another one, such as a
/// released file.
pub fn filter() -> Result<&'static Path> {
    static FILTER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = FILTER.get_or_init(|| match env::var_os("DIANA_WASM").filter(|path| !path.is_empty()) {
        Some(path) => fs::canonicalize(&path)
            .map_err(|error| format!("`$DIANA_WASM` is `{}`: {error}", PathBuf::from(path).display())),
        None => build().map_err(|error| format!("{error:#}")),
    });
    built.as_deref().map_err(|why| anyhow::anyhow!("{why}"))
}

/// The filter the tests run, in a copy, `target/mortal.wasm`, that [`TRAP_BYTES`] of an answer
/// kill: as code that fails would, for tests of what then becomes of requests, counts and memory.
pub fn mortal() -> Result<PathBuf> {
    let module = trap::add(&fs::read(filter()?)?)?;
    place("mortal.wasm", &module)
}

/// Writes a file to `target/`, by a rename, because a running Envoy may be about to read it.
fn place(name: &str, module: &[u8]) -> Result<PathBuf> {
    let (fresh, placed) = (target().join(format!("{name}.{}", id())), target().join(name));
    fs::write(&fresh, module)
        .and_then(|()| fs::rename(&fresh, &placed))
        .with_context(|| format!("cannot write `{}`", placed.display()))?;
    Ok(placed)
}

/// A file that ships.
pub struct Artefact {
    /// Its name in `target/`.
    pub name: &'static str,
    /// The callbacks it leaves out.
    pub without: &'static [&'static str],
    /// How it is told, see [`module`].
    letter: u8,
}

/// The first is the one that gateways here load.
pub const ARTEFACTS: [Artefact; 3] = [
    Artefact {
        name: "diana.wasm",
        without: &["proxy_on_done", "proxy_on_log", "proxy_on_response_body", "proxy_on_response_trailers"],
        letter: b'e',
    },
    // For `headers: off`.
    Artefact {
        name: "diana-lean.wasm",
        without: &[
            "proxy_on_done",
            "proxy_on_log",
            "proxy_on_response_body",
            "proxy_on_response_headers",
            "proxy_on_response_trailers",
        ],
        letter: b'l',
    },
    Artefact { name: "diana-nginx.wasm", without: &[], letter: b'a' },
];

/// Builds the filter as it ships and returns where it lies: `target/diana.wasm`, and beside it the
/// other [`ARTEFACTS`].
pub fn build() -> Result<PathBuf> {
    add_target()?;
    let command =
        ["rustc", "--quiet", "--profile", "filter", "--lib", "--package", "diana", "--target", TARGET];
    // Otherwise every number that the linker fills in is padded to five bytes: 5 % of the module.
    let compressed = "link-arg=--compress-relocations";
    // What is marked `#[inline]`, as much of the standard library is, is inlined if it is cheaper
    // than this, in place of 325: 0.6 % of the module. At 150, 1.2 %, answers with `headers: ietf`
    // take 3 % longer.
    let sparing = "llvm-args=-inlinehint-threshold=200";
    let link = ["--crate-type", "cdylib", "--", "-C", compressed, "-C", sparing];
    // Where this machine keeps the sources of other crates is nobody's business, and longer than
    // what they are called there.
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
    let sources = home.unwrap_or_default().join("registry/src");
    let flags = format!("target.{TARGET}.rustflags=['--remap-path-prefix={}=']", sources.display());
    let status = cargo().args(command).args(["--config", &flags]).args(link).status();
    let status = status.context("cannot run `cargo`")?;
    if !status.success() {
        bail!("the filter does not build; repeat it with `cargo {} {}`", command.join(" "), link.join(" "));
    }
    let built = cargo_target()?.join(TARGET).join("filter/diana.wasm");
    let linked = fs::read(&built).with_context(|| format!("cannot read `{}`", built.display()))?;
    fs::create_dir_all(target())?;
    for Artefact { name, without, letter } in &ARTEFACTS {
        place(name, &module::make(&linked, without, *letter)?)?;
    }
    Ok(target().join(ARTEFACTS[0].name))
}

/// Adds the wasm target to the toolchain if it is missing.
pub fn add_target() -> Result<()> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(root())
        .output()
        .context("cannot run `rustc`: install Rust with rustup")?;
    if Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir() {
        return Ok(());
    }
    let added = Command::new("rustup").args(["target", "add", TARGET]).current_dir(root()).status();
    match added {
        Ok(status) if status.success() => Ok(()),
        _ => bail!("the toolchain has no `{TARGET}`: run `rustup target add {TARGET}`"),
    }
}

/// Where cargo builds: `CARGO_TARGET_DIR` and cargo's own configuration count.
fn cargo_target() -> Result<PathBuf> {
    let output = cargo().args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("`cargo metadata` does not answer in JSON")?;
    let folder = metadata.get("target_directory").and_then(|value| value.as_str());
    Ok(PathBuf::from(folder.context("`cargo metadata` names no target directory")?))
}

/// Cargo in the workspace's root: the one that runs us, if one does.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}
