//! Turns a `Config` into Envoy's files: a bootstrap, and the gateway's listener as a file of the
//! listener discovery service. Replacing that file replaces the filter's configuration in a running
//! process.

use crate::cluster::{Tunnel, cluster, cluster_at};
use crate::config::Config;
use crate::http_filter::{http_filter, seconds};
use serde_json::{Value, json};
use std::path::Path;

/// The listener under test.
pub(crate) const LISTENER: &str = "gateway";
/// The second listener under test.
pub(crate) const OUTBOUND: &str = "outbound";
/// The file of listeners, in the process' folder.
pub(crate) const LISTENERS_FILE: &str = "listeners.json";
/// The file of routes, in the process' folder.
pub(crate) const ROUTES_FILE: &str = "routes.json";
/// The access log, in the process' folder.
pub(crate) const ACCESS_LOG: &str = "access.log";
/// A socket in the process' folder, so that the upstream's listener needs no port.
const UPSTREAM_SOCKET: &str = "upstream.sock";

/// The bootstrap. All paths in it are relative to the process' folder, where Envoy is started.
pub(crate) fn bootstrap(config: &Config) -> Value {
    let inside = json!({"pipe": {"path": UPSTREAM_SOCKET}});
    let upstream = match config.upstream {
        Some(address) => cluster("upstream", address, false),
        None => cluster_at("upstream", &inside, false),
    };
    let mut clusters = vec![upstream];
    clusters.extend(config.clusters.iter().cloned());
    clusters.extend(config.tunnels.iter().flat_map(Tunnel::clusters));
    let mut listeners = vec![upstream_listener(config, &inside)];
    listeners.extend(config.tunnels.iter().map(|tunnel| tunnel.listener(HCM)));
    listeners.extend(config.listeners.iter().cloned());
    json!({
        "node": {"id": "gateway", "cluster": "gateway"},
        "admin": {"address": local(0)},
        "layered_runtime": {"layers": [{"name": "admin", "admin_layer": {}}]},
        "dynamic_resources": {
            "lds_config": {
                "resource_api_version": "V3",
                "path_config_source": {"path": LISTENERS_FILE, "watched_directory": {"path": "."}},
            },
        },
        "static_resources": {
            "listeners": listeners,
            "clusters": clusters,
            "secrets": config.secrets,
        },
        "stats_config": {"stats_tags": stats_tags()},
        "stats_sinks": config.stats_sinks,
    })
}

/// The file of listeners: the one on `port` (0: any free one), and the outbound one, if it is set.
pub(crate) fn listeners(config: &Config, filter: &Path, port: u16) -> Value {
    let mut all = vec![listener(LISTENER, "INBOUND", config, filter, port)];
    let outbound = config.outbound.iter();
    all.extend(outbound.map(|outbound| listener(OUTBOUND, "OUTBOUND", outbound, filter, 0)));
    json!({"resources": all})
}

fn listener(name: &str, direction: &str, config: &Config, filter: &Path, port: u16) -> Value {
    let mut listener = json!({
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": name,
        "traffic_direction": direction,
        "address": local(port),
        "filter_chains": [{"filters": [gateway_hcm(config, filter)]}],
        "listener_filters": config.listener_filters,
    });
    if let Some(socket) = &config.transport_socket {
        listener["filter_chains"][0]["transport_socket"] = socket.clone();
    }
    if config.balanced {
        listener["connection_balance_config"] = json!({"exact_balance": {}});
    }
    listener
}

/// The file of routes.
pub(crate) fn route_file(config: &Config) -> Value {
    let mut routes = gateway_routes(config);
    routes["@type"] = json!("type.googleapis.com/envoy.config.route.v3.RouteConfiguration");
    json!({"resources": [routes]})
}

fn gateway_routes(config: &Config) -> Value {
    let mut all = config.routes.clone();
    if config.upgrades {
        let tunnel = json!([{"upgrade_type": "CONNECT", "connect_config": {}}]);
        let route = json!({"cluster": "upstream", "upgrade_configs": tunnel});
        all.push(json!({"match": {"connect_matcher": {}}, "route": route}));
    }
    all.push(if config.direct {
        answer(config)
    } else {
        json!({"match": {"prefix": "/"}, "route": {"cluster": "upstream", "timeout": "30s"}})
    });
    routes(LISTENER, &all)
}

