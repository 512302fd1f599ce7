//! JSON lines: the order of keys decides nothing, and no request is lost for an optional value.

use super::{NOON, header, read, request, slots, some, value};
use crate::log::Format;
use crate::log::record::{Record, Slot};
use diana_limiter::time::Time;
use proptest::prelude::*;

/// Keys with one meaning, the best first. The names of two keys are the same if both have a letter
/// of another case or another separator.
const ALIASES: &[&[&str]] = &[
    &["start_time", "request_start_time", "@timestamp", "time", "TS", "msec", "time_iso8601"],
    &["duration_ms", "duration_s", "request_time", "duration"],
    &["response_duration", "upstream_service_time", "upstream_header_time", "upstream_response_time"],
    &["response_code", "status", "status_code"],
    &["bytes_received"],
    &["body_bytes_sent", "bytes_sent"],
    &["method", "request_method"],
    &["x-envoy-original-path", "request_uri", "path", "uri", "URL", "Path"],
    &["request"],
    &[":authority", "host", "http_host"],
    &["downstream_remote_address", "remote_addr", "client_ip", "source.address"],
    &["x_user_id", "http_x_user_id", "request_header_x_user_id", "X-User-Id"],
    &["route_name", "xds.route_name"],
];

const VALUES: &[&str] = &[
    "null",
    "\"-\"",
    "\"\"",
    "-1",
    "\"abc\"",
    "7",
    "1795392000.5",
    "200",
    "[1]",
    "\"GET /a HTTP/1.1\"",
    "\"2026-11-23T00:00:07Z\"",
    "\"/b?c\"",
];

/// All that a replay reads of a line.
fn outcome(line: &str) -> Result<String, String> {
    let record = read("json", line)?;
    let values: Vec<Option<String>> = slots().iter().map(|slot| value(&record, slot)).collect();
    let known: Vec<bool> = (0..values.len()).map(|slot| record.has(slot)).collect();
    let Record { start, duration_ns, latency_ns, status, received, sent, .. } = record;
    Ok(format!("{:?}", (start, duration_ns, latency_ns, status, received, sent, values, known)))
}

fn line(members: &[(&str, &str)]) -> String {
    let members: Vec<String> = members.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
    format!("{{{}}}", members.join(", "))
}

#[test]
fn the_best_key_counts_wherever_it_is() {
    let (worse, better) = ("\"worse\"", "\"better\"");
    let target = |record: &Record| value(record, &Slot::Target).unwrap();
    for (keys, found) in [
        (["x-envoy-original-path", "path"], &target as Found),
        (["request_uri", "path"], &target),
        (["path", "uri"], &target),
        (["authority", "host"], &|record| value(record, &Slot::Host).unwrap()),
        (["remote_addr", "client_ip"], &|record| value(record, &Slot::Address).unwrap()),
        (["x_user_id", "http_x_user_id"], &|record| header(record, "x-user-id").unwrap()),
        (["http_x_user_id", "request_header_x_user_id"], &|record| header(record, "x-user-id").unwrap()),
    ] {
        let others = [("url", "\"/\""), ("ts", "1")];
        let [first, second] = [(keys[0], better), (keys[1], worse)];
        for members in [[first, second], [second, first]] {
            let record = read("json", &line(&[&members[..], &others].concat())).unwrap();
            assert_eq!(found(&record), "better", "{members:?}");
        }
    }
    for members in [
        [("start_time", "1795392001"), ("time", "1795392002")],
        [("time", "1795392002"), ("start_time", "1795392001")],
        [("start_time", "1795392001"), ("msec", "1795392002")],
        [("msec", "1795392002"), ("start_time", "1795392001")],
        // nginx may write its end to a key of this name, in whole seconds.
        [("time", "1795392002"), ("msec", "1795392001")],
        [("msec", "1795392001"), ("time", "1795392002")],
        [("msec", "1795392001"), ("time_local", "\"23/Nov/2026:00:00:02 +0000\"")],
        [("time_local", "\"23/Nov/2026:00:00:02 +0000\""), ("msec", "1795392001")],
    ] {
        let record = read("json", &line(&[&members[..], &[("path", "\"/\"")]].concat())).unwrap();
        assert_eq!(record.start, Time::from_ns(NOON + 1_000_000_000), "{members:?}");
    }
    let line =
        r#"{"msec": 1, "path": "/b", "uri": "/c", "request": "GET /a?b HTTP/1.1", "request_method": "PUT"}"#;
    assert_eq!(request(&read("json", line).unwrap()), some(["PUT", "/a?b", "-", "-"]));
}

/// The keys of a row in the page's table of keys, in their order.
fn documented(row: &str) -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli/replay.md");
    let page = std::fs::read_to_string(page).unwrap();
    let start = format!("| {row} | ");
    let row = page.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_else(|| panic!("{start}"));
    row.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// What a row of the page is about, of a record.
type Found<'a> = &'a dyn Fn(&Record) -> String;

