//! The other algorithms in a real gateway, each with the traffic it is meant for.

use gateway::{Config, Connection, Gateway, wait_until};
use serde_json::json;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// How many of 200 requests pass just before the end of a second, and how many just after it;
/// `None` if the machine was too slow for that.
fn attack(connection: &mut Connection, path: &str) -> Option<(u32, u32)> {
    let mut burst = || {
        let mut ask = || connection.request("GET", path, &[], b"").unwrap().status == 200;
        (0..100).filter(|_| ask()).count() as u32
    };
    // Not this second or the next, so that the quota used by an earlier attempt is free again.
    let begun = since_epoch().as_secs();
    wait_until("the end of a second", Duration::from_secs(5), || {
        let now = since_epoch();
        (now.as_secs() > begun + 1 && (820..860).contains(&now.subsec_millis())).then_some(())
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
