//! Builds the filter for `wasm32-wasip1` and makes one file for each host. Every exported callback
//! costs the gateway about 0.5 µs a request, so Envoy's file leaves out those that do nothing;
//! ngx_wasm_module calls all of them unchecked.

pub mod module;
mod optimise;
mod trap;

use crate::{root, target};
use anyhow::{Context, Result, bail};
pub use optimise::WASM_OPT;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
pub use trap::TRAP_BYTES;

/// The target the filter is built for.
pub const TARGET: &str = "wasm32-wasip1";

/// The filter that the tests run, built once in this process. `$DIANA_WASM` names another one, such
/// as a released file.
pub fn filter() -> Result<&'static Path> {
    static FILTER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = FILTER.get_or_init(|| match env::var_os("DIANA_WASM").filter(|path| !path.is_empty()) {
        Some(path) => fs::canonicalize(&path)
            .map_err(|error| format!("`$DIANA_WASM` is `{}`: {error}", PathBuf::from(path).display())),
        None => build().map_err(|error| format!("{error:#}")),
    });
    built.as_deref().map_err(|why| anyhow::anyhow!("{why}"))
}

/// The callbacks that `docs/files.md` leaves out.
const LEFT_OUT: [&str; 7] = [
    "proxy_on_context_create",
    "proxy_on_delete",
    "proxy_on_request_body",
    "proxy_on_request_trailers",
    "proxy_on_response_body",
    "proxy_on_response_headers",
    "proxy_on_response_trailers",
];

/// The `allowed_capabilities` of `docs/files.md`: for `headers: off`, if a request needs nothing
/// but the decision.
pub fn capabilities(filter: &Path) -> Result<Vec<String>> {
    // Envoy finds these whether they are allowed or not.
    const ALWAYS: [&str; 4] =
        ["memory", "_initialize", "proxy_abi_version_0_2_1", "proxy_on_memory_allocate"];
    let module = fs::read(filter)?;
    let mut names = module::export_names(&module)?;
    names.retain(|name| !ALWAYS.contains(&name.as_str()) && !LEFT_OUT.contains(&name.as_str()));
    names.extend(module::import_names(&module)?);
    Ok(names)
}

/// The file of the native module.
pub const MODULE: &str = "libdiana.so";

/// The native module that the tests run, built once in this process.
pub fn module() -> Result<&'static Path> {
    static MODULE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = MODULE.get_or_init(|| build_module().map_err(|error| format!("{error:#}")));
    built.as_deref().map_err(|why| anyhow::anyhow!("{why}"))
}

/// Builds the native module and returns the path of `target/libdiana.so`.
pub fn build_module() -> Result<PathBuf> {
    place(MODULE, &fs::read(compile_module(&cargo_target()?, &[])?)?)
}

/// A build of the native module, `target/libdiana-panics.so`, that panics where a request wants it
/// to. It shows what a bug in the module would do to requests.
pub fn panicking_module() -> Result<PathBuf> {
    // In a folder of its own: cargo gives files of all features one name.
    let folder = cargo_target()?.join("panics");
    place("libdiana-panics.so", &fs::read(compile_module(&folder, &["--features", "test-panics"])?)?)
}

/// Compiles the native module in this target folder.
fn compile_module(folder: &Path, more: &[&str]) -> Result<PathBuf> {
    const PACKAGE: &str = "diana-envoy-module";
    let command = [&["build", "--quiet", "--profile", "module", "--package", PACKAGE], more].concat();
    let status = cargo().args(&command).arg("--target-dir").arg(folder).status();
    if !status.context("cannot run `cargo`")?.success() {
        bail!("the native module does not build; repeat it with `cargo {}`", command.join(" "));
    }
    fs::create_dir_all(target())?;
    Ok(folder.join("module").join("libdiana_envoy_module.so"))
}

/// A copy of the tests' filter, `target/mortal.wasm`, that [`TRAP_BYTES`] of a response body kill.
/// It shows what a bug in the filter would do to requests, counts and memory. It measures no
/// bodies.
pub fn mortal() -> Result<PathBuf> {
    let module = module::remove(&fs::read(filter()?)?, &[trap::CALLBACK])?;
    let module = trap::add(&module)?;
    place("mortal.wasm", &module)
}

/// Writes a file to `target/` by a rename, because a running Envoy may be about to read it.
fn place(name: &str, module: &[u8]) -> Result<PathBuf> {
    // Tests of one process may place the same file at once.
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let (fresh, placed) = (target().join(format!("{name}.{}.{number}", id())), target().join(name));
    fs::write(&fresh, module)
        .and_then(|()| fs::rename(&fresh, &placed))
        .with_context(|| format!("cannot write `{}`", placed.display()))?;
    Ok(placed)
}

/// A released file.
pub struct Artefact {
    /// Its name in `target/`.
    pub name: &'static str,
    /// The callbacks it leaves out.
    pub without: &'static [&'static str],
    /// The letter behind the mark; see [`mod@module`].
    letter: u8,
}

/// The released files. The gateways of this crate load the first.
pub const ARTEFACTS: [Artefact; 2] = [
    Artefact { name: "diana.wasm", without: &["proxy_on_done", "proxy_on_log"], letter: b'e' },
    Artefact { name: "diana-nginx.wasm", without: &[], letter: b'a' },
];

