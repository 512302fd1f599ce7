//! The documentation against the code: Diana accepts every configuration shown, the reference names
//! every key, and every test that a document names exists.

mod chinese;
mod claims;
mod keys;
mod names;
mod observability;

use diana_config::{Secret, SecretSource, Source};
use diana_limiter::policy::Policy;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

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

/// The plugin configurations anywhere inside an Envoy document.
fn plugins(value: &Value) -> Vec<Value> {
    let inner = match value {
        Value::Object(object) => object.values().flat_map(plugins).collect(),
        Value::Array(list) => list.iter().flat_map(plugins).collect(),
        _ => Vec::new(),
    };
    // The proxy-wasm filter's, or the native module's.
    let here = ["configuration", "filter_config"].into_iter().filter_map(|key| value.get(key)?.get("value"));
    here.cloned().chain(inner).collect()
}

fn check(file: &str, document: &Value) {
    compile(file, &format!("{document:#}"));
}

/// The page with documents for the native module alone: they name a secret of Envoy's.
const SECRETS: &str = "docs/configuration/global.md";

fn compile(file: &str, document: &str) -> Arc<Policy> {
    let names_secret = SecretSource::of(document.as_bytes()).is_some();
    assert!(!names_secret || file == SECRETS, "{file}: not every host has secrets\n{document}");
    let secret = if names_secret { Secret::Absent } else { Secret::Unsupported };
    match Source::new(document.as_bytes(), &secret).compile() {
        Ok(configuration) => {
            let warnings: Vec<String> = configuration.warnings.iter().map(ToString::to_string).collect();
            assert_eq!(warnings, [""; 0], "{file}\n{document}");
            configuration.policy
        }
        Err(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            panic!("{file}: {}\n{document}", errors.join("\n"))
        }
    }
}

#[test]
fn the_reference_and_the_readme_are_accepted() {
    let mut count = 0;
    for page in REFERENCE.map(|page| format!("docs/configuration/{page}.md")) {
        for block in blocks(&page, "yaml") {
            let document = yaml(&block);
            let plugins = plugins(&document);
            // The block is a configuration, or an Envoy document that contains some.
            let is_part_of_envoy =
                ["clusters", "layered_runtime"].iter().any(|key| document.get(key).is_some());
            let documents = if plugins.is_empty() && !is_part_of_envoy { vec![document] } else { plugins };
            documents.iter().for_each(|document| check(&page, document));
            count += documents.len();
        }
    }
    for file in ["README.md", "README.zh-CN.md", "docs/guide.md", "docs/zh-CN/guide.md"] {
        for block in blocks(file, "yaml") {
            for plugin in plugins(&yaml(&block)) {
                check(file, &plugin);
                count += 1;
            }
        }
    }
    assert!(count >= 9, "the documentation has lost its configurations");
}

/// Each guide has one document of Diana, beside files of others.
#[test]
fn the_migration_guides_are_accepted() {
    for guide in ["local-ratelimit", "ratelimit", "nginx", "traefik", "kong"] {
        let page = format!("docs/migrate/{guide}.md");
        let documents: Vec<Value> =
            blocks(&page, "yaml").iter().flat_map(|block| plugins(&yaml(block))).collect();
        assert_eq!(documents.len(), 1, "{page}");
        check(&page, &documents[0]);
    }
}

/// It lies over the demo's document.
#[test]
fn the_example_of_a_route_is_accepted() {
    let [block] = <[String; 1]>::try_from(blocks("docs/configuration/routes.md", "yaml")).unwrap();
    let [route] = <[Value; 1]>::try_from(plugins(&yaml(&block))).unwrap();
    let (listener, route) = (plugin("envoy-native.yaml").to_string(), route.to_string());
    assert!(diana_config::check_route(route.as_bytes()).unwrap().is_some());
    let both = diana_config::compile_route(listener.as_bytes(), route.as_bytes()).unwrap();
    let rules: Vec<&str> = both.policy.rules().map(|(_, rule)| rule.name()).collect();
    assert_eq!(rules, ["downloads"]);
}

#[test]
fn the_demo_is_accepted() {
    check("envoy.yaml", &plugin("envoy.yaml"));
}

#[test]
fn both_demos_have_the_same_document() {
    assert_eq!(plugin("envoy.yaml"), plugin("envoy-native.yaml"));
    let listeners = |file: &str| {
        let routes = text(file);
        routes.split("http_filters:").nth(2).map(str::to_owned)
    };
    let [wasm, native] = ["envoy.yaml", "envoy-native.yaml"].map(listeners);
    let upstream = |text: Option<String>| text.unwrap().split("# Metrics").next().unwrap().to_owned();
    assert_eq!(upstream(wasm), upstream(native), "the upstream and its cluster");
}

/// The last argument of each `proxy_wasm diana '…'` in an nginx configuration without other quotes.
fn directives(text: &str) -> Vec<&str> {
    let lines = text.split("proxy_wasm diana '").skip(1);
    lines.map(|rest| rest.split_once("';").expect("a directive ends with `';`").0).collect()
}

/// The zone also has room for all groups, as the README beside the example computes.
#[test]
fn the_example_for_nginx_is_accepted() {
    let text = text("examples/nginx/nginx.conf");
    let documents = directives(&text);
    assert_eq!(documents.len(), text.matches("proxy_wasm ").count(), "each directive has a document");
    assert_eq!(documents.len(), 3);
    let mut needed = 0;
    for document in documents {
        assert!(!document.contains(['\'', '\\', '$']), "nginx reads these by itself:\n{document}");
        let (keys, bytes) = compile("examples/nginx/nginx.conf", document).footprint();
        needed += 2 * bytes + 256 * keys;
    }
    assert!(text.contains("    shm_kv diana 64m eviction=lru;"));
    assert!(needed <= 64 << 20, "{needed} bytes");
    assert!(text.contains("/diana-nginx.wasm;"));
}

