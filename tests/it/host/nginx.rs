//! What the filter avoids under nginx' rules, because nginx would crash or fail the request.

use super::faults::FaultKind;
use super::gateway::{Fate, Gateway};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;
use serde_json::json;

const MANY: &str = r#"{"limits": [{"url": "/", "rules": [{"name": "many", "rpu": 100000, "unit": "day"}]}]}"#;

/// The quota that is left of the only rule, read from a response.
fn left(gateway: &Gateway, request: usize) -> u64 {
    let records = gateway.world.records.borrow();
    let (_, line) = records[request].headers.iter().find(|(name, _)| name == "ratelimit").unwrap();
    line.split(';').find_map(|word| word.strip_prefix("r=")).unwrap().parse().unwrap()
}

/// There are no reservations: they are refunded by a timer, which must not be set for a stream.
#[test]
fn a_busy_actor_is_charged_request_by_request() {
    let gateway = Gateway::start(CasSemantics::Strict, 2, MANY);
    for turn in 0..500 {
        let request = gateway.request(turn / 50, "/", "ann");
        gateway.end_all();
        assert_eq!(left(&gateway, request), 99_999 - turn as u64);
        gateway.pass(1);
    }
    gateway.no_crash();
    assert!(gateway.vms.iter().all(|vm| vm.next_tick().is_none()), "a timer is set");
    // Envoy behaves differently; otherwise this test would show nothing.
    let envoy = Gateway::start(CasSemantics::Lenient, 2, MANY);
    (0..500).for_each(|_| _ = envoy.request(0, "/", "ann"));
    assert!(envoy.vms[0].next_tick().is_some());
    // Idle reservations are refunded.
    envoy.end_all();
    envoy.pass(300);
    assert_eq!(envoy.vms[0].next_tick(), None);
    let request = envoy.request(1, "/", "ann");
    envoy.end_all();
    assert_eq!(left(&envoy, request), 99_999 - 500);
}

/// A tick that no timer was set for does nothing, even under a configuration that would hold
/// requests.
#[test]
fn the_filter_needs_and_sets_no_timer() {
    let gateway = Gateway::start(CasSemantics::Strict, 2, super::play::CONFIGURATION);
    for path in super::play::PATHS {
        for turn in 0..20 {
            let request = gateway.request(turn, path, "ann");
            assert_ne!(gateway.fate(request), Fate::Paused, "{path}");
        }
        for vm in &gateway.vms {
            assert_eq!(vm.next_tick(), None);
            vm.tick(vm.newest_root().unwrap());
        }
    }
    gateway.end_all();
    assert_eq!(gateway.kept_streams(), 0);
    gateway.no_crash();
}

/// Keys are distinguished by their checksum alone: a foreign value under the same checksum counts
/// as not written.
#[test]
fn a_value_of_another_filter_under_the_same_checksum_is_ignored() {
    let json = r#"{"limits": [{"url": "/", "rules": [{"rpu": 1, "unit": "day"}]}]}"#;
    let gateway = Gateway::start(CasSemantics::Strict, 1, json);
    let ask = || {
        let request = gateway.request(0, "/", "ann");
        gateway.fate(request)
    };
    assert_eq!((ask(), ask()), (Fate::Upstream, Fate::Answered(429)));
    let changes: [fn(&mut Vec<u8>); 4] = [
        // An empty value.
        Vec::clear,
        |bytes| *bytes = vec![0xa5; 7],
        |bytes| bytes.push(0),
        // A value of the same size and form, as of another table.
        |bytes| bytes.last_mut().into_iter().for_each(|byte| *byte ^= 1),
    ];
    for (times, change) in (0..).zip(changes) {
        gateway.world.overwrite(change);
        gateway.pass(200);
        assert_eq!((ask(), ask()), (Fate::Upstream, Fate::Answered(429)));
        assert_eq!(gateway.counter("diana.foreign_values"), times);
    }
    gateway.no_crash();
}

/// `/health` and `/ab` are free; all other paths are limited to one request a day.
fn health(actor: &str) -> String {
    let rule = json!({"actor": actor, "rpu": 1, "unit": "day"});
    let free = |url: &str| json!({"url": url, "exclusive": true});
    json!({"limits": [free("=/health"), free("=/ab"), {"url": "/", "rules": [rule]}]}).to_string()
}

