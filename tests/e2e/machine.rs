//! How late the machine itself is while a test goes on: what it does to others it does to the gateway as well.
//!
//! What it does not know: what is measured beside it.

#[cfg(target_os = "linux")]
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Tells threads to end; also when an assertion fails, as else their scope would wait for them for ever.
pub struct Ending<'s>(pub &'s AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// How often the control tries.
const TICK: Duration = Duration::from_millis(1);

/// When something of a known time arrived, and how late: a thread wakes up each millisecond and writes to a socket,
/// whose reader is a thread as well. That is a request's way from its turn to the upstream, without a gateway. One list
/// a core.
pub struct Control(Vec<Vec<(Instant, Duration)>>);

impl Control {
    /// While `work` goes on, on each core: a virtual machine's may stall alone.
    pub fn beside<T>(work: impl FnOnce() -> T) -> (T, Control) {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let controls: Vec<_> =
                cores().into_iter().map(|core| Control::start(scope, core, &over)).collect();
            let ending = Ending(&over);
            let done = work();
            drop(ending);
            (done, Control(controls.into_iter().map(|control| control.join().unwrap()).collect()))
        })
    }

    fn start<'s>(
        scope: &'s Scope<'s, '_>,
        core: usize,
        over: &'s AtomicBool,
    ) -> ScopedJoinHandle<'s, Vec<(Instant, Duration)>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut write = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut read = listener.accept().unwrap().0;
        write.set_nodelay(true).unwrap();
        let (plan, planned) = mpsc::channel();
        scope.spawn(move || {
            stay_on(core);
            while !over.load(Ordering::Relaxed) {
                plan.send(Instant::now() + TICK).unwrap();
                thread::sleep(TICK); // what is measured: how late it ends
                write.write_all(b".").unwrap();
            }
        });
        scope.spawn(move || {
            stay_on(core);
            let mut came = Vec::new();
            while read.read_exact(&mut [0]).is_ok() {
                let (now, planned) = (Instant::now(), planned.recv().unwrap());
                came.push((now, now.saturating_duration_since(planned)));
            }
            came
        })
    }

    /// How late the latest was that came, or was still to come, between these instants; of all cores together, as a
    /// request's way leads over several.
    pub fn late_between(&self, from: Instant, to: Instant) -> Duration {
        let overlaps = |(came, late): &&(Instant, Duration)| *came - *late <= to && *came >= from;
        let worst = |core: &Vec<(Instant, Duration)>| {
            core.iter().filter(overlaps).map(|(_, late)| *late).max().unwrap_or_default()
        };
        self.0.iter().map(worst).sum()
    }

    /// How late each came.
    pub fn all(&self) -> impl Iterator<Item = Duration> + '_ {
        self.0.iter().flatten().map(|(_, late)| *late)
    }
}

/// Those that this process may use.
#[cfg(target_os = "linux")]
fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap()).collect()
}

#[cfg(target_os = "linux")]
fn stay_on(core: usize) {
    let mut only = CpuSet::new();
    only.set(core).unwrap();
    sched_setaffinity(Pid::from_raw(0), &only).unwrap();
}

/// As many, but they cannot be named.
#[cfg(not(target_os = "linux"))]
fn cores() -> Vec<usize> {
    (0..thread::available_parallelism().map_or(1, usize::from)).collect()
}

#[cfg(not(target_os = "linux"))]
fn stay_on(_: usize) {}
