//! Limits that move: what the filter measures, and what its gauge shows.

use super::callouts::Clusters;
use super::gateway::{Fate, Gateway};
use diana::Exports;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;

/// The rule `backend`, which adapts every second, beside other rules.
fn rules(rpu: u32, target: &str, others: &str) -> String {
    format!(
        r#"{{"url": "/", "rules": [{others} {{"name": "backend", "algo": "C", "rpu": {rpu},
            "adapt": {{"signal": "latency_p90", "target": "{target}", "min": 10, "max": 40, "every": "1s"}}}}]}}"#
    )
}

/// The limit that the metric shows.
fn limit(gateway: &Gateway) -> i64 {
    gateway.counter("diana.rule.backend.limit")
}

/// A gateway at the begin of an interval.
fn start(workers: usize, rules: &str) -> Gateway {
    let gateway = Gateway::start(CasSemantics::Lenient, workers, rules);
    gateway.pass(1_000 - gateway.world.clock.get() / 1_000_000 % 1_000);
    gateway
}

/// Half of an interval, in which 20 requests are served.
fn slow_requests(gateway: &Gateway) {
    (0..20).for_each(|_| _ = gateway.request(0, "/", "ann"));
    gateway.pass(500);
    gateway.end_all();
}

#[test]
fn the_gauge_shows_the_limit_also_after_a_worker_is_configured_later() {
    let gateway = start(2, &rules(20, "100ms", ""));
    let one_interval = || {
        slow_requests(&gateway);
        gateway.pass(500);
    };
    assert_eq!(limit(&gateway), 20);
    (0..2).for_each(|_| one_interval());
    assert_eq!(limit(&gateway), 10);
    assert!(gateway.vms[1].configure(), "this worker does not know the limit yet");
    (0..2).for_each(|_| one_interval());
    assert_eq!(limit(&gateway), 10);
    gateway.no_crash();
}

#[test]
fn a_replaced_configuration_does_not_show_its_limit() {
    let gateway = start(1, &rules(20, "100ms", ""));
    slow_requests(&gateway);
    // The interval ends before a timer fires.
    gateway.world.clock.set(gateway.world.clock.get() + 1_000_000_000);
    gateway.world.configuration.replace(rules(30, "100ms", ""));
    assert!(gateway.vms[0].configure_again());
    assert_eq!(limit(&gateway), 30);
    gateway.no_crash();
}

/// Otherwise the upstream would seem to have stopped.
#[test]
fn responses_to_requests_of_a_replaced_configuration_are_measured() {
    let gateway = start(1, &rules(20, "800ms", ""));
    (0..20).for_each(|_| _ = gateway.request(0, "/", "ann"));
    let other = r#"{"name": "day", "algo": "W", "rpu": 1000, "unit": "day"},"#;
    gateway.world.configuration.replace(rules(20, "800ms", other));
    assert!(gateway.vms[0].configure_again());
    gateway.pass(500);
    gateway.end_all();
    gateway.pass(500);
    gateway.request(0, "/", "ann");
    assert_eq!(limit(&gateway), 20);
    gateway.no_crash();
}

#[test]
fn a_wait_in_the_filter_is_no_latency() {
    let queue = r#"{"name": "queue", "algo": "LB", "rpu": 20, "unit": "second", "queue": 50},"#;
    let gateway = start(1, &rules(20, "200ms", queue));
    let requests: Vec<usize> = (0..10).map(|_| gateway.request(0, "/", "ann")).collect();
    for _ in 0..10 {
        gateway.pass(50);
        let arrived = requests.iter().filter(|request| gateway.fate(**request) == Fate::Upstream);
        arrived.for_each(|request| gateway.vms[0].serve_request(*request));
    }
    gateway.pass(500);
    gateway.request(0, "/", "ann");
    assert_eq!(limit(&gateway), 20, "not above the target");
    gateway.no_crash();
}

/// A rate of 200 a second, which follows this signal.
fn rate(signal: &str) -> String {
    format!(
        r#"{{"url": "/", "rules": [{{"name": "backend", "rpu": 200, "unit": "second",
            "adapt": {{"signal": {signal}, "min": 10, "max": 200, "every": "1s"}}}}]}}"#
    )
}

const LATENCY: &str = r#""latency_p90", "target": "250ms""#;
const ERRORS: &str = r#""errors", "target": "5%""#;

