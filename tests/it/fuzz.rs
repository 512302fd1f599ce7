//! The targets of the fuzzer on the kept inputs: seeds, and inputs that once failed.

#[path = "../../fuzz/src/targets/mod.rs"]
mod targets;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use targets::{TARGETS, Target};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The names of the entries of a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    fs::read_dir(folder).unwrap().map(|entry| name(entry.unwrap())).collect()
}

/// Runs the target on every file, and on each file cut short.
fn replay(target: Target, folder: &Path) {
    let names = names(folder);
    assert!(!names.is_empty(), "`{}` is empty", folder.display());
    for name in names {
        let bytes = fs::read(folder.join(&name)).unwrap();
        for end in [bytes.len(), bytes.len() / 2, bytes.len() / 3] {
            let held = std::panic::catch_unwind(|| target(&bytes[..end]));
            assert!(
                held.is_ok(),
                "the first {end} bytes of {} fail, see above",
                folder.join(&name).display()
            );
        }
    }
}

#[test]
fn every_target_has_seeds_and_is_built() {
    let expected: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).into()).collect();
    assert_eq!(names(&folder("fuzz/corpus")), expected);
    let files = names(&folder("fuzz/fuzz_targets"));
    assert_eq!(files, expected.iter().map(|name| format!("{name}.rs")).collect());
    let manifest = fs::read_to_string(folder("fuzz/Cargo.toml")).unwrap();
    for name in expected {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml lacks `{name}`");
    }
}

#[test]
fn inputs_that_once_failed_pass() {
    for (name, target) in TARGETS {
        replay(*target, &folder("fuzz/corpus").join(name));
    }
}
