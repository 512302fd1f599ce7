//! The manifests for Kubernetes, Istio and Envoy Gateway: what they configure runs in a real Envoy.
//! `cargo xtask manifests` checks the manifests themselves.

use crate::examples::hosted::Hosted;
use crate::global::{client, in_redis, shared_rule};
use gateway::admin::Stats;
use gateway::{
    Config, Connection, Gateway, Redis, Reply, Shell, Upstream, filter, free_port, root, target, wait_until,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

fn read(file: &str) -> String {
    fs::read_to_string(root().join("examples").join(file)).unwrap()
}

/// The resources of a manifest, by their kinds.
pub fn resources(file: &str) -> BTreeMap<String, Value> {
    let text = read(file);
    let all = text.split("\n---\n").map(|one| serde_norway::from_str::<Value>(one).unwrap());
    all.map(|one| (one["kind"].as_str().unwrap().to_owned(), one)).collect()
}

/// Logs in as often as the rule `login` of every example allows, and once more.
fn log_in(gateway: &Gateway) {
    let log_in = || gateway.request("POST", "/login", &[], b"").unwrap();
    let passed = (0..5).filter(|_| log_in().status == 200).count();
    let answer = log_in();
    assert!(passed == 5 && answer.status == 429, "{passed}, {}", gateway.logs());
    assert!(answer.text().contains(r#""violated-policies":["login"]"#), "{}", answer.text());
}

/// The volume of a ConfigMap, as the kubelet writes it: `diana.yaml` leads to `..data/diana.yaml`,
/// and `..data` to a folder with all files of one version.
struct Volume {
    folder: PathBuf,
    version: u32,
}

impl Volume {
    fn new(name: &str, text: &str) -> Volume {
        let folder = target().join("gateway").join(format!("volume-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut volume = Volume { folder, version: 0 };
        volume.replace(text);
        symlink("..data/diana.yaml", volume.folder.join("diana.yaml")).unwrap();
        volume
    }

    fn replace(&mut self, text: &str) {
        let name = |version: u32| format!("..version-{version}");
        self.version += 1;
        let next = self.folder.join(name(self.version));
        fs::create_dir(&next).unwrap();
        fs::write(next.join("diana.yaml"), text).unwrap();
        symlink(name(self.version), self.folder.join("..data_tmp")).unwrap();
        fs::rename(self.folder.join("..data_tmp"), self.folder.join("..data")).unwrap();
        _ = fs::remove_dir_all(self.folder.join(name(self.version - 1)));
    }

    /// The Envoy of a pod with this volume, in front of this service.
    fn gateway(&self, app: &Upstream) -> Gateway {
        let bootstrap = read("kubernetes/base/envoy.yaml");
        let bootstrap = bootstrap.replace("/etc/diana", self.folder.to_str().unwrap());
        let bootstrap = bootstrap.replace("app.default.svc.cluster.local", "127.0.0.1");
        let port = |number| if number == 80 { app.address().port() } else { free_port().unwrap() };
        Gateway::from_text(&bootstrap, port).unwrap()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.folder);
    }
}

/// The document of the example, with a limit that does not refill during a test.
fn document() -> String {
    let text = match Shell::of_run() {
        Shell::Native => {
            filter::module().unwrap();
            read("kubernetes/native/diana.yaml")
        }
        Shell::Wasm => {
            let code = "/usr/local/lib/diana/plugin.wasm";
            read("kubernetes/component/diana.yaml").replace(code, filter::filter().unwrap().to_str().unwrap())
        }
    };
    text.replace("unit: minute", "unit: hour")
}

/// The same with one more limit.
fn with(limit: Value) -> String {
    let mut document: Value = serde_norway::from_str(&document()).unwrap();
    let config = &mut document["resources"][0]["typed_config"];
    let any = match Shell::of_run() {
        Shell::Native => &mut config["filter_config"],
        Shell::Wasm => &mut config["config"]["configuration"],
    };
    any["value"]["limits"].as_array_mut().unwrap().push(limit);
    document.to_string()
}

fn app() -> Upstream {
    Upstream::start(|_| Reply::new(200, "hello")).unwrap()
}

const UPDATE: Duration = Duration::from_secs(10);

/// Two pages of the admin interface are open to the kubelet and Prometheus, and no other one.
fn probes(gateway: &Gateway) {
    let probes = gateway.admin().listener("probes").unwrap().unwrap();
    let get = |path: &str| Connection::open(probes).unwrap().request("GET", path, &[], b"").unwrap();
    assert_eq!((get("/ready").status, get("/ready").text().trim()), (200, "LIVE"));
    let refused = || {
        let stats = Stats::parse(&get("/stats/prometheus").text());
        (stats.sum("diana_requests", &[("rule", "login"), ("result", "refused")]) == 1).then_some(())
    };
    wait_until("the metrics", UPDATE, refused).unwrap();
    for path in ["/", "/ready/", "/config_dump", "/quitquitquit", "/stats", "/stats/prometheus/x", "/login"] {
        assert_eq!(get(path).status, 404, "{path}");
    }
}

#[test]
fn a_changed_config_map_changes_the_limits_and_keeps_the_counts() {
    let (app, mut volume) = (app(), Volume::new("swap", &document()));
    let gateway = volume.gateway(&app);
    log_in(&gateway);
    probes(&gateway);
    assert_eq!(gateway.get("/export", &[]).unwrap().status, 200);
    let closed =
        |rpu: Value| json!({"url": "/export", "rules": [{"name": "closed", "rpu": rpu, "unit": "day"}]});
    let status = |path: &str| gateway.get(path, &[]).unwrap().status;
    volume.replace(&with(closed(json!(0))));
    wait_until("the new limit", UPDATE, || (status("/export") == 429).then_some(())).unwrap();
    let login = gateway.request("POST", "/login", &[], b"").unwrap();
    assert_eq!(login.status, 429, "the count is kept");
    // A wrong document changes nothing.
    let refused =
        || gateway.admin().counter("extension_config_discovery.http_filter.diana.config_fail").unwrap();
    let before = refused();
    volume.replace(&with(closed(json!("none"))));
    wait_until("Envoy to refuse the document", UPDATE, || (refused() > before).then_some(())).unwrap();
    assert!(gateway.log_contains("limits[2].rules[0].rpu"), "{}", gateway.logs());
    assert_eq!(status("/export"), 429);
    volume.replace(&document());
    wait_until("the first limits", UPDATE, || (status("/export") == 200).then_some(())).unwrap();
    assert_eq!(gateway.request("POST", "/login", &[], b"").unwrap().status, 429);
}

/// This is why a pod runs `diana check` before Envoy.
#[test]
fn without_the_check_a_new_pod_with_a_wrong_document_would_be_ready() {
    let (app, volume) = (app(), Volume::new("wrong", &with(json!({"url": "/export", "rulez": []}))));
    let gateway = volume.gateway(&app);
    assert!(gateway.admin().ready());
    assert_eq!(gateway.get("/", &[]).unwrap().status, 500);
    assert_eq!(app.requests(), 0);
}

const HCM: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const WASM: &str = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";
const MODULE: &str =
    "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter";

/// A bootstrap with a gateway that has this filter, enabled for its only route.
fn bootstrap(filter: Value) -> Value {
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let local = |name: &str| json!({"name": name, "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}});
    let mut route = json!({
        "match": {"prefix": "/"},
        "direct_response": {"status": 200, "body": {"inline_string": "hello"}},
    });
    let enabled = json!({"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "config": {}});
    route["typed_per_filter_config"] = json!({filter["name"].as_str().unwrap(): enabled});
    let mut listener = local("gateway");
    let manager = json!({
        "@type": HCM,
        "stat_prefix": "gateway",
        "use_remote_address": true,
        "http_filters": [
            filter,
            {"name": "envoy.filters.http.router", "typed_config": {"@type": router}},
        ],
        "route_config": {
            "name": "gateway",
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}],
        },
    });
    let filters = json!([{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]);
    listener["filter_chains"] = json!([{"filters": filters}]);
    json!({
        "admin": {"address": local("admin")["address"]},
        "static_resources": {"listeners": [listener], "clusters": []},
    })
}

fn start(bootstrap: &Value) -> Gateway {
    Gateway::from_text(&bootstrap.to_string(), |port| port).unwrap()
}

/// Merges as protobuf does: lists grow.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) => into.extend(from.iter().cloned()),
        (into, from) => *into = from.clone(),
    }
}

fn text(document: &Value) -> Value {
    json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": document.to_string()})
}

/// What Istio makes of a `TrafficExtension` or a `WasmPlugin`, in `pilot/pkg/model/extensions.go`:
/// no `vm_id`, and the policy after a failure as it is written.
fn of_istio(resource: &Value) -> Value {
    let (spec, metadata) = (&resource["spec"], &resource["metadata"]);
    let wasm = spec.get("wasm").unwrap_or(spec);
    let name = ["namespace", "name"].map(|key| metadata[key].as_str().unwrap()).join(".");
    let code = json!({"local": {"filename": filter::filter().unwrap()}});
    let variables = wasm["vmConfig"]["env"].as_array().unwrap().iter();
    let of_host: Vec<&Value> =
        variables.filter(|one| one["valueFrom"] == "HOST").map(|one| &one["name"]).collect();
    let config = json!({
        "name": name,
        "configuration": text(&wasm["pluginConfig"]),
        "failure_policy": wasm["failStrategy"],
        "vm_config": {
            "runtime": "envoy.wasm.runtime.v8",
            "code": code,
            "environment_variables": {"host_env_keys": of_host},
        },
    });
    let name = format!("extensions.istio.io/trafficextension/{name}");
    json!({"name": name, "typed_config": {"@type": WASM, "config": config}})
}

/// Puts the patches of an `EnvoyFilter` into a bootstrap.
fn patch(bootstrap: &mut Value, file: &str) {
    for patch in resources(file)["EnvoyFilter"]["spec"]["configPatches"].as_array().unwrap() {
        let value = &patch["patch"]["value"];
        let change = match (patch["applyTo"].as_str().unwrap(), patch["patch"]["operation"].as_str().unwrap())
        {
            ("BOOTSTRAP", "MERGE") => value.clone(),
            ("CLUSTER", "ADD") => json!({"static_resources": {"clusters": [value]}}),
            ("LISTENER", "ADD") => json!({"static_resources": {"listeners": [value]}}),
            other => panic!("{other:?}"),
        };
        merge(bootstrap, &change);
    }
}

/// The limits of each document in a file.
fn limits(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(fields) => {
            let below = fields.iter().flat_map(|(key, value)| match key.as_str() {
                "limits" => vec![value],
                _ => limits(value),
            });
            below.collect()
        }
        Value::Array(items) => items.iter().flat_map(limits).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn the_native_twin_of_a_file_has_its_limits() {
    let file = |name: &str| -> Value {
        let text = read(name);
        text.split("\n---\n").map(|one| serde_norway::from_str::<Value>(one).unwrap()).collect()
    };
    for (native, wasm) in [
        ("kubernetes/native/diana.yaml", "kubernetes/component/diana.yaml"),
        ("envoy-gateway/native.yaml", "envoy-gateway/wasm.yaml"),
    ] {
        let (native, wasm) = (file(native), file(wasm));
        assert_eq!(limits(&native), limits(&wasm));
        assert_eq!(limits(&native).len(), 1);
    }
}

fn refused_logins(gateway: &Gateway) -> u64 {
    gateway.stats().unwrap().sum("diana_requests", &[("rule", "login"), ("result", "refused")])
}

#[test]
fn istio_limits_by_either_resource_and_labels_the_metrics() {
    let filter = of_istio(&resources("istio/traffic-extension.yaml")["TrafficExtension"]);
    assert_eq!(of_istio(&resources("istio/wasm-plugin.yaml")["WasmPlugin"]), filter);
    let mut bootstrap = bootstrap(filter);
    patch(&mut bootstrap, "istio/metrics.yaml");
    let gateway = start(&bootstrap);
    log_in(&gateway);
    assert_eq!(refused_logins(&gateway), 1);
}

#[test]
fn istio_counts_in_redis_by_the_patches() {
    let redis = Redis::start().unwrap();
    let password = format!(">{}", Hosted::PASSWORD);
    let user = ["SETUSER", "diana", "on", &password, "~diana:*", "+@all"];
    redis::cmd("ACL").arg(&user).exec(&mut client(&redis)).unwrap();
    let readme = read("istio/README.md");
    let block = readme.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let block: Value = serde_norway::from_str(block).unwrap();
    let mut extension = resources("istio/traffic-extension.yaml").remove("TrafficExtension").unwrap();
    extension["spec"]["wasm"]["pluginConfig"] = block["pluginConfig"].clone();
    let mut bootstrap = bootstrap(of_istio(&extension));
    patch(&mut bootstrap, "istio/metrics.yaml");
    patch(&mut bootstrap, "istio/redis.yaml");
    // As in Istio's own bootstrap, `tools/packaging/common/envoy_bootstrap.json`.
    let internal = "type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.InternalListener";
    bootstrap["bootstrap_extensions"] =
        json!([{"name": "envoy.bootstrap.internal_listener", "typed_config": {"@type": internal}}]);
    let bootstrap = bootstrap.to_string().replace("redis.redis.svc.cluster.local", "127.0.0.1");
    let bootstrap = bootstrap.replace("6379", &redis.port().to_string());
    let gateway = Gateway::from_text_with(&bootstrap, &secrets(), |port| port).unwrap();
    let passes = || gateway.get("/api", &[("x-user-id", "ann")]).unwrap().status == 200;
    let passed = (0..130).filter(|_| passes()).count();
    // A token refills every 0.6 s.
    assert!((100..130).contains(&passed), "{passed}");
    let counted = |name: &str| gateway.counted(&format!("store.redis.{name}")).unwrap();
    let (calls, failed) = (counted("calls"), counted("failed_calls"));
    // On a busy machine a call may take longer than its timeout, and then the gateway counts.
    assert!(calls >= 50 && failed * 10 <= calls, "{calls}, {failed} failed, {}", gateway.logs());
    shows_no_secret(&gateway, &["DIANA_SECRET", "DIANA_REDIS_PASSWORD"]);
}

/// What Envoy Gateway makes of the policy and the proxy, in `internal/xds/translator/wasm.go` and
/// `dynamicmodule.go`: a filter that is disabled but on the routes of the policy.
fn of_envoy_gateway(policy: &Value, proxy: &Value) -> Value {
    let (policy, proxy) = (&policy["spec"], &proxy["spec"]);
    let name = "envoyextensionpolicy/default/diana";
    let filter = match (policy["wasm"].get(0), policy["dynamicModule"].get(0)) {
        (Some(wasm), None) => {
            let code = json!({"local": {"filename": filter::filter().unwrap()}});
            let vm_id = format!("{name}/wasm/0");
            let config = json!({
                "name": wasm["name"],
                "configuration": text(&wasm["config"]),
                "vm_config": {
                    "vm_id": vm_id,
                    "runtime": "envoy.wasm.runtime.v8",
                    "code": code,
                    "environment_variables": {"host_env_keys": wasm["env"]["hostKeys"]},
                },
            });
            let name = format!("envoy.filters.http.wasm/{name}/wasm/0");
            json!({"name": name, "disabled": true, "typed_config": {"@type": WASM, "config": config}})
        }
        (None, Some(module)) => {
            let is_registered = |entry: &&Value| entry["name"] == module["name"];
            let entry = proxy["dynamicModules"].as_array().unwrap().iter().find(is_registered).unwrap();
            let volume = &proxy["provider"]["kubernetes"]["envoyDeployment"]["container"]["volumeMounts"][0];
            let path = entry["source"]["local"]["path"].as_str().unwrap();
            assert_eq!(path, format!("{}/libdiana.so", volume["mountPath"].as_str().unwrap()));
            let config = json!({
                "@type": MODULE,
                "dynamic_module_config": {"module": {"local": {"filename": filter::module().unwrap()}}},
                "filter_name": module["filterName"],
                "filter_config": text(&module["config"]),
            });
            let name = format!("envoy.filters.http.dynamic_modules/{name}/dynamic-module/0");
            json!({"name": name, "disabled": true, "typed_config": config})
        }
        _ => panic!("{policy}"),
    };
    let mut bootstrap = bootstrap(filter);
    if let Some(more) = proxy["bootstrap"]["value"].as_str() {
        merge(&mut bootstrap, &serde_norway::from_str(more).unwrap());
    }
    bootstrap
}

#[test]
fn envoy_gateway_limits_by_its_policy() {
    let of = |file: &str| {
        let resources = resources(file);
        of_envoy_gateway(&resources["EnvoyExtensionPolicy"], &resources["EnvoyProxy"])
    };
    match Shell::of_run() {
        Shell::Wasm => {
            let gateway = start(&of("envoy-gateway/wasm.yaml"));
            log_in(&gateway);
            assert_eq!(refused_logins(&gateway), 1);
        }
        Shell::Native => {
            let gateway = start(&of("envoy-gateway/native.yaml"));
            log_in(&gateway);
            // Envoy Gateway cannot set the `metrics_namespace`.
            let name = "envoy_dynamicmodulescustom_requests";
            let refused = || {
                let stats = gateway.stats().unwrap();
                (stats.sum(name, &[("rule", "login"), ("result", "refused")]) == 1).then_some(())
            };
            wait_until("the metrics", UPDATE, refused).unwrap();
        }
    }
}

/// The variables that a Secret puts into the pods' environment.
pub fn secrets() -> Vec<(String, String)> {
    let all = [("DIANA_SECRET", "a secret of the tests"), ("DIANA_REDIS_PASSWORD", Hosted::PASSWORD)];
    all.map(|(name, value)| (name.into(), value.into())).to_vec()
}

/// The dump has these variables' names, and no variable's value.
fn shows_no_secret(gateway: &Gateway, names: &[&str]) {
    let dump = gateway.admin().get("/config_dump").unwrap().text();
    assert!(names.iter().all(|name| dump.contains(name)), "{dump}");
    assert!(secrets().iter().all(|(_, value)| !dump.contains(value)), "{dump}");
}

/// The secrets come from the pod's environment.
#[test]
fn kubernetes_counts_in_redis_with_the_secret_of_the_pod() {
    let redis = Hosted::start();
    let yaml = |text: &str| -> Value { serde_norway::from_str(text).unwrap() };
    let added = yaml(&redis.replaced(&read("kubernetes/redis/redis.yaml")));
    let [cluster] = &added["static_resources"]["clusters"].as_array().unwrap()[..] else { panic!("{added}") };
    let document = yaml(&read("kubernetes/redis/diana.yaml"));
    let mut document = document["resources"][0]["typed_config"]["filter_config"]["value"].clone();
    let rule = json!({"rpu": 20, "unit": "7d", "algo": "W"});
    document["limits"].as_array_mut().unwrap().push(shared_rule("=/shared", "shared", &rule));
    let start =
        || Config { env: secrets(), clusters: vec![cluster.clone()], ..Config::new(document.clone()) };
    let gateways = [(); 2].map(|()| Gateway::start(start()).unwrap());
    let passes =
        |index: &usize| gateways[index % 2].get("/shared", &[("x-user-id", "ann")]).unwrap().status == 200;
    assert_eq!((0..40).filter(passes).count(), 20, "{}", gateways[0].logs());
    let failed = gateways.each_ref().map(|one| one.counted("store.redis.failed_calls").unwrap());
    assert_eq!(failed, [0; 2]);
}

#[test]
fn envoy_gateway_counts_in_redis_by_its_bootstrap() {
    let redis = Hosted::start();
    let mut policy = resources("envoy-gateway/wasm.yaml").remove("EnvoyExtensionPolicy").unwrap();
    let document = &mut policy["spec"]["wasm"][0]["config"];
    let variable = |name: &str| json!({"env": name});
    let (secret, password) = (variable("DIANA_SECRET"), variable("DIANA_REDIS_PASSWORD"));
    document["store"] = in_redis(json!({"secret": secret, "user": "diana", "password": password}));
    let rule = json!({"rpu": 20, "unit": "7d", "algo": "W"});
    document["limits"].as_array_mut().unwrap().push(shared_rule("=/shared", "shared", &rule));
    let proxy = &resources("envoy-gateway/redis.yaml")["EnvoyProxy"];
    let container = &proxy["spec"]["provider"]["kubernetes"]["envoyDeployment"]["container"];
    let set: Vec<&Value> = container["env"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(json!(set), policy["spec"]["wasm"][0]["env"]["hostKeys"], "the pod has what the filter reads");
    let bootstrap = of_envoy_gateway(&policy, proxy);
    let text = bootstrap.to_string().replace(r#""address":"redis.example.com","port_value":6379"#, "ADDRESS");
    let address = format!(r#""address":"127.0.0.1","port_value":{}"#, redis.port());
    assert_eq!(text.matches("ADDRESS").count(), 1);
    let text = redis.with_files(&text.replace("ADDRESS", &address));
    let start = || Gateway::from_text_with(&text, &secrets(), |port| port).unwrap();
    let gateways = [(); 2].map(|()| start());
    let passes = |index: &usize| {
        let answer = gateways[index % 2].get("/shared", &[("x-user-id", "ann")]).unwrap();
        answer.status == 200
    };
    assert_eq!((0..40).filter(passes).count(), 20);
    assert!(gateways.iter().all(|gateway| gateway.counted("store.redis.calls").unwrap() > 0));
    shows_no_secret(&gateways[0], &["DIANA_SECRET", "DIANA_REDIS_PASSWORD"]);
    // Labelled as without a store.
    let refused = |gateway: &Gateway| {
        gateway.stats().unwrap().sum("diana_requests", &[("rule", "shared"), ("result", "refused")])
    };
    assert_eq!(gateways.iter().map(refused).sum::<u64>(), 20);
}
