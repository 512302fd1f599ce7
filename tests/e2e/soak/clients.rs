//! The soak's clients, and the upstream behind the gateway: both count requests.

use super::bounds::Passed;
use gateway::{Connection, Reply, Upstream, filter};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

/// A failed or unexpected response to a request that was sent after `sent`; it arrived at
/// `received`.
struct Odd {
    what: String,
    sent: Instant,
    received: Instant,
}

/// The upstream's counts.
#[derive(Default)]
struct Behind {
    passed: Mutex<Passed>,
    in_flight: AtomicI64,
    peak: AtomicI64,
    /// Until this time the gateway ends streams of clients that did not leave. Their permits are
    /// released while the upstream still works for them.
    ending: Mutex<Option<Instant>>,
}

/// Longer than the upstream works for any request.
const WORK: Duration = Duration::from_millis(500);

/// The clients and the upstream of one soak.
#[derive(Default)]
pub struct Traffic {
    over: AtomicBool,
    behind: Arc<Behind>,
    by_status: Mutex<BTreeMap<(&'static str, u16), u64>>,
    left: AtomicU64,
    newcomers: AtomicU64,
    odd: Mutex<Vec<Odd>>,
    /// Periods in which a deliberate disturbance may end streams; the last one may be open.
    disturbed: Mutex<Vec<(Instant, Option<Instant>)>>,
}

/// How long after the kill of a VM its streams may end: waiting streams end by their idle timeout
/// of 3 s.
const AFTERMATH: Duration = Duration::from_secs(4);

/// A disturbance. It ends, except for its aftermath, when this is dropped.
pub struct Disturbed<'a> {
    traffic: &'a Traffic,
    aftermath: Duration,
}

impl Drop for Disturbed<'_> {
    fn drop(&mut self) {
        let until = Instant::now() + self.aftermath;
        if let Some(last) = self.traffic.disturbed.lock().unwrap().last_mut() {
            last.1 = Some(until);
        }
        let mut ending = self.traffic.behind.ending.lock().unwrap();
        *ending = ending.map(|_| until);
    }
}

/// Ends the clients when it is dropped.
pub struct Ending<'a>(&'a Traffic);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Traffic {
    /// The upstream behind the gateway.
    pub fn upstream(&self) -> Upstream {
        let behind = Arc::clone(&self.behind);
        Upstream::start(move |request| {
            let user = request.header("x-user-id").unwrap_or_default();
            match request.path.as_str() {
                "/trap" => return Reply::new(200, vec![b'x'; filter::TRAP_BYTES]),
                // A permit is released when its client leaves, which the upstream does not notice.
                "/c/leaves" => thread::sleep(Duration::from_millis(5)), // the upstream's work
                "/c/works" => {
                    let now = behind.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
                    if behind.ending.lock().unwrap().is_none_or(|until| Instant::now() > until) {
                        behind.peak.fetch_max(now, Ordering::SeqCst);
                    }
                    thread::sleep(Duration::from_millis(5)); // the upstream's work
                    behind.in_flight.fetch_sub(1, Ordering::SeqCst);
                }
                "/churn" => {}
                path => {
                    let key = (path.to_owned(), user.to_owned());
                    *behind.passed.lock().unwrap().entry(key).or_default() += 1;
                }
            }
            Reply::new(200, "done")
        })
        .unwrap()
    }

