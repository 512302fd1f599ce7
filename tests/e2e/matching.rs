//! The parts of a request as Envoy provides them.

use crate::start;
use gateway::{Config, Gateway, Reply, Upstream};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn once(name: &str, actor: Value) -> Value {
    json!([{"name": name, "actor": actor, "rpu": 1, "unit": "hour", "missing": "skip"}])
}

/// Sends raw header lines to `target`. Returns whether the request passes.
fn passes(gateway: &Gateway, target: &str, lines: &str) -> bool {
    let request = format!("GET {target} HTTP/1.1\r\n{lines}\r\n");
    match gateway.raw(request.as_bytes()).unwrap().unwrap().status {
        200 => true,
        429 => false,
        status => panic!("{target} {lines}: {status}"),
    }
}

#[test]
fn conditions_read_the_method_the_host_and_the_headers() {
    let rule = |name| json!([{"name": name, "rpu": 0, "unit": "hour"}]);
    let gateway = start(json!({"limits": [
        {"url": "/method", "methods": "POST", "rules": rule("method")},
        {"url": "/host", "hosts": ["*.example.com"], "rules": rule("host")},
        {"url": "/header", "headers": {"x-plan": {"regex": "fr.e"}, "x-vip": {"present": false}}, "rules": rule("header")},
    ]}));
    assert!(passes(&gateway, "/method", "host: a\r\n"));
    assert_eq!(gateway.request("POST", "/method", &[], b"x").unwrap().status, 429);
    assert!(passes(&gateway, "/host", "host: example.com\r\n"));
    assert!(!passes(&gateway, "/host", "host: API.example.com:8080\r\n"));
    assert!(passes(&gateway, "/header", "host: a\r\nx-plan: freemium\r\n"));
    assert!(!passes(&gateway, "/header", "host: a\r\nx-plan: free\r\n"));
    assert!(!passes(&gateway, "/header", "host: a\r\nx-plan:\tfree \t\r\n"));
    assert!(passes(&gateway, "/header", "host: a\r\nx-plan: free\r\nx-vip:\r\n"));
}

/// The status of a `POST` with these header lines and this body.
fn post(gateway: &Gateway, target: &str, lines: &str, body: &str) -> u16 {
    let request = format!("POST {target} HTTP/1.1\r\nhost: a\r\n{lines}\r\n{body}");
    gateway.raw(request.as_bytes()).unwrap().unwrap().status
}

#[test]
fn a_condition_reads_the_declared_size_of_the_body() {
    let rule = |name| json!([{"name": name, "rpu": 0, "unit": "hour"}]);
    let gateway = start(json!({"limits": [
        {"url": "/large", "body_size": {"min": "1Ki"}, "rules": rule("large")},
        {"url": "/both", "body_size": {"min": 1, "max": 3}, "headers": {"x-plan": "free"}, "rules": rule("both")},
        {"url": "/small", "rules": rule("small")},
        {"url": "/small", "body_size": {"max": 3}, "exclusive": true},
    ]}));
    let sized = |size: usize| (format!("content-length: {size}\r\n"), "x".repeat(size));
    let chunked = ("transfer-encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n");
    for (target, size, expected) in [
        ("/large", 1_023, 200),
        ("/large", 1_024, 429),
        ("/large", 0, 200),
        ("/small", 3, 200),
        ("/small", 4, 429),
    ] {
        let (lines, body) = sized(size);
        assert_eq!(post(&gateway, target, &lines, &body), expected, "{target} {size}");
    }
    // Without a length, the size of a request that ends with its headers is 0.
    assert!(passes(&gateway, "/large", "host: a\r\n"));
    assert!(passes(&gateway, "/small", "host: a\r\n"));
    assert!(passes(&gateway, "/both", "host: a\r\nx-plan: free\r\n"));
    // The size of a chunked body is unknown: limits apply, and none is lifted.
    assert_eq!(post(&gateway, "/large", chunked.0, chunked.1), 429);
    assert_eq!(post(&gateway, "/small", chunked.0, chunked.1), 429);
    let free = |lines: &str| format!("{lines}x-plan: free\r\n");
    assert_eq!(post(&gateway, "/both", &free(&sized(2).0), "xx"), 429);
    assert_eq!(post(&gateway, "/both", &free(&sized(4).0), "xxxx"), 200);
    assert_eq!(post(&gateway, "/both", &free(chunked.0), chunked.1), 429);
    assert_eq!(post(&gateway, "/both", chunked.0, chunked.1), 200);
}

