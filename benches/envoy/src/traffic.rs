//! The requests and the counts that both loads share.

use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The number of connections. All connections stay open.
pub const CONNECTIONS: usize = 16;

/// The headers of each request besides `host`, as a typical API client sends them.
pub const HEADERS: [(&str, &str); 5] = [
    ("user-agent", "bench/1.0"),
    ("accept", "application/json"),
    ("accept-encoding", "gzip, br"),
    ("x-user-id", "ann"),
    ("authorization", "Bearer 0123456789abcdef0123456789abcdef"),
];

/// The target of the requests.
pub struct Target {
    /// The gateway's listener.
    pub address: SocketAddr,
    /// The paths. The connections request the paths in turn.
    pub paths: Vec<String>,
}

/// The results of one run.
#[derive(Debug, Default)]
pub struct Answers {
    /// The number of answers by status.
    pub by_status: BTreeMap<u16, u64>,
    /// The duration of the run, in seconds.
    pub seconds: f64,
}

impl Answers {
    /// Returns the number of answers. Fails unless all answers have this status.
    pub fn all(&self, status: u16) -> Result<u64> {
        match self.by_status.iter().collect::<Vec<_>>()[..] {
            [(only, count)] if *only == status => Ok(*count),
            _ => bail!("all responses must have status {status}; responses by status: {:?}", self.by_status),
        }
    }
}