fn gateway_hcm(config: &Config, filter: &Path) -> Value {
    let router = json!({
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
    });
    let mut filters = config.before.clone();
    filters.extend(config.instead.clone().unwrap_or_else(|| vec![http_filter(config, filter)]));
    filters.extend(config.behind.iter().cloned());
    filters.push(router);
    let mut manager = json!({
        "@type": HCM,
        "stat_prefix": LISTENER,
        "use_remote_address": config.use_remote_address,
        "normalize_path": config.normalize_path,
        "max_request_headers_kb": config.max_request_headers_kb,
        "http_filters": filters,
        "upgrade_configs": [{"upgrade_type": "websocket"}],
    });
    if config.rds {
        manager["rds"] = json!({
            "route_config_name": LISTENER,
            "config_source": {
                "resource_api_version": "V3",
                "path_config_source": {"path": ROUTES_FILE, "watched_directory": {"path": "."}},
            },
        });
    } else {
        manager["route_config"] = gateway_routes(config);
    }
    if config.upgrades {
        manager["upgrade_configs"] = json!([{"upgrade_type": "websocket"}, {"upgrade_type": "CONNECT"}]);
    }
    if let Some(timeout) = config.request_timeout {
        manager["request_timeout"] = json!(seconds(timeout));
    }
    if let Some(format) = &config.access_log {
        let log = json!({
            "name": "envoy.access_loggers.file",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
                "path": ACCESS_LOG,
                "log_format": {"text_format_source": {"inline_string": format!("{format}\n")}},
            },
        });
        manager["access_log"] = json!([log]);
    }
    for (key, value) in config.manager.as_object().into_iter().flatten() {
        manager[key] = value.clone();
    }
    json!({"name": "envoy.filters.network.http_connection_manager", "typed_config": manager})
}

fn upstream_listener(config: &Config, address: &Value) -> Value {
    let manager = json!({
        "@type": HCM,
        "stat_prefix": "upstream",
        // As generous as the gateway can be configured: this side must not refuse first.
        "max_request_headers_kb": 192,
        "route_config": routes("upstream", &[answer(config)]),
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
        }],
    });
    json!({
        "name": "upstream",
        "address": address,
        "filter_chains": [{"filters": [
            {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager},
        ]}],
    })
}

/// The expressions of `envoy.yaml`: for example,
/// `wasmcustom.diana.rule.NAME.result.RESULT.requests` becomes
/// `diana_requests{rule="NAME",result="RESULT"}`.
fn stats_tags() -> Value {
    json!([
        {"tag_name": "rule", "regex": r"^wasmcustom\.diana(\.rule\.([^.]+))\."},
        {"tag_name": "result", "regex": r"^wasmcustom\.diana\..*?(\.result\.([^.]+))\."},
        {"tag_name": "kind", "regex": r"^wasmcustom\.diana(\.kind\.([^.]+))\."},
        {"tag_name": "store", "regex": r"^wasmcustom\.diana(\.store\.([^.]+))\."},
        {"tag_name": "outcome", "regex": r"^wasmcustom\.diana(\.outcome\.([^.]+))\."},
        {"tag_name": "fingerprint", "regex": r"^wasmcustom\.diana(\.fingerprint\.([^.]+))\."},
        {"tag_name": "version", "regex": r"^wasmcustom\.diana(\.version\.([^.]+))\."},
    ])
}

/// The labels of Diana's metrics.
const LABELS: [&str; 7] = ["rule", "result", "kind", "store", "outcome", "fingerprint", "version"];

/// The name and the labels by which Prometheus knows one of Diana's metrics.
pub(crate) fn prometheus(name: &str) -> (String, Vec<(&str, &str)>) {
    let (mut parts, mut labels) = (vec!["diana"], Vec::new());
    let mut words = name.split('.');
    while let Some(word) = words.next() {
        match words.clone().next().filter(|_| LABELS.contains(&word)) {
            Some(value) => {
                labels.push((word, value));
                words.next();
            }
            None => parts.push(word),
        }
    }
    (parts.join("_"), labels)
}

/// A direct response to every request.
fn answer(config: &Config) -> Value {
    let (status, body) = &config.answer;
    json!({"match": {"prefix": "/"}, "direct_response": {"status": status, "body": {"inline_string": body}}})
}

fn routes(name: &str, routes: &[Value]) -> Value {
    json!({"name": name, "virtual_hosts": [{"name": name, "domains": ["*"], "routes": routes}]})
}

fn local(port: u16) -> Value {
    json!({"socket_address": {"address": "127.0.0.1", "port_value": port}})
}

const HCM: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_name_with_labels() {
        let of = |name| prometheus(name);
        assert_eq!(of("config.switches"), ("diana_config_switches".into(), vec![]));
        let labels = vec![("rule", "login"), ("result", "ok")];
        assert_eq!(of("rule.login.result.ok.requests"), ("diana_requests".into(), labels));
    }
}
