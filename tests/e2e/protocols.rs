//! What a client of each protocol sees of a refusal, with Diana before and behind the filters that
//! rewrite requests and responses.

use crate::{limits, start};
use gateway::config::cluster;
use gateway::{Config, Gateway, Response, Shell, root};
use serde_json::{Value, json};
use servers::Processor;
use std::fs;

/// An empty gRPC message: not compressed, no bytes.
const MESSAGE: &[u8] = &[0; 5];

/// The FileDescriptorSet of a service `t.S` whose method `Call` has an empty message both ways.
const DESCRIPTOR: &str = "CjIKB3QucHJvdG8SAXQiAwoBTTIXCgFTEhIKBENhbGwSBC50Lk0aBC50Lk1iBnByb3RvMw==";

/// The path of the method.
const CALL: &str = "/t.S/Call";

fn nothing() -> Value {
    limits(json!([{"name": "none", "rpu": 0, "unit": "hour"}]))
}

fn filter(name: &str, message: &str, fields: Value) -> Value {
    let mut typed = json!({"@type": format!("type.googleapis.com/envoy.extensions.filters.http.{message}")});
    for (key, value) in fields.as_object().into_iter().flatten() {
        typed[key] = value.clone();
    }
    json!({"name": format!("envoy.filters.http.{name}"), "typed_config": typed})
}

fn grpc_web() -> Value {
    filter("grpc_web", "grpc_web.v3.GrpcWeb", json!({}))
}

fn transcoder() -> Value {
    let fields = json!({"proto_descriptor_bin": DESCRIPTOR, "services": ["t.S"], "auto_mapping": true});
    filter("grpc_json_transcoder", "grpc_json_transcoder.v3.GrpcJsonTranscoder", fields)
}

fn gateway(document: Value, before: Vec<Value>, behind: Vec<Value>) -> Gateway {
    Gateway::start(Config { before, behind, ..Config::new(document) }).unwrap()
}

/// The status, the gRPC status, and the content type of a response.
fn form(response: &Response) -> (u16, Option<&str>, Option<&str>) {
    (response.status, response.header("grpc-status"), response.header("content-type"))
}

const GRPC: (u16, Option<&str>, Option<&str>) = (200, Some("8"), Some("application/grpc"));

#[test]
fn a_grpc_request_that_ends_with_its_headers_is_refused_as_grpc() {
    let gateway = start(nothing());
    for content_type in ["application/grpc", "application/grpc+proto"] {
        let headers = [("content-type", content_type), ("te", "trailers")];
        for refused in [gateway.get(CALL, &headers), gateway.request("POST", CALL, &headers, b"")] {
            let refused = refused.unwrap();
            assert_eq!(form(&refused), GRPC, "{content_type}");
            assert_eq!(refused.header("grpc-message"), Some("diana_refused:none"));
            assert_eq!(refused.header("grpc-retry-pushback-ms"), Some("-1"));
            assert_eq!(refused.body, b"");
        }
    }
    let plain = gateway.get("/", &[]).unwrap();
    assert_eq!(form(&plain), (429, None, Some("application/problem+json")));
}

#[test]
fn a_grpc_web_client_gets_resource_exhausted() {
    let refused = |gateway: &Gateway, content_type| {
        let headers = [("content-type", content_type), ("x-grpc-web", "1")];
        gateway.request("POST", CALL, &headers, MESSAGE).unwrap()
    };
    let alone = start(nothing());
    let behind = gateway(nothing(), vec![grpc_web()], Vec::new());
    let before = gateway(nothing(), Vec::new(), vec![grpc_web()]);
    for gateway in [&alone, &behind, &before] {
        for content_type in ["application/grpc-web", "application/grpc-web+proto"] {
            let refused = refused(gateway, content_type);
            assert_eq!(form(&refused), (200, Some("8"), Some("application/grpc-web+proto")));
            assert_eq!(refused.header("grpc-message"), Some("diana_refused:none"));
            let trailers = "grpc-status:8\r\ngrpc-message:diana_refused:none\r\n";
            let frame =
                [&[0x80, 0, 0, 0, u8::try_from(trailers.len()).unwrap()], trailers.as_bytes()].concat();
            assert!(refused.body.is_empty() || refused.body == frame, "{:?}", refused.text());
        }
    }
}