#[test]
fn conditions_read_the_query_a_token_and_properties() {
    let rule = |name| json!([{"name": name, "rpu": 0, "unit": "hour"}]);
    let gateway = start(json!({"limits": [
        {"url": "/query", "query": {"format": {"regex": "csv|xml"}}, "rules": rule("query")},
        {"url": "/token", "jwt": {"plan": "free"}, "rules": rule("token")},
        {"url": "/", "property": {"request.url_path": {"prefix": "/property/"}}, "rules": rule("property")},
    ]}));
    let plain = "host: a\r\n";
    assert!(passes(&gateway, "/query?format=json", plain));
    assert!(!passes(&gateway, "/query?format=json&f%6frmat=csv", plain));
    // {"plan":"free"}
    let token = "authorization: Bearer e30.eyJwbGFuIjoiZnJlZSJ9.c2ln\r\n";
    assert!(passes(&gateway, "/token", plain));
    assert!(!passes(&gateway, "/token", &format!("{plain}{token}")));
    assert!(!passes(&gateway, "/token", &format!("{plain}authorization: x\r\n{token}")));
    assert!(passes(&gateway, "/property", plain));
    assert!(!passes(&gateway, "/property/x", plain));
}

#[test]
fn an_actor_may_come_from_anywhere() {
    let limits: Vec<Value> = [
        ("cookie", json!("session")),
        ("query", json!("key")),
        ("jwt", json!("tenant")),
        ("path", json!("second")),
        ("method", json!("verb")),
        ("host", json!("site")),
        ("property", json!("route")),
        ("tuple", json!(["user", "key"])),
    ]
    .into_iter()
    .map(|(name, actor)| json!({"url": format!("/{name}"), "rules": once(name, actor)}))
    .collect();
    let gateway = start(json!({"limits": limits, "actors": {
        "session": {"cookie": "s"}, "key": {"query": "k"}, "tenant": {"jwt": "realm.tenant"}, "second": {"path": 2},
        "verb": "method", "site": {"host": {}}, "route": {"property": ["request", "url_path"]},
    }}));
    // {"realm":{"tenant":"acme"}} and the same with "other".
    let [acme, other] = ["eyJyZWFsbSI6eyJ0ZW5hbnQiOiJhY21lIn19", "eyJyZWFsbSI6eyJ0ZW5hbnQiOiJvdGhlciJ9fQ"]
        .map(|payload| format!("host: a\r\nauthorization: bearer e30.{payload}.sig\r\n"));
    let plain = "host: a\r\n";
    for (first, same, another) in [
        (
            ("/cookie", "host: a\r\ncookie: a=b; s=1\r\n"),
            ("/cookie", "host: a\r\ncookie: s=1\r\n"),
            ("/cookie", "host: a\r\ncookie: s=2\r\n"),
        ),
        (("/query?k=a%62", plain), ("/query?x&k=ab", plain), ("/query?k=b", plain)),
        (("/jwt", &acme), ("/jwt", &acme), ("/jwt", &other)),
        (("/path/a", plain), ("/path/%61/b", plain), ("/path/b", plain)),
        (
            ("/host", "host: A.example:80\r\n"),
            ("/host", "host: a.example\r\n"),
            ("/host", "host: b.example\r\n"),
        ),
        (("/property", plain), ("/property", plain), ("/property/b", plain)),
        (
            ("/tuple?k=1", "host: a\r\nx-user-id: u\r\n"),
            ("/tuple?k=1", "host: a\r\nx-user-id: u\r\n"),
            ("/tuple?k=2", "host: a\r\nx-user-id: u\r\n"),
        ),
    ] {
        assert!(passes(&gateway, first.0, first.1), "{first:?}");
        assert!(!passes(&gateway, same.0, same.1), "{same:?} is the same as {first:?}");
        assert!(passes(&gateway, another.0, another.1), "{another:?} is not {first:?}");
    }
    assert!(passes(&gateway, "/method", plain));
    assert!(!passes(&gateway, "/method", plain));
    assert_eq!(gateway.request("PUT", "/method", &[], b"").unwrap().status, 200);
}

