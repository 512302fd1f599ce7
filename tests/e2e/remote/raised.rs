//! A document raises a limit: usage survives.

use super::{PATIENCE, Remote};
use crate::global::passed;
use gateway::{Connection, wait_until};
use serde_json::{Value, json};

/// What a user may do before and after, in a week, so that nothing comes back meanwhile.
const BEFORE: usize = 20;
const AFTER: usize = 2_000;

/// A bucket, windows, and a bucket that starts empty. The quota at `/` tells which document is
/// active.
fn document(rpu: usize, mark: u64) -> Value {
    let rule = |name: &str, keys: Value| {
        let mut rule = json!({"name": name, "actor": "user", "rpu": rpu, "unit": "7d"});
        rule.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        json!({"url": format!("=/{name}"), "rules": [rule]})
    };
    json!({"limits": [
        {"url": "=/", "rules": [{"name": "quota", "algo": "W", "rpu": mark, "unit": "7d"}]},
        rule("tb", json!({})),
        rule("w", json!({"algo": "W"})),
        rule("sw", json!({"algo": "SW"})),
        rule("saved", json!({"start": "empty"})),
    ]})
}

/// How many requests of a user pass until exactly `all` have. Cached refusals and reservations of a
/// worker end within 100 ms.
pub fn passed_until(connections: &mut [Connection], path: &str, all: usize) -> usize {
    let mut so_far = 0;
    let reached = wait_until(path, PATIENCE, || {
        so_far += passed(connections, path, "ann", 20);
        (so_far >= all).then_some(())
    });
    assert!(reached.is_ok(), "{path}: {so_far} of {all}");
    so_far + passed(connections, path, "ann", 100)
}

#[test]
fn a_user_who_used_20_of_20_has_1980_left_of_2000() {
    let remote = Remote::start(json!({}));
    let mut clients = remote.connect();
    remote.documents.put(document(BEFORE, 900_001).to_string());
    remote.wait_for(&mut clients, 900_001);
    let mut connections: Vec<Connection> = (0..4).map(|_| remote.gateway.connect().unwrap()).collect();
    for path in ["/tb", "/w", "/sw"] {
        assert_eq!(passed(&mut connections, path, "ann", BEFORE + 5), BEFORE, "{path}");
    }
    assert_eq!(passed(&mut connections, "/saved", "ann", 5), 0);
    remote.documents.put(document(AFTER, 900_002).to_string());
    remote.wait_for(&mut clients, 900_002);
    // A bucket that starts empty gives nothing away: a token comes after five minutes.
    assert_eq!(passed(&mut connections, "/saved", "ann", 50), 0);
    for path in ["/tb", "/w", "/sw"] {
        assert_eq!(passed_until(&mut connections, path, AFTER - BEFORE), AFTER - BEFORE, "{path}");
    }
    // Who has not been seen before has all of it, and a lowered limit forgives nothing.
    remote.documents.put(document(BEFORE, 900_003).to_string());
    remote.wait_for(&mut clients, 900_003);
    for path in ["/tb", "/w", "/sw"] {
        assert_eq!(passed(&mut connections, path, "ann", 5), 0, "{path}");
        assert_eq!(passed(&mut connections, path, "bob", BEFORE + 5), BEFORE, "{path}");
    }
}
