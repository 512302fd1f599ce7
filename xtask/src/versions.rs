//! `cargo xtask versions`: runs some end-to-end tests in each older Envoy that is supported.

use crate::e2e;
use crate::step::{Step, cargo};
use anyhow::Result;
use gateway::{Shell, envoy};

/// Tests of what depends on the host: headers, metrics, logs, shared data, contexts, ends of
/// streams, timers, and configuration.
const SMOKE: [&str; 6] =
    ["answers::", "capabilities::", "configuration::", "exact::", "permits::", "waiting::"];

/// Tests of the ways to Redis: by the bridge, which Envoy has since 1.39, and before by the tunnel
/// alone.
fn ways_to_redis(version: &str) -> &'static [&'static str] {
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    match minor.is_some_and(|minor| minor >= 39) {
        true => &["global::carriers::", "global::matrix::", "production::"],
        false => &["faults_of_a_tunnels_connection", "--skip", "::bridge"],
    }
}

/// Runs the tests in all Envoys but the newest, in which `cargo xtask test` runs them, and checks
/// the native module's binding against each Envoy.
pub fn run() -> Result<()> {
    let binding = cargo(&["test", "--quiet", "--package", "diana-envoy-module", "--test", "envoy"]);
    Step::new("the module's binding", binding).run()?;
    for shell in [Shell::Wasm, Shell::Native] {
        for version in envoy::versions(shell).skip(1) {
            println!("Envoy {version}");
            let mut line = e2e::line(shell);
            line.args.extend(SMOKE.iter().chain(ways_to_redis(version)).map(|name| (*name).to_owned()));
            // `$ENVOY` would take precedence.
            line.env.extend([("ENVOY", String::new()), ("ENVOY_VERSION", version.to_owned())]);
            e2e::step(line, shell).run()?;
        }
    }
    Ok(())
}
