//! The hop of the examples for Istio and Envoy Gateway: an Envoy between gateways and Redis, with
//! the bootstrap in the example's ConfigMap. The gateways' clusters have the names that Istio and
//! Envoy Gateway give them.

use super::{
    QUOTA, assert_alone, assert_together, connections, counted, gateways, in_redis, passed, quota,
    wait_together,
};
use crate::examples::hosted::Hosted;
use crate::manifests::{resources, secrets};
use gateway::config::cluster;
use gateway::{Config, Gateway, free_port, root};
use serde_json::{Value, json};
use std::fs;

/// The hop of an example, in front of this Redis.
fn hop(example: &str, redis: &Hosted) -> Gateway {
    let map = resources(&format!("{example}/redis-hop.yaml")).remove("ConfigMap").unwrap();
    let bootstrap = map["data"]["envoy.yaml"].as_str().unwrap().replace("0.0.0.0", "127.0.0.1");
    let bootstrap = bootstrap.replace("- name: redis-hop", "- name: gateway");
    let admin = "\nadmin: {address: {socket_address: {address: 127.0.0.1, port_value: 9901}}}\n";
    let bootstrap = [&*redis.replaced(&bootstrap), admin].concat();
    Gateway::from_text(&bootstrap, |port| if port == redis.port() { port } else { free_port().unwrap() })
        .unwrap()
}

/// The store in the last block of the example's README, whose secrets are variables.
fn store(example: &str) -> Value {
    let readme = fs::read_to_string(root().join("examples").join(example).join("README.md")).unwrap();
    let block = readme.rsplit("```yaml\n").next().unwrap().split("```").next().unwrap();
    let mut block: Value = serde_norway::from_str(block).unwrap();
    let mut store = block["store"]["redis"].take();
    store["replicas"] = json!(2);
    store
}

/// Two gateways with this store and this password. Calls to its cluster reach the hop.
fn by(store: Value, password: &str, hop: &Gateway) -> Vec<Gateway> {
    let mut cluster = cluster(store["cluster"].as_str().unwrap(), hop.address(), false);
    // As Envoy Gateway has it. The script is longer.
    cluster["per_connection_buffer_limit_bytes"] = json!(32_768);
    let document = json!({"limits": quota(), "store": in_redis(store)});
    let mut env = secrets();
    env[1].1 = password.to_owned();
    gateways(&document, |config| Config { clusters: vec![cluster.clone()], env: env.clone(), ..config })
}

fn count_through_the_hop(example: &str, name: &str) {
    let mut redis = Hosted::start();
    let hop = hop(example, &redis);
    let store = store(example);
    assert_eq!(store["cluster"], name);
    let right = by(store.clone(), Hosted::PASSWORD, &hop);
    wait_together(&right);
    assert_together(&right, "ann");
    redis.forget_script();
    assert_together(&right, "bob");
    // A gateway without the password reaches the hop, and nothing behind it.
    assert_alone(&by(store, "wrong", &hop), "ann");
    assert_eq!(passed(&mut connections(&right, 4), "/", "carl", 2 * QUOTA), QUOTA);
    assert_eq!(counted(&right, "rule.quota.degraded"), 0);
}

#[test]
fn gateways_of_istio_count_through_the_hop() {
    count_through_the_hop("istio", "outbound|8379||redis-hop.istio-system.svc.cluster.local");
}

#[test]
fn gateways_of_envoy_gateway_count_through_the_hop() {
    count_through_the_hop("envoy-gateway", "httproute/default/redis-hop/rule/0");
}
