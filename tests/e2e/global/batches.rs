//! Batches: queries of several requests in one call, and requests with rules of both scopes.

use super::{Carrier, Shared, connections, shared_rule};
use gateway::{Config, Connection, Gateway, Load, Received, Reply, Response, Shot, Upstream};
use serde_json::json;
use std::collections::BTreeMap;
use std::thread;

over_each_carrier!(simultaneous_requests_share_a_call);

/// If each request needs a query, requests that arrive during a call go in the next call.
fn simultaneous_requests_share_a_call(carrier: Carrier) {
    const EACH: u64 = 10_000;
    let keys = json!({"algo": "W", "rpu": 1_000_000, "unit": "7d", "lease": 0});
    let limits = json!([shared_rule("/", "quota", &keys)]);
    let shared = Shared::by(carrier, json!({}), &limits, |config| config);
    let load = |gateway: &Gateway| {
        let load = Load { connections: 50, ..Load::requests(EACH) };
        gateway.load(load, |index| Shot::get("/").header("x-user-id", format!("{}", index % 100))).unwrap()
    };
    let passed: u64 = thread::scope(|scope| {
        let loads: Vec<_> =
            shared.gateways.iter().map(|gateway| scope.spawn(move || load(gateway))).collect();
        loads.into_iter().map(|load| load.join().unwrap().status(200)).sum()
    });
    let of = |what: &str| shared.store_counted(what);
    let (calls, queries) = (of("calls"), of("queries"));
    let made = |gateway: &Gateway| gateway.admin().counter("cluster.redis.upstream_rq_total").unwrap();
    let made: u64 = shared.gateways.iter().map(made).sum();
    println!(
        "{passed} requests, {queries} queries in {calls} calls: {:.1} a call",
        queries as f64 / calls as f64
    );
    // A call without the script is repeated with it.
    assert_eq!((passed, calls), (2 * EACH, made));
    assert!((2 * EACH..=2 * EACH + 500).contains(&queries), "{queries}");
    assert!(queries > 2 * calls, "{queries} queries in {calls} calls");
    assert_eq!(of("failed_calls"), 0);
}

/// All keys and their values.
fn counts(shared: &Shared) -> BTreeMap<String, Vec<u8>> {
    let mut client = shared.client();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut client).unwrap();
    let dump = |key: String| {
        let value = redis::cmd("DUMP").arg(&key).query::<Vec<u8>>(&mut client).unwrap();
        (key, value)
    };
    keys.into_iter().map(dump).collect()
}

fn ask(connection: &mut Connection, user: &str) -> Response {
    connection.request("GET", "/", &[("x-user-id", user)], b"").unwrap()
}

#[test]
fn a_local_refusal_queries_no_store() {
    let here = json!({"name": "here", "actor": "user", "rpu": 5, "unit": "7d", "algo": "W"});
    let mut limit = shared_rule("/", "there", &json!({"algo": "W", "rpu": 100, "unit": "7d"}));
    limit["rules"].as_array_mut().unwrap().push(here);
    let shared = Shared::start(&json!([limit]));
    let mut connections = connections(&shared.gateways[..1], 4);
    let passed = (0..5).filter(|turn| ask(&mut connections[turn % 4], "ann").status == 200).count();
    let queries = || shared.store_counted("queries");
    let (before, queries_before) = (counts(&shared), queries());
    assert_eq!((passed, before.len()), (5, 1));
    for turn in 0..20 {
        let refused = ask(&mut connections[turn % 4], "ann");
        assert!(refused.status == 429 && refused.text().contains(r#"["here"]"#), "{}", refused.text());
    }
    assert_eq!((counts(&shared), queries()), (before, queries_before));
}

#[test]
fn a_refusal_by_the_store_is_not_charged_locally() {
    let here = json!({"name": "here", "rpu": 100, "unit": "7d", "algo": "W"});
    let mut limit = shared_rule("/", "there", &json!({"algo": "W", "rpu": 5, "unit": "7d"}));
    limit["rules"].as_array_mut().unwrap().push(here);
    let shared = Shared::start(&json!([limit]));
    let mut connections = connections(&shared.gateways[..1], 4);
    for turn in 0..20 {
        let answer = ask(&mut connections[turn % 4], "ann");
        assert_eq!(answer.status, if turn < 5 { 200 } else { 429 }, "{turn}");
    }
    let left = ask(&mut connections[0], "bob").header("ratelimit").unwrap_or_default().to_owned();
    assert!(left.contains("\"here\";r=94") && left.contains("\"there\";r=4"), "{left}");
}

/// Each of many requests that share a reply gets its own verdict, and so does the access log.
#[test]
fn each_request_gets_its_own_reply() {
    const USERS: u64 = 50;
    let limits = json!([
        shared_rule("=/few", "few", &json!({"algo": "W", "rpu": 2, "unit": "7d"})),
        shared_rule("=/many", "many", &json!({"algo": "W", "rpu": 5, "unit": "7d"})),
    ]);
    let log = "%REQ(X-USER-ID)% %REQ(:PATH)% %RESPONSE_CODE% %FILTER_STATE(wasm.diana.rule:PLAIN)% %RESPONSE_CODE_DETAILS%";
    let change = |config| Config { access_log: Some(log.into()), ..config };
    let shared = Shared::with(json!({}), &limits, change);
    let gateway = &shared.gateways[0];
    let load = Load { connections: 50, ..Load::requests(USERS * 20) };
    let path = |index: u64| if (index / USERS).is_multiple_of(2) { "/few" } else { "/many" };
    let shot = |index| Shot::get(path(index)).header("x-user-id", format!("{}", index % USERS));
    assert_eq!(gateway.load(load, shot).unwrap().status(200), USERS * 7);
    let mut lines = BTreeMap::<String, u64>::new();
    for line in gateway.access_log_of((USERS * 20) as usize).unwrap() {
        *lines.entry(line).or_default() += 1;
    }
    for user in 0..USERS {
        for (rule, rpu) in [("few", 2), ("many", 5)] {
            let of = |rest: &str| lines.remove(&format!("{user} /{rule} {rest}"));
            let [passed, refused] =
                ["200 - via_upstream", &format!("429 {rule} diana_refused:{rule}")].map(of);
            assert_eq!((passed, refused), (Some(rpu), Some(10 - rpu)), "{user}, {rule}: {lines:#?}");
        }
    }
    assert!(lines.is_empty(), "{lines:#?}");
}

/// Also a body that Envoy cannot buffer whole, and with a callback for the body of a request whose
/// headers wait.
#[test]
fn a_body_waits_with_its_request() {
    let limits = json!([shared_rule("/", "quota", &json!({"algo": "W", "rpu": 4, "unit": "7d"}))]);
    for (stop_iteration, length) in [(false, 3 << 20), (true, 300 << 10)] {
        let echo = |request: &Received| Reply::new(200, request.body.len().to_string());
        let upstream = Upstream::start(echo).unwrap();
        let change = |config| Config { stop_iteration, upstream: Some(upstream.address()), ..config };
        let shared = Shared::with(json!({}), &limits, change);
        let body = vec![b'x'; length];
        for turn in 0..5 {
            let gateway = &shared.gateways[turn % 2];
            let answer = gateway.request("POST", "/", &[("x-user-id", "ann")], &body).unwrap();
            match turn < 4 {
                true => assert_eq!((answer.status, answer.text()), (200, length.to_string())),
                false => assert_eq!(answer.status, 429),
            }
        }
    }
}
