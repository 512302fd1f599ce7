//! Soft limits: marks for the upstream and for routes, which no client can forge.

use crate::global::{Shared, shared_rule};
use gateway::config::cluster;
use gateway::{Config, Gateway, Received, Reply, Shell, Upstream, per_filter_config};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

/// An upstream that answers with the marks and the trailers that it got.
fn upstream(name: &'static str) -> Upstream {
    Upstream::start(move |request: &Received| {
        let all = |name: &str| {
            let lines = request.headers.iter().filter(|(known, _)| known == name);
            lines.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("|")
        };
        Reply::new(200, format!("{name} [{}] [{}]", all("x-budget"), all("connection")))
    })
    .unwrap()
}

/// A rule of ten requests a day by user, with these thresholds.
fn rule(over: Value) -> Value {
    json!({"name": "budget", "actor": "user", "algo": "W", "rpu": 10, "unit": "7d", "over": over})
}

fn low() -> Value {
    json!({"at": "80%", "request_header": {"x-budget": "low"}, "reroute": true})
}

struct Marked {
    gateway: Gateway,
    _upstreams: [Upstream; 2],
}

impl Marked {
    /// A gateway whose route for `x-budget: low` leads to another upstream.
    fn start(document: Value, change: impl FnOnce(Config) -> Config) -> Marked {
        let upstreams = [upstream("large"), upstream("small")];
        let route = json!({
            "match": {"prefix": "/", "headers": [{"name": "x-budget", "string_match": {"exact": "low"}}]},
            "route": {"cluster": "small"},
        });
        let config = Config {
            upstream: Some(upstreams[0].address()),
            clusters: vec![cluster("small", upstreams[1].address(), false)],
            routes: vec![route],
            access_log: Some("%FILTER_STATE(wasm.diana.over:PLAIN)% %DYNAMIC_METADATA(own:tier)%".into()),
            ..Config::new(document)
        };
        Marked { gateway: Gateway::start(change(config)).unwrap(), _upstreams: upstreams }
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> String {
        let response = self.gateway.get(path, headers).unwrap();
        if response.status == 200 { response.text() } else { response.status.to_string() }
    }

    /// The replies to so many requests of a user, each once in a row.
    fn runs(&self, user: &str, times: usize) -> Vec<(String, usize)> {
        let mut runs: Vec<(String, usize)> = Vec::new();
        for _ in 0..times {
            let reply = self.get("/", &[("x-user-id", user)]);
            match runs.last_mut() {
                Some((last, count)) if *last == reply => *count += 1,
                _ => runs.push((reply, 1)),
            }
        }
        runs
    }

    /// The reply to raw bytes.
    fn raw(&self, request: &str) -> String {
        let response = self.gateway.raw(request.as_bytes()).unwrap();
        response.map_or("none".into(), |response| match response.status {
            200 => response.text(),
            status => status.to_string(),
        })
    }
}

fn run(reply: &str, count: usize) -> (String, usize) {
    (reply.into(), count)
}

#[test]
fn beyond_a_part_of_the_budget_another_route_serves() {
    let marked = Marked::start(json!({"limits": [{"url": "/", "rules": [rule(low())]}]}), |it| it);
    assert_eq!(marked.runs("ann", 12), [run("large [] []", 8), run("small [low] []", 2), run("429", 2)]);
    let log = marked.gateway.access_log_of(12).unwrap();
    let shown: Vec<&str> = log.iter().map(|line| line.trim()).collect();
    assert_eq!((shown[7], shown[8], shown[9], shown[10]), ("- -", "budget:80 -", "budget:80 -", "- -"));
    assert_eq!(marked.gateway.counted("rule.budget.over").unwrap(), 2);
}

#[test]
fn beyond_the_whole_budget_all_requests_pass_with_the_mark() {
    let over = json!([
        {"at": "50%", "request_header": {"x-budget": "half"}},
        {"at": "100%", "admit": true, "request_header": {"x-budget": "low"}, "reroute": true},
    ]);
    let marked = Marked::start(json!({"limits": [{"url": "/", "rules": [rule(over)]}]}), |it| it);
    let expected = [run("large [] []", 5), run("large [half] []", 5), run("small [low] []", 20)];
    assert_eq!(marked.runs("ann", 30), expected);
}

#[test]
fn the_higher_part_wins_whichever_rule_has_it() {
    let of = |name: &str, at: &str, value: &str| {
        json!({"name": name, "algo": "W", "rpu": 100, "unit": "7d",
            "over": {"at": at, "request_header": {"x-budget": value}}})
    };
    for rules in [[of("a", "2%", "two"), of("b", "1%", "one")], [of("b", "1%", "one"), of("a", "2%", "two")]]
    {
        let marked = Marked::start(json!({"limits": [{"url": "/", "rules": rules}]}), |it| it);
        let expected = [run("large [] []", 1), run("large [one] []", 1), run("large [two] []", 2)];
        assert_eq!(marked.runs("ann", 4), expected);
    }
}

#[test]
fn in_shadow_nothing_changes_but_the_log() {
    let document = json!({"mode": "shadow", "limits": [{"url": "/", "rules": [rule(low())]}]});
    let marked = Marked::start(document, |it| it);
    assert_eq!(marked.runs("ann", 12), [run("large [] []", 12)]);
    let log = marked.gateway.access_log_of(12).unwrap();
    assert_eq!(log.iter().filter(|line| line.starts_with("budget:80")).count(), 4);
}

/// The client's header never reaches an upstream, and chooses no route, whether or not a limit
/// applies.
#[test]
fn no_client_can_send_a_mark() {
    let document = json!({
        "limits": [{"url": "/counted", "rules": [rule(low())]}],
        "allow": [{"user": "root"}],
    });
    let marked = Marked::start(document, |mut it| {
        it.upgrades = true;
        it.manager = json!({"http_protocol_options": {"enable_trailers": true}});
        it
    });
    for path in ["/counted", "/free"] {
        for user in ["ann", "root"] {
            for name in ["x-budget", "X-Budget", "X-BUDGET"] {
                assert_eq!(marked.get(path, &[("x-user-id", user), (name, "low")]), "large [] []");
            }
        }
        let head = |lines: &str| format!("GET {path} HTTP/1.1\r\nhost: a\r\nx-user-id: bob\r\n{lines}\r\n");
        for lines in [
            "x-budget: low\r\nX-Budget: high\r\nx-budget:\r\n",
            "x-budget:\tlow \t\r\n",
            "x-budget:\r\n",
            "connection: x-budget\r\nx-budget: low\r\n",
        ] {
            assert_eq!(marked.raw(&head(lines)), "large [] []", "{lines}");
        }
        // Envoy itself refuses what is no name, and a folded line belongs to the one before.
        assert_eq!(marked.raw(&head("x-budget : low\r\n")), "400");
        assert_eq!(marked.raw(&head(" x-budget: low\r\n")), "large [] []");
        let chunked = format!(
            "POST {path} HTTP/1.1\r\nhost: a\r\nx-user-id: cyd\r\ntransfer-encoding: chunked\r\ntrailer: x-budget\r\n\r\n\
             1\r\na\r\n0\r\nx-budget: low\r\n\r\n"
        );
        assert_eq!(marked.raw(&chunked), "large [] []");
    }
    // What names the header as one of the connection does not remove a true mark.
    for lines in ["connection: x-budget\r\n", "connection: close, X-Budget\r\nx-budget: high\r\n"] {
        let user = lines.len();
        let request = format!("GET /counted HTTP/1.1\r\nhost: a\r\nx-user-id: {user}\r\n{lines}\r\n");
        let replies: Vec<String> = (0..9).map(|_| marked.raw(&request)).collect();
        assert_eq!((&*replies[7], &*replies[8]), ("large [] []", "small [low] []"), "{lines}");
    }
}

/// Some upstreams take trailers for headers.
#[test]
fn a_mark_in_trailers_is_removed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut raw = cluster("raw", listener.local_addr().unwrap(), false);
    raw["typed_extension_protocol_options"] = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http_protocol_options": {"enable_trailers": true}},
    }});
    let received = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut bytes, mut part) = (Vec::new(), [0; 4_096]);
        while !bytes.ends_with(b"x-other: 1\r\n\r\n") {
            let size = stream.read(&mut part).unwrap();
            assert!(size > 0, "{}", String::from_utf8_lossy(&bytes));
            bytes.extend(&part[..size]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        String::from_utf8(bytes).unwrap()
    });
    let document = json!({"headers": "off", "limits": [{"url": "/", "rules": [rule(low())]}]});
    let gateway = Gateway::start(Config {
        clusters: vec![raw],
        routes: vec![json!({"match": {"prefix": "/"}, "route": {"cluster": "raw"}})],
        manager: json!({"http_protocol_options": {"enable_trailers": true}}),
        ..Config::new(document)
    })
    .unwrap();
    let request = "POST / HTTP/1.1\r\nhost: a\r\nx-user-id: ann\r\ntransfer-encoding: chunked\r\n\r\n\
                   1\r\na\r\n0\r\nX-Budget: low\r\nx-budget: low\r\nx-other: 1\r\n\r\n";
    assert_eq!(gateway.raw(request.as_bytes()).unwrap().unwrap().status, 200);
    let received = received.join().unwrap();
    assert!(!received.contains("x-budget"), "{received}");
}

