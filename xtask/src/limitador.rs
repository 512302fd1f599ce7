//! `cargo xtask limitador`: the rate limit service example with a real Limitador.

use crate::e2e;
use anyhow::{Result, ensure};
use gateway::Shell;
use gateway::limitador::PROGRAM;
use gateway::service::is_installed;

/// Runs the tests that need the program, which `cargo xtask test` leaves out.
pub fn run() -> Result<()> {
    ensure!(is_installed(PROGRAM), "`{PROGRAM}` is missing: install it in a folder of `$PATH`");
    let mut line = e2e::line(Shell::Wasm);
    line.args.extend(["real_limitador", "--include-ignored"].map(str::to_owned));
    e2e::step(line, Shell::Wasm).run()
}
