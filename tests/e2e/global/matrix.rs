//! Every way in which a connection to Redis can fail, under load: no request gets a wrong verdict,
//! no quota is lost that Redis may not have counted, no request fails under `on_error: local`, and
//! the gateways count together again by themselves.
//!
//! Five kinds of users reveal mistakes. The quota of *idle* users is never used up, and that of
//! *spent* users is used up before. *Counted* users spend a quota during the fault, and the rest of
//! it afterwards. Without a verdict of the store, requests of these three are refused with 503, so
//! 200 and 429 are the store's own verdicts. *Local* users fall back to local counting.

use super::proxy::{Fault, Proxy};
use super::{PATIENCE, gateways, in_redis, shared_rule};
use crate::machine::Ending;
use gateway::{Carrier, Config, Connection, Gateway, Redis, wait_until};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The quota of a counted user, and of a local one.
const QUOTA: u64 = 300;
/// Clients at each gateway, and the pause between two of their requests.
const CLIENTS: usize = 6;
const PAUSE: Duration = Duration::from_millis(4);
/// Verdicts of each client that show recovery, and that a harmless fault has to leave.
const ENOUGH: u64 = 5;

/// What a fault may cost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cost {
    /// All calls succeed.
    Nothing,
    /// Calls fail, but Redis has carried none of them out, or tells so in time.
    Verdicts,
    /// Calls fail that Redis has carried out: their charges may be lost.
    Charges,
}

/// A reply as the script writes it, and half of one.
const REPLY: &[u8] =
    b"*14\r\n:1\r\n:0\r\n:0\r\n:9\r\n:0\r\n:0\r\n:1\r\n:7\r\n:7\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n";
const HALF: &[u8] = b"*14\r\n:1\r\n:0\r\n";

fn faults() -> Vec<(&'static str, Fault, Cost)> {
    let late = Duration::from_millis(1);
    vec![
        ("replies in pieces of one byte", Fault::Bytes, Cost::Nothing),
        ("cut, then closed", Fault::CutAndClosed, Cost::Charges),
        ("cut, then left open", Fault::CutAndOpen, Cost::Charges),
        ("a reply and a half", Fault::LeftOver(HALF), Cost::Charges),
        ("two replies", Fault::LeftOver(REPLY), Cost::Charges),
        ("a reply and a half, then dead", Fault::LeftOverAndDead(HALF), Cost::Charges),
        ("half a reply, late", Fault::LateLeftOver(HALF, late), Cost::Charges),
        ("a second reply, late", Fault::LateLeftOver(REPLY, late), Cost::Charges),
        ("the reply to another call", Fault::Shifted, Cost::Charges),
        ("Redis' protocol error", Fault::Garbled(b"*x\r\n"), Cost::Verdicts),
        ("no replies", Fault::NoReplies, Cost::Charges),
        ("a connection that dies", Fault::Dead, Cost::Verdicts),
        ("nobody serves the connection", Fault::NobodyServes, Cost::Verdicts),
        ("closed by the peer", Fault::Closed, Cost::Verdicts),
    ]
}

fn limits() -> Value {
    let rule = |name: &str, rpu: u64, on_error: &str| {
        let keys = json!({"algo": "W", "rpu": rpu, "unit": "7d", "on_error": on_error});
        shared_rule(&format!("=/{name}"), name, &keys)
    };
    json!([
        rule("idle", 1_000_000_000, "deny"),
        rule("spent", 1, "deny"),
        rule("counted", QUOTA, "deny"),
        rule("local", QUOTA, "local"),
    ])
}

/// The clients' results since the last row.
#[derive(Default)]
struct Results {
    requests: AtomicU64,
    /// Verdicts of the store that are right for sure.
    right: AtomicU64,
    wrong: AtomicU64,
    /// Requests without a verdict of the store.
    without: AtomicU64,
    /// Local users' requests that failed.
    failed: AtomicU64,
}

