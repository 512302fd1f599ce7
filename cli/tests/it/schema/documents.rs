//! Whole documents against the schema, by an independent validator.

use super::repository;
use crate::harness::Random;
use crate::meaning::document::Document;
use diana_cli::schema;
use diana_config::{Secret, Source};
use jsonschema::Validator;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};
use std::fs;
use std::sync::LazyLock;

static VALIDATOR: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::draft202012::new(&schema::schema()).unwrap());

static CORPUS: LazyLock<Vec<(String, Value)>> = LazyLock::new(|| corpus("accept"));

fn corpus(folder: &str) -> Vec<(String, Value)> {
    let files = fs::read_dir(repository().join("tests/corpus").join(folder)).unwrap();
    let mut documents = Vec::new();
    for file in
        files.map(|file| file.unwrap().path()).filter(|file| file.extension().is_some_and(|e| e == "json"))
    {
        let text = fs::read(&file).unwrap();
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&text);
        if let Ok(document) = serde_json::from_slice(text) {
            documents.push((file.file_name().unwrap().to_string_lossy().into_owned(), document));
        }
    }
    documents.sort_by(|(one, _), (other, _)| one.cmp(other));
    documents
}

/// Whether the filter accepts the document, as a gateway with secrets.
pub fn is_accepted(document: &Value) -> bool {
    let secret = Secret::Known("a secret of sixteen bytes".into());
    Source::new(document.to_string().as_bytes(), &secret).compile().is_ok()
}

#[track_caller]
fn assert_valid(name: &str, document: &Value) {
    let mistakes: Vec<String> =
        VALIDATOR.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(mistakes.is_empty(), "{name}: {mistakes:#?}");
}

#[test]
fn every_accepted_document_of_the_corpus_is_valid() {
    assert!(CORPUS.len() > 140, "{}", CORPUS.len());
    CORPUS.iter().for_each(|(name, document)| assert_valid(name, document));
}

#[test]
fn most_refused_documents_of_the_corpus_are_invalid() {
    let refused = corpus("refuse");
    let (invalid, valid): (Vec<_>, Vec<_>) =
        refused.iter().partition(|(_, document)| !VALIDATOR.is_valid(document));
    let names: Vec<&str> = valid.iter().map(|(name, _)| name.as_str()).collect();
    println!("the schema refuses {} of {}; not {names:#?}", invalid.len(), refused.len());
    // The rest depends on several keys together, or on names that the document defines.
    assert!(invalid.len() >= INVALID, "the schema refuses {} of {} only", invalid.len(), refused.len());
}

/// So many refused documents of the corpus did the schema refuse when this number was set.
const INVALID: usize = 202;

#[test]
fn every_document_in_the_pages_and_examples_is_valid() {
    let mut checked = 0;
    let mut check = |name: &str, document: &Value| {
        if is_accepted(document) {
            assert_valid(name, document);
            checked += 1;
        }
    };
    let documented = ["docs", "docs/configuration", "docs/cookbook", "docs/cli"];
    for folder in documented.into_iter().chain(["examples/nginx", "examples/remote-config"]) {
        for file in fs::read_dir(repository().join(folder)).unwrap().map(|file| file.unwrap().path()) {
            let Some(extension) = file.extension().and_then(|extension| extension.to_str()) else { continue };
            let (name, text) = (file.display().to_string(), fs::read_to_string(&file).unwrap());
            if extension == "md" {
                for block in text.split("\n```").skip(1).step_by(2) {
                    let (kind, block) = block.split_once('\n').unwrap_or_default();
                    if kind.starts_with("yaml") || kind.starts_with("json") {
                        serde_norway::from_str(block)
                            .into_iter()
                            .for_each(|document| check(&name, &document));
                    }
                }
            } else if extension == "json" {
                serde_json::from_str(&text).into_iter().for_each(|document| check(&name, &document));
            }
        }
    }
    assert!(checked > 15, "{checked} documents only");
    for file in ["envoy.yaml", "envoy-native.yaml"] {
        let yaml: Value =
            serde_norway::from_str(&fs::read_to_string(repository().join(file)).unwrap()).unwrap();
        let mut found = 0;
        embedded(&yaml, &mut |document| {
            assert!(is_accepted(document), "{file}");
            assert_valid(file, document);
            found += 1;
        });
        assert!(found > 0, "{file} has no document");
    }
}

