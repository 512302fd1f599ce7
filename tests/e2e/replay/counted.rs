//! Rules that count requests: buckets, windows and logs. All units are long, so that a clock that
//! reads later decides nothing.

use super::{FORMAT, replay};
use gateway::{Config, Connection, Gateway, wait_until};
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// The requests that the rule `all` admits.
const QUOTA: usize = 230;

/// A filter's configuration.
fn document() -> Value {
    json!({
        "limits": [
            {"url": "/", "rules": [
                {"name": "all", "rpu": QUOTA, "unit": "7d", "algo": "SW", "slices": 7},
                {"name": "bucket", "actor": "user", "rpu": 30, "unit": "7d", "missing": "skip",
                 "overrides": {"vip": {"rpu": 90}}},
                {"name": "watched", "actor": "user", "rpu": 10, "unit": "7d", "algo": "SL",
                 "missing": "share", "mode": "shadow"},
            ]},
            {"url": "/orders", "methods": ["POST"], "rules": [
                {"name": "network", "actor": "ip", "rpu": 3, "unit": "7d", "algo": "SL"},
                {"name": "each", "actor": ["session", "user"], "rpu": 9, "unit": "7d", "missing": "deny",
                 "cost": 2, "burst": 6},
            ]},
            {"url": "/files/{name}", "headers": {"x-plan": "free"}, "rules": [
                {"name": "file", "actor": "name", "rpu": 7, "unit": "7d", "algo": "SW", "slices": 7},
                {"name": "query", "actor": "key", "rpu": 9, "unit": "7d", "algo": "W", "missing": "skip"},
            ]},
            {"url": "/login", "rules": [
                {"name": "failed", "actor": "ip", "rpu": 4, "unit": "7d", "charge": {"status": [404]}},
            ]},
        ],
        "actors": {"session": {"cookie": "s"}, "key": {"query": "key"}, "name": {"segment": "name"}},
        "ip": {"trusted_hops": 1, "v6_prefix": 48},
        "allow": [{"user": "root"}],
        "deny": [{"user": "mallory"}],
    })
}

/// The request of this number. The numbers select what varies, so that every rule refuses some.
fn send(connection: &mut Connection, client: u32, number: u32) {
    let users = ["ann", "bob", "vip", "root", "mallory", ""];
    let user = users[(number * 7 + client) as usize % users.len()];
    let forwarded = match number % 4 {
        0 => format!("203.0.113.{}", number % 3),
        1 => format!("198.51.100.1, 2001:db8:{}::{number}", number % 2),
        2 => "198.51.100.77,  192.0.2.7".to_owned(),
        _ => "unknown".to_owned(),
    };
    let (method, path) = match number % 5 {
        0 => ("GET", format!("/items/{number}")),
        1 => ("POST", format!("/orders/{number}?x=1")),
        2 => ("GET", format!("/files/{}?key=k{}", number % 3, number % 2)),
        3 => ("GET", "/files/%61//b/../c?key=%6B1".to_owned()),
        _ => ("POST", "/login".to_owned()),
    };
    let (session, plan) =
        (format!("t=1; s={}", number % 2), if number.is_multiple_of(3) { "paid" } else { "free" });
    let mut headers = vec![("x-forwarded-for", &*forwarded), ("x-plan", plan), ("cookie", &*session)];
    if !user.is_empty() {
        headers.push(("x-user-id", user));
    }
    if number.is_multiple_of(11) {
        headers.retain(|(name, _)| *name != "cookie");
    }
    connection.request(method, &path, &headers, b"").unwrap();
}

#[test]
fn a_replay_of_envoys_log_decides_as_the_filter_did() {
    let document = document();
    let config = Config {
        access_log: Some(FORMAT.into()),
        use_remote_address: false,
        answer: (404, "not here\n".into()),
        ..Config::new(document.clone())
    };
    let gateway = Gateway::start(config).unwrap();
    // Several clients at once, with users of their own: the order does not matter, because what
    // they share is far from its limit. Then one client in turn.
    const EACH: u32 = 40;
    let client = |client: u32| {
        let mut connection = gateway.connect().unwrap();
        let user = format!("user-{client}");
        let headers = [("x-user-id", &*user), ("x-forwarded-for", "::1")];
        let mut get = |number| connection.request("GET", &format!("/items/{number}"), &headers, b"").unwrap();
        (0..EACH).filter(|number| get(*number).status == 404).count()
    };
    let mut admitted: usize = thread::scope(|scope| {
        let clients = [0, 1, 2, 3].map(|number| scope.spawn(move || client(number)));
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let mut sent = 4 * EACH;
    let mut connection = gateway.connect().unwrap();
    // A worker's idle reservation comes back within 0.3 s. Until then another worker may refuse a
    // request that a replay admits.
    wait_until("reservations to come back", PATIENCE, || {
        let response = connection.request("GET", "/items/0", &[("x-forwarded-for", "::1")], b"").unwrap();
        (sent, admitted) = (sent + 1, admitted + 1);
        let remaining = format!("\"all\";r={};", QUOTA.checked_sub(admitted).unwrap());
        response.header("ratelimit").unwrap().starts_with(&remaining).then_some(())
    })
    .unwrap();
    const ALONE: u32 = 500;
    (0..ALONE).for_each(|number| send(&mut connection, 0, number));
    let lines = gateway.access_log_of((sent + ALONE) as usize).unwrap();
    let decisions = replay(&document, &lines);
    for rule in ["all", "bucket", "watched", "network", "each", "file", "query", "failed", "deny"] {
        assert!(decisions.refusals.contains_key(rule), "{rule} refuses nothing: {:?}", decisions.refusals);
    }
}
