//! Events of a gateway, as a list of operations that any bytes can be read as.

use super::faults::{FaultKind, Faults};
use super::gateway::{Fate, Gateway};
use super::vm::Vm;
use diana::Exports;
use diana_limiter::cells::store::CasSemantics;

/// Each limit has an algorithm of its own, and one limit has three. A day is longer than any run.
pub const CONFIGURATION: &str = r#"{"limits": [
    {"url": "/quota", "rules": [{"name": "quota", "actor": "user", "rpu": 5, "unit": "day"}]},
    {"url": "/permits", "rules": [{"name": "permits", "algo": "C", "rpu": 2, "max_hold": "1d"}]},
    {"url": "/queue", "rules": [{"name": "queue", "algo": "LB", "rpu": 10, "unit": "second", "queue": 4}]},
    {"url": "/held", "rules": [{"name": "held", "rpu": 1, "unit": "day", "reject_delay": "200ms"}]},
    {"url": "/all", "rules": [
        {"name": "all-quota", "actor": "user", "rpu": 9, "unit": "day"},
        {"name": "all-permits", "algo": "C", "rpu": 3, "max_hold": "1d"},
        {"name": "all-queue", "algo": "LB", "rpu": 20, "unit": "second", "queue": 3}]}]}"#;

pub const PATHS: [&str; 6] = ["/quota", "/permits", "/queue", "/held", "/all", "/free"];
const USERS: [&str; 2] = ["ann", "bob"];

/// The setup of a run.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub rules: CasSemantics,
    pub workers: usize,
    pub reenters: bool,
    pub kind: FaultKind,
    pub one_in: u64,
    pub seed: u64,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Request {
        worker: u8,
        what: u8,
    },
    /// An event of one of the streams.
    Body {
        worker: u8,
        which: u8,
    },
    Serve {
        worker: u8,
        which: u8,
    },
    Reset {
        worker: u8,
        which: u8,
    },
    /// Time passes, and due timers fire on time or late.
    Pass {
        tens_of_ms: u8,
    },
    Late {
        tens_of_ms: u8,
    },
    /// A timer fires before it is due.
    Tick {
        worker: u8,
    },
    Repeat {
        worker: u8,
        what: u8,
    },
    /// Adds a plugin beside the old one, deletes the old one, or configures it again.
    Reload {
        worker: u8,
        what: u8,
    },
}

impl Op {
    /// Any two bytes are an operation.
    pub fn read([kind, what]: [u8; 2]) -> Op {
        let worker = kind >> 5;
        match kind % 32 {
            0..12 => Op::Request { worker, what },
            12..14 => Op::Body { worker, which: what },
            14..18 => Op::Serve { worker, which: what },
            18..21 => Op::Reset { worker, which: what },
            21..25 => Op::Pass { tens_of_ms: what },
            25..27 => Op::Late { tens_of_ms: what },
            27..29 => Op::Tick { worker },
            29..31 => Op::Repeat { worker, what },
            _ => Op::Reload { worker, what },
        }
    }
}

/// Runs one operation for each two bytes. `after` checks the gateway after each.
pub fn play(setup: Setup, bytes: &[u8], mut after: impl FnMut(&Gateway)) -> Gateway {
    let gateway = Gateway::new(setup.rules, setup.workers, Exports::All, setup.reenters);
    assert!(gateway.configure(CONFIGURATION));
    *gateway.world.faults.borrow_mut() = Faults { kind: setup.kind, one_in: setup.one_in, seed: setup.seed };
    let (operations, _) = bytes.as_chunks::<2>();
    for operation in operations {
        step(&gateway, Op::read(*operation));
        after(&gateway);
    }
    gateway
}

fn step(gateway: &Gateway, op: Op) {
    let vm = |worker: u8| &gateway.vms[usize::from(worker) % gateway.vms.len()];
    let one = |worker: u8, which: u8| {
        let streams = vm(worker).streams();
        (!streams.is_empty()).then(|| streams[usize::from(which) % streams.len()])
    };
    let with = |worker: u8, which: u8, act: fn(&Vm, u32)| {
        if let Some(id) = one(worker, which) {
            act(vm(worker), id);
        }
    };
    match op {
        Op::Request { worker, what } => {
            let (path, user) =
                (usize::from(what) % PATHS.len(), usize::from(what) / PATHS.len() % USERS.len());
            gateway.request(worker.into(), PATHS[path], USERS[user]);
        }
        Op::Body { worker, which } => with(worker, which, |vm, id| vm.body(id, 1, false)),
        Op::Serve { worker, which } => with(worker, which, Vm::serve),
        Op::Reset { worker, which } => with(worker, which, Vm::reset),
        Op::Pass { tens_of_ms } => gateway.pass(u64::from(tens_of_ms) * 10),
        Op::Late { tens_of_ms } => {
            let clock = &gateway.world.clock;
            clock.set(clock.get() + u64::from(tens_of_ms) * 10_000_000);
        }
        Op::Tick { worker } => {
            if let Some(root) = vm(worker).newest_root() {
                vm(worker).tick(root);
            }
        }
        Op::Repeat { worker, what } => {
            if let Some(id) = one(worker, what / 6) {
                vm(worker).repeat(what, id);
            }
        }
        Op::Reload { worker, what } => match what % 3 {
            0 => _ = vm(worker).configure(),
            1 => _ = vm(worker).configure_again(),
            _ => {
                let old = vm(worker).oldest_root().filter(|root| Some(*root) != vm(worker).newest_root());
                // Envoy keeps a plugin while it has streams. Other hosts need not. Then waiting
                // streams are released by a call that must not fail, because there is no second
                // call.
                let may_fail =
                    matches!(gateway.world.faults.borrow().kind, FaultKind::Release | FaultKind::Any);
                if let Some(root) = old.filter(|root| !may_fail || vm(worker).streams_of(*root) == 0) {
                    vm(worker).delete_root(root);
                }
            }
        },
    }
}

/// How many requests for this path are at the upstream.
pub fn in_flight(gateway: &Gateway, path: &str) -> usize {
    let records = gateway.world.records.borrow();
    records.iter().filter(|record| record.path == path && record.fate == Fate::Upstream).count()
}
