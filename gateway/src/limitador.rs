//! A real Limitador (a rate limit service), which counts in memory or in Redis. The program must be
//! installed.

use crate::process::Folder;
use crate::service::{Program, Service};
use crate::{Redis, free_port, wait_until};
use anyhow::Result;
use std::net::TcpStream;
use std::time::Duration;

const START: Duration = Duration::from_secs(10);

/// The arguments of a [`Limitador`].
pub struct Server {
    limits: String,
    storage: Vec<String>,
}

/// The program.
pub const PROGRAM: &str = Server::NAME;

impl Program for Server {
    const NAME: &'static str = "limitador-server";
    const LISTENS: &'static str = "Envoy RLS server starting";
    const INSTALL: &'static str = "install it in a folder of `$PATH`";

    fn arguments(&self, port: u16, folder: &Folder) -> Result<Vec<String>> {
        let limits = folder.write("limits.yaml", &self.limits)?.display().to_string();
        let (port, other) = (port.to_string(), free_port()?.to_string());
        let arguments = [
            // At this level a line says that it listens, and none is about a request.
            &["-vv", "--rate-limit-headers", "DRAFT_VERSION_03"][..],
            &["--rls-ip", "127.0.0.1", "--rls-port", &port],
            &["--http-ip", "127.0.0.1", "--http-port", &other, &limits],
        ];
        let arguments = arguments.concat().into_iter().map(str::to_owned);
        Ok(arguments.chain(self.storage.iter().cloned()).collect())
    }
}

/// A running Limitador, which ends when this value is dropped.
pub type Limitador = Service<Server>;

impl Limitador {
    /// Starts a server with this `limits.yaml` on a free port, and waits until the server accepts
    /// connections. It counts in memory.
    pub fn start(limits: &str) -> Result<Self> {
        Self::with(limits, vec!["memory".into()])
    }

    /// The same with counters in this Redis.
    pub fn start_on(limits: &str, redis: &Redis) -> Result<Self> {
        Self::with(limits, vec!["redis".into(), format!("redis://{}", redis.address())])
    }

    fn with(limits: &str, storage: Vec<String>) -> Result<Self> {
        let limitador = Self::run(Server { limits: limits.to_owned(), storage })?;
        let connects = || TcpStream::connect(limitador.address()).ok().map(drop);
        wait_until("Limitador to take connections", START, connects)?;
        Ok(limitador)
    }
}
