//! The examples of stores and document servers, as they are in `examples`.

mod compose;
mod func_e;
pub mod hosted;
mod release;

use gateway::{Config, Gateway, Redis, free_port, root, wait_until};
use serde_json::Value;
use servers::Documents;
use std::fs;
use std::time::{Duration, Instant};

/// The gateway of an example, with its server at another port. A store's timeout is long, because a
/// test machine may be busy.
fn example(name: &str, store: (u16, u16)) -> Gateway {
    let file = root().join("examples").join(name).join("envoy.yaml");
    let port = |number| if number == store.0 { store.1 } else { free_port().unwrap() };
    let text = fs::read_to_string(file).unwrap().replace("timeout: 50ms", "timeout: 5s");
    Gateway::from_text(&text, port).unwrap()
}

/// The document of `global-redis/envoy.yaml`.
fn document() -> Value {
    let text = fs::read_to_string(root().join("examples/global-redis/envoy.yaml")).unwrap();
    let file: Value = serde_norway::from_str(&text.replace("timeout: 50ms", "timeout: 5s")).unwrap();
    let manager = &file["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"];
    manager["http_filters"][0]["typed_config"]["config"]["configuration"]["value"].clone()
}

/// How many of `count` requests of a user pass, at the gateways in turn.
fn passed(gateways: &[Gateway], user: &str, count: usize) -> usize {
    let mut connections: Vec<_> = gateways.iter().map(|gateway| gateway.connect().unwrap()).collect();
    let mut passes = |index: usize| {
        let turn = index % connections.len();
        let answer = connections[turn].request("GET", "/api", &[("x-user-id", user)], b"").unwrap();
        answer.status == 200
    };
    (0..count).filter(|index| passes(*index)).count()
}

#[test]
fn two_gateways_count_in_one_redis() {
    let mut redis = Redis::start().unwrap();
    let gateways = [(); 2].map(|()| example("global-redis", (6379, redis.port())));
    let start = Instant::now();
    let count = passed(&gateways, "ann", 300);
    // A token refills every 0.6 s.
    let most = 100 + (start.elapsed().as_millis() / 600) as usize + 1;
    assert!((100..=most).contains(&count), "{count} passed, from 100 to {most} may");
    assert_eq!(passed(&gateways, "bob", 10), 10, "another user");
    let searched = gateways[0].get("/search", &[("x-user-id", "ann")]).unwrap();
    assert_eq!(searched.status, 200);
    let log_in = || gateways[1].request("POST", "/login", &[], b"").unwrap().status;
    assert_eq!(log_in(), 200);
    redis.kill();
    assert_ne!(log_in(), 200, "denied while nobody counts");
    let alone = passed(&gateways[..1], "carl", 150);
    assert!((50..100).contains(&alone), "{alone} passed, of half of the limit");
}

/// The same gateways with a tunnel in place of the bridge, each through a socket of its own.
#[test]
fn two_gateways_count_through_the_tunnel_of_the_example() {
    let redis = Redis::start().unwrap();
    let text = fs::read_to_string(root().join("examples/global-redis/tunnel.yaml")).unwrap();
    // Relative to the folder of Envoy.
    let text = text.replace("/run/envoy/", "").replace("6379", &redis.port().to_string());
    let tunnel: Value = serde_norway::from_str(&text).unwrap();
    let parts = |name: &str| tunnel["static_resources"][name].as_array().unwrap().clone();
    let gateways = [(); 2].map(|()| {
        let (clusters, listeners) = (parts("clusters"), parts("listeners"));
        Gateway::start(Config { clusters, listeners, ..Config::new(document()) }).unwrap()
    });
    let count = passed(&gateways, "ann", 150);
    assert!((100..150).contains(&count), "{count}");
    let failed = |gateway: &Gateway| gateway.counted("store.redis.failed_calls").unwrap();
    assert_eq!(gateways.iter().map(failed).sum::<u64>(), 0);
}

/// The metrics of the example in Prometheus' format.
#[test]
fn a_document_comes_from_a_server() {
    let text = fs::read_to_string(root().join("examples/remote-config/documents/diana.json")).unwrap();
    let documents = Documents::start().unwrap();
    let gateway = example("remote-config", (8080, documents.address().port()));
    let policy = || gateway.get("/", &[]).unwrap().header("ratelimit-policy").unwrap_or_default().to_owned();
    let wait = |expected: &str| {
        let found = || policy().starts_with(expected).then_some(());
        wait_until(expected, Duration::from_secs(20), found).unwrap_or_else(|error| panic!("{error}"));
    };
    assert!(policy().starts_with("\"per-ip\";q=10;w=1"), "{}", policy());
    let generation = || gateway.stats().unwrap().value("diana_config_generation", &[]);
    assert_eq!(generation(), Some(0.0));
    let switches = || gateway.stats().unwrap().sum("diana_config_switches", &[]);
    let begun = switches();
    documents.put(text.clone());
    // Two workers and the main thread; a connection reaches any of them.
    let all = || (switches() == begun + 3).then_some(());
    wait_until("all workers to take it", Duration::from_secs(20), all).unwrap();
    wait("\"per-ip\";q=20;w=1");
    let log_in = || gateway.request("POST", "/login", &[], b"").unwrap().status;
    assert_eq!((0..6).filter(|_| log_in() == 200).count(), 5);
    documents.put(text.replace("\"rpu\": 20", "\"rpu\": 2"));
    wait("\"per-ip\";q=2;w=1");
    documents.put(text[..50].to_owned());
    let stats = || gateway.stats().unwrap();
    let polls = |result: &str| stats().sum("diana_config_polls", &[("result", result)]);
    wait_until("the bad one", Duration::from_secs(20), || (polls("refused") > 0).then_some(())).unwrap();
    assert_eq!((polls("fresh"), generation()), (2, Some(2.0)));
    assert!(gateway.log_contains("remote configuration of cluster files refused: "));
}
