//! Limits that need parts of the request's body: the filter holds the headers, and reads the body.

use super::callouts::Clusters;
use super::gateway::{Fate, Gateway};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;

const RULES: &str = r#"{"request_body": {"wait": "2s", "max": 100},
    "actors": {"model": {"request_json": "/model"}},
    "store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}},
    "limits": [
        {"url": "/chat", "rules": [
            {"name": "model", "actor": "model", "missing": "share", "algo": "W", "rpu": 1, "unit": "7d"}]},
        {"url": "/cost", "rules": [
            {"name": "cost", "algo": "W", "rpu": 100, "unit": "7d",
             "cost": {"request_json": "/n", "default": 7, "min": 2, "max": 50}}]},
        {"url": "/tool", "request_json": {"/params/name": "search"}, "rules": [
            {"name": "search", "algo": "W", "rpu": 1, "unit": "7d"}]},
        {"url": "/turns", "request_json": {"/slow": true}, "rules": [
            {"name": "turns", "algo": "LB", "rpu": 1, "unit": "second", "queue": 9}]},
        {"url": "/global", "rules": [
            {"name": "global", "actor": "model", "rpu": 1, "unit": "day", "scope": "global"}]},
        {"url": "/get", "methods": "GET", "rules": [
            {"name": "get", "actor": "model", "rpu": 1, "unit": "day"}]},
        {"url": "/priced", "rules": [
            {"name": "priced", "algo": "W", "rpu": 1000, "unit": "7d", "cost": {
                "sum": [{"response_json": "/n"}], "estimate": 10,
                "by": {"request_json": "/model", "values": {"small": 0.5, "large": 3}, "default": 2}}}]},
        {"url": "/plain", "rules": [{"name": "plain", "rpu": 1000, "unit": "second"}]}]}"#;

fn gateway() -> Gateway {
    let gateway = Gateway::among(Clusters::of(&["a"]), 1, false);
    assert!(gateway.configure(RULES), "{:?}", gateway.world.log.borrow());
    gateway
}

const JSON: (&str, &str) = ("content-type", "application/json");