#[test]
fn a_verdict_from_redis_marks_while_the_request_is_held() {
    let keys = json!({"algo": "W", "rpu": 5, "unit": "7d", "over": [
        {"at": "40%", "request_header": {"x-budget": "low"}},
        {"at": "100%", "admit": true, "request_header": {"x-budget": "none"}},
    ]});
    let upstreams = [upstream("one"), upstream("two")];
    let addresses = [upstreams[0].address(), upstreams[1].address()];
    let index = std::cell::Cell::new(0);
    let shared = Shared::with(json!({}), &json!([shared_rule("/", "budget", &keys)]), |config| {
        let at = index.replace(1);
        Config { upstream: Some(addresses[at]), ..config }
    });
    let get = |gateway: usize| {
        shared.gateways[gateway].get("/", &[("x-user-id", "ann"), ("x-budget", "high")]).unwrap().text()
    };
    let replies: Vec<String> = [0, 1, 0, 1, 0, 1, 0].into_iter().map(get).collect();
    let expected = ["one []", "two []", "one [low]", "two [low]", "one [low]", "two [none]", "one [none]"];
    assert_eq!(replies, expected.map(|reply| format!("{reply} []")));
}

#[test]
fn metadata_and_the_choice_of_the_route_are_the_modules() {
    let metadata = json!({"at": "80%", "metadata": {"own": {"tier": "small"}}});
    let stays = json!({"at": "80%", "request_header": {"x-budget": "low"}, "reroute": false});
    let document = |over: Value| json!({"limits": [{"url": "/", "rules": [rule(over)]}]});
    let wasm = |over: Value| {
        let config = Config { shell: Shell::Wasm, ..Config::new(document(over)) };
        Gateway::start(config).err().map(|why| why.to_string()).unwrap_or_default()
    };
    assert!(wasm(metadata.clone()).contains("over.metadata: Envoy lets no Wasm filter set metadata"));
    assert!(wasm(stays.clone()).contains("over.reroute: Envoy chooses the route again"));
    let native = |over: Value| Marked::start(document(over), |it| Config { shell: Shell::Native, ..it });
    let marked = native(metadata);
    assert_eq!(marked.runs("ann", 10), [run("large [] []", 10)]);
    let log = marked.gateway.access_log_of(10).unwrap();
    assert_eq!((log[7].trim(), log[8].trim()), ("- -", "budget:80 small"));
    assert_eq!(native(stays).runs("ann", 10), [run("large [] []", 8), run("large [low] []", 2)]);
}

