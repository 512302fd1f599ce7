//! Decides about requests as a gateway's worker does: `cargo xtask tree` runs it under Callgrind,
//! to tell which files of the engine a decision runs through.
//!
//! ```console
//! $ cargo run -p diana-config --example one_request -- fast    # from a reservation of the worker
//! $ cargo run -p diana-config --example one_request -- swap    # by a compare-and-swap
//! ```

use diana_base::time::Time;
use diana_limiter::cells::store::{CasSemantics, SharedDataStore};
use diana_limiter::decide::Outcome;
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;
use std::error::Error;
use std::sync::Arc;

const DOCUMENT: &[u8] =
    br#"{"limits": [{"url": "/", "rules": [{"name": "per-ip", "actor": "ip", "rpu": 1000, "unit": "second"}]}]}"#;

type Shared = SharedDataStore<Simulated>;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("which path: `fast` or `swap`?")?;
    let compiled = diana_config::compile(DOCUMENT).map_err(|errors| format!("{errors:?}"))?;
    let store =
        SharedDataStore::probe(Simulated::new(CasSemantics::Strict)).map_err(|fault| format!("{fault:?}"))?;
    let mut worker = Worker::new(compiled.policy, store, b"a seed of a test");
    if path == "swap" {
        worker.disable_reservations();
    }
    let values = Values::default()
        .with(Part::Method, "GET")
        .with(Part::Path, "/items")
        .with(Part::Address, "10.0.0.1:4711");
    // The first requests find no cell, no reservation and nothing remembered.
    for _ in 0..20 {
        decide(&mut worker, &values)?;
    }
    measured(&mut worker, &values)
}

/// The one request that Callgrind counts, by the name of this function.
#[inline(never)]
fn measured(worker: &mut Worker<Shared>, values: &Values) -> Result<(), Box<dyn Error>> {
    decide(worker, values)
}

fn decide(worker: &mut Worker<Shared>, values: &Values) -> Result<(), Box<dyn Error>> {
    let policy = Arc::clone(worker.policy());
    let request = policy.request(values);
    let now = || Time::from_ns(1_795_392_000_000_000_000);
    let (_, decision) = Session::start(worker, &request, now);
    if decision.outcome == Outcome::Pass { Ok(()) } else { Err("the request is refused".into()) }
}
