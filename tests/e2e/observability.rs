//! `deploy/observability` in a real Prometheus, which scrapes gateways of both shells: every query
//! has series, alerts fire, and idle gateways raise none.

use crate::global::in_redis;
use gateway::config::cluster;
use gateway::redis::Redis;
use gateway::{
    Carrier, Config, Gateway, Load, Prometheus, Reply, Shell, Shot, Update, Upstream, filter, root,
    wait_until,
};
use serde_json::{Value, json};
use servers::Documents;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(90);
const SHELLS: [Shell; 2] = [Shell::Wasm, Shell::Native];

fn file(name: &str) -> String {
    fs::read_to_string(root().join("deploy/observability").join(name)).unwrap()
}

/// The alerts of the file, with 5 s in place of the hour.
fn impatient() -> String {
    file("alerts.yaml").replace("offset 1h", "offset 5s")
}

/// The alerts' expressions by name.
fn alerts() -> Vec<(String, String)> {
    let file: Value = serde_norway::from_str(&impatient()).unwrap();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let rules =
        file["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
    rules.map(|rule| (word(&rule["alert"]), word(&rule["expr"]))).collect()
}

/// These alerts without the times that they wait.
fn without_waits() -> String {
    let text = impatient();
    let lines = text.lines().map(|line| match line.trim_start().starts_with("for: ") {
        true => "        for: 1s\n".to_owned(),
        false => format!("{line}\n"),
    });
    lines.collect()
}

/// The dashboard's expressions, for all jobs and gateways.
fn panels() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&file("dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let words = targets.map(|target| target["expr"].as_str().unwrap());
    words.map(|word| word.replace("$job", ".+").replace("$instance", ".+")).collect()
}

/// The operands of an alert's expression: what it compares, without the comparison that leaves
/// nothing while all is well.
fn operands(expression: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for word in expression.split_inclusive(' ') {
        let is_operator = depth == 0 && ["> ", "< ", "== ", "!= ", "and ", "unless "].contains(&word);
        match is_operator {
            true => parts.push(String::new()),
            false => parts.last_mut().unwrap().push_str(word),
        }
        depth += word.matches('(').count();
        depth -= word.matches(')').count();
    }
    let matching = ["on (job) group_left () ", "on (job, instance) ", "ignoring (outcome) ", "absent"];
    let bare = |part: &str| {
        matching.iter().fold(part.to_owned(), |part, of| part.trim().trim_start_matches(of).into())
    };
    let parts = parts.iter().map(|part| bare(part));
    parts.filter(|part| part.parse::<f64>().is_err()).collect()
}

#[test]
fn an_expression_has_the_operands_of_its_comparisons() {
    assert_eq!(operands("rate(a[5m]) > 0"), ["rate(a[5m])"]);
    assert_eq!(operands("a / sum by (b) (c > 0) > 0.5"), ["a / sum by (b) (c > 0)"]);
    assert_eq!(operands("a == 0 and b > 0"), ["a", "b"]);
    assert_eq!(operands("absent(a)"), ["(a)"]);
    assert_eq!(operands("a unless on (job, instance) b and on (job, instance) up == 1"), ["a", "b", "up"]);
    assert_eq!(operands("count (a > 0) < on (job) group_left () count (b)"), ["count (a > 0)", "count (b)"]);
}

/// A document that has a series of every metric of Envoy.
fn document(remote: Option<&str>) -> Value {
    let rule = |path: &str, keys: Value| {
        let mut rule = json!({"name": path, "actor": "user", "rpu": "1k", "unit": "second"});
        rule.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        json!({"url": format!("/{path}"), "exclusive": true, "rules": [rule]})
    };
    let cost = json!({"response_json": "/tokens", "estimate": 1, "max": 10});
    let mut document = json!({
        "inspect": {"path": "/.diana", "token": "0123456789abcdef0123456789abcdef"},
        "near_limit": "10%",
        "limits": [
            rule("shared", json!({"scope": "global"})),
            rule("open", json!({"scope": "global", "on_error": "allow"})),
            rule("cost", json!({"cost": cost, "rpu": "1M"})),
            rule("queue", json!({"algo": "LB", "actor": "all", "rpu": 20, "queue": 5})),
            rule("adaptive", json!({
                "actor": "all", "adapt": {"signal": "errors", "target": "50%", "min": 10, "every": "1s"},
            })),
            rule("crowd", json!({"rpu": 1, "unit": "hour"})),
            rule("near", json!({"rpu": 1, "unit": "hour"})),
            rule("flood", json!({"rpu": 5, "unit": "hour"})),
        ],
        "store": in_redis(json!({"timeout": "50ms", "replicas": "auto"})),
        "local": {"max_actors": 1000},
        "headers": "ietf",
    });
    if let Some(cluster) = remote {
        document["remote"] = json!({"cluster": cluster, "path": "/diana.json", "interval": "300ms"});
    }
    document
}

/// A gateway of one worker, which soon has looked at all of its tables. A response of `/trap` traps
/// the filter if it is mortal.
fn start(shell: Shell, document: Value, servers: [SocketAddr; 3], is_mortal: bool) -> Gateway {
    let [upstream, redis, documents] = servers;
    let config = Config { shell, concurrency: 1, upstream: Some(upstream), ..Config::new(document) };
    let mut config = Carrier::Bridge.lead(config, redis, &json!({})).unwrap();
    config.clusters.push(cluster("documents", documents, false));
    config.filter = (is_mortal && shell == Shell::Wasm).then(|| filter::mortal().unwrap());
    if is_mortal {
        // As Envoy Gateway, which cannot choose one.
        config.metrics_namespace = None;
    }
    Gateway::start(config).unwrap()
}

fn instance(gateway: &Gateway) -> String {
    gateway.admin().address.to_string()
}

/// Sends requests, each of another user unless `user` names one.
fn send(gateway: &Gateway, path: &str, count: u64, user: Option<&str>) {
    let shot = |index: u64| {
        let user = user.map_or_else(|| format!("user-{index}"), str::to_owned);
        Shot::get(path).header("x-user-id", user)
    };
    gateway.load(Load::requests(count), shot).unwrap();
}

fn wait(what: &str, mut holds: impl FnMut() -> Result<(), String>) {
    let mut last = String::new();
    let found = wait_until(what, PATIENCE, || holds().map_err(|why| last = why).ok());
    assert!(found.is_ok(), "{what}: {last}");
}

#[test]
#[ignore = "needs Prometheus: `cargo xtask examples`"]
fn real_prometheus_fires_the_alerts_of_both_shells() {
    let mut redis = Redis::start().unwrap();
    let documents = Documents::start().unwrap();
    documents.put(r#"{"deny": []}"#);
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let upstream = Upstream::start(|request| match request.path.as_str() {
        "/trap" => Reply::new(200, vec![b'x'; filter::TRAP_BYTES]),
        // Half a document, whose number cannot be read.
        _ => Reply::new(200, "{").header("content-type", "application/json"),
    });
    let upstream = upstream.unwrap();
    let servers = [upstream.address(), redis.address(), documents.address()];
    let mut busy = SHELLS.map(|shell| start(shell, document(Some("documents")), servers, false));
    // Without a server of remote documents, and with another document and secret than the others.
    let servers = [upstream.address(), redis.address(), nowhere];
    let mut other = document(Some("documents"));
    other["deny"] = json!([{"user": "mallory"}]);
    other["store"]["redis"]["secret"] = json!("another secret of the tests");
    let lonely = SHELLS.map(|shell| start(shell, other.clone(), servers, true));
    // Also an idle gateway asks its store, which counts the gateways.
    let steady = Redis::start().unwrap();
    let servers = [upstream.address(), steady.address(), nowhere];
    let idle = SHELLS.map(|shell| start(shell, document(None), servers, false));

    let targets = |gateways: &[&Gateway]| json!(gateways.iter().map(|one| instance(one)).collect::<Vec<_>>());
    let job = |name: &str, gateways: &[&Gateway]| {
        json!({
            "job_name": name, "metrics_path": "/stats/prometheus",
            "static_configs": [{"targets": targets(gateways)}],
        })
    };
    let config = json!({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml", "alerts.yaml"],
        "scrape_configs": [
            job("busy", &[&busy[0], &busy[1], &lonely[0], &lonely[1]]),
            job("idle", &[&idle[0], &idle[1]]),
        ],
    });
    let files = [("rules.yaml", &*file("rules.yaml")), ("alerts.yaml", &*without_waits())];
    let prometheus = Prometheus::start(&config.to_string(), &files).unwrap();
    wait("a rate of each gateway", || {
        let found = prometheus.query("count(sum by (instance) (diana:decisions:rate5m))").unwrap();
        let is_all = found.first().is_some_and(|one| one["value"][1] == "6");
        if is_all { Ok(()) } else { Err(format!("{found:?}")) }
    });

    // All is well.
    for gateway in &busy {
        for path in ["/shared", "/adaptive", "/queue", "/crowd"] {
            send(gateway, path, 8, Some("ann"));
        }
    }
    let rules: Value = serde_norway::from_str(&file("rules.yaml")).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    assert!(rules.len() > 50, "{}", rules.len());
    let has_series = |expression: &str| {
        wait(expression, || match prometheus.query(expression).unwrap().is_empty() {
            true => Err("no series".into()),
            false => Ok(()),
        });
    };
    for rule in rules {
        has_series(&format!("{}{{shell={}}}", rule["record"].as_str().unwrap(), rule["labels"]["shell"]));
        rule["expr"].as_str().unwrap().split(" or ").for_each(has_series);
    }
    panels().iter().for_each(|expression| has_series(expression));

    // Everything goes wrong.
    redis.kill();
    documents.put("{");
    for gateway in &mut busy {
        send(gateway, "/flood", 20_000, None);
        for _ in 0..3 {
            send(gateway, "/crowd", 4_000, None);
        }
        for _ in 0..60 {
            let wrong = [("authorization", "Bearer wrong"), ("x-user-id", "mallory")];
            drop(gateway.get("/.diana/policy", &wrong));
        }
        send(gateway, "/near", 100, None);
        send(gateway, "/cost", 6_000, None);
        send(gateway, "/shared", 3_000, None);
        send(gateway, "/open", 6_000, None);
        assert!(matches!(gateway.update(json!({"limits": [{"url": 1}]})).unwrap(), Update::Rejected(_)));
    }
    // The trap may end the response. Envoy replaces the VM when another request comes.
    drop(lonely[0].get("/trap", &[]));
    wait("another VM", || {
        drop(lonely[0].get("/", &[]));
        let reloads = lonely[0].admin().counter("wasm.diana.vm_reload_success").unwrap();
        if reloads > 0 { Ok(()) } else { Err("none yet".into()) }
    });

    let all = busy.iter().map(instance).collect::<BTreeSet<_>>();
    let servers = lonely.iter().map(instance).collect::<BTreeSet<_>>();
    let trapped = BTreeSet::from([instance(&lonely[0])]);
    let none = BTreeSet::new();
    let expected = [
        ("DianaUncounted", &all),
        ("DianaTrapped", &trapped),
        ("DianaDegraded", &all),
        ("DianaStoreFails", &all),
        ("DianaLossyEvictions", &all),
        ("DianaCrowded", &all),
        ("DianaTableFills", &all),
        ("DianaUnreadCosts", &all),
        ("DianaRefusalsRise", &all),
        ("DianaRuleRefuses", &all),
        ("DianaNearLimit", &all),
        ("DianaWrongTokens", &all),
        ("DianaRemoteDocumentRefused", &all),
        ("DianaRemoteServerFails", &servers),
        ("DianaLocalDocument", &servers),
        ("DianaDocumentsDiffer", &none),
        ("DianaSecretsDiffer", &none),
        ("DianaListenerRejected", &all),
    ];
    for (alert, instances) in expected {
        wait(alert, || {
            let query = format!(
                r#"last_over_time(ALERTS{{alertname="{alert}", alertstate="firing", job="busy"}}[5m])"#
            );
            let found = prometheus.query(&query).unwrap();
            let of = found.iter().filter_map(|one| one["metric"]["instance"].as_str());
            let of: BTreeSet<String> = of.map(str::to_owned).collect();
            if !found.is_empty() && instances.is_subset(&of) { Ok(()) } else { Err(format!("{of:?}")) }
        });
        println!("  ok  {alert} fires");
    }
    // The others have their series, too.
    for (alert, expression) in alerts() {
        for operand in operands(&expression) {
            assert!(!prometheus.query(&operand).unwrap().is_empty(), "{alert}: {operand}");
        }
    }
    assert_eq!(prometheus.query(r#"ALERTS{job="idle"}"#).unwrap(), [Value::Null; 0], "of idle gateways");
    assert_eq!(
        prometheus.query("sum(prometheus_rule_evaluation_failures_total) > 0").unwrap(),
        [Value::Null; 0]
    );
}
