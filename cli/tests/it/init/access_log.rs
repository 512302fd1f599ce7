//! The access logs of written files: `diana replay` finds in them whatever the limits read.

use super::text;
use crate::replay::{Folder, summary};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

const LIMITS: [&str; 16] = [
    "9/second",
    "9/minute per ip",
    "9/minute per user",
    "9/minute per device",
    "9/minute per account",
    "10k/day per header x-api-key",
    "9/minute per header status",
    "9/minute per header duration",
    "9/minute per header x-envoy-original-path",
    "9/minute per header a%b'#",
    "9/minute per cookie session",
    "9/minute per query api_key",
    "9/minute per jwt sub",
    "9/minute per header x-tenant and ip",
    "9/minute per ip on POST,PUT /a/*/b",
    "8 in flight per user on =/export",
];

/// The keys and the operators of the access log in a file for Envoy.
fn log_format(text: &str) -> Map<String, Value> {
    let file: Value = serde_norway::from_str(text).unwrap();
    let format = file.pointer(
        "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/access_log/0/typed_config/log_format\
         /json_format",
    );
    format.unwrap().as_object().unwrap().clone()
}

/// The line that Envoy logs for a request whose headers all have the same value.
fn line(format: &Map<String, Value>, header: &str) -> String {
    let value = |operator: &str| match operator {
        "%START_TIME%" => json!("2026-11-23T00:00:00.250Z"),
        "%REQ(:METHOD)%" => json!("POST"),
        "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%" => json!("/export"),
        "%REQ(:AUTHORITY)%" => json!("localhost"),
        "%DOWNSTREAM_REMOTE_ADDRESS%" => json!("192.0.2.1:5"),
        "%DURATION%" => json!(3),
        "%RESPONSE_CODE%" => json!(200),
        operator if operator.starts_with("%REQ(") => json!(header),
        _ => Value::Null,
    };
    let fields: Map<String, Value> =
        format.iter().map(|(key, operator)| (key.clone(), value(operator.as_str().unwrap()))).collect();
    Value::from(fields).to_string() + "\n"
}

/// The file of a user who has decided to log the secrets, too.
fn with_secrets(text: &str) -> String {
    let line = |line: &str| match line.contains("%REQ(") && !line.contains("such as") {
        true => line.replacen("# ", "", 1) + "\n",
        false => line.to_owned() + "\n",
    };
    text.lines().map(line).collect()
}

#[test]
fn a_secret_is_logged_only_by_decision() {
    for (limit, operator) in [
        ("9/minute per header x-api-key", "%REQ(X-API-KEY)%"),
        ("9/minute per cookie session", "%REQ(COOKIE)%"),
        ("9/minute per jwt sub", "%REQ(AUTHORIZATION)%"),
    ] {
        let text = text(&["--limit", limit]).unwrap();
        let is_logged = |text: &str| log_format(text).values().any(|value| value == operator);
        assert!(!is_logged(&text) && text.contains(operator), "{text}");
        assert!(is_logged(&with_secrets(&text)), "{text}");
    }
}

/// The log of two requests in the format of a file, replayed through the file's document.
fn replayed(folder: &Folder, text: &str) -> diana_replay::summary::Summary {
    let format = log_format(text);
    let document = folder.file("envoy.yaml", text);
    let log = folder.file("access.log", &(line(&format, "192.0.2.2") + &line(&format, "192.0.2.3")));
    summary(&[&document, "--log", &log]).unwrap()
}

/// What the replay assumes because the log lacks a value.
fn lacking(folder: &Folder, text: &str) -> Vec<String> {
    let found = replayed(folder, text).log;
    assert_eq!((&*found.format, found.unreadable), ("json", 0), "{found:?}");
    found.assumptions.into_iter().filter(|assumption| assumption.contains("The log has ")).collect()
}

#[test]
fn the_log_of_a_written_file_has_whatever_its_limits_read() {
    let folder = Folder::new("access-log");
    let all: Vec<&str> = LIMITS.iter().flat_map(|limit| ["--limit", limit]).collect();
    let mut cases: Vec<&[&str]> = all.chunks(2).collect();
    cases.push(&all);
    for kind in ["envoy", "envoy-native"] {
        for limits in &cases {
            for more in [&[][..], &["--proxies", "2", "--shadow"]] {
                let words = [&["--kind", kind][..], limits, more].concat();
                let none: [String; 0] = [];
                assert_eq!(lacking(&folder, &with_secrets(&text(&words).unwrap())), none, "{words:?}");
            }
        }
    }
}

#[test]
fn the_replay_finds_the_value_of_each_header() {
    let folder = Folder::new("access-log-values");
    for (limit, header) in [
        ("1/day per header x-api-key", "%REQ(X-API-KEY)%"),
        ("1/day per header status", "%REQ(STATUS)%"),
        ("1/day per header a%b'#", "%REQ(A%B'#)%"),
        ("1/day per user", "%REQ(X-USER-ID)%"),
    ] {
        let text = with_secrets(&text(&["--limit", limit]).unwrap());
        assert!(log_format(&text).values().any(|operator| operator == header), "{text}");
        assert_eq!(replayed(&folder, &text).rules[0].actors, 2, "{limit}");
    }
    let text = text(&["--limit", "1/day per ip", "--proxies", "1"]).unwrap();
    assert_eq!(log_format(&text)["x-forwarded-for"], "%REQ(X-FORWARDED-FOR)%");
}

#[test]
fn the_logs_of_the_repositorys_files_have_whatever_their_limits_read() {
    let folder = Folder::new("access-log-files");
    for name in ["envoy.yaml", "envoy-native.yaml"] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)).unwrap();
        let none: [String; 0] = [];
        assert_eq!(lacking(&folder, &text), none, "{name}");
    }
}
