//! Runs of gateways that count together: any bytes decode to a list of operations.

use crate::host::callouts::{CallFaults, Clusters};
use crate::host::faults::{FaultKind, Faults};
use crate::host::gateway::Gateway;
use crate::host::vm::Vm;
use std::rc::Rc;

/// A global rule: its path, its name, its kind and first number at the store, and its quota.
pub struct Rule {
    pub path: &'static str,
    pub name: &'static str,
    pub kind: (u64, u64),
    pub limit: usize,
    text: &'static str,
    /// The rule's `on_error`, which says how much a gateway admits without the store.
    pub on_error: &'static str,
    pub leased: bool,
}

const fn rule(
    path: &'static str,
    name: &'static str,
    kind: (u64, u64),
    limit: usize,
    text: &'static str,
) -> Rule {
    Rule { path, name, kind, limit, text, on_error: "local", leased: false }
}

const fn leased(rule: Rule) -> Rule {
    Rule { leased: true, ..rule }
}

const DAY: u64 = 86_400_000_000;

/// Each rule is recognised by its numbers. A day is longer than any run.
pub const RULES: &[Rule] = &[
    rule("/window", "window", (2, 5), 5, r#""algo": "W", "rpu": 5, "unit": "day""#),
    rule("/permits", "permits", (7, 2), 2, r#""algo": "C", "rpu": 2, "max_hold": "1d""#),
    rule("/queue", "queue", (5, 100_000), 0, r#""algo": "LB", "rpu": 10, "unit": "second", "queue": 4"#),
    leased(rule("/lease", "lease", (2, 40), 40, r#""algo": "W", "rpu": 40, "unit": "day", "lease": 8"#)),
    leased(rule("/bucket", "bucket", (1, DAY / 30), 30, r#""rpu": 30, "unit": "day", "lease": 5"#)),
    rule("/mixed", "mixed", (2, 9), 9, r#""algo": "W", "rpu": 9, "unit": "day""#),
    rule("/mixed", "mixed-permits", (7, 3), 3, r#""algo": "C", "rpu": 3, "max_hold": "1d""#),
    leased(rule("/ahead", "ahead", (2, 20), 20, r#""algo": "W", "rpu": 20, "unit": "day", "lease": 4"#)),
    leased(rule("/ahead", "ahead-bucket", (1, DAY / 25), 25, r#""rpu": 25, "unit": "day", "lease": 6"#)),
    Rule {
        on_error: "deny",
        ..rule("/deny", "deny-rule", (2, 6), 6, r#""algo": "W", "rpu": 6, "unit": "day""#)
    },
    Rule {
        on_error: "allow",
        ..rule("/allow", "allow-rule", (2, 7), 7, r#""algo": "W", "rpu": 7, "unit": "day""#)
    },
];

/// The local rules for `all` beside the rules of a path.
pub const LOCAL: &[(&str, &str)] = &[
    ("/mixed", r#"{"name": "mixed-local", "algo": "W", "rpu": 12, "unit": "day"}"#),
    ("/mixed", r#"{"name": "mixed-own", "algo": "C", "rpu": 4, "max_hold": "1d"}"#),
    ("/ahead", r#"{"name": "ahead-local", "algo": "W", "rpu": 35, "unit": "day"}"#),
];

pub const PATHS: [&str; 9] =
    ["/window", "/permits", "/queue", "/lease", "/bucket", "/mixed", "/ahead", "/deny", "/allow"];

/// The setup of a run.
#[derive(Clone, Debug)]
pub struct Setup {
    pub gateways: usize,
    pub workers: usize,
    pub shards: usize,
    pub in_flight: usize,
    pub reenters: bool,
    pub kind: FaultKind,
    pub one_in: u64,
    /// Whether stores may be down, and timers may be so late that calls fail.
    pub goes_down: bool,
    /// Whether plugins are replaced.
    pub reloads: bool,
    pub call_faults: CallFaults,
}

fn configuration(setup: &Setup) -> String {
    let limits = PATHS.map(|path| {
        let actor = |name: &str| if name.ends_with("bucket") { "user" } else { "all" };
        let shared = RULES.iter().filter(|rule| rule.path == path).map(|rule| {
            let Rule { name, text, on_error, .. } = rule;
            let actor = actor(name);
            format!(
                r#"{{"name": "{name}", "actor": "{actor}", "scope": "global", "on_error": "{on_error}", {text}}}"#
            )
        });
        let local = LOCAL.iter().filter(|(of, _)| *of == path).map(|(_, text)| (*text).to_owned());
        let rules: Vec<String> = local.chain(shared).collect();
        super::limit(path, &rules.join(", "))
    });
    let clusters = ["\"a\"", "\"b\"", "\"c\""][..setup.shards].join(", ");
    let json = super::configuration(&clusters, &limits.join(", "));
    json.replace("\"secret\"", &format!("\"in_flight\": {}, \"secret\"", setup.in_flight))
}

/// Gateways that count together.
pub struct Gateways {
    pub all: Vec<Gateway>,
    pub clusters: Rc<Clusters>,
    pub setup: Setup,
}

impl Gateways {
    /// Lets time pass for all gateways. Returns whether it did.
    pub fn pass(&self, ms: u64) -> bool {
        Gateway::pass_all(&self.all, ms);
        true
    }

    pub fn counter(&self, name: &str) -> i64 {
        self.all.iter().map(|gateway| gateway.counter(name)).sum()
    }

    /// How many requests for this path have passed.
    pub fn went(&self, path: &str) -> usize {
        let of = |gateway: &Gateway| {
            let records = gateway.world.records.borrow();
            records.iter().filter(|record| record.path == path && record.went.is_some()).count()
        };
        self.all.iter().map(of).sum()
    }

    /// Requests for this path that are at the upstream.
    pub fn in_flight(&self, path: &str) -> usize {
        self.all.iter().map(|gateway| crate::host::play::in_flight(gateway, path)).sum()
    }
}

/// Runs one operation for each two bytes, and returns the gateways. `after` checks them after each
/// operation that lets time pass.
pub fn play(setup: Setup, bytes: &[u8], after: impl Fn(&Gateways)) -> Gateways {
    let clusters = Clusters::of(&["a", "b", "c"]);
    *clusters.call_faults.borrow_mut() = setup.call_faults.clone();
    let all: Vec<Gateway> = (0..setup.gateways)
        .map(|_| Gateway::among(Rc::clone(&clusters), setup.workers, setup.reenters))
        .collect();
    for gateway in &all {
        assert!(gateway.configure(&configuration(&setup)), "{:?}", gateway.world.log.borrow());
        *gateway.world.faults.borrow_mut() =
            Faults { kind: setup.kind, one_in: setup.one_in, seed: setup.call_faults.seed };
    }
    let gateways = Gateways { all, clusters, setup };
    let (operations, _) = bytes.as_chunks::<2>();
    for [kind, what] in operations {
        if step(&gateways, *kind, *what) {
            after(&gateways);
        }
    }
    gateways
}

/// Runs one operation. Returns whether time has passed and all due events have happened.
fn step(gateways: &Gateways, kind: u8, what: u8) -> bool {
    let workers = usize::from(kind >> 5);
    let gateway = &gateways.all[workers % gateways.all.len()];
    let vm = &gateway.vms[workers / gateways.all.len() % gateway.vms.len()];
    let with = |act: fn(&Vm, u32)| {
        let streams = vm.streams();
        if !streams.is_empty() {
            act(vm, streams[usize::from(what) % streams.len()]);
        }
    };
    match kind % 32 {
        0..10 => {
            let user = ["ann", "bob"][usize::from(what) / PATHS.len() % 2];
            _ = vm.request(PATHS[usize::from(what) % PATHS.len()], user);
        }
        10..12 => {
            let path = PATHS[usize::from(what) % PATHS.len()];
            (0..4).for_each(|_| _ = vm.request(path, "ann"));
        }
        12 => with(|vm, id| vm.body(id, 1, false)),
        13..16 => with(Vm::serve),
        16..18 => with(Vm::reset),
        18..22 => return gateways.pass(u64::from(what % 16)),
        22..24 => return gateways.pass(u64::from(what) * 2),
        24 => return gateways.pass(u64::from(what) * 20),
        25 => timers_are_late(gateways, what),
        26 => vm.newest_root().into_iter().for_each(|root| vm.tick(root)),
        27 => with(|vm, id| vm.repeat(id as u8, id)),
        // A reply to a call that was never made, or that has ended long ago.
        28 => {
            let body = crate::host::wire::list(&[0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
            vm.report_again(what.into(), (Some(200), body));
        }
        29 if gateways.setup.reloads => reload(gateways, vm, what),
        30 if gateways.setup.goes_down => match what % 4 {
            0 => gateways.clusters.down.set(true),
            1 => *gateways.clusters.silent.borrow_mut() = vec!["a", "b", "c"],
            _ => {
                gateways.clusters.down.set(false);
                gateways.clusters.silent.borrow_mut().clear();
            }
        },
        _ => return gateways.pass(1),
    }
    false
}

/// Time passes, and timers fire later. If every reply must come in time, the delay is too short to
/// fail a call, because the refunds of a failed call are not sent again.
fn timers_are_late(gateways: &Gateways, what: u8) {
    let is_short = !gateways.setup.goes_down;
    let ms = if is_short { what % 32 } else { what };
    if is_short {
        // Events that an earlier delay has held up happen first.
        gateways.pass(0);
    }
    for gateway in &gateways.all {
        let clock = &gateway.world.clock;
        clock.set(clock.get() + u64::from(ms) * 1_000_000);
    }
}

/// A new plugin starts beside the old one, the old one goes, or it gets its configuration again.
fn reload(gateways: &Gateways, vm: &Vm, what: u8) {
    match what % 3 {
        0 => _ = vm.configure(),
        1 => _ = vm.configure_again(),
        _ => {
            let old = vm.oldest_root().filter(|root| Some(*root) != vm.newest_root());
            // Envoy keeps a plugin while it has streams.
            let waits = |root: &u32| vm.streams_of(*root) > 0 && !gateways.setup.call_faults.outlives;
            old.filter(|root| !waits(root)).into_iter().for_each(|root| vm.delete_root(root));
        }
    }
}
