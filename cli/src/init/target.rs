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

/// The Redis that counts for all gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis(pub Endpoint);

impl FromStr for Redis {
    type Err = String;

    fn from_str(text: &str) -> Result<Redis, String> {
        match text.split_once('=') {
            Some(("redis", endpoint)) => Ok(Redis(endpoint.parse()?)),
            _ => Err("expected `redis=HOST:PORT`".into()),
        }
    }
}
