//! The documents that are found in files of each kind.

use super::content::File;
use super::documents::{Host, documents};
use super::parts::{Form, parts};
use super::*;
use std::path::{Path, PathBuf};

/// The host, the first line and the JSON of each document in a text.
fn found(name: &str, text: &str) -> Vec<(Host, usize, String)> {
    let file = File::new(name, text);
    let parts = parts(&file);
    for part in &parts {
        assert!(!matches!(part.form, Form::Wrong(_)), "{part:?}");
    }
    let of = |document: &Document| {
        let json = String::from_utf8(document.json().into_owned()).unwrap();
        (document.host, file.position(document.range().start).line, json.split_whitespace().collect())
    };
    documents(&parts).iter().map(of).collect()
}

fn repository(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
}

/// The document of a file, or the one at a line.
fn document(path: &Path, line: Option<usize>) -> Result<Vec<u8>> {
    let text = std::fs::read_to_string(path).unwrap();
    Ok(select(&File::new(path.display().to_string(), text), line)?.json)
}

#[test]
fn a_document_is_json_or_yaml() {
    let expected = r#"{"limits":[]}"#;
    for (name, text) in [
        ("a.json", "\n{\"limits\": []}"),
        ("a", "\n{\"limits\": []}"),
        ("a.yaml", "# a\nlimits: []\n"),
        ("a", "# a\nlimits: []\n"),
        ("a.yml", "---\n{limits: []}"),
    ] {
        assert_eq!(found(name, text), [(Host::Any, 2, expected.into())], "{text}");
    }
}

#[test]
fn the_examples_have_their_documents() {
    for (file, host, count) in [
        ("envoy.yaml", Host::Wasm, 1),
        ("envoy-native.yaml", Host::Module, 1),
        ("examples/global-redis/envoy.yaml", Host::Wasm, 1),
        ("examples/remote-config/envoy.yaml", Host::Wasm, 1),
        ("examples/nginx/nginx.conf", Host::Nginx, 3),
    ] {
        let text = std::fs::read_to_string(repository(file)).unwrap();
        let hosts: Vec<Host> = found(file, &text).iter().map(|(host, ..)| *host).collect();
        assert_eq!(hosts, vec![host; count], "{file}");
    }
    let configuration = configuration(&document(&repository("envoy.yaml"), None).unwrap()).unwrap();
    assert_eq!(configuration.policy.rules().count(), 12);
}

#[test]
fn one_of_several_documents_is_named_by_its_line() {
    let nginx = repository("examples/nginx/nginx.conf");
    let error = document(&nginx, None).unwrap_err().to_string();
    assert!(error.contains("has 3 Diana documents: name one of `"), "{error}");
    let line =
        std::fs::read_to_string(&nginx).unwrap().lines().position(|line| line.contains("=/search")).unwrap();
    let json = String::from_utf8(document(&nginx, Some(line + 1)).unwrap()).unwrap();
    assert!(json.contains("=/search") && !json.contains("per-user"), "{json}");
}

#[test]
fn documents_in_envoy_are_found_in_each_form() {
    let filter = |config: &str| {
        format!(
            "http_filters:\n- typed_config:\n    '@type': type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm\n    \
             config:\n      vm_config: {{code: {{local: {{filename: /a/diana.wasm}}}}}}\n{config}"
        )
    };
    let text = filter(
        "      configuration:\n        '@type': type.googleapis.com/google.protobuf.StringValue\n        value: |\n          \
         {\"limits\": []}\n",
    );
    assert_eq!(found("a.yaml", &text), [(Host::Wasm, 9, r#"{"limits":[]}"#.into())]);
    assert_eq!(found("a.yaml", &filter("")), [(Host::Wasm, 5, String::new())]);
    let struct_ = "resources:\n- {'@type': x/udpa.type.v1.TypedStruct, type_url: \
        x/envoy.extensions.filters.http.wasm.v3.Wasm, value: {config: {configuration: {'@type': \
        x/google.protobuf.Struct,\n  value: {limits: [{url: /, rules: [{rpu: 0x10}]}]}}}}}\n";
    let expected = r#"{"limits":[{"url":"/","rules":[{"rpu":16}]}]}"#;
    assert_eq!(found("a.yaml", struct_), [(Host::Wasm, 3, expected.into())]);
    let json = r#"{"static_resources": {"typedConfig": {"@type": "x/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter",
        "dynamicModuleConfig": {"name": "diana"}, "filterConfig": {"@type": "x/google.protobuf.Struct",
        "value": {"limits": [], "limits": []}}}}}"#;
    assert_eq!(found("a.json", json), [(Host::Module, 3, r#"{"limits":[],"limits":[]}"#.into())]);
    let other = text.replace("diana.wasm", "other.wasm").replace("limits", "routes");
    assert_eq!(found("a.yaml", &other), []);
}

#[test]
fn documents_in_manifests_are_found_in_each_form() {
    let limits = r#"{"limits":[{"url":"/","rules":[{"rpu":3000000000}]}]}"#;
    let plugin = "apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\nspec:\n  url: oci://a/diana\n  \
        pluginConfig:\n    limits: [{url: /, rules: [{rpu: 3_000_000_000}]}]\n";
    assert_eq!(found("a.yaml", plugin), [(Host::Wasm, 6, limits.into())]);
    let policy = "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyExtensionPolicy\nspec:\n  wasm:\n  - name: other\n    \
        config: {routes: 1}\n  - name: diana\n    config:\n      limits: [{url: /, rules: [{rpu: 3000000000}]}]\n";
    assert_eq!(found("a.yaml", policy), [(Host::Wasm, 9, limits.into())]);
    let map = "apiVersion: v1\nkind: ConfigMap\ndata:\n  envoy.yaml: |\n    static_resources:\n      x:\n        typed_config:\n          \
        '@type': x/envoy.extensions.filters.http.wasm.v3.Wasm\n          config: {name: diana, configuration: \
        {'@type': x/google.protobuf.StringValue, value: '[\n            ]'}}\n  \
        nginx.conf: |\n    http {\n      proxy_wasm diana '\n        {}';\n    }\n  \
        diana.json: |\n    {\"limits\": []}\n  notes.txt: |\n    limits are fine\n    here\n---\n\
        apiVersion: v1\nkind: List\nitems:\n- {apiVersion: a, kind: WasmPlugin, spec: {pluginConfig: {limits: []}}}\n";
    assert_eq!(
        found("a.yaml", map),
        [
            (Host::Wasm, 9, "[]".into()),
            (Host::Nginx, 14, "{}".into()),
            (Host::Any, 17, r#"{"limits":[]}"#.into()),
            (Host::Wasm, 25, r#"{"limits":[]}"#.into()),
        ]
    );
}
