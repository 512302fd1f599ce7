//! One configuration on two listeners, inbound and outbound: since Envoy 1.40 they share a plugin,
//! and a VM only if Envoy restricts both in the same way.

use crate::{left, limits};
use gateway::filter::{self, module};
use gateway::{
    Config, Connection, Ending, Gateway, Load, Received, Reply, Response, Shell, Shot, Update, Upstream,
    load, wait_until,
};
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const WORKERS: u32 = 2;
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// What the two listeners share besides the document and the `vm_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pair {
    /// All settings.
    Same,
    /// Envoy may not call one callback of the outbound listener's filter, which no test needs, so
    /// each filter has a VM of its own.
    Apart,
}

impl Pair {
    /// The module has no restrictions.
    fn all() -> &'static [Pair] {
        match Shell::of_run() {
            Shell::Wasm => &[Pair::Same, Pair::Apart],
            Shell::Native => &[Pair::Same],
        }
    }

    fn outbound(self, config: &Config) -> Box<Config> {
        let mut outbound = config.clone();
        if self == Pair::Apart {
            let module = fs::read(filter::filter().unwrap()).unwrap();
            let names = module::export_names(&module).unwrap().into_iter();
            let needed = names.filter(|name| name != "proxy_on_request_trailers");
            outbound.capabilities = needed.chain(module::import_names(&module).unwrap()).collect();
        }
        Box::new(outbound)
    }

    /// `diana_config_info` for one document on both listeners: the native module's listeners, or
    /// the filter's plugins in all workers and the main thread.
    fn plugins(self) -> u64 {
        match (Shell::of_run(), self) {
            (Shell::Native, _) => 2,
            (Shell::Wasm, Pair::Same) => u64::from(WORKERS) + 1,
            (Shell::Wasm, Pair::Apart) => 2 * (u64::from(WORKERS) + 1),
        }
    }
}

/// A gateway with both listeners, and their addresses.
fn both(pair: Pair, config: Config) -> (Gateway, [SocketAddr; 2]) {
    let config = Config { concurrency: WORKERS, ..config };
    let gateway = Gateway::start(Config { outbound: Some(pair.outbound(&config)), ..config }).unwrap();
    let addresses = [gateway.address(), gateway.outbound().unwrap()];
    (gateway, addresses)
}

fn get(address: SocketAddr, path: &str) -> Response {
    let bearer = format!("Bearer {TOKEN}");
    Connection::open(address).unwrap().request("GET", path, &[("authorization", &bearer)], b"").unwrap()
}

/// Sends a request and does not wait for its response.
fn begin(address: SocketAddr, path: &str) -> Connection {
    let mut connection = Connection::open(address).unwrap();
    connection.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).unwrap();
    connection
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let found = wait_until(what, PATIENCE, || holds().then_some(()));
    found.unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn both_count_once_and_show_the_same_rates() {
    const TOTAL: u64 = 3_000;
    for pair in Pair::all() {
        let mut document = limits(json!([
            {"name": "shared", "algo": "W", "rpu": 1_000, "unit": "day"},
            {"name": "seen", "algo": "W", "rpu": 10, "unit": "day", "mode": "shadow"},
        ]));
        document["inspect"] = json!({"path": "/.diana", "token": TOKEN});
        let (gateway, addresses) = both(*pair, Config::new(document));
        let reports = addresses.map(|address| {
            thread::spawn(move || load::run(address, Load::requests(TOTAL / 2), |_| Shot::get("/"), |_| {}))
        });
        let reports = reports.map(|thread| thread.join().unwrap().unwrap());
        let sum = |status| reports.iter().map(|report| report.status(status)).sum::<u64>();
        assert_eq!((sum(200), sum(429)), (1_000, TOTAL - 1_000), "{pair:?}");
        let counted = |name: &str| gateway.counted(&format!("rule.{name}.requests")).unwrap();
        let results = ["shared.result.ok", "shared.result.refused", "seen.result.shadow"];
        let expected = [1_000, TOTAL - 1_000, TOTAL - 10];
        assert_eq!(results.map(counted), expected, "{pair:?}");
        until("each plugin to show its document", || {
            gateway.stats().unwrap().sum("diana_config_info", &[]) == pair.plugins()
        });
        for address in addresses {
            until("the rates of both listeners", || {
                let rates: Value = serde_json::from_slice(&get(address, "/.diana/rates").body).unwrap();
                let sum = |rule: usize, result: &str| {
                    let all = rates["rules"][rule][result].as_array().into_iter().flatten();
                    all.filter_map(Value::as_u64).sum::<u64>()
                };
                [sum(0, "ok"), sum(0, "refused"), sum(1, "shadow")] == expected
            });
        }
    }
}

/// Two listeners with different documents: a name is an identity, numbers are not.
#[test]
fn rules_of_one_name_count_together_and_rules_of_two_names_do_not() {
    let document = |rpu: u64, own: &str| {
        let limit = |url: &str, name: &str, rpu: u64| json!({"url": url, "rules": [{"name": name, "algo": "W", "rpu": rpu, "unit": "7d"}]});
        json!({"limits": [limit("=/both", "both", rpu), limit("=/own", own, 2)]})
    };
    let config = Config { concurrency: WORKERS, ..Config::new(document(5, "inbound")) };
    let outbound = Config { plugin: document(7, "outbound").into(), ..config.clone() };
    let gateway = Gateway::start(Config { outbound: Some(Box::new(outbound)), ..config }).unwrap();
    let [inbound, outbound] = [gateway.address(), gateway.outbound().unwrap()];
    let passed = |address, path| (0..6).filter(|_| get(address, path).status == 200).count();
    assert_eq!([inbound, outbound, inbound].map(|address| passed(address, "/both")), [5, 2, 0]);
    assert_eq!([inbound, outbound].map(|address| passed(address, "/own")), [2, 2]);
}

