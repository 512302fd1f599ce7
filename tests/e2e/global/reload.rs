//! New configurations during traffic: the stores keep their counts, and the gateways their leases.

use super::{PATIENCE, Shared, counted, in_redis, shared_rule};
use crate::machine::Ending;
use gateway::{Config, Connection, Update, wait_until};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const QUOTA: u64 = 3_000;
const PATHS: [&str; 3] = ["/bucket", "/bucket-ahead", "/window-ahead"];
/// The size of a lease. If a lease is being granted when its configuration ends, the lease counts
/// as spent.
const PIECE: u64 = 10;
const WORKERS: u64 = 4;
const RELOADS: u64 = 2;
/// After this many refusals in a row, no more refunds are expected.
const ENOUGH: u64 = 1_000;
/// Clients at each gateway, and the pause between two of their requests. While configurations are
/// replaced it is longer, so that no quota is used up before.
const CLIENTS: usize = 8;
const PAUSE: Duration = Duration::from_millis(10);
const LONG_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
struct Traffic {
    stopped: AtomicBool,
    /// Whether all configurations have been replaced.
    is_replaced: AtomicBool,
    passed: [AtomicU64; PATHS.len()],
    /// Refusals since the last request that passed.
    refused: [AtomicU64; PATHS.len()],
    /// Requests without a response, because the connection ended first.
    lost: [AtomicU64; PATHS.len()],
}

impl Traffic {
    fn run(&self, address: SocketAddr, client: usize) {
        let mut connection = None;
        for turn in client.. {
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            let path = turn % PATHS.len();
            let open = connection.take().or_else(|| Connection::open(address).ok());
            connection = open.and_then(|mut open| {
                let Ok(answer) = open.request("GET", PATHS[path], &[("x-user-id", "ann")], b"") else {
                    self.lost[path].fetch_add(1, Ordering::SeqCst);
                    return None;
                };
                assert!([200, 429].contains(&answer.status), "{}", answer.status);
                if answer.status == 200 {
                    self.passed[path].fetch_add(1, Ordering::SeqCst);
                    self.refused[path].store(0, Ordering::SeqCst);
                } else {
                    self.refused[path].fetch_add(1, Ordering::SeqCst);
                }
                (answer.header("connection") != Some("close")).then_some(open)
            });
            let is_replaced = self.is_replaced.load(Ordering::SeqCst);
            thread::sleep(if is_replaced { PAUSE } else { LONG_PAUSE }); // the client's pause
        }
    }

    fn lost(&self) -> [u64; PATHS.len()] {
        self.lost.each_ref().map(|lost| lost.load(Ordering::SeqCst))
    }

    fn passed(&self) -> [u64; PATHS.len()] {
        self.passed.each_ref().map(|passed| passed.load(Ordering::SeqCst))
    }
}

/// A long timeout, so that a stall of the machine causes no local counting.
fn patient() -> Value {
    json!({"timeout": "5s"})
}

/// Limits that count the same, except for a rule that no request matches.
fn limits(number: u64) -> Value {
    let rule = |path: &str, algo: &str, lease: u64| {
        shared_rule(path, &path[2..], &json!({"algo": algo, "rpu": QUOTA, "unit": "7d", "lease": lease}))
    };
    json!([
        rule("=/bucket", "TB", 0),
        rule("=/bucket-ahead", "TB", PIECE),
        rule("=/window-ahead", "W", PIECE),
        {"url": "/another", "rules": [{"name": "another", "rpu": number, "unit": "hour"}]},
    ])
}

#[test]
fn a_reload_under_load_keeps_global_counts() {
    // The calls in flight fail if a configuration ends. So it lives longer than the machine stalls.
    let drain = |config| Config { drain: Duration::from_secs(3), ..config };
    let mut shared = Shared::with(patient(), &limits(1), drain);
    let traffic = Traffic::default();
    let mut gateways = std::mem::take(&mut shared.gateways);
    let mut at_reload = Vec::new();
    thread::scope(|scope| {
        let ending = Ending(&traffic.stopped);
        for gateway in &gateways {
            let address = gateway.address();
            (0..CLIENTS).for_each(|client| {
                let traffic = &traffic;
                scope.spawn(move || traffic.run(address, client));
            });
        }
        for number in 2..2 + RELOADS {
            let document = json!({"limits": limits(number), "store": in_redis(patient())});
            thread::scope(|scope| {
                for gateway in &mut gateways {
                    let document = document.clone();
                    scope.spawn(move || assert_eq!(gateway.update(document).unwrap(), Update::Accepted));
                }
            });
            at_reload.push(traffic.passed());
        }
        traffic.is_replaced.store(true, Ordering::SeqCst);
        let done = || traffic.refused.iter().all(|refused| refused.load(Ordering::SeqCst) >= ENOUGH);
        let all = wait_until("the quotas to be used", 3 * PATIENCE, || done().then_some(()));
        drop(ending);
        all.unwrap_or_else(|error| panic!("{error}: {traffic:?}"));
    });
    let (passed, lost) = (traffic.passed(), traffic.lost());
    println!(
        "{passed:?} of {QUOTA} passed, {lost:?} were lost; of them {at_reload:?} before a gateway was replaced"
    );
    for ((path, passed), lost) in PATHS.iter().zip(passed).zip(lost) {
        assert_eq!(counted(&gateways, &format!("rule.{}.degraded", &path[1..])), 0, "{path}");
        let gone = if path.ends_with("ahead") { RELOADS * WORKERS * PIECE } else { 0 };
        assert!((QUOTA - lost - gone..=QUOTA).contains(&passed), "{path}: {passed}, and {lost} were lost");
    }
    assert!(at_reload[0].iter().all(|passed| *passed < QUOTA), "{at_reload:?}");
}
