//! Recipes of `docs/cookbook` that need more of Envoy than Diana: with the parts of Envoy's
//! configuration that their pages show.

use crate::production::Files;
use gateway::{Config, Gateway, Reply, Upstream, root};
use rcgen::SanType;
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;

fn text(file: &str) -> String {
    fs::read_to_string(root().join("docs/cookbook").join(file)).unwrap()
}

/// The document of a recipe.
fn document(name: &str) -> Value {
    serde_norway::from_str(&text(&format!("{name}.yaml"))).unwrap()
}

/// The part of Envoy's configuration with this key that the page of a recipe shows.
fn part(name: &str, key: &str) -> Value {
    let page = text(&format!("{name}.md"));
    let shown = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let block = shown.into_iter().find(|block| block.starts_with(&format!("{key}:")));
    let block: Value =
        serde_norway::from_str(block.unwrap_or_else(|| panic!("{name}.md shows no `{key}`"))).unwrap();
    block[key].clone()
}

/// The filters that the page of a recipe puts before Diana.
fn filters(name: &str) -> Vec<Value> {
    part(name, "http_filters").as_array().unwrap().clone()
}

const JSON: &str = "application/json";

/// One gateway has all these recipes, whose limits have different paths.
#[test]
fn recipes_count_tools_operations_searches_and_methods() {
    let names = ["mcp", "graphql", "search", "grpc"];
    let documents = names.map(document);
    let limits = |document: &Value| document["limits"].as_array().unwrap().clone();
    let limits: Vec<Value> = documents.iter().flat_map(limits).collect();
    let mut config = Config::new(json!({"limits": limits, "actors": documents[0]["actors"]}));
    config.before = names[..3].iter().flat_map(|name| filters(name)).collect();
    config.routes = part("search", "routes").as_array().unwrap().clone();
    config.routes.iter_mut().for_each(|route| route["route"]["cluster"] = json!("upstream"));
    let gateway = Gateway::start(config).unwrap();
    mcp(&gateway);
    graphql(&gateway);
    search(&gateway);
    grpc(&gateway);
}

