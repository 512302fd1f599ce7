//! A store that goes down under load and recovers: no request waits longer than the timeout, and
//! soon none waits at all.
//!
//! A request may exceed the timeout by the lateness of Envoy's timer and of the machine. A control
//! measures the machine's.

use super::{Shared, counted, shared_rule, store_counted};
use crate::machine::{Control, Ending};
use crate::waiting::ms;
use gateway::{Carrier, Gateway, Response, wait_until};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

over_each_carrier!(redis_is_killed_and_restarts, redis_does_not_reply_for_a_while);

const TIMEOUT: Duration = Duration::from_millis(50);
/// Allowance beyond the timeout, for Envoy's timer and the round trip.
const GRACE: Duration = Duration::from_millis(20);
/// The quota of one user over all gateways; in each alone, a quarter of it.
const QUOTA: usize = 60;
const SHARE: usize = QUOTA / 4;
const USERS: usize = 20;
/// Clients at each gateway, and the pause between two of their requests.
const CLIENTS: usize = 8;
const PAUSE: Duration = Duration::from_millis(10);
const WORKERS: u64 = 4;
const PATIENCE: Duration = Duration::from_secs(20);
const RESUMED: Duration = Duration::from_secs(2);

/// The store is up; goes down; is known to be down; recovers; is queried again. Each phase has
/// users of its own.
const PHASES: [&str; 5] = ["before", "going", "gone", "coming", "after"];

struct Sample {
    phase: usize,
    gateway: usize,
    user: usize,
    status: u16,
    /// Whether the gateway counted the request alone.
    is_alone: bool,
    sent: Instant,
    received: Instant,
}

/// Clients that send requests until they are told to stop.
struct Clients<'g> {
    gateways: &'g [Gateway],
    phase: AtomicUsize,
    /// For each client, the phase of its last response.
    reached: Vec<AtomicUsize>,
    stopped: AtomicBool,
    samples: Mutex<Vec<Sample>>,
}

impl Clients<'_> {
    fn run(&self, client: usize) {
        let gateway = client % self.gateways.len();
        let mut connection = self.gateways[gateway].connect().unwrap();
        for turn in 0.. {
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            let phase = self.phase.load(Ordering::SeqCst);
            let user = (client / self.gateways.len() + turn) % USERS;
            let name = format!("{}-{user}", PHASES[phase]);
            let sent = Instant::now();
            let answer = connection.request("GET", "/", &[("x-user-id", &name)], b"").unwrap();
            let (status, is_alone, received) = (answer.status, is_alone(&answer), Instant::now());
            let sample = Sample { phase, gateway, user, status, is_alone, sent, received };
            self.samples.lock().unwrap().push(sample);
            self.reached[client].store(phase, Ordering::SeqCst);
            thread::sleep(PAUSE); // the client's pause
        }
    }

    /// Begins a phase, and waits until no request of an earlier phase is in flight.
    fn begin(&self, phase: &str) {
        let phase = PHASES.iter().position(|name| *name == phase).unwrap();
        self.phase.store(phase, Ordering::SeqCst);
        let reached = || self.reached.iter().all(|reached| reached.load(Ordering::SeqCst) >= phase);
        wait_until("all clients to begin", PATIENCE, || reached().then_some(())).unwrap();
    }

    /// Waits until each user of this phase has sent this many requests to each gateway.
    fn ask_all(&self, times: usize) {
        let phase = self.phase.load(Ordering::SeqCst);
        wait_until("enough requests", PATIENCE, || {
            let samples = self.samples.lock().unwrap();
            let mut requests = HashMap::<(usize, usize), usize>::new();
            let of_phase = samples.iter().filter(|sample| sample.phase == phase);
            of_phase.for_each(|one| *requests.entry((one.gateway, one.user)).or_default() += 1);
            let all = requests.len() == USERS * self.gateways.len();
            (all && requests.values().all(|count| *count >= times)).then_some(())
        })
        .unwrap();
    }
}

