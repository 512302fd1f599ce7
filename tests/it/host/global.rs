//! Global rules in the whole filter, with simulated stores: calls go out, and replies come late,
//! twice or never.

mod calls;
mod invariants;
mod laws;
mod leases;
mod plans;
mod play;
mod refunds;
mod retired;
mod stores;

use super::callouts::{CallFaults, Clusters};
use super::gateway::{Fate, Gateway};
use std::rc::Rc;

const REFUSED: Fate = Fate::Answered(429);
const WINDOW: &str = r#"{"name": "window", "algo": "W", "rpu": 3, "unit": "day", "scope": "global"}"#;
const PERMITS: &str = r#"{"name": "permits", "algo": "C", "rpu": 2, "max_hold": "1d", "scope": "global"}"#;

/// A configuration with these limits, whose stores are in these clusters.
fn configuration(clusters: &str, limits: &str) -> String {
    format!(
        r#"{{"store": {{"redis": {{"clusters": [{clusters}], "secret": "sixteen letters!"}}}}, "limits": [{limits}]}}"#
    )
}

/// A limit on a path with these rules.
fn limit(path: &str, rules: &str) -> String {
    format!(r#"{{"url": "{path}", "rules": [{rules}]}}"#)
}

/// A gateway with the store `a`, where a call takes a millisecond or two.
fn start(workers: usize, limits: &str) -> Gateway {
    let gateway = Gateway::among(Clusters::of(&["a"]), workers, false);
    assert!(gateway.configure(&configuration(r#""a""#, limits)), "{:?}", gateway.world.log.borrow());
    gateway
}

fn clusters(gateway: &Gateway) -> Rc<Clusters> {
    Rc::clone(&gateway.world.clusters)
}

/// Sets how further calls fare.
fn set_call_faults(gateway: &Gateway, call_faults: CallFaults) {
    *gateway.world.clusters.call_faults.borrow_mut() = call_faults;
}

/// The fate of a request once its call has been answered.
fn ask(gateway: &Gateway, worker: usize, path: &str) -> Fate {
    let request = gateway.request(worker, path, "ann");
    gateway.pass(10);
    gateway.fate(request)
}

fn fates(gateway: &Gateway, requests: &[usize]) -> Vec<Fate> {
    requests.iter().map(|request| gateway.fate(*request)).collect()
}
