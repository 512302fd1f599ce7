//! What a plan is for: the kind of file, and the store.

use super::endpoint::Endpoint;
use serde::Serialize;
use std::str::FromStr;

/// The kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Envoy with the filter
    Envoy,
    /// Envoy with the native module
    EnvoyNative,
    /// nginx with the filter
    Nginx,
    /// A document alone
    Document,
}

impl Kind {
    /// The name of the file.
    pub fn file(self) -> &'static str {
        match self {
            Kind::Envoy => "envoy.yaml",
            Kind::EnvoyNative => "envoy-native.yaml",
            Kind::Nginx => "nginx.conf",
            Kind::Document => "diana.yaml",
        }
    }
}

/// A store that counts for all gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// Redis itself.
    Redis(Endpoint),
    /// A rate limit service.
    Rls(Endpoint),
}

impl FromStr for Store {
    type Err = String;

    fn from_str(text: &str) -> Result<Store, String> {
        match text.split_once('=') {
            Some(("redis", endpoint)) => Ok(Store::Redis(endpoint.parse()?)),
            Some(("rls", endpoint)) => Ok(Store::Rls(endpoint.parse()?)),
            _ => Err("expected `redis=HOST:PORT` or `rls=HOST:PORT`".into()),
        }
    }
}

impl Store {
    /// The gateway's name of the store's cluster.
    pub fn cluster(&self) -> &'static str {
        match self {
            Store::Redis(_) => "redis",
            Store::Rls(_) => "ratelimit",
        }
    }

    /// The address.
    pub fn endpoint(&self) -> &Endpoint {
        let (Store::Redis(endpoint) | Store::Rls(endpoint)) = self;
        endpoint
    }
}
