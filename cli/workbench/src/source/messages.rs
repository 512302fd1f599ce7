//! Envoy's messages around a document: their names, their fields, and the fields that misspelt keys
//! mean.
//!
//! The fields are those of Envoy 1.40. A key that resembles no field may be a later version's.

use super::value::{Entry, Value, camel};
use diana_document::nearest;

/// The connection manager with the filters.
pub const MANAGER: &str = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
/// The proxy-wasm filter.
pub const WASM: &str = "envoy.extensions.filters.http.wasm.v3.Wasm";
/// The native module.
pub const MODULE: &str = "envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter";
/// The native module, for a route.
pub const MODULE_OF_ROUTE: &str =
    "envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute";

/// The fields of a message.
pub type Fields = &'static [&'static str];

/// `envoy.extensions.filters.http.wasm.v3.Wasm`
pub const WASM_FIELDS: Fields = &["config"];

/// `envoy.extensions.wasm.v3.PluginConfig`
pub const PLUGIN_FIELDS: Fields = &[
    "name",
    "root_id",
    "vm_config",
    "configuration",
    "fail_open",
    "failure_policy",
    "reload_config",
    "capability_restriction_config",
    "allow_on_headers_stop_iteration",
];

/// `envoy.extensions.wasm.v3.VmConfig`
pub const VM_FIELDS: Fields = &[
    "vm_id",
    "runtime",
    "code",
    "configuration",
    "allow_precompiled",
    "nack_on_code_cache_miss",
    "environment_variables",
    "capability_restriction_config",
];

/// `envoy.config.core.v3.AsyncDataSource`
pub const CODE_FIELDS: Fields = &["local", "remote"];

/// `envoy.config.core.v3.DataSource`
pub const LOCAL_FIELDS: Fields =
    &["filename", "inline_bytes", "inline_string", "environment_variable", "watched_directory"];

/// `envoy.config.core.v3.RemoteDataSource`
pub const REMOTE_FIELDS: Fields = &["http_uri", "sha256", "retry_policy"];

/// `envoy.config.core.v3.HttpUri`
pub const URI_FIELDS: Fields = &["uri", "cluster", "timeout"];

/// `envoy.extensions.wasm.v3.EnvironmentVariables`
pub const ENVIRONMENT_FIELDS: Fields = &["host_env_keys", "key_values"];

/// `envoy.extensions.wasm.v3.ReloadConfig`
pub const RELOAD_FIELDS: Fields = &["backoff"];

/// `google.protobuf.Struct` and `google.protobuf.StringValue` in a `google.protobuf.Any`
pub const VALUE_FIELDS: Fields = &["value"];

/// `DynamicModuleFilter`
pub const MODULE_FIELDS: Fields =
    &["dynamic_module_config", "filter_name", "filter_config", "terminal_filter"];

/// `DynamicModuleFilterPerRoute`
pub const ROUTE_FIELDS: Fields =
    &["dynamic_module_config", "per_route_config_name", "filter_config", "disabled"];

/// `envoy.extensions.dynamic_modules.v3.DynamicModuleConfig`
pub const MODULE_CONFIG_FIELDS: Fields =
    &["name", "do_not_close", "load_globally", "metrics_namespace", "module"];

/// The field that a key misspells; `None` for a field's own name, and for a key that resembles no
/// field.
#[must_use]
pub fn misspelt(key: &str, fields: Fields) -> Option<&'static str> {
    let is_known = fields.iter().any(|field| *field == key || camel(field) == key);
    if is_known || key.starts_with('@') { None } else { nearest(&snake(key), fields) }
}

/// A field in the spelling of a key: `vmId` for `vmIdd`, `vm_id` for `vm_idd`.
#[must_use]
pub fn spelt_as(key: &str, field: &str) -> String {
    if key.contains(|c: char| c.is_ascii_uppercase()) { camel(field) } else { field.into() }
}

/// The entry of a field, or the entry whose key misspells the field.
#[must_use]
pub fn meant<'a>(value: &'a Value, field: &str, fields: Fields) -> Option<&'a Entry> {
    let misspells = |entry: &&Entry| misspelt(&entry.key, fields) == Some(field);
    value.field_entry(field).or_else(|| value.entries().iter().find(misspells))
}

/// The name of a protobuf message in an `Any`, and its value.
#[must_use]
pub fn message(value: &Value) -> (&str, &Value) {
    let name = |url: &'_ str| -> usize { url.rfind('/').map_or(0, |slash| slash.saturating_add(1)) };
    let of = |key: &str| value.field(key).and_then(Value::text).and_then(|url| url.get(name(url)..));
    match (of("@type"), of("type_url"), value.get("value")) {
        (Some("udpa.type.v1.TypedStruct" | "xds.type.v3.TypedStruct"), Some(name), Some(body)) => {
            (name, body)
        }
        (Some(name), ..) => (name, value),
        _ => ("", value),
    }
}

/// The name of the message with a filter that an `Any` without a type probably is; empty if its
/// keys are those of no such message.
#[must_use]
pub fn implied(value: &Value) -> &'static str {
    let has = |value: &Value, field, fields| meant(value, field, fields).is_some();
    if has(value, "dynamic_module_config", MODULE_FIELDS) {
        let is_of_route = value.field("per_route_config_name").is_some();
        return if is_of_route { MODULE_OF_ROUTE } else { MODULE };
    }
    let plugin = value.field("config");
    let is_plugin =
        |plugin| ["vm_config", "configuration"].iter().any(|field| has(plugin, field, PLUGIN_FIELDS));
    if plugin.is_some_and(is_plugin) { WASM } else { "" }
}

/// `vmConfig` → `vm_config`.
fn snake(key: &str) -> String {
    let mut snake = String::new();
    for c in key.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_means_the_nearest_field() {
        for (key, field) in [
            ("failure_pollcy", Some("failure_policy")),
            ("failurePollcy", Some("failure_policy")),
            ("FailurePolicy", Some("failure_policy")),
            ("vm_konfig", Some("vm_config")),
            ("configurution", Some("configuration")),
            ("failurePolicy", None),
            ("root_id", None),
            ("@type", None),
            ("a_field_of_a_later_version", None),
        ] {
            assert_eq!(misspelt(key, PLUGIN_FIELDS), field, "{key}");
        }
        assert_eq!(spelt_as("failurePollcy", "failure_policy"), "failurePolicy");
    }
}