#[test]
fn a_named_segment_of_the_url_is_an_actor() {
    let rule = |name, actor: Value| json!([{"name": name, "actor": actor, "rpu": 1, "unit": "hour", "missing": "deny"}]);
    let gateway = start(json!({
        "limits": [
            {"url": "/tenants/{tenant}/orders", "rules": rule("tenant", json!({"segment": "tenant"}))},
            {"url": "/v2/*/{tenant}", "rules": rule("both", json!(["user", {"segment": "tenant"}]))},
        ],
    }));
    let plain = "host: a\r\n";
    assert!(passes(&gateway, "/tenants/acme/orders", plain));
    for same in [
        "/tenants/acme/orders/7",
        "/tenants/%61cme/orders?q",
        "//tenants/acme/orders",
        "/x/..;/tenants/acme/orders",
        "/tenants/acme;a=1/orders",
    ] {
        assert!(!passes(&gateway, same, plain), "{same}");
    }
    assert!(passes(&gateway, "/tenants/eve/orders", plain));
    assert!(passes(&gateway, "/tenants/acme", plain));
    let user = |name: &str| format!("host: a\r\nx-user-id: {name}\r\n");
    assert!(passes(&gateway, "/v2/x/acme", &user("ann")));
    assert!(!passes(&gateway, "/v2/y/acme", &user("ann")));
    assert!(passes(&gateway, "/v2/x/acme", &user("bob")));
    assert!(passes(&gateway, "/v2/x/eve", &user("ann")));
}

#[test]
fn several_urls_of_one_limit_have_one_count() {
    let gateway = start(json!({"limits": [
        {"url": ["/login", "/oauth/token", "=/reset"], "rules": [{"name": "log-in", "rpu": 3, "unit": "hour"}]},
        {"url": ["/t/{t}", "/v2/*/{t}"], "rules": once("tenant", json!({"segment": "t"}))},
    ]}));
    let plain = "host: a\r\n";
    assert!(passes(&gateway, "/login", plain));
    assert!(passes(&gateway, "/oauth/%74oken/x", plain));
    assert!(passes_over_http2(&gateway, "GET", "//reset"));
    for target in ["/login/x", "/x/..;/oauth/token", "//a/login", "/reset", "/oauth%2Ftoken"] {
        assert!(!passes(&gateway, target, plain), "{target}");
    }
    assert!(passes(&gateway, "/reset/x", plain));
    assert!(passes(&gateway, "/t/acme", plain));
    assert!(!passes(&gateway, "/v2/x/acme", plain));
}

/// `list`, a number and everything else have quotas of their own, whichever way they are spelt.
#[test]
fn segments_with_a_type_are_told_apart() {
    const ID: &str = "0fa5b3de-1c2d-4b6a-9e8f-00112233445a";
    let one = |name| json!([{"name": name, "rpu": 1, "unit": "hour"}]);
    let gateway = start(json!({"limits": [
        {"url": "=/product/list", "exclusive": true, "rules": one("list")},
        {"url": "/product/{id:int}", "exclusive": true, "rules": once("number", json!({"segment": "id"}))},
        {"url": "/product/*", "rules": [{"name": "other", "rpu": 0, "unit": "hour"}]},
        {"url": "/files/{id:uuid}", "rules": once("file", json!({"segment": "id"}))},
        {"url": "/files", "rules": [{"name": "files", "rpu": 3, "unit": "hour"}]},
        {"url": "/{lang:[a-z]{2}}/faq", "rules": one("faq")},
    ]}));
    let plain = "host: a\r\n";
    assert!(passes(&gateway, "/product/list", plain));
    assert!(passes(&gateway, "/product/7", plain));
    assert!(passes_over_http2(&gateway, "GET", "/product/%38/x"));
    for target in ["/product/list/", "/product/./7/x", "/product/8"] {
        assert!(!passes(&gateway, target, plain), "{target}");
        assert!(!passes_over_http2(&gateway, "GET", target), "{target}");
    }
    for target in ["+7", "007", "%207", "7%20", "9;x=1", "9%2F", "9.0", "-0", "list;x=1", "LIST", "%6Cist/x"]
    {
        assert!(!passes(&gateway, &format!("/product/{target}"), plain), "{target}");
    }
    assert!(passes(&gateway, &format!("/files/{ID}"), plain));
    assert!(!passes(&gateway, &format!("/files/{}", ID.to_uppercase()), plain));
    assert!(passes(&gateway, &format!("/files/{}", ID.replace('-', "")), plain));
    assert!(passes(&gateway, "/%64e/faq", plain));
    assert!(!passes(&gateway, "/en/faq", plain));
    assert!(passes(&gateway, "/DE/faq", plain));
}

