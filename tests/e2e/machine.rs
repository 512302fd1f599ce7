//! A control that measures the machine's own lateness during a test, which also affects the
//! gateway.

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

/// Tells threads to end, also after a failed assertion; otherwise their scope would wait for ever.
pub struct Ending<'s>(pub &'s AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The period of the control.
const TICK: Duration = Duration::from_millis(1);

/// When an event of known time arrived, and how late. A thread wakes up each millisecond and writes
/// to a socket, which another thread reads. That is a request's way from its turn to the upstream,
/// without a gateway. One list a core.
pub struct Control(Vec<Vec<(Instant, Duration)>>);

impl Control {
    /// Runs the control on each core during `work`, because one core of a virtual machine may stall
    /// alone.
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

    /// The greatest lateness of events that arrived or were outstanding between these instants. It
    /// sums over all cores, because a request passes through several.
    pub fn late_between(&self, from: Instant, to: Instant) -> Duration {
        let overlaps = |(came, late): &&(Instant, Duration)| *came - *late <= to && *came >= from;
        let worst = |core: &Vec<(Instant, Duration)>| {
            core.iter().filter(overlaps).map(|(_, late)| *late).max().unwrap_or_default()
        };
        self.0.iter().map(worst).sum()
    }

    /// The lateness of each event.
    pub fn all(&self) -> impl Iterator<Item = Duration> + '_ {
        self.0.iter().flatten().map(|(_, late)| *late)
    }
}

/// The cores that this process may use.
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

/// The number of cores is the same, but they have no names here.
#[cfg(not(target_os = "linux"))]
fn cores() -> Vec<usize> {
    (0..thread::available_parallelism().map_or(1, usize::from)).collect()
}

#[cfg(not(target_os = "linux"))]
fn stay_on(_: usize) {}
