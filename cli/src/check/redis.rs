//! Asks a Redis how it frees memory.

use miette::{Result, miette};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

/// The policies by which Redis evicts keys that expire.
const EVICTING: [&str; 10] = [
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-lrm",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-lrm",
    "volatile-random",
    "volatile-ttl",
    "allkeys-ttl",
];

/// A policy of a later Redis, or of another server.
const UNKNOWN: &str = "of another kind";

/// The policy by which the Redis at this address evicts keys; `None` if it evicts none. As in
/// `redis-cli`, `REDISCLI_AUTH` has the password.
pub fn evicting(address: &str) -> Result<Option<&'static str>> {
    let silent = |why: &str| miette!("Redis at {address} does not say how it frees memory: {why}");
    let info = ask(address).map_err(|why| silent(&why.to_string()))?;
    let value = |key: &str| {
        let found = info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        found.map(str::trim).ok_or_else(|| silent(&format!("`INFO memory` has no `{key}`")))
    };
    let (most, policy) = (value("maxmemory")?, value("maxmemory_policy")?);
    let evicts = most != "0" && policy != "noeviction";
    Ok(evicts.then(|| EVICTING.into_iter().find(|known| *known == policy).unwrap_or(UNKNOWN)))
}

fn ask(address: &str) -> std::io::Result<String> {
    let other = |why: &str| std::io::Error::other(why.to_owned());
    let resolved = address.to_socket_addrs()?.next().ok_or_else(|| other("no such host"))?;
    let mut stream = TcpStream::connect_timeout(&resolved, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut replies = BufReader::new(stream.try_clone()?);
    let mut call = |command: String| {
        stream.write_all(command.as_bytes())?;
        let mut line = String::new();
        replies.read_line(&mut line)?;
        match line.strip_prefix('-') {
            Some(error) => Err(other(error.trim())),
            None => Ok(line),
        }
    };
    if let Ok(password) = env::var("REDISCLI_AUTH") {
        call(format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{password}\r\n", password.len()))?;
    }
    let length = call("*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n".into())?;
    let length: usize = length.trim().trim_start_matches('$').parse().map_err(|_| other("no text"))?;
    let mut info = vec![0; length.min(1 << 20)];
    std::io::Read::read_exact(&mut replies, &mut info)?;
    Ok(String::from_utf8_lossy(&info).into_owned())
}
