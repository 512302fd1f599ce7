//! Diana as an entry of a connection manager's `http_filters`, in either shell.

use crate::Shell;
use crate::config::{Config, Plugin};
use serde_json::{Map, Value, json};
use std::env;
use std::path::Path;
use std::time::Duration;

/// The filter with the configuration's document. `file` is the file of the proxy-wasm filter.
pub fn http_filter(config: &Config, file: &Path) -> Value {
    match config.shell {
        Shell::Wasm => wasm(config, file),
        Shell::Native => native(config, file),
    }
}

fn wasm(config: &Config, file: &Path) -> Value {
    let mut wasm = json!({
        "name": "envoy.filters.http.wasm",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
            "config": {
                "name": "diana",
                "root_id": "diana",
                "allow_on_headers_stop_iteration": config.stop_iteration,
                "failure_policy": config.failure_policy,
                "reload_config": {
                    "backoff": {"base_interval": seconds(config.reload_backoff)},
                },
                "vm_config": {
                    "vm_id": config.vm_id,
                    "runtime": "envoy.wasm.runtime.v8",
                    "code": {"local": {"filename": file}},
                },
                "configuration": any(&config.plugin),
            },
        },
    });
    let of_diana = config.env.iter().map(|(name, _)| name).filter(|name| name.starts_with("DIANA_"));
    let keys: Vec<&String> = of_diana.collect();
    if !keys.is_empty() {
        wasm["typed_config"]["config"]["vm_config"]["environment_variables"] = json!({"host_env_keys": keys});
    }
    if !config.capabilities.is_empty() {
        let allowed: Map<String, Value> =
            config.capabilities.iter().map(|name| (name.clone(), json!({}))).collect();
        // Before 1.40, the restriction is a setting of the plugin.
        let is_old = env::var("ENVOY_VERSION").is_ok_and(|version| version.starts_with("1.3"));
        let plugin = &mut wasm["typed_config"]["config"];
        let place = if is_old { plugin } else { &mut plugin["vm_config"] };
        place["capability_restriction_config"] = json!({"allowed_capabilities": allowed});
    }
    wasm
}

const NATIVE: &str = "envoy.filters.http.dynamic_modules";

/// A route's `typed_per_filter_config` with a document of its own for the native module.
pub fn per_filter_config(document: impl Into<Plugin>) -> Value {
    json!({
        NATIVE: {
            "@type":
                "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute",
            "dynamic_module_config": {"name": "diana"},
            "filter_config": any(&document.into()),
        },
    })
}

/// Envoy finds the file `libNAME.so` by `ENVOY_DYNAMIC_MODULES_SEARCH_PATH`. Filters of one
/// `filter_name` share counts, as filters with one `vm_id` do.
fn native(config: &Config, file: &Path) -> Value {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let mut filter = module(stem.strip_prefix("lib").unwrap_or(stem), &config.vm_id, &config.plugin);
    filter["typed_config"]["dynamic_module_config"]["metrics_namespace"] = json!(config.metrics_namespace);
    filter
}

fn module(name: &str, filter_name: &str, document: &Plugin) -> Value {
    json!({
        "name": NATIVE,
        "typed_config": {
            "@type":
                "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter",
            "dynamic_module_config": {"name": name, "metrics_namespace": "diana"},
            "filter_name": filter_name,
            "filter_config": any(document),
        },
    })
}

/// A cluster's `typed_extension_protocol_options` that put the native module with this document
/// into the way of the cluster's requests. It shares its counts with the listener's module.
pub fn upstream_filters(document: impl Into<Plugin>) -> Value {
    json!({
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http_protocol_options": {}},
            "http_filters": [module("diana", "diana", &document.into()), {
                "name": "envoy.filters.http.upstream_codec",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec",
                },
            }],
        },
    })
}

/// A document in the message that Envoy gets.
fn any(document: &Plugin) -> Value {
    match document {
        Plugin::Struct(value) => {
            json!({"@type": "type.googleapis.com/google.protobuf.Struct", "value": value})
        }
        Plugin::Text(text) => {
            json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": text})
        }
    }
}

/// A duration as protobuf's JSON spells it.
pub(crate) fn seconds(span: Duration) -> String {
    format!("{:.3}s", span.as_secs_f64())
}
