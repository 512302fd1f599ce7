//! Waiting for a condition, never for time to pass.

use anyhow::{Result, bail};
use std::thread;
use std::time::{Duration, Instant};

/// How long to let the other side work between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks again and again until `check` yields a value; after `limit` it is an error that names
/// `what`.
pub fn wait_until<T>(what: &str, limit: Duration, mut check: impl FnMut() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = check() {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            bail!("waited {limit:?} in vain for {what}");
        }
        thread::sleep(PAUSE);
    }
}
