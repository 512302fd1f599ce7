//! Requests that wait for their turn, and delayed refusals.

use crate::global::{in_redis, shared_rule};
use crate::{limits, start};
use gateway::config::cluster;
use gateway::{
    Carrier, Config, Connection, Gateway, Load, Received, Redis, Reply, Shell, Shot, Update, Upstream,
    wait_until,
};
use serde_json::{Value, json};
use servers::Processor;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A gateway in front of a server that records when each request arrives.
pub fn watched(document: Value, env: &[(&str, &str)]) -> Watched {
    let env: Vec<_> = env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    watched_with(|config| Config { env, ..config }, document)
}

pub type Watched = (Gateway, Upstream, Arc<Mutex<Vec<Instant>>>);

pub fn watched_with(change: impl FnOnce(Config) -> Config, document: Value) -> Watched {
    let arrivals = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&arrivals);
    let upstream = Upstream::start(move |_| {
        seen.lock().unwrap().push(Instant::now());
        Reply::new(200, "late")
    })
    .unwrap();
    let config = change(Config { upstream: Some(upstream.address()), ..Config::new(document) });
    (Gateway::start(config).unwrap(), upstream, arrivals)
}

pub fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

#[test]
fn a_request_that_would_wait_too_long_is_refused_with_its_wait() {
    let rule = json!([{"name": "queue", "algo": "leaky bucket", "rpu": 1, "unit": "minute", "queue": 0}]);
    let gateway = start(limits(rule));
    assert_eq!(gateway.get("/", &[]).unwrap().status, 200);
    let refused = gateway.get("/", &[]).unwrap();
    assert_eq!(refused.status, 429);
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((55..=72).contains(&wait), "a minute and up to a fifth of it, not {wait} s");
}

#[test]
fn a_token_bucket_with_max_wait_delays_requests() {
    let rule = json!([{"name": "lent", "rpu": 1, "unit": "second", "burst": 1, "max_wait": "4s"}]);
    let (gateway, _upstream, arrivals) = watched(limits(rule), &[]);
    let report = gateway.load(Load { connections: 10, ..Load::requests(10) }, |_| Shot::get("/")).unwrap();
    // One passes at once, and four wait for up to four seconds. The others are refused at once, if
    // they arrive within a second.
    assert_eq!((report.status(200), report.status(429)), (5, 5));
    let arrivals = arrivals.lock().unwrap().clone();
    for (turn, arrival) in arrivals.iter().enumerate() {
        assert!(ms(*arrival - report.first_send) >= 1_000.0 * turn as f64, "arrival {turn}");
    }
}

/// What an upload waits for: its turn, or a reply of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Turn,
    Store,
}

/// Uploads that are larger than Envoy's buffers wait at the client, whatever other filters ask for.
fn uploads_wait(wait: Wait, stop_iteration: bool, behind: &[Value], processor: Option<&Processor>) {
    const MIB: usize = 1 << 20;
    let redis = Redis::start().unwrap();
    let length = |request: &Received| Reply::new(200, request.body.len().to_string());
    let upstream = Upstream::start(length).unwrap();
    let document = match wait {
        Wait::Turn => limits(json!([{"name": "shaped", "algo": "LB", "rpu": 4, "unit": "second"}])),
        Wait::Store => json!({
            "limits": [shared_rule("/", "quota", &json!({"algo": "W", "rpu": 99, "unit": "7d", "on_error": "deny"}))],
            "store": in_redis(json!({"replicas": 1})),
        }),
    };
    let mut config = Config {
        stop_iteration,
        behind: behind.to_vec(),
        upstream: Some(upstream.address()),
        ..Config::new(document)
    };
    config.clusters.extend(processor.map(|processor| cluster("processor", processor.address(), true)));
    config = Carrier::Bridge.lead(config, redis.address(), &json!({})).unwrap();
    let gateway = Gateway::start(config).unwrap();
    let sizes = [1, MIB, 3 * MIB, 20 * MIB];
    thread::scope(|scope| {
        for size in sizes {
            let gateway = &gateway;
            scope.spawn(move || {
                let headers = [("x-user-id", "ann")];
                let answer = gateway.request("POST", "/", &headers, &vec![b'x'; size]).unwrap();
                let what = format!("{wait:?}, {stop_iteration}, {size} bytes, {}", behind.len());
                assert_eq!((answer.status, answer.text()), (200, size.to_string()), "{what}");
            });
        }
    });
    assert_eq!(upstream.requests(), sizes.len() as u64);
}

