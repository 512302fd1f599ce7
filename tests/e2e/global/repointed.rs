//! The address of the store moves to another Redis while the connections to the old one stay open,
//! as when a Service, a virtual address or a managed endpoint is repointed. No worker may stay with
//! the old server.

use super::proxy::Proxy;
use super::{PATIENCE, ask, client, in_redis, shared_rule, store_counted, wait_replicated};
use gateway::config::bridged;
use gateway::{Carrier, Config, Connection, Gateway, Redis, filter, wait_until};
use serde_json::json;
use std::thread;

over_each_carrier!(a_demoted_server_is_left_by_all_workers, one_of_two_servers_that_is_demoted_is_left);

/// Calls that a worker makes at once, and so connections that its pool may hold.
const AT_ONCE: usize = 4;

fn a_demoted_server_is_left_by_all_workers(carrier: Carrier) {
    all_workers_leave(carrier, None);
}

fn one_of_two_servers_that_is_demoted_is_left(carrier: Carrier) {
    all_workers_leave(carrier, Some(&Redis::start().unwrap()));
}

/// The first server is demoted. With `another`, which is not, each of them counts a part of the
/// users.
fn all_workers_leave(carrier: Carrier, another: Option<&Redis>) {
    let (first, second) = (Redis::start().unwrap(), Redis::start().unwrap());
    let replicate = |from: &Redis, of: &str, port: &str| {
        redis::cmd("REPLICAOF").arg(of).arg(port).exec(&mut client(from)).unwrap();
    };
    replicate(&second, "127.0.0.1", &first.port().to_string());
    wait_replicated(&first, "written", 1);
    let proxy = Proxy::start(first.address());
    let mut store = json!({"in_flight": AT_ONCE, "replicas": 1});
    let mut clusters = Vec::new();
    if let Some(another) = another {
        store["clusters"] = json!([Carrier::CLUSTER, "another"]);
        filter::module().unwrap();
        clusters.push(bridged("another", another.address(), &json!({})));
    }
    let document = json!({
        "limits": [shared_rule("/", "quota", &json!({"algo": "W", "rpu": 1_000, "unit": "7d", "on_error": "deny"}))],
        "store": in_redis(store),
    });
    let config = Config { balanced: true, clusters, ..Config::new(document) };
    let gateway = Gateway::start(carrier.lead(config, proxy.address(), &json!({})).unwrap()).unwrap();
    let gateways = std::slice::from_ref(&gateway);
    let mut connections = super::connections(gateways, 8);

    // While Redis stands still, calls pile up, so the pools fill. Either server counts some of the
    // users of each connection.
    let passes = |connection: &mut Connection, user: &str| {
        connection.request("GET", "/", &[("x-user-id", user)], b"").unwrap().status == 200
    };
    let users = if another.is_some() { 8 } else { 1 };
    let all_pass = |connections: &mut [Connection], when: &str| {
        thread::scope(|scope| {
            let asked: Vec<_> = connections
                .iter_mut()
                .enumerate()
                .map(|(at, connection)| {
                    let user = move |number| format!("{when} {at} {number}");
                    scope.spawn(move || (0..users).map(user).filter(|user| passes(connection, user)).count())
                })
                .collect();
            let passed: Vec<usize> = asked.into_iter().map(|asked| asked.join().unwrap()).collect();
            passed.iter().all(|passed| *passed == users)
        })
    };
    wait_until("the first server to count", PATIENCE, || all_pass(&mut connections, "first").then_some(()))
        .unwrap();
    if carrier == Carrier::Bridge {
        wait_until("several connections", PATIENCE, || {
            all_pass(&mut connections, "first");
            (of_the_proxy(&first) > 2).then_some(())
        })
        .unwrap();
    }

    replicate(&second, "NO", "ONE");
    replicate(&first, "127.0.0.1", &second.port().to_string());
    proxy.repoint(second.address());
    // Every worker meets the old server once.
    wait_until("the old server to refuse", PATIENCE, || {
        all_pass(&mut connections, "meanwhile");
        (store_counted(gateways, "failed_calls") >= 2).then_some(())
    })
    .unwrap_or_else(|error| {
        if carrier == Carrier::Bridge {
            panic!("{error}")
        }
    });
    wait_until("all workers to count in the new server", PATIENCE, || {
        all_pass(&mut connections, "last").then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", gateway.logs()));
    if let Some(another) = another {
        let keys = |redis| ask(redis, |client| redis::cmd("DBSIZE").query::<usize>(client));
        assert!(keys(another) > 1 && keys(&second) > 1, "each server counts some users");
    }
    wait_until("all connections to the old server to end", PATIENCE, || {
        (of_the_proxy(&first) == 0).then_some(())
    })
    .unwrap();
    if carrier == Carrier::Bridge {
        // The filter may see only a failed call, so the bridge tells the reason.
        assert!(gateway.log_contains("Redis answers `READONLY"), "{}", gateway.logs());
    }
}

/// How many connections a Redis serves that have called the script.
fn of_the_proxy(redis: &Redis) -> usize {
    let list: String =
        ask(redis, |client| redis::cmd("CLIENT").arg("LIST").arg("TYPE").arg("normal").query(client));
    list.lines().filter(|line| line.contains("cmd=eval")).count()
}
