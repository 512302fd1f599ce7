//! Requests that end before the store's reply or before their own response: their charges are
//! refunded.

use super::{Carrier, PATIENCE, Shared, shared_rule};
use gateway::{Config, Connection, Gateway, wait_until};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

over_each_carrier!(
    a_request_that_leaves_during_a_query_is_refunded,
    permits_come_back_to_redis_after_hang_ups,
    a_request_that_leaves_its_queue_refunds_its_turn_to_redis
);

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\nx-user-id: ann\r\n\r\n")
}

fn active(gateway: &Gateway, count: u64) {
    let active = || gateway.admin().counter("http.gateway.downstream_rq_active").ok();
    wait_until("requests to begin or end", PATIENCE, || (active()? == count).then_some(())).unwrap();
}

/// Waits until a request on the path, at either gateway, leaves this much quota.
fn left(gateways: &[Gateway], path: &str, name: &str, count: u64) {
    let starts = format!("\"{name}\";r={count};");
    let alone = format!("\"{name}\";r={count}");
    let mut last = String::new();
    for gateway in gateways {
        wait_until("the refund", PATIENCE, || {
            let answer = gateway.get(path, &[("x-user-id", "ann")]).ok()?;
            last = answer.header("ratelimit").unwrap_or_default().to_owned();
            (last.starts_with(&starts) || last == alone).then_some(())
        })
        .unwrap_or_else(|error| panic!("{path}: {error}; the last one: {last}"));
    }
}

/// Twenty clients disconnect before a reply: the store has charged them when it replies.
fn a_request_that_leaves_during_a_query_is_refunded(carrier: Carrier) {
    const GONE: usize = 20;
    let limits = json!([
        shared_rule("/bucket", "bucket", &json!({"rpu": 100, "unit": "7d"})),
        shared_rule("/leased", "leased", &json!({"rpu": 100, "unit": "7d", "lease": 10})),
        shared_rule("/permits", "permits", &json!({"algo": "C", "rpu": 100})),
        shared_rule("/window", "window", &json!({"algo": "W", "rpu": 100, "unit": "7d"})),
    ]);
    let shared = {
        let store = json!({"timeout": "10s", "in_flight": 4});
        Shared::by(carrier, store, &limits, |config| config)
    };
    // The store has the script, and all workers have connections to it.
    assert_eq!(shared.gateways[0].get("/window", &[("x-user-id", "bob")]).unwrap().status, 200);
    for path in ["/bucket", "/leased", "/permits", "/window"] {
        shared.redis.stop_answering().unwrap();
        let gone: Vec<Connection> = (0..GONE)
            .map(|number| {
                let mut connection = shared.gateways[number % 2].connect().unwrap();
                connection.send(get(path).as_bytes()).unwrap();
                connection
            })
            .collect();
        shared.gateways.iter().for_each(|gateway| active(gateway, GONE as u64 / 2));
        drop(gone);
        shared.gateways.iter().for_each(|gateway| active(gateway, 0));
        shared.redis.go_on().unwrap();
    }
    left(&shared.gateways, "/permits", "permits", 99);
    // Each check costs one unit.
    let passes = |path: &str| {
        let mut passed = 0;
        let mut tries = 0;
        wait_until("the refunded quota to pass", PATIENCE, || {
            let mut connection = shared.gateways[tries % 2].connect().unwrap();
            tries += 1;
            let ask = |connection: &mut Connection| {
                connection.request("GET", path, &[("x-user-id", "ann")], b"").unwrap().status
            };
            while ask(&mut connection) == 200 {
                passed += 1;
            }
            (passed >= 100).then_some(())
        })
        .unwrap_or_else(|error| panic!("{path}: {error}; {passed} passed"));
        passed
    };
    for path in ["/bucket", "/leased", "/window"] {
        assert_eq!(passes(path), 100, "{path}");
    }
}

/// At two gateways, half of whose clients disconnect at any point.
fn permits_come_back_to_redis_after_hang_ups(carrier: Carrier) {
    const PERMITS: u64 = 8;
    let limits = json!([shared_rule("/", "permits", &json!({"algo": "C", "rpu": PERMITS}))]);
    let shared = Shared::by(carrier, json!({}), &limits, |config| config);
    let (answered, hung_up) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for client in 0..32 {
            let (gateway, answered, hung_up) = (&shared.gateways[client % 2], &answered, &hung_up);
            scope.spawn(move || {
                for turn in 0..25 {
                    let mut connection = gateway.connect().unwrap();
                    if (client / 2 + turn) % 2 == 0 {
                        connection.send(get("/").as_bytes()).unwrap();
                        hung_up.fetch_add(1, Ordering::SeqCst);
                    } else {
                        let status =
                            connection.request("GET", "/", &[("x-user-id", "ann")], b"").unwrap().status;
                        assert!([200, 429].contains(&status), "{status}");
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    println!("{answered:?} were answered, {hung_up:?} hung up");
    left(&shared.gateways, "/", "permits", PERMITS - 1);
}

/// Requests that time out while they wait for a turn that a store gave them.
fn a_request_that_leaves_its_queue_refunds_its_turn_to_redis(carrier: Carrier) {
    const QUEUE: u64 = 20;
    let keys = json!({"algo": "LB", "rpu": QUEUE, "unit": "hour", "queue": QUEUE});
    let limits = json!([shared_rule("/", "turns", &keys)]);
    let route = json!({
        "match": {"prefix": "/"},
        "route": {"cluster": "upstream", "timeout": "0s", "idle_timeout": "2s"},
    });
    let change = |config| Config { routes: vec![route.clone()], ..config };
    let shared = Shared::by(carrier, json!({}), &limits, change);
    let ask = |gateway: &Gateway| gateway.get("/", &[("x-user-id", "ann")]).unwrap();
    assert_eq!(ask(&shared.gateways[0]).status, 200);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let waiting: Vec<_> = (0..QUEUE as usize + 2)
            .map(|number| {
                scope.spawn({
                    let gateway = &shared.gateways[number % 2];
                    move || ask(gateway).status
                })
            })
            .collect();
        waiting.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let of = |status: u16| statuses.iter().filter(|one| **one == status).count();
    println!(
        "of {} that came to a queue of {QUEUE} {} waited in vain and {} were refused",
        statuses.len(),
        of(504),
        of(429)
    );
    assert_eq!((of(504), of(429)), (QUEUE as usize, 2), "{statuses:?}");
    // The checking request itself takes a turn while it waits.
    let free = format!("\"turns\";r={}", QUEUE - 1);
    for gateway in &shared.gateways {
        let mut last = None;
        wait_until("the queue to be gone", PATIENCE, || {
            let answer = ask(gateway);
            let is_free = answer.header("ratelimit").is_some_and(|left| left.starts_with(&free));
            last = Some(answer);
            is_free.then_some(())
        })
        .unwrap_or_else(|error| panic!("{error}: {last:?}"));
    }
}
