//! Reads a process's CPU time from the kernel.

use anyhow::{Context, Result, bail};
use std::fs;
use std::thread;
use std::time::Duration;

/// The pause between two readings, in which the process may become idle.
const PAUSE: Duration = Duration::from_micros(500);
/// The limit of readings. A process without requests is idle long before this limit.
const LOOKS: u32 = 1000;

/// Returns the CPU time of all threads of a process, user and system, in nanoseconds.
///
/// The function waits until the process is idle, because the kernel accounts for a running thread's
/// last milliseconds later.
pub fn used_when_idle_ns(process: u32) -> Result<u64> {
    used_when_still_ns(process, PAUSE)
}

/// The same for a process whose threads may run on without requests: it is idle if two readings at
/// this distance are equal.
pub fn used_when_still_ns(process: u32, pause: Duration) -> Result<u64> {
    let mut last = used_ns(process)?;
    for _ in 0..LOOKS {
        thread::sleep(pause);
        let before = std::mem::replace(&mut last, used_ns(process)?);
        if before == last {
            return Ok(last);
        }
    }
    bail!("Envoy does not become idle although it receives no requests")
}

/// Sums `schedstat`, because the scheduler's own account is exact. `/proc/PID/stat` counts in
/// hundredths of a second, and many kernels sample that count.
fn used_ns(process: u32) -> Result<u64> {
    let folder = format!("/proc/{process}/task");
    let mut sum = 0;
    for thread in fs::read_dir(&folder).with_context(|| format!("no process {process}"))? {
        let file = thread?.path().join("schedstat");
        // The thread may have ended since `read_dir` listed it.
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let first = text.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
        sum += first.with_context(|| format!("`schedstat` is `{text}`"))?;
    }
    if sum == 0 {
        bail!("the kernel has no `schedstat`, which is the source of the processor time");
    }
    Ok(sum)
}
