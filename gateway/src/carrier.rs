//! The ways of a gateway's calls to Redis.

use crate::config::{Config, Tunnel, bridged, cluster};
use crate::filter;
use anyhow::Result;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// How the calls of a gateway reach Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// By the native module's bridge.
    Bridge,
    /// By a tunnel of Envoy's own.
    Tunnel,
}

impl Carrier {
    /// Both.
    pub const ALL: [Carrier; 2] = [Carrier::Bridge, Carrier::Tunnel];
    /// The cluster that the filter calls, whichever way its calls take.
    pub const CLUSTER: &str = "redis";

    /// The keys of `store: {redis: …}` that name the cluster.
    #[must_use]
    pub fn keys() -> Value {
        json!({"cluster": Self::CLUSTER})
    }

    /// Leads the calls of a gateway to the Redis at this address. `options` are the bridge's. Builds
    /// the native module for a bridge.
    pub fn lead(self, mut config: Config, redis: SocketAddr, options: &Value) -> Result<Config> {
        match self {
            Carrier::Bridge => {
                filter::module()?;
                config.clusters.push(bridged(Self::CLUSTER, redis, options));
            }
            Carrier::Tunnel => {
                let redis = cluster("redis-itself", redis, false);
                config.tunnels.push(Tunnel { name: Self::CLUSTER.into(), redis });
            }
        }
        Ok(config)
    }
}
