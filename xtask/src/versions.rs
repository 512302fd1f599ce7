//! `cargo xtask versions`: some of the tests in older Envoys, of each version that is supported.

use crate::e2e;
use anyhow::Result;
use gateway::envoy;

/// What depends on the host: headers, metrics and logs; shared data; when streams end; timers; how
/// it is configured.
const SMOKE: [&str; 5] = ["answers::", "configuration::", "exact::", "permits::", "waiting::"];

/// Runs them in all but the newest Envoy, which is the one that `cargo xtask test` takes.
pub fn run() -> Result<()> {
    for version in envoy::versions().skip(1) {
        println!("Envoy {version}");
        let mut line = e2e::line();
        line.args.extend(SMOKE.map(str::to_owned));
        // `$ENVOY` would come first.
        line.env.extend([("ENVOY", String::new()), ("ENVOY_VERSION", version.to_owned())]);
        e2e::step(line).run()?;
    }
    Ok(())
}