/// Sends the headers of a `POST` with a body. Returns the request.
fn post(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> usize {
    let fixed =
        [(Part::Method, "POST"), (Part::Path, path), (Part::Host, "a"), (Part::Address, "10.0.0.1:0")];
    let headers = headers.iter().map(|(name, value)| match *name {
        "content-length" => (Part::BodySize, *value),
        ":method" => (Part::Method, *value),
        name => (Part::Header(name.into()), *value),
    });
    let overridden = |part: &Part| headers.clone().any(|(other, _)| other == *part);
    let parts = fixed.into_iter().filter(|(part, _)| !overridden(part)).chain(headers.clone());
    gateway.vms[0].ask(parts.map(|(part, line)| (part, line.into())).collect())
}

fn last(gateway: &Gateway) -> u32 {
    gateway.vms[0].streams().pop().unwrap()
}

/// The fate of a `POST` with this body, in chunks of this size.
fn sent(gateway: &Gateway, path: &str, body: &[u8], size: usize) -> Fate {
    let request = post(gateway, path, &[JSON]);
    assert_eq!(gateway.fate(request), Fate::Paused, "{path}");
    let id = last(gateway);
    let mut chunks = body.chunks(size).peekable();
    while let Some(chunk) = chunks.next() {
        gateway.vms[0].frame(id, chunk, chunks.peek().is_none());
    }
    if body.is_empty() {
        gateway.vms[0].frame(id, b"", true);
    }
    gateway.fate(request)
}

fn left(gateway: &Gateway, path: &str, body: &str) -> Option<u64> {
    let fate = sent(gateway, path, body.as_bytes(), 3);
    assert_eq!(fate, Fate::Upstream, "{body}");
    let id = last(gateway);
    gateway.vms[0].respond(id, 200, &[]);
    gateway.vms[0].end(id);
    remaining(gateway)
}

/// What the last response says is left.
fn remaining(gateway: &Gateway) -> Option<u64> {
    let records = gateway.world.records.borrow();
    let headers = &records.last().unwrap().headers;
    let (_, value) = headers.iter().find(|(name, _)| name == "ratelimit")?;
    value.split(';').find_map(|part| part.strip_prefix("r="))?.parse().ok()
}

#[test]
fn requests_count_by_a_value_in_their_bodies() {
    let gateway = gateway();
    let counts = |body: &str, expected: bool| {
        let expected = if expected { Fate::Upstream } else { Fate::Answered(429) };
        assert_eq!(sent(&gateway, "/chat", body.as_bytes(), 1), expected, "{body}");
    };
    counts(r#"{"model": "small"}"#, true);
    counts(r#"{"mod\u0065l": "sm\u0061ll", "n": [1, {"model": "x"}]}"#, false);
    counts(r#"{"model": "large"}"#, true);
    counts(r#"{"model": 12.0}"#, true);
    counts(r#"{"model": 1.2e1}"#, false);
    counts(r#"{"model": "12"}"#, false);
    counts(r#"{"model": true}"#, true);
    // Whatever has no value counts together.
    counts(r#"{"model": null}"#, true);
    for body in [
        "{}",
        "",
        "null",
        r#"{"model": {}}"#,
        r#"{"model": 1.5}"#,
        r#"{"model": "a", "model": "b"}"#,
        r#"{"model": "a", "Model": "b"}"#,
        r#"{"model": "c"} {}"#,
        r#"{"model": "c""#,
        "\u{feff}{\"model\": \"c\"}",
    ] {
        counts(body, false);
    }
    gateway.end_all();
    assert_eq!((gateway.kept_streams(), gateway.counter("diana.waiting_requests")), (0, 0));
    gateway.no_crash();
}

#[test]
fn prices_follow_the_model_in_the_body() {
    let gateway = gateway();
    let mut before = 1000;
    for (body, cost) in [
        (r#"{"model": "small"}"#, 5),
        (r#"{"model": "large"}"#, 30),
        (r#"{"model": "another"}"#, 20),
        ("{}", 30),
        (r#"{"model": ["small"]}"#, 30),
        (r#"{"model": "small", "model": "large"}"#, 30),
        (r#"{"model": "small"}}"#, 30),
    ] {
        assert_eq!(sent(&gateway, "/priced", body.as_bytes(), 3), Fate::Upstream, "{body}");
        let id = last(&gateway);
        gateway.vms[0].respond(id, 200, &[]);
        let left = remaining(&gateway).unwrap();
        assert_eq!(before - left, cost, "{body}");
        before = left;
    }
}

#[test]
fn a_body_that_cannot_be_read_costs_the_most() {
    let gateway = gateway();
    let mut before = 100;
    for (body, cost) in [
        (r#"{"n": 5}"#, 5),
        (r#"{"n": "6"}"#, 6),
        (r#"{"n": 0}"#, 2),
        ("{}", 7),
        (r#"{"n": null}"#, 7),
        (r#"{"n": 99}"#, 50),
    ] {
        let after = left(&gateway, "/cost", body).unwrap();
        assert_eq!(before - after, cost, "{body}");
        before = after;
    }
    for body in [
        r#"{"n": 1.5}"#,
        r#"{"n": -1}"#,
        r#"{"n": [1]}"#,
        r#"{"n": "one"}"#,
        r#"{"n": 1, "n": 1}"#,
        r#"[{"n": 10}]"#,
        r#"{"N": 1}"#,
        "{",
    ] {
        let gateway = self::gateway();
        assert_eq!(left(&gateway, "/cost", body), Some(50), "{body}");
    }
}

#[test]
fn only_a_request_whose_limits_need_its_body_waits() {
    let gateway = gateway();
    let waits = |path: &str, headers: &[(&str, &str)]| {
        let fate = gateway.fate(post(&gateway, path, headers));
        gateway.vms[0].streams().into_iter().for_each(|id| gateway.vms[0].reset(id));
        assert_eq!(gateway.kept_streams(), 0);
        fate == Fate::Paused
    };
    for (path, headers, expected) in [
        ("/chat", &[JSON][..], true),
        ("/chat", &[("content-type", "Application/Problem+JSON; charset=UTF-8")], true),
        ("/chat", &[JSON, ("content-length", "100")], true),
        ("/chat", &[JSON, ("content-encoding", "identity")], true),
        ("/tool", &[JSON], true),
        ("/plain", &[JSON], false),
        ("/get", &[JSON], false),
        ("/chat", &[JSON, ("content-length", "101")], false),
        ("/chat", &[JSON, ("content-length", "0")], false),
        ("/chat", &[JSON, ("content-length", "x")], false),
        ("/chat", &[], false),
        ("/chat", &[("content-type", "text/plain")], false),
        ("/chat", &[("content-type", "application/grpc+json")], false),
        ("/chat", &[("content-type", "application/grpc")], false),
        ("/chat", &[("content-type", "application/json; charset=utf-16")], false),
        ("/chat", &[JSON, ("content-encoding", "gzip")], false),
        ("/chat", &[JSON, ("upgrade", "websocket")], false),
        ("/chat", &[JSON, ("expect", "100-continue")], false),
        ("/chat", &[JSON, (":method", "CONNECT")], false),
    ] {
        assert_eq!(waits(path, headers), expected, "{path} {headers:?}");
    }
}

#[test]
fn a_client_on_a_list_does_not_wait() {
    let gateway = gateway();
    let fate = |list: &str, user: &str| {
        assert!(gateway.configure(&RULES.replacen('{', &format!("{{{list},"), 1)));
        gateway.fate(post(&gateway, "/chat", &[JSON, ("x-user-id", user)]))
    };
    let lists = r#""allow": [{"user": "ann"}], "deny": ["192.0.2.0/24", {"user": "eve"}]"#;
    assert_eq!((fate(lists, "ann"), fate(lists, "eve")), (Fate::Upstream, Fate::Answered(429)));
    assert_eq!(fate(lists, "bob"), Fate::Paused);
    // A list in shadow decides nothing.
    let shadow = format!(r#"{lists}, "mode": "shadow""#);
    assert_eq!((fate(&shadow, "ann"), fate(&shadow, "eve")), (Fate::Upstream, Fate::Paused));
}

#[test]
fn bodies_take_no_slots_of_other_requests() {
    const BODIES: usize = 2_500;
    let gateway = gateway();
    assert_eq!(gateway.world.logged("; at most 10000 KiB of bodies"), 1, "four pointers");
    assert!(gateway.configure(&RULES.replacen(r#""rpu": 1,"#, r#""rpu": 9000,"#, 1)));
    let vm = &gateway.vms[0];
    let held: Vec<usize> = (0..BODIES).map(|_| post(&gateway, "/chat", &[JSON])).collect();
    assert_eq!((gateway.paused(), gateway.counter("diana.unheld_requests")), (BODIES, 0));
    // Further bodies are unread, also by another plugin of the worker.
    let fate = |path: &str| gateway.fate(post(&gateway, path, &[JSON]));
    assert_eq!(fate("/chat"), Fate::Upstream);
    assert!(vm.configure_again());
    assert_eq!(fate("/chat"), Fate::Upstream);
    assert_eq!(gateway.counter("diana.unheld_requests"), 2);
    // Others wait for their turn: they have slots of their own.
    assert_eq!((fate("/turns"), fate("/turns")), (Fate::Upstream, Fate::Paused));
    assert_eq!((gateway.paused(), gateway.counter("diana.unheld_requests")), (BODIES + 1, 4));
    // Slots are free again, however the wait ends.
    let first = vm.streams()[0];
    vm.reset(first);
    assert_eq!(fate("/chat"), Fate::Paused);
    gateway.pass(2_010);
    assert!(held[1..].iter().all(|request| gateway.fate(*request) == Fate::Upstream));
    assert_eq!(fate("/chat"), Fate::Paused);
    gateway.end_all();
    assert_eq!((gateway.kept_streams(), gateway.counter("diana.waiting_requests")), (0, 0));
    gateway.no_crash();
}

#[test]
fn a_condition_on_the_body_holds_if_the_body_cannot_be_read() {
    let gateway = gateway();
    let tool = |body: &str| sent(&gateway, "/tool", body.as_bytes(), 5);
    for _ in 0..2 {
        assert_eq!(tool(r#"{"params": {"name": "read"}}"#), Fate::Upstream);
        assert_eq!(tool(r#"{"params": {}}"#), Fate::Upstream);
    }
    assert_eq!(tool(r#"{"params": {"name": "search"}}"#), Fate::Upstream);
    for body in [
        r#"{"params": {"name": "search"}}"#,
        r#"{"params": {"name": "read", "name": "search"}}"#,
        r#"{"params": {"name": ["search"]}}"#,
        r#"[{"params": {"name": "search"}}]"#,
        r#"{"params": [{"name": "search"}]}"#,
        r#"{"params": "{\"name\": \"search\"}"}"#,
        "[",
    ] {
        assert_eq!(tool(body), Fate::Answered(429), "{body}");
    }
    // A request without a body is another one.
    assert_eq!(gateway.fate(gateway.request(0, "/tool", "ann")), Fate::Upstream);
    assert_eq!(gateway.fate(post(&gateway, "/tool", &[("content-type", "text/plain")])), Fate::Answered(429));
}

#[test]
fn a_body_that_does_not_end_in_time_counts_as_unread() {
    let gateway = gateway();
    let first = post(&gateway, "/chat", &[JSON]);
    gateway.vms[0].frame(last(&gateway), br#"{"model": "a"}"#, false);
    gateway.pass(1_990);
    assert_eq!(gateway.fate(first), Fate::Paused, "something may follow");
    gateway.pass(20);
    assert_eq!(gateway.fate(first), Fate::Upstream);
    // The rest passes.
    gateway.vms[0].frame(last(&gateway), b" ", true);
    assert_eq!(gateway.world.logged("allow_on_headers_stop_iteration"), 0);
    // Without the flag, no body comes.
    for _ in 0..4 {
        let silent = post(&gateway, "/chat", &[JSON]);
        gateway.pass(2_010);
        assert_eq!(gateway.fate(silent), Fate::Answered(429), "it lacks a model, like the first one");
    }
    assert_eq!(gateway.world.logged("allow_on_headers_stop_iteration"), 1);
    // A body that is too long is decided at once.
    let long = post(&gateway, "/chat", &[JSON]);
    gateway.vms[0].frame(last(&gateway), &[b' '; 101], false);
    assert_eq!(gateway.fate(long), Fate::Answered(429));
    assert_eq!(gateway.counter("diana.waiting_requests"), 0);
    gateway.no_crash();
}

#[test]
fn a_request_may_wait_again_after_its_body() {
    let gateway = gateway();
    assert_eq!(sent(&gateway, "/turns", br#"{"slow": true}"#, 99), Fate::Upstream);
    assert_eq!(sent(&gateway, "/turns", br#"{"slow": false}"#, 99), Fate::Upstream);
    assert_eq!(sent(&gateway, "/turns", br#"{"slow": true}"#, 99), Fate::Paused);
    gateway.pass(1_010);
    assert_eq!(gateway.paused(), 0);
    // A body that is not read in time waits for its turn, too.
    let slow = post(&gateway, "/turns", &[JSON]);
    let other = post(&gateway, "/turns", &[JSON]);
    gateway.pass(2_005);
    assert_eq!((gateway.fate(slow), gateway.fate(other)), (Fate::Upstream, Fate::Paused));
    gateway.pass(1_010);
    assert_eq!(gateway.fate(other), Fate::Upstream);
    // Trailers end a body.
    let trailed = post(&gateway, "/chat", &[JSON]);
    gateway.vms[0].frame(last(&gateway), br#"{"model": "t"}"#, false);
    assert_eq!(gateway.fate(trailed), Fate::Paused);
    gateway.vms[0].request_trailers(last(&gateway));
    assert_eq!(gateway.fate(trailed), Fate::Upstream);
    assert_eq!(sent(&gateway, "/chat", br#"{"model": "t"}"#, 99), Fate::Answered(429));
    gateway.end_all();
    assert_eq!((gateway.kept_streams(), gateway.counter("diana.waiting_requests")), (0, 0));
    gateway.no_crash();
}

#[test]
fn a_store_is_asked_with_the_value_of_the_body() {
    for reenters in [false, true] {
        let gateway = Gateway::among(Clusters::of(&["a"]), 1, reenters);
        assert!(gateway.configure(RULES));
        let send = |model: &str| {
            let body = format!(r#"{{"model": "{model}"}}"#);
            assert_eq!(sent(&gateway, "/global", body.as_bytes(), 2), Fate::Paused);
            let request = gateway.world.records.borrow().len() - 1;
            gateway.pass(20);
            gateway.fate(request)
        };
        assert_eq!((send("a"), send("b")), (Fate::Upstream, Fate::Upstream));
        assert_eq!(send("a"), Fate::Answered(429));
        let waits = post(&gateway, "/global", &[JSON]);
        gateway.pass(2_050);
        assert_eq!(gateway.fate(waits), Fate::Upstream, "by address");
        gateway.end_all();
        assert_eq!((gateway.kept_streams(), gateway.vms[0].calling()), (0, 0));
        gateway.no_crash();
    }
}

#[test]
fn a_client_or_a_plugin_may_end_while_a_body_is_read() {
    let gateway = gateway();
    let vm = &gateway.vms[0];
    post(&gateway, "/chat", &[JSON]);
    vm.frame(last(&gateway), br#"{"model":"#, false);
    vm.reset(last(&gateway));
    assert_eq!((gateway.kept_streams(), gateway.counter("diana.waiting_requests")), (0, 0));
    // A request that has begun stays with its plugin.
    let held = post(&gateway, "/chat", &[JSON]);
    assert!(vm.configure_again());
    vm.frame(last(&gateway), br#"{"model": "small"}"#, true);
    assert_eq!(gateway.fate(held), Fate::Upstream);
    for path in ["/chat", "/turns", "/turns", "/global"] {
        post(&gateway, path, &[JSON]);
    }
    let root = vm.newest_root().unwrap();
    assert!(vm.configure());
    vm.delete_root(root);
    assert_eq!(gateway.paused(), 0, "no timer fires any more");
    gateway.end_all();
    assert_eq!(gateway.kept_streams(), 0);
    gateway.no_crash();
}

#[test]
fn nginx_refuses_parts_of_bodies() {
    let gateway = Gateway::new(CasSemantics::Strict, 1, diana::Exports::All, false);
    let document =
        r#"{"url": "/", "rules": [{"rpu": 1, "unit": "day", "cost": {"request_json": "/n", "max": 9}}]}"#;
    assert!(!gateway.configure(document));
    assert_eq!(
        gateway.world.logged("request_json: the filter does not read the bodies of requests in nginx"),
        1
    );
    // An actor and a cost that no rule takes read nothing.
    let idle = r#"{"actors": {"idle": {"request_json": "/model"}},
        "costs": {"idle": {"request_json": "/n", "max": 9}},
        "limits": [{"url": "/", "rules": [{"rpu": 1, "unit": "day"}]}]}"#;
    assert!(gateway.configure(idle));
}

#[test]
fn a_call_that_repeats_itself_is_refused() {
    const LOOPS: &str = r#"{"actors": {
            "session": {"header": "mcp-session-id"},
            "call": {"fingerprint": [{"request_json": "/params/name"}, {"request_json": "/params/arguments"}]}},
        "limits": [{"url": "/mcp", "rules": [
            {"name": "loops", "actor": ["session", "call"], "missing": "deny", "algo": "SW", "rpu": 3, "unit": "10m"}]}]}"#;
    let gateway = Gateway::among(Clusters::of(&["a"]), 1, false);
    assert!(gateway.configure(LOOPS));
    let call = |session: &str, params: &str| {
        let request = post(&gateway, "/mcp", &[JSON, ("mcp-session-id", session)]);
        let body =
            format!(r#"{{"jsonrpc": "2.0", "id": {request}, "method": "tools/call", "params": {params}}}"#);
        body.as_bytes().chunks(7).for_each(|chunk| gateway.vms[0].frame(last(&gateway), chunk, false));
        gateway.vms[0].frame(last(&gateway), b"", true);
        gateway.fate(request)
    };
    let read = r#"{"name": "read", "arguments": {"path": "/a", "lines": [1, 2]}}"#;
    let spelt =
        r#"{"arguments":{"p\u0061th":"\/a","lines":[1.0,20e-1]},"name":"read","_meta":{"progressToken":1}}"#;
    for params in [read, spelt, read] {
        assert_eq!(call("a", params), Fate::Upstream, "{params}");
    }
    for params in [read, spelt] {
        assert_eq!(call("a", params), Fate::Answered(429), "{params}");
    }
    // Another session, tool or argument, and none.
    assert_eq!(call("b", read), Fate::Upstream);
    for params in [
        r#"{"name": "write", "arguments": {"path": "/a", "lines": [1, 2]}}"#,
        r#"{"name": "read", "arguments": {"path": "/a", "lines": [1, 3]}}"#,
        r#"{"name": "read", "arguments": {"lines": [1, 2], "path": "/a"}}"#,
        r#"{"name": "read", "arguments": {}}"#,
    ] {
        assert_eq!(call("a", params), Fate::Upstream, "{params}");
    }
    let expected =
        [true, true, true, false].map(|passes| if passes { Fate::Upstream } else { Fate::Answered(429) });
    let bare = [r#"{"name": "list"}"#, r#"{"name":"list","arguments":null}"#];
    assert_eq!([0, 1, 0, 1].map(|at| call("a", bare[at])), expected);
    // Of a batch, a doubtful body and a call without both parts, the actor is missing.
    for params in [r#"{"name": "a", "name": "b"}"#, "{}", "[]", r#""x""#, r#"{"name": "a", "Arguments": {}}"#]
    {
        assert_eq!(call("c", params), Fate::Answered(429), "{params}");
    }
    // Ten minutes later the loop may go on.
    gateway.pass(1_200_000);
    assert_eq!(call("a", read), Fate::Upstream);
    gateway.end_all();
    gateway.no_crash();
}

const CALLS: &str = r#"{"response": {"json_rpc": {"status": 200}, "jitter": 0}, "request_body": {"wait": "2s", "max": 1000},
    "store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}},
    "limits": [
        {"url": "/rpc", "rules": [{"name": "closed", "rpu": 0, "unit": "day"}]},
        {"url": "/shadow", "rules": [{"name": "shadow", "rpu": 0, "unit": "day", "mode": "shadow"}]},
        {"url": "/get", "methods": "GET", "rules": [{"name": "get", "rpu": 0, "unit": "day"}]},
        {"url": "/late", "rules": [{"name": "late", "rpu": 0, "unit": "day", "reject_delay": "50ms"}]},
        {"url": "/global", "rules": [{"name": "global", "rpu": 1, "unit": "day", "scope": "global"}]}]}"#;

/// The status and the body of the response to a request with this body.
fn refused(gateway: &Gateway, path: &str, body: &str) -> (Fate, String) {
    sent(gateway, path, body.as_bytes(), 5);
    gateway.pass(60);
    let fate = gateway.fate(gateway.world.records.borrow().len() - 1);
    let sent = gateway.world.sent.borrow();
    (fate, sent.last().unwrap().1.clone())
}

#[test]
fn a_json_rpc_request_is_refused_by_an_error() {
    let gateway = Gateway::among(Clusters::of(&["a"]), 1, false);
    assert!(gateway.configure(CALLS), "{:?}", gateway.world.log.borrow());
    let error = |id: &str, rule: &str| {
        let registry = "https://iana.org/assignments/http-problem-types#quota-exceeded";
        format!(
            r#"{{"jsonrpc":"2.0","error":{{"code":-32029,"message":"Quota Exceeded","data":{{"type":"{registry}","title":"Quota Exceeded","status":429,"violated-policies":["{rule}"]}}}},"id":{id}}}"#
        )
    };
    let request = |members: &str| format!(r#"{{"jsonrpc": "2.0", "method": "m", {members}}}"#);
    let long = |length: usize| "x".repeat(length);
    for (id, expected) in [
        ("7", "7"),
        ("-0", "0"),
        ("70e-1", "7"),
        ("9007199254740992", "9007199254740992"),
        ("9007199254740993", "null"),
        ("1e400", "null"),
        ("1.5", "null"),
        ("true", "null"),
        ("null", "null"),
        ("{}", "null"),
        (r#"["a"]"#, "null"),
        (r#""""#, r#""""#),
        (r#""\u0061\"},\\""#, r#""a\"},\\""#),
        (r#""\n\u001f""#, r#""\n\u001f""#),
        (r#""\u0000""#, "null"),
        (r#""\ud800""#, "null"),
        (&format!(r#""{}""#, long(64)), &format!(r#""{}""#, long(64))),
        (&format!(r#""{}""#, long(65)), "null"),
        (&format!(r#""{}""#, "é".repeat(33)), "null"),
    ] {
        let found = refused(&gateway, "/rpc", &request(&format!(r#""id": {id}"#)));
        assert_eq!(found, (Fate::Answered(200), error(expected, "closed")), "{id}");
    }
    let nested = r#""params": {"id": 1, "method": 2, "jsonrpc": "1.0"}, "id": 3"#;
    assert_eq!(refused(&gateway, "/rpc", &request(nested)).1, error("3", "closed"));
    assert_eq!(refused(&gateway, "/late", &request(r#""id": 4"#)), (Fate::Answered(200), error("4", "late")));
    // A notification gets no response.
    for members in [r#""params": {"id": 1}"#, r#""params": []"#] {
        let found = refused(&gateway, "/rpc", &request(members));
        assert_eq!(found, (Fate::Answered(429), String::new()), "{members}");
    }
    // Anything else gets the usual one.
    let deep = format!(r#"{{"jsonrpc": "2.0", "method": "m", "id": 1, "params": {}}}"#, "[".repeat(65));
    for body in [
        r#"{"method": "m", "id": 1}"#,
        r#"{"jsonrpc": "1.0", "method": "m", "id": 1}"#,
        r#"{"jsonrpc": 2.0, "method": "m", "id": 1}"#,
        r#"{"jsonrpc": 2, "method": "m", "id": 1}"#,
        r#"{"jsonrpc": "2.0", "id": 1}"#,
        r#"{"jsonrpc": "2.0", "method": 5, "id": 1}"#,
        r#"{"jsonrpc": "2.0", "result": {}, "id": 1}"#,
        r#"[{"jsonrpc": "2.0", "method": "m", "id": 1}]"#,
        r#"{"jsonrpc": "2.0", "method": "m", "id": 1, "id": 2}"#,
        r#"{"jsonrpc": "2.0", "method": "m", "id": 1, "ID": 2}"#,
        r#"{"jsonrpc": "2.0", "method": "m", "id": 1} 1"#,
        r#"{"jsonrpc": "2.0", "method": "m", "id": 1"#,
        &deep,
        "1",
    ] {
        let (fate, text) = refused(&gateway, "/rpc", body);
        assert!(fate == Fate::Answered(429) && text.starts_with(r#"{"type":"#), "{body}: {text}");
    }
    // A store is asked before the refusal, which still knows the `id`.
    assert_eq!(sent(&gateway, "/global", request(r#""id": "g""#).as_bytes(), 9), Fate::Paused);
    gateway.pass(20);
    let (fate, text) = refused(&gateway, "/global", &request(r#""id": "g""#));
    assert!(
        fate == Fate::Answered(200)
            && text.ends_with(r#""violated-policies":["global"],"retry_after":86400}},"id":"g"}"#),
        "{text}"
    );
    gateway.end_all();
    assert_eq!((gateway.kept_streams(), gateway.counter("diana.waiting_requests")), (0, 0));
    gateway.no_crash();
}

#[test]
fn only_what_may_be_refused_waits_for_json_rpc() {
    let gateway = Gateway::among(Clusters::of(&["a"]), 1, false);
    assert!(gateway.configure(CALLS));
    let fate = |path: &str, headers: &[(&str, &str)]| gateway.fate(post(&gateway, path, headers));
    assert_eq!(fate("/rpc", &[JSON]), Fate::Paused);
    for path in ["/shadow", "/get", "/other"] {
        assert_eq!(fate(path, &[JSON]), Fate::Upstream, "{path}");
    }
    assert_eq!(fate("/rpc", &[("content-type", "text/plain")]), Fate::Answered(429));
    assert_eq!(gateway.fate(gateway.request(0, "/rpc", "ann")), Fate::Answered(429));
    // Without the option, none waits.
    assert!(gateway.configure(&CALLS.replace(r#""json_rpc": {"status": 200}, "#, "")));
    assert_eq!(fate("/rpc", &[JSON]), Fate::Answered(429));
    let nginx = Gateway::new(CasSemantics::Strict, 1, diana::Exports::All, false);
    assert!(!nginx.configure(
        r#"{"response": {"json_rpc": true}, "limits": [{"url": "/", "rules": [{"rpu": 1, "unit": "day"}]}]}"#
    ));
    assert_eq!(
        nginx.world.logged("response.json_rpc: the filter does not read the bodies of requests in nginx"),
        1
    );
}
