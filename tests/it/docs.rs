//! Every configuration in the documentation is one that Diana takes.

use serde_json::Value;
use std::fs;

/// The fenced blocks of a language in a file of the repository.
fn blocks(file: &str, language: &str) -> Vec<String> {
    let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

fn yaml(text: &str) -> Value {
    serde_norway::from_str(text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

/// The plugin configurations inside a document of Envoy's, wherever they stand.
fn plugins(value: &Value) -> Vec<Value> {
    let inner = match value {
        Value::Object(object) => object.values().flat_map(plugins).collect(),
        Value::Array(list) => list.iter().flat_map(plugins).collect(),
        _ => Vec::new(),
    };
    let here = value.get("configuration").and_then(|any| any.get("value")).cloned();
    here.into_iter().chain(inner).collect()
}

fn check(file: &str, document: &Value) {
    if let Err(errors) = diana::config::compile(document.to_string().as_bytes()) {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{file}: {}\n{document:#}", errors.join("\n"));
    }
}

#[test]
fn the_reference_and_the_readme_are_taken() {
    let mut count = 0;
    for block in blocks("docs/configuration.md", "yaml") {
        check("docs/configuration.md", &yaml(&block));
        count += 1;
    }
    for block in blocks("README.md", "yaml") {
        for plugin in plugins(&yaml(&block)) {
            check("README.md", &plugin);
            count += 1;
        }
    }
    assert!(count >= 2, "the documentation has lost its configurations");
}

#[test]
fn the_demo_is_taken() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/envoy.yaml");
    let plugins = plugins(&yaml(&fs::read_to_string(path).unwrap()));
    assert_eq!(plugins.len(), 1);
    check("envoy.yaml", &plugins[0]);
}

#[test]
fn every_key_of_the_demo_and_the_reference_is_described() {
    let reference =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md")).unwrap();
    for kind in diana::algorithm::KINDS {
        assert!(
            reference.contains(kind.short) && reference.contains(kind.name),
            "{} is not described",
            kind.name
        );
    }
    for key in diana::actor::KINDS
        .iter()
        .map(|kind| kind.key)
        .chain(diana::matcher::KINDS.iter().map(|kind| kind.key))
    {
        assert!(reference.contains(&format!("`{key}")), "`{key}` is not described");
    }
}
