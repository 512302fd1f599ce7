//! Remote configuration in the whole filter: which document each worker activates, whatever happens
//! to its calls. Each document refuses all requests with a status of its own.

mod changes;
mod faults;
mod play;
mod switch;
mod workers;

use super::callouts::{CallFaults, Clusters, Server};
use super::faults::{FaultKind, Faults};
use super::gateway::{Fate, Gateway};
use super::vm::Vm;
use std::rc::Rc;

/// The status with which the local document refuses.
const LOCAL: u32 = 420;

/// A document that refuses with this status.
fn document(status: u32) -> String {
    format!(r#"{{"response": {{"status": {status}}}}}"#)
}

/// A local document that refuses all requests and polls the cluster `config` each second.
fn configuration(more: &str) -> String {
    format!(
        r#"{{"limits": [{{"url": "/", "rules": [{{"name": "none", "rpu": 0, "unit": "day"}}]}}], "response": {{"status": 420}},
            "remote": {{"cluster": "config", "path": "/diana.json", "interval": "1s", "timeout": "200ms", "max_stale": "10s"{more}}}}}"#
    )
}

/// A gateway whose server has this document. Its clusters `a` and `b` are stores.
fn gateway(workers: usize, document: &str) -> Gateway {
    let clusters = Clusters::of(&["a", "b"]);
    clusters.servers.borrow_mut().insert("config".into(), Server::of(document));
    Gateway::among(clusters, workers, false)
}

fn start(workers: usize, document: &str) -> Gateway {
    let gateway = gateway(workers, document);
    assert!(gateway.configure(&configuration("")), "{:?}", gateway.world.log.borrow());
    gateway
}

fn clusters(gateway: &Gateway) -> Rc<Clusters> {
    Rc::clone(&gateway.world.clusters)
}

/// Changes the server's state.
fn change(gateway: &Gateway, change: impl FnOnce(&mut Server)) {
    change(clusters(gateway).servers.borrow_mut().get_mut("config").unwrap());
}

/// Puts this document on the server.
fn put_document(gateway: &Gateway, document: &str) {
    change(gateway, |server| server.document = document.into());
}

fn polls(gateway: &Gateway) -> usize {
    clusters(gateway).servers.borrow()["config"].polls
}

fn set_call_faults(gateway: &Gateway, call_faults: CallFaults) {
    *gateway.world.clusters.call_faults.borrow_mut() = call_faults;
}

/// The status with which a worker refuses. The request has no faults.
fn active_status(gateway: &Gateway, vm: &Vm) -> u32 {
    let before = gateway.world.faults.replace(Faults::default());
    let request = vm.request("/", "ann");
    gateway.world.faults.replace(before);
    match gateway.fate(request) {
        Fate::Answered(status) => status,
        fate => panic!("{fate:?}"),
    }
}

/// The status of each worker's active document.
fn active_statuses(gateway: &Gateway) -> Vec<u32> {
    gateway.vms.iter().map(|vm| active_status(gateway, vm)).collect()
}

/// Checks that no request or call has left state, and nothing has crashed.
fn is_clean(gateway: &Gateway) {
    gateway.end_all();
    gateway.world.faults.replace(Faults { kind: FaultKind::Nothing, ..Faults::default() });
    set_call_faults(gateway, CallFaults::default());
    let roots: Vec<_> = gateway.vms.iter().filter_map(|vm| Some((vm, vm.newest_root()?))).collect();
    roots.into_iter().for_each(|(vm, root)| vm.delete_root(root));
    assert_eq!(gateway.kept_streams(), 0);
    assert_eq!(gateway.vms.iter().map(Vm::calling).sum::<usize>(), 0);
    gateway.no_crash();
}
