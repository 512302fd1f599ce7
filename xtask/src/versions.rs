//! `cargo xtask versions`: runs some end-to-end tests in each older Envoy that is supported.

use crate::e2e;
use anyhow::Result;
use gateway::{Shell, envoy};

/// Tests of what depends on the host: headers, metrics, logs, shared data, ends of streams, timers,
/// and configuration.
const SMOKE: [&str; 5] = ["answers::", "configuration::", "exact::", "permits::", "waiting::"];

/// Runs the tests in all Envoys but the newest, in which `cargo xtask test` runs them.
pub fn run() -> Result<()> {
    for version in envoy::versions().skip(1) {
        println!("Envoy {version}");
        let mut line = e2e::line(Shell::Wasm);
        line.args.extend(SMOKE.map(str::to_owned));
        // `$ENVOY` would take precedence.
        line.env.extend([("ENVOY", String::new()), ("ENVOY_VERSION", version.to_owned())]);
        e2e::step(line, Shell::Wasm).run()?;
    }
    Ok(())
}
