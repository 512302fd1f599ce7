//! Documents go forwards and back, by updates of the listener and by a document server: no count,
//! grant, penalty or permit revives.

use gateway::{Config, Connection, Ending, Gateway, Received, Reply, Response, Upstream, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub fn inspect() -> Value {
    json!({"path": "/.diana", "token": TOKEN})
}

/// The quota at `/`, which tells the documents apart.
pub fn mark(rpu: u64, neighbours: u64) -> u64 {
    900_000 + 10 * rpu + neighbours
}

/// The counted rule with this number and so many neighbours that no other document has. Two permits
/// are beside a rule that changes as well.
pub fn document(rpu: u64, neighbours: u64) -> Value {
    let window = |name: &str, rpu: u64| json!({"name": name, "algo": "W", "rpu": rpu, "unit": "7d"});
    let mut counted = vec![json!({
        "name": "counted", "actor": "user", "algo": "W", "rpu": rpu, "unit": "7d",
        "penalty": {"after": 30, "for": "1h"},
    })];
    counted.extend((0..neighbours).map(|n| {
        let name = format!("n{neighbours}-{n}");
        json!({"name": name, "actor": "user", "algo": "SW", "rpu": 100_000, "unit": "day"})
    }));
    json!({"limits": [
        {"url": "=/", "rules": [window("quota", mark(rpu, neighbours))]},
        {"url": "=/counted", "rules": counted},
        {"url": "=/permits", "rules": [
            {"name": "permits", "algo": "C", "rpu": 2, "max_hold": "1h"},
            window("beside", 100_000 + rpu),
        ]},
    ]})
}

/// An upstream that never answers requests for `/permits`.
pub fn upstream() -> Upstream {
    Upstream::start(|request: &Received| match request.path.as_str() {
        "/permits" => Reply::new(200, "").ending(Ending::Silence),
        _ => Reply::new(200, "whole"),
    })
    .unwrap()
}

/// How many of so many requests of a user pass, each over a connection of its own.
fn passed(gateway: &Gateway, user: &str, requests: usize) -> usize {
    let passes = |_: &usize| gateway.get("/counted", &[("x-user-id", user)]).unwrap().status == 200;
    (0..requests).filter(passes).count()
}

fn ask(gateway: &Gateway, method: &str, question: &str) -> Response {
    let bearer = format!("Bearer {TOKEN}");
    let target = format!("/.diana/{question}");
    gateway.connect().unwrap().request(method, &target, &[("authorization", &bearer)], b"").unwrap()
}

/// Whether a penalty runs for the user.
fn is_penalized(gateway: &Gateway, user: &str) -> bool {
    let count = ask(gateway, "GET", &format!("actor?rule=counted&user={user}")).text();
    let count: Value = serde_json::from_str(&count).unwrap_or_else(|error| panic!("{error}: {count}"));
    count["penalty_ms"].as_u64().unwrap() > 0
}

/// Sends a request that takes a permit and keeps it.
fn hold(gateway: &Gateway, upstream: &Upstream) -> Connection {
    let sent = upstream.requests();
    let mut connection = gateway.connect().unwrap();
    connection.send(b"GET /permits HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    wait_until("the request at the upstream", PATIENCE, || (upstream.requests() > sent).then_some(()))
        .unwrap();
    connection
}

/// Ann uses her quota and two permits are taken; bob is penalized, and eve was. Then `take` changes
/// the documents, forwards and back, and nobody gets anything a second time.
pub fn nothing_revives(
    gateway: &mut Gateway,
    upstream: &Upstream,
    mut take: impl FnMut(&mut Gateway, (u64, u64)),
) {
    take(gateway, (3, 0));
    assert_eq!(passed(gateway, "ann", 1), 1);
    let held = [hold(gateway, upstream), hold(gateway, upstream)];
    for user in ["bob", "eve"] {
        assert_eq!(passed(gateway, user, 45), 3);
        assert!(is_penalized(gateway, user));
    }
    assert_eq!(ask(gateway, "POST", "penalty?rule=counted&user=eve").status, 200);
    for (rpu, neighbours, passes) in [(4, 0, 3), (5, 1, 1), (6, 2, 1), (3, 0, 0), (6, 1, 0)] {
        take(gateway, (rpu, neighbours));
        let under = format!("{rpu} beside {neighbours}");
        assert_eq!(passed(gateway, "ann", 6), passes, "{under}");
        assert!(is_penalized(gateway, "bob") && !is_penalized(gateway, "eve"), "{under}");
        assert_eq!(gateway.get("/permits", &[]).unwrap().status, 429, "{under}");
    }
    assert_eq!(ask(gateway, "POST", "grant?rule=counted&user=ann&amount=4&for=1h").status, 200);
    let mut granted = 0;
    for document in [(6, 1), (5, 1), (4, 0), (3, 0), (6, 1), (3, 2)] {
        take(gateway, document);
        granted += passed(gateway, "ann", 1);
    }
    assert_eq!(granted, 4, "a grant is spent once");
    // Both permits return, to the document in force.
    drop(held);
    wait_until("the permits to return", PATIENCE, || {
        let count = ask(gateway, "GET", "actor?rule=permits").text();
        count.contains("\"remaining\":2").then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}: {}", ask(gateway, "GET", "actor?rule=permits").text()));
}

#[test]
fn updates_of_the_listener_revive_nothing() {
    let upstream = upstream();
    let with_inspect = |(rpu, neighbours)| {
        let mut document = document(rpu, neighbours);
        document["inspect"] = inspect();
        document
    };
    let config = Config {
        upstream: Some(upstream.address()),
        // The old listeners keep their connections, and so the permits.
        drain: Duration::from_secs(600),
        ..Config::new(with_inspect((9, 9)))
    };
    let mut gateway = Gateway::start(config).unwrap();
    nothing_revives(&mut gateway, &upstream, |gateway, (rpu, neighbours)| {
        gateway.update_beside(with_inspect((rpu, neighbours))).unwrap();
        let shown = format!("\"quota\";q={};", mark(rpu, neighbours));
        wait_until("the new listener", PATIENCE, || {
            // Envoy resets a connection that a worker accepts while its listener changes.
            let response = gateway.get("/", &[]).ok()?;
            response.header("ratelimit-policy").is_some_and(|policy| policy.contains(&shown)).then_some(())
        })
        .unwrap();
    });
}
