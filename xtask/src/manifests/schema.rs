//! The schemas of custom resources, made strict.

use super::{read, resources};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the schemas are in the repositories.
const ISTIO: &str = "istio-api/kubernetes/customresourcedefinitions.gen.yaml";
const ENVOY_GATEWAY: &str = "gateway/charts/gateway-helm/charts/crds/crds/generated";
const GATEWAY_API: &str = "gateway/charts/gateway-helm/charts/crds/crds/gatewayapi-crds.yaml";
const PROMETHEUS: &str = "prometheus-operator/example/prometheus-operator-crd";
const CATALOGUE: &str = "built-on-envoy/extensions/manifest.schema.json";

/// Keys whose values are objects with keys of the user's.
const FREE: [&str; 9] =
    ["annotations", "config", "data", "labels", "limits", "matchLabels", "pluginConfig", "requests", "value"];

/// The schemas that somebody has brought.
pub struct Schemas {
    definitions: Vec<Value>,
    catalogue: PathBuf,
}

impl Schemas {
    /// Reads the folder of the repositories.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut definitions = resources(&read(&folder.join(ISTIO))?)?;
        definitions.extend(resources(&read(&folder.join(GATEWAY_API))?)?);
        for generated in [ENVOY_GATEWAY, PROMETHEUS].map(|one| folder.join(one)) {
            let entries = fs::read_dir(&generated);
            for entry in entries.with_context(|| format!("cannot read `{}`", generated.display()))? {
                // Python's expressions have their flags at the start.
                definitions.extend(resources(&read(&entry?.path())?.replace("^(?i)", "(?i)^"))?);
            }
        }
        let catalogue = folder.join(CATALOGUE);
        read(&catalogue)?;
        // Relative paths would depend on who reads them.
        let catalogue = catalogue.canonicalize()?;
        Ok(Self { definitions, catalogue })
    }

    /// The file with the schema of Built On Envoy's manifests.
    pub fn catalogue(&self) -> PathBuf {
        self.catalogue.clone()
    }

    /// The strict schema of a resource.
    pub fn of(&self, resource: &Value) -> Result<Value> {
        let (kind, api) = (&resource["kind"], resource["apiVersion"].as_str().unwrap_or_default());
        let (group, version) = api.split_once('/').context("a resource without a group")?;
        let is_kind = |one: &&Value| one["spec"]["group"] == group && one["spec"]["names"]["kind"] == *kind;
        let definition = self.definitions.iter().find(is_kind);
        let definition = definition.with_context(|| format!("no definition of {kind} in {group}"))?;
        let versions = definition["spec"]["versions"].as_array().map_or(&[][..], Vec::as_slice);
        let found = versions.iter().find(|one| one["name"] == version && one["served"] == true);
        let found = found.with_context(|| format!("{kind} has no version {version}"))?;
        Ok(strict(&found["schema"]["openAPIV3Schema"], api, kind))
    }
}

/// The schema that refuses what an API server would drop.
fn strict(schema: &Value, api: &str, kind: &Value) -> Value {
    let mut schema = schema.clone();
    // Kubernetes adds these to each definition.
    let names = json!({"type": "object", "additionalProperties": {"type": "string"}});
    schema["properties"]["apiVersion"] = json!({"const": api});
    schema["properties"]["kind"] = json!({"const": kind});
    schema["properties"]["metadata"] = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "namespace": {"type": "string"},
            "labels": names,
            "annotations": names,
        },
        "required": ["name"],
    });
    close(&mut schema);
    schema
}

/// Closes the objects of a schema. Below `allOf` and the like are conditions, not fields.
fn close(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    for key in ["items", "additionalProperties"] {
        object.get_mut(key).into_iter().for_each(close);
    }
    let fields = object.get_mut("properties").and_then(Value::as_object_mut);
    fields.into_iter().flat_map(|fields| fields.values_mut()).for_each(close);
    let keeps = object.get("x-kubernetes-preserve-unknown-fields").is_some_and(|keeps| *keeps == true);
    let is_object =
        object.contains_key("properties") || object.get("type").is_some_and(|one| *one == "object");
    if is_object && !keeps && !object.contains_key("additionalProperties") {
        object.insert("additionalProperties".into(), false.into());
    }
}

/// The JSON pointers of the objects in a resource whose keys belong to its kind.
pub fn objects(resource: &Value) -> Vec<String> {
    let mut found = Vec::new();
    visit(resource, String::new(), &mut found);
    // The selector of a Service is a map of labels.
    found.retain(|path| resource["kind"] != "Service" || path != "/spec/selector");
    found
}

fn visit(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object.iter().filter(|(key, _)| !FREE.contains(&key.as_str())) {
                visit(value, format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
            found.push(path);
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, value)| visit(value, format!("{path}/{index}"), found));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_api_server_keeps_stays_open() {
        let schema = json!({"properties": {"spec": {
            "type": "object",
            "oneOf": [{"required": ["a"]}, {"properties": {"b": {}}}],
            "properties": {
                "a": {"type": "array", "items": {"properties": {"c": {"type": "string"}}}},
                "b": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "d": {"type": "object", "additionalProperties": {"type": "object"}},
            },
        }}});
        let strict = strict(&schema, "g/v1", &json!("K"));
        let closed =
            |path: &str| strict.pointer(&format!("{path}/additionalProperties")) == Some(&json!(false));
        let spec = "/properties/spec";
        for path in ["", "/properties/metadata", spec] {
            assert!(closed(path), "{path}");
        }
        assert!(closed(&format!("{spec}/properties/a/items")));
        assert!(closed(&format!("{spec}/properties/d/additionalProperties")));
        assert!(!closed(&format!("{spec}/properties/b")));
        assert!(!closed(&format!("{spec}/oneOf/1")));
    }

    #[test]
    fn keys_of_the_user_are_no_fields() {
        let found = objects(&json!({
            "kind": "Service",
            "metadata": {"labels": {"a": "b"}},
            "spec": {"selector": {"c": "d"}, "ports": [{"port": 1}]},
        }));
        assert_eq!(found, ["/metadata", "/spec/ports/0", "/spec", ""]);
    }
}