struct Clients<'g> {
    gateways: &'g [Gateway],
    row: AtomicUsize,
    results: Results,
    /// Requests of each row's counted user that passed, and those without a verdict.
    counted: Vec<AtomicU64>,
    uncounted: Vec<AtomicU64>,
    /// Requests of each row's local user that passed.
    local: Vec<AtomicU64>,
    /// Each client's verdicts of the store, and its requests without one.
    verdicts: Vec<AtomicU64>,
    without: Vec<AtomicU64>,
    stopped: AtomicBool,
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::SeqCst);
}

fn counts(length: usize) -> Vec<AtomicU64> {
    (0..length).map(|_| AtomicU64::new(0)).collect()
}

fn take(counter: &AtomicU64) -> u64 {
    counter.swap(0, Ordering::SeqCst)
}

impl Clients<'_> {
    fn ask(&self, connection: &mut Connection, path: &str, user: &str) -> u16 {
        let results = &self.results;
        let status = connection.request("GET", path, &[("x-user-id", user)], b"").unwrap().status;
        add(&results.requests);
        match (path, status) {
            ("/idle", 200) | ("/spent", 429) => add(&results.right),
            ("/idle", 429) | ("/spent", 200) => add(&results.wrong),
            ("/counted", 200) => add(&self.counted[user.parse::<usize>().unwrap()]),
            ("/local", 200) => add(&self.local[user.parse::<usize>().unwrap()]),
            ("/counted" | "/local", 429) => {}
            ("/local", _) => add(&results.failed),
            ("/counted", 503) => {
                add(&results.without);
                add(&self.uncounted[user.parse::<usize>().unwrap()]);
            }
            (_, 503) => add(&results.without),
            _ => panic!("{path}: {status}"),
        }
        status
    }

    fn client(&self, client: usize) {
        let mut connection = self.gateways[client % self.gateways.len()].connect().unwrap();
        for turn in client.. {
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            let row = self.row.load(Ordering::SeqCst).to_string();
            let other = (turn % 20).to_string();
            let (path, user) =
                [("/idle", &other), ("/spent", &other), ("/counted", &row), ("/local", &row)][turn % 4];
            let status = self.ask(&mut connection, path, user);
            if ["/idle", "/spent"].contains(&path) {
                add(&if status == 503 { &self.without } else { &self.verdicts }[client]);
            }
            thread::sleep(PAUSE); // the client's pause
        }
    }

    /// Waits until each of these counts has grown by so much.
    fn wait_for(&self, what: &str, counts: &[AtomicU64], more: u64) -> Duration {
        let begun = Instant::now();
        let read = || counts.iter().map(|count| count.load(Ordering::SeqCst));
        let before: Vec<u64> = read().collect();
        let grown = || read().zip(&before).all(|(now, before)| now >= before + more).then_some(());
        wait_until(what, PATIENCE, grown)
            .unwrap_or_else(|error| panic!("{error}\n{}", self.gateways[0].logs()));
        begun.elapsed()
    }

    /// Waits until each client has had verdicts of the store since now.
    fn wait_for_verdicts(&self) -> Duration {
        self.wait_for("verdicts of the store for all clients", &self.verdicts, ENOUGH)
    }
}

/// Uses up what is left of a counted user's quota, with what comes back in this time. Returns all
/// that the user got.
fn spend(clients: &Clients, row: usize, patience: Duration) -> u64 {
    let mut connections = super::connections(clients.gateways, 2);
    let mut all = 0;
    _ = wait_until("the whole quota", patience, || {
        for connection in &mut connections {
            while clients.ask(connection, "/counted", &row.to_string()) == 200 {}
        }
        all = clients.counted[row].load(Ordering::SeqCst);
        (all >= QUOTA).then_some(())
    });
    all
}

