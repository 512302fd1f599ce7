//! What Envoy's cluster does for a Redis, each by itself, with the settings of
//! `examples/global-redis/production.yaml`: a name behind DNS whose address changes, outlier
//! detection, and circuit breakers.

use crate::global::{PATIENCE, connections, degraded, in_redis, passed, shared_rule, wait_replicated};
use crate::production::example;
use gateway::{Config, Gateway, Redis, filter, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

const QUOTA: usize = 20;

/// The example's cluster without TLS, login and health checks, with this endpoint.
fn cluster(address: &str, port: u16) -> Value {
    let file: Value = serde_norway::from_str(&fs::read_to_string(example()).unwrap()).unwrap();
    let mut cluster = file["static_resources"]["clusters"][0].clone();
    let endpoint = json!({"address": {"socket_address": {"address": address, "port_value": port}}});
    cluster["load_assignment"]["endpoints"] = json!([{"lb_endpoints": [{"endpoint": endpoint}]}]);
    cluster["upstream_config"]["typed_config"].as_object_mut().unwrap().remove("bridge_config");
    for key in ["transport_socket", "health_checks"] {
        cluster.as_object_mut().unwrap().remove(key).unwrap();
    }
    cluster
}

/// A gateway that counts in this cluster, with further keys of the store.
fn start(cluster: Value, more: Value) -> [Gateway; 1] {
    filter::module().unwrap();
    let rule = json!({"algo": "W", "rpu": QUOTA, "unit": "7d"});
    let mut store = in_redis(more);
    store["redis"]["replicas"] = json!(1);
    let document = json!({"limits": [shared_rule("/", "quota", &rule)], "store": store});
    let clusters = vec![cluster];
    [Gateway::start(Config { balanced: true, clusters, ..Config::new(document) }).unwrap()]
}

/// One of Envoy's numbers about the cluster.
fn envoy_counted(gateways: &[Gateway], name: &str) -> u64 {
    gateways[0].admin().counter(&format!("cluster.redis.{name}")).unwrap()
}

/// Waits until both workers count in Redis.
fn wait_together(gateways: &[Gateway], when: &str) {
    let mut connections = connections(gateways, 4);
    let mut tries = 0;
    wait_until("all to count together", PATIENCE, || {
        let before = degraded(gateways, "quota");
        tries += 1;
        assert_eq!(passed(&mut connections, "/", &format!("{when} {tries}"), 8), 8);
        (degraded(gateways, "quota") == before).then_some(())
    })
    .unwrap_or_else(|error| panic!("{when}: {error}\n{}", gateways[0].logs()));
}

/// Answers each question about a name with 127.0.0.N, until `is_over`.
fn serve_names(socket: &UdpSocket, last: &AtomicU8, is_over: &AtomicBool) {
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut question = [0; 512];
    while !is_over.load(Ordering::SeqCst) {
        let Ok((length, client)) = socket.recv_from(&mut question) else { continue };
        // A header of 12 bytes, the name with a zero at its end, type and class.
        let end = 12 + question[12..length].iter().position(|byte| *byte == 0).unwrap() + 5;
        let is_ipv4 = question[end - 4..end] == [0, 1, 0, 1];
        let mut answer = question[..end].to_vec();
        // A response without error, with one question, and an answer if an IPv4 address is asked.
        answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, is_ipv4.into(), 0, 0, 0, 0]);
        if is_ipv4 {
            // The name of the question, of type A, for 0 s.
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
            answer.extend(Ipv4Addr::new(127, 0, 0, last.load(Ordering::SeqCst)).octets());
        }
        socket.send_to(&answer, client).unwrap();
    }
}