#[test]
fn uploads_of_any_size_wait_with_their_requests() {
    let processor = Processor::start().unwrap();
    let duplex = json!({
        "name": "envoy.filters.http.ext_proc",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": "processor"}, "timeout": "30s"},
            "message_timeout": "30s",
            "processing_mode": {
                "request_body_mode": "FULL_DUPLEX_STREAMED", "request_trailer_mode": "SEND",
                "response_header_mode": "SKIP",
            },
        },
    });
    let buffer = json!({
        "name": "envoy.filters.http.buffer",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer",
            "max_request_bytes": 32 << 20,
        },
    });
    let flags: &[bool] = if Shell::of_run() == Shell::Wasm { &[false, true] } else { &[false] };
    for wait in [Wait::Turn, Wait::Store] {
        for stop_iteration in flags {
            uploads_wait(wait, *stop_iteration, &[], None);
            uploads_wait(wait, *stop_iteration, std::slice::from_ref(&duplex), Some(&processor));
            uploads_wait(wait, *stop_iteration, std::slice::from_ref(&buffer), None);
        }
    }
}

/// Envoy's timeouts run while a request waits; a request that they end refunds its turn.
#[test]
fn a_request_that_times_out_while_it_waits_leaves_the_queue() {
    const QUEUE: u64 = 20;
    let document = json!({"limits": [
        {"url": "/hours", "rules": [{"name": "hours", "algo": "LB", "rpu": QUEUE, "unit": "hour", "queue": QUEUE}]},
        {"url": "/soon", "rules": [{"name": "soon", "algo": "LB", "rpu": 1, "unit": "2s", "queue": 1}]},
    ]});
    let route = json!({
        "match": {"prefix": "/"},
        "route": {"cluster": "upstream", "timeout": "0s", "idle_timeout": "0.3s"},
    });
    let short = Duration::from_millis(300);
    for (what, routes, request_timeout) in
        [("idle timeout", vec![route], None), ("request timeout", vec![], Some(short))]
    {
        let config = Config { routes, request_timeout, ..Config::new(document.clone()) };
        let gateway = Gateway::start(config).unwrap();
        assert_eq!(gateway.get("/hours", &[]).unwrap().status, 200);
        let load = Load { connections: QUEUE, ..Load::requests(QUEUE) };
        let report = gateway.load(load, |_| Shot::get("/hours")).unwrap();
        assert_eq!((report.status(504), report.lost), (QUEUE, 0), "{what}: {:?}", report.by_status);
        // The checking request itself takes a turn while it waits.
        let free = format!("\"hours\";r={}", QUEUE - 1);
        wait_until("the queue to be gone", Duration::from_secs(30), || {
            let answer = gateway.get("/hours", &[]).ok().filter(|answer| answer.status == 504)?;
            answer.header("ratelimit")?.starts_with(&free).then_some(())
        })
        .unwrap_or_else(|error| panic!("{what}: {error}"));
        // Turns without a refund would cause refusals, or waits beyond the maximum.
        let mut ended = 0;
        assert_eq!(gateway.get("/soon", &[]).unwrap().status, 200);
        wait_until("a turn that comes in time", Duration::from_secs(30), || {
            let status = gateway.get("/soon", &[]).unwrap().status;
            assert!([200, 504].contains(&status), "{what}: {status} after {ended} that were ended");
            ended += u32::from(status == 504);
            (status == 200).then_some(())
        })
        .unwrap();
        assert!(ended > 0, "{what}");
        for event in ["success", "backoff", "failure"] {
            let counter = format!("wasm.diana.vm_reload_{event}");
            assert_eq!(gateway.admin().counter(&counter).unwrap_or(0), 0, "{what}");
        }
    }
}