/// A client could otherwise choose the document of a route that counts less, and the route of
/// another one.
#[test]
fn documents_of_routes_do_not_choose_the_route_and_remove_the_listeners_marks() {
    let header = json!({"at": "80%", "request_header": {"x-budget": "low"}});
    let document = |over: &Value| json!({"limits": [{"url": "/", "rules": [rule(over.clone())]}]});
    let open = json!({"limits": []});
    let start = |listener: Value, route: Value| {
        let upstream = upstream("large");
        let route = json!({
            "match": {"prefix": "/route"}, "route": {"cluster": "upstream"},
            "typed_per_filter_config": per_filter_config(route),
        });
        let config = Config {
            shell: Shell::Native,
            upstream: Some(upstream.address()),
            routes: vec![route],
            ..Config::new(listener)
        };
        Gateway::start(config).map(|gateway| (gateway, upstream))
    };
    let forged = |gateway: &Gateway, path: &str| gateway.get(path, &[("x-budget", "low")]).unwrap().text();
    assert!(start(document(&header), document(&low())).is_err());
    let (gateway, _upstream) = start(document(&low()), open.clone()).unwrap();
    assert_eq!(forged(&gateway, "/route"), "large [] []", "the listener's document decides");
    assert!(gateway.log_contains("the listener's document has `reroute: true`"));
    let (gateway, _upstream) = start(document(&header), open).unwrap();
    for path in ["/", "/route"] {
        assert_eq!(forged(&gateway, path), "large [] []", "{path}");
    }
}
