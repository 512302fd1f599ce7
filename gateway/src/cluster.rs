//! Clusters of Envoy, with one endpoint each.

use serde_json::{Value, json};
use std::net::SocketAddr;

/// A cluster with one endpoint, to be added to [`Config::clusters`](crate::Config::clusters). gRPC
/// needs `http2`.
pub fn cluster(name: &str, endpoint: SocketAddr, http2: bool) -> Value {
    let address = json!({
        "socket_address": {"address": endpoint.ip().to_string(), "port_value": endpoint.port()}
    });
    cluster_at(name, &address, http2)
}

/// A cluster at an address in Envoy's format, such as a socket in the file system.
pub(crate) fn cluster_at(name: &str, address: &Value, http2: bool) -> Value {
    let mut cluster = json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
        // Envoy's defaults of 1024 would limit a load test.
        "circuit_breakers": {"thresholds": [
            {"max_connections": 100_000, "max_pending_requests": 100_000, "max_requests": 100_000},
        ]},
    });
    if http2 {
        cluster["typed_extension_protocol_options"] = json!({
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            },
        });
    }
    cluster
}
