//! Waits for a condition, never for time to pass.

use anyhow::{Result, bail};
use std::thread;
use std::time::{Duration, Instant};

/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(5);

/// Calls `check` until it returns a value. After `limit` the result is an error that names `what`.
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