/// What happens to a stream, and how many ms after its beginning.
#[derive(Clone, Copy)]
enum Event {
    /// A part of the request's body arrives.
    Body(u64),
    /// The last part arrives.
    LastBody(u64),
    /// The trailers arrive.
    Trailers(u64),
    /// The headers of the response come, with this status.
    Response(u64, u32),
    /// The client leaves.
    Left(u64),
}
use Event::{Body, LastBody, Left, Response, Trailers};

/// Whether the limit falls if ten such requests a second begin for six seconds. None of them ends
/// by itself.
fn falls(gateway: &Gateway, method: &str, headers: &[(&str, &str)], events: &[Event]) -> bool {
    let named = |(name, value): &(&str, &str)| (Part::Header((*name).into()), value.as_bytes().to_vec());
    let parts: Vec<_> = [(Part::Method, method.into()), (Part::Path, b"/measured".to_vec())]
        .into_iter()
        .chain(headers.iter().map(named))
        .collect();
    let vm = &gateway.vms[0];
    let mut streams: Vec<(u64, u32)> = Vec::new();
    for now in (0..6_000).step_by(100) {
        let request = vm.ask(parts.clone());
        streams.push((now, vm.stream_of(request)));
        for (began, id) in &streams {
            for event in events {
                match *event {
                    Body(at) if began + at == now => vm.request_body(*id, 1),
                    LastBody(at) if began + at == now => vm.end_request(*id, 1),
                    Trailers(at) if began + at == now => vm.request_trailers(*id),
                    Response(at, status) if began + at == now => vm.respond(*id, status, &[]),
                    Left(at) if began + at == now => vm.reset(*id),
                    _ => {}
                }
            }
        }
        gateway.pass(100);
    }
    let falls = limit(gateway) < 200;
    gateway.end_all();
    assert_eq!(gateway.kept_streams(), 0);
    gateway.no_crash();
    falls
}

#[test]
fn a_latency_is_from_the_end_of_the_request_to_the_headers_of_the_response() {
    let falls = |signal: &str, method, headers: &[(&str, &str)], events: &[Event]| {
        falls(&start(1, &rate(signal)), method, headers, events)
    };
    let (none, upgrade): (&[(&str, &str)], &[_]) = (&[], &[("upgrade", "websocket")]);
    // Long responses.
    assert!(!falls(LATENCY, "GET", upgrade, &[Response(0, 101)]));
    assert!(falls(LATENCY, "GET", upgrade, &[Response(400, 101)]));
    assert!(!falls(LATENCY, "CONNECT", none, &[Response(0, 200)]));
    assert!(falls(LATENCY, "CONNECT", none, &[Response(400, 200)]));
    assert!(!falls(LATENCY, "POST", none, &[LastBody(0), Response(0, 200)]));
    assert!(falls(LATENCY, "POST", none, &[LastBody(0), Response(400, 200)]));
    // Slow uploads.
    let uploads = |end| [Body(400), Body(800), end, Response(1_600, 200)];
    for end in [LastBody(1_600), Trailers(1_600)] {
        assert!(!falls(LATENCY, "POST", none, &uploads(end)));
    }
    for end in [LastBody(1_200), Trailers(1_200)] {
        assert!(falls(LATENCY, "POST", none, &uploads(end)));
    }
    // Responses before the end of the request.
    assert!(!falls(LATENCY, "POST", none, &[Body(400), Response(800, 503)]));
    assert!(falls(ERRORS, "POST", none, &[Body(400), Response(800, 503)]));
    assert!(!falls(ERRORS, "POST", none, &[Body(400), Response(800, 200)]));
    // No response: while uploads last, or because the upstream has stopped.
    assert!(!falls(LATENCY, "POST", none, &[Body(400)]));
    assert!(falls(LATENCY, "POST", none, &[Body(400), LastBody(500)]));
    assert!(falls(LATENCY, "GET", upgrade, &[]));
    // Uploads that call themselves upgrades: Envoy withholds their bodies.
    for body in [("content-length", "8"), ("transfer-encoding", "chunked")] {
        let upload: &[_] = &[("upgrade", "websocket"), body];
        assert!(!falls(LATENCY, "POST", upload, &[]));
        assert!(!falls(LATENCY, "POST", upload, &[Left(400)]));
        assert!(!falls(LATENCY, "POST", upload, &[Response(800, 101)]));
    }
    assert!(falls(LATENCY, "POST", &[("upgrade", "websocket"), ("content-length", "0")], &[]));
    // A timeout of the gateway, and clients that give up before the upstream is late.
    assert!(falls(LATENCY, "POST", none, &[LastBody(0), Response(2_000, 504)]));
    assert!(!falls(LATENCY, "POST", none, &[LastBody(0), Left(200)]));
    // Clients that give up because the upstream is late, and in the middle of an upload.
    assert!(falls(LATENCY, "POST", none, &[LastBody(0), Left(300)]));
    assert!(!falls(ERRORS, "POST", none, &[LastBody(0), Left(300)]));
    assert!(!falls(LATENCY, "POST", none, &[Body(0), Left(400)]));
    // A long response that has begun in time.
    assert!(!falls(LATENCY, "POST", none, &[LastBody(0), Response(0, 200), Left(400)]));
}

