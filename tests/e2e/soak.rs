//! Everything at once, for any length of time: rules of all algorithms, users and addresses that
//! never return, clients that leave while they wait and during a request, reloads, and killed VMs.
//! What holds at the end of a short test must hold here at any time.
//!
//! As a test it takes ten seconds; `cargo xtask soak` runs it for `$SOAK_SECONDS`. The upstream
//! counts the requests that pass, including requests that slip past the filter while its VM is
//! dead.

mod bounds;
mod clients;

use bounds::Bounds;
use clients::Traffic;
use gateway::{Config, Gateway, Update, filter, wait_until};
use serde_json::{Value, json};
use std::env;
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
/// A stream ends after this long without a byte: streams that wait in a killed VM.
const IDLE: &str = "3s";
/// Memory may grow by this much between the second fifth of the time and the last.
const TOLERANCE_MIB: f64 = 16.0;
const PERMITS: i64 = 4;
const QUEUE: u64 = 20;

/// `turn` changes a limit that no check depends on. One user's quota is so small that even the
/// slowest machine gets refusals.
fn document(turn: u64) -> Value {
    let user = |name: &str, keys: Value| {
        let mut rule = json!({"name": name, "actor": "user", "missing": "share"});
        rule.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        rule
    };
    let limit = |url: &str, rules: Vec<Value>| json!({"url": url, "rules": rules});
    json!({
        "limits": [
            limit("/", vec![user("watched", json!({"rpu": 1, "unit": "second", "mode": "shadow"}))]),
            limit("/tb", vec![
                user("tb", json!({"rpu": 20, "unit": "second", "burst": 200, "overrides": {"steady-0": {"rpu": 1, "burst": 1}}})),
                user("hours", json!({"rpu": 1_000_000, "unit": "hour"})),
            ]),
            limit("/w", vec![user("w", json!({"algo": "W", "rpu": 200, "unit": "second"}))]),
            limit("/sw", vec![user("sw", json!({"algo": "SW", "rpu": 200, "unit": "2s", "slices": 10}))]),
            limit("/sl", vec![user("sl", json!({"algo": "SL", "rpu": 20, "unit": "second", "overrides": {"steady-0": {"rpu": 1}}}))]),
            limit("/lb", vec![json!({"name": "lb", "algo": "LB", "rpu": 50, "unit": "second", "queue": QUEUE})]),
            limit("/c", vec![json!({"name": "c", "algo": "C", "rpu": PERMITS, "max_hold": "5s"})]),
            limit("/both", vec![
                json!({"name": "total", "rpu": 100, "unit": "second", "burst": 300}),
                user("each", json!({"rpu": 40, "unit": "second", "overrides": {"steady-0": {"rpu": 1, "burst": 1}}})),
            ]),
            limit("/churn", vec![
                json!({"name": "newcomer", "actor": ["user", "ip"], "rpu": 10, "unit": "hour"}),
                json!({"name": "address", "actor": "ip", "algo": "SL", "rpu": 10, "unit": "hour"}),
            ]),
            limit("/turn", vec![json!({"name": "turn", "rpu": 1 + turn % 2, "unit": "second"})]),
        ],
        "ip": {"trusted_hops": 1},
        "headers": "ietf",
        "local": {"max_actors": 2_000},
    })
}

fn length() -> Duration {
    let seconds = env::var("SOAK_SECONDS").ok().filter(|text| !text.is_empty());
    Duration::from_secs(seconds.map_or(10, |text| text.parse().expect("`$SOAK_SECONDS` is a whole number")))
}

#[test]
fn all_rules_hold_under_continuous_load() {
    let length = length();
    let traffic = Traffic::default();
    let upstream = traffic.upstream();
    let route = |route: Value| json!({"match": {"prefix": "/"}, "route": route});
    let mut gateway = Gateway::start(Config {
        filter: Some(filter::mortal().unwrap()),
        upstream: Some(upstream.address()),
        routes: vec![route(json!({"cluster": "upstream", "timeout": "0s", "idle_timeout": IDLE}))],
        use_remote_address: false,
        drain: Duration::from_secs(1),
        // The many evictions and refusals need no log line each.
        log_level: "warning".into(),
        ..Config::new(document(0))
    })
    .unwrap();
    let address = gateway.address();
    let begun = Instant::now();
    thread::scope(|scope| {
        traffic.start(scope, address);
        // A failure must end the clients too, or the scope would wait for them.
        let _ending = traffic.ending();
        let mut watch = Watch { begun, length, memory: Vec::new(), reloads: 0, kills: 0, printed: begun };
        let reload_every = (length / 4).min(Duration::from_secs(15));
        let kill_every = (length * 3 / 5).min(Duration::from_secs(30));
        while begun.elapsed() < length {
            if begun.elapsed() >= reload_every * (watch.reloads as u32 + 1) {
                watch.reloads += 1;
                let _disturbed = traffic.replace();
                assert_eq!(gateway.update(document(watch.reloads)).unwrap(), Update::Accepted);
            }
            if begun.elapsed() >= kill_every * (watch.kills as u32 + 1) {
                watch.kills += 1;
                watch.kill(&gateway, &traffic);
            }
            watch.look(&mut gateway, &traffic);
            thread::sleep(Duration::from_millis(200)); // between two looks; nothing waits for it
        }
        // A busy machine may take longer.
        wait_until("a request of every kind", PATIENCE, || traffic.missing().is_empty().then_some(()))
            .unwrap_or_else(|error| panic!("{error}: {}", traffic.missing().join(", ")));
        traffic.end();
        watch.conclude(&mut gateway, &traffic);
    });
}