/// The one plugin configuration in a file of the repository.
fn plugin(file: &str) -> Value {
    let mut plugins = plugins(&yaml(&text(file)));
    assert_eq!(plugins.len(), 1, "{file}");
    plugins.remove(0)
}

#[test]
fn the_examples_of_stores_are_accepted() {
    let (file, readme) = ("examples/global-redis/envoy.yaml", "examples/global-redis/README.md");
    let mut document = plugin(file);
    check(file, &document);
    let [login] = <[String; 1]>::try_from(blocks(readme, "yaml")).unwrap();
    document["store"] = yaml(&login)["store"].take();
    check(readme, &document);
}

/// The README's blocks also show the rest of the gateway's document; `tests/e2e/remote` polls
/// servers with them.
#[test]
fn the_remote_example_is_accepted() {
    let file = "examples/remote-config/envoy.yaml";
    let own = plugin(file);
    check(file, &own);
    let document = text("examples/remote-config/documents/diana.json");
    let both = diana_config::compile_over(own.to_string().as_bytes(), document.as_bytes()).unwrap();
    assert_eq!(both.policy.rules().count(), 2);
    let file = "examples/remote-config/README.md";
    let blocks = blocks(file, "yaml");
    assert_eq!(blocks.len(), 7);
    for block in blocks {
        let mut document = own.clone();
        document["remote"] = yaml(&block)["remote"].take();
        check(file, &document);
    }
}

/// The text of a file of the repository.
fn text(file: &str) -> String {
    fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The pages of the reference. `keys` lists what the others explain.
const REFERENCE: [&str; 15] = [
    "README",
    "access-log",
    "actors",
    "adapt",
    "algorithms",
    "cost",
    "enforce",
    "global",
    "inspect",
    "keys",
    "limits",
    "other-filters",
    "remote",
    "responses",
    "routes",
];

#[test]
fn the_reference_has_these_pages() {
    let entries = fs::read_dir(format!("{}/docs/configuration", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let files: BTreeSet<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, REFERENCE.iter().map(|page| format!("{page}.md")).collect());
}

/// All pages of the reference, concatenated.
fn reference() -> String {
    REFERENCE.map(|page| text(&format!("docs/configuration/{page}.md"))).concat()
}

/// The rows of the table with this header, without the separator line.
fn rows<'t>(text: &'t str, header: &str) -> Vec<&'t str> {
    let (_, table) = text.split_once(&format!("\n{header}\n")).unwrap_or_else(|| panic!("{header}"));
    table.lines().skip(1).take_while(|line| line.starts_with('|')).collect()
}

/// The tables of algorithms and actors equal the code's lists, line by line.
#[test]
fn the_tables_of_kinds_equal_the_lists_of_the_code() {
    let algorithm = |kind: &diana_config::algorithm::AlgorithmKind| {
        let keys: Vec<String> = kind.keys.iter().map(|key| format!("`{key}`")).collect();
        let row = format!("| `{}` | {} | {} | {} |", kind.short, kind.name, keys.join(", "), kind.bound);
        row.replace("|  |", "| |")
    };
    let algorithms: Vec<String> = diana_config::algorithm::KINDS.iter().map(algorithm).collect();
    let page = text("docs/configuration/algorithms.md");
    assert_eq!(rows(&page, "| `algo` | name | keys | admits at most |"), algorithms);

    let page = text("docs/configuration/actors.md");
    let actors = rows(&page, "| source | example | value |");
    let kinds = diana_config::actor::KINDS;
    assert_eq!(actors.len(), kinds.len());
    for (row, kind) in actors.iter().zip(kinds) {
        assert!(row.starts_with(&format!("| `{}` | `", kind.key)), "{}: {row}", kind.key);
        let example = row.split('`').nth(3).unwrap();
        let (actors, none) = (format!("{{limits: [], actors: {{own: {example}}}}}"), [""; 0]);
        let taken = diana_config::compile(yaml(&actors).to_string().as_bytes()).map(drop);
        let mistakes = taken.err().into_iter().flatten().map(|error| error.to_string());
        assert_eq!(mistakes.collect::<Vec<String>>(), none, "{example}");
    }
}

#[test]
fn every_kind_of_the_code_is_described() {
    let reference = reference();
    let described = |word: &str| assert!(reference.contains(word), "{word} is not described");
    for kind in diana_config::algorithm::KINDS {
        described(&format!("\n### `{}`, {}\n", kind.short, kind.name));
    }
    let actors = diana_config::actor::KINDS.iter().map(|kind| kind.key);
    for key in actors.chain(diana_config::matcher::KINDS.iter().map(|kind| kind.key)) {
        described(&format!("`{key}"));
    }
}

#[test]
fn the_reference_and_the_page_on_accuracy_say_every_bound() {
    for file in ["docs/accuracy.md", "docs/configuration/algorithms.md"] {
        let text = text(file);
        for kind in diana_config::algorithm::KINDS {
            let is_stated = text
                .lines()
                .any(|line| line.contains(&format!("`{}`", kind.short)) && line.contains(kind.bound));
            assert!(is_stated, "{file} does not say of {}: {}", kind.short, kind.bound);
        }
    }
}
