//! Candidates that decide for a part of all users before their promotion, and are watched after it.

use gateway::config::cluster;
use gateway::{Config, Connection, Gateway, wait_until};
use serde_json::{Value, json};
use servers::Documents;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const FIRST: usize = 50;

/// A document with this quota for each user.
fn document(rpu: usize) -> String {
    let rule = json!({"name": "per-user", "actor": "user", "algo": "W", "rpu": rpu, "unit": "7d"});
    json!([{"url": "/", "rules": [rule]}]).to_string()
}

struct CanaryRun {
    server: Documents,
    gateway: Gateway,
    connections: Vec<Connection>,
    users: usize,
}

impl CanaryRun {
    /// A gateway whose workers all have the first document as active.
    fn start(canary: &Value) -> CanaryRun {
        let server = Documents::start().unwrap();
        server.put(document(FIRST));
        let path = format!("/{}", Documents::NAME);
        let remote = json!({"cluster": "config", "path": path, "interval": "300ms", "canary": canary});
        let mut config = Config { balanced: true, ..Config::new(json!({"limits": [], "remote": remote})) };
        config.access_log = Some("%FILTER_STATE(wasm.diana.canary:PLAIN)%".into());
        config.clusters.push(cluster("config", server.address(), false));
        let gateway = Gateway::start(config).unwrap();
        let connections = (0..4).map(|_| gateway.connect().unwrap()).collect();
        let canary = CanaryRun { server, gateway, connections, users: 0 };
        // Two workers, and the main thread's VM.
        canary.wait("all workers to activate the document", |canary| canary.counter("config.switches") >= 3);
        canary
    }

    fn counter(&self, name: &str) -> u64 {
        self.gateway.counted(name).unwrap()
    }

    fn wait(&self, what: &str, is_so: impl Fn(&CanaryRun) -> bool) {
        wait_until(what, PATIENCE, || is_so(self).then_some(()))
            .unwrap_or_else(|error| panic!("{error}\n{}", self.gateway.logs()));
    }

    /// How many of `requests` requests of a new user pass; all others are refused.
    fn user(&mut self, requests: usize) -> usize {
        self.users += 1;
        let user = format!("user-{}", self.users);
        let connections = self.connections.len();
        let passes = |at: &usize| {
            let headers = [("x-user-id", &*user)];
            let answer = self.connections[*at % connections].request("GET", "/", &headers, b"").unwrap();
            assert!([200, 429].contains(&answer.status), "{}", answer.text());
            answer.status == 200
        };
        (0..requests).filter(passes).count()
    }

    /// Sends requests of new users until the log has the words. Returns how many users came, and
    /// how many requests passed.
    fn users_until(&mut self, requests: usize, words: &str) -> (usize, usize) {
        let (mut users, mut passed) = (0, 0);
        wait_until(words, PATIENCE, || {
            users += 1;
            passed += self.user(requests);
            self.gateway.log_contains(words).then_some(())
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", self.gateway.logs()));
        (users, passed)
    }
}

#[test]
fn a_candidate_that_would_refuse_more_never_becomes_active() {
    let mut canary = CanaryRun::start(&json!({"percent": 50, "hold": "2s"}));
    canary.server.put(document(2));
    let (users, passed) = canary.users_until(4, "not promoted: it would newly refuse ");
    assert_eq!(passed, 4 * users, "no request was refused");
    let (same, refused) = (
        canary.counter("canary.result.same.requests"),
        canary.counter("canary.result.newly_refused.requests"),
    );
    println!("{users} users: {same} requests the same, {refused} newly refused");
    assert!(refused > 10 && same >= refused, "{same} {refused}");
    // Half of the users, for a part of the time.
    assert!(same + refused < 4 * users as u64 * 3 / 4, "{same} {refused} of {users}");
    assert_eq!((canary.counter("canary.rejections"), canary.counter("config.switches")), (1, 3));
    assert_eq!(canary.user(FIRST + 1), FIRST, "the first document is active, and keeps its counts");
    let named = canary.gateway.access_log().iter().filter(|line| *line == "per-user").count();
    assert!(named as u64 >= refused / 2, "{named} lines of the access log name the rule, of {refused}");
    // The rejected document is not tried again.
    let polls =
        canary.counter("config.result.refused.polls") + canary.counter("config.result.unchanged.polls");
    canary.wait("two more polls", |canary| {
        canary.counter("config.result.refused.polls") + canary.counter("config.result.unchanged.polls")
            > polls + 1
    });
    assert_eq!(canary.gateway.logs().matches("tried beside the one that serves").count(), 1);
}

#[test]
fn a_candidate_that_refuses_no_more_is_promoted() {
    let mut canary = CanaryRun::start(&json!({"percent": 100, "hold": "1s", "max_refused": "60%"}));
    canary.server.put(document(FIRST - 10));
    let (users, passed) = canary.users_until(4, "promoted: it would newly refuse 0 of ");
    assert_eq!(passed, 4 * users);
    canary.wait("all workers to activate the document", |canary| canary.counter("config.switches") >= 6);
    assert_eq!(canary.user(FIRST), FIRST - 10);
    assert_eq!(canary.counter("canary.promotions"), 1);
    // A higher quota than before.
    canary.server.put(document(FIRST + 10));
    canary.wait("the candidate", |canary| canary.gateway.logs().matches("tried beside").count() == 2);
    // The candidate decides for a second only, and reading a counter may take as long.
    wait_until("its promotion", PATIENCE, || {
        canary.user(FIRST + 5);
        (canary.gateway.logs().matches("promoted: ").count() == 2).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", canary.gateway.logs()));
    assert!(canary.counter("canary.result.newly_admitted.requests") > 0);
    assert_eq!(canary.counter("canary.promotions"), 2);
}

#[test]
fn a_document_that_refuses_too_much_is_rolled_back() {
    let mut canary = CanaryRun::start(&json!({"hold": "3s", "max_refused": "20%"}));
    canary.server.put(document(3));
    // During the canary no user needs more.
    canary.users_until(2, "promoted: ");
    let (users, _) = canary.users_until(10, "rolled back: it newly refused ");
    canary
        .wait("all workers to activate the first document", |canary| canary.counter("config.switches") >= 9);
    assert_eq!(canary.user(FIRST + 1), FIRST, "after {users} users");
    assert_eq!(canary.counter("canary.rollbacks"), 1);
}
