//! `diana schema`: the committed file is the printed one, and the schema accepts what the filter
//! accepts. `tests/it/keys` compares the table that the schema prints with the filter's reader.

mod documents;

use diana_cli::schema;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::{env, fs};

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn the_committed_schema_is_the_printed_one() {
    let file = repository().join("docs/schema/diana.schema.json");
    let printed = serde_json::to_string_pretty(&schema::schema()).unwrap() + "\n";
    if env::var_os("UPDATE").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &printed).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap();
    assert!(committed == printed, "docs/schema/diana.schema.json differs; UPDATE=1 writes it");
    let id = "https://github.com/diana-limiter/diana/blob/main/docs/schema/diana.schema.json";
    assert_eq!(serde_json::from_str::<Value>(&committed).unwrap()["$id"], id);
}

#[test]
fn the_schema_is_a_schema_of_draft_2020_12() {
    let schema = schema::schema();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

#[test]
fn every_key_has_a_description() {
    fn check(place: &str, value: &Value) {
        let Value::Object(entries) = value else { return };
        let is_object = entries.contains_key("additionalProperties");
        if let (true, Some(Value::Object(properties))) = (is_object, entries.get("properties")) {
            for (name, property) in properties {
                let about = property["description"].as_str().unwrap_or_default();
                assert!(about.len() > 8 && about.ends_with('.'), "{place}.{name}: {about:?}");
                assert!(!about.contains("See the reference"), "{place}.{name} is new: describe the key");
            }
        }
        entries.iter().for_each(|(key, value)| check(&format!("{place}.{key}"), value));
    }
    check("", &schema::schema());
}
