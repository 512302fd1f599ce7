//! Several gateways, and outages of their store.

use super::{differs, passes};

fn document(on_error: &str) -> String {
    format!(
        "
limits:
  - url: /
    rules:
      - {{actor: ip, algo: W, rpu: 4, unit: hour}}
      - {{name: everywhere, actor: ip, algo: W, rpu: 6, unit: hour, scope: global, on_error: {on_error}, lease: 1}}
store: {{redis: {{cluster: redis, secret: 0123456789abcdef, replicas: auto}}}}
"
    )
}

/// Three gateways have 4 each, and 6 together.
#[test]
fn local_rules_count_in_each_gateway_and_global_ones_together() {
    passes(
        &document("local"),
        "    gateways: 3
    requests:
      - {gateway: 1, repeat: 4, expect: pass}
      - {gateway: 1, expect: refused by root-0}
      - {gateway: 2, repeat: 2, expect: {outcome: pass}}
      - {gateway: 2, expect: refused by everywhere}
      - {gateway: 3, expect: {outcome: refused by everywhere, headers: {retry-after: '3600'}}}
      - {from: 203.0.113.7, repeat: 6, expect: pass}
      - {from: 203.0.113.7, expect: {outcome: refused by everywhere, remaining: {root-0: 2}}}
",
    );
}

#[test]
fn requests_go_to_each_gateway_in_turn() {
    let local = "{url: /, rules: [{name: w, actor: ip, algo: W, rpu: 1, unit: hour}]}";
    passes(local, "    gateways: 3\n    requests:\n      - {repeat: 4, expect: {pass: 3, refused: 1}}\n");
    passes(local, "    requests:\n      - {repeat: 4, expect: {pass: 1, refused: 3}}\n");
    let wrong = "    gateways: 2\n    requests:\n      - {repeat: 4, expect: {pass: 3, refused: 1}}\n";
    assert_eq!(differs(local, wrong), ["expected 3 pass, 1 refused, found 2 pass, 2 refused"]);
}

/// Without the store, each of two gateways has half of 6; with it, what was counted before is back.
#[test]
fn an_outage_follows_on_error() {
    let case = |from: &str, during: &str| {
        format!(
            "    start: 2026-01-31T10:01:00Z
    gateways: 2
    store: {from}
    requests:
      - {{from: 203.0.113.7, gateway: 1, repeat: 3, expect: pass}}
      - {{at: '10:10', from: 203.0.113.7, gateway: 2, {during}}}
      - {{at: '10:15', from: 203.0.113.7, gateway: 2, expect: {{remaining: {{everywhere: 2}}}}}}
"
        )
    };
    let outage = "down from 10:10 to 10:15";
    passes(
        &document("local"),
        &case(outage, "repeat: 4, expect: {pass: 3, refused: 1}")
            .replace("remaining: {everywhere: 2}", "outcome: pass, remaining: {everywhere: 2, root-0: 0}"),
    );
    passes(
        &document("allow"),
        &case(outage, "repeat: 5, expect: {pass: 4, refused: 1}")
            .replace("remaining: {everywhere: 2}", "outcome: refused by root-0"),
    );
    passes(&document("deny"), &case(outage, "expect: {outcome: refused by everywhere, status: 503}"));
    // A global rule with one instant less.
    let late = case("down from 10:10:01 to 10:15", "expect: {outcome: pass, remaining: {everywhere: 2}}");
    passes(&document("deny"), &late.replace("expect: {remaining: {everywhere: 2}}", "expect: pass"));
    passes(&document("deny"), "    store: down\n    requests:\n      - {expect: refused by everywhere}\n");
    let until = "    store: [down until 5m, down from 10m]\n    requests:
      - {expect: {status: 503}}
      - {at: 5m, expect: pass}
      - {at: 10m, expect: {status: 503}}
";
    passes(&document("deny"), until);
}

/// A named segment, which each url of a limit must have, and a limit that is only exclusive.
#[test]
fn any_limit_counts_in_each_gateway() {
    let document = "
limits:
  - {url: \"/t/{tenant}/**\", rules: [{name: per-tenant, actor: {segment: tenant}, algo: W, rpu: 1, unit: hour}]}
  - {url: =/health, exclusive: true}
  - {url: [/a, =/b], rules: [{name: both, algo: W, rpu: 1, unit: hour}]}
  - {url: /, rules: [{name: per-ip, actor: ip, algo: W, rpu: 100, unit: hour}]}
case_sensitive: false
";
    passes(
        document,
        "    gateways: 2
    requests:
      - {url: /t/acme/x, repeat: 4, expect: {pass: 2, refused: 2}}
      - {url: /T/globex, repeat: 2, expect: pass}
      - {url: /health, repeat: 2, expect: {outcome: pass, headers: {ratelimit: null}}}
      - {url: /b, repeat: 2, expect: pass}
      - {url: /b/gateway%200, repeat: 9, expect: pass}
      - {url: /a/1, expect: refused by both}
",
    );
}
