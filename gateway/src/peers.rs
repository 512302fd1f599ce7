//! Other rate limiters, which the migration guides compare with Diana: nginx and Traefik. The
//! programs must be installed; `cargo xtask migrate` installs them.

use crate::process::Folder;
use crate::service::{Program, Service};
use crate::wait_until;
use anyhow::Result;
use nix::sys::signal::Signal;
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::time::Duration;

const START: Duration = Duration::from_secs(20);

/// The addresses in the guides' files: of the server, and of the application behind it.
const SERVER: &str = "127.0.0.1:8080";
const APPLICATION: &str = "127.0.0.1:3000";

/// The arguments of an [`Nginx`].
pub struct NginxProgram(String);

impl Program for NginxProgram {
    const NAME: &'static str = "nginx";
    const LISTENS: &'static str = "start worker process";

    fn arguments(&self, port: u16, folder: &Folder) -> Result<Vec<String>> {
        // By default nginx writes to folders of the system, which only root may do.
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let paths = paths.map(|name| format!("{name}_temp_path {name};")).concat();
        let text = self.0.replace("http {\n", &format!("http {{\naccess_log off; {paths}\n"));
        folder.write("nginx.conf", &text.replace(SERVER, &local(port)))?;
        let globals = "daemon off; pid nginx.pid; error_log stderr notice;";
        let arguments = ["-p", ".", "-e", "stderr", "-c", "nginx.conf", "-g", globals];
        Ok(arguments.map(str::to_owned).into())
    }
}

/// A running nginx.
pub struct Nginx(Service<NginxProgram>);

impl Nginx {
    /// Starts nginx with this configuration, in front of this application.
    pub fn start(text: &str, application: SocketAddr) -> Result<Self> {
        Service::run(NginxProgram(behind(text, application))).map(Self)
    }
}

impl Deref for Nginx {
    type Target = Service<NginxProgram>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Nginx {
    /// A killed master process would leave its workers.
    fn drop(&mut self) {
        if self.0.signal(Signal::SIGTERM).is_ok() {
            let _ = wait_until("nginx to end", START, || self.0.has_ended().then_some(()));
        }
    }
}

/// The arguments of a [`Traefik`].
pub struct TraefikProgram(String);

impl Program for TraefikProgram {
    const NAME: &'static str = "traefik";
    const LISTENS: &'static str = "Starting provider *file.Provider";

    fn arguments(&self, port: u16, folder: &Folder) -> Result<Vec<String>> {
        let file = folder.write("dynamic.yaml", &self.0)?;
        Ok(vec![
            format!("--entryPoints.web.address={}", local(port)),
            format!("--providers.file.filename={}", file.display()),
            "--global.checkNewVersion=false".to_owned(),
            "--log.level=INFO".to_owned(),
        ])
    }
}

/// A running Traefik.
pub type Traefik = Service<TraefikProgram>;

impl Traefik {
    /// Starts Traefik with this dynamic configuration, in front of this application.
    pub fn start(text: &str, application: SocketAddr) -> Result<Self> {
        let traefik = Self::run(TraefikProgram(behind(text, application)))?;
        let connects = || TcpStream::connect(traefik.address()).ok().map(drop);
        wait_until("Traefik to take connections", START, connects)?;
        Ok(traefik)
    }
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn behind(text: &str, application: SocketAddr) -> String {
    text.replace(APPLICATION, &application.to_string())
}
