//! A million actors in a table for ten thousand, and what such a flood does to an actor that is
//! refused.

use crate::start;
use gateway::{Gateway, Load, Shot};
use serde_json::json;

const MIB: f64 = (1 << 20) as f64;

fn rss_mib(gateway: &Gateway) -> f64 {
    gateway.rss_bytes().unwrap() as f64 / MIB
}

#[test]
fn thirty_times_the_actors_take_no_more_memory() {
    let gateway = start(json!({
        "limits": [{"url": "/", "rules": [{"name": "user", "actor": "user", "rpu": 10, "unit": "hour"}]}],
        "local": {"max_actors": 10_000},
    }));
    let victim = [("x-user-id", "victim")];
    let invented = |index: u64| Shot::get("/").header("x-user-id", format!("invented-{index}"));
    for _ in 0..10 {
        assert_eq!(gateway.get("/", &victim).unwrap().status, 200);
    }
    assert_eq!(gateway.get("/", &victim).unwrap().status, 429);

    // Warms up Envoy's own memory for such a load, before actors are counted.
    gateway.load(Load::requests(50_000), |_| Shot::get("/").header("x-user-id", "victim")).unwrap();
    let idle = rss_mib(&gateway);
    gateway.load(Load::requests(10_000), invented).unwrap();
    let small = rss_mib(&gateway);
    let mut sizes = Vec::new();
    for part in 0..3u64 {
        let from = 10_000 + part * 97_000;
        let report = gateway.load(Load::requests(97_000), |index| invented(from + index)).unwrap();
        assert_eq!((report.lost, report.server_errors()), (0, 0));
        sizes.push(rss_mib(&gateway));
        assert_eq!(gateway.get("/", &victim).unwrap().status, 429, "the flood has freed the victim");
    }
    let stats = gateway.stats().unwrap();
    let evicted = |kind| stats.sum("diana_evictions", &[("kind", kind)]);
    println!(
        "resident memory: {idle:.1} MiB before, {small:.1} MiB after 10,000 actors, {:.1}, {:.1} and {:.1} MiB after \
         107,000, 204,000 and 301,000; evictions: {} lossless, {} lossy, {} set_full",
        sizes[0],
        sizes[1],
        sizes[2],
        evicted("lossless"),
        evicted("lossy"),
        evicted("set_full"),
    );
    let last = sizes[2];
    // 8 bytes for each further actor.
    assert!(last - small < 2.3, "memory grew by {:.1} MiB from 10,000 actors to 301,000", last - small);
}

/// With one request an hour each invented actor is refused as well, so no cell makes room for
/// another actor.
#[test]
fn invented_actors_that_are_refused_free_nobody() {
    let gateway = start(json!({
        "limits": [{"url": "/", "rules": [{"name": "user", "actor": "user", "rpu": 1, "unit": "hour"}]}],
        "local": {"max_actors": 1_000},
    }));
    let victim = [("x-user-id", "victim")];
    assert_eq!(gateway.get("/", &victim).unwrap().status, 200);
    let invented = |index: u64| Shot::get("/").header("x-user-id", format!("invented-{index}"));
    let report = gateway.load(Load::requests(100_000), invented).unwrap();
    let passed = report.status(200);
    println!("{passed} of 100,000 invented actors found room");
    assert!((1_900..=2_000).contains(&passed), "2,000 cells, one is the victim's: {passed}");
    assert_eq!(gateway.get("/", &victim).unwrap().status, 429);
    let full = gateway.stats().unwrap().sum("diana_evictions", &[("kind", "set_full")]);
    assert!(full > 0, "the metric shows the actors that full sets refused");
}
