//! The changes of `docs/runbook.md`, published as remote documents to a real gateway: they do what
//! the page says, with the numbers that the page shows.

use gateway::config::cluster;
use gateway::{Config, Gateway, root, wait_until};
use serde_json::{Value, json};
use servers::Documents;
use std::fs;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

fn page() -> String {
    fs::read_to_string(root().join("docs/runbook.md")).unwrap()
}

/// The document that the page shows under this name.
fn document(name: &str) -> Value {
    let page = page();
    let (_, block) = page.split_once(&format!("```json title={name}\n")).unwrap_or_else(|| panic!("{name}"));
    serde_json::from_str(block.split("```").next().unwrap()).unwrap()
}

/// A gateway that polls for its document.
struct Remote {
    gateway: Gateway,
    documents: Documents,
}

impl Remote {
    fn start(name: &str) -> Self {
        let documents = Documents::start().unwrap();
        documents.put(document(name).to_string());
        let remote = json!({"cluster": "documents", "path": "/diana.json", "interval": "200ms"});
        let local = json!({"limits": [], "remote": remote, "headers": "ietf"});
        let mut config = Config::new(local);
        config.clusters.push(cluster("documents", documents.address(), false));
        let remote = Self { gateway: Gateway::start(config).unwrap(), documents };
        remote.wait(0);
        remote
    }

    fn switches(&self) -> u64 {
        self.gateway.counted("config.switches").unwrap()
    }

    fn publish(&self, name: &str) {
        let before = self.switches();
        self.documents.put(document(name).to_string());
        self.wait(before);
    }

    /// Waits until both workers and the main thread have switched once more.
    fn wait(&self, before: u64) {
        let all = || (self.switches() >= before + 3).then_some(());
        wait_until("all workers to take the document", PATIENCE, all).unwrap();
    }

    /// How many of `count` requests of this user pass.
    fn passed(&self, user: &str, count: usize) -> usize {
        let status = || self.gateway.get("/api", &[("x-user-id", user)]).unwrap().status;
        (0..count).filter(|_| status() == 200).count()
    }

    fn requests(&self, result: &str) -> u64 {
        self.gateway.counted(&format!("rule.per-user.result.{result}.requests")).unwrap()
    }
}

#[test]
fn one_word_turns_everything_off() {
    let remote = Remote::start("diana.json");
    assert_eq!(remote.passed("bob", 7), 5);
    remote.publish("off.json");
    assert_eq!(remote.passed("bob", 7), 7);
    assert_eq!((remote.requests("refused"), remote.requests("shadow")), (2, 7));
    remote.publish("diana.json");
    assert_eq!(remote.passed("bob", 3), 0, "everything was counted");
}

#[test]
fn one_customer_is_raised_with_what_they_used() {
    let remote = Remote::start("diana.json");
    let ask = || remote.gateway.get("/api", &[("x-user-id", "ann")]).unwrap();
    assert_eq!(remote.passed("ann", 7), 5);
    let refused = ask();
    let (status, body) = (refused.status, refused.text());
    assert!(status == 429 && page().contains(&body), "{body}");
    remote.publish("raised.json");
    let left = ask().header("ratelimit").unwrap_or_default().to_owned();
    assert!(left.contains(r#""per-user";r=44;"#), "{left}");
    assert_eq!(remote.passed("carl", 7), 5, "another customer");
}

#[test]
fn a_new_limit_refuses_5_percent_first() {
    let remote = Remote::start("new.json");
    let mut addresses = document("new.json");
    addresses["limits"][0]["rules"][0]["rpu"] = json!(100_000);
    let before = remote.switches();
    remote.documents.put(addresses.to_string());
    remote.wait(before);
    let mut connection = remote.gateway.connect().unwrap();
    for user in 0..1000 {
        for _ in 0..3 {
            let user = format!("user-{user}");
            connection.request("GET", "/api", &[("x-user-id", &user)], b"").unwrap();
        }
    }
    let line = |result| {
        format!("diana_requests{{rule=\"per-user\",result=\"{result}\"}} {}\n", remote.requests(result))
    };
    let lines = ["ok", "refused", "shadow"].map(line).concat();
    assert!(page().contains(&lines), "the page has other numbers than\n{lines}");
}
