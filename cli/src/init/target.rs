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

/// The server of a document, and the path there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The server.
    pub server: Endpoint,
    /// The path.
    pub path: String,
}

impl FromStr for Remote {
    type Err = String;

    fn from_str(text: &str) -> Result<Remote, String> {
        let (server, path) = text.split_at(text.find('/').unwrap_or(text.len()));
        let path = if path.is_empty() { "/diana.json" } else { path };
        Ok(Remote { server: server.parse()?, path: path.into() })
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
