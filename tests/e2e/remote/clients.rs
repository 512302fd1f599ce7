//! Connections that reach all workers and stay open through changes of configuration.

use crate::machine::Ending;
use gateway::{Connection, Gateway, Response};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Two connections to each worker.
const CONNECTIONS: usize = 4;
/// The pause between two requests of a client.
const PAUSE: Duration = Duration::from_millis(2);

/// A few connections.
pub struct Clients(Vec<Connection>);

impl Clients {
    /// Connects to a gateway that balances connections.
    pub fn connect(gateway: &Gateway) -> Clients {
        let mut clients = Clients((0..CONNECTIONS).map(|_| gateway.connect().unwrap()).collect());
        clients.quotas();
        let text = gateway.admin().get("/stats?filter=worker_.\\.downstream_cx_active").unwrap().text();
        let listener = text.lines().filter(|line| line.starts_with("listener.127"));
        let open: Vec<usize> = listener.filter_map(|line| line.split(": ").nth(1)?.parse().ok()).collect();
        assert!(open.len() == 2 && open.iter().all(|open| *open > 0), "each worker has some: {text}");
        clients
    }

    /// Sends a request on each connection.
    pub fn get(&mut self, path: &str) -> Vec<Response> {
        let get = |connection: &mut Connection| connection.request("GET", path, &[], b"").unwrap();
        self.0.iter_mut().map(get).collect()
    }

    /// The quota in the worker of each connection.
    pub fn quotas(&mut self) -> Vec<u64> {
        let answers = self.get("/");
        answers
            .iter()
            .inspect(|answer| assert_eq!(answer.status, 200, "{}", answer.text()))
            .map(quota)
            .collect()
    }
}

/// The quota in a response.
pub fn quota(answer: &Response) -> u64 {
    let policy = answer.header("ratelimit-policy").unwrap_or_default();
    let quota = policy.strip_prefix("\"quota\";q=").and_then(|rest| rest.split(';').next());
    quota.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{} {policy:?}", answer.status))
}

/// A response.
#[derive(Clone, Copy, Debug)]
pub struct Shot {
    pub connection: usize,
    /// The instant before the request was written.
    pub sent: Instant,
    /// The instant after the response was read.
    pub received: Instant,
    pub status: u16,
    /// The quota in the response.
    pub quota: u64,
}

/// The responses of a load so far.
#[derive(Default)]
pub struct Traffic(Mutex<Vec<Shot>>);

impl Traffic {
    /// All responses, in the order of arrival.
    pub fn shots(&self) -> Vec<Shot> {
        self.0.lock().unwrap().clone()
    }

    /// Whether the last response of each connection has this quota.
    pub fn is_by(&self, quota: u64) -> bool {
        let shots = self.shots();
        let last = |connection| shots.iter().rev().find(|shot| shot.connection == connection);
        (0..CONNECTIONS).all(|connection| last(connection).is_some_and(|shot| shot.quota == quota))
    }

    /// The last request since `since` whose response had another quota.
    pub fn last_of_others(&self, since: Instant, quota: u64) -> Option<Instant> {
        let others = self.shots().into_iter().filter(|shot| shot.sent >= since && shot.quota != quota);
        others.map(|shot| shot.sent).max()
    }

    /// Sends requests on all connections during `what`. Each gets a response with 200 or 429.
    pub fn during<R>(&self, clients: Clients, what: impl FnOnce() -> R) -> R {
        let stopped = AtomicBool::new(false);
        thread::scope(|scope| {
            let _ending = Ending(&stopped);
            for (number, connection) in clients.0.into_iter().enumerate() {
                let stopped = &stopped;
                scope.spawn(move || self.run(number, connection, stopped));
            }
            what()
        })
    }

    fn run(&self, connection: usize, mut open: Connection, stopped: &AtomicBool) {
        while !stopped.load(Ordering::SeqCst) {
            let sent = Instant::now();
            let answer = open.request("GET", "/", &[], b"").expect("each request is answered");
            let (status, received) = (answer.status, Instant::now());
            assert!([200, 429].contains(&status), "{status}: {}", answer.text());
            self.0.lock().unwrap().push(Shot { connection, sent, received, status, quota: quota(&answer) });
            thread::sleep(PAUSE); // the client's pause
        }
    }
}