#[test]
fn a_permit_of_one_listener_is_missing_at_the_other() {
    let upstream = Upstream::start(|request: &Received| match request.path.as_str() {
        "/silent" => Reply::new(200, "").ending(Ending::Silence),
        _ => Reply::new(200, "whole"),
    })
    .unwrap();
    for pair in Pair::all() {
        let document = limits(json!([{"name": "permits", "algo": "C", "rpu": 2}]));
        let config = Config { upstream: Some(upstream.address()), ..Config::new(document) };
        let (gateway, addresses) = both(*pair, config);
        for [first, second] in [addresses, [addresses[1], addresses[0]]] {
            let sent = upstream.requests();
            let held = [begin(first, "/silent"), begin(second, "/silent")];
            until("both requests at the upstream", || upstream.requests() == sent + 2);
            assert_eq!([first, second].map(|address| get(address, "/").status), [429, 429], "{pair:?}");
            let [of_first, of_second] = held;
            drop(of_first);
            until("the first listener's permit", || get(second, "/").status == 200);
            drop(of_second);
            // The request that looks holds a permit itself.
            let is_free = || get(first, "/").header("ratelimit").is_some_and(|left| left.contains("r=1"));
            until("all permits", is_free);
        }
        assert_eq!(gateway.counted("rule.permits.result.error.requests").unwrap(), 0);
    }
}

/// How many requests wait now.
fn waiting(gateway: &Gateway) -> f64 {
    gateway.admin().stats().unwrap().value("diana_waiting_requests", &[]).unwrap_or(0.0)
}

/// A turn of the queue below, in milliseconds.
const TURN_MS: u32 = 100;

/// A document with a queue, a server that notes when requests arrive, and these times.
fn queue() -> (Value, Upstream, Arc<Mutex<Vec<Instant>>>) {
    let arrivals = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&arrivals);
    let upstream = Upstream::start(move |_: &Received| {
        seen.lock().unwrap().push(Instant::now());
        Reply::new(200, "in turn")
    });
    let rules = json!([{"name": "queue", "algo": "LB", "rpu": 10, "unit": "second", "queue": 100}]);
    (limits(rules), upstream.unwrap(), arrivals)
}

/// The waiting requests of both listeners have one queue, and each gets its turn.
fn arrive_in_turn(arrivals: &Mutex<Vec<Instant>>, since: Instant, count: usize) {
    let arrivals = arrivals.lock().unwrap();
    assert_eq!(arrivals.len(), count);
    for (arrival, turn) in arrivals.iter().zip(0..) {
        let due = since + Duration::from_millis(TURN_MS.into()) * turn;
        assert!(*arrival >= due, "arrival {turn} came {:?} before its turn", due - *arrival);
    }
}

#[test]
fn requests_of_both_wait_in_one_queue() {
    for pair in Pair::all() {
        let (document, upstream, arrivals) = queue();
        let config = Config { upstream: Some(upstream.address()), ..Config::new(document) };
        let (gateway, addresses) = both(*pair, config);
        let since = Instant::now();
        let requests: Vec<_> = (0..20).map(|number| begin(addresses[number % 2], "/")).collect();
        until("the gauge of both listeners", || waiting(&gateway) > 10.0);
        for mut connection in requests {
            assert_eq!(connection.receive(false).unwrap().status, 200, "{pair:?}");
        }
        arrive_in_turn(&arrivals, since, 20);
        until("nobody to wait", || waiting(&gateway) == 0.0);
    }
}

/// The second listener comes while requests of the first one wait and hold permits, and it goes
/// while the first one still counts.
#[test]
fn a_listener_that_comes_and_goes_disturbs_nobody() {
    for pair in Pair::all() {
        let (mut document, upstream, arrivals) = queue();
        let rules = json!([
            {"name": "permits", "algo": "C", "rpu": 30},
            {"name": "day", "algo": "W", "rpu": 1_000, "unit": "day"},
        ]);
        document["limits"].as_array_mut().unwrap().push(json!({"url": "/", "rules": rules}));
        let config = Config {
            upstream: Some(upstream.address()),
            concurrency: WORKERS,
            drain: Duration::from_secs(5),
            ..Config::new(document)
        };
        let mut gateway = Gateway::start(config.clone()).unwrap();
        let since = Instant::now();
        let mut requests: Vec<_> = (0..20).map(|_| begin(gateway.address(), "/")).collect();
        until("requests to wait", || waiting(&gateway) > 10.0);
        let outbound = Some(pair.outbound(&config));
        assert_eq!(gateway.reconfigure_beside(|all| all.outbound = outbound).unwrap(), Update::Accepted);
        let address = gateway.outbound().unwrap();
        requests.extend((0..5).map(|_| begin(address, "/")));
        for mut connection in requests {
            assert_eq!(connection.receive(false).unwrap().status, 200, "{pair:?}");
        }
        arrive_in_turn(&arrivals, since, 25);
        assert_eq!(gateway.reconfigure(|all| all.outbound = None).unwrap(), Update::Accepted);
        let left = |rule| left(&gateway, rule, "/", "anybody");
        until("all permits", || left("permits") == Some(29));
        let passed = u64::try_from(arrivals.lock().unwrap().len()).unwrap();
        assert_eq!(left("day"), Some(1_000 - passed - 1), "{pair:?}");
        until("nobody to wait", || waiting(&gateway) == 0.0);
    }
}
