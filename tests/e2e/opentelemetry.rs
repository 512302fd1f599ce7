//! `docs/opentelemetry.md`: a real Envoy that exports spans, log records and statistics to a
//! collector.

use gateway::config::cluster;
use gateway::{Config, Gateway, Shell, root, wait_until};
use serde_json::{Value, json};
use servers::{Collector, Item};
use std::fs;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// The YAML of the page, block by block.
fn blocks() -> Vec<Value> {
    let page = fs::read_to_string(root().join("docs/opentelemetry.md")).unwrap();
    let blocks = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(|block| serde_norway::from_str(block).unwrap()).collect()
}

/// The document of the page with a quota that two requests use up.
fn with_two_requests(mut document: Value) -> Value {
    let rule = &mut document["limits"][0]["rules"][0];
    assert_eq!(rule["name"], "per-user");
    (rule["rpu"], rule["unit"]) = (json!(2), json!("day"));
    document
}

fn attribute<'i>(item: &'i Item, key: &str) -> Option<&'i str> {
    item.attributes.get(key).map(String::as_str)
}

/// Starts a gateway as the page configures it. Without the custom tags, only the module has tags.
fn start(collector: &Collector, has_custom_tags: bool) -> Gateway {
    let [document, manager, bootstrap] = <[Value; 3]>::try_from(blocks()).unwrap();
    let mut config = Config::new(with_two_requests(document));
    config.manager = manager;
    // One worker exports in the order of the requests.
    config.concurrency = 1;
    if !has_custom_tags {
        config.manager["tracing"].as_object_mut().unwrap().remove("custom_tags").unwrap();
    }
    config.stats_sinks = bootstrap["stats_sinks"].as_array().unwrap().clone();
    let named = &bootstrap["static_resources"]["clusters"][0];
    assert_eq!(named["name"], "otel-collector");
    let mut own = cluster("otel-collector", collector.address(), true);
    own["typed_extension_protocol_options"] = named["typed_extension_protocol_options"].clone();
    config.clusters.push(own);
    Gateway::start(config).unwrap()
}

/// Waits for so many spans and log records, and returns them.
fn items(collector: &Collector, count: usize) -> (Vec<Item>, Vec<Item>) {
    wait_until("spans and log records", PATIENCE, || {
        let received = collector.received();
        let is_complete = received.spans.len() >= count && received.logs.len() >= count;
        is_complete.then(|| (received.spans.clone(), received.logs.clone()))
    })
    .unwrap()
}

#[test]
fn the_collector_gets_the_rule_the_actor_and_the_counts() {
    let collector = Collector::start().unwrap();
    let gateway = start(&collector, true);
    for status in [200, 200, 429] {
        assert_eq!(gateway.get("/", &[("x-user-id", "ann\"")]).unwrap().status, status);
    }
    let (spans, logs) = items(&collector, 3);
    assert_eq!((spans.len(), logs.len()), (3, 3));
    for (span, log) in spans.iter().zip(&logs) {
        assert_eq!(span.trace, log.trace, "a record belongs to its span");
        for key in ["diana.rule", "diana.near", "diana.actor_value"] {
            assert_eq!(attribute(log, key), attribute(span, key).or(Some("-")), "{key}");
        }
    }
    let tags = |key| spans.iter().map(|span| attribute(span, key)).collect::<Vec<_>>();
    assert_eq!(tags("diana.rule"), [None, None, Some("per-user")]);
    assert_eq!(tags("diana.near"), [None, Some("per-user"), None]);
    assert_eq!(tags("diana.actor_value"), [None, Some("ann%22"), Some("ann%22")]);
    let prefix = if Shell::of_run() == Shell::Native { "diana" } else { "wasmcustom.diana" };
    let value = |metric: &str, labels: &[(&str, &str)]| {
        let attributes = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        collector.received().metrics.get(&(format!("{prefix}.{metric}"), attributes)).copied()
    };
    // Envoy flushes its statistics every few seconds.
    let is_counted = || {
        let refused = value("requests", &[("rule", "per-user"), ("result", "refused")]);
        let near = value("near_limit", &[("rule", "per-user")]);
        (refused == Some(1.0) && near == Some(1.0)).then_some(())
    };
    wait_until("counters in the collector", PATIENCE, is_counted).unwrap();
}

/// The native module sets the tags itself, for requests that have attributes.
#[test]
fn the_module_tags_spans_without_custom_tags() {
    if Shell::of_run() != Shell::Native {
        return;
    }
    let collector = Collector::start().unwrap();
    let gateway = start(&collector, false);
    for status in [200, 200, 429] {
        assert_eq!(gateway.get("/", &[("x-user-id", "ann")]).unwrap().status, status);
    }
    let (spans, _) = items(&collector, 3);
    let diana = |span: &Item| span.attributes.iter().filter(|(key, _)| key.starts_with("diana.")).count();
    assert_eq!(diana(&spans[0]), 0, "{:?}", spans[0]);
    assert_eq!(attribute(&spans[1], "diana.near"), Some("per-user"));
    assert_eq!(attribute(&spans[2], "diana.rule"), Some("per-user"));
    assert_eq!(attribute(&spans[2], "diana.actor_value"), Some("ann"));
}
