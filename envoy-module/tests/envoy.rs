//! The binding against each official Envoy that the module supports: `cargo xtask versions`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

use diana_envoy_module::abi::{OPTIONAL, REQUIRED};
use gateway::{Shell, envoy};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};
use std::collections::HashSet;
use std::fs;

/// The functions that a binary exports for modules.
fn exported(version: &str) -> HashSet<String> {
    let file = fs::read(envoy::official(version).unwrap()).unwrap();
    let elf = ElfFile64::<Endianness>::parse(&*file).unwrap();
    let defined = elf.dynamic_symbols().filter(ObjectSymbol::is_definition);
    let names = defined.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    names.filter(|name| name.starts_with("envoy_dynamic_module_callback_")).collect()
}

/// The optional functions that a version lacks.
fn lacks(version: &str) -> Vec<&'static str> {
    let exported = exported(version);
    assert!(exported.len() > 500, "{version} exports {} functions", exported.len());
    let missing: Vec<_> = REQUIRED.iter().filter(|name| !exported.contains(**name)).collect();
    assert!(missing.is_empty(), "Envoy {version} lacks {missing:?}");
    OPTIONAL.iter().copied().filter(|name| !exported.contains(*name)).collect()
}

#[test]
fn an_older_envoy_lacks_what_the_module_requires() {
    let exported = exported("1.37.0");
    let missing = REQUIRED.iter().filter(|name| !exported.contains(**name)).count();
    assert!(!exported.is_empty() && missing > 0, "the module would load");
}

#[test]
fn every_supported_envoy_exports_what_the_module_requires() {
    let versions: Vec<_> = envoy::versions(Shell::Native).collect();
    let [newest, second, oldest] = versions[..] else { panic!("{versions:?}") };
    assert_eq!(lacks(newest), [""; 0], "nothing in the list is misspelt");
    let newer = |name: &&&str| ["secret", "_runtime_", "_log_v2"].iter().any(|part| name.contains(part));
    let missing = lacks(second);
    assert_eq!(missing.iter().filter(|name| !newer(name)).count(), 0, "{missing:?}");
    // Envoy 1.38 takes metrics from streams only. Four of its functions for bridges have the names
    // of newer ones and other arguments, so the module looks for the two that are new.
    let bridges = |name: &&&str| name.contains("_bridge_") && !name.ends_with("_chunks_size");
    let present = |name: &&&str| bridges(name) || name.ends_with("_callback_log");
    let older: Vec<_> = OPTIONAL.iter().filter(|name| !present(name)).copied().collect();
    assert_eq!(lacks(oldest), older);
}
