//! The other algorithms, where a real gateway shows what they are for.

use gateway::{Config, Connection, Gateway, Reply, Upstream, wait_until};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// How many of 200 requests pass right before the end of a second, and how many right after it; `None` when the
/// machine was too slow for that.
fn attack(connection: &mut Connection, path: &str) -> Option<(u32, u32)> {
    let mut burst = || {
        let mut ask = || connection.request("GET", path, &[], b"").unwrap().status == 200;
        (0..100).filter(|_| ask()).count() as u32
    };
    wait_until("the end of a second", Duration::from_secs(3), || {
        (820..860).contains(&since_epoch().subsec_millis()).then_some(())
    })
    .ok()?;
    let second = since_epoch().as_secs();
    let before = burst();
    let in_time = since_epoch().as_secs() == second;
    wait_until("the next second", Duration::from_secs(3), || {
        (since_epoch().as_secs() > second).then_some(())
    })
    .ok()?;
    let after = burst();
    (in_time && since_epoch() < Duration::from_secs(second + 1) + Duration::from_millis(400))
        .then_some((before, after))
}

#[test]
fn a_burst_around_a_boundary_passes_a_window_twice_and_a_sliding_one_once() {
    let limit = |algo: &str| json!({"url": format!("/{algo}"), "rules": [{"algo": algo, "rpu": 50, "unit": "second"}]});
    let gateway = Gateway::start(Config::new(json!(["W", "SW", "SL", "TB"].map(limit)))).unwrap();
    let mut connection = gateway.connect().unwrap();
    let mut passed = |algo: &str| {
        let path = format!("/{algo}");
        let found = (0..10).find_map(|_| attack(&mut connection, &path));
        let (before, after) = found.expect("the machine is too slow for this test");
        println!("{algo:>2}: {before:>3} before the end of a second, {after:>3} after it, of 50 a second");
        (before, after)
    };
    assert_eq!(passed("W"), (50, 50), "twice the limit within 400 ms");
    assert_eq!(passed("SW"), (50, 0));
    assert_eq!(passed("SL"), (50, 0));
    let (before, after) = passed("TB");
    assert!(before + after <= 50 + 30, "a burst, and what came in 600 ms");
}

/// What an upstream does while a permit is held: no test waits for it, it only makes requests overlap.
fn work() {
    thread::sleep(Duration::from_millis(5)); // the simulated upstream's own time, not a wait for a condition
}

/// 64 clients, some of which hang up, before an upstream some of whose answers are errors.
#[test]
fn never_more_in_flight_than_permitted_and_none_is_lost() {
    const PERMITS: i64 = 8;
    let (now, most) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let (counted, peak) = (Arc::clone(&now), Arc::clone(&most));
    let upstream = Upstream::start(move |request| {
        if request.path == "/hangs-up" {
            // Whoever asked is gone before this is over: it is not known here until when it holds its permit.
            work();
            return Reply::new(200, "nobody reads this");
        }
        peak.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        work();
        counted.fetch_sub(1, Ordering::SeqCst);
        Reply::new(if request.path == "/fails" { 500 } else { 200 }, "done")
    })
    .unwrap();
    let rules = json!([{"name": "permits", "algo": "C", "rpu": PERMITS}]);
    let document = json!({"limits": [{"url": "/", "rules": rules}]});
    let config = Config { upstream: Some(upstream.address()), ..Config::new(document) };
    let gateway = Gateway::start(config).unwrap();
    thread::scope(|scope| {
        for client in 0..64 {
            let gateway = &gateway;
            scope.spawn(move || {
                for turn in 0..40 {
                    let Ok(mut connection) = gateway.connect() else { continue };
                    match (client + turn) % 4 {
                        0 => drop(connection.send(b"GET /hangs-up HTTP/1.1\r\nhost: a\r\n\r\n")),
                        1 => drop(connection.request("GET", "/fails", &[], b"")),
                        _ => drop(connection.request("GET", "/works", &[], b"")),
                    }
                }
            });
        }
    });
    let most = most.load(Ordering::SeqCst);
    println!("of 64 clients at most {most} were in flight; {PERMITS} may be");
    assert!((1..=PERMITS).contains(&most), "{most} in flight");
    // A request alone has taken one permit: all others are back.
    let expected = format!("\"permits\";r={}", PERMITS - 1);
    wait_until("all permits to be back", Duration::from_secs(20), || {
        let answer = gateway.get("/works", &[]).ok()?;
        answer.header("ratelimit")?.starts_with(&expected).then_some(())
    })
    .unwrap();
    let policy = gateway.get("/works", &[]).unwrap();
    assert_eq!(policy.header("ratelimit-policy"), Some(r#""permits";q=8;qu="concurrent-requests""#));
}