fn matrix(carrier: Carrier) {
    let redis = Redis::start().unwrap();
    let proxy = Proxy::start(redis.address());
    let store = in_redis(json!({"timeout": "100ms"}));
    let document = json!({"limits": limits(), "store": store});
    let change = |config: Config| carrier.lead(config, proxy.address(), &json!({})).unwrap();
    let all = gateways(&document, change);
    let clients = Clients {
        gateways: &all,
        row: AtomicUsize::new(0),
        results: Results::default(),
        counted: counts(faults().len() + 1),
        uncounted: counts(faults().len() + 1),
        local: counts(faults().len() + 1),
        verdicts: counts(2 * CLIENTS),
        without: counts(2 * CLIENTS),
        stopped: AtomicBool::new(false),
    };
    // `Gateway::counted` would wait until the counts stand still.
    let counted = |name: &str| {
        let stats = all.iter().map(|gateway| gateway.admin().stats().unwrap());
        stats.map(|stats| stats.sum(name, &[("store", Carrier::CLUSTER)])).sum::<u64>()
    };
    let failed = || counted("diana_failed_calls");
    let mut connection = all[0].connect().unwrap();
    for user in 0..20 {
        let mut statuses =
            (0..100).map(|_| connection.request("GET", "/spent", &[("x-user-id", &user.to_string())], b""));
        assert!(statuses.any(|answer| answer.unwrap().status == 429), "the quota is used up");
    }
    thread::scope(|scope| {
        for client in 0..2 * CLIENTS {
            let clients = &clients;
            scope.spawn(move || clients.client(client));
        }
        let ending = Ending(&clients.stopped);
        clients.wait_for_verdicts();
        for (row, (name, fault, cost)) in faults().into_iter().enumerate() {
            let results = &clients.results;
            let (failed_before, connections) = (failed(), proxy.accepted());
            let (strays, is_shifted) = (counted("diana_stray_replies"), fault == Fault::Shifted);
            let counters = [&results.requests, &results.right, &results.wrong, &results.without];
            counters.into_iter().for_each(|counter| _ = take(counter));
            proxy.set(fault);
            clients.row.store(row + 1, Ordering::SeqCst);
            if cost == Cost::Nothing {
                clients.wait_for_verdicts();
            } else {
                clients.wait_for(&format!("all clients to notice: {name}"), &clients.without, 1);
            }
            proxy.set(Fault::None);
            let recovered = clients.wait_for_verdicts();
            let connections = proxy.accepted() - connections;
            let failed = failed() - failed_before;
            // A refusal is cached for 100 ms. Replies that do not come are not waited for.
            let patience = Duration::from_millis(if cost == Cost::Charges { 300 } else { 3_000 });
            let admitted = spend(&clients, row + 1, patience);
            let [requests, right, wrong, without] = counters.map(take);
            let errors = take(&results.failed);
            let of_row = |counts: &[AtomicU64]| counts[row + 1].load(Ordering::SeqCst);
            let (uncounted, local) = (of_row(&clients.uncounted), of_row(&clients.local));
            let lost = QUOTA.saturating_sub(admitted);
            println!(
                "{carrier:?}, {name}: {requests} requests, {failed} failed calls, {right} right verdicts, \
                 {wrong} wrong, {without} without; {lost} units lost; {errors} × 5xx; {connections} connections; \
                 well again after {} ms",
                recovered.as_millis(),
            );
            assert_eq!((wrong, errors), (0, 0), "{carrier:?}, {name}");
            assert!(admitted <= QUOTA, "{carrier:?}, {name}: {admitted} passed");
            // The store's quota, and each gateway's half.
            assert!(local <= 2 * QUOTA, "{carrier:?}, {name}: {local} passed");
            let most = if cost == Cost::Charges { uncounted } else { 0 };
            assert!(lost <= most, "{carrier:?}, {name}: {lost} units lost, {most} may");
            if is_shifted {
                assert!(
                    counted("diana_stray_replies") > strays,
                    "{carrier:?}: the replies had other numbers"
                );
                let says = |gateway: &Gateway| gateway.log_contains("a reply to another call");
                wait_until("the log to say so", PATIENCE, || all.iter().all(says).then_some(())).unwrap();
            }
        }
        drop(ending);
    });
}

