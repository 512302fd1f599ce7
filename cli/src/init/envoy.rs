//! Envoy's configuration around a document.

use super::access_log;
use super::endpoint::Endpoint;
use super::plan::Plan;
use super::target::{Kind, Redis, Remote};
use super::yaml::{Yaml, scalar};
use diana_limiter::policy::Policy;
use serde_json::Value;

/// The text of `envoy.yaml`, or of `envoy-native.yaml`.
pub fn text(plan: &Plan, document: &Value, policy: &Policy) -> String {
    let is_native = plan.kind == Kind::EnvoyNative;
    let filter = if is_native { native(plan, document) } else { wasm(plan, document) };
    let folder = plan.modules.as_deref().unwrap_or("FOLDER");
    // The bridge to Redis needs a later Envoy than the module does.
    let version = if plan.store.is_some() { "1.39" } else { "1.38" };
    let run = match plan.needs_module() {
        true => format!(
            "# Run: ENVOY_DYNAMIC_MODULES_SEARCH_PATH={folder} envoy -c THIS, where `{folder}` has `libdiana.so`.\n\
             # Needs Envoy {version} or later."
        ),
        false => {
            "# Run: envoy -c THIS, from the folder to which the filter's `filename` below is relative.".into()
        }
    };
    let of_shell = if is_native { RUNTIME } else { METRICS };
    let of_shell = of_shell.replace("ADMIN", &plan.admin.to_string());
    format!(
        r#"# A gateway with Diana, written by `diana init`.
{run}
# Check each change first: envoy --mode validate -l warning -c THIS

static_resources:
  listeners:
    - name: gateway
      address: {listen}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: gateway
                # Without this setting, Envoy believes `x-forwarded-for`, and clients can invent addresses.
                use_remote_address: true
                access_log:
                  - name: envoy.access_loggers.stdout
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog
                      log_format:
                        json_format:                         # `diana replay` reads these lines
{request}                          duration: "%DURATION%"
                          response_code: "%RESPONSE_CODE%"
                          # The rules that refused, or would have in shadow mode, and the reason of the response.
                          rule: "%FILTER_STATE(wasm.diana.rule:PLAIN)%"
                          shadow: "%FILTER_STATE(wasm.diana.shadow:PLAIN)%"
                          actor: "%FILTER_STATE(wasm.diana.actor:PLAIN)%"
                          response_code_details: "%RESPONSE_CODE_DETAILS%"
                http_filters:
{filter}                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
                route_config:
                  name: gateway
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes:
                        - match: {{prefix: /}}
                          route: {{cluster: upstream}}

  clusters:
    # Your own service.
{clusters}{of_shell}
# The admin interface shows the configuration: keep it closed to others.
admin:
  address: {admin}
"#,
        admin = address(&plan.admin),
        listen = address(&plan.listen),
        request = access_log::lines(policy, &" ".repeat(26)),
        clusters = clusters(plan),
    )
}

const RUNTIME: &str = r#"
# Lets `curl -X POST 'http://ADMIN/runtime_modify?diana.enforce=0'` end all refusals (Envoy 1.40 or later).
layered_runtime:
  layers:
    - {name: admin, admin_layer: {}}
"#;

const METRICS: &str = r#"
# Metrics, at http://ADMIN/stats/prometheus. These expressions turn parts of Diana's names into labels.
stats_config:
  stats_tags:
    - {tag_name: rule, regex: '^wasmcustom\.diana(\.rule\.([^.]+))\.'}
    - {tag_name: result, regex: '^wasmcustom\.diana\..*?(\.result\.([^.]+))\.'}
    - {tag_name: kind, regex: '^wasmcustom\.diana(\.kind\.([^.]+))\.'}
    - {tag_name: store, regex: '^wasmcustom\.diana(\.store\.([^.]+))\.'}
    - {tag_name: outcome, regex: '^wasmcustom\.diana(\.outcome\.([^.]+))\.'}
    - {tag_name: fingerprint, regex: '^wasmcustom\.diana(\.fingerprint\.([^.]+))\.'}
    - {tag_name: version, regex: '^wasmcustom\.diana(\.version\.([^.]+))\.'}
"#;

fn wasm(plan: &Plan, document: &Value) -> String {
    format!(
        r#"                  - name: envoy.filters.http.wasm
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
                      config:
                        name: diana
                        # Envoy replaces a VM that fails; the counts survive.
                        failure_policy: FAIL_RELOAD
                        reload_config: {{backoff: {{base_interval: 0.1s}}}}
                        vm_config:
                          # Filters with the same `vm_id` share their counts.
                          vm_id: diana
                          runtime: envoy.wasm.runtime.v8
                          code: {{local: {{filename: {}}}}}
                        # The Diana document.
                        configuration:
                          "@type": type.googleapis.com/google.protobuf.Struct
                          value:
{}"#,
        scalar(&plan.filter),
        Yaml { indent: 28 }.document(plan, document)
    )
}

fn native(plan: &Plan, document: &Value) -> String {
    format!(
        r#"                  - name: envoy.filters.http.dynamic_modules
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter
                      # Envoy looks for `libdiana.so` in the folder that the environment variable names.
                      dynamic_module_config: {{name: diana, metrics_namespace: diana}}
                      # Filters with the same `filter_name` share their counts.
                      filter_name: diana
                      # The Diana document.
                      filter_config:
                        "@type": type.googleapis.com/google.protobuf.Struct
                        value:
{}"#,
        Yaml { indent: 26 }.document(plan, document)
    )
}

fn clusters(plan: &Plan) -> String {
    let mut clusters = cluster("upstream", &plan.upstream, "");
    if let Some(Redis(endpoint)) = &plan.store {
        clusters.push_str("    # Redis. `libdiana.so` carries the calls.\n");
        clusters.push_str(&cluster("redis", endpoint, BRIDGE));
    }
    if let Some(Remote { server, .. }) = &plan.remote {
        clusters.push_str("    # The server of the document that is laid over the one above.\n");
        clusters.push_str(&cluster("documents", server, ""));
    }
    clusters
}

const BRIDGE: &str = r#"      upstream_config:
        name: envoy.upstreams.http.dynamic_modules
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.dynamic_modules.v3.Config
          dynamic_module_config: {name: diana}
          bridge_name: redis
"#;

fn cluster(name: &str, endpoint: &Endpoint, options: &str) -> String {
    let kind = if endpoint.is_address() { "STATIC" } else { "STRICT_DNS" };
    format!(
        r#"    - name: {name}
      type: {kind}
      connect_timeout: 1s
{options}      load_assignment:
        cluster_name: {name}
        endpoints:
          - lb_endpoints:
              - endpoint: {{address: {}}}
"#,
        address(endpoint)
    )
}

fn address(endpoint: &Endpoint) -> String {
    format!("{{socket_address: {{address: {}, port_value: {}}}}}", quoted(&endpoint.host), endpoint.port)
}

/// An address begins with a digit or has colons, which YAML may read as something else.
fn quoted(host: &str) -> String {
    Value::from(host).to_string()
}