/// Whether a response shows a gateway's share of the quota: the gateway has counted alone.
fn is_alone(answer: &Response) -> bool {
    let policy = answer.header("ratelimit-policy").unwrap_or_default();
    match policy.strip_prefix("\"quota\";q=").and_then(|rest| rest.split(';').next()?.parse().ok()) {
        Some(QUOTA) => false,
        Some(SHARE) => true,
        _ => panic!("no quota is shown: {policy}"),
    }
}

fn wait_for_log(gateways: &[Gateway], text: &str, times: usize) {
    let done = || gateways.iter().all(|gateway| gateway.logs().matches(text).count() >= times);
    let found = wait_until(text, PATIENCE, || done().then_some(()));
    found.unwrap_or_else(|error| panic!("{error}\n{}", gateways[0].logs()));
}

/// Up to three attempts, for stalls that the machine's control has missed; counts must be exact in
/// each.
fn outage(carrier: Carrier, name: &str, goes: impl Fn(&mut Shared), comes: impl Fn(&mut Shared)) {
    for attempt in 1..3 {
        match timely(carrier, name, &goes, &comes) {
            Ok(()) => return,
            Err(why) => println!("attempt {attempt}, {why}"),
        }
    }
    timely(carrier, name, &goes, &comes).unwrap();
}

/// Load while the store goes down in one way and recovers in another. An error describes a late
/// response.
fn timely(
    carrier: Carrier,
    name: &str,
    goes: &dyn Fn(&mut Shared),
    comes: &dyn Fn(&mut Shared),
) -> Result<(), String> {
    let keys = json!({"algo": "W", "rpu": QUOTA, "unit": "7d"});
    let store = json!({"timeout": "50ms", "replicas": 4});
    let mut shared = {
        let limits = json!([shared_rule("/", "quota", &keys)]);
        Shared::by(carrier, store, &limits, |config| config)
    };
    let gateways = std::mem::take(&mut shared.gateways);
    let clients = Clients {
        gateways: &gateways,
        phase: AtomicUsize::new(0),
        reached: (0..CLIENTS * gateways.len()).map(|_| AtomicUsize::new(0)).collect(),
        stopped: AtomicBool::new(false),
        samples: Mutex::default(),
    };
    let calls = || store_counted(&gateways, "calls");
    let mut late = Ok(());
    let mut script = || {
        clients.ask_all(QUOTA / 2 + 1);
        clients.begin("going");
        goes(&mut shared);
        wait_for_log(&gateways, "is not asked until it answers a probe", 2);
        clients.begin("gone");
        let (before, begun) = (calls(), Instant::now());
        clients.ask_all(2 * SHARE);
        // Each worker's probes: at first with growing pauses, then at most one in three quarters of
        // a second.
        let most = WORKERS * (3 + begun.elapsed().as_millis() as u64 / 750);
        let probes = calls() - before;
        println!("{name}: {probes} probes in {:.1} s, at most {most} may", begun.elapsed().as_secs_f64());
        assert!(probes <= most, "{name}: {probes} calls, {most} may be probes");
        clients.begin("coming");
        comes(&mut shared);
        let back = Instant::now();
        wait_for_log(&gateways, "answers again", 2);
        let resumed = back.elapsed();
        println!("{name}: {} ms until all workers count together again", resumed.as_millis());
        if resumed >= RESUMED {
            late = Err(format!("{name}: {resumed:?} until the next query"));
        }
        clients.begin("after");
        clients.ask_all(QUOTA / 2 + 1);
    };
    let work = || {
        thread::scope(|scope| {
            (0..clients.reached.len()).for_each(|client| {
                _ = scope.spawn({
                    let clients = &clients;
                    move || clients.run(client)
                })
            });
            let ending = Ending(&clients.stopped);
            script();
            drop(ending);
        });
    };
    let ((), machine) = Control::beside(work);
    let samples = clients.samples.into_inner().unwrap();
    let alone = samples.iter().filter(|sample| sample.is_alone).count();
    assert_eq!(counted(&gateways, "rule.quota.degraded"), alone as u64, "{name}: counted alone");
    late.and(check_samples(name, &samples, &machine))
}