    /// Starts all clients.
    pub fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, address: SocketAddr) {
        const PATHS: [&str; 5] = ["/tb", "/w", "/sw", "/sl", "/both"];
        for client in 0..4u64 {
            scope.spawn(move || {
                self.ask(address, move |turn| {
                    let path = PATHS[(turn % 5) as usize];
                    (path, vec![("x-user-id", format!("steady-{}", (turn / 5 + client) % 4))])
                })
            });
            for _ in 0..2 {
                scope.spawn(move || self.ask(address, |_| ("/c/works", Vec::new())));
            }
            scope.spawn(move || self.ask(address, |_| ("/lb", Vec::new())));
        }
        for _ in 0..2 {
            scope.spawn(move || self.ask(address, |_| self.newcomer()));
        }
        scope.spawn(move || self.leave(address, b"GET /lb HTTP/1.1\r\nhost: a\r\n\r\n"));
        scope.spawn(move || self.leave(address, b"GET /c/leaves HTTP/1.1\r\nhost: a\r\n\r\n"));
        let half = b"POST /c/leaves HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhalf";
        scope.spawn(move || self.leave(address, half));
    }

    /// A request of a user that never came before and never returns.
    fn newcomer(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let number = self.newcomers.fetch_add(1, Ordering::Relaxed);
        let [_, a, b, c, ..] = (number as u32).to_be_bytes();
        let address = format!("10.{a}.{b}.{c}");
        ("/churn", vec![("x-user-id", format!("new-{number}")), ("x-forwarded-for", address)])
    }

    /// Sends one request after the other, on one connection while the connection lasts.
    fn ask(&self, address: SocketAddr, shot: impl Fn(u64) -> (&'static str, Vec<(&'static str, String)>)) {
        let mut connection = None;
        // A connection may end at any time after the last response. The client notices at its next
        // request.
        let mut sent = Instant::now();
        for turn in 0.. {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let (path, headers) = shot(turn);
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let answer = match connection.take() {
                Some(open) => Ok(open),
                None => Connection::open(address),
            }
            .and_then(|mut open| {
                let answer = open.request("GET", path, &headers, b"")?;
                if answer.header("connection") != Some("close") {
                    connection = Some(open);
                }
                Ok(answer)
            });
            let odd = match answer {
                Ok(answer) => {
                    *self.by_status.lock().unwrap().entry((path, answer.status)).or_default() += 1;
                    match answer.status {
                        200 => None,
                        429 if path != "/churn" => None,
                        // A newcomer is never refused.
                        status => Some(format!("{path}: {status} {}", answer.text())),
                    }
                }
                Err(error) => Some(format!("{path}: {error:#}")),
            };
            let received = Instant::now();
            self.odd.lock().unwrap().extend(odd.map(|what| Odd { what, sent, received }));
            sent = received;
        }
    }

    /// Sends requests and disconnects, at once or a little later, for ever.
    fn leave(&self, address: SocketAddr, request: &[u8]) {
        for turn in 0u64.. {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            if let Ok(mut stream) = TcpStream::connect(address) {
                // A read with a timeout keeps the connection for a while; a response ends the wait
                // earlier.
                drop(stream.set_read_timeout(Some(Duration::from_millis(1 + turn % 20))));
                drop(stream.write_all(request));
                drop(stream.read(&mut [0]));
                self.left.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Marks a replacement of the configuration, until the value is dropped. Streams of the old one
    /// end.
    pub fn replace(&self) -> Disturbed<'_> {
        *self.behind.ending.lock().unwrap() = Some(Instant::now() + Duration::from_secs(3600));
        self.disturb(WORK)
    }

    /// Marks the kill and the replacement of a VM, until the value is dropped.
    pub fn kill(&self) -> Disturbed<'_> {
        self.disturb(AFTERMATH)
    }

    fn disturb(&self, aftermath: Duration) -> Disturbed<'_> {
        self.disturbed.lock().unwrap().push((Instant::now(), None));
        Disturbed { traffic: self, aftermath }
    }

    /// Ends the clients at the latest when the value is dropped.
    pub fn ending(&self) -> Ending<'_> {
        Ending(self)
    }

    /// Ends the clients.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Checks that responses were odd only during disturbances.
    pub fn check_errors(&self, begun: Instant) {
        let disturbed = self.disturbed.lock().unwrap().clone();
        let provoked = |odd: &Odd| {
            disturbed.iter().any(|(from, to)| odd.received >= *from && to.is_none_or(|to| odd.sent <= to))
        };
        let seconds = |at: Instant| (at - begun).as_secs_f64();
        let described = |odd: &Odd| {
            let (sent, received) = (seconds(odd.sent), seconds(odd.received));
            let last = disturbed.iter().rev().find(|(from, _)| *from <= odd.sent);
            let last = last.map(|(from, to)| (seconds(*from), to.map(seconds)));
            format!("{}, asked after {sent:.2} s, came at {received:.2} s; disturbed: {last:.2?}", odd.what)
        };
        let odd: Vec<String> =
            self.odd.lock().unwrap().iter().filter(|odd| !provoked(odd)).map(described).take(10).collect();
        assert!(odd.is_empty(), "nothing was done to the gateway, and yet:\n{}", odd.join("\n"));
    }

    /// The events that have not happened yet: every path must pass, and refuse where its limit is
    /// low.
    pub fn missing(&self) -> Vec<String> {
        let by_status = self.by_status.lock().unwrap();
        let lacks = |path: &&str, status| !by_status.contains_key(&(*path, status));
        let passed = ["/tb", "/w", "/sw", "/sl", "/both", "/lb", "/c/works", "/churn"];
        let passed = passed.iter().filter(|path| lacks(path, 200)).map(|path| format!("to pass at {path}"));
        let refused = ["/tb", "/sl", "/both", "/c/works"];
        let refused =
            refused.iter().filter(|path| lacks(path, 429)).map(|path| format!("to be refused at {path}"));
        let left = (self.left.load(Ordering::Relaxed) == 0).then(|| "to leave".to_owned());
        passed.chain(refused).chain(left).collect()
    }

    /// The requests that have passed so far.
    pub fn passed(&self) -> Passed {
        self.behind.passed.lock().unwrap().clone()
    }

    /// The most requests that were in flight at once.
    pub fn peak(&self) -> i64 {
        self.behind.peak.load(Ordering::SeqCst)
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sums = BTreeMap::<u16, u64>::new();
        for ((_, status), count) in self.by_status.lock().unwrap().iter() {
            *sums.entry(*status).or_default() += count;
        }
        let answers: Vec<String> = sums.iter().map(|(status, count)| format!("{count} × {status}")).collect();
        write!(
            f,
            "{}, {} clients left, {} newcomers, {} provoked errors, at most {} in flight",
            answers.join(", "),
            self.left.load(Ordering::Relaxed),
            self.newcomers.load(Ordering::Relaxed),
            self.odd.lock().unwrap().len(),
            self.peak()
        )
    }
}
