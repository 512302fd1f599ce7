//! A real Limitador (a rate limit service) with counters in memory. The program must be installed.

use crate::process::Folder;
use crate::service::{Program, Service};
use crate::{free_port, wait_until};
use anyhow::Result;
use std::net::TcpStream;
use std::time::Duration;

const START: Duration = Duration::from_secs(10);

/// The arguments of a [`Limitador`].
pub struct Server {
    limits: String,
}

/// The program.
pub const PROGRAM: &str = Server::NAME;

impl Program for Server {
    const NAME: &'static str = "limitador-server";
    const LISTENS: &'static str = "Envoy RLS server starting";

    fn arguments(&self, port: u16, folder: &Folder) -> Result<Vec<String>> {
        let limits = folder.write("limits.yaml", &self.limits)?.display().to_string();
        let (port, other) = (port.to_string(), free_port()?.to_string());
        let arguments = [
            &["-vvv", "--rate-limit-headers", "DRAFT_VERSION_03"][..],
            &["--rls-ip", "127.0.0.1", "--rls-port", &port],
            &["--http-ip", "127.0.0.1", "--http-port", &other, &limits, "memory"],
        ];
        Ok(arguments.concat().into_iter().map(str::to_owned).collect())
    }
}

/// A running Limitador, which ends when this value is dropped.
pub type Limitador = Service<Server>;

impl Limitador {
    /// Starts a server with this `limits.yaml` on a free port, and waits until the server accepts
    /// connections.
    pub fn start(limits: &str) -> Result<Self> {
        let limitador = Self::run(Server { limits: limits.to_owned() })?;
        let connects = || TcpStream::connect(limitador.address()).ok().map(drop);
        wait_until("Limitador to take connections", START, connects)?;
        Ok(limitador)
    }
}