/// Requests wait in the old configuration, and later ones wait behind them in the new one.
#[test]
fn a_new_configuration_takes_over_while_requests_wait() {
    const WAITING: usize = 50;
    let rules = json!([{"name": "queue", "algo": "LB", "rpu": 10, "unit": "second", "queue": 1000}]);
    let queue = json!({"url": "/", "rules": rules});
    let more = json!({"url": "/more", "rules": [{"name": "more", "rpu": 100, "unit": "hour"}]});
    let document = json!({"limits": [queue]});
    let (mut gateway, _upstream, arrivals) =
        watched_with(|config| Config { drain: Duration::from_secs(60), ..config }, document);
    let begun = Instant::now();
    let ask = |gateway: &Gateway, path: &str| {
        let mut connection = gateway.connect().unwrap();
        connection.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).unwrap();
        connection
    };
    let counted = |gateway: &Gateway, rule: &str| {
        gateway.stats().map_or(0, |stats| stats.sum("diana_requests", &[("rule", rule), ("result", "ok")]))
    };
    let old: Vec<Connection> = (0..WAITING).map(|_| ask(&gateway, "/")).collect();
    let all = || (counted(&gateway, "queue") >= WAITING as u64).then_some(());
    wait_until("all to have their turns", Duration::from_secs(30), all).unwrap();
    assert_eq!(gateway.update_beside(json!({"limits": [queue, more]})).unwrap(), Update::Accepted);
    let before = arrivals.lock().unwrap().len();
    assert!(before < WAITING, "the machine is too slow for this test");
    // The old listener resets connections that it has not accepted before its end.
    wait_until("an answer by the new configuration", Duration::from_secs(30), || {
        let answer = ask(&gateway, "/more").receive(false).ok().filter(|answer| answer.status == 200)?;
        answer.header("ratelimit")?.contains("\"more\"").then_some(())
    })
    .unwrap();
    for mut connection in old {
        assert_eq!(connection.receive(false).unwrap().status, 200);
    }
    let arrivals = arrivals.lock().unwrap().clone();
    assert!(arrivals.len() > WAITING);
    for (turn, arrival) in arrivals.iter().enumerate() {
        assert!(ms(*arrival - begun) >= 100.0 * turn as f64, "arrival {turn}");
    }
    println!("{} of {WAITING} requests waited while the configuration changed", WAITING - before);
    assert_eq!(gateway.admin().counter("wasm.diana.vm_reload_success").unwrap_or(0), 0);
}

#[test]
fn a_refusal_is_held_back() {
    let rule = json!([{"name": "slow", "rpu": 1, "unit": "hour", "reject_delay": "300ms"}]);
    let gateway = start(limits(rule));
    assert_eq!(gateway.get("/", &[]).unwrap().status, 200);
    let before = Instant::now();
    let refused = gateway.get("/", &[]).unwrap();
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").is_some() && !refused.body.is_empty());
    assert!(before.elapsed() >= Duration::from_millis(300));
}

/// Beyond a bound refusals are not delayed: a flood of them must not fill the memory.
#[test]
fn held_back_refusals_are_bounded() {
    let rule = json!([{"name": "slow", "rpu": 0, "unit": "hour", "reject_delay": "60s"}]);
    let gateway = Gateway::start(Config { concurrency: 1, ..Config::new(limits(rule)) }).unwrap();
    let mut held: Vec<Connection> = Vec::new();
    for _ in 0..1_000 {
        let mut connection = gateway.connect().unwrap();
        connection.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        held.push(connection);
    }
    let at_once = || Some(gateway.get("/", &[]).ok()?.status).filter(|status| *status == 429);
    wait_until("a refusal that is not held back", Duration::from_secs(30), at_once).unwrap();
}

#[test]
fn a_thousand_clients_that_leave_free_the_queue() {
    let rule = json!([{"name": "queue", "algo": "LB", "rpu": 10, "unit": "second", "queue": 1000}]);
    let gateway = start(limits(rule));
    let connect = || {
        let mut connection = gateway.connect().unwrap();
        connection.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        connection
    };
    let waiting: Vec<Connection> = (0..1_000).map(|_| connect()).collect();
    let counted = || gateway.stats().unwrap().sum("diana_requests", &[("rule", "queue"), ("result", "ok")]);
    wait_until("all to have their turns", Duration::from_secs(30), || (counted() >= 1_000).then_some(()))
        .unwrap();
    drop(waiting);
    // Behind the turns of the others, it would wait for a hundred seconds.
    let free = wait_until("the queue to be gone", Duration::from_secs(60), || {
        let before = Instant::now();
        let answer = gateway.get("/", &[]).ok()?;
        let left = answer.header("ratelimit")?.split(";r=").nth(1)?.split(';').next()?.parse::<u64>().ok()?;
        (left >= 995).then_some((left, before.elapsed()))
    });
    let (left, took) = free.unwrap();
    println!("1,000 clients left; the next request waited {:.0} ms and left room for {left}", ms(took));
    assert_eq!(gateway.admin().counter("wasm.diana.vm_reload_success").unwrap_or(0), 0);
}
