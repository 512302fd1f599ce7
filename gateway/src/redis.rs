//! A real Redis, for tests and the demo, which keeps nothing on disk.

use crate::process::Folder;
use crate::service::{Program, Service};
use anyhow::Result;
use std::net::SocketAddr;

/// The program, in the Debian package of its name.
pub const PROGRAM: &str = Server::NAME;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_until;
    use std::fs;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    #[test]
    fn no_thread_of_a_stopped_redis_goes_on() {
        let redis = Redis::start().unwrap();
        redis.stop_answering().unwrap();
        for thread in fs::read_dir(format!("/proc/{}/task", redis.process_id())).unwrap() {
            let text = fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
            assert!(text.contains(") T "), "{text}");
        }
    }

    /// A reply of one line.
    fn ask(redis: &Redis, command: &str) -> String {
        let mut stream = TcpStream::connect(redis.address()).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut reply = Vec::new();
        while !reply.ends_with(b"\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            reply.extend(byte);
        }
        String::from_utf8(reply).unwrap().trim_end().to_owned()
    }

    #[test]
    fn redis_is_empty_after_a_restart() {
        let mut redis = Redis::start().unwrap();
        assert_eq!((ask(&redis, "SET a 1"), ask(&redis, "EXISTS a")), ("+OK".into(), ":1".into()));
        let address = redis.address();
        redis.kill();
        assert!(TcpStream::connect(address).is_err(), "nobody listens");
        redis.restart().unwrap();
        assert_eq!((redis.address(), ask(&redis, "EXISTS a")), (address, ":0".into()));
    }

    #[test]
    fn a_stopped_redis_replies_when_it_continues() {
        let redis = Redis::start_with(&["--requirepass", "x"]).unwrap();
        redis.stop_answering().unwrap();
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&redis, "AUTH x"));
            assert!(!asked.is_finished());
            redis.go_on().unwrap();
            wait_until("a reply", Duration::from_secs(10), || asked.is_finished().then_some(())).unwrap();
            assert_eq!(asked.join().unwrap(), "+OK");
        });
        assert!(ask(&redis, "GET a").starts_with("-NOAUTH"));
    }
}
