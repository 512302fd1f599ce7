//! A leaky bucket in front of an upstream: when its requests arrive there.
//!
//! A request arrives after its turn by what the host's timer is late, and by what the machine is: the one is stated,
//! the other is measured beside it. What arrives late makes the gap behind it shorter by as much.

use crate::limits;
use crate::waiting::{ms, watched};
use gateway::{Load, Shot};
#[cfg(target_os = "linux")]
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Between two turns of 50 a second, in milliseconds, as all that follows.
const TURN: f64 = 20.0;
/// How late Envoy's timer lets 99 of 100 requests go, as docs/configuration.md has measured it. libevent reads
/// `CLOCK_MONOTONIC_COARSE`, which a kernel at 250 Hz moves every 4 ms; ticks are set, and waited for, in whole
/// milliseconds.
const COARSE: f64 = 6.0;
/// The same with `EVENT_PRECISE_TIMER=1`: what is left are the ticks' whole milliseconds.
const PRECISE: f64 = 1.2;
/// The hundredth of 499 gaps.
const BEYOND: usize = 5;

/// How often the control tries.
const TICK: Duration = Duration::from_millis(1);

/// When something of a known time arrived, and how late: a thread wakes up each millisecond and writes to a socket,
/// whose reader is a thread as well. That is a request's way from its turn to the upstream, without a gateway. One list
/// a core.
struct Control(Vec<Vec<(Instant, Duration)>>);

impl Control {
    /// While `work` goes on, on each core: a virtual machine's may stall alone.
    fn beside<T>(work: impl FnOnce() -> T) -> (T, Control) {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let controls: Vec<_> =
                cores().into_iter().map(|core| Control::start(scope, core, &over)).collect();
            let done = work();
            over.store(true, Ordering::Relaxed);
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

    /// How late the latest was that came, or was still to come, in the time of a turn before that instant; of all
    /// cores together, as a request's way leads over several.
    fn late_before(&self, instant: Instant) -> f64 {
        let from = instant - Duration::from_secs_f64(TURN / 1e3);
        let overlaps = |(came, late): &&(Instant, Duration)| *came - *late <= instant && *came >= from;
        let worst = |core: &Vec<(Instant, Duration)>| {
            core.iter().filter(overlaps).map(|(_, late)| ms(*late)).fold(0.0, f64::max)
        };
        self.0.iter().map(worst).sum()
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

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// 500 requests of 20 clients through a leaky bucket of 50 a second: what is wrong with their arrivals.
fn shaped(env: &[(&str, &str)], name: &str, precision: f64) -> Result<(), String> {
    let rule = json!([{"name": "shaped", "algo": "LB", "rpu": 50, "unit": "second"}]);
    let (gateway, _upstream, arrivals) = watched(limits(rule), env);
    let load = || gateway.load(Load { connections: 20, ..Load::requests(500) }, |_| Shot::get("/")).unwrap();
    let (report, control) = Control::beside(load);
    assert_eq!((report.status(200), report.lost), (500, 0));
    let arrivals = arrivals.lock().unwrap().clone();
    let span = arrivals[499] - arrivals[0];
    let rate = 499.0 / span.as_secs_f64();
    let gaps: Vec<(Instant, f64)> =
        arrivals.windows(2).map(|pair| (pair[0], ms(pair[1] - pair[0]))).collect();
    let short = gaps.iter().filter(|(_, gap)| *gap < TURN - precision).count();
    let is_unexplained = |(from, gap): &&(Instant, f64)| *gap < TURN - precision - control.late_before(*from);
    let unexplained: Vec<f64> = gaps.iter().filter(is_unexplained).map(|(_, gap)| *gap).collect();
    let after: Vec<f64> = arrivals.iter().map(|arrival| ms(*arrival - report.first_send)).collect();
    let late = sorted((0..).zip(&after).map(|(turn, after)| after - TURN * f64::from(turn)));
    let machine = sorted(control.0.iter().flatten().map(|(_, late)| ms(*late)));
    let sorted = sorted(gaps.iter().map(|(_, gap)| *gap));
    println!(
        "leaky bucket of 50/s, {name}: {rate:.2}/s over {:.2} s; gaps from {:.1} to {:.1} ms, {short} of 499 below \
         {:.1}, {} of them with no stall of the machine before; after its turn a request came {:.1} ms (median), {:.1} (99th \
         percentile), {:.1} (most); without a gateway {:.1}, {:.1}, {:.1}",
        span.as_secs_f64(),
        sorted[0],
        sorted[498],
        TURN - precision,
        unexplained.len(),
        late[250],
        late[495],
        late[499],
        machine[machine.len() / 2],
        machine[machine.len() / 100 * 99],
        machine[machine.len() - 1],
    );
    // Never early, whatever the machine does. The first turn cannot have been given out before it was asked for.
    for (turn, after) in (0..).zip(&after) {
        let due = TURN * f64::from(turn);
        assert!(*after >= due, "arrival {turn} came {:.1} ms before its turn", due - after);
    }
    if !(49.0..=51.0).contains(&rate) {
        return Err(format!("{rate:.2} a second"));
    }
    if unexplained.len() > BEYOND {
        let shortest = unexplained.iter().copied().fold(TURN, f64::min);
        return Err(format!("{} gaps are too short, down to {shortest:.1} ms", unexplained.len()));
    }
    Ok(())
}

/// Up to three times, for stalls of the machine that its control has not seen.
fn is_shaped(env: &[(&str, &str)], name: &str, precision: f64) {
    for attempt in 1..3 {
        match shaped(env, name, precision) {
            Ok(()) => return,
            Err(why) => println!("attempt {attempt}, {name}: {why}"),
        }
    }
    shaped(env, name, precision).unwrap();
}

#[test]
fn a_leaky_bucket_lets_requests_go_one_by_one() {
    is_shaped(&[], "timer as it is", COARSE);
}

#[test]
fn a_leaky_bucket_with_the_precise_timer() {
    is_shaped(&[("EVENT_PRECISE_TIMER", "1")], "EVENT_PRECISE_TIMER=1", PRECISE);
}