/// The whole address decides, in either spelling, and the header's beginning chooses nothing.
#[test]
fn networks_are_conditions_and_members_of_plans() {
    let document = json!({
        "plan": {"actor": "ip", "members": {"office": ["10.0.0.0/8", "2001:db8::/32"], "lab": ["10.1.0.0/16", "2001:db8::7"]}},
        "limits": [
            {"url": "/plan", "rules": [{"name": "plan", "algo": "W", "rpu": 1, "unit": "day",
                "plans": {"office": {"rpu": 10}, "lab": {"rpu": 100}}}]},
            {"url": "/in", "ip": ["10.0.0.0/8", "2001:db8::7"], "rules": [{"name": "in", "rpu": 0, "unit": "day"}]},
            {"url": "/out", "ip": {"not": "10.0.0.0/8"}, "rules": [{"name": "out", "rpu": 0, "unit": "day"}]},
        ],
        "ip": {"trusted_hops": 1, "header": "x-client"},
    });
    let gateway = start(document);
    let lines = |client: &str| format!("host: a\r\nx-client: 10.9.9.9\r\nx-client: {client}\r\n");
    for (client, is_in, is_out) in [
        ("10.1.2.3", true, false),
        ("\"[::ffff:10.1.2.3]:80\"", true, false),
        ("2001:db8::7", true, true),
        ("2001:db8::8", false, true),
        ("10.1.2.3, 11.0.0.1", false, true),
    ] {
        assert_eq!(passes(&gateway, "/in", &lines(client)), !is_in, "{client}");
        assert_eq!(passes(&gateway, "/out", &lines(client)), !is_out, "{client}");
    }
    let policy = |client: &str| {
        let request = format!("GET /plan HTTP/1.1\r\n{}\r\n", lines(client));
        let answer = gateway.raw(request.as_bytes()).unwrap().unwrap();
        answer.header("ratelimit-policy").unwrap_or_default().to_owned()
    };
    for (client, rpu) in [
        ("10.1.2.3", 100),
        ("10.2.0.1:99", 10),
        ("[2001:db8::7]:9", 100),
        ("2001:db8::8", 10),
        ("11.0.0.1", 1),
    ] {
        assert!(policy(client).contains(&format!(";q={rpu};")), "{client}: {}", policy(client));
    }
}

/// A backend that ignores case serves `/LOGIN` as `/login`.
#[test]
fn a_limit_in_any_case_has_no_other_spelling() {
    let nothing = |name| json!([{"name": name, "rpu": 0, "unit": "hour"}]);
    let gateway = start(json!({
        "case_sensitive": false,
        "limits": [
            {"url": "/tasks", "rules": nothing("tasks")},
            {"url": "/Exact", "case_sensitive": true, "rules": nothing("exact")},
            {"url": "/t/{t}", "rules": once("tenant", json!({"segment": "t"}))},
            {"url": "/host", "hosts": "Shop.example", "rules": nothing("host")},
            {"url": "/sign-in", "rules": nothing("sign-in")},
        ],
    }));
    let plain = "host: a\r\n";
    for target in [
        "/tasks",
        "/TASKS/x",
        "/%54asks",
        "/x/..;/Tasks",
        "//x/TASKS",
        "/TA%C5%BFKS",
        "/TAS%e2%84%aaS",
        "/S%C4%B0GN-%C4%B1N",
    ] {
        assert!(!passes(&gateway, target, plain), "{target}");
        assert!(!passes_over_http2(&gateway, "GET", target), "{target}");
    }
    assert!(passes(&gateway, "/EXACT", plain));
    assert!(!passes(&gateway, "/Exact", plain));
    assert!(passes(&gateway, "/t/acme", plain));
    assert!(!passes(&gateway, "/T/ACME", plain));
    assert!(!passes(&gateway, "/HOST", "host: sHOP.example:80\r\n"));
    // Envoy refuses hosts with other letters than ASCII, so none of them folds into a host.
    for host in ["\u{17f}hop.example", "shop.exam\u{212a}le"] {
        let request = format!("GET /host HTTP/1.1\r\nhost: {host}\r\n\r\n");
        assert_eq!(gateway.raw(request.as_bytes()).unwrap().unwrap().status, 400, "{host}");
    }
}