/// Calls `check` with each object that has `limits`.
fn embedded(value: &Value, check: &mut dyn FnMut(&Value)) {
    match value {
        Value::Object(entries) if entries.contains_key("limits") => check(value),
        Value::Object(entries) => entries.values().for_each(|value| embedded(value, check)),
        Value::Array(items) => items.iter().for_each(|item| embedded(item, check)),
        _ => {}
    }
}

#[test]
fn a_mistake_is_found_where_an_editor_would_show_it() {
    for (document, place) in [
        (
            json!({"limits": [{"url": "/", "rules": [{"rpu": 1, "unit": "second", "brust": 2}]}]}),
            "/limits/0/rules/0",
        ),
        (json!({"limits": [{"url": "/", "rules": [{"unit": "second"}]}]}), "/limits/0/rules/0"),
        (
            json!({"limits": [{"url": "/", "rules": [{"rpu": -1, "unit": "second"}]}]}),
            "/limits/0/rules/0/rpu",
        ),
        (json!({"limits": [{"url": "/", "rules": [{"rpu": 1, "unit": "secnd"}]}]}), "/limits/0/rules/0/unit"),
        (
            json!({"limits": [{"url": "/", "rules": [{"rpu": 1, "unit": "second", "algo": "GCRA"}]}]}),
            "/limits/0/rules/0/algo",
        ),
        (json!({"limits": [], "headers": "all"}), "/headers"),
        (json!({"heder": []}), ""),
        (json!({"url": "/", "rules": [{"rpu": 1, "unit": "second", "mode": "off"}]}), "/rules/0/mode"),
        (json!([{"url": "api", "rules": []}]), "/0/url"),
    ] {
        let places: Vec<String> =
            VALIDATOR.iter_errors(&document).map(|error| error.instance_path().to_string()).collect();
        assert!(places.iter().any(|found| found == place), "{document}: {places:?}");
        assert!(!is_accepted(&document), "{document}");
    }
}

/// All values of the corpus, by the key at which they stand.
static VALUES: LazyLock<Vec<(String, Value)>> = LazyLock::new(|| {
    fn collect(value: &Value, to: &mut Vec<(String, Value)>) {
        match value {
            Value::Object(entries) => entries.iter().for_each(|(key, value)| {
                to.push((key.clone(), value.clone()));
                collect(value, to);
            }),
            Value::Array(items) => items.iter().for_each(|item| collect(item, to)),
            _ => {}
        }
    }
    let mut values = Vec::new();
    CORPUS
        .iter()
        .filter(|(name, _)| name != "thousand-limits.json")
        .for_each(|(_, document)| collect(document, &mut values));
    values
});

/// What a user may write at any place.
const ODD: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "1",
    "5.0",
    "1e3",
    "-1",
    "0.5",
    "1000000000",
    "1000000001",
    "\"\"",
    "\" 10 k \"",
    "\"7\"",
    "\"64Ki\"",
    "\"1m\"",
    "\" 1 MS\"",
    "\"0\"",
    "\"00\"",
    "\"10%\"",
    "\" 7 % \"",
    "\"Shadow\"",
    "\"ENFORCE \"",
    "\"x_ratelimit\"",
    "\"Token-Bucket\"",
    "\"sliding_LOG\"",
    "\"c\"",
    "\"Minute\"",
    "\" MINS\"",
    "\"2 hours\"",
    "\"1 ss\"",
    "\"unlimited\"",
    "\"ip\"",
    "\"*\"",
    "\"=/x\"",
    "\"/a/{b}\"",
    "\"5xx\"",
    "\" 500 - 599 \"",
    "\"latency_p999\"",
    "\"latency_p10\"",
    "[]",
    "[1]",
    "[\"GET\"]",
    "{}",
    "{\"sds\": \"a\"}",
    "{\"present\": false}",
    "\"\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\"",
];

