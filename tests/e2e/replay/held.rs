//! Permits and queues: the decisions depend on when other requests end.

use super::{FORMAT, replay};
use gateway::{Config, Connection, Ending, Gateway, Load, Reply, Shot, Upstream, wait_until};
use serde_json::json;
use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// The log has durations in whole milliseconds, so a request that starts after another one's end
/// starts several milliseconds later.
const SPACING: Duration = Duration::from_millis(5);

/// The requests that a client holds open, before an upstream that never responds.
struct Held<'a> {
    gateway: &'a Gateway,
    upstream: &'a Upstream,
    open: VecDeque<Connection>,
    sent: usize,
}

impl Held<'_> {
    /// Sends a request of this user. The request stays open unless the filter refuses it.
    fn begin(&mut self, user: &str) {
        thread::sleep(SPACING);
        let before = self.upstream.requests();
        let mut connection = self.gateway.connect().unwrap();
        let request = format!("GET /held HTTP/1.1\r\nhost: a\r\nx-user-id: {user}\r\n\r\n");
        connection.send(request.as_bytes()).unwrap();
        self.sent += 1;
        let is_refused = wait_until("the decision", PATIENCE, || {
            let is_admitted = self.upstream.requests() > before;
            let has_response = connection.has_response(Duration::from_millis(1)).unwrap();
            (is_admitted || has_response).then_some(has_response)
        });
        match is_refused.unwrap() {
            true => assert_eq!(connection.receive(false).unwrap().status, 429),
            false => self.open.push_back(connection),
        }
        self.settled();
    }

    /// Disconnects the client of the request that is open longest.
    fn end(&mut self) {
        thread::sleep(SPACING);
        drop(self.open.pop_front());
        self.settled();
    }

    /// Waits until only the open requests are active in the gateway.
    fn settled(&self) {
        let active = || self.gateway.admin().counter("http.gateway.downstream_rq_active").ok();
        let is_settled = || (active()? == self.open.len() as u64).then_some(());
        wait_until("other requests to end", PATIENCE, is_settled).unwrap();
    }
}

#[test]
fn permits_return_in_a_replay_when_they_returned_in_the_filter() {
    let document = json!({"limits": [{"url": "/", "rules": [
        {"name": "each", "actor": "user", "algo": "C", "rpu": 2},
        {"name": "all", "algo": "C", "rpu": 4},
        {"name": "expiring", "actor": "user", "algo": "C", "rpu": 1, "max_hold": "1s", "mode": "shadow"},
    ]}]});
    let upstream = Upstream::start(|_| Reply::new(200, "").ending(Ending::Silence)).unwrap();
    let config = Config {
        access_log: Some(FORMAT.into()),
        upstream: Some(upstream.address()),
        ..Config::new(document.clone())
    };
    let gateway = Gateway::start(config).unwrap();
    let mut held = Held { gateway: &gateway, upstream: &upstream, open: VecDeque::new(), sent: 0 };
    let users = ["ann", "bob", "cid"];
    for step in 0..60usize {
        // Three begin where two end, so that all permits are in use now and then.
        match step % 5 {
            0 | 2 | 3 => held.begin(users[step * 7 % 4 % users.len()]),
            _ => held.end(),
        }
    }
    // Until the permits of `expiring` have expired. Their requests stay open.
    held.begin("dora");
    thread::sleep(Duration::from_millis(1_100));
    held.begin("dora");
    while !held.open.is_empty() {
        held.end();
    }
    let sent = held.sent;
    let decisions = replay(&document, &gateway.access_log_of(sent).unwrap());
    for rule in ["each", "all", "expiring"] {
        assert!(decisions.refusals.contains_key(rule), "{rule} refuses nothing: {:?}", decisions.refusals);
    }
}

#[test]
fn a_replay_delays_the_requests_that_waited_in_the_filter() {
    let document = json!({"limits": [
        {"url": "/queue", "rules": [{"name": "queue", "algo": "LB", "rpu": 4, "unit": "second", "queue": 3}]},
        {"url": "/lent", "rules": [
            {"name": "lent", "rpu": 4, "unit": "second", "burst": 2, "max_wait": "600ms"},
        ]},
    ]});
    // Several workers would take requests in another order than that of their starts.
    let config = Config { access_log: Some(FORMAT.into()), concurrency: 1, ..Config::new(document.clone()) };
    let gateway = Gateway::start(config).unwrap();
    const EACH: u64 = 12;
    for path in ["/queue", "/lent"] {
        let load = Load { connections: EACH, ..Load::requests(EACH) };
        gateway.load(load, |_| Shot::get(path)).unwrap();
    }
    let decisions = replay(&document, &gateway.access_log_of(2 * EACH as usize).unwrap());
    assert!(decisions.refusals.contains_key("queue") && decisions.refusals.contains_key("lent"));
    // Three in the queue, and the two of the bucket whose tokens come within 600 ms.
    assert!(decisions.waits >= 5, "{} waited", decisions.waits);
    assert_eq!(decisions.summary.totals.delayed, decisions.waits as u64);
}