/// Proxies in front add lines; a client must not choose its address with a line of its own.
#[test]
fn an_address_list_in_several_lines_is_one_list() {
    let document = json!({
        "limits": [{"url": "/", "rules": once("ip", json!("ip"))}],
        "ip": {"trusted_hops": 1},
    });
    let config = Config { use_remote_address: false, ..Config::new(document) };
    let gateway = Gateway::start(config).unwrap();
    let lines =
        |client: &str| format!("host: a\r\nx-forwarded-for: {client}\r\nx-forwarded-for: 192.0.2.1\r\n");
    assert!(passes(&gateway, "/", &lines("203.0.113.1")));
    assert!(!passes(&gateway, "/", &lines("203.0.113.2")));
    assert!(!passes(&gateway, "/", &lines("203.0.113.3, 203.0.113.4")));
}

/// RFC 7239, in which an open quotation mark would reach to the end of the list.
#[test]
fn an_element_of_forwarded_is_the_client_whatever_stands_before_it() {
    let gateway = start(json!({
        "limits": [{"url": "/", "rules": once("ip", json!("ip"))}],
        "ip": {"trusted_hops": 2, "header": "Forwarded"},
    }));
    let proxies = |own: &str, client: &str| {
        format!(
            "host: a\r\nforwarded: {own}, for={client};proto=https\r\nForwarded: for=\"[2001:db8::1]:80\";by=_p\r\n"
        )
    };
    assert!(passes(&gateway, "/", &proxies("for=203.0.113.1", "192.0.2.1")));
    for own in
        ["for=203.0.113.2", "for=\"", "for=\"\\", "\"\"\"", "for=203.0.113.3, for=\"203.0.113.4", ",,;="]
    {
        assert!(!passes(&gateway, "/", &proxies(own, "192.0.2.1")), "{own}");
        assert!(!passes(&gateway, "/", &proxies(own, "\"192.0.2.1:_x\"")), "{own}");
        assert!(!passes(&gateway, "/", &proxies(own, "\"[::ffff:192.0.2.\\1]:9\"")), "{own}");
    }
    assert!(passes(&gateway, "/", &proxies("for=192.0.2.1", "192.0.2.2")));
    // The gateway's own peer counts for all of these.
    assert!(passes(&gateway, "/", &proxies("for=192.0.2.1", "unknown")));
    for hidden in ["_hidden", "2001:db8::7", "192.0.2.3;for=192.0.2.4", "\"192.0.2.5\"x"] {
        assert!(!passes(&gateway, "/", &proxies("for=192.0.2.1", hidden)), "{hidden}");
    }
    assert!(!passes(&gateway, "/", "host: a\r\n"));
}

/// It is unknown which of two lines a backend uses, so a request with differing lines is counted by
/// address.
#[test]
fn a_header_in_two_lines_evades_no_rule() {
    let gateway = start(json!({"limits": [{"url": "/", "rules": [
        {"name": "user", "actor": "user", "rpu": 1, "unit": "hour"}]}]}));
    assert!(passes(&gateway, "/", "host: a\r\nx-user-id: ann\r\n"));
    assert!(!passes(&gateway, "/", "host: a\r\nx-user-id: ann\r\nx-user-id: ann\r\n"));
    assert!(passes(&gateway, "/", "host: a\r\nx-user-id: ann\r\nx-user-id: bob\r\n"));
    assert!(!passes(&gateway, "/", "host: a\r\nx-user-id: cyd\r\nx-user-id: ann\r\n"));
}

