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

/// A cluster of a Redis, whose calls the bridge of the native module carries. `options` are the
/// bridge's: an object, such as `{"user": …, "password": …}`. The module has to be built.
pub fn bridged(name: &str, redis: SocketAddr, options: &Value) -> Value {
    let mut cluster = cluster(name, redis, false);
    cluster["upstream_config"] = json!({
        "name": "envoy.upstreams.http.dynamic_modules",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.dynamic_modules.v3.Config",
            "dynamic_module_config": {"name": "diana"},
            "bridge_name": "redis",
            "bridge_config": {"@type": "type.googleapis.com/google.protobuf.Struct", "value": options},
        },
    });
    cluster
}

/// A Redis to which calls go through a tunnel: a listener that turns the body of a `POST` into the
/// bytes of a connection.
#[derive(Clone, Debug)]
pub struct Tunnel {
    /// The name of the cluster that the filter calls.
    pub name: String,
    /// The cluster of Redis, with any name.
    pub redis: Value,
}

impl Tunnel {
    /// The listener.
    pub(crate) fn listener(&self, manager: &str) -> Value {
        let connect = |config: Value| json!([{"upgrade_type": "CONNECT", "connect_config": config}]);
        let route = json!({
            "match": {"prefix": "/"},
            "route": {
                "cluster": self.redis["name"],
                "timeout": "2s",
                "upgrade_configs": connect(json!({"allow_post": true})),
            },
        });
        let manager = json!({
            "@type": manager,
            "stat_prefix": self.hop(),
            "upgrade_configs": [{"upgrade_type": "CONNECT"}],
            "route_config": {"virtual_hosts": [{"name": "redis", "domains": ["*"], "routes": [route]}]},
            "http_filters": [{
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
            }],
        });
        json!({
            "name": self.hop(),
            "address": self.address(),
            "filter_chains": [{"filters": [
                {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager},
            ]}],
        })
    }

    /// A cluster of this name that leads to the listener.
    pub fn cluster(&self, name: &str) -> Value {
        cluster_at(name, &self.address(), false)
    }

    /// The cluster that leads to the listener, and that of Redis.
    pub(crate) fn clusters(&self) -> [Value; 2] {
        [self.cluster(&self.name), self.redis.clone()]
    }

    /// A socket in the process' folder. An internal listener would not do: it exists on workers
    /// only, and the native module calls from the main thread.
    fn address(&self) -> Value {
        json!({"pipe": {"path": format!("{}.sock", self.hop())}})
    }

    fn hop(&self) -> String {
        format!("{}-hop", self.name)
    }
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
