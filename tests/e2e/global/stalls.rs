//! Redis stalls under load, for shorter or longer than a request waits. No quota is lost and no reply
//! goes astray: a call that was carried out too late is refunded.
//!
//! Every algorithm counts in the same Redis, so that each stall affects them all. As a test there
//! are a few stalls; `$STALLS` sets another number.

use super::{PATIENCE, Shared, shared_rule, store_counted};
use crate::machine::Ending;
use gateway::{Carrier, Config, Gateway, wait_until};
use serde_json::{Value, json};
use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

over_each_carrier!(stalls_of_the_store_lose_no_quota);

/// The stalls in ms: the timeout of a request is 50 ms.
const STALLS: [u64; 6] = [60, 250, 500, 120, 400, 300];
/// Requests of each rule between two stalls, at least.
const BETWEEN: u64 = 60;
/// The quota of each rule for each stall. The load uses a part of it, and the rest is used up in
/// the end.
const QUOTA: u64 = 150;
/// Permits, and turns in the queue.
const ROOM: u64 = 200;
/// Lost units that are allowed for each stall and rule: a refund is not sent again if its call
/// fails.
const LOST: u64 = 1;
/// Clients at each gateway of the rules with a quota, and the pause between two requests.
const CLIENTS: usize = 6;
const PAUSE: Duration = Duration::from_millis(5);

/// Rules with a quota: the algorithm and the lease.
const QUOTAS: [(&str, u64); 6] = [("W", 0), ("W", 10), ("SW", 0), ("SW", 10), ("TB", 0), ("TB", 10)];

fn name((algo, lease): (&str, u64)) -> String {
    format!("{}-{lease}", algo.to_lowercase())
}

fn stalls() -> u64 {
    let number = env::var("STALLS").ok().filter(|text| !text.is_empty());
    number.map_or(STALLS.len() as u64, |text| text.parse().expect("`$STALLS` is a whole number"))
}

/// The quota of each rule: enough for all stalls.
fn quota() -> u64 {
    QUOTA * stalls()
}

/// How many units of a rule may be lost. A bucket counts a lease as spent that is not returned
/// within two seconds, and while the breaker is open none is returned: once or twice in a run, one
/// lease of each gateway, which is at most an eighth of the quota.
fn most_lost((algo, lease): (&str, u64)) -> u64 {
    let of_leases = if algo == "TB" && lease > 0 { quota() / 4 } else { 0 };
    LOST * stalls() + of_leases
}

fn limits() -> Value {
    let limit = |kind: (&str, u64)| {
        let mut keys = json!({"algo": kind.0, "rpu": quota(), "unit": "7d", "on_error": "deny"});
        if kind.1 > 0 {
            keys["lease"] = json!(format!("{}%", kind.1));
        }
        shared_rule(&format!("=/{}", name(kind)), &name(kind), &keys)
    };
    let permits = json!({"algo": "C", "rpu": ROOM, "on_error": "deny"});
    let turns = json!({"algo": "LB", "rpu": ROOM, "unit": "hour", "queue": ROOM, "on_error": "deny"});
    let mut limits: Vec<Value> = QUOTAS.into_iter().map(limit).collect();
    limits.push(shared_rule("=/permits", "permits", &permits));
    limits.push(shared_rule("=/turns", "turns", &turns));
    json!(limits)
}

fn status(gateway: &mut gateway::Connection, path: &str) -> u16 {
    gateway.request("GET", path, &[("x-user-id", "ann")], b"").unwrap().status
}

/// The requests that each rule with a quota has admitted, and the rounds of all clients.
#[derive(Default)]
struct Admitted {
    by_rule: [AtomicU64; QUOTAS.len()],
    rounds: AtomicU64,
    stopped: AtomicBool,
}

impl Admitted {
    fn ask(&self, connection: &mut gateway::Connection, rule: usize) -> u16 {
        let status = status(connection, &format!("/{}", name(QUOTAS[rule])));
        assert!([200, 429, 503].contains(&status), "{}: {status}", name(QUOTAS[rule]));
        if status == 200 {
            self.by_rule[rule].fetch_add(1, Ordering::SeqCst);
        }
        status
    }

    fn of(&self, rule: usize) -> u64 {
        self.by_rule[rule].load(Ordering::SeqCst)
    }

    fn client(&self, gateway: &Gateway, first: usize) {
        let mut connection = gateway.connect().unwrap();
        for turn in first.. {
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            self.ask(&mut connection, turn % QUOTAS.len());
            status(&mut connection, "/permits");
            self.rounds.fetch_add(1, Ordering::SeqCst);
            thread::sleep(PAUSE); // the client's pause
        }
    }