/// A client may send a line of its own in front of the one that a proxy sets.
#[test]
fn an_added_header_line_chooses_nothing() {
    let gateway = start(json!({
        "limits": [
            {"url": "/ip", "rules": once("ip", json!("ip"))},
            {"url": "/cookie", "rules": [
                {"name": "cookie", "actor": "session", "rpu": 1, "unit": "hour", "missing": "share"}]},
            {"url": "/plan", "headers": {"x-plan": "free"}, "rules": [{"name": "plan", "rpu": 0, "unit": "hour"}]},
        ],
        "actors": {"session": {"cookie": "s"}},
        "ip": {"trusted_hops": 1, "header": "x-client-ip"},
    }));
    let ip = |own: &str| format!("host: a\r\nx-client-ip: {own}\r\nx-client-ip: 192.0.2.1\r\n");
    assert!(passes(&gateway, "/ip", &ip("203.0.113.1")));
    assert!(!passes(&gateway, "/ip", &ip("203.0.113.2")));
    let cookie = |own: &str| format!("host: a\r\ncookie: s={own}\r\ncookie: s=ann\r\n");
    assert!(passes(&gateway, "/cookie", &cookie("1")));
    assert!(!passes(&gateway, "/cookie", &cookie("2")));
    assert!(!passes(&gateway, "/plan", "host: a\r\nx-plan: mine\r\nx-plan: free\r\n"));
}

/// Backends disagree on these paths: one reads `/health`, another `/hello`.
#[test]
fn an_unlimited_path_frees_no_other_path() {
    let gateway = start(json!({"limits": [
        {"url": "/", "rules": [{"name": "all", "rpu": 1, "unit": "hour"}]},
        {"url": "/health", "exclusive": true},
    ]}));
    for (target, expected) in [
        ("/health", true),
        ("/hello", true),
        ("/hello", false),
        ("/health/..;/hello", false),
        ("/hello/..%2fhealth", false),
        ("/health/live", true),
    ] {
        assert_eq!(passes(&gateway, target, "host: a\r\n"), expected, "{target}");
    }
}

/// Envoy 1.40 resolves them (CVE-2026-73511, CVE-2026-73551), and backends do behind any Envoy.
#[test]
fn parameters_of_dot_segments_evade_no_limit() {
    let gateway = start(json!({"limits": [
        {"url": "/admin", "rules": [{"name": "admin", "rpu": 0, "unit": "hour"}]},
        {"url": "/", "rules": [{"name": "all", "rpu": 100, "unit": "hour"}]},
        {"url": "/open", "exclusive": true},
    ]}));
    for target in [
        "/a/..;/admin",
        "/a;x/..;y/admin",
        "/.;/admin",
        "/..;x=1/admin;y",
        "/a/%2e%2e;/admin",
        "/open/..;/admin",
    ] {
        assert!(!passes(&gateway, target, "host: a\r\n"), "{target}");
    }
    assert!(passes(&gateway, "/a;x/b", "host: a\r\n"));
}

/// Sends a request without a body over HTTP/2 (RFC 9113). Returns whether the status is 200.
fn passes_over_http2(gateway: &Gateway, method: &str, path: &str) -> bool {
    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    }
    // HPACK (RFC 7541): names of the static table with literal values, and `:scheme: http`.
    let literal =
        |name: u8, value: &str| [&[name, u8::try_from(value.len()).unwrap()], value.as_bytes()].concat();
    let fields = [literal(2, method), literal(4, path), literal(1, "a"), vec![0x86]].concat();
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let parts = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[]), frame(1, 5, 1, &fields)];
    stream.write_all(&parts.concat()).unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        stream.read_exact(&mut payload).unwrap();
        match (head[3], head[8]) {
            // The entry `:status: 200` of the static table.
            (1, 1) => return payload[0] == 0x88,
            (3 | 7, _) => panic!("{method} {path}: the stream is reset"),
            _ => {}
        }
    }
}

