//! `cargo bench`: measures one decision with each algorithm as native code, beside `governor`.
//!
//! ```text
//!   step        the algorithm alone: an instant and bytes in, verdict and bytes out
//!   check       one key of 10,000, with its bytes in a map in memory, as in governor's keyed check
//!   keyed       one key of 10,000: hash, load from memory, find, step, swap
//!   decision    a whole request: matching limits, actors, verdicts, headers
//!   governor    governor's check of one key of 10,000, and governor's check without keys
//! ```
//!
//! Every request is admitted. Our state is bytes in a value of 16 cells. As in a host, each
//! decision copies the value out and in again, and several workers may change the value.
//! `governor`'s state is a number in the memory of one process.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

use criterion::{Criterion, criterion_group, criterion_main};
use diana_base::time::{Span, Time};
use diana_config::algorithm::{AlgorithmKind, KINDS};
use diana_document::{Errors, Node, parse};
use diana_limiter::algorithm::{Algorithm, Allowance};
use diana_limiter::cells::store::{CasSemantics, SharedDataStore, Swap};
use diana_limiter::cells::table::{Dated, Hasher, Loss, StateEntry, Table, shared_seed};
use diana_limiter::decide::Outcome;
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter};
use std::collections::HashMap;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{SystemTime, UNIX_EPOCH};

const ACTORS: usize = 10_000;
const START_NS: u64 = 1_700_000_000_000_000_000;

/// The highest `rpu` of a rule of this kind.
fn rpu(kind: &AlgorithmKind) -> u64 {
    if kind.short == "SL" { Algorithm::MAX_LOGGED } else { Allowance::MAX_RPU }
}

fn compile(kind: &AlgorithmKind) -> Algorithm {
    let (value, errors) = (parse(b"{}").expect("a document"), Errors::default());
    let mut fields = Node::root(&value, &errors).fields().expect("an object");
    (kind.read)(&mut fields, Some(Allowance { rpu: rpu(kind), unit: Span::from_ms(1000) }))
        .expect("an algorithm")
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_ns(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn step(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("step");
    for kind in KINDS {
        let algorithm = compile(kind);
        let mut cell = vec![0; algorithm.size()];
        let mut at = START_NS;
        group.bench_function(kind.short, |bencher| {
            bencher.iter(|| {
                // Advance far enough that a sliding log also has room.
                at += 10_000_000;
                let now = Time::from_ns(at);
                algorithm.prepare(&mut cell, now);
                let verdict = algorithm.step(&mut cell, now, 1);
                assert!(verdict.admits());
                black_box(verdict.remaining)
            });
        });
    }
    group.finish();
}

/// The names of the keys.
fn names() -> Vec<String> {
    (0..ACTORS).map(|n| format!("user-{n}")).collect()
}

fn check(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("check");
    let names = names();
    for kind in KINDS {
        let algorithm = compile(kind);
        let empty = || vec![0; algorithm.size()];
        let mut cells: HashMap<String, Vec<u8>> = names.iter().map(|name| (name.clone(), empty())).collect();
        let mut names = names.iter().cycle();
        // Each key returns after 10 ms, so a sliding log also has room, and has 100 entries to
        // search.
        let mut at = START_NS;
        group.bench_function(kind.short, |bencher| {
            bencher.iter(|| {
                let cell = cells.get_mut(names.next().expect("a name")).expect("a cell");
                black_box(now());
                at += 1_000;
                let now = Time::from_ns(at);
                algorithm.prepare(cell, now);
                assert!(algorithm.step(cell, now, 1).admits());
            });
        });
    }
    group.finish();
}

fn keyed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("keyed");
    let names = names();
    for kind in KINDS {
        let algorithm = compile(kind);
        let states = vec![StateEntry { identity: 4, size: algorithm.size(), keeps_rest: false }];
        let table = Table::new("keyed", states, ACTORS as u64);
        let store = SharedDataStore::probe(Simulated::new(CasSemantics::Lenient)).expect("a store");
        let hasher = Hasher::new(b"a seed of a test");
        let mut names = names.iter().cycle();
        group.bench_function(kind.short, |bencher| {
            bencher.iter(|| {
                let hash = hasher.hash(names.next().expect("a name").as_bytes());
                let set = table.load(&store, hash).expect("a set");
                let now = now();
                let mut entry = set.claim(now, |_, _| Loss::Part(0)).expect("room");
                let mut cell = entry.cell();
                algorithm.prepare(&mut cell, now);
                assert!(algorithm.step(&mut cell, now, 1).admits());
                entry.write(&cell, now, |_, cell| algorithm.rests_in(cell, now));
                assert_eq!(entry.commit(&store), Ok(Swap::Done));
            });
        });
    }
    group.finish();
}

fn decision(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decision");
    let request = |name: String| {
        Values::default()
            .with(Part::Method, "GET")
            .with(Part::Path, "/api/items?page=2")
            .with(Part::Address, "10.0.0.1:0")
            .with(Part::Header("x-user-id".into()), name)
    };
    let users: Vec<Values> = names().into_iter().map(request).collect();
    for kind in KINDS {
        let unit = if kind.per_unit { r#", "unit": "second""# } else { "" };
        let json = format!(
            r#"{{"url": "/api", "rules": [{{"actor": "user", "algo": "{}", "rpu": {}{unit}}}]}}"#,
            kind.short,
            rpu(kind),
        );
        let policy = diana_config::compile(json.as_bytes()).expect("a configuration").policy;
        let host = Simulated::new(CasSemantics::Lenient);
        let store = SharedDataStore::probe(&host).expect("a store");
        let fresh = Dated { since: Time::from_ns(1), seed: *b"a seed of a test" };
        let seed = shared_seed(&store, fresh).expect("a seed").seed;
        let mut worker = Worker::new(policy.clone(), &store, &seed);
        let mut users = users.iter().cycle();
        group.bench_function(kind.short, |bencher| {
            bencher.iter(|| {
                let request = policy.request(users.next().expect("a user"));
                let (_, decision) = Session::start(&mut worker, &request, now);
                assert_eq!(decision.outcome, Outcome::Pass);
            });
        });
    }
    group.finish();
}

fn governor(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("governor");
    let quota = governor::Quota::per_second(NonZeroU32::new(1_000_000_000).expect("above zero"));
    let keyed = DefaultKeyedRateLimiter::<String>::keyed(quota);
    let names = names();
    let mut names = names.iter().cycle();
    group.bench_function("keyed", |bencher| {
        bencher.iter(|| assert!(keyed.check_key(names.next().expect("a name")).is_ok()));
    });
    let direct = DefaultDirectRateLimiter::direct(quota);
    group.bench_function("direct", |bencher| bencher.iter(|| assert!(direct.check().is_ok())));
    group.finish();
}

criterion_group!(benches, step, check, keyed, decision, governor);
criterion_main!(benches);
