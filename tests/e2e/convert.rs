//! `diana convert`: a source and the document that the command writes for it decide the same
//! requests.
//!
//! The files are those of the command's corpus, whose documents a test of the command compares with
//! its output. Envoy's `local_ratelimit`, Envoy's `ratelimit` and nginx run with the source itself.
//! For ingress-nginx and Envoy Gateway, nginx and Envoy run what their controllers generate,
//! written by hand from their templates. The limits of envoyproxy/ratelimit are Limitador's,
//! written by hand. Kong is a model, stated here. No quota refills during a script.

use crate::migrating::{Application, now};
use gateway::config::{Tunnel, cluster};
use gateway::peers::Nginx;
use gateway::{Config, Connection, Gateway, Redis, free_port, root, wait_until};
use serde_json::{Value, json};
use servers::RateLimitService;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

/// A request: its path and its headers.
type Request = (&'static str, &'static [(&'static str, &'static str)]);

/// A file of a case of the corpus.
fn file(case: &str, name: &str) -> String {
    fs::read_to_string(root().join("cli/tests/corpus/convert").join(case).join(name)).unwrap()
}

fn document(case: &str) -> Value {
    serde_norway::from_str(&file(case, "document.yaml")).unwrap()
}

/// Diana with the document of a case.
fn diana(case: &str) -> Gateway {
    crate::start(document(case))
}

/// The requests `times` times, one kind after the other in turn.
fn script(kinds: &[Request], times: usize) -> Vec<Request> {
    (0..times).flat_map(|_| kinds.iter().copied()).collect()
}

/// Whether each request passes. A limiter refuses with 429, or with the status of its document.
fn outcomes(address: SocketAddr, script: &[Request]) -> Vec<bool> {
    let passes = |(path, headers): &Request| {
        let response = Connection::open(address).unwrap().request("GET", path, headers, b"").unwrap();
        assert!([200, 429, 503].contains(&response.status), "{path}: {}", response.status);
        response.status == 200
    };
    script.iter().map(passes).collect()
}

/// Fails with a list of the requests that are decided otherwise.
fn compare(script: &[Request], theirs: &[bool], ours: &[bool]) {
    assert_eq!((theirs.len(), ours.len()), (script.len(), script.len()));
    let word = |passes: bool| if passes { "passes" } else { "is refused" };
    let differences: Vec<String> = script
        .iter()
        .zip(theirs.iter().zip(ours))
        .enumerate()
        .filter(|(_, (_, (theirs, ours)))| theirs != ours)
        .map(|(index, ((path, headers), (theirs, ours)))| {
            format!("request {index}, {path} {headers:?}: {} there, {} here", word(*theirs), word(*ours))
        })
        .collect();
    assert!(differences.is_empty(), "{} of {}:\n{}", differences.len(), script.len(), differences.join("\n"));
    // A script whose requests all pass, or are all refused, would compare nothing.
    assert!(theirs.contains(&true) && theirs.contains(&false), "{theirs:?}");
}

/// Waits until the clock's hour lasts at least ten more seconds.
fn hour() {
    let left = || 3600 - now().as_secs() % 3600;
    wait_until("an hour", Duration::from_secs(20), || (left() >= 10).then_some(())).unwrap();
}

const PARTNER: &[(&str, &str)] = &[("x-api-key", "partner")];
const KEY: &[(&str, &str)] = &[("x-api-key", "k")];

#[test]
fn local_ratelimit() {
    let case = "envoy-local-run";
    let theirs = Gateway::from_text(&file(case, "envoy.yaml"), |_| free_port().unwrap()).unwrap();
    let ours = diana(case);
    let script = script(&[("/", &[]), ("/", KEY), ("/a", PARTNER), ("/login", &[]), ("/open/x", KEY)], 14);
    compare(&script, &outcomes(theirs.address(), &script), &outcomes(ours.address(), &script));
}

