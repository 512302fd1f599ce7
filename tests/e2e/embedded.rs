//! Another team's filter with Diana inside: `examples/embed-in-sdk-filter`.

use gateway::{Config, Gateway, Load, Shot, Update, filter, free_port, root, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// A header that sets the client address.
const ANN: [(&str, &str); 1] = [("x-forwarded-for", "198.51.100.1")];
const BOB: [(&str, &str); 1] = [("x-forwarded-for", "198.51.100.2")];

/// The filter's document, with these limits.
fn document(limits: Value) -> Value {
    json!({"maintenance": ["/reports"], "limits": limits})
}

/// So many requests in a week.
fn weekly(requests: u64) -> Value {
    json!({"requests": requests, "seconds": 604_800})
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
    let gateway = Gateway::start(config(document(json!({"per_ip": weekly(50)})))).unwrap();
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
    let gateway = Gateway::start(config(document(json!({"per_ip": weekly(1)})))).unwrap();
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
    let gateway = Gateway::start(config(document(json!({"in_flight": 1})))).unwrap();
    for round in 1..=10 {
        // The client may read a response before the request has ended in the filter.
        let passes = || (gateway.get("/", &ANN).ok()?.status == 200).then_some(());
        wait_until(&format!("the permit of round {round}"), Duration::from_secs(10), passes).unwrap();
    }
}

#[test]
fn hostile_bytes_do_not_end_a_filter_with_an_embedded_engine() {
    let mut gateway = Gateway::start(config(document(json!({"per_user": weekly(1)})))).unwrap();
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
fn a_limit_that_cannot_be_is_refused_by_its_name() {
    let mut gateway = Gateway::start(config(document(json!({"per_ip": weekly(1)})))).unwrap();
    assert_eq!(gateway.get("/", &ANN).unwrap().status, 200);
    let mut refuse = |wrong: Value, why: &str| {
        let update = gateway.update(wrong).unwrap();
        assert!(matches!(update, Update::Rejected(_)), "{why}");
        assert!(gateway.log_contains(why), "{why}:\n{}", gateway.logs());
        assert_eq!(gateway.get("/", &ANN).unwrap().status, 429, "the former document has its count");
    };
    refuse(
        document(json!({"per_ip": weekly(0)})),
        "configuration refused, `limits`: `per_ip`: `rpu` is out of range",
    );
    let long = json!({"requests": 1, "seconds": 604_801});
    refuse(document(json!({"per_user": long})), "`per_user`: `unit` is out of range");
    refuse(document(json!({"in_flight": 0})), "`in_flight`: `rpu` is out of range");
    refuse(json!({"maintenanc": [], "limits": {}}), "unknown field `maintenanc`");
    refuse(json!({"maintenance": []}), "missing field `limits`");

    let error = Gateway::start(config(document(json!({"in_flight": 0})))).map(|_| ()).unwrap_err();
    assert!(format!("{error:#}").contains("`in_flight`"), "{error:#}");
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
