//! State that survives changes of documents, and new VMs that start with the document.

use super::clients::quota as quota_of;
use super::{INTERVAL, LOCAL, Remote, VMS, local, quota};
use gateway::config::cluster;
use gateway::{Config, Gateway, Reply, Update, Upstream, filter};
use serde_json::{Value, json};
use servers::Documents;

fn two(few: u64, many: u64) -> Value {
    let rule = |name: &str, quota: u64| json!([{"name": name, "algo": "W", "rpu": quota, "unit": "7d"}]);
    json!({"limits": [{"url": "/", "rules": rule("quota", many)}, {"url": "/few", "rules": rule("few", few)}]})
}

/// The statuses of one request by each client for the limit of few, sorted.
fn few(clients: &mut super::Clients) -> Vec<u16> {
    let mut all: Vec<u16> = clients.get("/few").iter().map(|answer| answer.status).collect();
    all.sort();
    all
}

#[test]
fn a_rule_that_stays_the_same_keeps_its_count() {
    let remote = Remote::start(json!({}));
    let mut clients = remote.connect();
    remote.documents.put(two(6, 100_000).to_string());
    remote.wait_for(&mut clients, 100_000);
    assert_eq!(few(&mut clients), [200; 4]);
    remote.documents.put(two(6, 200_000).to_string());
    remote.wait_for(&mut clients, 200_000);
    assert_eq!(few(&mut clients), [200, 200, 429, 429], "two of six were left");
    assert_eq!(remote.counted("config.generation"), 2);
}

/// A count outlives the documents that lack its rule.
#[test]
fn a_rule_that_comes_back_late_keeps_its_count() {
    let remote = Remote::start(json!({}));
    let mut clients = remote.connect();
    let mut put = |document: Value, mark: u64| {
        remote.documents.put(document.to_string());
        remote.wait_for(&mut clients, mark);
    };
    put(two(12, 100_000), 100_000);
    assert_eq!(few(&mut remote.connect()), [200; 4]);
    put(quota(200_000), 200_000);
    put(two(12, 300_000), 300_000);
    assert_eq!(few(&mut remote.connect()), [200; 4]);
    put(quota(400_000), 400_000);
    put(quota(500_000), 500_000);
    put(two(12, 600_000), 600_000);
    let more = [(); 2].map(|()| few(&mut remote.connect()));
    assert_eq!(more, [[200; 4], [429; 4]]);
}

/// The document server is down.
#[test]
fn an_updated_listener_has_the_remote_document_at_once() {
    let mut remote = Remote::start(json!({}));
    remote.documents.put(quota(200_000).to_string());
    let mut clients = remote.connect();
    remote.wait_for(&mut clients, 200_000);
    remote.documents.kill();
    drop(clients);
    let mut document = local(&json!({}));
    document["response"] = json!({"status": 430});
    assert_eq!(remote.gateway.update(document).unwrap(), Update::Accepted);
    assert_eq!(remote.connect().quotas(), [200_000; 4], "its first answers");
    remote.documents.restart().unwrap();
    remote.documents.put(quota(300_000).to_string());
    remote.wait_for(&mut remote.connect(), 300_000);
    // Another source, whose document is unknown.
    let other = local(&json!({"path": "/none.json"}));
    assert_eq!(remote.gateway.update(other).unwrap(), Update::Accepted);
    assert_eq!(remote.connect().quotas(), [LOCAL; 4]);
}

/// The old configuration has gone in all threads, and its polls with it.
#[test]
fn a_server_that_no_configuration_follows_is_asked_no_more() {
    let mut remote = Remote::start(json!({}));
    remote.documents.put(quota(200_000).to_string());
    remote.wait_for(&mut remote.connect(), 200_000);
    assert_eq!(remote.gateway.update(quota(LOCAL)).unwrap(), Update::Accepted);
    assert_eq!(remote.connect().quotas(), [LOCAL; 4]);
    remote.wait("ten intervals without a poll", || {
        let before = remote.documents.requests();
        std::thread::sleep(10 * INTERVAL);
        remote.documents.requests() == before
    });
}

/// The local document lost a part that the remote document needs.
#[test]
fn an_updated_listener_logs_why_it_cannot_activate_the_remote_document() {
    let with_actor = |name: &str| {
        let mut document = local(&json!({}));
        document["actors"] = json!({name: {"header": "x-plan"}});
        document
    };
    let documents = Documents::start().unwrap();
    let mut config = Config { balanced: true, ..Config::new(with_actor("plan")) };
    config.clusters.push(cluster("config", documents.address(), false));
    let mut remote = Remote { gateway: Gateway::start(config).unwrap(), documents };
    let mut document = quota(200_000);
    document["limits"][0]["rules"][0]["actor"] = json!("plan");
    remote.documents.put(document.to_string());
    remote.wait_for(&mut remote.connect(), 200_000);
    assert_eq!(remote.gateway.update(with_actor("tariff")).unwrap(), Update::Accepted);
    assert_eq!(remote.connect().quotas(), [LOCAL; 4]);
    let lines = remote
        .lines("remote configuration of cluster config refused: 1 mistake: (1) limits[0].rules[0].actor: ");
    assert!((1..=VMS as usize + 1).contains(&lines.len()), "{lines:#?}");
    remote.wait_polls("unchanged", 3);
    assert_eq!(remote.lines("refused: ").len(), lines.len(), "no more than once in each worker");
    remote.documents.put(quota(300_000).to_string());
    remote.wait_for(&mut remote.connect(), 300_000);
}

/// Any of the workers may have polled until then.
#[test]
fn restarted_workers_have_the_document_at_once_and_poll() {
    let upstream = Upstream::start(|request| match request.path.as_str() {
        "/die" => Reply::new(200, vec![b'x'; filter::TRAP_BYTES]),
        _ => Reply::new(200, "ok"),
    });
    let (upstream, mortal) = (upstream.unwrap(), filter::mortal().unwrap());
    let change = |config| Config { filter: Some(mortal), upstream: Some(upstream.address()), ..config };
    let mut remote = Remote::with(json!({}), change);
    remote.documents.put(quota(200_000).to_string());
    let mut clients = remote.connect();
    remote.wait_for(&mut clients, 200_000);
    remote.documents.kill();
    let before = remote.counted("config.switches");
    for _ in 0..8 {
        // The response is lost with the VM; the next request to the worker creates another VM.
        _ = remote.gateway.get("/die", &[]);
        for answer in clients.get("/") {
            // Between two VMs requests may be refused for 100 ms.
            assert!(answer.status == 503 || quota_of(&answer) == 200_000, "{answer:?}");
        }
    }
    assert!(remote.counted("config.switches") > before, "no worker was restarted");
    remote.documents.restart().unwrap();
    remote.documents.put(quota(300_000).to_string());
    let all = || clients.get("/").iter().all(|answer| answer.status == 200 && quota_of(answer) == 300_000);
    remote.wait("all to be there again", all);
}