/// The values that are checked all the time.
struct Watch {
    begun: Instant,
    length: Duration,
    /// Elapsed time and memory in MiB.
    memory: Vec<(Duration, f64)>,
    reloads: u64,
    kills: u64,
    printed: Instant,
}

impl Watch {
    /// Kills the VM of one worker, and waits for its replacement.
    fn kill(&self, gateway: &Gateway, traffic: &Traffic) {
        let _disturbed = traffic.kill();
        let before = reloads(gateway, "success");
        drop(gateway.get("/trap", &[]));
        let reloaded = || (reloads(gateway, "success") > before).then_some(());
        wait_until("another VM", PATIENCE, reloaded).unwrap();
    }

    fn look(&mut self, gateway: &mut Gateway, traffic: &Traffic) {
        assert!(gateway.alive(), "Envoy has ended:\n{}", gateway.logs());
        self.memory.push((self.begun.elapsed(), gateway.rss_bytes().unwrap() as f64 / f64::from(1 << 20)));
        if self.printed.elapsed() >= Duration::from_secs(30) {
            self.printed = Instant::now();
            self.check(gateway, traffic);
            self.print(traffic);
        }
    }

    fn print(&self, traffic: &Traffic) {
        let memory = self.memory.last().map_or(0.0, |(_, mib)| *mib);
        println!(
            "{:>5.0} s: {traffic}; {memory:.1} MiB, {} reloads, {} VMs killed",
            self.begun.elapsed().as_secs_f64(),
            self.reloads,
            self.kills
        );
    }

    /// Checks what must hold at any time.
    fn check(&self, gateway: &Gateway, traffic: &Traffic) {
        traffic.check_errors(self.begun);
        let passed = traffic.passed();
        // The clock is read after the counts: time that passes in between only allows for more.
        Bounds::new(self.begun.elapsed()).check(&passed);
        let peak = traffic.peak();
        assert!(peak <= PERMITS, "{peak} in flight, {PERMITS} may be");
        let stats = gateway.stats().unwrap();
        for name in ["diana_shared_data_errors", "diana_foreign_values"] {
            assert_eq!(stats.sum(name, &[]), 0, "{name}");
        }
        assert_eq!(stats.sum("diana_requests", &[("result", "error")]), 0);
        // Reloads are no measure: Envoy makes another VM for each configuration in which it meets a
        // dead one.
        let log = gateway.logs();
        let died = log.lines().filter(|line| line.contains("Function: "));
        let (killed, others): (Vec<&str>, Vec<&str>) =
            died.partition(|line| line.contains("proxy_on_response_body"));
        assert_eq!((killed.len() as u64, others), (self.kills, vec![]), "a VM has died by itself");
        assert_eq!(reloads(gateway, "failure"), Some(0));
    }

    /// Checks what must hold after the clients have gone.
    fn conclude(&self, gateway: &mut Gateway, traffic: &Traffic) {
        self.check(gateway, traffic);
        self.print(traffic);
        let left = |path: &str, expected: &[String]| {
            let seen = || gateway.get(path, &[]).ok()?.header("ratelimit").map(str::to_owned);
            let is_there = |text: &String| expected.iter().any(|one| text.contains(one));
            let found = wait_until(path, PATIENCE, || seen().filter(is_there));
            found.unwrap_or_else(|error| panic!("{error}: {:?} has none of {expected:?}", seen()));
        };
        // The checking request takes one.
        left("/c/works", &[format!("\"c\";r={}", PERMITS - 1)]);
        // Or waits for the check just before it.
        left("/lb", &[format!("\"lb\";r={QUEUE}"), format!("\"lb\";r={}", QUEUE - 1)]);
        let part = |from: u32, to: u32| {
            let (from, to) = (self.length * from / 5, self.length * to / 5);
            let mut sizes: Vec<f64> =
                self.memory.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, mib)| *mib).collect();
            sizes.sort_by(f64::total_cmp);
            sizes.get(sizes.len() / 2).copied().unwrap_or(0.0)
        };
        let (early, late) = (part(1, 2), part(4, 5));
        println!(
            "memory: {early:.1} MiB in the second fifth of the time, {late:.1} MiB in the last (medians; at most \
             {TOLERANCE_MIB} MiB more)"
        );
        // A fifth of less than a minute is too short for a warm-up.
        let short = self.length < Duration::from_secs(60);
        assert!(short || late - early <= TOLERANCE_MIB, "memory grew by {:.1} MiB", late - early);
    }
}

/// How often a VM was replaced, by result.
fn reloads(gateway: &Gateway, event: &str) -> Option<u64> {
    gateway.admin().counter(&format!("wasm.diana.vm_reload_{event}")).ok()
}