    /// A client of the queue, where nobody gets a turn in time.
    fn waiting_client(&self, gateway: &Gateway) {
        while !self.stopped.load(Ordering::SeqCst) {
            let status = gateway.get("/turns", &[("x-user-id", "ann")]).unwrap().status;
            assert!([200, 429, 503, 504].contains(&status), "{status}");
        }
    }
}

/// How many units a request to this path finds left, itself included.
fn left(gateway: &Gateway, path: &str) -> Option<u64> {
    let answer = gateway.get(path, &[("x-user-id", "ann")]).ok()?;
    let rest = answer.header("ratelimit")?.split(";r=").nth(1)?.to_owned();
    Some(rest.split([';', ',']).next()?.parse::<u64>().ok()? + 1)
}

fn stalls_of_the_store_lose_no_quota(carrier: Carrier) {
    let route = |path: &str, timeout: &str| {
        let route = json!({"cluster": "upstream", "timeout": "0s", "idle_timeout": timeout});
        json!({"match": {"prefix": path}, "route": route})
    };
    let routes = vec![route("/turns", "0.3s"), route("/", "60s")];
    let change = |config| Config { routes: routes.clone(), ..config };
    let mut shared = Shared::by(carrier, json!({"timeout": "50ms"}), &limits(), change);
    let gateways = std::mem::take(&mut shared.gateways);
    let admitted = Admitted::default();
    thread::scope(|scope| {
        let ending = Ending(&admitted.stopped);
        for client in 0..2 * CLIENTS {
            let (admitted, gateway) = (&admitted, &gateways[client % 2]);
            scope.spawn(move || admitted.client(gateway, client / 2));
        }
        for gateway in gateways.iter().cycle().take(8) {
            let admitted = &admitted;
            scope.spawn(move || admitted.waiting_client(gateway));
        }
        for stall in 0..stalls() {
            let before = admitted.rounds.load(Ordering::SeqCst);
            let more = BETWEEN * QUOTAS.len() as u64;
            wait_until("requests between two stalls", PATIENCE, || {
                (admitted.rounds.load(Ordering::SeqCst) >= before + more).then_some(())
            })
            .unwrap();
            let length = Duration::from_millis(STALLS[stall as usize % STALLS.len()]);
            shared.redis.stop_answering().unwrap();
            thread::sleep(length); // the stall itself
            shared.redis.go_on().unwrap();
        }
        drop(ending);
    });
    let failed = store_counted(&gateways, "failed_calls");
    assert!(failed >= stalls(), "{failed} calls failed in {} stalls", stalls());
    let mut lost = Vec::new();
    for (rule, kind) in QUOTAS.into_iter().enumerate() {
        let during = admitted.of(rule);
        let mut connections = super::connections(&gateways, 4);
        // The rest of the quota, with what comes back meanwhile. It is used up when nothing is left
        // to come back; a bucket's lease comes back within two seconds.
        let begun = Instant::now();
        let used_up = wait_until("the whole quota", PATIENCE, || {
            for connection in &mut connections {
                while admitted.ask(connection, rule) == 200 {}
            }
            let left = quota().saturating_sub(admitted.of(rule));
            let is_late = begun.elapsed() >= Duration::from_secs(4);
            (left == 0 || is_late && left <= most_lost(kind)).then_some(left == 0)
        });
        let all = admitted.of(rule);
        println!(
            "{} stalls, {}, lease {} %: {during} passed meanwhile, {all} of {} in all{}",
            stalls(),
            kind.0,
            kind.1,
            quota(),
            if matches!(used_up, Ok(true)) { "" } else { ", and no more" },
        );
        // A unit of a bucket comes back in the course of the test, at most.
        assert!(during < quota(), "{kind:?}: the quota was used up before the end of the stalls");
        assert!(all <= quota() + 1, "{kind:?}: {all} of {} passed", quota());
        lost.push((name(kind), quota().saturating_sub(all), most_lost(kind)));
    }
    for path in ["permits", "turns"] {
        // The rest of the queue's units is known only by its last requests, which leave late.
        let mut last = 0;
        let free = wait_until("the room to be free", Duration::from_secs(10), || {
            last = left(&gateways[0], &format!("/{path}")).unwrap_or(last);
            (last >= ROOM).then_some(())
        });
        println!("{} stalls, {path}: {last} of {ROOM} are free", stalls());
        lost.push((path.to_owned(), if free.is_ok() { 0 } else { ROOM.saturating_sub(last) }, 0));
    }
    let strays = store_counted(&gateways, "stray_replies");
    println!("{} stalls: {failed} failed calls, {strays} stray replies, units lost, and at most:", stalls());
    println!("{lost:?}");
    assert!(lost.iter().all(|(_, lost, most)| lost <= most), "{lost:?}");
    assert_eq!(strays, 0, "no connection is closed while a reply is outstanding");
}
