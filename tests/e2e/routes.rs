//! Documents of routes, which only the native module has: a route's document lies over the
//! listener's.

use crate::global::{PATIENCE, client, in_redis};
use gateway::{
    Carrier, Config, Connection, Gateway, Plugin, Redis, Response, Shell, Update, per_filter_config,
    wait_until,
};
use redis::Commands;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// A route of everything below `prefix`, with this document.
fn route(prefix: &str, document: impl Into<Plugin>) -> Value {
    json!({
        "match": {"prefix": prefix},
        "route": {"cluster": "upstream"},
        "typed_per_filter_config": per_filter_config(document),
    })
}

/// A gateway with the native module, whatever this run is for.
fn native(listener: Value, routes: Vec<Value>) -> Config {
    Config { shell: Shell::Native, routes, rds: true, ..Config::new(listener) }
}

fn start(listener: Value, routes: Vec<Value>) -> Gateway {
    Gateway::start(native(listener, routes)).unwrap()
}

/// A limit on everything with one rule `name` by user.
fn limit(name: &str, rpu: u64) -> Value {
    json!({"url": "/", "rules": [{"name": name, "actor": "user", "algo": "W", "rpu": rpu, "unit": "7d"}]})
}

fn get(gateway: &Gateway, path: &str, user: &str) -> Response {
    gateway.get(path, &[("x-user-id", user)]).unwrap()
}

/// The rule in whose name the gateway responds.
fn rule(gateway: &Gateway, path: &str, user: &str) -> String {
    let response = get(gateway, path, user);
    let policy = response.header("ratelimit-policy").unwrap_or_default();
    policy.split('"').nth(1).unwrap_or_default().to_owned()
}

/// How many of `count` requests of a user pass, over several connections.
fn passed(gateway: &Gateway, path: &str, user: &str, count: usize) -> usize {
    (0..count).filter(|_| get(gateway, path, user).status == 200).count()
}

fn panics(gateway: &Gateway) -> u64 {
    gateway.stats().unwrap().sum("diana_panics", &[])
}

#[test]
fn each_key_of_a_routes_document_replaces_the_listeners() {
    let listener = json!({"limits": [limit("everywhere", 2)], "deny": [{"user": "mallory"}]});
    let routes = vec![
        route("/few", json!({"limits": [limit("few", 1)]})),
        route("/open", Plugin::Struct(json!({"deny": [], "limits": [limit("open", 5)]}))),
        // A route without a document.
        json!({"match": {"prefix": "/none"}, "route": {"cluster": "upstream"}}),
    ];
    let gateway = start(listener, routes);
    for (path, name, quota) in
        [("/few", "few", 1), ("/open", "open", 5), ("/none", "everywhere", 2), ("/", "everywhere", 0)]
    {
        assert_eq!(passed(&gateway, path, "ann", 9), quota, "{path}");
        assert_eq!(rule(&gateway, path, "bob"), name, "{path}");
    }
    assert_eq!(get(&gateway, "/few", "mallory").status, 429, "the listener's list stays");
    assert_eq!(get(&gateway, "/open", "mallory").status, 200, "the route's list replaces it");
    assert_eq!(gateway.counted("rule.few.result.refused.requests").unwrap(), 8);
    assert_eq!(panics(&gateway), 0);
}

