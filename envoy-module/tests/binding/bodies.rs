//! Numbers of response bodies, which Envoy lends in slices.

use crate::envoy::world::{Stream, Thread, with};
use crate::envoy::{self, check, flow, lifetimes};

const BUDGET: u64 = 1_000_000;
const TOKENS: u64 = 1_000;

/// A rule whose cost is at the end of the body.
const DOCUMENT: &str = r#"{"headers": "ietf", "limits": [{"url": "/", "rules": [
    {"name": "tokens", "algo": "W", "rpu": "1M", "unit": "7d", "cost": {"response_json": "/n", "default": 1, "max": "1k"}}
]}]}"#;

/// A body of about this many bytes with the number at its end.
fn body(kind: &str, bytes: usize) -> String {
    match kind {
        "application/json" => format!(r#"{{"text": "{}", "n": {TOKENS}}}"#, "x".repeat(bytes)),
        _ => format!("{}data: {{\"n\": {TOKENS}}}\n\n", "data: {\"word\": \"abc\"}\n\n".repeat(bytes / 23)),
    }
}

/// What is left, as the response to a request shows it. The response has this body in one event.
fn left(kind: &str, body: &[u8], slice: usize) -> u64 {
    let own = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    let config = with(|world| *world.configs.keys().next().unwrap());
    let request = [(":method", "GET"), (":path", "/"), (":authority", "a"), ("x-address", "192.0.2.1:1")];
    let request = request.map(|(name, value)| own(name, value)).to_vec();
    let stream = flow::begin(Stream { config, request, thread: Thread::Worker(0), ..Stream::default() });
    flow::request_headers(stream, true);
    flow::respond(stream, vec![own(":status", "200"), own("content-type", kind)], &[body], slice);
    let header = |world: &mut envoy::world::World| {
        let headers = &world.streams[&stream].response;
        headers.iter().find(|(name, _)| name == b"ratelimit").map(|(_, value)| value.clone())
    };
    let header = String::from_utf8(with(header).unwrap()).unwrap();
    flow::end(stream, true);
    check("a request");
    let rest = header.split(";r=").nth(1).unwrap();
    rest.split([';', ',']).next().unwrap().parse().unwrap()
}

#[test]
fn a_number_at_the_end_of_a_long_event_is_charged() {
    envoy::load();
    envoy::run(|| {
        assert!(lifetimes::add_config("bodies", DOCUMENT.as_bytes()));
        let mut requests = 0;
        for kind in ["application/json", "text/event-stream"] {
            for slice in [16 << 10, 64 << 10, 1, 1_000, 4_097, 30_011] {
                for bytes in [0, 65_520, 65_536, 200_000, 700_000] {
                    let left = left(kind, body(kind, bytes).as_bytes(), slice);
                    assert_eq!(left, BUDGET - requests * TOKENS, "before {kind} of {bytes} in {slice}");
                    requests += 1;
                }
            }
        }
        let free = left("application/json", b"{\"n\": 0}", 5);
        assert_eq!(free, BUDGET - requests * TOKENS);
    });
}
