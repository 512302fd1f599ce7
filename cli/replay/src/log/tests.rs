//! Formats line by line, hostile lines, and the order of requests.

mod json;
mod streams;

use super::field::shown;
use super::record::{Record, Slot, Slots};
use super::{Format, envoy};
use diana_limiter::time::Time;
use proptest::prelude::*;

const NOON: u64 = 1_795_392_000_000_000_000; // 2026-11-23T00:00:00Z

fn slots() -> Slots {
    let mut slots = Slots::default();
    for slot in [Slot::Method, Slot::Target, Slot::Host, Slot::Address] {
        slots.add(slot);
    }
    for header in ["x-user-id", "x-forwarded-for", "user-agent", "content-length"] {
        slots.add(Slot::Header(header.into()));
    }
    slots.add(Slot::Attribute("xds.route_name".into()));
    slots
}

fn value(record: &Record, slot: &Slot) -> Option<String> {
    let value = record.get(slots().find(slot)?)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

fn header(record: &Record, name: &str) -> Option<String> {
    value(record, &Slot::Header(name.into()))
}

fn read(format: &str, line: &str) -> Result<Record, String> {
    let mut record = Record::default();
    let mut format = Format::new(format, &slots())?;
    format.read(line.as_bytes(), &mut record).map_err(|why| why.into_owned())?;
    Ok(record)
}

fn request(record: &Record) -> [Option<String>; 4] {
    [Slot::Method, Slot::Target, Slot::Host, Slot::Address].map(|slot| value(record, &slot))
}

fn some(values: [&str; 4]) -> [Option<String>; 4] {
    values.map(|value| (value != "-").then(|| value.to_owned()))
}

const ENVOY: &str = "[2026-11-23T00:00:00.250Z] \"GET /orders?page=2 HTTP/1.1\" 200 - 17 512 42 41 \
    \"198.51.100.9, 203.0.113.7\" \"curl/8.5 \\\"quoted\" \"b3f1\" \"api.example.com\" \"10.0.0.3:8080\"";

#[test]
fn envoys_default_format_is_read() {
    let record = read("envoy", ENVOY).unwrap();
    assert_eq!(record.start, Time::from_ns(NOON + 250_000_000));
    assert_eq!((record.duration_ns, record.latency_ns), (Some(42_000_000), Some(41_000_000)));
    assert_eq!((record.status, record.received, record.sent), (Some(200), Some(17), Some(512)));
    assert_eq!(request(&record), some(["GET", "/orders?page=2", "api.example.com", "-"]));
    assert_eq!(header(&record, "x-forwarded-for").as_deref(), Some("198.51.100.9, 203.0.113.7"));
    assert_eq!(header(&record, "user-agent").as_deref(), Some("curl/8.5 \\\"quoted"));
    let refused = ENVOY.replace(" 200 - 17 512 42 41 ", " 0 DC 0 0 1 - ");
    assert_eq!(read("envoy", &refused).unwrap().status, None, "no response");
}

#[test]
fn istios_default_format_is_read() {
    let line = "[2026-11-23T00:00:00.250Z] \"POST /a HTTP/2\" 503 UF upstream_reset{x,y} - \"-\" 1 2 3 - \"-\" \"-\" \"-\" \"h\" \
        \"-\" - - 10.0.0.1:80 10.0.0.2:5 - default";
    let record = read("istio", line).unwrap();
    assert_eq!(request(&record), some(["POST", "/a", "h", "10.0.0.2:5"]));
    assert_eq!(value(&record, &Slot::Attribute("xds.route_name".into())).as_deref(), Some("default"));
}

#[test]
fn nginx_combined_is_read_and_unescaped() {
    let line = r#"203.0.113.7 - ann [23/Nov/2026:01:00:00 +0100] "GET /a?b=\x22c\x22 HTTP/1.1" 200 5 "-" "agent \x5C \xC3\xA9""#;
    let record = read("nginx", line).unwrap();
    assert_eq!(record.start, Time::from_ns(NOON));
    assert_eq!(request(&record), some(["GET", "/a?b=\"c\"", "-", "203.0.113.7"]));
    assert_eq!(header(&record, "user-agent").as_deref(), Some("agent \\ é"));
    assert_eq!((record.status, record.sent, record.duration_ns), (Some(200), Some(5), None));
}

#[test]
fn a_request_of_nginx_starts_before_its_end() {
    let format = "$msec $request_time $upstream_response_time $http_x_user_id ${host} $request";
    let record = read(format, "1795392001.500 1.250 0.100, 0.200 7 h GET / HTTP/1.0").unwrap();
    assert_eq!(record.start, Time::from_ns(NOON + 250_000_000));
    assert_eq!((record.duration_ns, record.latency_ns), (Some(1_250_000_000), Some(200_000_000)));
    assert_eq!(request(&record), some(["GET", "/", "h", "-"]));
    assert_eq!(header(&record, "x-user-id").as_deref(), Some("7"));
}

#[test]
fn command_operators_are_read() {
    let format = "%START_TIME(%s.%9f)% %REQ(:METHOD)% %REQ(:PATH)% %REQ(X-User-Id?X-Other):9% %% %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% %RESPONSE_CODE_DETAILS% %FILTER_STATE(wasm.diana.rule:PLAIN)%";
    let record = read(format, "1795392000.000000001 PUT /x 7 % ::1 via_upstream a b").unwrap();
    assert_eq!(record.start, Time::from_ns(NOON + 1));
    assert_eq!(request(&record), some(["PUT", "/x", "-", "::1"]));
    assert_eq!(header(&record, "x-user-id").as_deref(), Some("7"));
}

#[test]
fn json_lines_of_several_programs_are_read() {
    for line in [
        r#"{"start_time":"2026-11-23T00:00:00.250Z","method":"GET","path":"/a","authority":"h","downstream_remote_address":"192.0.2.1:5","duration":42,"response_code":200,"x_user_id":"7","bytes_sent":"9","user_agent":null,"other":{"a":[1]}}"#,
        r#"{":authority":"h","x-envoy-origin-path":"/a","x-user-id":"7","start_time":1795392000.250,"method":"GET","downstream_remote_address":"192.0.2.1:5","duration":"42","response_code":"200","bytes_sent":9,"user-agent":"-"}"#,
        r#"{"msec":"1795392000.292","request_time":"0.042","request":"GET \/a HTTP/1.1","http_host":"h","remote_addr":"192.0.2.1:5","status":"200","http_x_user_id":"7","body_bytes_sent":"9"}"#,
        r#"{"@timestamp":1795392000250,"request_method":"GET","request_uri":"/a","host":"h","client_ip":"192.0.2.1:5","duration_ms":42.0,"status":200,"x.user.id":7,"bytes_sent":9}"#,
    ] {
        let record = read("json", line).unwrap();
        assert_eq!(record.start, Time::from_ns(NOON + 250_000_000), "{line}");
        assert_eq!(request(&record), some(["GET", "/a", "h", "192.0.2.1:5"]), "{line}");
        assert_eq!((record.duration_ns, record.status), (Some(42_000_000), Some(200)), "{line}");
        assert_eq!(header(&record, "x-user-id").as_deref(), Some("7"), "{line}");
        assert_eq!((header(&record, "user-agent"), record.sent), (None, Some(9)), "{line}");
    }
}

#[test]
fn a_line_that_cannot_be_read_says_why() {
    for (format, line, why) in [
        ("envoy", "", "the line does not begin as the format does"),
        ("envoy", "[2026] nonsense", "the line does not match the format"),
        ("envoy", &*ENVOY.replace("2026-11-23", "2026-99-23"), "the time cannot be read"),
        ("envoy", &*ENVOY.replace("/orders?page=2", "-"), "the line has no path"),
        ("envoy", &*ENVOY.replace(" 42 41 ", " 42 "), "the line does not match the format"),
        ("json", "{\"path\": \"/\"}", "the line has no time"),
        ("json", "[1]", "invalid type: sequence, expected a JSON object"),
        ("json", "{\"path\": ", "the line is not a JSON object"),
        ("json", "{\"path\": \"/\", \"time\": \"noon\"}", "the time cannot be read"),
        ("json", "{\"path\": \"/\", \"msec\": -1}", "the time cannot be read"),
        ("json", "{\"start_time\": 1795392000} x", "the line is not a JSON object"),
    ] {
        assert_eq!(read(format, line).unwrap_err(), why, "{line}");
    }
}

#[test]
fn a_format_that_cannot_be_read_says_why() {
    for (format, why) in [
        (
            "apache",
            "unknown format `apache`, expected envoy, istio, nginx, json, Envoy's command operators such as `%START_TIME%`, or nginx's variables such as `$remote_addr`",
        ),
        (
            "%REQ(:PATH)%",
            "the format has no time: expected `%START_TIME%`, `$msec`, `$time_iso8601` or `$time_local`",
        ),
        (
            "%START_TIME% %REQ(:METHOD)%",
            "the format has no path: expected `%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%`, `$request_uri` or `$request`",
        ),
        (
            "$status",
            "the format has no time: expected `%START_TIME%`, `$msec`, `$time_iso8601` or `$time_local`; it has no path: expected `%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%`, `$request_uri` or `$request`",
        ),
        ("%START_TIME%%REQ(:PATH)%", "two fields need text between them"),
        (
            "%START_TIME% 5%",
            "`%` is not a command operator such as `%REQ(X-USER-ID)%`; a percent sign is `%%`",
        ),
        ("$time_local $", "a `$` is not followed by the name of a variable"),
        ("${time_local", "a `${` has no `}`"),
    ] {
        assert_eq!(Format::new(format, &slots()).unwrap_err(), why, "{format}");
    }
}

#[test]
fn a_line_full_of_the_patterns_own_text_ends() {
    let hostile = ENVOY.replace("curl", &"\" \"".repeat(5_000));
    // Either reading is fine, as long as the line ends within the tries.
    let _ = read("envoy", &format!("{hostile}x"));
}

#[test]
fn the_format_is_detected() {
    let nginx = r#"203.0.113.7 - - [23/Nov/2026:01:00:00 +0100] "GET / HTTP/1.1" 200 5 "-" "-""#;
    let json = r#"{"start_time": 1795392000, "path": "/"}"#;
    for (line, name) in [(ENVOY, Some("envoy")), (nginx, Some("nginx")), (json, Some("json")), ("x", None)] {
        let lines = ["garbage", line].map(str::as_bytes);
        let format = Format::detect(lines.into_iter(), &slots());
        assert_eq!(format.map(|format| format.name).as_deref(), name);
    }
    assert!(envoy::ISTIO.starts_with("[%START_TIME%]"));
}

#[test]
fn numbers_that_cannot_be_read_are_absent() {
    let line = ENVOY.replace(" 200 - 17 512 42 41 ", " 2x0 - 1e9 - -1 none ");
    let record = read("envoy", &line).unwrap();
    assert_eq!(request(&record), some(["GET", "/orders?page=2", "api.example.com", "-"]));
    assert_eq!((record.status, record.received, record.sent), (None, None, None));
    assert_eq!((record.duration_ns, record.latency_ns), (None, None));
}

#[test]
fn bytes_that_are_not_utf_8_are_read() {
    let format = "%START_TIME(%s)% %REQ(X-USER-ID)% %REQ(:PATH)%";
    let mut record = Record::default();
    let mut format = Format::new(format, &slots()).unwrap();
    format.read(b"1795392000 J\xe9 /a\xff", &mut record).unwrap();
    assert_eq!(record.get(slots().find(&Slot::Target).unwrap()), Some(&b"/a\xff"[..]));
}

#[test]
fn a_time_may_contain_the_text_behind_it() {
    let at = Time::from_ns(NOON + 5_000_000_000);
    for (format, line) in [
        ("$time_local $remote_addr $request_uri", "23/Nov/2026:01:00:05 +0100 192.0.2.1:5 /a"),
        ("$remote_addr $request_uri $time_local", "192.0.2.1:5 /a 23/Nov/2026:01:00:05 +0100"),
        (
            "%START_TIME(%Y-%m-%d %H:%M:%S)% %DOWNSTREAM_REMOTE_ADDRESS% %PATH%",
            "2026-11-23 00:00:05 192.0.2.1:5 /a",
        ),
        (
            "%START_TIME(%b %e %T %Y)% %DOWNSTREAM_REMOTE_ADDRESS% %PATH%",
            "Nov 23 00:00:05 2026 192.0.2.1:5 /a",
        ),
        ("%START_TIME%.%DOWNSTREAM_REMOTE_ADDRESS% %PATH%", "2026-11-23T00:00:05.000Z.192.0.2.1:5 /a"),
    ] {
        let record = read(format, line).unwrap();
        assert_eq!((record.start, request(&record)), (at, some(["-", "/a", "-", "192.0.2.1:5"])), "{format}");
    }
    assert!(read("$time_local $request_uri", "23/Nov/2026:01:00:05 /a").is_err(), "a part of a time");
}

/// The records of a line with two fields of one meaning, in both orders, after a third field.
fn in_both_orders(first: [&str; 2], fields: [&str; 2], values: [&str; 2]) -> [Record; 2] {
    [[0, 1], [1, 0]].map(|[one, other]| {
        let format = format!("{};{};{}", first[0], fields[one], fields[other]);
        read(&format, &format!("{};{};{}", first[1], values[one], values[other])).unwrap()
    })
}

#[test]
fn the_best_of_several_fields_counts_wherever_it_is() {
    let (envoy, nginx) = (["%START_TIME%", "1795392000"], ["$msec", "1795392000"]);
    for (first, fields, values, path) in [
        (envoy, ["%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%", "%REQ(:PATH)%"], ["/b", "/a"], "/b"),
        (envoy, ["%REQ(X-ENVOY-ORIGINAL-PATH)%", "%REQ(:PATH)%"], ["/b", "/a"], "/b"),
        (envoy, ["%REQ(X-ENVOY-ORIGINAL-PATH)%", "%REQ(:PATH)%"], ["-", "/a"], "/a"),
        (envoy, ["%PATH%", "%PATH(NQ:PATH)%"], ["/b", "/a"], "/b"),
        (nginx, ["$request_uri", "$request"], ["/b", "GET /a HTTP/1.1"], "/b"),
    ] {
        for record in in_both_orders(first, fields, values) {
            assert_eq!(value(&record, &Slot::Target).as_deref(), Some(path), "{fields:?}");
        }
    }
    let (envoy, nginx) = (["%REQ(:PATH)%", "/"], ["$request_uri", "/"]);
    for (first, fields, values) in [
        (envoy, ["%START_TIME(%s.%3f)%", "%START_TIME(%s)%"], ["1795392000.250", "1795392000"]),
        (nginx, ["$msec", "$time_iso8601"], ["1795392000.250", "2026-11-23T00:00:00+00:00"]),
    ] {
        for record in in_both_orders(first, fields, values) {
            assert_eq!(record.start, Time::from_ns(NOON + 250_000_000), "{fields:?}");
        }
    }
    let user = ["%REQ(X-USER-ID)%", "%REQ(X-USER-ID?X-OTHER)%"];
    for record in in_both_orders(["%START_TIME% %PATH%", "1795392000 /"], user, ["8", "7"]) {
        assert_eq!(header(&record, "x-user-id").as_deref(), Some("8"));
    }
}

#[test]
fn lines_are_shown_as_they_are() {
    assert_eq!(shown(r#"{"path": "/\u0061"}"#.as_bytes()), r#"{"path": "/\u0061"}"#);
    assert_eq!(shown("\u{1b}[2J\u{202e}é\u{200b}\t'".as_bytes()), "\\u{1b}[2J\\u{202e}é\\u{200b}\\u{9}'");
    assert_eq!(shown(b"\xff"), "\u{fffd}");
    assert_eq!(shown("é".repeat(101).as_bytes()), "é".repeat(100) + "…");
}

proptest! {
    #[test]
    fn no_line_panics(line: Vec<u8>, shaped in "[\\[\\]\"{}:,0-9A-Za-z/ .%$-]{0,120}") {
        for format in ["envoy", "istio", "nginx", "json", "$msec $request", "%START_TIME(%s)% %PATH%"] {
            for line in [&line[..], shaped.as_bytes()] {
                let mut record = Record::default();
                let _ = Format::new(format, &slots()).unwrap().read(line, &mut record);
            }
        }
    }

    #[test]
    fn no_format_panics(format in "[%$(){}:?A-Z_a-z0-9 ]{0,60}") {
        let _ = Format::new(&format, &slots());
    }

    #[test]
    fn every_value_that_envoy_writes_comes_back(
        target in "/[!-~]{0,30}", agent in "[ -!#-~]{1,30}", user in "[!-~]{1,20}", ns in 0u64..1 << 60,
    ) {
        prop_assume!(agent != "-" && user != "-" && target != "-");
        let format = "%START_TIME(%s%9f)% \"%REQ(USER-AGENT)%\" %REQ(X-USER-ID)% %REQ(:PATH)%";
        let record = read(format, &format!("{ns} \"{agent}\" {user} {target}")).unwrap();
        prop_assert_eq!(record.start, Time::from_ns(ns));
        prop_assert_eq!(header(&record, "user-agent"), Some(agent));
        prop_assert_eq!(header(&record, "x-user-id"), Some(user));
        prop_assert_eq!(value(&record, &Slot::Target), Some(target));
    }
}