/// The tool of an MCP message is in its body.
fn mcp(gateway: &Gateway) {
    let message =
        |inner: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{inner}}}}}"#);
    let status = |user: &str, kind: &str, body: &str| {
        let headers = [("x-user-id", user), ("content-type", kind)];
        gateway.request("POST", "/mcp", &headers, body.as_bytes()).unwrap().status
    };
    let spellings = [
        r#""name":"run_query""#,
        r#""name":"run\u005fquery""#,
        r#""arguments":{"name":"x"},"name":"run_query""#,
        r#""name":"x","name":"run_query""#,
        r#""name" : "run_query""#,
    ];
    for inner in spellings {
        assert_eq!(status("ann", JSON, &message(inner)), 200, "{inner}");
    }
    let query = message(spellings[0]);
    assert_eq!(status("ann", "application/json; charset=utf-8", &query), 429);
    assert_eq!(status("ann", JSON, &message(r#""name":"search""#)), 200, "another tool");
    assert_eq!(status("ann", JSON, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), 200, "a response");
    // The page says that Envoy distinguishes case.
    assert_eq!(status("eve", JSON, r#"{"jsonrpc":"2.0","id":1,"Method":"tools/call"}"#), 200, "documented");
    // No call hides in what the filter cannot read.
    for (kind, body) in [
        (JSON, format!("[{query}]")),
        (JSON, "{".to_owned()),
        (JSON, String::new()),
        ("text/plain", query.clone()),
        ("Application/JSON", query.clone()),
    ] {
        assert_eq!(status("bob", kind, &body), 400, "{kind} {body}");
    }
    assert_eq!(
        gateway.request("POST", "/mcp", &[("content-type", JSON)], query.as_bytes()).unwrap().status,
        429
    );
}

/// The name of a GraphQL operation is in the body.
fn graphql(gateway: &Gateway) {
    let status = |name: &str| {
        let body = format!(r#"{{"query":"mutation {name} {{ a }}","operationName":"{name}"}}"#);
        let headers = [("x-user-id", "ann"), ("content-type", JSON)];
        gateway.request("POST", "/graphql", &headers, body.as_bytes()).unwrap().status
    };
    let statuses: Vec<u16> = (0..6).map(|_| status("CreateOrder")).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
    assert_eq!(status("ListOrders"), 200);
}

/// A search costs what its route says, whatever the client says.
fn search(gateway: &Gateway) {
    let spellings = [("q=a&sort=%72elevance", 1), ("sort=date&sort=relevance", 1)];
    for (query, cost) in [("q=a", 1), ("sort=relevance&q=a", 10)].into_iter().chain(spellings) {
        let headers = [("x-user-id", query), ("x-search-cost", "0")];
        let answer = gateway.get(&format!("/search?{query}"), &headers).unwrap();
        let expected = format!("\"search-units\";r={}", 60 - cost);
        let shown = answer.header("ratelimit").unwrap_or_default();
        assert!(answer.status == 200 && shown.contains(&expected), "{query}: {shown}");
    }
}

/// A method of gRPC is refused in gRPC.
fn grpc(gateway: &Gateway) {
    let call = |method: &str| {
        let headers = [("x-user-id", "ann"), ("content-type", "application/grpc"), ("te", "trailers")];
        let path = format!("/shop.v1.Orders/{method}");
        let answer = gateway.request("POST", &path, &headers, b"\0\0\0\0\0");
        // The upstream of the tests does not speak gRPC, so a call that passes has another status.
        answer.unwrap().header("grpc-status") == Some("8")
    };
    let refused = ["Export", "Export", "Export", "Export", "Get"].map(call);
    assert_eq!(refused, [false, false, false, true, false]);
}

#[test]
fn only_listed_addresses_are_verified_bots() {
    // The address in `x-forwarded-for` counts, so that the test has several.
    let config = Config {
        use_remote_address: false,
        before: filters("crawlers"),
        ..Config::new(document("crawlers"))
    };
    let gateway = Gateway::start(config).unwrap();
    let counted = |address: &str| {
        let headers =
            [("x-forwarded-for", address), ("user-agent", "Example-Bot/1.0"), ("x-verified-bot", "forged")];
        gateway.get("/", &headers).unwrap().header("ratelimit").unwrap().to_owned()
    };
    let unknown = counted("198.51.100.1");
    assert!(unknown.contains("\"unverified-bots") && !unknown.contains("\"verified-bot"), "{unknown}");
    let verified = counted("192.0.2.9");
    assert!(verified.contains("\"verified-bot\";r=19") && !verified.contains("unverified"), "{verified}");
}

/// The recipe removes what would make a write of a read.
#[test]
fn no_read_becomes_a_write() {
    let upstream = Upstream::start(|request| {
        Reply::new(200, "").header("x-seen", request.header("x-http-method-override").unwrap_or("nothing"))
    });
    let upstream = upstream.unwrap();
    let route = json!({
        "match": {"prefix": "/"},
        "route": {"cluster": "upstream"},
        "request_headers_to_remove": part("writes", "request_headers_to_remove"),
    });
    let config =
        Config { upstream: Some(upstream.address()), routes: vec![route], ..Config::new(document("writes")) };
    let gateway = Gateway::start(config).unwrap();
    let counted = |method: &str, user: &str| {
        let headers = [("x-user-id", user), ("x-http-method-override", "DELETE")];
        let answer = gateway.request(method, "/items", &headers, b"").unwrap();
        assert_eq!(answer.header("x-seen"), Some("nothing"), "{method}");
        answer.header("ratelimit").unwrap().contains("writes")
    };
    let methods = ["GET", "OPTIONS", "POST", "PROPFIND", "LOCK", "PUT"];
    assert_eq!(methods.map(|method| counted(method, "ann")), [false, false, true, true, true, true]);
}

/// A partner's gateway: it carries requests to this address, each with the certificate whose
/// name the header `x-certificate` says.
fn partner(address: SocketAddr, folder: &str, certificates: &[&str]) -> Gateway {
    let cluster = |name: &&str| {
        let (chain, key) = (format!("{folder}/{name}.crt"), format!("{folder}/{name}.key"));
        let certificate = json!({"certificate_chain": {"filename": chain}, "private_key": {"filename": key}});
        json!({
            "name": name,
            "type": "STATIC",
            "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address":
                {"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}}}}]}]},
            "transport_socket": {
                "name": "envoy.transport_sockets.tls",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
                    "common_tls_context": {"tls_certificates": [certificate]},
                },
            },
        })
    };
    let route = |name: &&str| {
        let header = json!({"name": "x-certificate", "string_match": {"exact": name}});
        json!({"match": {"prefix": "/", "headers": [header]}, "route": {"cluster": name}})
    };
    Gateway::start(Config {
        instead: Some(Vec::new()),
        clusters: certificates.iter().map(cluster).collect(),
        routes: certificates.iter().map(route).collect(),
        ..Config::new("")
    })
    .unwrap()
}

#[test]
fn a_client_certificate_is_an_actor() {
    let uri = |name: &str| vec![SanType::URI(format!("spiffe://example.org/{name}").try_into().unwrap())];
    let files = Files::signed(&[
        ("server", Vec::new()),
        ("billing", uri("billing")),
        ("shop", uri("shop")),
        ("nameless", Vec::new()),
    ]);
    let path = files.folder().display().to_string();
    let socket = part("client-certificates", "transport_socket").to_string();
    let socket = socket.replace("/etc/envoy/", &format!("{path}/"));
    let transport_socket = Some(serde_json::from_str(&socket).unwrap());
    let gateway =
        Gateway::start(Config { transport_socket, ..Config::new(document("client-certificates")) }).unwrap();
    let partner = partner(gateway.address(), &path, &["billing", "shop", "nameless"]);
    let answer = |name: &str| {
        let answer = partner.get("/", &[("x-certificate", name)]).unwrap();
        (answer.status, answer.header("ratelimit-policy").unwrap_or_default().to_owned())
    };
    assert_eq!(answer("billing"), (200, r#""per-certificate";q=500;w=1"#.into()));
    assert_eq!(answer("shop"), (200, r#""per-certificate";q=50;w=1"#.into()));
    assert_eq!(answer("nameless").0, 403);
}

#[test]
fn a_page_of_another_origin_reads_refusals() {
    let mut config = Config::new(document("browsers"));
    config.before = filters("browsers");
    config.routes = part("browsers", "routes").as_array().unwrap().clone();
    config.routes.iter_mut().for_each(|route| route["route"]["cluster"] = json!("upstream"));
    let gateway = Gateway::start(config).unwrap();
    let origin = ("origin", "https://app.example.com");
    let preflight = [origin, ("access-control-request-method", "POST"), ("x-user-id", "ann")];
    for _ in 0..3 {
        let answer = gateway.request("OPTIONS", "/api", &preflight, b"").unwrap();
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some(origin.1)));
        assert_eq!(answer.header("ratelimit"), None, "it does not count");
    }
    // A bucket fills while requests take their time.
    let get = |_| gateway.get("/api", &[origin, ("x-user-id", "ann")]).unwrap();
    let refused = (0..2_000).map(get).find(|answer| answer.status != 200).unwrap();
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (429, Some(origin.1)));
    let exposed = refused.header("access-control-expose-headers").unwrap();
    for name in ["retry-after", "ratelimit", "ratelimit-policy"] {
        assert!(exposed.split(", ").any(|exposed| exposed == name), "{exposed}");
        assert!(refused.header(name).is_some(), "{name}");
    }
}
