//! The native module among the filters of a cluster. There it also meets requests that Envoy's main
//! thread sends, such as the module's own calls.

use crate::global::{PATIENCE, in_redis};
use gateway::config::cluster;
use gateway::{
    Carrier, Config, Gateway, Load, Received, Redis, Reply, Shell, Shot, Tunnel, Upstream, upstream_filters,
    wait_until,
};
use serde_json::{Value, json};

/// A cluster with the module among its filters.
fn filtered(mut cluster: Value, document: &Value) -> Value {
    cluster["typed_extension_protocol_options"] = upstream_filters(document.clone());
    cluster
}

/// Counts everything, without a limit.
fn counter(name: &str) -> Value {
    json!({"name": name, "algo": "W", "rpu": "1M", "unit": "7d"})
}

/// All configurations share one `filter_name`, so that a worker and the main thread would share a
/// VM if Envoy's number of the worker selected it.
#[test]
fn requests_of_workers_and_of_the_main_thread_are_limited_at_once() {
    const REQUESTS: u64 = 3_000;
    let redis = Redis::start().unwrap();
    let rules = json!([{
        "name": "shared", "actor": "user", "algo": "W", "rpu": "1M", "unit": "7d", "scope": "global", "on_error": "deny",
    }]);
    let limits = json!([{"url": "/", "rules": rules}]);
    let document = json!({"limits": limits}).to_string();
    let documents = Upstream::start(move |_: &Received| Reply::new(200, document.clone())).unwrap();
    let listener = json!({
        "limits": limits,
        "store": in_redis(json!({"timeout": "5s"})),
        "remote": {"cluster": "documents", "path": "/", "interval": "100ms"},
    });
    // Calls to the store wait for their turns, so that the main thread has waiting streams.
    let turns = json!({"name": "even", "algo": "LB", "rpu": 1_000, "unit": "second", "queue": 200});
    let store = json!({"limits": [
        {"url": "/", "rules": [counter("store")]},
        {"url": "=/", "methods": "POST", "rules": [turns]},
    ]});
    let polls = json!({"limits": [{"url": "/", "rules": [counter("polls")]}]});
    let mut config = Config { shell: Shell::Native, balanced: true, ..Config::new(listener) };
    let tunnel = Tunnel { name: "tunnel".into(), redis: cluster("redis-itself", redis.address(), false) };
    config.clusters.push(filtered(tunnel.cluster(Carrier::CLUSTER), &store));
    config.clusters.push(filtered(cluster("documents", documents.address(), false), &polls));
    config.tunnels.push(tunnel);
    config.routes.push(json!({"match": {"prefix": "/ping"}, "route": {"cluster": Carrier::CLUSTER}}));
    let gateway = Gateway::start(config).unwrap();
    let polled = documents.requests();
    let shot = |index: u64| {
        let shot = match index.is_multiple_of(2) {
            true => Shot::get("/"),
            false => Shot { method: "POST", body: b"PING\r\n".to_vec(), ..Shot::get("/ping") },
        };
        shot.header("x-user-id", format!("user-{}", index % 8))
    };
    let report = gateway.load(Load::requests(REQUESTS), shot).unwrap();
    assert_eq!((report.status(200), report.lost), (REQUESTS, 0), "{report:?}\n{}", gateway.logs());
    wait_until("polls by the main thread", PATIENCE, || (documents.requests() > polled + 5).then_some(()))
        .unwrap();
    let [counted_calls, counted_polls] =
        ["store", "polls"].map(|rule| gateway.counted(&format!("rule.{rule}.result.ok.requests")).unwrap());
    let calls = gateway.admin().counter("cluster.redis.upstream_rq_total").unwrap();
    println!(
        "{REQUESTS} requests, {} requests of the store's cluster, {} polls",
        calls,
        documents.requests()
    );
    assert_eq!(counted_calls, calls, "each request of the cluster is counted once");
    assert!(calls > REQUESTS / 2 && counted_polls > 5 && counted_polls <= documents.requests());
    assert_eq!(gateway.stats().unwrap().sum("diana_panics", &[]), 0);
    assert_eq!(gateway.get("/", &[("x-user-id", "user-0")]).unwrap().status, 200);
}

/// A refusal of the cluster's filter is the answer to the main thread's call.
#[test]
fn the_main_thread_is_refused_too() {
    let polls = json!({"limits": [{"url": "/", "rules": [
        {"name": "polls", "algo": "W", "rpu": 2, "unit": "7d"},
    ]}]});
    let document = json!({"limits": []}).to_string();
    let documents = Upstream::start(move |_: &Received| Reply::new(200, document.clone())).unwrap();
    let listener =
        json!({"limits": [], "remote": {"cluster": "documents", "path": "/", "interval": "100ms"}});
    let mut config = Config { shell: Shell::Native, ..Config::new(listener) };
    config.clusters.push(filtered(cluster("documents", documents.address(), false), &polls));
    let gateway = Gateway::start(config).unwrap();
    let refused = || gateway.counted("rule.polls.result.refused.requests").ok().filter(|count| *count > 2);
    wait_until("refused polls", PATIENCE, refused).unwrap();
    assert_eq!(documents.requests(), 2);
    assert_eq!(gateway.get("/", &[]).unwrap().status, 200);
}
