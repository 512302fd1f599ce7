//! What requests cost whose streams end in different ways.

use super::flow::{self, Line, on_stream};
use super::world::{Stream, with};
use super::{check, end_stream, hooks, lifetimes};
use diana_envoy_module::abi::body;

/// A run with these rules, one limit for all requests.
fn run(limits: &str, play: impl FnOnce()) {
    super::load();
    super::run(|| {
        let document = format!(r#"{{"headers": "ietf", "limits": [{limits}]}}"#);
        assert!(lifetimes::add_config("one", document.as_bytes()));
        play();
        check("the run");
    });
}

fn owned(lines: &[(&str, &str)]) -> Vec<Line> {
    lines.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// A request with these lines. `ends`: whether it ends with its headers.
fn request(method: &str, lines: &[(&str, &str)], ends: bool) -> usize {
    let config = with(|world| *world.configs.keys().next().unwrap());
    let pseudo = [(":method", method), (":path", "/"), (":authority", "a"), ("x-address", "192.0.2.1:1")];
    let request = owned(&[&pseudo, lines].concat());
    let stream = flow::begin(Stream { config, request, ..Stream::default() });
    flow::request_headers(stream, ends);
    stream
}

/// How a response ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    WithHeaders,
    WithBody,
    WithTrailers,
    /// The client leaves.
    Never,
}

/// Ends a stream after a response.
fn respond(stream: usize, lines: &[(&str, &str)], body: &[u8], ends: Ends) {
    with(|world| {
        let stream = world.streams.get_mut(&stream).unwrap();
        (stream.has_response, stream.response) = (true, owned(lines));
    });
    let is_whole = ends == Ends::WithHeaders;
    // SAFETY: the stream lives.
    on_stream(stream, |pointer, entry| unsafe { hooks::response_headers(pointer, entry, is_whole) });
    if !is_whole {
        let change = |chunk| with(|world| world.streams.get_mut(&stream).unwrap().chunk = chunk);
        change(Some((body::RECEIVED_RESPONSE, vec![body.to_vec()])));
        // SAFETY: the stream lives.
        on_stream(stream, |pointer, entry| unsafe {
            hooks::response_body(pointer, entry, ends == Ends::WithBody)
        });
        change(None);
    }
    if ends == Ends::WithTrailers {
        // SAFETY: the stream lives.
        on_stream(stream, |pointer, entry| unsafe { hooks::response_trailers(pointer, entry) });
    }
    end_stream(stream, true);
}

/// How much of the rule `r` is left, as another request sees it. The request is left open.
fn left() -> u64 {
    let stream = request("GET", &[], true);
    let status = owned(&[(":status", "200")]);
    flow::respond(stream, status, &[], usize::MAX);
    let header = with(|world| {
        let response = &world.streams[&stream].response;
        let line = response.iter().find(|(name, _)| name == b"ratelimit").map(|(_, value)| value.clone());
        String::from_utf8(line.unwrap()).unwrap()
    });
    end_stream(stream, true);
    header.split("\"r\";r=").nth(1).unwrap().split([';', ',']).next().unwrap().parse().unwrap()
}

#[test]
fn a_number_is_known_at_the_end_of_the_response() {
    let limit = |more: &str| {
        format!(
            r#"{{"url": "/", "rules": [{{"name": "r", "actor": "ip", "algo": "W", "rpu": 1000, "unit": "7d",
                "cost": {{"response_json": "/n", "estimate": 50, "default": 7{more}}}}}]}}"#
        )
    };
    let json = [(":status", "200"), ("content-type", "application/json")];
    let events = [(":status", "200"), ("content-type", "text/event-stream")];
    let gzip = [&json[..], &[("content-encoding", "gzip")]].concat();
    let grpc =
        |code| [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", code)].to_vec();
    let is_timeout = |lines: &[(&str, &str)]| {
        let timeouts = [
            (":status", "408"),
            (":status", "504"),
            ("grpc-status", "2"),
            ("grpc-status", "4"),
            ("grpc-status", "14"),
        ];
        lines.iter().any(|line| timeouts.contains(line))
    };
    for (lines, body, ends, cost) in [
        (&events[..], &b"data: {\"n\": 20}\n\n"[..], Ends::WithBody, 20),
        (&events, b"data: {\"n\": 20}\n\n", Ends::WithTrailers, 20),
        (&events, b"data: {\"n\": 20}\n\n", Ends::Never, 50),
        (&events, b"data: {\"n\": 90}\n\n", Ends::Never, 90),
        (&events, b"data: [DONE]\n\n", Ends::WithTrailers, 7),
        // As after `HEAD`.
        (&events, b"", Ends::WithHeaders, 50),
        (&json, b"{\"n\": 20}", Ends::Never, 20),
        (&json, b"{\"n\": 2", Ends::Never, 50),
        (&json, b"{}", Ends::WithBody, 7),
        (&json, b"{}", Ends::WithTrailers, 7),
        (&json, b"{}", Ends::Never, 50),
        (&json, b"", Ends::WithHeaders, 50),
        (&gzip, b"{}", Ends::WithBody, 50),
        (&[(":status", "204")], b"", Ends::WithHeaders, 7),
        (&[(":status", "503"), ("content-type", "text/plain")], b"no", Ends::WithBody, 7),
        // A client may have chosen the timeout.
        (&[(":status", "504"), ("content-type", "text/plain")], b"no", Ends::WithBody, 50),
        (&[(":status", "408")], b"", Ends::WithHeaders, 50),
        (&grpc("2"), b"", Ends::WithHeaders, 50),
        (&grpc("4"), b"", Ends::WithHeaders, 50),
        (&grpc("14"), b"", Ends::WithHeaders, 50),
        (&grpc("7"), b"", Ends::WithHeaders, 7),
    ] {
        let in_header = limit("").replace("response_json", "response_header").replace("/n", "x-n");
        for (limit, cost) in [(limit(""), cost), (in_header, if is_timeout(lines) { 50 } else { 7 })] {
            run(&limit, || {
                respond(request("POST", &[], true), lines, body, ends);
                // The one that looks has a response without a number.
                assert_eq!(left(), 1_000 - cost - 50, "{lines:?} {} {ends:?}", String::from_utf8_lossy(body));
            });
        }
    }
    run(&limit(r#", "max": 60"#), || {
        // The client leaves before the response.
        end_stream(request("POST", &[], true), true);
        assert_eq!(left(), 1_000 - 50 - 50);
    });
}

