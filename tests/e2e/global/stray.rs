//! A front that mixes up its replies: no request gets another request's verdict.
//!
//! Two kinds of users reveal wrong verdicts: *idle* users, whose quota is never used up, and
//! *spent* users, whose quota is used up. Without a verdict of the store a request is refused with
//! 503, so 200 and 429 are the store's own verdicts.

use super::{PATIENCE, Shared, counted, gateways, in_redis, shared_rule};
use crate::machine::Ending;
use gateway::{Config, Connection, Gateway, Redis, wait_until};
use serde_json::{Value, json};
use servers::Upstash;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TOKEN: &str = "a token of the tests only";
/// Users of each kind.
const USERS: u64 = 200;
/// Clients at each gateway.
const CLIENTS: usize = 8;

fn limits() -> Value {
    let rule = |path: &str, name: &str, rpu: u64| {
        let keys = json!({"algo": "W", "rpu": rpu, "unit": "7d", "on_error": "deny"});
        shared_rule(path, name, &keys)
    };
    json!([rule("=/idle", "idle", 1_000_000), rule("=/spent", "spent", 1)])
}

fn strays(all: &[Gateway], cluster: &str) -> u64 {
    counted(all, &format!("store.{cluster}.stray_replies"))
}

/// The verdicts that clients have received so far.
#[derive(Default)]
struct Verdicts {
    stopped: AtomicBool,
    /// Right verdicts of the store: an idle user passed, a spent user was refused.
    right: AtomicU64,
    idle_refused: AtomicU64,
    spent_passed: AtomicU64,
    /// Requests without a verdict of the store.
    without: AtomicU64,
}

impl Verdicts {
    fn client(&self, client: u64, gateway: &Gateway) {
        let mut connection = gateway.connect().unwrap();
        for turn in client.. {
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            // Clients are out of step with one another, so that calls of both kinds alternate.
            let path = if (turn / 2 + client).is_multiple_of(2) { "/idle" } else { "/spent" };
            let counter = match (path, status(&mut connection, path, turn % USERS)) {
                ("/idle", 200) | ("/spent", 429) => &self.right,
                ("/idle", 429) => &self.idle_refused,
                ("/spent", 200) => &self.spent_passed,
                (_, 503) => &self.without,
                (path, status) => panic!("{path}: {status}"),
            };
            counter.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Counts of right and wrong verdicts, and of requests without a verdict.
    fn read(&self) -> [u64; 4] {
        [&self.right, &self.idle_refused, &self.spent_passed, &self.without]
            .map(|count| count.load(Ordering::SeqCst))
    }
}

fn status(connection: &mut Connection, path: &str, user: u64) -> u16 {
    connection.request("GET", path, &[("x-user-id", &user.to_string())], b"").unwrap().status
}

/// Clients of both kinds send requests to all gateways during `work`.
fn beside(all: &[Gateway], work: impl FnOnce(&Verdicts)) -> [u64; 4] {
    let mut connection = all[0].connect().unwrap();
    for user in 0..USERS {
        let mut statuses = (0..1_000).map(|_| status(&mut connection, "/spent", user));
        assert!(statuses.any(|status| status == 429), "the quota is used up");
    }
    let verdicts = Verdicts::default();
    thread::scope(|scope| {
        for (client, gateway) in all.iter().cycle().take(CLIENTS * all.len()).enumerate() {
            let verdicts = &verdicts;
            scope.spawn(move || verdicts.client(client as u64, gateway));
        }
        let ending = Ending(&verdicts.stopped);
        work(&verdicts);
        drop(ending);
    });
    verdicts.read()
}

/// Waits until the store gives verdicts again.
fn wait_for_verdicts(verdicts: &Verdicts) {
    let before = verdicts.right.load(Ordering::SeqCst);
    let more = || (verdicts.right.load(Ordering::SeqCst) > before + 100).then_some(());
    wait_until("verdicts of the store", PATIENCE, more).unwrap();
}

/// Each round lasts until both gateways have noticed.
#[test]
fn shifted_replies_decide_nothing() {
    let redis = Redis::start().unwrap();
    let upstash = Upstash::start(redis.address(), TOKEN).unwrap();
    let headers = json!({"authorization": format!("Bearer {TOKEN}")});
    let store = in_redis(json!({"cluster": "upstash", "dialect": "upstash", "headers": headers}));
    let document = json!({"limits": limits(), "store": store});
    let all = gateways(&document, &[("upstash", upstash.address(), false)], |config| config);
    let [right, idle_refused, spent_passed, without] = beside(&all, |verdicts| {
        for _ in 0..3 {
            wait_for_verdicts(verdicts);
            let before: Vec<u64> =
                all.iter().map(|one| strays(std::slice::from_ref(one), "upstash")).collect();
            wait_until("replies to other calls", PATIENCE, || {
                // The shift is renewed each time: a gateway whose calls pause, for example after
                // the last round, is in step after its pause.
                upstash.shift();
                let has_seen = |(one, before)| strays(std::slice::from_ref(one), "upstash") > before;
                let [_, idle_refused, spent_passed, _] = verdicts.read();
                let is_over = idle_refused + spent_passed > 0;
                (is_over || all.iter().zip(before.iter().copied()).all(has_seen)).then_some(())
            })
            .unwrap();
        }
        wait_for_verdicts(verdicts);
    });
    let strays = strays(&all, "upstash");
    println!("shifted: {strays} stray replies; {right} right verdicts, {without} without the store");
    assert_eq!((idle_refused, spent_passed), (0, 0), "wrong verdicts, beside {right} right ones");
    let logged: usize = all.iter().map(|one| one.logs().matches("a reply to another call").count()).sum();
    // The breaker logs once a pause.
    assert!((6..=strays as usize).contains(&logged), "{logged} lines, {strays} stray replies");
}

/// Stalls a little longer than the timeout. Webdis does not mix up its replies in every run, so the
/// counts are printed.
#[test]
fn a_webdis_that_stalls_under_load_decides_nothing_wrong() {
    const LEAST: u64 = 8;
    const MOST: u64 = 40;
    // Many connections make it likely that webdis reuses a descriptor for another connection.
    let store = json!({"timeout": "50ms", "in_flight": 2});
    let mut shared = Shared::with(store, &limits(), |config| Config { concurrency: 4, ..config });
    let all = std::mem::take(&mut shared.gateways);
    let (mut stalls, begun) = (0, Instant::now());
    let [right, idle_refused, spent_passed, without] = beside(&all, |verdicts| {
        // A few more stalls after the first stray reply, which leaves its connection one behind.
        let mut enough = MOST;
        while stalls < enough {
            wait_for_verdicts(verdicts);
            shared.webdis().stop_answering().unwrap();
            thread::sleep(Duration::from_millis(52 + stalls * 7 % 29)); // the stall itself
            shared.webdis().go_on().unwrap();
            stalls += 1;
            if enough == MOST && stalls >= LEAST && strays(&all, "webdis") > 0 {
                enough = MOST.min(stalls + 4);
            }
        }
        wait_for_verdicts(verdicts);
    });
    let strays = strays(&all, "webdis");
    println!(
        "webdis: {stalls} stalls in {:.1} s, {strays} stray replies{}; {right} right verdicts, {without} without the store",
        begun.elapsed().as_secs_f64(),
        if strays == 0 { ", so this run shows little" } else { "" },
    );
    assert_eq!((idle_refused, spent_passed), (0, 0), "wrong verdicts, beside {right} right ones");
}