/// A document whose body is recognised.
fn with_body() -> Value {
    let mut document = nothing();
    document["response"] = json!({"body": "{\"why\":1}", "content_type": "application/json"});
    document
}

#[test]
fn a_rest_client_of_a_transcoder_gets_the_configured_body() {
    let json = ("content-type", "application/json");
    for (before, behind) in [(vec![transcoder()], Vec::new()), (Vec::new(), vec![transcoder()])] {
        let format = "%RESPONSE_CODE% %FILTER_STATE(wasm.diana.rule:PLAIN)%";
        let config = Config { before, behind, access_log: Some(format.into()), ..Config::new(with_body()) };
        let gateway = Gateway::start(config).unwrap();
        let refused = gateway.request("POST", CALL, &[json], b"{}").unwrap();
        assert_eq!(form(&refused), (429, None, Some("application/json")));
        assert_eq!((refused.header("grpc-message"), refused.text().as_str()), (None, "{\"why\":1}"));
        assert_eq!(gateway.access_log_of(1).unwrap(), ["429 none"]);
        // A gRPC client that reaches the same gateway.
        let headers = [("content-type", "application/grpc"), ("te", "trailers")];
        assert_eq!(form(&gateway.request("POST", CALL, &headers, MESSAGE).unwrap()), GRPC);
    }
}

