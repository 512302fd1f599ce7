//! `cargo xtask interleavings`: what the threads of the native module share, under all
//! interleavings by loom, and without undefined behaviour by Miri.

use crate::step::{self, Step, cargo};
use anyhow::Result;
use std::process::{Command, Stdio};

const PACKAGE: [&str; 2] = ["--package", "diana-envoy-module"];

/// Runs loom, and Miri if a nightly toolchain has it.
pub fn run() -> Result<()> {
    let loom = ["--features", "loom", "--test", "interleavings"];
    let mut steps = vec![Step::new("loom", cargo(&[&["test", "--quiet"], &PACKAGE[..], &loom].concat()))];
    if has_miri() {
        // What needs no Envoy: Miri runs no foreign code.
        let mut miri = cargo(
            &[&["miri", "test", "--quiet"], &PACKAGE[..], &["--lib", "--", "store::", "turns::", "alarm::"]]
                .concat(),
        );
        miri.toolchain = Some("nightly".to_owned());
        steps.push(Step::new("miri", miri));
    } else {
        println!("Miri is left out: run `rustup +nightly component add miri rust-src`");
    }
    step::run_all(&steps)
}

fn has_miri() -> bool {
    let mut command = Command::new("rustup");
    command
        .args(["run", "nightly", "cargo", "miri", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