#[test]
fn the_first_documented_key_counts() {
    let text = |slot: Slot| move |record: &Record| value(record, &slot).unwrap();
    let rows: &[(&str, usize, Found)] = &[
        ("time", 8, &|record| format!("{:?}", record.start)),
        ("duration", 4, &|record| format!("{:?}", record.duration_ns)),
        ("upstream's time", 5, &|record| format!("{:?}", record.latency_ns)),
        ("status", 3, &|record| format!("{:?}", record.status)),
        ("bytes received", 1, &|record| format!("{:?}", record.received)),
        ("bytes sent", 2, &|record| format!("{:?}", record.sent)),
        ("method", 3, &text(Slot::Method)),
        ("path", 8, &text(Slot::Target)),
        ("host", 3, &text(Slot::Host)),
        ("client address", 8, &text(Slot::Address)),
    ];
    for (row, count, found) in rows {
        let keys = documented(row);
        assert_eq!(keys.len(), *count, "{row}: {keys:?}");
        // Text of the key with a number, so that each key has a value of its own.
        let member = |at: usize| match &*keys[at] {
            "time_local" => format!("\"23/Nov/2026:00:00:0{at} +0000\""),
            "request" => format!("\"M{at} /{at} HTTP/1.1\""),
            _ => format!("\"{}\"", 1 + at),
        };
        let of = |members: &[usize]| {
            let members: Vec<(&str, String)> = members.iter().map(|at| (&*keys[*at], member(*at))).collect();
            let mut members: Vec<(&str, &str)> =
                members.iter().map(|(key, value)| (*key, &**value)).collect();
            members.extend([("start_time", "9")].iter().filter(|_| *row != "time"));
            members.extend([("path", "\"/\"")].iter().filter(|_| *row != "path"));
            found(&read("json", &line(&members)).unwrap())
        };
        for (better, worse) in (0..keys.len()).flat_map(|at| (0..at).map(move |better| (better, at))) {
            let names = (&keys[better], &keys[worse]);
            assert_ne!(of(&[better]), of(&[worse]), "{names:?}");
            assert_eq!(of(&[better, worse]), of(&[better]), "{names:?}");
            assert_eq!(of(&[worse, better]), of(&[better]), "{names:?}");
        }
    }
}

#[test]
fn a_key_without_a_value_leaves_the_meaning_to_the_next_key() {
    let line = r#"{"x-envoy-original-path": null, "path": "/a", "start_time": "-", "time": 1795392000,
        "duration_ms": "abc", "duration": 5, "x_user_id": "", "http_x_user_id": "7"}"#;
    let record = read("json", line).unwrap();
    assert_eq!((record.start, record.duration_ns), (Time::from_ns(NOON), Some(5_000_000)));
    assert_eq!(request(&record), some(["-", "/a", "-", "-"]));
    assert_eq!(header(&record, "x-user-id").as_deref(), Some("7"));
}

#[test]
fn numbers_that_cannot_be_read_are_absent() {
    let line = r#"{"start_time": 1795392000, "path": "/a", "duration": -1, "bytes_received": "abc", "bytes_sent": 1e3,
        "status": "OK", "response_duration": 99999999999999999999999, "upstream_header_time": true}"#;
    let record = read("json", line).unwrap();
    assert_eq!((record.duration_ns, record.received, record.sent), (None, None, None));
    assert_eq!((record.status, record.latency_ns), (None, None));
}

#[test]
fn bytes_that_are_not_utf_8_are_read() {
    let mut format = Format::new("json", &slots()).unwrap();
    let mut user = |byte: u8| {
        let line =
            [b"{\"ts\": 1, \"path\": \"/\", \"x-user-id\": \"J\xc3\xa9", &[byte][..], b"\", \"k\xff\": 1}"];
        let mut record = Record::default();
        format.read(&line.concat(), &mut record).unwrap();
        header(&record, "x-user-id").unwrap()
    };
    assert_eq!([user(0xe9), user(0xff), user(b'x')], ["Jéé", "Jéÿ", "Jéx"]);
}

#[test]
fn escapes_of_nginx_are_read() {
    let line = r#"{"msec": 1, "request": "GET /a\x22\xE9\\x41 HTTP/1.1", "http_x_user_id": "Zo\xC3\xAB"}"#;
    let record = read("json", line).unwrap();
    assert_eq!(request(&record), some(["GET", "/a\"é\\x41", "-", "-"]));
    assert_eq!(header(&record, "x-user-id").as_deref(), Some("Zoë"));
}

proptest! {
    #[test]
    fn the_order_of_keys_decides_nothing(
        (members, shuffled) in prop::collection::vec((prop::sample::select(ALIASES), any::<prop::sample::Index>(), prop::sample::select(VALUES)), 0..12)
            .prop_flat_map(|members| (Just(members.clone()), Just(members).prop_shuffle())),
        is_complete: bool,
    ) {
        let line = |members: &[(&'static [&'static str], prop::sample::Index, &'static str)]| {
            let fixed = [("start_time", "1795392000"), ("path", "\"/z\"")];
            let members = members.iter().map(|(keys, index, value)| (*index.get(keys), *value));
            let mut members: Vec<(&str, &str)> = members.collect();
            members.extend(fixed.iter().filter(|_| is_complete));
            line(&members)
        };
        prop_assert_eq!(outcome(&line(&members)), outcome(&line(&shuffled)));
    }
}
