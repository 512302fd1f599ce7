//! `cargo xtask manifests [--crds FOLDER]`: judges the manifests of `examples` and `deploy` by
//! kubectl, kubernetes-validate and a real Envoy. Other kinds need schemas, which the user
//! provides:
//!
//! ```text
//!   FOLDER/istio-api            github.com/istio/api
//!   FOLDER/gateway              github.com/envoyproxy/gateway
//!   FOLDER/prometheus-operator  github.com/prometheus-operator/prometheus-operator
//!   FOLDER/built-on-envoy       github.com/tetratelabs/built-on-envoy
//! ```

mod schema;
mod validator;

use crate::{alerts, e2e};
use anyhow::{Context, Result, ensure};
use gateway::{Shell, root, target};
use schema::Schemas;
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use validator::Validator;

/// The overlays, and the oldest Kubernetes for each: before 1.30, `preStop` cannot `sleep`.
const OVERLAYS: [(&str, &str); 4] =
    [("native", "1.35"), ("wasm", "1.35"), ("redis", "1.35"), ("init-container", "1.30")];

/// The oldest Kubernetes for the other examples.
const OLDEST: &str = "1.30";

/// The folders that also have kinds with schemas of their own.
const EXAMPLES: [&str; 2] = ["examples/istio", "examples/envoy-gateway"];

/// The page with a kustomization that has the components, in the folder of a release.
const COMPONENTS: &str = "examples/kubernetes/README.md";

/// The entries of a catalogue.
const CATALOGUE: &str = "deploy/built-on-envoy";

/// Checks all manifests, those with other schemas if there is a folder of these.
///
/// An API server drops fields that a schema lacks. Here they are mistakes, and the command plants
/// one in each object of each manifest to see that the validator finds all of them. The rules in
/// CEL of the schemas are not evaluated.
pub fn run(crds: Option<&Path>) -> Result<()> {
    // The schemas come first: whether they are there is known at once.
    let schemas = crds.map(Schemas::read).transpose()?;
    let work = target().join("manifests");
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("cannot empty `{}`", work.display()))?;
    }
    fs::create_dir_all(&work)?;
    for (overlay, oldest) in OVERLAYS {
        let resources = resources(&validator::kustomize(&root().join("examples/kubernetes").join(overlay))?)?;
        config_maps(overlay, &resources)?;
        for version in [oldest, validator::NEWEST] {
            let validator = Validator::Kubernetes { version };
            judge(&work, &validator, &format!("examples/kubernetes/{overlay}"), &resources)?;
        }
    }
    for file in manifests(&EXAMPLES)? {
        let mut resources = resources(&read(&root().join(&file))?)?;
        resources.retain(is_of_kubernetes);
        for version in [OLDEST, validator::NEWEST].into_iter().filter(|_| !resources.is_empty()) {
            judge(&work, &Validator::Kubernetes { version }, &file, &resources)?;
        }
    }
    let (of_kubernetes, others): (Vec<_>, Vec<_>) =
        components(&work)?.into_iter().partition(is_of_kubernetes);
    for version in [OVERLAYS[0].1, validator::NEWEST] {
        judge(&work, &Validator::Kubernetes { version }, COMPONENTS, &of_kubernetes)?;
    }
    let mut custom: Vec<_> = others.into_iter().map(|one| (COMPONENTS.to_owned(), one)).collect();
    match schemas {
        Some(schemas) => {
            for file in manifests(&EXAMPLES)? {
                let all = resources(&read(&root().join(&file))?)?.into_iter();
                custom.extend(all.filter(|one| !is_of_kubernetes(one)).map(|one| (file.clone(), one)));
            }
            for (place, resource) in custom {
                let path = work.join("schema.json");
                fs::write(&path, schemas.of(&resource)?.to_string())?;
                judge(&work, &Validator::Schema { file: path }, &place, &[resource])?;
            }
            let validator = Validator::Schema { file: schemas.catalogue() };
            for file in manifests(&[CATALOGUE])? {
                judge(&work, &validator, &file, &resources(&read(&root().join(&file))?)?)?;
            }
        }
        None => println!(
            "not checked without `--crds FOLDER`: {}, {CATALOGUE}, {} of {COMPONENTS}",
            EXAMPLES.join(", "),
            custom.len()
        ),
    }
    for shell in [Shell::Wasm, Shell::Native] {
        e2e::run(Some("manifests::"), shell)?;
    }
    Ok(())
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))
}

