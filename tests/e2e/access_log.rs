//! Whom the access log names, and the mark of requests that leave little.

use gateway::{Config, Gateway};
use serde_json::{Value, json};

const SECRET: &str = "0123456789abcdef";

/// A line that is JSON only if the value breaks nothing.
const FORMAT: &str = r#"{"status": %RESPONSE_CODE%, "value": "%FILTER_STATE(wasm.diana.actor_value:PLAIN)%", "hash": "%FILTER_STATE(wasm.diana.actor_hash:PLAIN)%", "near": "%FILTER_STATE(wasm.diana.near:PLAIN)%", "remaining": "%FILTER_STATE(wasm.diana.remaining:PLAIN)%"}"#;

fn start(document: Value) -> Gateway {
    Gateway::start(Config { access_log: Some(FORMAT.into()), ..Config::new(document) }).unwrap()
}

/// The lines of so many requests, each as JSON.
fn lines(gateway: &Gateway, count: usize) -> Vec<Value> {
    let log = gateway.access_log_of(count).unwrap();
    assert_eq!(log.len(), count, "{log:#?}");
    log.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

/// A rule that refuses every request, for users in the query and in a header.
fn refusing(access_log: Value) -> Value {
    json!({
        "actors": {"q": {"query": "q"}, "h": {"header": "x-h"}},
        "access_log": access_log,
        "limits": [
            {"url": "/q", "rules": [{"name": "q", "actor": "q", "missing": "skip", "rpu": 0, "unit": "day"}]},
            {"url": "/h", "rules": [{"name": "h", "actor": ["h", "ip"], "missing": "skip", "rpu": 0, "unit": "day"}]},
        ],
    })
}

/// Sends the bytes as a header, and expects a refusal.
fn with_header(gateway: &Gateway, value: &[u8]) {
    let request = [b"GET /h HTTP/1.1\r\nhost: a\r\nx-h: ", value, b"\r\n\r\n"].concat();
    let response = gateway.raw(&request).unwrap().unwrap();
    assert_eq!(response.status, 429, "{value:?}");
}

#[test]
fn a_hostile_value_forges_no_line() {
    let gateway = start(refusing(json!({"actor": "value"})));
    let long = "a".repeat(20_000);
    let in_query = [
        ("ann", "ann"),
        ("a%22%2C%22b%22%3A%22c", "a%22%2c%22b%22:%22c"),
        ("a%0D%0A%7B%22status%22%3A200%7D", "a%0d%0a%7b%22status%22:200%7d"),
        ("%00%01%1B%5B31m%7F%5C", "%00%01%1b%5b31m%7f%5c"),
        ("%FF%FE", "%ff%fe"),
        ("-", "%2d"),
        (&long, &(long[..127].to_owned() + "*")),
    ];
    for (value, _) in &in_query {
        assert_eq!(gateway.get(&format!("/q?q={value}"), &[]).unwrap().status, 429);
    }
    let in_header: [(&[u8], &str); 4] = [
        (b"bob", "bob,127.0.0.1"),
        (b"\xff\xe9\"\\", "%ff%e9%22%5c,127.0.0.1"),
        (b"Bearer eyJhbGciOiJub25lIn0.e30.AA==", "Bearer%20eyJhbGciOiJub25lIn0.e30.AA%3d%3d,127.0.0.1"),
        (b"a\tb,c d", "a%09b%2cc%20d,127.0.0.1"),
    ];
    in_header.iter().for_each(|(value, _)| with_header(&gateway, value));
    let expected = in_query.iter().map(|(_, text)| *text).chain(in_header.iter().map(|(_, text)| *text));
    let log = lines(&gateway, in_query.len() + in_header.len());
    for (line, expected) in log.iter().zip(expected) {
        assert_eq!(
            (&line["status"], &line["value"], &line["hash"]),
            (&json!(429), &json!(expected), &json!("-"))
        );
    }
}

#[test]
fn without_the_key_the_log_names_nobody() {
    for access_log in [json!("refused"), json!("all"), json!({"requests": "all"}), json!({})] {
        let gateway = start(refusing(access_log.clone()));
        gateway.get("/q?q=xanadu", &[]).unwrap();
        let log = lines(&gateway, 1);
        assert_eq!((&log[0]["value"], &log[0]["hash"]), (&json!("-"), &json!("-")), "{access_log}");
        let log = gateway.access_log().concat() + &gateway.logs();
        assert!(!log.contains("xanadu"), "{log}");
    }
}

/// HMAC-SHA-256 by its definition (RFC 2104), with the digest of another program.
fn hmac(text: &str) -> String {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut openssl = Command::new("openssl")
        .args(["dgst", "-sha256", "-hmac", SECRET, "-r"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    openssl.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = openssl.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..16].to_owned()
}

/// Two gateways, one with the secret beside `hash` and one with the store's, show the same hash,
/// which the command of the documents repeats.
#[test]
fn a_hash_is_that_of_every_gateway_with_the_secret() {
    let own = start(refusing(json!({"actor": "hash", "secret": SECRET})));
    let mut document = refusing(json!({"actor": "hash"}));
    document["store"] = json!({"redis": {"cluster": "upstream", "secret": SECRET}});
    let of_store = start(document);
    let long = "a".repeat(300);
    for gateway in [&own, &of_store] {
        for value in ["ann", "bob", "a%22b", &long] {
            assert_eq!(gateway.get(&format!("/q?q={value}"), &[]).unwrap().status, 429);
        }
        with_header(gateway, b"ann");
        let log = lines(gateway, 5);
        for (line, text) in log.iter().zip(["ann", "bob", "a%22b", &long, "ann,127.0.0.1"]) {
            assert_eq!((&line["hash"], &line["value"]), (&json!(hmac(text)), &json!("-")), "{text}");
        }
    }
}

/// Ten requests by one worker: those that leave less than 30 % of ten are marked and counted.
#[test]
fn requests_that_leave_little_are_marked_and_counted() {
    let document = json!({
        "near_limit": "30%",
        "access_log": {"actor": "value"},
        "limits": [{"url": "/", "rules": [
            {"name": "tight", "actor": "user", "algo": "W", "rpu": 10, "unit": "7d"},
            {"name": "wide", "actor": "user", "algo": "W", "rpu": 1_000, "unit": "7d"},
        ]}],
    });
    let config = Config { access_log: Some(FORMAT.into()), concurrency: 1, ..Config::new(document) };
    let gateway = Gateway::start(config).unwrap();
    for status in [200; 10].into_iter().chain([429; 2]) {
        assert_eq!(gateway.get("/", &[("x-user-id", "ann")]).unwrap().status, status);
    }
    let log = lines(&gateway, 12);
    for (index, line) in log.iter().enumerate() {
        let (value, near, remaining) = match index {
            0..=6 => ("-", "-", "-".to_owned()),
            7..=9 => ("ann", "tight", (9 - index).to_string()),
            _ => ("ann", "-", "-".to_owned()),
        };
        let found = (&line["value"], &line["near"], &line["remaining"]);
        assert_eq!(found, (&json!(value), &json!(near), &json!(remaining)), "{index}");
    }
    let stats = gateway.stats().unwrap();
    let near = |rule| stats.value("diana_near_limit", &[("rule", rule)]);
    assert_eq!((near("tight"), near("wide")), (Some(3.0), Some(0.0)));
    let without = super::start(json!({"limits": [{"url": "/", "rules": [{"rpu": 1, "unit": "day"}]}]}));
    without.get("/", &[]).unwrap();
    assert_eq!(without.stats().unwrap().matching("diana_near_limit", &[]).count(), 0);
}