/// Envoy passes any method of HTTP/2 to the upstream as it is.
#[test]
fn the_case_of_a_method_evades_no_limit() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let methods = Arc::clone(&seen);
    let upstream = Upstream::start(move |request| {
        methods.lock().unwrap().push(format!("{} {}", request.method, request.path));
        Reply::new(200, "")
    });
    let upstream = upstream.unwrap();
    let document = json!({"limits": [
        {"url": "/post", "methods": ["POST", "QUERY"], "rules": [{"name": "post", "rpu": 0, "unit": "hour"}]},
        {"url": "/free", "rules": [{"name": "all", "rpu": 0, "unit": "hour"}]},
        {"url": "/free", "methods": "POST", "exclusive": true},
        {"url": "/verb", "rules": once("verb", json!("verb"))},
    ], "actors": {"verb": "method"}});
    let gateway =
        Gateway::start(Config { upstream: Some(upstream.address()), ..Config::new(document) }).unwrap();
    for (method, path, expected) in [
        ("post", "/other", true),
        ("POST", "/post", false),
        ("post", "/post", false),
        ("pOsT", "/post", false),
        ("put", "/post", true),
        ("POST", "/free", true),
        ("post", "/free", false),
        ("PUT", "/verb", true),
        ("put", "/verb", false),
        ("Put", "/verb", false),
    ] {
        assert_eq!(passes_over_http2(&gateway, method, path), expected, "{method} {path}");
    }
    let query =
        |path| gateway.request("QUERY", path, &[("content-type", "text/plain")], b"x").unwrap().status;
    assert_eq!((query("/other"), query("/post")), (200, 429));
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen, ["post /other", "put /post", "POST /free", "PUT /verb", "QUERY /other"]);
}

/// Of a token, and of metadata that a filter has made.
#[test]
fn one_element_of_a_list_is_enough() {
    let name = r"https://example\.com/roles";
    let none = |name| json!([{"name": name, "rpu": 0, "unit": "hour"}]);
    let document = json!({
        "plan": {"jwt": name, "first": ["gold", "silver"]},
        "limits": [
            {"url": "/plan", "rules": [{"name": "plan", "algo": "W", "rpu": 1, "unit": "day",
                "plans": {"gold": {"rpu": 100}, "silver": {"rpu": 10}}}]},
            {"url": "/admin", "jwt": {name: {"not": "admin"}}, "rules": none("admin")},
            {"url": "/free", "rules": none("free")},
            {"url": "/free", "jwt": {name: "admin"}, "exclusive": true},
            {"url": "/meta", "property": {"metadata.filter_metadata.auth.roles": "admin"}, "rules": none("meta")},
            {"url": "/other", "property": {"metadata.filter_metadata.auth.roles": "other"}, "rules": none("other")},
            {"url": "/actor", "rules": [{"name": "actor", "actor": "roles", "rpu": 0, "unit": "hour", "missing": "skip"}]},
        ],
        "actors": {"roles": {"property": ["metadata", "filter_metadata", "auth", "roles"]}},
    });
    let metadata = json!({
        "name": "set",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config",
            "metadata": [{"metadata_namespace": "auth", "value": {"roles": ["staff", "admin"]}}],
        },
    });
    let gateway = Gateway::start(Config { before: vec![metadata], ..Config::new(document) }).unwrap();
    // The roles [silver, gold, admin], and [silver].
    let [all, silver] = [
        "eyJodHRwczovL2V4YW1wbGUuY29tL3JvbGVzIjpbInNpbHZlciIsImdvbGQiLCJhZG1pbiJdfQ",
        "eyJodHRwczovL2V4YW1wbGUuY29tL3JvbGVzIjpbInNpbHZlciJdfQ",
    ]
    .map(|payload| format!("host: a\r\nauthorization: Bearer e30.{payload}.c2ln\r\n"));
    let plain = "host: a\r\n".to_owned();
    for (path, lines, expected) in [
        ("/admin", &all, true),
        ("/admin", &silver, false),
        ("/admin", &plain, false),
        ("/free", &all, true),
        ("/free", &silver, false),
        ("/meta", &plain, false),
        ("/other", &plain, true),
        ("/actor", &plain, true),
    ] {
        assert_eq!(passes(&gateway, path, lines), expected, "{path} {lines}");
    }
    for (lines, rpu) in [(&all, 100), (&silver, 10), (&plain, 1)] {
        let request = format!("GET /plan HTTP/1.1\r\n{lines}\r\n");
        let answer = gateway.raw(request.as_bytes()).unwrap().unwrap();
        assert!(answer.header("ratelimit-policy").unwrap().contains(&format!(";q={rpu};")), "{lines}");
    }
}

