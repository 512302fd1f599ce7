//! The four servers of `examples/remote-config`, each polled as its README says.

use super::{Remote, quota};
use gateway::config::cluster;
use gateway::{Config, Gateway, root};
use serde_json::{Value, json};
use servers::Documents;
use std::fs;

/// The `remote` section of each block of the README.
fn blocks() -> Vec<Value> {
    let text = fs::read_to_string(root().join("examples/remote-config/README.md")).unwrap();
    let blocks = text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let read = |block: &str| serde_norway::from_str::<Value>(block).unwrap()["remote"].take();
    blocks.map(read).collect()
}

/// A gateway that polls in this way, but more often.
fn start(block: &Value) -> Remote {
    let name = block["cluster"].as_str().unwrap();
    let mut more = block.clone();
    more["interval"] = json!("200ms");
    let documents = Documents::start().unwrap();
    let mut config = Config { balanced: true, ..Config::new(super::local(&more)) };
    config.clusters.push(cluster(name, documents.address(), false));
    Remote { gateway: Gateway::start(config).unwrap(), documents }
}

#[test]
fn each_kind_of_server_is_polled_by_its_own_request() {
    let blocks = blocks();
    let clusters: Vec<&str> = blocks.iter().map(|block| block["cluster"].as_str().unwrap()).collect();
    assert_eq!(clusters, ["files", "consul", "consul", "nacos", "nacos", "nacos", "etcd"]);
    for block in &blocks {
        let remote = start(block);
        let mut clients = remote.connect();
        remote.documents.put(quota(200_000).to_string());
        remote.wait_for(&mut clients, 200_000);
        // Servers without a tag send the document again and again.
        remote.wait_polls("unchanged", 2);
        // The server may have been polled before it had a document.
        let logged = remote.lines("refused: ").len();
        remote.documents.put("{\"limit\": []}");
        remote.wait_polls("refused", 1);
        remote.documents.put(quota(300_000).to_string());
        remote.wait_for(&mut clients, 300_000);
        assert_eq!(remote.counted("config.generation"), 2, "{block}");
        assert_eq!(remote.lines("refused: ").len(), logged + 1, "{block}: {}", remote.gateway.logs());
        let (method, kind) = match block.get("body") {
            Some(_) => ("POST", Some("application/json")),
            None => ("GET", None),
        };
        for seen in remote.documents.seen() {
            assert_eq!((seen.method.as_str(), seen.header("content-type")), (method, kind), "{block}");
            assert_eq!(seen.path, block["path"].as_str().unwrap());
            assert_eq!(seen.header("host"), block["cluster"].as_str());
        }
    }
}

/// Without a tag the document is read each time, and logged once.
#[test]
fn a_bad_document_that_is_sent_repeatedly_is_logged_once() {
    let consul = blocks().remove(1);
    let remote = start(&consul);
    remote.documents.put("{\"limit\": []}");
    remote.wait_polls("refused", 5);
    assert_eq!(remote.lines("refused: ").len(), 1, "{}", remote.gateway.logs());
}