#[test]
fn faults_of_a_bridges_connection() {
    matrix(Carrier::Bridge);
}

#[test]
fn faults_of_a_tunnels_connection() {
    matrix(Carrier::Tunnel);
}

/// A gateway with one worker, whose calls a bridge carries through a proxy.
struct Bridged {
    gateway: Gateway,
    proxy: Proxy,
    _redis: Redis,
}

impl Bridged {
    fn start(timeout: &str) -> Bridged {
        let redis = Redis::start().unwrap();
        let proxy = Proxy::start(redis.address());
        let store = in_redis(json!({"timeout": timeout}));
        let config = Config { concurrency: 1, ..Config::new(json!({"limits": limits(), "store": store})) };
        let gateway =
            Gateway::start(Carrier::Bridge.lead(config, proxy.address(), &json!({})).unwrap()).unwrap();
        let bridged = Bridged { gateway, proxy, _redis: redis };
        assert_eq!(bridged.ask(), 200);
        assert_eq!(bridged.connections(), (1, 1));
        bridged
    }

    fn ask(&self) -> u16 {
        self.gateway.get("/idle", &[("x-user-id", "ann")]).unwrap().status
    }

    /// The connections that the proxy has accepted, and those that Envoy has open.
    fn connections(&self) -> (u64, u64) {
        let open = self.gateway.admin().counter("cluster.redis.upstream_cx_active").unwrap();
        (self.proxy.accepted(), open)
    }

    /// Waits until Envoy has this many connections open.
    fn wait_open(&self, count: u64) {
        let is_so = || (self.connections().1 == count).then_some(());
        wait_until("Envoy to close a connection", PATIENCE, is_so).unwrap();
    }
}

/// The call fails long before its timeout, because Redis closes the connection when the bridge has.
#[test]
fn a_bridges_connection_with_left_over_bytes_is_closed_at_once() {
    const TIMEOUT: Duration = Duration::from_secs(10);
    let bridged = Bridged::start("10s");
    for (turn, left_over) in [HALF, REPLY, b"x"].into_iter().cycle().take(9).enumerate() {
        bridged.proxy.set(Fault::LeftOver(left_over));
        let begun = Instant::now();
        assert_eq!(bridged.ask(), 503, "{left_over:?}");
        assert!(begun.elapsed() < TIMEOUT / 2, "{left_over:?}: after {:?}", begun.elapsed());
        bridged.wait_open(0);
        bridged.proxy.set(Fault::None);
        assert_eq!(bridged.ask(), 200, "{left_over:?}");
        assert_eq!(bridged.connections(), (turn as u64 + 2, 1), "a new connection for each fault");
    }
}

/// The peer does not close its half, so the call lasts until Envoy closes the connection.
#[test]
fn a_bridges_connection_with_left_over_bytes_that_dies_is_not_used_again() {
    let bridged = Bridged::start("200ms");
    bridged.proxy.set(Fault::LeftOverAndDead(HALF));
    assert_eq!(bridged.ask(), 503);
    bridged.proxy.set(Fault::None);
    assert_eq!(bridged.ask(), 200);
    assert_eq!(bridged.proxy.accepted(), 2);
    bridged.wait_open(1);
    assert_eq!(bridged.ask(), 200);
    assert_eq!(bridged.connections(), (2, 1));
}

#[test]
fn late_bytes_close_an_idle_connection_of_a_bridge() {
    let bridged = Bridged::start("1s");
    for (turn, left_over) in [HALF, REPLY, b"\n"].into_iter().enumerate() {
        bridged.proxy.set(Fault::LateLeftOver(left_over, Duration::from_millis(20)));
        assert_eq!(bridged.ask(), 200, "{left_over:?}");
        bridged.wait_open(0);
        bridged.proxy.set(Fault::None);
        assert_eq!(bridged.ask(), 200, "{left_over:?}");
        assert_eq!(bridged.connections(), (turn as u64 + 2, 1));
    }
}
