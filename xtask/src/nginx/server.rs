//! A running nginx, and requests to it.

use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long nginx may take to start, to reload or to end. Each worker compiles the filter first.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running nginx with one server, and with an upstream that answers `up`.
pub struct Server {
    process: Child,
    folder: PathBuf,
    pub port: u16,
}

/// A response.
pub struct Response {
    /// The status line without the version.
    pub status: String,
    /// The header lines, in lower case.
    pub headers: String,
    pub body: String,
}

impl Response {
    pub fn code(&self) -> u16 {
        self.status.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0)
    }
}

/// A port that nothing uses.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// The whole configuration around these directives of a server.
fn configuration(port: u16, upstream: u16, workers: u32, server: &str) -> String {
    let filter = gateway::target().join("diana-nginx.wasm");
    format!(
        "worker_processes {workers}; daemon off; error_log stderr info; pid nginx.pid;\n\
         events {{}}\n\
         wasm {{ module diana {}; shm_kv diana 128m eviction=lru; }}\n\
         http {{ access_log off; upstream backend {{ server 127.0.0.1:{upstream}; }}\n\
         server {{ listen 127.0.0.1:{port}; root .; {server} }}\n\
         server {{ listen 127.0.0.1:{upstream}; return 200 up; }} }}\n",
        filter.display()
    )
}

impl Server {
    /// Starts nginx with two workers and these directives in its server.
    pub fn start(program: &Path, name: &str, server: &str) -> Result<Server> {
        let folder = gateway::target().join("nginx/run").join(name);
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("logs"))?;
        let (port, upstream) = (free_port()?, free_port()?);
        fs::write(folder.join("nginx.conf"), configuration(port, upstream, 2, server))?;
        fs::write(folder.join("upstream"), upstream.to_string())?;
        let arguments = ["-e", "stderr", "-p", ".", "-c", "nginx.conf"];
        Server::run(program, &folder, &folder, &arguments, port, 2)
    }

    /// Starts nginx in a folder with these arguments, and waits until its workers have the filter.
    pub fn run(
        program: &Path,
        folder: &Path,
        working: &Path,
        arguments: &[&str],
        port: u16,
        workers: usize,
    ) -> Result<Server> {
        let log = File::create(folder.join("log"))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(working)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let process = command.spawn().context("cannot run nginx")?;
        let mut server = Server { process, folder: folder.into(), port };
        server.wait(|server| server.logged("successfully loaded") >= workers)?;
        server.wait(|server| TcpStream::connect(("127.0.0.1", server.port)).is_ok())?;
        Ok(server)
    }

    /// Waits until a condition holds.
    pub fn wait(&mut self, holds: impl Fn(&Server) -> bool) -> Result<()> {
        let start = Instant::now();
        while !holds(self) {
            if let Some(status) = self.process.try_wait()? {
                bail!("nginx ended with {status}:\n{}", self.log());
            }
            let is_broken = self.logged("cannot be respawned") > 0;
            ensure!(
                !is_broken && start.elapsed() < PATIENCE,
                "nginx does not do what is expected:\n{}",
                self.log()
            );
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub fn log(&self) -> String {
        let bytes = fs::read(self.folder.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How many lines of the log contain these words.
    pub fn logged(&self, words: &str) -> usize {
        self.log().lines().filter(|line| line.contains(words)).count()
    }

    /// Gives the server other directives.
    pub fn reload(&mut self, server: &str) -> Result<()> {
        let upstream = fs::read_to_string(self.folder.join("upstream"))?.parse()?;
        fs::write(self.folder.join("nginx.conf"), configuration(self.port, upstream, 2, server))?;
        let (loaded, ended) = (self.logged("successfully loaded"), self.logged("exited with code 0"));
        self.signal("-HUP")?;
        // Old workers serve requests until they have ended.
        self.wait(|server| {
            server.logged("successfully loaded") >= loaded + 2
                && server.logged("exited with code 0") >= ended + 2
        })
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let id = self.process.id().to_string();
        ensure!(Command::new("kill").args([signal, &id]).status()?.success(), "no process {id}");
        Ok(())
    }

    pub fn get(&self, path: &str) -> Result<Response> {
        self.request("GET", path, "")
    }

    /// The status codes of the responses to several requests.
    pub fn codes(&self, path: &str, requests: usize) -> Result<Vec<u16>> {
        (0..requests).map(|_| Ok(self.get(path)?.code())).collect()
    }

    /// Sends one request on a connection of its own. `headers` end with line breaks.
    pub fn request(&self, method: &str, path: &str, headers: &str) -> Result<Response> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
        connection.set_read_timeout(Some(PATIENCE))?;
        write!(connection, "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n")?;
        let mut bytes = Vec::new();
        connection.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").context("no response")?;
        let (first, rest) = head.split_once("\r\n").unwrap_or((head, ""));
        Ok(Response {
            status: first.strip_prefix("HTTP/1.1 ").unwrap_or_default().into(),
            headers: rest.to_ascii_lowercase(),
            body: body.into(),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.signal("-TERM").is_err() || self.process.wait().is_err() {
            eprintln!("nginx could not be ended: {}", self.process.id());
        }
    }
}

/// Whether `nginx -t` takes a server with these directives.
pub fn is_accepted(program: &Path, name: &str, server: &str) -> Result<bool> {
    let folder = gateway::target().join("nginx/run").join(name);
    fs::create_dir_all(folder.join("logs"))?;
    fs::write(folder.join("nginx.conf"), configuration(free_port()?, free_port()?, 1, server))?;
    let arguments = ["-e", "stderr", "-p", ".", "-c", "nginx.conf", "-t"];
    let mut command = Command::new(program);
    Ok(command.args(arguments).current_dir(&folder).stderr(Stdio::null()).status()?.success())
}
