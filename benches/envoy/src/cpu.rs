//! What a process has used of the processors, as the kernel accounts for it.

use anyhow::{Context, Result, bail};
use std::fs;
use std::thread;
use std::time::Duration;

/// How long to let the process come to rest between two looks.
const PAUSE: Duration = Duration::from_micros(500);
/// A process without work has ended its last one long before so many.
const LOOKS: u32 = 1000;

/// Nanoseconds on a processor, user and system, of all threads of a process, once it has come to
/// rest: of a thread that runs, the kernel has not accounted for the last milliseconds yet.
pub fn used_when_idle_ns(process: u32) -> Result<u64> {
    let mut last = used_ns(process)?;
    for _ in 0..LOOKS {
        thread::sleep(PAUSE);
        let before = std::mem::replace(&mut last, used_ns(process)?);
        if before == last {
            return Ok(last);
        }
    }
    bail!("Envoy does not come to rest when nobody asks it anything")
}

/// `/proc/PID/stat` counts in hundredths of a second, and in many kernels samples them; the
/// scheduler's own account is exact.
fn used_ns(process: u32) -> Result<u64> {
    let folder = format!("/proc/{process}/task");
    let mut sum = 0;
    for thread in fs::read_dir(&folder).with_context(|| format!("no process {process}"))? {
        let file = thread?.path().join("schedstat");
        // A thread may end between the two looks.
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let first = text.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
        sum += first.with_context(|| format!("`schedstat` is `{text}`"))?;
    }
    if sum == 0 {
        bail!("the kernel keeps no `schedstat`, from which the time on the processors is read");
    }
    Ok(sum)
}
