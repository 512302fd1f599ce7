//! A real Redis and a real webdis, its HTTP front, for tests and the demo. Redis keeps nothing on
//! disk.

use crate::process::Folder;
use crate::service::{Program, Service};
use crate::{Connection, wait_until};
use anyhow::{Context, Error, Result};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// The programs, each in the Debian package of its name.
pub const PROGRAMS: [&str; 2] = [Server::NAME, Front::NAME];

/// The arguments of a [`Redis`].
pub struct Server {
    arguments: Vec<String>,
}

impl Program for Server {
    const NAME: &'static str = "redis-server";
    const LISTENS: &'static str = "Ready to accept connections";

    fn arguments(&self, port: u16, _: &Folder) -> Result<Vec<String>> {
        let port = port.to_string();
        let usual = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        Ok(usual.map(str::to_owned).into_iter().chain(self.arguments.clone()).collect())
    }
}

/// A running Redis; the process ends when this is dropped.
pub type Redis = Service<Server>;

impl Redis {
    /// Starts a Redis on a free port and waits until it listens.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// The same with more arguments, such as `["--requirepass", "x"]`.
    pub fn start_with(arguments: &[&str]) -> Result<Self> {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self::run(Server { arguments })
    }

    /// The port of its address.
    pub fn port(&self) -> u16 {
        self.address().port()
    }
}

/// The arguments of a [`Sentinel`].
pub struct Watcher {
    primary: SocketAddr,
}

impl Program for Watcher {
    const NAME: &'static str = "redis-server";
    const LISTENS: &'static str = "+monitor master";

    fn arguments(&self, port: u16, folder: &Folder) -> Result<Vec<String>> {
        let (host, redis) = (self.primary.ip(), self.primary.port());
        let lines = [
            format!("port {port}"),
            "bind 127.0.0.1".to_owned(),
            format!("sentinel monitor primary {host} {redis} 1"),
            "sentinel down-after-milliseconds primary 1500".to_owned(),
            "sentinel failover-timeout primary 5000".to_owned(),
        ];
        // Sentinel writes to this file.
        let file = folder.write("sentinel.conf", &lines.join("\n"))?;
        Ok(vec![file.display().to_string(), "--sentinel".to_owned()])
    }
}

/// A running Redis Sentinel; the process ends when this is dropped. If the primary is silent for
/// one and a half seconds, Sentinel promotes a replica.
pub type Sentinel = Service<Watcher>;

impl Sentinel {
    /// Starts a Sentinel that watches this primary and all of its replicas.
    pub fn start(primary: &Redis) -> Result<Self> {
        Self::run(Watcher { primary: primary.address() })
    }
}

const THREADS: usize = 2;
const CONNECT: Duration = Duration::from_secs(10);

/// The arguments of a [`Webdis`].
pub struct Front {
    redis: SocketAddr,
    changes: Value,
}

impl Program for Front {
    const NAME: &'static str = "webdis";
    const LISTENS: &'static str = "up and running";

    fn arguments(&self, port: u16, folder: &Folder) -> Result<Vec<String>> {
        let mut config = json!({
            "redis_host": self.redis.ip(), "redis_port": self.redis.port(),
            "http_host": "127.0.0.1", "http_port": port,
            "threads": THREADS, "pool_size": 20, "daemonize": false, "database": 0,
            "verbosity": 3, "logfile": "/dev/stdout",
        });
        let changes = self.changes.as_object().context("what is changed is an object")?;
        if let Some(config) = config.as_object_mut() {
            config.extend(changes.clone());
        }
        let file = folder.write("webdis.json", &config.to_string())?;
        Ok(vec![file.display().to_string()])
    }
}

/// A running webdis; the process ends when this is dropped. Webdis stays up without its Redis, and
/// responds with 503. After a restart webdis may still have to connect: see
/// [`Webdis::wait_connected`].
pub type Webdis = Service<Front>;

impl Webdis {
    /// Starts a webdis on a free port, in front of `redis`, and waits until it listens.
    pub fn start(redis: &Redis) -> Result<Self> {
        Self::start_with(redis, json!({}))
    }

    /// The same with other keys in its configuration, such as `{"redis_auth": "x"}`.
    pub fn start_with(redis: &Redis, changes: Value) -> Result<Self> {
        let webdis = Self::run(Front { redis: redis.address(), changes })?;
        webdis.wait_connected()?;
        Ok(webdis)
    }

    /// Waits until no thread of webdis responds with 503. The check reaches each thread in turn,
    /// because each connects to Redis by itself.
    pub fn wait_connected(&self) -> Result<()> {
        let is_connected = || {
            let answer = Connection::open(self.address())?.request("GET", "/PING", &[], b"")?;
            Ok::<bool, Error>(answer.status != 503)
        };
        wait_until("webdis to be connected to Redis", CONNECT, || {
            (0..2 * THREADS).all(|_| is_connected().unwrap_or(false)).then_some(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn no_thread_of_a_stopped_redis_goes_on() {
        let redis = Redis::start().unwrap();
        redis.stop_answering().unwrap();
        for thread in fs::read_dir(format!("/proc/{}/task", redis.process_id())).unwrap() {
            let text = fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
            assert!(text.contains(") T "), "{text}");
        }
    }

    fn ask(webdis: &Webdis, command: &str) -> (u16, String) {
        let mut connection = Connection::open(webdis.address()).unwrap();
        let answer = connection.request("POST", "/", &[], command.as_bytes()).unwrap();
        (answer.status, answer.text())
    }

    #[test]
    fn webdis_queries_its_redis_after_a_restart() {
        let mut redis = Redis::start().unwrap();
        let mut webdis = Webdis::start(&redis).unwrap();
        assert_eq!(ask(&webdis, "SET/a/1"), (200, r#"{"SET":[true,"OK"]}"#.to_owned()));
        assert_eq!(ask(&webdis, "GET/a"), (200, r#"{"GET":"1"}"#.to_owned()));
        redis.kill();
        let sees_that = || (ask(&webdis, "GET/a").0 == 503).then_some(());
        wait_until("webdis to see that", CONNECT, sees_that).unwrap();
        redis.restart().unwrap();
        webdis.wait_connected().unwrap();
        assert_eq!(ask(&webdis, "GET/a"), (200, r#"{"GET":null}"#.to_owned()));
        let address = webdis.address();
        webdis.kill();
        assert!(Connection::open(address).is_err(), "nobody listens");
        webdis.restart().unwrap();
        assert_eq!(webdis.address(), address);
        webdis.wait_connected().unwrap();
        assert_eq!(ask(&webdis, "PING").0, 200);
    }

    #[test]
    fn a_stopped_redis_replies_when_it_continues() {
        let redis = Redis::start_with(&["--requirepass", "x"]).unwrap();
        let webdis = Webdis::start_with(&redis, json!({"redis_auth": "x"})).unwrap();
        redis.stop_answering().unwrap();
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&webdis, "SET/a/1"));
            assert!(!asked.is_finished());
            redis.go_on().unwrap();
            assert_eq!(asked.join().unwrap().0, 200);
        });
        let refused = Webdis::start(&redis).unwrap();
        assert!(ask(&refused, "GET/a").1 != r#"{"GET":"1"}"#, "without a password, the reply has no data");
    }
}
