//! Limits that several gateways share, counted in a real Redis behind a real webdis.

mod exact;

use gateway::config::cluster;
use gateway::redis::{Redis, Webdis};
use gateway::{Config, Gateway};
use serde_json::{Value, json};

/// What all gateways of a test know, and nobody else.
const SECRET: &str = "a secret of the tests only";

/// A Redis, its front, and gateways of two workers each that count in it.
pub struct Shared {
    pub gateways: Vec<Gateway>,
    pub webdis: Webdis,
    pub redis: Redis,
}

impl Shared {
    /// Gateways with these limits.
    pub fn start(gateways: usize, limits: &Value) -> Shared {
        Shared::with(gateways, json!({}), limits)
    }

    /// Gateways with these limits whose `store: {redis: …}` has this beside what it needs.
    pub fn with(gateways: usize, store: Value, limits: &Value) -> Shared {
        let redis = Redis::start().unwrap();
        let webdis = Webdis::start(&redis).unwrap();
        let mut options = json!({"cluster": "webdis", "secret": SECRET, "timeout": "1s"});
        options.as_object_mut().unwrap().extend(store.as_object().unwrap().clone());
        let document = json!({"limits": limits, "store": {"redis": options}});
        let start = || {
            let mut config = Config::new(document.clone());
            config.clusters.push(cluster("webdis", webdis.address(), false));
            Gateway::start(config).unwrap()
        };
        let gateways = (0..gateways).map(|_| start()).collect();
        Shared { gateways, webdis, redis }
    }
}
