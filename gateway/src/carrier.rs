//! The ways of a gateway's calls to Redis.

use crate::config::{Config, Tunnel, bridged, cluster};
use crate::filter;
use anyhow::Result;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// How the calls of a gateway reach Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// By a front, which speaks HTTP.
    Webdis,
    /// By the native module's bridge.
    Bridge,
    /// By a tunnel of Envoy's own.
    Tunnel,
}

impl Carrier {
    /// The cluster that the filter calls.
    #[must_use]
    pub fn cluster(self) -> &'static str {
        match self {
            Carrier::Webdis => "webdis",
            Carrier::Bridge | Carrier::Tunnel => "redis",
        }
    }

    /// The keys of `store: {redis: …}` that name the way.
    #[must_use]
    pub fn keys(self) -> Value {
        match self {
            Carrier::Webdis => json!({"cluster": self.cluster()}),
            Carrier::Bridge | Carrier::Tunnel => json!({"cluster": self.cluster(), "dialect": "resp"}),
        }
    }

    /// Leads the calls of a gateway to this address: that of the front, or of Redis. `options` are
    /// the bridge's. Builds the native module for a bridge.
    pub fn lead(self, mut config: Config, address: SocketAddr, options: &Value) -> Result<Config> {
        match self {
            Carrier::Webdis => config.clusters.push(cluster(self.cluster(), address, false)),
            Carrier::Bridge => {
                filter::module()?;
                config.clusters.push(bridged(self.cluster(), address, options));
            }
            Carrier::Tunnel => {
                let redis = cluster("redis-itself", address, false);
                config.tunnels.push(Tunnel { name: self.cluster().into(), redis });
            }
        }
        Ok(config)
    }
}
