//! House rules that no compiler checks: only the adapter calls the host, and every file has a
//! header.
//! Cargo checks which crate uses which.

mod source;

use source::{File, files};

/// Fails with one line for each file that breaks a rule, and what to do.
#[track_caller]
fn hold(broken: Vec<String>, remedy: &str) {
    assert!(broken.is_empty(), "\n  {}\n{remedy}\n", broken.join("\n  "));
}

#[test]
fn only_the_host_declares_a_host_call_or_an_export() {
    let names = ["proxy_wasm", "extern \"C\"", "no_mangle"];
    let broken = files().iter().filter(|file| !file.is_host()).flat_map(|f| f.lines_with(&names)).collect();
    hold(broken, "Only `src` talks to the host. The core is handed values and returns values.");
}

#[test]
fn only_the_host_knows_what_time_it_is() {
    let names = ["Instant", "SystemTime", "thread::sleep", "UNIX_EPOCH"];
    // `Time::from` converts an instant that a host has read.
    let may_convert = |file: &&File| !file.is_host() && file.path != "crates/base/src/time.rs";
    let broken = files().iter().filter(may_convert).flat_map(|f| f.lines_with(&names)).collect();
    hold(broken, "Time is an argument: take a `time::Time`, which the host reads once for each request.");
}

#[test]
fn no_borrow_can_panic() {
    let names = ["RefCell", ".borrow()", ".borrow_mut()", "with_borrow"];
    let is_checked = |file: &File| file.path != "crates/base/src/exclusive.rs" && !file.is_tests();
    let mut broken = Vec::new();
    for file in files().into_iter().filter(is_checked) {
        let code = file.text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned();
        broken.extend(File { text: code, ..file }.lines_with(&names));
    }
    hold(
        broken,
        "A second borrow of a `RefCell` panics, and a panic is an outage: use `exclusive::Exclusive` or `Cell`.",
    );
}

#[test]
fn every_module_says_what_it_is() {
    let files = files();
    let silent = files.iter().filter(|file| !file.text.starts_with("//! "));
    hold(
        silent.map(|file| file.path.clone()).collect(),
        "A module begins with `//!`: one to three lines that say what the module does, and for whom.",
    );
}
