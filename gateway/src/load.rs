//! A load generator: many requests over a few connections that stay open, each with a thread that
//! sends one request after the other. It does not pipeline, because Envoy closes an HTTP/1.1
//! connection with more than two queued responses of its own, such as refusals.
//!
//! `wrk` and `oha` neither send a request of its own, such as another user's, for each number, nor
//! hand each response to the test.

use crate::http::{Connection, read_response, write_request};
use anyhow::Result;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The size of a load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Requests in all.
    pub total: u64,
    /// Connections, each kept open.
    pub connections: u64,
    /// No request is sent after this time, even if fewer than `total` were sent.
    pub limit: Duration,
}

impl Load {
    /// `total` requests over 16 connections, for at most five minutes.
    pub fn requests(total: u64) -> Self {
        Self { total, connections: 16, limit: Duration::from_secs(300) }
    }
}

/// One request of a load.
#[derive(Clone, Debug)]
pub struct Shot {
    /// `GET`, …; not `HEAD`, whose responses look incomplete.
    pub method: &'static str,
    /// With the query.
    pub path: String,
    /// Besides `host`.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Shot {
    /// A `GET` of this path.
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    /// The same with one more header.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// One response of a load, for callers that need more than counts.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The index of the request: 0 to `total - 1`.
    pub index: u64,
    /// 200, 429, …
    pub status: u16,
    /// Just before the request was written.
    pub sent: Instant,
    /// Just after the response was read.
    pub received: Instant,
}

/// The result of a load.
#[derive(Clone, Debug)]
pub struct Report {
    /// Responses by status.
    pub by_status: BTreeMap<u16, u64>,
    /// Requests that were written but got no response, because the connection ended first.
    pub lost: u64,
    /// Just before the first request was written.
    pub first_send: Instant,
    /// Just after the last response was read.
    pub last_response: Instant,
}

impl Report {
    /// The number of responses with this status.
    pub fn status(&self, status: u16) -> u64 {
        self.by_status.get(&status).copied().unwrap_or(0)
    }

    /// The number of responses with a status of 500 or more.
    pub fn server_errors(&self) -> u64 {
        self.by_status.range(500..).map(|(_, count)| count).sum()
    }

    /// The number of responses.
    pub fn answers(&self) -> u64 {
        self.by_status.values().sum()
    }

    /// From the first request to the last response.
    pub fn duration(&self) -> Duration {
        self.last_response.duration_since(self.first_send)
    }

    /// Responses a second.
    pub fn rate(&self) -> f64 {
        self.answers() as f64 / self.duration().as_secs_f64().max(f64::EPSILON)
    }

    fn add(&mut self, other: &Self) {
        for (status, count) in &other.by_status {
            *self.by_status.entry(*status).or_default() += count;
        }
        self.lost += other.lost;
        self.first_send = self.first_send.min(other.first_send);
        self.last_response = self.last_response.max(other.last_response);
    }
}

/// Sends the load to `address`; `shot` makes the request of an index, and `seen` is called for each
/// response.
pub fn run(
    address: SocketAddr,
    load: Load,
    shot: impl Fn(u64) -> Shot + Sync,
    seen: impl Fn(Answer) + Sync,
) -> Result<Report> {
    let next = AtomicU64::new(0);
    let start = Instant::now();
    let reports: Vec<Result<Report>> = thread::scope(|scope| {
        let worker = || Worker { address, load, start, next: &next, shot: &shot, seen: &seen }.run();
        let threads: Vec<_> = (0..load.connections.max(1)).map(|_| scope.spawn(worker)).collect();
        let panicked = |_| Err(anyhow::anyhow!("a load thread panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    let mut sum = None::<Report>;
    for report in reports {
        let report = report?;
        match &mut sum {
            // A thread that sent nothing has no instants to report.
            _ if report.answers() + report.lost == 0 => {}
            Some(sum) => sum.add(&report),
            None => sum = Some(report),
        }
    }
    Ok(sum.unwrap_or_else(|| empty(start)))
}

fn empty(at: Instant) -> Report {
    Report { by_status: BTreeMap::new(), lost: 0, first_send: at, last_response: at }
}

struct Worker<'a, S, F> {
    address: SocketAddr,
    load: Load,
    start: Instant,
    next: &'a AtomicU64,
    shot: &'a S,
    seen: &'a F,
}

impl<S: Fn(u64) -> Shot, F: Fn(Answer)> Worker<'_, S, F> {
    fn run(&self) -> Result<Report> {
        let mut connection = Connection::open(self.address)?;
        let mut report = empty(Instant::now());
        let (mut out, mut body, mut line) = (Vec::new(), Vec::new(), Vec::new());
        let mut first = true;
        while self.start.elapsed() < self.load.limit {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.load.total {
                break;
            }
            let shot = (self.shot)(index);
            out.clear();
            write_request(&mut out, shot.method, &shot.path, &shot.headers, &shot.body);
            let sent = Instant::now();
            if first {
                (report.first_send, first) = (sent, false);
            }
            // A write error shows again in the read, unless an early response has already arrived.
            let wrote = connection.send(&out).is_ok();
            let answer = read_response(connection.stream(), false, &mut body, &mut line, &mut |_, _| {});
            let received = Instant::now();
            match &answer {
                Ok(head) => {
                    report.last_response = received;
                    *report.by_status.entry(head.status).or_default() += 1;
                    (self.seen)(Answer { index, status: head.status, sent, received });
                }
                Err(_) => report.lost += 1,
            }
            if !wrote || answer.map_or(true, |head| head.close) {
                connection = Connection::open(self.address)?;
            }
        }
        Ok(report)
    }
}
