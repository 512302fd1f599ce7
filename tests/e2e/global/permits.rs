//! Permits of several gateways while their store does not reply, and afterwards.

use super::{Carrier, PATIENCE, Shared, counted, shared_rule};
use crate::machine::Ending;
use gateway::{Config, Reply, Upstream, wait_until};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

over_each_carrier!(after_a_stop_all_permits_are_in_use_again);

const PERMITS: i64 = 8;
const CLIENTS: usize = 16;
/// How long a request holds its permit.
const HOLD: Duration = Duration::from_millis(200);
const STOP: Duration = Duration::from_millis(1_500);

/// Redis stalls for 1.5 s while permits are held: no permit is granted twice, and all permits are in
/// use again within seconds, not after `max_hold`.
fn after_a_stop_all_permits_are_in_use_again(carrier: Carrier) {
    let (now, most, passed) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)), AtomicU64::new(0));
    let highest = Arc::new(AtomicI64::new(0));
    let (gauge, peak, all) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&highest));
    let upstream = Upstream::start(move |_| {
        let now = gauge.fetch_add(1, Ordering::SeqCst) + 1;
        peak.fetch_max(now, Ordering::SeqCst);
        all.fetch_max(now, Ordering::SeqCst);
        thread::sleep(HOLD); // the upstream's work
        gauge.fetch_sub(1, Ordering::SeqCst);
        Reply::new(200, "done")
    })
    .unwrap();
    // Requests that cannot be counted are refused, so Redis has admitted every request in flight.
    let keys = json!({"algo": "C", "rpu": PERMITS, "max_hold": "1h", "on_error": "deny"});
    let limits = json!([shared_rule("/", "permits", &keys)]);
    let change = |config| Config { upstream: Some(upstream.address()), ..config };
    let shared = Shared::by(carrier, json!({"timeout": "100ms"}), &limits, change);
    let stopped = AtomicBool::new(false);
    let run = |client: usize| {
        let mut connection = shared.gateways[client % 2].connect().unwrap();
        while !stopped.load(Ordering::SeqCst) {
            let status = connection.request("GET", "/", &[("x-user-id", "ann")], b"").unwrap().status;
            assert!([200, 429, 503].contains(&status), "{status}");
            passed.fetch_add(u64::from(status == 200), Ordering::SeqCst);
            thread::sleep(Duration::from_millis(5)); // the client's pause
        }
    };
    let all_in_use = || {
        most.store(0, Ordering::SeqCst);
        let before = passed.load(Ordering::SeqCst);
        wait_until("all permits to be in use", PATIENCE, || {
            let passes = passed.load(Ordering::SeqCst) > before;
            (passes && most.load(Ordering::SeqCst) >= PERMITS).then_some(())
        })
        .unwrap_or_else(|error| {
            panic!(
                "{error}; {} passed\n{}",
                passed.load(Ordering::SeqCst) - before,
                shared.gateways[0].logs()
            )
        });
    };
    thread::scope(|scope| {
        let ending = Ending(&stopped);
        (0..CLIENTS).for_each(|client| {
            _ = scope.spawn({
                let run = &run;
                move || run(client)
            })
        });
        all_in_use();
        for _ in 0..2 {
            shared.redis.stop_answering().unwrap();
            let begun = Instant::now();
            wait_until("the stop to be over", PATIENCE, || (begun.elapsed() >= STOP).then_some(())).unwrap();
            shared.redis.go_on().unwrap();
            let back = Instant::now();
            all_in_use();
            println!(
                "{} ms after a stop, by the {carrier:?}, all permits were in use",
                back.elapsed().as_millis()
            );
        }
        drop(ending);
    });
    assert_eq!(highest.load(Ordering::SeqCst), PERMITS, "more were in flight than permitted");
    assert!(counted(&shared.gateways, "rule.permits.degraded") > 0, "the stop was not noticed");
}
