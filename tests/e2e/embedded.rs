//! Another team's filter with Diana inside: `examples/embed-in-sdk-filter`.

use gateway::{Config, Gateway, Load, Shot, Update, filter, free_port, root, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// A header that sets the client address.
const ANN: [(&str, &str); 1] = [("x-forwarded-for", "198.51.100.1")];
const BOB: [(&str, &str); 1] = [("x-forwarded-for", "198.51.100.2")];

/// The filter's document, with these rules for all requests.
fn document(rules: Value) -> Value {
    json!({"maintenance": ["/reports"], "diana": {"limits": [{"url": "/", "rules": rules}]}})
}

/// A gateway with two workers, to which Envoy gives connections in turn.
fn config(document: Value) -> Config {
    Config {
        filter: Some(filter::embedding().unwrap()),
        vm_id: "team".into(),
        use_remote_address: false,
        balanced: true,
        ..Config::new(document)
    }
}

#[test]
fn an_embedded_engine_counts_exactly_over_two_workers() {
    let rules = json!([{"name": "per-ip", "actor": "ip", "rpu": 50, "unit": "7d"}]);
    let gateway = Gateway::start(config(document(rules))).unwrap();
    let (name, value) = ANN[0];
    let report = gateway.load(Load::requests(1_000), |_| Shot::get("/").header(name, value)).unwrap();
    assert_eq!((report.status(200), report.status(429), report.lost), (50, 950, 0));

    let refused = gateway.get("/", &ANN).unwrap();
    let header = |name: &str| refused.header(name).unwrap_or_else(|| panic!("no `{name}`"));
    assert_eq!((refused.status, header("content-type")), (429, "application/problem+json"));
    assert_eq!(header("ratelimit-policy"), r#""per-ip";q=50;w=604800"#);
    assert!(header("ratelimit").starts_with(r#""per-ip";r=0;t="#), "{}", header("ratelimit"));
    assert!(header("retry-after").parse::<u32>().unwrap() > 0);
    assert!(refused.text().contains(r#""violated-policies":["per-ip"]"#), "{}", refused.text());

    let grpc = gateway.get("/", &[ANN[0], ("content-type", "application/grpc")]).unwrap();
    assert_eq!((grpc.status, grpc.header("grpc-status")), (200, Some("8")), "RESOURCE_EXHAUSTED");

    let other = gateway.get("/", &BOB).unwrap();
    let remaining = other.header("ratelimit").unwrap_or_default();
    assert!(other.status == 200 && remaining.starts_with(r#""per-ip";r=49"#), "{remaining}");
}

#[test]
fn the_feature_of_the_filter_works_beside_the_limits() {
    let rules = json!([{"name": "per-ip", "actor": "ip", "rpu": 1, "unit": "7d"}]);
    let gateway = Gateway::start(config(document(rules))).unwrap();
    for _ in 0..3 {
        let answer = gateway.get("/reports/2026?year", &ANN).unwrap();
        let body: Value = serde_json::from_str(&answer.text()).unwrap();
        assert_eq!((answer.status, answer.header("ratelimit")), (503, None));
        assert_eq!(body, json!({"error": "under maintenance", "path": "/reports"}));
    }
    let line = || gateway.log_contains("refused a request for `/reports`").then_some(());
    wait_until("the filter's line in the log", Duration::from_secs(10), line).unwrap();
    assert_eq!(gateway.get("/", &ANN).unwrap().status, 200, "maintenance is charged to no rule");
    assert_eq!(gateway.get("/", &ANN).unwrap().status, 429);
}

#[test]
fn permits_in_an_embedded_engine_are_refunded() {
    let rules = json!([{"name": "permits", "algo": "C", "rpu": 1, "max_hold": "1h"}]);
    let gateway = Gateway::start(config(document(rules))).unwrap();
    for round in 1..=10 {
        // The client may read a response before the request has ended in the filter.
        let passes = || (gateway.get("/", &ANN).ok()?.status == 200).then_some(());
        wait_until(&format!("the permit of round {round}"), Duration::from_secs(10), passes).unwrap();
    }
}

#[test]
fn hostile_bytes_do_not_end_a_filter_with_an_embedded_engine() {
    let rules = json!([{"name": "user", "actor": "user", "rpu": 1, "unit": "7d"}]);
    let mut gateway = Gateway::start(config(document(rules))).unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: a\r\nx-user-id: \xff\xfe\xc3\r\nx-forwarded-for: \xff\r\n\r\n";
    let statuses = [(); 2].map(|()| gateway.raw(request).unwrap().map(|answer| answer.status));
    assert_eq!(statuses, [Some(200), Some(429)]);
    // The SDK panics at a header name that is not UTF-8; Envoy refuses the request before.
    let name = b"GET / HTTP/1.1\r\nhost: a\r\nx-\xff: 1\r\n\r\n";
    assert_eq!(gateway.raw(name).unwrap().map(|answer| answer.status), Some(400));
    assert_eq!(gateway.get("/", &[("x-user-id", "ann")]).unwrap().status, 200);
    assert!(gateway.alive());
}

#[test]
fn mistakes_in_the_document_of_an_embedded_engine_have_their_places() {
    let rules = |unit: &str| document(json!([{"name": "one", "rpu": 1, "unit": unit}]));
    let mut gateway = Gateway::start(config(rules("7d"))).unwrap();
    assert_eq!(gateway.get("/", &ANN).unwrap().status, 200);
    let mut refuse = |wrong: Value, place: &str| {
        let update = gateway.update(wrong).unwrap();
        assert!(matches!(update, Update::Rejected(_)), "{place}");
        assert!(gateway.log_contains(place), "{place}:\n{}", gateway.logs());
        assert_eq!(gateway.get("/", &ANN).unwrap().status, 429, "the former document has its count");
    };
    refuse(
        rules("secnd"),
        "configuration refused, `diana`: limits[0].rules[0].unit: unknown unit `secnd`, expected second",
    );
    refuse(json!({"maintenanc": [], "diana": {"limits": []}}), "unknown field `maintenanc`");
    refuse(json!({"maintenance": []}), "missing field `diana`");
    let remote = json!({"cluster": "files", "path": "/diana.json"});
    refuse(json!({"diana": {"limits": [], "remote": remote}}), "neither `store` nor `remote`");

    let error = Gateway::start(config(rules("secnd"))).map(|_| ()).unwrap_err();
    assert!(format!("{error:#}").contains("limits[0].rules[0].unit"), "{error:#}");
}

/// The example's own files do what its README says.
#[test]
fn the_example_of_an_embedded_engine_works_as_its_readme_says() {
    let text = fs::read_to_string(root().join("examples/embed-in-sdk-filter/envoy.yaml")).unwrap();
    let named = "target/wasm32-wasip1/release/embed_in_sdk_filter.wasm";
    assert!(text.contains(named));
    let text = text.replace(named, &filter::embedding().unwrap().display().to_string());
    let gateway = Gateway::from_text(&text, |_| free_port().unwrap()).unwrap();
    let status = |path: &str| gateway.get(path, &[]).unwrap().status;
    assert_eq!(status("/reports"), 503);
    assert_eq!([(); 5].map(|()| status("/")), [200, 200, 200, 429, 429]);
}
