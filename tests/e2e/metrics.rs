//! A gateway as Envoy shows it: its statistics as Prometheus reads them, and its access log.

use diana_filter::VERSION;
use gateway::{Config, Connection, Gateway, Update, wait_until};
use serde_json::json;
use std::time::Duration;

#[test]
fn a_gateway_without_requests_shows_every_series() {
    let rules = json!([{"name": "per-user", "actor": "user", "rpu": 1, "unit": "hour"}]);
    let gateway = super::start(json!({"limits": [{"url": "/", "rules": rules}], "deny": ["192.0.2.7"]}));
    let stats = gateway.stats().unwrap();
    for result in ["ok", "refused", "shadow", "error"] {
        let labels = [("rule", "per-user"), ("result", result)];
        assert_eq!(stats.value("diana_requests", &labels), Some(0.0), "{result}");
    }
    for outcome in ["passed", "delayed", "refused", "denied", "allowed", "error"] {
        assert_eq!(stats.value("diana_decisions", &[("outcome", outcome)]), Some(0.0), "{outcome}");
    }
    let denied = [("rule", "deny"), ("result", "refused")];
    for (name, labels) in [
        ("diana_requests", denied.as_slice()),
        ("diana_evictions", &[("kind", "lossy")]),
        ("diana_shared_data_errors", &[]),
        ("diana_config_generation", &[]),
        ("diana_waiting_requests", &[]),
        ("diana_cells_used", &[("rule", "per-user")]),
    ] {
        assert_eq!(stats.value(name, labels), Some(0.0), "{name}");
    }
    assert_eq!(stats.value("diana_cells_room", &[("rule", "per-user")]), Some(100_000.0));
    let version = VERSION.replace(['.', '+'], "-");
    assert_eq!(stats.value("diana_build_info", &[("version", &version)]), Some(1.0));
    for status in [200, 429, 429] {
        assert_eq!(gateway.get("/", &[("x-user-id", "ann")]).unwrap().status, status);
    }
    let stats = gateway.stats().unwrap();
    let decisions = |outcome| stats.sum("diana_decisions", &[("outcome", outcome)]);
    assert_eq!((decisions("passed"), decisions("refused")), (1, 2));
    assert_eq!(stats.sum("diana_decisions", &[]), 3, "each request counts once");
}

const FORMAT: &str = "%REQ(:PATH)% %RESPONSE_CODE% %FILTER_STATE(wasm.diana.actor:PLAIN)% \
    %FILTER_STATE(wasm.diana.remaining:PLAIN)% %FILTER_STATE(wasm.diana.waited_ms:PLAIN)% %RESP(RATELIMIT)%";

#[test]
fn waiting_requests_are_counted_timed_and_logged() {
    let rules = json!([{"name": "queue", "algo": "LB", "rpu": 1, "unit": "3s", "queue": 2}]);
    let document = json!({"limits": [{"url": "/", "rules": rules}]});
    let gateway =
        Gateway::start(Config { access_log: Some(FORMAT.into()), ..Config::new(document) }).unwrap();
    let ask = |_| {
        let mut connection = gateway.connect().unwrap();
        connection.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        connection
    };
    let all: Vec<Connection> = (0..3).map(ask).collect();
    let value = |name: &str| gateway.stats().unwrap().value(name, &[]);
    let soon = Duration::from_secs(30);
    let two = || (value("diana_waiting_requests") == Some(2.0)).then_some(());
    wait_until("two waiting requests", soon, two).unwrap();
    all.into_iter().for_each(|mut one| assert_eq!(one.receive(false).unwrap().status, 200));
    assert_eq!(value("diana_waiting_requests"), Some(0.0));
    // Envoy shows histograms when it flushes its statistics.
    let timed = || (value("diana_wait_duration_ms_count") == Some(2.0)).then_some(());
    wait_until("two waits in the histogram", soon, timed).unwrap();
    assert!(value("diana_wait_duration_ms_sum") >= Some(1_000.0));
    let log = gateway.access_log_of(3).unwrap();
    assert!(log[0].starts_with(r#"/ 200 - - - "queue";r=2"#), "{}", log[0]);
    for (line, left) in log[1..].iter().zip(["1", "-"]) {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[2..4], ["-", left], "{line}");
        assert!(words[4].parse::<u64>().unwrap() > 0, "{line}");
    }
}

#[test]
fn the_access_log_says_how_the_actor_was_found() {
    let rule = |name, missing| json!([{"name": name, "actor": "user", "missing": missing, "rpu": 1, "unit": "hour"}]);
    let limits = json!([{"url": "/", "rules": rule("by-ip", "ip")},
        {"url": "/shared", "exclusive": true, "rules": rule("together", "share")}]);
    for (all, first, left, known) in [("refused", "- -", "-", "-"), ("all", "actor 0", "0", "actor")] {
        let config = Config::new(json!({"limits": limits, "access_log": all}));
        let gateway = Gateway::start(Config { access_log: Some(FORMAT.into()), ..config }).unwrap();
        let ann: &[(&str, &str)] = &[("x-user-id", "ann")];
        for (path, headers) in
            [("/", ann), ("/", ann), ("/", &[]), ("/", &[]), ("/shared", &[]), ("/shared", &[])]
        {
            gateway.get(path, headers).unwrap();
        }
        let log = gateway.access_log_of(6).unwrap();
        let expected = [
            format!("/ 200 {first} -"),
            format!("/ 429 {known} {left} -"),
            format!("/ 200 {} -", first.replace("actor", "ip")),
            format!("/ 429 ip {left} -"),
            format!("/shared 200 {} -", first.replace("actor", "shared")),
            format!("/shared 429 shared {left} -"),
        ];
        for (line, expected) in log.iter().zip(&expected) {
            assert!(line.starts_with(expected.as_str()), "{line}\nis not {expected}");
        }
        // A header has the remaining quota of an admitted request, so it needs no attribute.
        assert!(log[0].ends_with(r#""by-ip";r=0;t=3600"#), "{}", log[0]);
    }
}

/// The log and a gauge show the same fingerprint in both shells: that of the crate.
#[test]
fn the_fingerprint_of_the_document_is_shown() {
    let document = |rpu: u32| json!({"limits": [{"url": "/", "rules": [{"rpu": rpu, "unit": "hour"}]}]});
    let fingerprint = |rpu: u32| {
        let configuration = diana_config::compile(document(rpu).to_string().as_bytes()).unwrap();
        format!("{:016x}", configuration.fingerprint)
    };
    let (one, two) = (fingerprint(1), fingerprint(2));
    let mut gateway = super::start(document(1));
    let version = VERSION;
    let taken = format!("diana {version}: configuration taken, 1 rule, fingerprint {one}; ");
    assert!(gateway.log_contains(&taken));
    let gauge = |gateway: &Gateway, fingerprint: &str| {
        let workers = gateway.stats().unwrap().value("diana_config_info", &[("fingerprint", fingerprint)]);
        workers.map(|workers| workers > 0.0)
    };
    assert_eq!((gauge(&gateway, &one), gauge(&gateway, &two)), (Some(true), None));
    assert_eq!(gateway.update(document(2)).unwrap(), Update::Accepted);
    assert!(gateway.log_contains(&format!("fingerprint {two}; ")));
    let shown =
        || ((gauge(&gateway, &one), gauge(&gateway, &two)) == (Some(false), Some(true))).then_some(());
    wait_until("the gauge of the second document alone", Duration::from_secs(30), shown).unwrap();
}
