//! A leaky bucket in front of an upstream: the arrival times of its requests.
//!
//! A request arrives after its turn by the lateness of the host's timer and of the machine. The
//! former is documented, the latter measured by a control. A late arrival shortens the next gap by
//! as much.

use crate::limits;
use crate::machine::Control;
use crate::waiting::{ms, watched};
use gateway::{Load, Shot};
use serde_json::json;
use std::time::{Duration, Instant};

/// The gap between two turns of 50 a second, in milliseconds, like all values below.
const TURN: f64 = 20.0;
/// The lateness of Envoy's timer for 99 of 100 requests, as docs/configuration/algorithms.md
/// states. libevent reads `CLOCK_MONOTONIC_COARSE`, which a kernel at 250 Hz moves every 4 ms.
/// Ticks are set, and waited for, in whole milliseconds.
const COARSE: f64 = 6.0;
/// The same with `EVENT_PRECISE_TIMER=1`: the whole milliseconds of ticks remain.
const PRECISE: f64 = 1.2;
/// The hundredth of 499 gaps.
const BEYOND: usize = 5;

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Sends 500 requests of 20 clients through a leaky bucket of 50 a second. An error describes wrong
/// arrivals.
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
    let turn = Duration::from_secs_f64(TURN / 1e3);
    let late_before = |instant: Instant| ms(control.late_between(instant - turn, instant));
    let is_unexplained = |(from, gap): &&(Instant, f64)| *gap < TURN - precision - late_before(*from);
    let unexplained: Vec<f64> = gaps.iter().filter(is_unexplained).map(|(_, gap)| *gap).collect();
    let after: Vec<f64> = arrivals.iter().map(|arrival| ms(*arrival - report.first_send)).collect();
    let late = sorted((0..).zip(&after).map(|(turn, after)| after - TURN * f64::from(turn)));
    let machine = sorted(control.all().map(ms));
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
    // No request arrives early, whatever the machine does. The first turn is not before its
    // request.
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

/// Up to three attempts, for stalls that the machine's control has missed.
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
