//! A store that is reachable but fails: each gateway counts its share alone, no request fails, and
//! the gateways count together again when the store recovers.

use super::{
    Carrier, PATIENCE, QUOTA, SHARE, Shared, assert_alone, assert_together, connections, counted, gateways,
    in_redis, passed, quota, wait_together,
};
use gateway::{Config, Connection, wait_until};
use serde_json::json;

over_each_carrier!(a_redis_that_does_not_write_for_a_while, a_redis_that_forgets_the_script);

fn command(shared: &Shared, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| _ = command.arg(word));
    command.query::<redis::Value>(&mut shared.client()).unwrap();
}

/// The fates of requests whose rule does not fall back to local counting.
#[test]
fn a_cluster_that_the_gateway_does_not_know() {
    let rule = |path: &str, name: &str, on_error: &str| {
        let keys = json!({"algo": "W", "rpu": QUOTA, "unit": "7d", "on_error": on_error});
        super::shared_rule(path, name, &keys)
    };
    let limits = json!([quota()[0], rule("/allow", "allowing", "allow"), rule("/deny", "denying", "deny")]);
    let document = json!({"limits": limits, "store": in_redis(json!({"cluster": "nobody"}))});
    let log = "%REQ(:PATH)% %RESPONSE_CODE% %RESPONSE_CODE_DETAILS%";
    let all = gateways(&document, |config| Config { access_log: Some(log.into()), ..config });
    assert_alone(&all, "ann");
    let ask = |path: &str| all[0].get(path, &[("x-user-id", "bob")]).unwrap();
    // More requests than the limit, in the store or in the gateway.
    const ALLOWED: usize = QUOTA + 1;
    (0..ALLOWED).for_each(|_| assert_eq!(ask("/allow").status, 200));
    let denied = ask("/deny");
    assert_eq!(denied.status, 503);
    assert!(denied.text().contains("#temporary-reduced-capacity"), "{}", denied.text());
    let headers = [("x-user-id", "bob"), ("content-type", "application/grpc"), ("te", "trailers")];
    let grpc = all[0].request("POST", "/deny", &headers, &[0; 5]).unwrap();
    assert_eq!((grpc.status, grpc.header("grpc-status")), (200, Some("14")));
    let log = all[0].access_log_of(3 * SHARE + 1 + ALLOWED + 2).unwrap();
    let details =
        log.iter().filter(|line| line.contains("/deny ") && line.contains("diana_unavailable:denying"));
    assert_eq!(details.count(), 2, "{log:#?}");
    let alone = |rule: &str| counted(&all, &format!("rule.{rule}.degraded"));
    assert_eq!((alone("allowing"), alone("denying")), (ALLOWED as u64, 2));
}

/// A read-only Redis and one out of memory report an error, and later recover. A probe that only
/// reads would succeed in vain.
fn a_redis_that_does_not_write_for_a_while(carrier: Carrier) {
    let shared = Shared::by(carrier, json!({}), &quota(), |config| config);
    assert_together(&shared.gateways, "before");
    let faults: [(&str, [&[&str]; 2]); 2] = [
        ("read-only", [&["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"]]),
        ("out of memory", [&["CONFIG", "SET", "maxmemory", "1"], &["CONFIG", "SET", "maxmemory", "0"]]),
    ];
    for (name, [begin, end]) in faults {
        let answers =
            || shared.gateways.iter().map(|gateway| gateway.logs().matches("answers again").count()).sum();
        let before: usize = answers();
        command(&shared, begin);
        assert_alone(&shared.gateways, name);
        // Each of four workers has queried twice more.
        let failed = shared.store_counted("failed_calls") + 8;
        let probed = || (shared.store_counted("failed_calls") >= failed).then_some(());
        wait_until("probes that fail", PATIENCE, probed).unwrap();
        assert_eq!(answers(), before, "{name}: nothing says that it works");
        command(&shared, end);
        wait_together(&shared.gateways);
        assert_together(&shared.gateways, &format!("after {name}"));
    }
}

/// The loss of the script goes unnoticed; the loss of the counts resets the limits.
fn a_redis_that_forgets_the_script(carrier: Carrier) {
    let mut shared = Shared::by(carrier, json!({}), &quota(), |config| config);
    assert_together(&shared.gateways, "before");
    for user in ["once", "twice"] {
        command(&shared, &["SCRIPT", "FLUSH"]);
        assert_together(&shared.gateways, user);
    }
    let alone = counted(&shared.gateways, "rule.quota.degraded");
    assert_eq!(alone, 0, "no request was counted locally for lack of the script");
    shared.redis.restart().unwrap();
    wait_together(&shared.gateways);
    // A worker may have asked so lately that it still refuses from its cache.
    let mut connections = connections(&shared.gateways, 4);
    let admits = |connection: &mut Connection| {
        let answer = connection.request("GET", "/", &[("x-user-id", "before")], b"").unwrap();
        (answer.status == 200).then_some(())
    };
    for connection in &mut connections {
        wait_until("the cached refusal to end", PATIENCE, || admits(connection)).unwrap();
    }
    let already = connections.len();
    assert_eq!(already + passed(&mut connections, "/", "before", 2 * QUOTA), QUOTA);
}