#[test]
fn the_gateway_follows_a_name_to_another_address() {
    let old = Redis::start_with(&["--repl-diskless-sync-delay", "0"]).unwrap();
    let port = old.port().to_string();
    let new = Redis::start_with(&["--bind", "127.0.0.2", "--port", &port]).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 2], old.port()));
    let url = format!("redis://{address}");
    let mut client = redis::Client::open(url).unwrap().get_connection().unwrap();
    redis::cmd("REPLICAOF").arg("127.0.0.1").arg(&port).exec(&mut client).unwrap();

    let names = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut cluster = cluster("redis.internal", old.port());
    assert_eq!(cluster["dns_refresh_rate"], "5s");
    cluster["dns_refresh_rate"] = json!("0.2s");
    let resolver = names.local_addr().unwrap().port();
    cluster["typed_dns_resolver_config"] = json!({
        "name": "envoy.network.dns_resolver.cares",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
            "resolvers": [{"socket_address": {"address": "127.0.0.1", "port_value": resolver}}],
            "dns_resolver_options": {"no_default_search_domain": true},
        },
    });
    let (last, is_over) = (AtomicU8::new(1), AtomicBool::new(false));
    thread::scope(|scope| {
        let _ending = crate::machine::Ending(&is_over);
        scope.spawn(|| serve_names(&names, &last, &is_over));
        let gateways = start(cluster, json!({"timeout": "5s"}));
        wait_together(&gateways, "start");
        let mut connections = connections(&gateways, 4);
        assert_eq!(passed(&mut connections, "/", "ann", QUOTA / 2), QUOTA / 2);
        wait_replicated(&old, "written", 1);
        redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec(&mut client).unwrap();
        let keys = |client: &mut redis::Connection| redis::cmd("DBSIZE").query::<u64>(client).unwrap();
        let before = keys(&mut client);
        last.store(2, Ordering::SeqCst);
        // Both answer, so only the name leads from one to the other.
        let mut tries = 0;
        wait_until("both workers to have moved", PATIENCE, || {
            tries += 1;
            let known = keys(&mut client);
            for index in 0..connections.len() {
                assert_eq!(passed(&mut connections[index..=index], "/", &format!("{tries} {index}"), 1), 1);
            }
            (keys(&mut client) == known + connections.len() as u64).then_some(())
        })
        .unwrap();
        assert!(keys(&mut client) > before);
        let left = keys(&mut crate::global::client(&old));
        assert_eq!(passed(&mut connections, "/", "ann", QUOTA), QUOTA / 2);
        assert_eq!(passed(&mut connections, "/", "ben", 2 * QUOTA), QUOTA);
        assert_eq!(keys(&mut crate::global::client(&old)), left);
        assert_eq!(degraded(&gateways, "quota"), 0);
    });
    drop(new);
}

#[test]
fn outlier_detection_ejects_a_silent_redis() {
    let redis = Redis::start().unwrap();
    let gateways = start(cluster("127.0.0.1", redis.port()), json!({"timeout": "400ms"}));
    wait_together(&gateways, "start");
    redis.stop_answering().unwrap();
    let mut connections = connections(&gateways, 4);
    let mut tries = 0;
    wait_until("an ejection, and a call that fails at once", PATIENCE, || {
        tries += 1;
        assert_eq!(passed(&mut connections, "/", &format!("silent {tries}"), 8), 8);
        let ejected = envoy_counted(&gateways, "outlier_detection.ejections_enforced_consecutive_5xx");
        (ejected > 0 && envoy_counted(&gateways, "upstream_cx_none_healthy") > 0).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", gateways[0].logs()));
    redis.go_on().unwrap();
    wait_together(&gateways, "back");
    assert_eq!(passed(&mut connections, "/", "ann", 2 * QUOTA), QUOTA);
}

#[test]
fn circuit_breakers_bound_the_calls_under_way() {
    let redis = Redis::start().unwrap();
    let mut cluster = cluster("127.0.0.1", redis.port());
    let thresholds = &mut cluster["circuit_breakers"]["thresholds"][0];
    for key in ["max_connections", "max_pending_requests", "max_requests"] {
        assert!(thresholds[key].is_number());
        thresholds[key] = json!(1);
    }
    let gateways = start(cluster, json!({"timeout": "2s", "in_flight": 8}));
    wait_together(&gateways, "start");
    let overflows = || envoy_counted(&gateways, "upstream_rq_pending_overflow");
    let before = overflows();
    redis.stop_answering().unwrap();
    thread::scope(|scope| {
        for (index, mut connection) in connections(&gateways, 8).into_iter().enumerate() {
            scope.spawn(move || {
                let user = format!("silent {index}");
                assert_eq!(passed(std::slice::from_mut(&mut connection), "/", &user, 1), 1);
            });
        }
        wait_until("a call that fails at once", PATIENCE, || (overflows() > before).then_some(())).unwrap();
        redis.go_on().unwrap();
    });
    wait_together(&gateways, "back");
    let mut connections = connections(&gateways, 4);
    assert_eq!(passed(&mut connections, "/", "ann", 2 * QUOTA), QUOTA);
}
