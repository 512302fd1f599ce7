//! Binaryen's `wasm-opt`, which makes the linked module 8 % smaller without making requests slower.
//! docs/internals/design/crates.md has what its levels save and cost.

use crate::npm::PackageFile;
use crate::target;
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::process::{Command, id};

/// The build of Binaryen that runs in Node.js, on every machine alike.
pub const WASM_OPT: PackageFile = PackageFile {
    package: "binaryen",
    version: "132.0.0",
    path: "bin/wasm-opt",
    sha256: "608c021fa3f2c68cdc26f06a1454341089a0e689abb71cbe5a23ef7300e7f3e3",
};

/// The passes, and the features of WebAssembly that rustc uses for `wasm32-wasip1` by default. A
/// stripped module does not name its features.
const ARGUMENTS: [&str; 10] = [
    // Additions become part of an access's offset. The first 1,024 bytes are the end of the stack.
    "--low-memory-unused",
    "-Oz",
    // Addresses take four bytes, locals one or two.
    "--const-hoisting",
    // Functions that are called often get the short numbers.
    "--reorder-functions",
    "--enable-bulk-memory",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
];

/// Optimises the module in this file, which takes 15 seconds, unless it has been done before.
pub(super) fn optimise(linked: &Path) -> Result<Vec<u8>> {
    let module = fs::read(linked).with_context(|| format!("cannot read `{}`", linked.display()))?;
    let mut hash = Sha256::new_with_prefix(WASM_OPT.sha256);
    ARGUMENTS.iter().for_each(|argument| hash.update(argument));
    let hash = hash.chain_update(&module).finalize();
    let hash: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let folder = target().join("optimised");
    let done = folder.join(format!("{hash}.wasm"));
    if !done.exists() {
        let program = WASM_OPT.fetch()?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
        let fresh = folder.join(format!("{}.part", id()));
        let output =
            Command::new("node").arg(program).args(ARGUMENTS).arg(linked).arg("-o").arg(&fresh).output();
        let output = output.context("cannot run `node`: install Node.js with npm")?;
        if !output.status.success() {
            bail!("wasm-opt failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        fs::rename(&fresh, &done).with_context(|| format!("cannot create `{}`", done.display()))?;
    }
    fs::read(&done).with_context(|| format!("cannot read `{}`", done.display()))
}