/// The store admits each user's quota and no more, whatever happens to calls: a charge may be lost,
/// but is never granted twice. While the store is up, no gateway counts alone, unless the machine
/// stalled so long that calls timed out.
fn check_samples(name: &str, samples: &[Sample], machine: &Control) -> Result<(), String> {
    let mut stalls: Vec<f64> = machine.all().map(ms).collect();
    stalls.sort_by(f64::total_cmp);
    let (usual, worst) = (stalls[stalls.len() * 99 / 100], stalls[stalls.len() - 1]);
    println!("{name}: the machine was late by {usual:.1} ms (99th percentile), {worst:.1} (most)");
    let is_calm = worst < ms(TIMEOUT) / 2.0;
    let mut result = Ok(());
    for (phase, title) in PHASES.iter().enumerate() {
        let of_phase = || samples.iter().filter(|sample| sample.phase == phase);
        let failed = of_phase().filter(|sample| ![200, 429].contains(&sample.status)).count();
        assert_eq!(failed, 0, "{name}: answers {title} that are neither 200 nor 429");
        let mut took: Vec<f64> = of_phase().map(|one| ms(one.received - one.sent)).collect();
        took.sort_by(f64::total_cmp);
        let late = |one: &Sample| {
            let beyond =
                (one.received - one.sent).saturating_sub(machine.late_between(one.sent, one.received));
            ms(beyond)
        };
        let own = of_phase().map(late).fold(0.0, f64::max);
        let last = took.len() - 1;
        println!(
            "{name}, {title:>6}: {:>5} requests, {:.1} ms (median), {:.1} (99th percentile), {:.1} (most); {own:.1} (most) \
             without what the machine was late",
            took.len(),
            took[last / 2],
            took[last * 99 / 100],
            took[last]
        );
        let most = if *title == "gone" { GRACE } else { TIMEOUT + GRACE };
        if own > ms(most) {
            result = Err(format!("{name}, {title}: {own:.1} ms, {most:?} are allowed"));
        }
        let is_up = ["before", "after"].contains(title);
        let alone = of_phase().filter(|sample| sample.is_alone).count();
        if is_up && alone > 0 && is_calm {
            result = Err(format!("{name}, {title}: {alone} were counted alone"));
        }
        let passed = |user: usize, is_of: &dyn Fn(&Sample) -> bool| {
            of_phase().filter(|one| one.user == user && one.status == 200 && is_of(one)).count()
        };
        for user in 0..USERS {
            let together = passed(user, &|one| !one.is_alone);
            let each = [0, 1].map(|gateway| passed(user, &|one| one.is_alone && one.gateway == gateway));
            let context = format!("{name}, {title}, user {user}: {together} by the store, {each:?} alone");
            assert!(together <= QUOTA && each.iter().all(|each| *each <= SHARE), "{context}");
            if is_up && alone == 0 {
                assert_eq!(together, QUOTA, "{context}");
            }
            if *title == "gone" {
                assert_eq!((together, each), (0, [SHARE; 2]), "{context}");
            }
        }
    }
    result
}

fn redis_is_killed_and_restarts(carrier: Carrier) {
    let name = format!("Redis killed, {carrier:?}");
    outage(carrier, &name, |shared| shared.redis.kill(), |shared| shared.redis.restart().unwrap());
}

fn redis_does_not_reply_for_a_while(carrier: Carrier) {
    outage(
        carrier,
        &format!("Redis silent, {carrier:?}"),
        |shared| shared.redis.stop_answering().unwrap(),
        |shared| shared.redis.go_on().unwrap(),
    );
}