/// Only requests on the route wait for their bodies, by the route's own `request_body`.
#[test]
fn a_route_may_need_parts_of_bodies() {
    let listener =
        json!({"limits": [limit("everywhere", 9)], "actors": {"model": {"request_json": "/model"}}});
    let model = json!({"name": "model", "actor": "model", "missing": "deny", "rpu": 1, "unit": "day"});
    let document = json!({"request_body": {"max": 20}, "limits": [{"url": "/", "rules": [model]}]});
    let gateway = start(listener, vec![route("/chat", document)]);
    let post = |path: &str, body: &str| {
        let headers = [("content-type", "application/json"), ("x-user-id", "ann")];
        gateway.request("POST", path, &headers, body.as_bytes()).unwrap().status
    };
    let (small, large) = (r#"{"model":"small"}"#, r#"{"model":"very large"}"#);
    assert_eq!([post("/chat", small), post("/chat", small), post("/chat", large)], [200, 429, 429]);
    assert_eq!([post("/", small), post("/", small)], [200; 2]);
    assert_eq!(panics(&gateway), 0);
}

/// A name is an identity: equal numbers do not make two rules one.
#[test]
fn rules_of_different_names_on_two_routes_share_no_count() {
    let listener = json!({"limits": [limit("everywhere", 1_000)]});
    let routes = [("/down", "downloads"), ("/up", "uploads"), ("/more", "uploads")]
        .map(|(prefix, name)| route(prefix, json!({"limits": [limit(name, 2)]})));
    let gateway = start(listener, routes.to_vec());
    assert_eq!(passed(&gateway, "/down", "ann", 3), 2);
    assert_eq!(passed(&gateway, "/up", "ann", 1), 1, "of `uploads`");
    assert_eq!(passed(&gateway, "/more", "ann", 3), 1, "equal documents count together");
    assert_eq!(panics(&gateway), 0);
}

/// The rules of one limit for one actor share a cell, in all documents that have the same ones.
#[test]
fn what_both_documents_say_alike_counts_together() {
    let other =
        json!({"url": "/r", "rules": [{"name": "other", "actor": "ip", "rpu": 1000, "unit": "hour"}]});
    let listener = json!({"limits": [limit("same", 4)]});
    let routes = vec![
        route("/r/shadow", json!({"limits": [limit("same", 4), other]})),
        route("/r/access", json!({"access_log": "all"})),
        route("/r/apart", json!({"limits": [limit("same", 5)]})),
    ];
    let gateway = start(listener, routes);
    for path in ["/", "/r/shadow", "/r/access", "/r/shadow"] {
        assert_eq!(get(&gateway, path, "ann").status, 200, "{path}");
    }
    for path in ["/", "/r/shadow", "/r/access"] {
        assert_eq!(get(&gateway, path, "ann").status, 429, "{path}");
    }
    assert_eq!(passed(&gateway, "/r/apart", "ann", 9), 5, "another quota counts apart, from the start");
}

#[test]
fn a_wrong_document_of_a_route_is_refused_with_its_mistakes() {
    let listener = json!({"limits": [limit("everywhere", 9)]});
    let mut gateway = start(listener, vec![route("/r", json!({"limits": [limit("first", 2)]}))]);
    assert_eq!(get(&gateway, "/r", "ann").status, 200);
    for (document, reason) in [
        (
            json!({"limits": [limit("first", 2)], "store": {}}),
            "store: a route's document cannot say where counts",
        ),
        (json!({"url": "/", "rules": [{"rpu": 1, "unit": "secnd"}]}), "rules[0].unit: unknown unit `secnd`"),
        (json!({}), "it sets nothing: expected `limits`"),
    ] {
        let update = gateway.reroute(vec![route("/r", document.clone())]).unwrap();
        assert!(matches!(update, Update::Rejected(_)), "{document}");
        assert!(gateway.log_contains(reason), "{document}: {}", gateway.logs());
    }
    assert_eq!(passed(&gateway, "/r", "ann", 5), 1, "the old route has its count");
    let changed = route("/r", json!({"limits": [limit("second", 3)]}));
    assert_eq!(gateway.reroute(vec![changed]).unwrap(), Update::Accepted);
    wait_until("the new route", PATIENCE, || (rule(&gateway, "/r", "bob") == "second").then_some(()))
        .unwrap();
    assert_eq!(panics(&gateway), 0);
}

/// Each worker finds this out by itself.
#[test]
fn a_document_that_does_not_fit_the_listeners_is_logged_once_and_the_listeners_decides() {
    let listener = json!({"limits": [limit("everywhere", 1_000)]});
    let unknown =
        json!({"url": "/", "rules": [{"name": "route", "actor": "tenant", "rpu": 1, "unit": "hour"}]});
    let document = json!({"limits": [unknown]});
    let routes = vec![route("/r", document.clone()), route("/same", document)];
    let mut gateway = Gateway::start(Config { balanced: true, ..native(listener, routes) }).unwrap();
    let all = |gateway: &Gateway| {
        let mut connections: Vec<Connection> = (0..4).map(|_| gateway.connect().unwrap()).collect();
        for connection in &mut connections {
            for path in ["/r", "/same"] {
                let response = connection.request("GET", path, &[("x-user-id", "ann")], b"").unwrap();
                assert!(
                    response.header("ratelimit-policy").is_some_and(|policy| policy.contains("everywhere"))
                );
            }
        }
    };
    all(&gateway);
    let refused = |gateway: &Gateway| gateway.logs().matches("configuration of a route refused").count();
    assert!(gateway.log_contains("limits[0].rules[0].actor: unknown actor `tenant`"), "{}", gateway.logs());
    assert_eq!(refused(&gateway), 1, "{}", gateway.logs());

    let defines =
        json!({"limits": [limit("everywhere", 1_000)], "actors": {"tenant": {"header": "x-tenant"}}});
    assert_eq!(gateway.update(defines.clone()).unwrap(), Update::Accepted);
    assert_eq!(rule(&gateway, "/r", "ann"), "route", "the new listener's document goes with it");

    let mut follows = defines;
    follows["remote"] = json!({"cluster": "upstream", "path": "/none"});
    assert_eq!(gateway.update(follows).unwrap(), Update::Accepted);
    all(&gateway);
    assert!(gateway.log_contains("the listener's document's remote: a route's document is laid over"));
    assert_eq!(refused(&gateway), 2, "{}", gateway.logs());
}

#[test]
fn requests_of_a_route_wait_and_ask_the_store() {
    let (redis, turns) =
        (Redis::start().unwrap(), json!({"algo": "LB", "rpu": 20, "unit": "second", "queue": 20}));
    let mut shaped = json!({"name": "shaped", "actor": "user"});
    shaped.as_object_mut().unwrap().extend(turns.as_object().unwrap().clone());
    let shared = json!({
        "name": "shared", "actor": "user", "algo": "W", "rpu": 3, "unit": "7d", "scope": "global", "on_error": "deny",
    });
    let listener = json!({
        "limits": [limit("everywhere", 1_000)],
        "store": in_redis(json!({})),
    });
    let routes = vec![
        route("/shaped", json!({"url": "/", "rules": [shaped]})),
        route("/shared", json!({"url": "/", "rules": [shared]})),
    ];
    let config = Carrier::Bridge.lead(native(listener, routes), redis.address(), &json!({})).unwrap();
    let gateways = [Gateway::start(config.clone()).unwrap(), Gateway::start(config).unwrap()];

    let begun = Instant::now();
    assert_eq!(passed(&gateways[0], "/shaped", "ann", 5), 5);
    assert!(begun.elapsed() >= Duration::from_millis(4 * 50), "{:?}", begun.elapsed());

    let both: usize = gateways.iter().map(|gateway| passed(gateway, "/shared", "ann", 5)).sum();
    assert_eq!(both, 3, "both gateways count in the listener's store");
    let keys: Vec<String> = client(&redis).keys("diana:*").unwrap();
    assert!(!keys.is_empty());
    assert_eq!(gateways.iter().map(panics).sum::<u64>(), 0);
}

/// A document of 2,000 overrides takes megabytes in each worker.
#[test]
fn what_a_document_takes_is_freed_with_its_route_and_with_its_listener() {
    let overrides = |from: usize| {
        let entry = |number: usize| (format!("user-{}", from + number), json!({"rpu": number + 2}));
        Value::Object((0..2_000).map(entry).collect())
    };
    let large = |version: usize| {
        let mut limit = limit(&format!("route-{version}"), 1_000);
        limit["rules"][0]["overrides"] = overrides(version * 10_000);
        vec![route("/r", json!({"limits": [limit]}))]
    };
    let listener = |version: u64| json!({"limits": [limit("everywhere", 1_000 + version)]});
    let mut gateway = Gateway::start(Config { balanced: true, ..native(listener(0), large(0)) }).unwrap();
    let use_it = |gateway: &Gateway, name: &str| {
        let mut connections: Vec<Connection> = (0..4).map(|_| gateway.connect().unwrap()).collect();
        let serves = |connection: &mut Connection| {
            let response = connection.request("GET", "/r", &[("x-user-id", "ann")], b"").unwrap();
            response.header("ratelimit-policy").is_some_and(|policy| policy.contains(&format!("\"{name}\"")))
        };
        wait_until("the new documents", PATIENCE, || connections.iter_mut().all(serves).then_some(()))
            .unwrap();
    };
    let mut sizes = Vec::new();
    for version in 1..=24 {
        assert_eq!(gateway.reroute(large(version)).unwrap(), Update::Accepted);
        use_it(&gateway, &format!("route-{version}"));
        sizes.push(gateway.rss_bytes().unwrap());
    }
    for version in 1..=6 {
        assert_eq!(gateway.update(listener(version)).unwrap(), Update::Accepted);
        use_it(&gateway, "route-24");
        sizes.push(gateway.rss_bytes().unwrap());
    }
    let mib: Vec<u64> = sizes.iter().map(|size| size / MIB).collect();
    println!("resident memory after each update, in MiB: {mib:?}");
    let (first, last) = (sizes[5], sizes[sizes.len() - 1]);
    assert!(last < first + 12 * MIB, "{mib:?}");
    assert_eq!(panics(&gateway), 0);
}