/// The manifests in these folders.
fn manifests(folders: &[&str]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in folders {
        let before = found.len();
        for entry in fs::read_dir(root().join(folder)).with_context(|| format!("cannot read `{folder}`"))? {
            let name = entry?.file_name().into_string().ok().context("a name that is no text")?;
            found.extend(name.ends_with(".yaml").then(|| format!("{folder}/{name}")));
        }
        ensure!(found.len() > before, "`{folder}` has no manifests");
    }
    found.sort();
    Ok(found)
}

/// Whether it is of a kind that each Kubernetes has.
fn is_of_kubernetes(resource: &Value) -> bool {
    ["v1", "apps/v1", "networking.k8s.io/v1", "policy/v1"]
        .contains(&resource["apiVersion"].as_str().unwrap_or_default())
}

/// The documents of a YAML text.
fn resources(text: &str) -> Result<Vec<Value>> {
    serde_norway::Deserializer::from_str(text).map(|one| Ok(Value::deserialize(one)?)).collect()
}

/// The ConfigMaps have the files, and the right one of them a name that changes.
fn config_maps(overlay: &str, resources: &[Value]) -> Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for (start, file) in [("envoy", "base/envoy.yaml"), ("diana", &*format!("{overlay}/diana.yaml"))] {
        let mut maps = resources.iter().filter(|one| one["kind"] == "ConfigMap");
        let map = maps.find(|one| text(&one["metadata"]["name"]).starts_with(start));
        let map = map.with_context(|| format!("`{overlay}` has no ConfigMap `{start}`"))?;
        let name = text(&map["metadata"]["name"]);
        ensure!((name == start) == (start == "diana"), "`{overlay}` calls a ConfigMap `{name}`");
        // An overlay without a document takes that of what is below.
        let path = root().join("examples/kubernetes").join(file);
        let key = file.rsplit('/').next().unwrap_or_default();
        ensure!(!path.exists() || map["data"][key] == read(&path)?, "`{name}` has another `{key}`");
        let users = resources.iter().filter(|one| one["kind"] == "Deployment");
        ensure!(users.map(Value::to_string).all(|one| one.contains(&name)), "nothing uses `{name}`");
    }
    Ok(())
}

/// What the kustomization of the page makes in the folder of a release: a gateway with the filter,
/// and what watches it.
fn components(work: &Path) -> Result<Vec<Value>> {
    let release = work.join("release");
    fs::create_dir(&release)?;
    let mut copy = Command::new("cp");
    copy.args(["--recursive", "--parents", "examples/kubernetes", "deploy/observability"]).arg(&release);
    ensure!(copy.current_dir(root()).status()?.success(), "cannot copy to `{}`", release.display());
    fs::write(release.join(alerts::RESOURCE), alerts::resource()?)?;
    fs::write(release.join("kustomization.yaml"), kustomization()?)?;
    let resources = resources(&validator::kustomize(&release)?)?;
    let find = |kind: &str, name: &str| {
        let found = resources.iter().find(|one| one["kind"] == kind && one["metadata"]["name"] == name);
        found.with_context(|| format!("{COMPONENTS} makes no {kind} `{name}`"))
    };
    let has = |map: &Value, file: &str| -> Result<()> {
        let key = file.rsplit('/').next().unwrap_or_default();
        ensure!(map["data"][key] == read(&root().join(file))?, "a ConfigMap has another `{file}`");
        Ok(())
    };
    has(find("ConfigMap", "diana")?, "examples/kubernetes/component/diana.yaml")?;
    let dashboard = find("ConfigMap", "diana-dashboard")?;
    has(dashboard, "deploy/observability/dashboard.json")?;
    ensure!(dashboard["metadata"]["labels"]["grafana_dashboard"] == "1", "Grafana finds no dashboard");
    let rules: Value = serde_norway::from_str(&alerts::resource()?)?;
    ensure!(find("PrometheusRule", "diana")?["spec"] == rules["spec"], "the rules are others");
    let labels = &find("Deployment", "gateway")?["spec"]["template"]["metadata"]["labels"];
    let selected = &find("PodMonitor", "diana")?["spec"]["selector"]["matchLabels"];
    ensure!(labels == selected, "the monitor selects {selected}, the pods have {labels}");
    Ok(resources)
}

