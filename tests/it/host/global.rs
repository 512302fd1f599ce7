//! Global rules in the whole filter, with simulated stores: calls go out, and replies come late,
//! twice or never.

mod ends;
mod invariants;
mod laws;
mod leases;
mod play;
mod retired;
mod stores;

use super::callouts::{Clusters, Fares};
use super::gateway::{Fate, Gateway};
use std::rc::Rc;

const REFUSED: Fate = Fate::Answered(429);

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
fn fare(gateway: &Gateway, fares: Fares) {
    *gateway.world.clusters.fares.borrow_mut() = fares;
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