/// The body of a request that waits for two seconds ends while the filter holds the request, or,
/// as it seems to a filter whose host reports it late, thereafter.
#[test]
fn a_wait_in_the_filter_is_no_latency_of_an_upload() {
    for reports_held in [false, true] {
        let falls = |signal: &str, events: &[Event]| {
            let measured = rate(signal).replace(r#""url": "/""#, r#""url": "/measured""#);
            let gateway = start(
                1,
                &format!(
                    r#"[{{"url": "/", "rules": [
                        {{"name": "queue", "algo": "LB", "rpu": 10, "unit": "second", "queue": 50}}]}},
                        {measured}]"#
                ),
            );
            gateway.world.reports_held.set(reports_held);
            (0..20).for_each(|_| _ = gateway.request(0, "/", "ann"));
            falls(&gateway, "POST", &[], events)
        };
        let at = |ms, status| [LastBody(500), Response(ms, status)];
        assert!(!falls(LATENCY, &at(2_100, 200)), "{reports_held}");
        assert!(falls(LATENCY, &at(2_500, 200)), "{reports_held}");
        assert!(falls(ERRORS, &at(2_100, 503)), "{reports_held}");
        // The host's own response to a request that the upstream never saw.
        let own = [LastBody(500), Response(1_000, 503), Left(1_000)];
        assert!(!falls(ERRORS, &own), "{reports_held}");
    }
}

/// Whether a gateway with these callbacks accepts a rule with this signal.
fn accepts(host: CasSemantics, callbacks: Exports, signal: &str, target: &str) -> bool {
    let rules = format!(
        r#"{{"limits": [{{"url": "/", "rules": [{{"name": "backend", "rpu": 20, "unit": "second",
            "adapt": {{"signal": "{signal}", "target": "{target}", "every": "1s"}}}}]}}], "headers": "off"}}"#
    );
    let gateway = Gateway::new(host, 1, callbacks, false);
    let is_accepted = gateway.configure(&rules);
    (0..60).for_each(|_| {
        gateway.request(0, "/", "ann");
        gateway.pass(100);
    });
    gateway.end_all();
    gateway.no_crash();
    is_accepted
}

#[test]
fn only_traffic_needs_no_responses() {
    let (lenient, strict) = (CasSemantics::Lenient, CasSemantics::Strict);
    for (signal, target, is_traffic) in
        [("traffic", "150%", true), ("errors", "5%", false), ("latency_p90", "1s", false)]
    {
        assert!(accepts(lenient, Exports::Useful, signal, target));
        assert_eq!(accepts(lenient, Exports::WithoutContexts, signal, target), is_traffic, "{signal}");
        assert_eq!(accepts(strict, Exports::All, signal, target), is_traffic, "{signal}");
    }
}

/// The limit moves at the end of the interval, although no other request comes.
#[test]
fn a_request_that_waits_for_a_store_counts_once() {
    let gateway = Gateway::among(Clusters::of(&["a"]), 1, false);
    let rules = r#"{"limits": [{"url": "/", "rules": [
            {"name": "all", "algo": "W", "rpu": 999, "unit": "day", "scope": "global"},
            {"name": "backend", "rpu": 20, "unit": "second",
             "adapt": {"signal": "traffic", "target": "200%", "min": 2, "max": 80, "every": "1s"}}]}],
        "store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}}}"#;
    assert!(gateway.configure(rules));
    gateway.pass(1_000 - gateway.world.clock.get() / 1_000_000 % 1_000);
    let requests: Vec<usize> = (0..12).map(|_| gateway.request(0, "/", "ann")).collect();
    assert!(requests.iter().all(|request| gateway.fate(*request) == Fate::Paused));
    gateway.pass(1_100);
    assert_eq!(limit(&gateway), 24);
    gateway.end_all();
    assert_eq!(gateway.kept_streams(), 0);
    gateway.no_crash();
}