/// The kustomization of the page.
fn kustomization() -> Result<String> {
    let page = read(&root().join(COMPONENTS))?;
    let block = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    block.map(str::to_owned).with_context(|| format!("{COMPONENTS} has no block"))
}

/// Lets a validator accept the resources, and refuse each of them with a field that it lacks.
fn judge(work: &Path, validator: &Validator, place: &str, resources: &[Value]) -> Result<()> {
    let file = |name: String, value: &Value| -> Result<PathBuf> {
        let path = work.join(name);
        fs::write(&path, value.to_string())?;
        Ok(path)
    };
    let mut mutants = Vec::new();
    for (index, resource) in resources.iter().enumerate() {
        let right = file(format!("{index}.json"), resource)?;
        let refused = validator.refused(&[right])?;
        ensure!(refused.is_empty(), "{validator} refuses {place}:\n{}", refused.join("\n"));
        for path in schema::objects(resource) {
            let mut mutant = resource.clone();
            let object = mutant.pointer_mut(&path).and_then(Value::as_object_mut);
            object.context("no object")?.insert("planted-mistake".into(), 1.into());
            mutants.push((file(format!("{index}-mutant-{}.json", mutants.len()), &mutant)?, path));
        }
    }
    let files: Vec<PathBuf> = mutants.iter().map(|(file, _)| file.clone()).collect();
    let refused = validator.refused(&files)?;
    for (file, path) in &mutants {
        let name = file.display().to_string();
        let is_refused = refused.iter().any(|line| line.contains(&name) && line.contains("planted-mistake"));
        ensure!(is_refused, "{validator} accepts an unknown field in {place}, below `{path}`");
    }
    println!("{validator}: accepts {place}, and finds {} planted mistakes", mutants.len());
    files.iter().try_for_each(fs::remove_file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::folder;
    use serde_json::json;

    #[test]
    fn every_manifest_is_read() {
        let kinds = |folder: &str| {
            let files = manifests(&[folder]).unwrap();
            let all = files.iter().flat_map(|file| resources(&read(&root().join(file)).unwrap()).unwrap());
            let all = all.filter(|one| !is_of_kubernetes(one));
            let mut kinds: Vec<String> = all.map(|one| one["kind"].as_str().unwrap().into()).collect();
            kinds.sort();
            kinds
        };
        assert_eq!(
            kinds(EXAMPLES[0]),
            ["EnvoyFilter", "EnvoyFilter", "PeerAuthentication", "TrafficExtension", "WasmPlugin"]
        );
        let policies = [
            "EnvoyExtensionPolicy",
            "EnvoyExtensionPolicy",
            "EnvoyProxy",
            "EnvoyProxy",
            "EnvoyProxy",
            "HTTPRoute",
            "SecurityPolicy",
        ];
        assert_eq!(kinds(EXAMPLES[1]), policies);
        let entries = manifests(&[CATALOGUE]).unwrap().into_iter();
        let entries = entries.flat_map(|file| resources(&read(&root().join(file)).unwrap()).unwrap());
        let entries: Vec<Value> = entries.map(|one| json!([one["name"], one["type"]])).collect();
        assert_eq!(json!(entries), json!([["diana", "rust"], ["diana-wasm", "wasm"]]));
        let files = manifests(&EXAMPLES).unwrap();
        let all = files.iter().flat_map(|file| resources(&read(&root().join(file)).unwrap()).unwrap());
        assert_eq!(all.filter(is_of_kubernetes).count(), 8, "two hops");
        let mut overlays: Vec<_> = fs::read_dir(root().join("examples/kubernetes")).unwrap().collect();
        overlays.retain(|one| one.as_ref().unwrap().path().is_dir());
        assert_eq!(overlays.len(), OVERLAYS.len() + 2, "each but `base` and `component`");
    }

    /// The YAML documents of the examples and of `deploy`, with their files; patches, too.
    fn documents() -> Vec<(PathBuf, Value)> {
        let mut found = Vec::new();
        for folder in ["examples", "deploy"].map(|one| root().join(one)) {
            for name in folder::files(&folder).unwrap().iter().filter(|name| name.ends_with(".yaml")) {
                let file = folder.join(name);
                for document in resources(&read(&file).unwrap()).unwrap() {
                    let patches = document["patches"].as_array().map_or(&[][..], Vec::as_slice);
                    let patches = patches.iter().filter_map(|patch| patch["patch"].as_str());
                    found.extend(patches.map(|text| (file.clone(), serde_norway::from_str(text).unwrap())));
                    found.push((file.clone(), document));
                }
            }
        }
        found
    }

    #[test]
    fn every_container_requests_resources_and_has_a_limit_of_memory() {
        let mut checked = 0;
        for (file, document) in documents() {
            let pod = &document["spec"]["template"]["spec"];
            let lists = ["initContainers", "containers"].iter().filter_map(|key| pod[key].as_array());
            // A patch names a container without its image.
            for container in lists.flatten().filter(|container| !container["image"].is_null()) {
                for path in ["/requests/cpu", "/requests/memory", "/limits/memory"] {
                    let found = container["resources"].pointer(path);
                    assert!(found.is_some(), "{}: {} lacks {path}", file.display(), container["name"]);
                }
                checked += 1;
            }
        }
        assert!(checked >= 5, "{checked}");
    }

    /// What kubectl would find: a missing file, resource or component.
    #[test]
    fn what_a_kustomization_names_exists() {
        let mut checked = 0;
        let page =
            (root().join("kustomization.yaml"), serde_norway::from_str(&kustomization().unwrap()).unwrap());
        for (file, document) in documents().into_iter().chain([page]) {
            if file.file_name() != Some("kustomization.yaml".as_ref()) {
                continue;
            }
            let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
            let mut names = [list(&document["resources"]), list(&document["components"])].concat();
            list(&document["configMapGenerator"]).iter().for_each(|map| names.extend(list(&map["files"])));
            for name in names {
                let path = file.with_file_name(name.as_str().unwrap());
                let is_made = path == root().join(alerts::RESOURCE);
                assert!(is_made || path.exists(), "{}: {name}", file.display());
                checked += 1;
            }
        }
        assert!(checked >= 15, "{checked}");
    }

    /// The examples that a list of the script for a cluster has, sorted.
    fn applied(start: &str) -> Vec<String> {
        let script = read(&root().join(".ci/cluster")).unwrap();
        let lists = script.split(start).skip(1).filter_map(|rest| rest.split(';').next());
        let mut names: Vec<String> = lists.flat_map(str::split_whitespace).map(str::to_owned).collect();
        names.sort();
        names
    }

    /// The script has not run, but it misses no example.
    #[test]
    fn the_script_for_a_cluster_applies_each_example() {
        let mut overlays = OVERLAYS.map(|(overlay, _)| overlay.to_owned());
        overlays.sort();
        assert_eq!(applied("for overlay in "), overlays);
        let files = manifests(&EXAMPLES).unwrap();
        let names = files.iter().filter_map(|file| file.rsplit('/').next()?.strip_suffix(".yaml"));
        // The ways to Redis need one, and `metrics` is applied with each filter.
        let mut names: Vec<&str> =
            names.filter(|name| !name.contains("redis") && *name != "metrics").collect();
        names.sort_unstable();
        assert_eq!(applied("for file in "), names);
    }
}
