//! What a client, an access log and a metrics scraper receive.

use crate::global::in_redis;
use crate::{limits, start};
use gateway::{Carrier, Config, Gateway, Redis};
use serde_json::{Value, json};
use std::mem::replace;
use std::time::{Duration, Instant};

#[test]
fn responses_carry_the_quota() {
    let gateway = start(limits(json!([
        {"name": "hour", "actor": "ip", "rpu": 100, "unit": "hour"},
        {"name": "minute", "actor": "ip", "rpu": 1, "unit": "minute"},
    ])));
    let passed = gateway.get("/", &[]).unwrap();
    let policy = r#""minute";q=1;w=60, "hour";q=100;w=3600"#;
    assert_eq!((passed.status, passed.header("ratelimit-policy")), (200, Some(policy)));
    assert_eq!(passed.header("ratelimit"), Some(r#""minute";r=0;t=60, "hour";r=99;t=36"#));
    assert_eq!(passed.header("retry-after"), None);

    let refused = gateway.get("/", &[]).unwrap();
    assert_eq!((refused.status, refused.header("ratelimit-policy")), (429, Some(policy)));
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((55..=72).contains(&wait), "a minute and up to a fifth of it, not {wait} s");
    let body: Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(body["violated-policies"], json!(["minute"]));
    assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
}

#[test]
fn a_refusal_is_as_configured() {
    let gateway = start(json!({
        "limits": [{"url": "/", "rules": [{"name": "none", "rpu": 0, "unit": "hour"}]}],
        "response": {"status": 503, "body": "later", "headers": {"x-reason": "limit"}, "jitter": "0%"},
        "headers": "x-ratelimit",
    }));
    let refused = gateway.get("/", &[]).unwrap();
    assert_eq!((refused.status, refused.text().as_str()), (503, "later"));
    assert_eq!(refused.header("x-reason"), Some("limit"));
    assert_eq!(refused.header("retry-after"), None, "no wait helps");
    assert_eq!(refused.header("x-ratelimit-limit"), Some(r#"0, 0;w=3600;name="none""#));
    assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(refused.header("ratelimit"), None);
}

/// An empty gRPC message: not compressed, no bytes.
const MESSAGE: &[u8] = &[0; 5];

#[test]
fn a_grpc_client_gets_resource_exhausted() {
    let gateway = start(limits(json!([{"name": "none", "rpu": 0, "unit": "hour"}])));
    let headers = [("content-type", "application/grpc+proto"), ("te", "trailers")];
    let refused = gateway.request("POST", "/pkg.Service/Method", &headers, MESSAGE).unwrap();
    assert_eq!((refused.status, refused.header("grpc-status")), (200, Some("8")));
    assert!(refused.body.is_empty());
}

#[test]
fn every_kind_of_refusal_is_as_configured() {
    let gateway = start(json!({
        "limits": [
            {"url": "/", "rules": [
                {"name": "known", "actor": "user", "rpu": 100, "unit": "hour",
                 "missing": {"action": "deny", "response": {"status": 401,
                     "headers": {"www-authenticate": "Bearer realm=\"api\""}}}},
            ]},
            {"url": "/closed", "rules": [{"name": "closed", "rpu": 0, "unit": "hour"}],
             "response": {"status": 403}},
        ],
        "deny": {"members": [{"user": "mallory"}], "response": {"status": 403, "headers": {"x-why": "list"}}},
    }));
    let grpc = ("content-type", "application/grpc");
    for (path, user, status, challenge, why, grpc_status) in [
        ("/", None, 401, Some("Bearer realm=\"api\""), None, "16"),
        ("/closed", Some("ann"), 403, None, None, "7"),
        ("/", Some("mallory"), 403, None, Some("list"), "7"),
    ] {
        let user: Vec<(&str, &str)> = user.map(|user| ("x-user-id", user)).into_iter().collect();
        let refused = gateway.get(path, &user).unwrap();
        assert_eq!((refused.status, refused.header("retry-after")), (status, None), "{path} {user:?}");
        assert_eq!(refused.header("www-authenticate"), challenge);
        assert_eq!(refused.header("x-why"), why);
        let headers = [&user[..], &[grpc, ("te", "trailers")]].concat();
        let refused = gateway.request("POST", path, &headers, MESSAGE).unwrap();
        assert_eq!((refused.status, refused.header("grpc-status")), (200, Some(grpc_status)), "{path}");
    }
    assert_eq!(gateway.get("/", &[("x-user-id", "ann")]).unwrap().status, 200);
}

#[test]
fn metrics_and_the_access_log_name_the_rule() {
    let document = json!({
        "limits": [{"url": "/", "rules": [
            {"name": "enforced", "actor": "user", "rpu": 1, "unit": "hour"},
            {"name": "watched", "actor": "user", "rpu": 1, "unit": "day", "mode": "shadow"},
        ]}],
        "allow": [{"user": "root"}],
        "deny": [{"user": "mallory"}],
    });
    let format = "%REQ(X-USER-ID)% %RESPONSE_CODE% %FILTER_STATE(wasm.diana.rule:PLAIN)% \
        %FILTER_STATE(wasm.diana.shadow:PLAIN)% %RESPONSE_CODE_DETAILS%";
    let config = Config { access_log: Some(format.into()), ..Config::new(document) };
    let gateway = Gateway::start(config).unwrap();
    for (user, status) in [("ann", 200), ("ann", 429), ("root", 200), ("root", 200), ("mallory", 429)] {
        assert_eq!(gateway.get("/", &[("x-user-id", user)]).unwrap().status, status, "{user}");
    }
    assert_eq!(
        gateway.access_log_of(5).unwrap(),
        [
            "ann 200 - - via_upstream",
            "ann 429 enforced watched diana_refused:enforced",
            "root 200 - - via_upstream",
            "root 200 - - via_upstream",
            "mallory 429 deny - diana_denied",
        ]
    );
    let stats = gateway.stats().unwrap();
    let count = |rule, result| stats.sum("diana_requests", &[("rule", rule), ("result", result)]);
    assert_eq!((count("enforced", "ok"), count("enforced", "refused")), (1, 1));
    assert_eq!((count("watched", "ok"), count("watched", "shadow")), (1, 1));
    assert_eq!((count("allow", "ok"), count("deny", "refused")), (2, 1));
}

/// From the first refusal on: the worker answers most of the others from its cache.
#[test]
fn each_refusal_shows_the_rules_of_the_first_one() {
    let redis = Redis::start().unwrap();
    let limit = |scope: &str| {
        json!({"url": format!("/{scope}"), "rules": [
            {"name": format!("{scope}-own"), "actor": "user", "scope": scope, "rpu": 1, "unit": "hour"},
            {"name": format!("{scope}-all"), "scope": scope, "rpu": 100, "unit": "hour"},
            {"name": format!("{scope}-seen"), "scope": scope, "rpu": 1, "unit": "day", "mode": "shadow"},
        ]})
    };
    let document = json!({
        "limits": [limit("local"), limit("global")],
        "store": in_redis(json!({"replicas": 1})),
    });
    let format = "%RESPONSE_CODE% %FILTER_STATE(wasm.diana.shadow:PLAIN)%";
    let config = Config { concurrency: 1, access_log: Some(format.into()), ..Config::new(document) };
    let gateway = Gateway::start(Carrier::Bridge.lead(config, redis.address(), &json!({})).unwrap()).unwrap();
    let mut known = 0;
    for scope in ["local", "global"] {
        let ask = || gateway.get(&format!("/{scope}"), &[("x-user-id", "ann")]).unwrap();
        assert_eq!(ask().status, 200);
        for _ in 0..9 {
            let refused = ask();
            let policy = format!(r#""{scope}-own";q=1;w=3600, "{scope}-all";q=100;w=3600"#);
            assert_eq!((refused.status, refused.header("ratelimit-policy")), (429, Some(&*policy)));
            let left = refused.header("ratelimit").unwrap();
            assert!(left.contains(&format!(r#""{scope}-all";r=99;t="#)), "{left}");
            let body: Value = serde_json::from_slice(&refused.body).unwrap();
            assert_eq!(body["violated-policies"], json!([format!("{scope}-own")]));
        }
        let stats = gateway.stats().unwrap();
        let before = replace(&mut known, stats.sum("diana_cached_refusals", &[]));
        assert!(known > before, "{scope}: none from the cache");
        let count = |rule: &str, result| {
            stats.sum("diana_requests", &[("rule", &format!("{scope}-{rule}")), ("result", result)])
        };
        assert_eq!((count("own", "refused"), count("all", "ok"), count("seen", "shadow")), (9, 1, 9));
    }
    let log = gateway.access_log_of(20).unwrap();
    for (line, scope) in [(0, "local"), (10, "global")] {
        assert_eq!(log[line], "200 -");
        assert_eq!(log[line + 1..line + 10], [&*format!("429 {scope}-seen"); 9]);
    }
}

#[test]
fn rules_in_shadow_report_whom_they_would_delay() {
    let redis = Redis::start().unwrap();
    let limit = |path: &str, more: Option<Value>| {
        let mut rules = vec![
            json!({"name": format!("{path}-queue"), "algo": "LB", "rpu": 1, "unit": "minute", "queue": 9, "mode": "shadow"}),
            json!({"name": format!("{path}-lent"), "rpu": 1, "unit": "minute", "burst": 1, "max_wait": "10m", "mode": "shadow"}),
        ];
        rules.extend(more);
        json!({"url": format!("/{path}"), "rules": rules})
    };
    let shared = json!({"name": "shared", "scope": "global", "rpu": 2, "unit": "hour"});
    let document = json!({
        "limits": [limit("alone", None), limit("beside", Some(shared))],
        "store": in_redis(json!({"replicas": 1})),
    });
    let format = "%RESPONSE_CODE% %FILTER_STATE(wasm.diana.delayed:PLAIN)% \
        %FILTER_STATE(wasm.diana.shadow:PLAIN)% %FILTER_STATE(wasm.diana.rule:PLAIN)%";
    let config = Config { access_log: Some(format.into()), ..Config::new(document) };
    let gateway = Gateway::start(Carrier::Bridge.lead(config, redis.address(), &json!({})).unwrap()).unwrap();
    for (path, status) in [("alone", 200), ("alone", 200), ("beside", 200), ("beside", 200), ("beside", 429)]
    {
        let begun = Instant::now();
        assert_eq!(gateway.get(&format!("/{path}"), &[]).unwrap().status, status);
        assert!(begun.elapsed() < Duration::from_secs(30), "a minute is the turn of the second request");
    }
    assert_eq!(
        gateway.access_log_of(5).unwrap(),
        [
            "200 - - -",
            "200 alone-queue,alone-lent - -",
            "200 - - -",
            "200 beside-queue,beside-lent - -",
            "429 - - shared",
        ]
    );
    let stats = gateway.stats().unwrap();
    let count = |rule, result| stats.sum("diana_requests", &[("rule", rule), ("result", result)]);
    for rule in ["alone-queue", "alone-lent", "beside-queue", "beside-lent"] {
        assert_eq!((count(rule, "ok"), count(rule, "delayed"), count(rule, "shadow")), (1, 1, 0), "{rule}");
    }
    let decided = |outcome| stats.sum("diana_decisions", &[("outcome", outcome)]);
    assert_eq!((decided("passed"), decided("delayed"), decided("refused")), (4, 0, 1));
}

#[test]
fn plain_headers_are_numbers_of_the_tightest_rule() {
    let mut document = limits(json!([
        {"name": "hour", "actor": "ip", "rpu": 100, "unit": "hour"},
        {"name": "minute", "actor": "ip", "rpu": 1, "unit": "minute"},
    ]));
    document["headers"] = json!("x-ratelimit-plain");
    let gateway = start(document);
    for status in [200, 429, 429] {
        let response = gateway.get("/", &[]).unwrap();
        let of = |name: &str| response.header(&format!("x-ratelimit-{name}"));
        assert_eq!((response.status, of("limit"), of("remaining")), (status, Some("1"), Some("0")));
        let reset: u64 = of("reset").unwrap().parse().unwrap();
        assert!((50..=60).contains(&reset), "{reset}");
        assert_eq!((response.header("ratelimit"), response.header("ratelimit-policy")), (None, None));
        assert_eq!(response.header("retry-after").is_some(), status == 429);
    }
}

#[test]
fn a_hidden_rule_shows_only_when_to_return() {
    let rules = json!([
        {"name": "seen", "actor": "user", "rpu": 100, "unit": "minute"},
        {"name": "secret", "actor": "user", "rpu": 1, "unit": "hour", "shown": false},
    ]);
    let format = "%RESPONSE_CODE% %FILTER_STATE(wasm.diana.rule:PLAIN)%";
    let gateway = Gateway::start(Config {
        access_log: Some(format.into()),
        ..Config::new(json!({"limits": [{"url": "/", "rules": rules}], "headers": "both"}))
    });
    let gateway = gateway.unwrap();
    let grpc = [("content-type", "application/grpc"), ("te", "trailers")];
    let connect = [("content-type", "application/json"), ("connect-protocol-version", "1")];
    let mut forms = Vec::new();
    for (kind, headers, body) in [
        ("http", &[][..], &b""[..]),
        ("http", &[], b""),
        ("grpc", &grpc, MESSAGE),
        ("connect", &connect, b"{}"),
    ] {
        let headers = [&[("x-user-id", "ann")], headers].concat();
        let response = gateway.request("POST", "/t.S/Call", &headers, body).unwrap();
        for (name, value) in &response.headers {
            assert!(!value.contains("secret"), "{name}: {value}");
        }
        assert!(!response.text().contains("secret"), "{}", response.text());
        assert_eq!(response.header("ratelimit-policy"), Some(r#""seen";q=100;w=60"#));
        if !forms.is_empty() {
            let wait: u64 = response.header("retry-after").unwrap().parse().unwrap();
            assert!(wait > 3000, "{wait}");
        }
        forms.push((kind, response.status));
        match kind {
            "grpc" => {
                assert_eq!(response.header("grpc-message"), Some("diana_refused"));
                assert_eq!(response.header("grpc-retry-pushback-ms"), Some("-1"));
            }
            "connect" => {
                let body: Value = serde_json::from_slice(&response.body).unwrap();
                assert_eq!(body, json!({"code": "resource_exhausted", "message": "diana_refused"}));
            }
            _ if response.status == 429 => {
                let body: Value = serde_json::from_slice(&response.body).unwrap();
                assert_eq!(body["violated-policies"], json!([]));
            }
            _ => {}
        }
    }
    assert_eq!(forms, [("http", 200), ("http", 429), ("grpc", 200), ("connect", 429)]);
    assert_eq!(gateway.access_log_of(4).unwrap()[1], "429 secret", "the operator sees it");
}

#[test]
fn openais_headers_have_requests_and_tokens() {
    let mut document = limits(json!([
        {"name": "requests", "actor": "user", "rpu": 60, "unit": "minute"},
        {"name": "tokens", "actor": "user", "rpu": 1000, "unit": "minute",
         "cost": {"header": "x-tokens", "max": 1000}},
        {"name": "bytes", "actor": "user", "rpu": 5000, "unit": "minute", "cost": "request_bytes"},
    ]));
    (document["headers"], document["response"]) = (json!(["ietf", "openai"]), json!({"jitter": "0%"}));
    let gateway = start(document);
    let get = |tokens: &str| gateway.get("/v1", &[("x-user-id", "ann"), ("x-tokens", tokens)]).unwrap();
    let passed = get("500");
    let of = |name: &str| passed.header(&format!("x-ratelimit-{name}"));
    assert_eq!((passed.status, passed.header("retry-after-ms")), (200, None));
    assert_eq!([of("limit-requests"), of("remaining-requests")], [Some("60"), Some("59")]);
    assert_eq!((of("reset-requests"), of("reset-tokens")), (Some("1s"), Some("30s")));
    assert_eq!([of("limit-tokens"), of("remaining-tokens")], [Some("1000"), Some("500")]);
    assert!(passed.header("ratelimit-policy").unwrap().contains(r#""bytes";q=5000"#));
    let refused = get("1000");
    let ms: u64 = refused.header("retry-after-ms").unwrap().parse().unwrap();
    assert!((20_000..=30_000).contains(&ms), "{ms}");
    assert_eq!(refused.header("x-should-retry"), Some("true"));
    assert_eq!(refused.header("retry-after"), Some(&*ms.div_ceil(1000).to_string()));
    let other = gateway.get("/v1", &[("x-tokens", "2000")]).unwrap();
    assert_eq!((other.status, other.header("x-should-retry")), (200, None));
}

#[test]
fn a_rule_in_shadow_refuses_nobody() {
    let rules = json!([{"name": "watched", "rpu": 1, "unit": "hour"}]);
    let gateway = start(json!({"mode": "shadow", "limits": [{"url": "/", "rules": rules}]}));
    for _ in 0..5 {
        let passed = gateway.get("/", &[]).unwrap();
        assert_eq!((passed.status, passed.header("ratelimit")), (200, None));
    }
    let stats = gateway.stats().unwrap();
    assert_eq!(stats.sum("diana_requests", &[("rule", "watched"), ("result", "shadow")]), 4);
}

#[test]
fn the_client_is_the_trusted_entry_of_the_header() {
    let rules = json!([{"name": "ip", "actor": "ip", "rpu": 1, "unit": "hour"}]);
    let document = json!({"limits": [{"url": "/", "rules": rules}], "ip": {"trusted_hops": 1}});
    let config = Config { use_remote_address: false, ..Config::new(document) };
    let gateway = Gateway::start(config).unwrap();
    for (forwarded, status) in [
        ("192.0.2.1", 200),
        ("192.0.2.1", 429),
        ("203.0.113.9, 192.0.2.1", 429),
        ("192.0.2.2", 200),
        ("2001:db8::1", 200),
        ("2001:db8::2", 429),
        ("::ffff:192.0.2.2", 429),
    ] {
        let answer = gateway.get("/", &[("x-forwarded-for", forwarded)]).unwrap();
        assert_eq!(answer.status, status, "{forwarded}");
    }
}

/// `actor: ip` is the client that Envoy itself finds by its own settings.
#[test]
fn the_client_is_the_one_that_envoy_finds() {
    let rules = json!([{"name": "ip", "actor": "ip", "rpu": 1, "unit": "hour"}]);
    let document = json!({"limits": [{"url": "/", "rules": rules}]});

    let cidr = |address: &str, length| json!({"address_prefix": address, "prefix_len": length});
    let manager = json!({"original_ip_detection_extensions": [{
        "name": "envoy.http.original_ip_detection.xff",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.http.original_ip_detection.xff.v3.XffConfig",
            "xff_trusted_cidrs": {"cidrs": [cidr("127.0.0.0", 8), cidr("10.0.0.0", 8)]},
        },
    }]});
    let config = Config { use_remote_address: false, manager, ..Config::new(document.clone()) };
    let gateway = Gateway::start(config).unwrap();
    for (forwarded, status) in [
        ("192.0.2.1", 200),
        ("203.0.113.9, 192.0.2.1, 10.0.0.1, 10.0.0.2", 429),
        ("192.0.2.1, 192.0.2.2, 10.0.0.1", 200),
    ] {
        let answer = gateway.get("/", &[("x-forwarded-for", forwarded)]).unwrap();
        assert_eq!(answer.status, status, "{forwarded}");
    }

    let protocol = "type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol";
    let listener_filters =
        vec![json!({"name": "envoy.filters.listener.proxy_protocol", "typed_config": {"@type": protocol}})];
    let gateway = Gateway::start(Config { listener_filters, ..Config::new(document) }).unwrap();
    for (client, status) in [("192.0.2.1", 200), ("192.0.2.1", 429), ("192.0.2.2", 200)] {
        let request = format!(
            "PROXY TCP4 {client} 127.0.0.1 4000 80\r\nGET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 1.2.3.4\r\n\r\n"
        );
        assert_eq!(gateway.raw(request.as_bytes()).unwrap().unwrap().status, status, "{client}");
    }
}

/// Only Envoy's own limiters set the flag and the header.
#[test]
fn a_refusal_has_no_mark_of_envoys_limiters() {
    let format = "%RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS%";
    let rules = json!([{"name": "none", "rpu": 0, "unit": "hour"}]);
    let config = Config { access_log: Some(format.into()), ..Config::new(limits(rules)) };
    let gateway = Gateway::start(config).unwrap();
    let refused = gateway.get("/", &[]).unwrap();
    assert_eq!((refused.status, refused.header("x-envoy-ratelimited")), (429, None));
    assert_eq!(gateway.access_log_of(1).unwrap(), ["429 - diana_refused:none"]);
}
