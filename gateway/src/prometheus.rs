//! A real Prometheus, for the tests of dashboards, rules and alerts. It keeps its data in the
//! folder of the test.

use crate::Connection;
use crate::process::Folder;
use crate::service::{Program, Service};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt::Write;
use std::net::SocketAddr;

/// The files of a [`Prometheus`].
pub struct Server {
    config: String,
    files: Vec<(String, String)>,
}

impl Program for Server {
    const NAME: &'static str = "prometheus";
    const LISTENS: &'static str = "Server is ready to receive web requests";
    const INSTALL: &'static str = "install it with `apt-get install prometheus`";

    fn arguments(&self, port: u16, folder: &Folder) -> Result<Vec<String>> {
        for (name, text) in &self.files {
            folder.write(name, text)?;
        }
        let config = folder.write("prometheus.yaml", &self.config)?;
        Ok(vec![
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", folder.path().join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ])
    }
}

/// A running Prometheus; the process ends when this is dropped.
pub type Prometheus = Service<Server>;

impl Prometheus {
    /// Starts a Prometheus with this configuration on a free port, and waits until it serves. The
    /// files, each a name and a text, lie in the folder of the configuration.
    pub fn start(config: &str, files: &[(&str, &str)]) -> Result<Self> {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Self::run(Server { config: config.to_owned(), files })
    }

    /// The result of an expression at this moment: a list of series.
    pub fn query(&self, expression: &str) -> Result<Vec<Value>> {
        query(self.address(), expression)
    }
}

/// The same of the Prometheus at this address.
pub fn query(address: SocketAddr, expression: &str) -> Result<Vec<Value>> {
    let mut path = "/api/v1/query?query=".to_owned();
    expression.bytes().try_for_each(|byte| write!(path, "%{byte:02X}"))?;
    let answer = Connection::open(address)?.request("GET", &path, &[], b"")?;
    let answer: Value = serde_json::from_slice(&answer.body)?;
    let result = answer["data"]["result"].as_array();
    Ok(result.with_context(|| format!("Prometheus does not answer `{expression}`: {answer}"))?.clone())
}