/// nginx decodes `:path`. An escaped character neither ends a path nor is decoded a second time,
/// and a separator for nginx alone frees nothing.
#[test]
fn a_path_is_read_as_sent() {
    let free = ["/health", "/health?x", "/health?%3F", "/%68ealth?x?y", "/ab", "http://a/health?x"];
    let counted = [
        "/health%3Fx",
        "/health%3fx?y",
        "/health%3F?x",
        "/health%23x",
        "/health%253Fx",
        "/a%2562",
        "/a/..%2fhealth",
    ];
    // A rule on a header reads all headers at once; otherwise the path is read alone.
    for actor in ["user", "all"] {
        for path in free.iter().chain(&counted) {
            let gateway = Gateway::start(CasSemantics::Strict, 1, &health(actor));
            let fates: Vec<Fate> = (0..2).map(|_| gateway.fate(gateway.request(0, path, "ann"))).collect();
            let second = if free.contains(path) { Fate::Upstream } else { Fate::Answered(429) };
            assert_eq!(fates, [Fate::Upstream, second], "{path} by {actor}");
            gateway.no_crash();
        }
    }
}

#[test]
fn if_the_sent_path_cannot_be_read_the_decoded_path_counts() {
    let gateway = Gateway::start(CasSemantics::Strict, 1, &health("all"));
    gateway.fail(FaultKind::Properties);
    let ask = |path: &str| gateway.fate(gateway.request(0, path, "ann"));
    assert_eq!((ask("/health"), ask("/health?x")), (Fate::Upstream, Fate::Upstream));
    assert_eq!((ask("/x"), ask("/x")), (Fate::Upstream, Fate::Answered(429)));
    // This shows why `:path` is used only without a better source.
    assert_eq!(ask("/health%3Fx"), Fate::Upstream);
    gateway.no_crash();
}

/// A refusal to a gRPC client is one frame of headers that has the status, in both hosts.
#[test]
fn a_grpc_client_gets_its_status() {
    let json = r#"{"limits": [{"url": "/", "rules": [{"name": "all", "rpu": 0, "unit": "day"}]}]}"#;
    for rules in [CasSemantics::Strict, CasSemantics::Lenient] {
        let gateway = Gateway::start(rules, 1, json);
        let ask = |content_type: &str| {
            let parts = [
                (Part::Method, "POST"),
                (Part::Path, "/"),
                (Part::Address, "10.0.0.1:0"),
                (Part::Header("content-type".into()), content_type),
            ];
            let request = gateway.vms[0].ask(parts.map(|(part, line)| (part, line.into())).into());
            let header = |name: &str| {
                let records = gateway.world.records.borrow();
                let found = records[request].headers.iter().find(|(known, _)| known == name);
                found.map(|(_, value)| value.clone()).unwrap_or_default()
            };
            let headers_found = ["content-type", "grpc-status", "grpc-message"].map(header);
            let (_, body) = gateway.world.sent.borrow().last().unwrap().clone();
            (gateway.fate(request), headers_found, body)
        };
        let (fate, headers_found, body) = ask("application/grpc+proto");
        assert_eq!((fate, &*body), (Fate::Answered(200), ""));
        assert_eq!(headers_found, ["application/grpc", "8", "diana_refused:all"]);
        let (fate, headers_found, body) = ask("application/json");
        assert_eq!(
            (fate, headers_found),
            (Fate::Answered(429), ["application/problem+json", "", ""].map(String::from))
        );
        assert_eq!(
            body.ends_with("}\n\n"),
            rules == CasSemantics::Strict,
            "nginx adds a line feed: {body:?}"
        );
        gateway.no_crash();
    }
}

/// Its timer can be set once, and calls are answered to streams only.
#[test]
fn documents_of_a_server_are_refused() {
    let remote = r#"{"limits": [], "remote": {"cluster": "config", "path": "/diana.json"}}"#;
    let configure = |rules| {
        let gateway = Gateway::start(rules, 1, r#"{"limits": []}"#);
        (gateway.configure(remote), gateway.world.logged("remote: this host's timer cannot be set"))
    };
    assert_eq!(configure(CasSemantics::Strict), (false, 1));
    assert_eq!(configure(CasSemantics::Lenient), (true, 0));
}