/// Neither a rare method nor the case of a common one, over HTTP/1.1 and HTTP/2.
#[test]
fn what_a_limit_does_not_exclude_evades_it_in_no_spelling() {
    let none = |name| json!([{"name": name, "rpu": 0, "unit": "hour"}]);
    let gateway = start(json!({"limits": [
        {"url": "/write", "methods": {"not": ["GET", "OPTIONS"]}, "rules": none("writes")},
        {"url": "/host", "hosts": {"not": ["intern.example", "*.intern.example"]}, "rules": none("hosts")},
        {"url": "/plan", "headers": {"x-plan": {"not": ["gold", {"prefix": "staff-"}]}}, "rules": none("plans")},
        {"url": "/free", "rules": none("all")},
        {"url": "/free", "methods": {"not": "POST"}, "exclusive": true},
    ]}));
    for (method, path, expected) in [
        ("GET", "/write", true),
        ("HEAD", "/write", true),
        ("OPTIONS", "/write", true),
        ("get", "/write", false),
        ("Head", "/write", false),
        ("PROPFIND", "/write", false),
        ("QUERY", "/write", false),
        ("post", "/write", false),
        ("GET", "/free", true),
        ("post", "/free", false),
        ("POST", "/free", false),
    ] {
        assert_eq!(passes_over_http2(&gateway, method, path), expected, "{method} {path}");
    }
    for method in ["PROPFIND", "LOCK", "DELETE", "PURGE"] {
        assert_eq!(gateway.request(method, "/write", &[], b"").unwrap().status, 429, "{method}");
    }
    for (lines, expected) in [
        ("host: intern.example\r\n", true),
        ("host: A.Intern.example.:8443\r\n", true),
        ("host: intern.example..\r\n", false),
        ("host: intern.example.evil.example\r\n", false),
        ("host: evil.example\r\nx-forwarded-host: intern.example\r\n", false),
    ] {
        assert_eq!(passes(&gateway, "/host", lines), expected, "{lines}");
    }
    for (lines, expected) in [
        ("x-plan: gold\r\n", true),
        ("x-plan:\tstaff-7 \r\n", true),
        ("x-plan: GOLD\r\n", false),
        ("x-plan: gold\r\nX-Plan: free\r\n", false),
        ("x-plan:\r\n", false),
        ("", false),
    ] {
        assert_eq!(passes(&gateway, "/plan", &format!("host: a\r\n{lines}")), expected, "{lines}");
    }
}

/// Envoy sends each hop of an internal redirect through all filters, with the hop's own path.
#[test]
fn an_internal_redirect_counts_once_per_hop() {
    let upstream = Upstream::start(|request| match &*request.path {
        "/old" => Reply::new(302, "").header("location", "http://a/new"),
        _ => Reply::new(200, "here"),
    });
    let upstream = upstream.unwrap();
    let document = json!({"limits": [
        {"url": "/", "rules": [{"name": "all", "algo": "W", "rpu": 4, "unit": "day"}]},
        {"url": "/new", "rules": [{"name": "new", "algo": "W", "rpu": 1, "unit": "day"}]}]});
    let hops = json!({
        "match": {"prefix": "/"},
        "route": {"cluster": "upstream", "internal_redirect_policy": {"max_internal_redirects": 2}},
    });
    let config = Config { upstream: Some(upstream.address()), routes: vec![hops], ..Config::new(document) };
    let gateway = Gateway::start(config).unwrap();
    assert!(passes(&gateway, "/old", "host: a\r\n"), "two of four, and the one of `/new`");
    // The second hop is refused by its own path. The first hop stays charged.
    assert!(!passes(&gateway, "/old", "host: a\r\n"), "three of four");
    assert!(passes(&gateway, "/other", "host: a\r\n"), "four of four");
    assert!(!passes(&gateway, "/other", "host: a\r\n"));
}
