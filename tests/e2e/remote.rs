//! Remote configurations at run time: all workers activate a document, or none does.
//!
//! The quota in the `RateLimit-Policy` of a response shows which document is active in the worker.

mod clients;
mod outage;
mod polls;
pub mod raised;
mod refused;
mod reverted;
mod shapes;
mod switch;
mod updates;

use clients::Clients;
use gateway::config::cluster;
use gateway::{Config, Gateway, wait_until};
use serde_json::{Value, json};
use servers::Documents;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const INTERVAL: Duration = Duration::from_millis(200);
/// Two workers, and the main thread, which has a VM as well.
const VMS: u64 = 3;
/// The quota of the local document.
const LOCAL: u64 = 1_000_000;

/// A gateway of two workers, and its document server.
struct Remote {
    gateway: Gateway,
    documents: Documents,
}

impl Remote {
    /// A gateway with further keys of `remote`, and a server without a document.
    fn start(remote: Value) -> Remote {
        Remote::with(remote, |config| config)
    }

    /// The same, with a change of the gateway's configuration.
    fn with(remote: Value, change: impl FnOnce(Config) -> Config) -> Remote {
        let documents = Documents::start().unwrap();
        let mut config = change(Config { balanced: true, ..Config::new(local(&remote)) });
        config.clusters.push(cluster("config", documents.address(), false));
        Remote { gateway: Gateway::start(config).unwrap(), documents }
    }

    fn connect(&self) -> Clients {
        Clients::connect(&self.gateway)
    }

    /// One of the filter's metrics, by Envoy's name: `config.generation`.
    fn counted(&self, name: &str) -> u64 {
        self.gateway.counted(name).unwrap()
    }

    /// How many polls have had this result so far.
    fn polls(&self, result: &str) -> u64 {
        self.counted(&format!("config.result.{result}.polls"))
    }

    /// Waits for `more` polls with this result.
    fn wait_polls(&self, result: &str, more: u64) {
        let most = self.polls(result) + more;
        self.wait(result, || self.polls(result) >= most);
    }

    /// Waits until `holds` is true.
    fn wait(&self, what: &str, mut holds: impl FnMut() -> bool) {
        wait_until(what, PATIENCE, || holds().then_some(())).unwrap_or_else(|error| {
            panic!(
                "{error}\n{}\n{}",
                self.gateway.logs(),
                self.gateway.admin().get("/stats?filter=diana").unwrap().text()
            )
        });
    }

    /// Waits until all workers count by this quota.
    fn wait_for(&self, clients: &mut Clients, quota: u64) {
        self.wait(&format!("a quota of {quota}"), || clients.quotas().iter().all(|found| *found == quota));
    }

    /// The lines of the log with this text.
    fn lines(&self, text: &str) -> Vec<String> {
        self.gateway.logs().lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

/// Waits until all workers of a gateway that balances connections count by this quota.
fn wait_for(gateway: &Gateway, quota: u64) {
    let mut clients = Clients::connect(gateway);
    wait_until("a quota", PATIENCE, || clients.quotas().iter().all(|found| *found == quota).then_some(()))
        .unwrap_or_else(|error| panic!("{error}: {quota}\n{}", gateway.logs()));
}

/// The local document, with further keys of `remote`.
fn local(remote: &Value) -> Value {
    let mut all = json!({"cluster": "config", "path": "/diana.json", "interval": "200ms", "timeout": "1s"});
    all.as_object_mut().unwrap().extend(remote.as_object().unwrap().clone());
    let mut document = quota(LOCAL);
    document["remote"] = all;
    document
}

/// A document of one rule.
fn quota(quota: u64) -> Value {
    json!({"limits": [{"url": "/", "rules": [{"name": "quota", "algo": "W", "rpu": quota, "unit": "7d"}]}]})
}