#[test]
#[ignore = "needs nginx: `cargo xtask migrate`"]
fn nginx() {
    let case = "nginx-run";
    let application = Application::start();
    let theirs = Nginx::start(&file(case, "nginx.conf"), application.address()).unwrap();
    let ours = diana(case);
    let kinds: [Request; 8] = [
        ("/api/x", &[("x-api-key", "a")]),
        ("/api/y", &[]),
        ("/partner", &[("x-client", "p")]),
        ("/partner", &[("x-client", "batch-7")]),
        ("/partner", &[("x-client", "42")]),
        ("/login", &[]),
        ("/health", &[]),
        ("/", &[]),
    ];
    let script = script(&kinds, 8);
    compare(&script, &outcomes(theirs.address(), &script), &outcomes(ours.address(), &script));
}

/// What the controller generates for the three Ingresses: a zone for each, with an empty key for
/// the networks of its allowlist, and in each location of a `Prefix` path the two locations
/// `= /path` and `/path/`.
const GENERATED: &str = "
events {}
http {
    geo $allowed_probes { default 0; 127.0.0.0/8 1; }
    map $allowed_probes $limit_probes { 0 $binary_remote_addr; 1 \"\"; }
    limit_req_zone $binary_remote_addr zone=shop_rpm:5m rate=2r/m;
    limit_req_zone $binary_remote_addr zone=login_rpm:5m rate=1r/m;
    limit_req_zone $limit_probes zone=probes_rpm:5m rate=1r/m;
    server {
        listen 127.0.0.1:8080;
        location / { limit_req zone=shop_rpm burst=10 nodelay; proxy_pass http://127.0.0.1:3000; }
        location = /cart { limit_req zone=shop_rpm burst=10 nodelay; proxy_pass http://127.0.0.1:3000; }
        location /cart/ { limit_req zone=shop_rpm burst=10 nodelay; proxy_pass http://127.0.0.1:3000; }
        location = /login { limit_req zone=login_rpm burst=3 nodelay; proxy_pass http://127.0.0.1:3000; }
        location = /probes { limit_req zone=probes_rpm burst=5 nodelay; proxy_pass http://127.0.0.1:3000; }
        location /probes/ { limit_req zone=probes_rpm burst=5 nodelay; proxy_pass http://127.0.0.1:3000; }
    }
}
";

#[test]
#[ignore = "needs nginx: `cargo xtask migrate`"]
fn nginx_of_ingress_nginx() {
    let application = Application::start();
    let theirs = Nginx::start(GENERATED, application.address()).unwrap();
    let ours = diana("ingress-nginx-run");
    let script = script(&[("/cart", &[]), ("/x", &[]), ("/login", &[]), ("/probes/a", &[])], 9);
    compare(&script, &outcomes(theirs.address(), &script), &outcomes(ours.address(), &script));
}

/// What Envoy Gateway generates for a route: a bucket for each rule with selectors, and the rule
/// without as the default bucket, which requests with a descriptor spare.
fn generated(route: &str) -> Value {
    let name = "envoy.filters.http.local_ratelimit";
    let message = "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit";
    let bucket =
        |tokens: u64| json!({"max_tokens": tokens, "tokens_per_fill": tokens, "fill_interval": "3600s"});
    let always = json!({"default_value": {"numerator": 100}});
    let limiter = json!({
        "@type": message,
        "stat_prefix": "http_local_rate_limiter",
        "token_bucket": bucket(3),
        "filter_enabled": always,
        "filter_enforced": always,
        "always_consume_default_token_bucket": false,
        "rate_limits": [
            {"actions": [{"request_headers": {"header_name": "x-user-id", "descriptor_key": "rule-0-match-0"}}]},
            {"actions": [{"header_value_match": {
                "descriptor_key": "rule-1-match-0",
                "descriptor_value": "rule-1-match-0",
                "headers": [{"name": "x-plan", "string_match": {"exact": "trial"}}]
            }}]}
        ],
        "descriptors": [
            {"entries": [{"key": "rule-0-match-0"}], "token_bucket": bucket(4)},
            {"entries": [{"key": "rule-1-match-0", "value": "rule-1-match-0"}], "token_bucket": bucket(6)}
        ]
    });
    json!({
        "name": route,
        "match": {"path_separated_prefix": format!("/{}", route.rsplit('/').nth(4).unwrap())},
        "direct_response": {"status": 200},
        "typed_per_filter_config": {name: limiter}
    })
}

/// The file of a gateway with one filter and these routes.
fn envoy(filter: &Value, routes: &[Value]) -> Gateway {
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "gateway",
        "use_remote_address": true,
        "http_filters": [filter, {"name": "envoy.filters.http.router", "typed_config": {"@type": router}}],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]}
    });
    let name = "envoy.filters.network.http_connection_manager";
    let address = |port: u16| json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
    let file = json!({
        "static_resources": {"listeners": [{
            "name": "gateway",
            "address": address(10000),
            "filter_chains": [{"filters": [{"name": name, "typed_config": manager}]}]
        }]},
        "admin": {"address": address(9901)}
    });
    Gateway::from_text(&serde_norway::to_string(&file).unwrap(), |_| free_port().unwrap()).unwrap()
}

#[test]
fn envoy_of_envoy_gateway() {
    // Two matches of one route of the policy, and another route, which it does not target.
    let routes = ["httproute/shop/orders/rule/0/match/0/any", "httproute/shop/orders/rule/1/match/0/any"];
    let other = json!({
        "name": "httproute/shop/other/rule/0/match/0/any",
        "match": {"prefix": "/"},
        "direct_response": {"status": 200}
    });
    let named = |index: usize, path: &str| {
        let mut route = generated(routes[index]);
        route["match"] = json!({"path_separated_prefix": path});
        route
    };
    let theirs_routes = [named(0, "/orders"), named(1, "/lists"), other];
    let filter = json!({
        "name": "envoy.filters.http.local_ratelimit",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
            "stat_prefix": "http_local_rate_limiter",
            "max_dynamic_descriptors": 10000
        }
    });
    let theirs = envoy(&filter, &theirs_routes);
    let mut own_routes = theirs_routes.to_vec();
    for route in &mut own_routes {
        route.as_object_mut().unwrap().remove("typed_per_filter_config");
    }
    let ours =
        Gateway::start(Config { routes: own_routes, ..Config::new(document("envoy-gateway-run")) }).unwrap();
    let kinds: [Request; 7] = [
        ("/orders", &[("x-user-id", "ann")]),
        ("/orders", &[("x-user-id", "bob"), ("x-plan", "trial")]),
        ("/orders", &[("x-plan", "trial")]),
        ("/orders", &[]),
        ("/lists", &[("x-user-id", "ann")]),
        ("/lists", &[]),
        ("/elsewhere", &[]),
    ];
    // A request that a later bucket refuses has drained the earlier one in Envoy, so each kind
    // comes on its own: of `bob`, the stricter bucket is the first one.
    let script: Vec<Request> = kinds.iter().flat_map(|kind| [*kind; 9]).collect();
    compare(&script, &outcomes(theirs.address(), &script), &outcomes(ours.address(), &script));
}

/// A counter of Kong's `policy: local`: the plugin, the identifier, the period, and its first
/// second.
type Counter = (&'static str, String, u64, u64);

/// Kong as its source has it: the most specific plugin runs; it compares the count of each period
/// with the limit, and counts the request in each if none is exceeded.
#[derive(Default)]
struct Kong {
    counts: BTreeMap<Counter, u64>,
}

impl Kong {
    fn passes(&mut self, (path, headers): &Request) -> bool {
        let header = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let address = "127.0.0.1".to_owned();
        let key = header("x-api-key").map_or_else(|| address.clone(), str::to_owned);
        let plugin: (&'static str, String, &[(u64, u64)]) = match header("x-consumer-username") {
            Some("ann") => ("ann", "ann".into(), &[(3600, 7)]),
            _ if path.starts_with("/shop/checkout") => ("checkout", address, &[(3600, 2)]),
            _ => ("shop", key, &[(3600, 5), (86_400, 12)]),
        };
        let (name, identifier, limits) = plugin;
        let second = now().as_secs();
        let counters: Vec<(Counter, u64)> = limits
            .iter()
            .map(|(period, limit)| ((name, identifier.clone(), *period, second - second % period), *limit))
            .collect();
        let count = |counter: &Counter| self.counts.get(counter).copied().unwrap_or(0);
        if counters.iter().any(|(counter, limit)| count(counter) >= *limit) {
            return false;
        }
        counters.into_iter().for_each(|(counter, _)| *self.counts.entry(counter).or_default() += 1);
        true
    }
}

#[test]
fn a_model_of_kong() {
    let ours = diana("kong-run");
    let kinds: [Request; 6] = [
        ("/shop", &[("x-api-key", "a")]),
        ("/shop/x", &[]),
        ("/shop/checkout", &[("x-api-key", "a")]),
        ("/shop/checkout/x", &[("x-consumer-username", "ann")]),
        ("/shop", &[("x-consumer-username", "ann")]),
        ("/shop", &[("x-consumer-username", "bob"), ("x-api-key", "b")]),
    ];
    let script = script(&kinds, 8);
    hour();
    let mut kong = Kong::default();
    let theirs: Vec<bool> = script.iter().map(|request| kong.passes(request)).collect();
    compare(&script, &theirs, &outcomes(ours.address(), &script));
}

/// The limits of the case in Limitador's form. Its windows begin with the first request, so the
/// script lies within one of either.
fn limitador() -> String {
    let limit = |most: u64, condition: &str, variables: &[&str]| json!({"namespace": "shop", "max_value": most, "seconds": 86_400, "conditions": [condition], "variables": variables});
    let user = "'user' in descriptors[0]";
    json!([
        // Behind the descriptors of a route come those of its virtual host.
        limit(30, "'site' in descriptors[0] || size(descriptors) > 1 && 'site' in descriptors[1]", &[]),
        limit(
            3,
            &format!("{user} && !(descriptors[0]['user'] in ['partner', 'internal'])"),
            &["descriptors[0]['user']"]
        ),
        limit(6, &format!("{user} && descriptors[0]['user'] == 'partner'"), &[]),
        limit(4, "'part' in descriptors[0] && descriptors[0]['part'] == 'login'", &[]),
    ])
    .to_string()
}

#[test]
fn ratelimit_with_limitador() {
    let case = "envoy-ratelimit-run";
    let service = RateLimitService::start(&limitador()).unwrap();
    let application = Application::start();
    let port = |number| match number {
        8081 => service.address().port(),
        3000 => application.address().port(),
        _ => free_port().unwrap(),
    };
    let theirs = Gateway::from_text(&file(case, "envoy.yaml"), port).unwrap();
    let redis = Redis::start().unwrap();
    let mut document = document(case);
    document["store"]["redis"]["secret"] = json!("a secret of this test alone");
    document["store"]["redis"]["timeout"] = json!("1s");
    // The tunnel needs no module.
    let tunnels =
        vec![Tunnel { name: "redis".into(), redis: cluster("redis-itself", redis.address(), false) }];
    let ours = Gateway::start(Config { tunnels, ..Config::new(document) }).unwrap();
    let kinds: [Request; 6] = [
        ("/orders", &[("x-user-id", "ann")]),
        ("/orders/1", &[("x-user-id", "partner")]),
        ("/orders", &[("x-user-id", "internal")]),
        ("/orders", &[]),
        ("/login", &[("x-user-id", "ann")]),
        ("/x", &[]),
    ];
    let script = script(&kinds, 9);
    hour();
    compare(&script, &outcomes(theirs.address(), &script), &outcomes(ours.address(), &script));
    assert_eq!(ours.counted("store.redis.failed_calls").unwrap(), 0);
}
