//! Rules that a store for all gateways counts, in the whole filter: calls go out, and come back late, twice or never.
//!
//! It does not know: the script, nor a real store.

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

/// A configuration of these limits, whose shared rules are counted in clusters of these names.
fn configuration(clusters: &str, limits: &str) -> String {
    format!(
        r#"{{"store": {{"redis": {{"clusters": [{clusters}], "secret": "sixteen letters!"}}}}, "limits": [{limits}]}}"#
    )
}

/// A limit on a path with these rules.
fn limit(path: &str, rules: &str) -> String {
    format!(r#"{{"url": "{path}", "rules": [{rules}]}}"#)
}

/// A gateway that asks the cluster `a`, over which a call takes a millisecond or two.
fn start(workers: usize, limits: &str) -> Gateway {
    let gateway = Gateway::among(Clusters::of(&["a"]), workers, false);
    assert!(gateway.configure(&configuration(r#""a""#, limits)), "{:?}", gateway.world.log.borrow());
    gateway
}

fn clusters(gateway: &Gateway) -> Rc<Clusters> {
    Rc::clone(&gateway.world.clusters)
}

/// From now on calls fare so.
fn fare(gateway: &Gateway, fares: Fares) {
    *gateway.world.clusters.fares.borrow_mut() = fares;
}

/// What becomes of a request when its call has been answered.
fn ask(gateway: &Gateway, worker: usize, path: &str) -> Fate {
    let request = gateway.request(worker, path, "ann");
    gateway.pass(10);
    gateway.fate(request)
}

fn fates(gateway: &Gateway, requests: &[usize]) -> Vec<Fate> {
    requests.iter().map(|request| gateway.fate(*request)).collect()
}