/// Builds the released files and returns the path of `target/diana.wasm`; the other of
/// [`ARTEFACTS`] is beside it.
pub fn build() -> Result<PathBuf> {
    add_target(TARGET)?;
    let command =
        ["rustc", "--quiet", "--profile", "filter", "--lib", "--package", "diana", "--target", TARGET];
    // Otherwise every number that the linker fills in is padded to five bytes: 5 % of the module.
    let compressed = "link-arg=--compress-relocations";
    // 896 KiB in place of rustc's 1 MiB. The constants lie behind the stack, and addresses below 1
    // MiB take a byte less in each instruction.
    let stack = "link-arg=-zstack-size=917504";
    let link = ["--crate-type", "cdylib", "--", "-C", compressed, "-C", stack];
    // Functions marked `#[inline]`, as many of the standard library are, are inlined below this
    // cost in place of 325: 0.6 % of the module. At 150, 1.2 %, responses with `headers: ietf` take
    // 3 % longer. Strength reduction of loops is off: 0.5 % of the module, and V8 is as fast
    // without.
    let flags = ["-inlinehint-threshold=200", "-disable-lsr"];
    let mut flags = flags.map(|flag| format!("'-Cllvm-args={flag}'")).to_vec();
    // A short copy is then a loop in the module, and no call of the gateway: a refusal takes 2 %
    // fewer instructions.
    flags.push("'-Ctarget-feature=-bulk-memory'".to_owned());
    flags.extend(remapped()?);
    let flags = format!("target.{TARGET}.rustflags=[{}]", flags.join(", "));
    let status = cargo().args(command).args(["--config", &flags]).args(link).status();
    let status = status.context("cannot run `cargo`")?;
    if !status.success() {
        bail!("the filter does not build; repeat it with `cargo {} {}`", command.join(" "), link.join(" "));
    }
    let built = cargo_target()?.join(TARGET).join("filter/diana.wasm");
    let optimised = optimise::optimise(&built)?;
    fs::create_dir_all(target())?;
    for Artefact { name, without, letter } in &ARTEFACTS {
        place(name, &module::make(&optimised, without, *letter)?)?;
    }
    Ok(target().join(ARTEFACTS[0].name))
}

/// Flags that hide the paths of this machine's sources, which are private, and longer than the
/// replacement.
fn remapped() -> Result<Vec<String>> {
    let remap = |folder: &PathBuf| format!("'--remap-path-prefix={}/='", folder.display());
    Ok(source_folders()?.iter().map(remap).collect())
}

/// Builds the module of the playground, and returns its bytes.
pub fn playground() -> Result<Vec<u8>> {
    const PACKAGE: &str = "diana-playground";
    add_target(TARGET)?;
    let command = ["rustc", "--quiet", "--profile", "playground", "--lib", "--package", PACKAGE];
    let kind = ["--target", TARGET, "--crate-type", "cdylib"];
    let flags = format!("target.{TARGET}.rustflags=[{}]", remapped()?.join(", "));
    let status = cargo().args(command).args(kind).args(["--config", &flags]).status();
    if !status.context("cannot run `cargo`")?.success() {
        bail!(
            "the playground does not build; repeat it with `cargo {} {}`",
            command.join(" "),
            kind.join(" ")
        );
    }
    let file = format!("{}.wasm", PACKAGE.replace('-', "_"));
    optimise::optimise(&cargo_target()?.join(TARGET).join("playground").join(file))
}

/// Builds the filter of `examples/embed-in-sdk-filter` as its README does, and returns its path.
pub fn embedding() -> Result<PathBuf> {
    const PACKAGE: &str = "embed-in-sdk-filter";
    add_target(TARGET)?;
    let command = ["build", "--quiet", "--release", "--package", PACKAGE, "--target", TARGET];
    let status = cargo().args(command).status().context("cannot run `cargo`")?;
    if !status.success() {
        bail!("the example does not build; repeat it with `cargo {}`", command.join(" "));
    }
    let file = format!("{}.wasm", PACKAGE.replace('-', "_"));
    Ok(cargo_target()?.join(TARGET).join("release").join(file))
}

/// The folders with the sources of the standard library and of other people's crates.
pub fn source_folders() -> Result<Vec<PathBuf>> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
    // One folder for each registry. Vendored crates have none.
    let registries = fs::read_dir(home.unwrap_or_default().join("registry/src")).into_iter().flatten();
    let mut folders: Vec<PathBuf> = registries.flatten().map(|entry| entry.path()).collect();
    folders.push(PathBuf::from(rustc(&["--print", "sysroot"])?).join("lib/rustlib/src/rust"));
    // The flags of one machine are the same in each build.
    folders.sort();
    Ok(folders)
}

/// What `rustc` prints with these arguments.
pub fn rustc(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("rustc");
    let output = command.args(arguments).current_dir(root()).output();
    let output = output.context("cannot run `rustc`: install Rust with rustup")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Adds this target to the toolchain if it is missing.
pub fn add_target(name: &str) -> Result<()> {
    if Path::new(&rustc(&["--print", "target-libdir", "--target", name])?).is_dir() {
        return Ok(());
    }
    let added = Command::new("rustup").args(["target", "add", name]).current_dir(root()).status();
    match added {
        Ok(status) if status.success() => Ok(()),
        _ => bail!("the toolchain has no `{name}` and cannot add it: run `rustup target add {name}`"),
    }
}

/// Cargo's target folder; `CARGO_TARGET_DIR` and cargo's own configuration count.
fn cargo_target() -> Result<PathBuf> {
    let output = cargo().args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("`cargo metadata` does not answer in JSON")?;
    let folder = metadata.get("target_directory").and_then(|value| value.as_str());
    Ok(PathBuf::from(folder.context("`cargo metadata` names no target directory")?))
}

/// Cargo in the workspace's root: the cargo that runs this program, if one does.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}