/// Changes a random place: replaces the value, removes the entry, or adds one.
fn mutated(document: &mut Value, (at, action, value): (Index, u8, Index)) {
    let mut places = Vec::new();
    walk(document, String::new(), &mut places);
    let place = at.get(&places).clone();
    let node = document.pointer_mut(&place).unwrap();
    let last = place.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
    match (action % 4, node) {
        // A value that stands at the same key elsewhere.
        (0, node) => {
            let same: Vec<&Value> =
                VALUES.iter().filter(|(key, _)| *key == last).map(|(_, value)| value).collect();
            if !same.is_empty() {
                *node = (*value.get(&same)).clone();
            }
        }
        (1, node) => *node = serde_json::from_str(ODD[value.index(ODD.len())]).unwrap(),
        (2, Value::Object(entries)) if !entries.is_empty() => {
            let keys: Vec<String> = entries.keys().cloned().collect();
            entries.remove(value.get(&keys));
        }
        (2, Value::Array(items)) if !items.is_empty() => {
            items.remove(value.index(items.len()));
        }
        (_, Value::Object(entries)) => {
            let (key, value) = value.get(&VALUES);
            entries.insert(key.clone(), value.clone());
        }
        (_, Value::Array(items)) => items.extend(items.first().cloned()),
        _ => {}
    }
}

fn walk(value: &Value, place: String, to: &mut Vec<String>) {
    match value {
        Value::Object(entries) => entries.iter().for_each(|(key, value)| {
            walk(value, format!("{place}/{}", key.replace('~', "~0").replace('/', "~1")), to)
        }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, value)| walk(value, format!("{place}/{at}"), to))
        }
        _ => {}
    }
    to.push(place);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6_000))]

    #[test]
    fn the_schema_refuses_nothing_that_the_filter_accepts(
        document: Index,
        changes in prop::collection::vec(any::<(Index, u8, Index)>(), 1..4),
    ) {
        let documents: Vec<&Value> =
            CORPUS.iter().filter(|(name, _)| name != "thousand-limits.json").map(|(_, document)| document).collect();
        let mut document = (*document.get(&documents)).clone();
        changes.into_iter().for_each(|change| mutated(&mut document, change));
        if is_accepted(&document) {
            let mistakes: Vec<String> =
                VALIDATOR.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
            prop_assert!(mistakes.is_empty(), "{document}: {mistakes:#?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// The documents by which the engine's tests compare the meanings of spellings.
    #[test]
    fn every_spelling_of_a_random_document_is_valid(document: u64, spelling: u64) {
        let text = Document::random(&mut Random(document)).write(&mut Random(spelling));
        let document: Value = serde_json::from_str(&text).unwrap();
        let mistakes: Vec<String> = VALIDATOR.iter_errors(&document).map(|error| error.to_string()).collect();
        prop_assert!(is_accepted(&document) && mistakes.is_empty(), "{text}: {mistakes:#?}");
    }
}

#[test]
fn mutations_are_accepted_often_enough_to_tell_anything() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = any::<(Index, (Index, u8, Index))>();
    let accepted = (0..1_000).filter(|_| {
        let (at, change) = strategy.new_tree(&mut runner).unwrap().current();
        let mut document = at.get(&CORPUS).1.clone();
        mutated(&mut document, change);
        is_accepted(&document)
    });
    let accepted = accepted.count();
    assert!(accepted > 200, "{accepted} of 1,000");
}

/// An empty object is no document, and neither is one without limits.
#[test]
fn a_document_has_limits() {
    for document in [json!({}), json!({"mode": "shadow"}), json!(1), Value::Object(Map::new())] {
        assert!(!VALIDATOR.is_valid(&document) && !is_accepted(&document), "{document}");
    }
}