#[test]
fn a_body_costs_what_came_of_it() {
    let rule =
        r#"{"name": "r", "actor": "ip", "algo": "W", "rpu": 100000, "unit": "7d", "cost": "request_bytes"}"#;
    let limit = format!(r#"{{"url": "/", "rules": [{rule}]}}"#);
    let upgrade = [("upgrade", "websocket"), ("content-length", "0")];
    for (method, lines, came) in [
        ("POST", &[("content-length", "99000")][..], 60),
        ("POST", &[("content-length", "99000")], 0),
        ("POST", &[("content-length", "60")], 60),
        ("POST", &[], 900),
        ("GET", &upgrade, 900),
        ("CONNECT", &[("content-length", "0")], 900),
    ] {
        for responds in [false, true] {
            run(&limit, || {
                let stream = request(method, lines, false);
                let sizes = [came / 3, came - came / 3];
                sizes.iter().filter(|size| **size > 0).for_each(|size| {
                    flow::request_more(stream, vec![vec![b'x'; *size]], false);
                });
                if responds {
                    flow::respond(stream, owned(&[(":status", "403")]), &[], usize::MAX);
                }
                end_stream(stream, responds);
                assert_eq!(left(), 100_000 - came as u64, "{method} {lines:?}");
            });
        }
    }
}

#[test]
fn a_tunnel_may_be_large() {
    let large = r#"{"url": "/", "body_size": {"min": "1M"}, "rules": [{"rpu": 0, "unit": "day"}]}"#;
    run(large, || {
        for (method, lines, is_refused) in [
            ("POST", &[("content-length", "0")][..], false),
            ("POST", &[("content-length", "999")], false),
            ("POST", &[], true),
            ("GET", &[("content-length", "0"), ("upgrade", "websocket")], true),
            ("GET", &[("content-length", "999"), ("upgrade", "websocket")], true),
            ("CONNECT", &[("content-length", "0")], true),
        ] {
            let stream = request(method, lines, false);
            let is_answered = with(|world| world.streams[&stream].is_answered);
            assert_eq!(is_answered, is_refused, "{method} {lines:?}");
            end_stream(stream, true);
        }
    });
}
