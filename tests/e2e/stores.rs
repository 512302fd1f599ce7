//! The simulated stores satisfy Envoy's own filters, like the real ones.

use gateway::config::cluster;
use gateway::{Config, Gateway, Redis, Webdis};
use serde_json::json;
use servers::{Answers, Code, RateLimitService, Upstash};

/// An Envoy whose own rate limit filter queries the service: five an hour for each user.
fn limited_by(service: &RateLimitService) -> Gateway {
    let filter = |name: &str, module: &str, message: &str, mut config: serde_json::Value| {
        let kind = format!("type.googleapis.com/envoy.extensions.filters.http.{module}.v3.{message}");
        config["@type"] = json!(kind);
        json!({"name": name, "typed_config": config})
    };
    let quota = json!({"user": {"requests_per_unit": 5, "unit": "HOUR"}});
    let metadata = filter(
        "envoy.filters.http.set_metadata",
        "set_metadata",
        "Config",
        json!({"metadata": [{"metadata_namespace": "quota", "value": quota}]}),
    );
    let asks = json!({
        "domain": "diana",
        "failure_mode_deny": true,
        "timeout": "10s",
        "rate_limit_service": {
            "transport_api_version": "V3",
            "grpc_service": {"envoy_grpc": {"cluster_name": "ratelimit"}},
        },
    });
    let limit = json!({
        "actions": [{"request_headers": {"header_name": "x-user-id", "descriptor_key": "user"}}],
        "limit": {"dynamic_metadata": {"metadata_key": {"key": "quota", "path": [{"key": "user"}]}}},
    });
    let route = json!({"match": {"prefix": "/"}, "route": {"cluster": "upstream", "rate_limits": [limit]}});
    let config = Config {
        clusters: vec![cluster("ratelimit", service.address(), true)],
        instead: Some(vec![metadata, filter("envoy.filters.http.ratelimit", "ratelimit", "RateLimit", asks)]),
        routes: vec![route],
        ..Config::new("")
    };
    Gateway::start(config).unwrap()
}

#[test]
fn envoys_own_filter_is_limited_by_the_rate_limit_service() {
    let service = RateLimitService::start().unwrap();
    let gateways = [(); 2].map(|()| limited_by(&service));
    let status =
        |index: usize, user: &str| gateways[index % 2].get("/", &[("x-user-id", user)]).unwrap().status;
    let ann: Vec<u16> = (0..8).map(|index| status(index, "ann")).collect();
    assert_eq!(ann, [200, 200, 200, 200, 200, 429, 429, 429]);
    assert_eq!((status(0, "bob"), service.calls()), (200, 9));
    for failure in [Answers::Status(Code::Unavailable), Answers::Bytes(vec![0xff; 40])] {
        service.answer_with(failure);
        assert_eq!(status(1, "bob"), 500);
    }
}

/// Both fronts of one Redis, as clusters of one gateway.
#[test]
fn a_gateway_reaches_both_fronts_of_a_redis() {
    let redis = Redis::start().unwrap();
    let webdis = Webdis::start(&redis).unwrap();
    let upstash = Upstash::start(redis.address(), "a-token").unwrap();
    let to = |front: &str| json!({"match": {"prefix": format!("/{front}")}, "route": {"cluster": front, "prefix_rewrite": "/"}});
    let config = Config {
        clusters: vec![
            cluster("webdis", webdis.address(), false),
            cluster("upstash", upstash.address(), false),
        ],
        routes: ["webdis", "upstash"].map(to).into(),
        instead: Some(Vec::new()),
        ..Config::new("")
    };
    let gateway = Gateway::start(config).unwrap();
    let ask = |front: &str, body: &str| {
        let headers = [("authorization", "Bearer a-token")];
        gateway.request("POST", front, &headers, body.as_bytes()).unwrap().text()
    };
    assert_eq!(ask("/webdis", "INCR/a"), r#"{"INCR":1}"#);
    assert_eq!(ask("/upstash", r#"["INCR", "a"]"#), r#"{"result":2}"#);
    assert_eq!(gateway.admin().counter("cluster.webdis.upstream_rq_total").unwrap(), 1);
}