#[test]
fn a_forged_header_of_the_transcoder_makes_no_success() {
    let gateway = start(with_body());
    let forged = [
        ("x-envoy-original-method", "GET"),
        ("x-envoy-original-path", "/"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let refused = gateway.request("POST", CALL, &forged, MESSAGE).unwrap();
    let expected = match Shell::of_run() {
        Shell::Wasm => GRPC,
        Shell::Native => (429, None, Some("application/json")),
    };
    assert_eq!(form(&refused), expected);
    // The path alone is that of a gateway in front that rewrites prefixes.
    let refused = gateway.request("POST", CALL, &forged[1..], MESSAGE).unwrap();
    assert_eq!(form(&refused), GRPC);
    let next = gateway.get("/", &[]).unwrap();
    assert_eq!(form(&next), (429, None, Some("application/json")), "the connection or worker goes on");
}

#[test]
fn a_client_of_connect_gets_an_error_of_connect() {
    let gateway = start(nothing());
    let error = json!({"code": "resource_exhausted", "message": "diana_refused:none"});
    let parsed = |bytes: &[u8]| -> Value { serde_json::from_slice(bytes).unwrap() };
    for (content_type, body) in [("application/json", &b"{}"[..]), ("application/proto", b"")] {
        let headers = [("content-type", content_type), ("connect-protocol-version", "1")];
        let refused = gateway.request("POST", CALL, &headers, body).unwrap();
        assert_eq!(form(&refused), (429, None, Some("application/json")), "{content_type}");
        assert_eq!(parsed(&refused.body), error);
    }
    let refused = gateway.get(&format!("{CALL}?connect=v1&encoding=json&message=%7B%7D"), &[]).unwrap();
    assert_eq!((refused.status, parsed(&refused.body)), (429, error.clone()));
    for content_type in ["application/connect+json", "application/connect+proto"] {
        let headers = [("content-type", content_type), ("connect-protocol-version", "1")];
        let refused = gateway.request("POST", CALL, &headers, MESSAGE).unwrap();
        assert_eq!(form(&refused), (200, None, Some(content_type)));
        let (head, message) = refused.body.split_at(5);
        assert_eq!(head, [2, 0, 0, 0, u8::try_from(message.len()).unwrap()], "the end of the stream");
        assert_eq!(parsed(message), json!({"error": error}));
    }
    // An ordinary client that sends JSON.
    let plain = gateway.request("POST", "/", &[("content-type", "application/json")], b"{}").unwrap();
    assert_eq!(form(&plain), (429, None, Some("application/problem+json")));
}

/// Rules that read the length of the body, and limits on requests below the path of `inspect`
/// without a token.
#[test]
fn rules_of_bodies_and_of_questions_refuse_in_the_clients_protocol() {
    let of_size =
        json!([{"url": "/", "body_size": {"min": 1}, "rules": [{"name": "none", "rpu": 0, "unit": "hour"}]}]);
    let of_bytes =
        json!([{"url": "/", "rules": [{"name": "none", "rpu": 0, "unit": "hour", "cost": "request_bytes"}]}]);
    let mut of_questions = nothing();
    of_questions["inspect"] = json!({"path": "/t.S", "token": "4f1d8a0c6be94ce2a7f35d2b90e1c7a8"});
    for document in [json!({"limits": of_size}), json!({"limits": of_bytes}), of_questions] {
        let alone = start(document.clone());
        let behind = gateway(document.clone(), vec![grpc_web()], Vec::new());
        let refused = |gateway: &Gateway, content_type, connect: bool, body| {
            let mut headers = vec![("content-type", content_type)];
            headers.extend(connect.then_some(("connect-protocol-version", "1")));
            gateway.request("POST", CALL, &headers, body).unwrap()
        };
        for gateway in [&alone, &behind] {
            let web = refused(gateway, "application/grpc-web+proto", false, MESSAGE);
            assert_eq!(form(&web), (200, Some("8"), Some("application/grpc-web+proto")), "{document}");
            assert_eq!(web.header("grpc-message"), Some("diana_refused:none"));
            let error = json!({"code": "resource_exhausted", "message": "diana_refused:none"});
            let unary = refused(gateway, "application/json", true, b"{}");
            assert_eq!(form(&unary), (429, None, Some("application/json")), "{document}");
            assert_eq!(serde_json::from_slice::<Value>(&unary.body).unwrap(), error);
            let stream = refused(gateway, "application/connect+json", true, MESSAGE);
            assert_eq!(form(&stream), (200, None, Some("application/connect+json")), "{document}");
            assert_eq!(serde_json::from_slice::<Value>(&stream.body[5..]).unwrap(), json!({"error": error}));
        }
    }
}

/// What a client sends.
#[derive(Clone, Copy)]
enum Client {
    Browser,
    Grpc,
    GrpcWeb,
    Rest,
    WithoutSession,
    WithoutToken,
}

impl Client {
    fn name(self) -> &'static str {
        match self {
            Client::Browser => "a browser of another origin",
            Client::Grpc => "gRPC",
            Client::GrpcWeb => "gRPC-Web",
            Client::Rest => "REST",
            Client::WithoutSession => "a browser without a session",
            Client::WithoutToken => "REST without a token",
        }
    }

    fn ask(self, gateway: &Gateway) -> Response {
        let bearer = format!("Bearer {JWT}");
        let (content_type, body) = match self {
            Client::Browser | Client::Rest => ("application/json", &b"{}"[..]),
            Client::WithoutSession | Client::WithoutToken => {
                return gateway.get(CALL, &[("accept", "text/html")]).unwrap();
            }
            Client::Grpc => ("application/grpc", MESSAGE),
            Client::GrpcWeb => ("application/grpc-web+proto", MESSAGE),
        };
        let mut headers = vec![("content-type", content_type)];
        match self {
            Client::Browser => headers.push(("origin", ORIGIN)),
            Client::Grpc => headers.push(("te", "trailers")),
            Client::Rest => headers.push(("authorization", &bearer)),
            _ => {}
        }
        gateway.request("POST", CALL, &headers, body).unwrap()
    }
}

const ORIGIN: &str = "https://app.example.com";

/// A token of `{"iss":"shop","sub":"ann"}` by HS256, and the key that verifies it.
const JWT: &str =
    "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJzaG9wIiwic3ViIjoiYW5uIn0.RKmVuXu2Pa2ZrMz6WwwGwhx1UDUO9-OK9QhLjZRpnik";
const JWKS: &str =
    r#"{"keys":[{"kty":"oct","alg":"HS256","k":"YSBzZWNyZXQgb2YgYXQgbGVhc3QgMzIgYnl0ZXMuLi4"}]}"#;

/// A filter that lets requests with the token pass.
fn jwt_authn() -> Value {
    let fields = json!({
        "providers": {"shop": {"issuer": "shop", "local_jwks": {"inline_string": JWKS}}},
        "rules": [{"match": {"prefix": "/"}, "requires": {"provider_name": "shop"}}],
    });
    filter("jwt_authn", "jwt_authn.v3.JwtAuthentication", fields)
}

/// A filter that sends clients without a session to a login.
fn oauth2() -> Value {
    let path = |path: &str| json!({"path": {"exact": path}});
    let config = json!({
        "token_endpoint": {"uri": "http://upstream/token", "cluster": "upstream", "timeout": "30s"},
        "authorization_endpoint": "https://login.example.com/authorize",
        "redirect_uri": "https://shop.example.com/callback",
        "redirect_path_matcher": path("/callback"),
        "signout_path": path("/signout"),
        "credentials":
            {"client_id": "shop", "token_secret": {"name": "token"}, "hmac_secret": {"name": "hmac"}},
    });
    filter("oauth2", "oauth2.v3.OAuth2", json!({"config": config}))
}

/// A cell of the table: what the client sees of a refusal.
fn seen(client: Client, gateway: &Gateway) -> String {
    let preflight = matches!(client, Client::Browser).then(|| {
        let headers = [("origin", ORIGIN), ("access-control-request-method", "POST")];
        gateway.request("OPTIONS", CALL, &headers, b"").unwrap().status
    });
    let first = client.ask(gateway);
    if matches!(first.status, 302 | 401) && first.header("ratelimit").is_none() {
        assert_eq!(client.ask(gateway).status, first.status);
        assert_eq!(gateway.counted("rule.one.result.ok.requests").unwrap(), 0);
        return format!("{}, not counted", first.status);
    }
    let refused = if preflight == Some(200) || preflight.is_none() {
        assert_ne!(first.header("ratelimit"), None, "the first request passes: {}", first.status);
        client.ask(gateway)
    } else {
        first
    };
    let mut seen = match refused.header("grpc-status") {
        Some(status) => format!("{}, `grpc-status: {status}`", refused.status),
        None => {
            assert_eq!(refused.header("content-type"), Some("application/problem+json"));
            let body: Value = serde_json::from_slice(&refused.body).unwrap();
            assert_eq!(body["violated-policies"], json!(["one"]));
            assert_ne!(refused.header("retry-after"), None);
            format!("{}, JSON", refused.status)
        }
    };
    if matches!(client, Client::Browser) {
        seen += match refused.header("access-control-allow-origin") {
            Some(ORIGIN) => ", readable",
            _ => ", unreadable",
        };
    }
    seen
}

/// The filters of the table, each with the client that it is for.
fn filters() -> Vec<(&'static str, Client, Value)> {
    let upstream = json!({"uri": "http://upstream", "cluster": "upstream", "timeout": "30s"});
    let gzip = |kind: &str| {
        json!({
            "name": "gzip",
            "typed_config":
                {"@type": format!("type.googleapis.com/envoy.extensions.compression.gzip.{kind}")},
        })
    };
    let processor = json!({
        "grpc_service": {"envoy_grpc": {"cluster_name": "processor"}, "timeout": "30s"},
        "message_timeout": "30s",
        "processing_mode": {
            "request_body_mode": "FULL_DUPLEX_STREAMED", "request_trailer_mode": "SEND",
            "response_header_mode": "SKIP",
        },
    });
    let lua = "function envoy_on_request(handle) handle:headers():replace('x-seen', 'yes') end";
    let append = json!({"append": {"header": {"key": "x-seen", "value": "yes"}}});
    let of =
        |name: &'static str, client, message: &str, fields| (name, client, filter(name, message, fields));
    vec![
        ("grpc_web", Client::GrpcWeb, grpc_web()),
        ("grpc_json_transcoder", Client::Rest, transcoder()),
        ("grpc_json_transcoder", Client::Grpc, transcoder()),
        of("grpc_http1_bridge", Client::Grpc, "grpc_http1_bridge.v3.Config", json!({})),
        of("cors", Client::Browser, "cors.v3.Cors", json!({})),
        of("ext_proc", Client::Rest, "ext_proc.v3.ExternalProcessor", processor),
        of(
            "ext_authz",
            Client::Rest,
            "ext_authz.v3.ExtAuthz",
            json!({"http_service": {"server_uri": upstream}}),
        ),
        ("jwt_authn", Client::Rest, jwt_authn()),
        of("lua", Client::Rest, "lua.v3.Lua", json!({"default_source_code": {"inline_string": lua}})),
        of(
            "header_mutation",
            Client::Rest,
            "header_mutation.v3.HeaderMutation",
            json!({"mutations": {"request_mutations": [append], "response_mutations": [append]}}),
        ),
        of("buffer", Client::Rest, "buffer.v3.Buffer", json!({"max_request_bytes": 1 << 20})),
        of(
            "compressor",
            Client::Rest,
            "compressor.v3.Compressor",
            json!({"compressor_library": gzip("compressor.v3.Gzip")}),
        ),
        of(
            "decompressor",
            Client::Rest,
            "decompressor.v3.Decompressor",
            json!({"decompressor_library": gzip("decompressor.v3.Gzip")}),
        ),
        ("jwt_authn", Client::WithoutToken, jwt_authn()),
        ("oauth2", Client::WithoutSession, oauth2()),
    ]
}

#[test]
fn the_page_says_what_clients_see_beside_other_filters() {
    let processor = Processor::start().unwrap();
    let policy = json!({
        "envoy.filters.http.cors": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy",
            "allow_origin_string_match": [{"exact": ORIGIN}],
            "allow_methods": "POST",
        },
    });
    let route = json!({
        "match": {"prefix": "/"}, "route": {"cluster": "upstream"}, "typed_per_filter_config": policy,
    });
    let mut table = vec![
        "| filter | client | Diana before the filter | Diana behind it |".to_owned(),
        "| --- | --- | --- | --- |".to_owned(),
    ];
    let mut last = None;
    for (name, client, filter) in filters() {
        let document = || limits(json!([{"name": "one", "rpu": 1, "unit": "hour"}]));
        let cell = |before: Vec<Value>, behind: Vec<Value>| {
            let mut config = Config { before, behind, concurrency: 1, ..Config::new(document()) };
            config.clusters = vec![cluster("processor", processor.address(), true)];
            let secret = |name| json!({"name": name, "generic_secret": {"secret": {"inline_string": "x"}}});
            config.secrets = vec![secret("token"), secret("hmac")];
            if matches!(client, Client::Browser) {
                config.routes = vec![route.clone()];
            }
            seen(client, &Gateway::start(config).unwrap())
        };
        let (before, behind) = (cell(Vec::new(), vec![filter.clone()]), cell(vec![filter], Vec::new()));
        let rest = format!(" | {} | {before} | {behind} |", client.name());
        // Neighbours with the same results share a row.
        let joined = table.pop_if(|_| last.as_ref() == Some(&rest));
        let names = joined.iter().filter_map(|row| row.strip_suffix(&rest));
        let names = names.map(|names| format!("{names}, `{name}`")).next();
        table.push(names.unwrap_or_else(|| format!("| `{name}`")) + &rest);
        last = Some(rest);
    }
    let page = fs::read_to_string(root().join("docs/configuration/other-filters.md")).unwrap();
    let shown: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(shown, table, "\n{}\n", table.join("\n"));
}
