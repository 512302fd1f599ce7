//! Names in documents: each name exists in the code.

use super::text;
use diana_filter::access_log::ATTRIBUTES;
use diana_filter::metrics::{METRICS, Metric, MetricKind};
use std::collections::BTreeSet;
use std::fs;

/// Files with the expressions that turn Envoy's statistics into labels.
const TAGGED: [&str; 10] = [
    "envoy.yaml",
    "docs/observability.md",
    "gateway/src/bootstrap.rs",
    "examples/docker-compose/envoy.yaml",
    "examples/global-redis/envoy.yaml",
    "examples/remote-config/envoy.yaml",
    "examples/kubernetes/base/envoy.yaml",
    "examples/istio/metrics.yaml",
    "examples/envoy-gateway/redis.yaml",
    "examples/envoy-gateway/wasm.yaml",
];

#[test]
fn every_label_has_its_expression() {
    let labels: BTreeSet<&str> = METRICS.iter().flat_map(|metric| metric.prometheus().1).collect();
    for file in TAGGED {
        let text = text(file).replace('"', "");
        let tags: Vec<&str> =
            text.split("tag_name: ").skip(1).filter_map(|rest| rest.split(',').next()).collect();
        assert_eq!(tags.iter().copied().collect::<BTreeSet<&str>>(), labels, "{file}");
        assert_eq!(tags.len(), labels.len(), "{file}");
        for label in &labels {
            // Other labels may precede a result.
            let before = if *label == "result" { r"\..*?" } else { "" };
            let expression = format!(r"^wasmcustom\.diana{before}(\.{label}\.([^.]+))\.");
            assert!(text.contains(&expression), "{file}: {expression}");
        }
    }
}

/// The documents whose names are checked: all pages of the repository, except the template of a
/// release's README, whose links lead into the release, and the changelog, which has old names too.
pub fn documents() -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = ["", "deploy/", "docs/", "examples/"].map(str::to_owned).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"))).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}{}", entry.file_name().into_string().unwrap());
            let is_folder = entry.file_type().unwrap().is_dir();
            if is_folder && !folder.is_empty() {
                folders.push(format!("{path}/"));
            } else if path.ends_with(".md") && path != "CHANGELOG.md" {
                files.push(path);
            }
        }
    }
    files.sort();
    files.into_iter().map(|file| (file.clone(), text(&file))).collect()
}

/// For each occurrence of `start`: the name after it, and the rest of the text.
pub fn names<'t>(
    text: &'t str,
    start: &str,
    is_letter: impl Fn(char) -> bool + Copy,
) -> Vec<(&'t str, &'t str)> {
    let starts = text.match_indices(start).map(|(at, _)| at + start.len());
    starts
        .map(|at| {
            let rest = &text[at..];
            rest.split_at(rest.find(|letter| !is_letter(letter)).unwrap_or(rest.len()))
        })
        .collect()
}

/// `diana_refused:RULE` and similar names are details of responses, not metrics.
const DETAILS: [&str; 4] = ["refused", "denied", "no_actor", "unavailable"];

/// The metric that only the native module has.
const PANICS: &str = "panics";

/// The metrics of a text that do not exist, or whose labels do not.
pub fn wrong_metrics(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, rest) in names(text, "diana_", |letter| letter.is_ascii_lowercase() || letter == '_') {
        let of = |name: &str| {
            METRICS
                .iter()
                .filter(|metric| metric.prometheus().0 == format!("diana_{name}"))
                .collect::<Vec<_>>()
        };
        let mut metrics = of(name);
        let base = ["_count", "_sum", "_bucket"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let histogram = |metric: &&Metric| metric.kind == MetricKind::Histogram;
        metrics.extend(base.map(of).unwrap_or_default().into_iter().filter(histogram));
        if metrics.is_empty() {
            if !DETAILS.contains(&name) && name != PANICS {
                wrong.push(format!("no metric is called diana_{name}"));
            }
            continue;
        }
        let labels = rest.strip_prefix('{').and_then(|rest| rest.split('}').next()).unwrap_or_default();
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (label, value) =
                label.split_once('=').map_or((label, None), |(label, value)| (label, Some(value)));
            let (label, value) = (label.trim_end_matches('!'), value.map(|value| value.trim_matches('"')));
            let takes = |metric: &&Metric| {
                let labels = metric.prometheus().1;
                // The last label is the label of the values.
                let has_value = |value| {
                    metric.values.is_empty()
                        || labels.last() != Some(&label)
                        || metric.values.contains(&value)
                };
                labels.contains(&label) && value.is_none_or(has_value)
            };
            if !metrics.iter().any(takes) {
                wrong.push(format!("diana_{name} has no {label}={value:?}"));
            }
        }
    }
    // Names of the host, in backticks.
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    for (name, rest) in
        names(text, "`diana.", is_letter).into_iter().chain(names(text, "wasmcustom.diana.", is_letter))
    {
        let is_metric = |metric: &Metric| {
            let (words, own): (Vec<&str>, Vec<&str>) =
                (name.split('.').collect(), metric.name.split('.').skip(1).collect());
            let fits = |(word, own): (&&str, &&str)| {
                let is_value = own.starts_with(|letter: char| letter.is_ascii_uppercase());
                word == own || (is_value && metric.values.contains(word))
            };
            words.len() == own.len() && words.iter().zip(&own).all(fits)
        };
        let ending = name.rsplit('.').next().unwrap_or(name);
        let is_file = ["wasm", "json", "yaml"].contains(&ending) || rest.starts_with('/');
        // A tag of a span has the name of its attribute.
        let is_tag = ATTRIBUTES.contains(&&*format!("wasm.diana.{name}"));
        let is_of_runtime = name == "enforce";
        if !is_file && !is_tag && !is_of_runtime && !METRICS.iter().any(is_metric) {
            wrong.push(format!("no metric is called diana.{name}"));
        }
    }
    wrong
}

#[test]
fn every_metric_that_a_document_names_exists() {
    for (file, text) in documents() {
        assert_eq!(wrong_metrics(&text), Vec::<String>::new(), "{file}");
    }
    for wrong in [
        "diana_store_errors",
        "diana_requests{rules}",
        r#"diana_evictions{kind="full"}"#,
        "diana_requests_count",
        "`diana.config.generations`",
        "`diana.kind.full.evictions`",
    ] {
        assert_eq!(wrong_metrics(wrong).len(), 1, "{wrong}");
    }
}

#[test]
fn every_metric_is_on_the_observability_page() {
    let page = text("docs/observability.md");
    for metric in METRICS {
        let (name, labels) = metric.prometheus();
        let name = if labels.is_empty() { format!("`{name}`") } else { format!("`{name}{{") };
        assert!(page.contains(&name), "{name}");
        assert!(labels.iter().all(|label| page.contains(label)), "{name}: {labels:?}");
    }
}

#[test]
fn every_attribute_that_a_document_names_exists() {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    for (file, text) in documents() {
        // Envoy's own statistics of a plugin with the name `diana` have the same prefix.
        let own = names(&text, "wasm.diana.", is_letter).into_iter();
        for (name, _) in own.filter(|(name, _)| !name.starts_with("vm_reload_")) {
            assert!(ATTRIBUTES.contains(&&*format!("wasm.diana.{name}")), "{file}: wasm.diana.{name}");
        }
    }
    let reference = text("docs/observability.md");
    for attribute in ATTRIBUTES {
        assert!(reference.contains(&format!("| `{attribute}` | ")), "{attribute} is not described");
    }
}

/// The commands of `cargo xtask`, named by clap after the variants.
fn commands() -> Vec<String> {
    let source = text("xtask/src/main.rs");
    let (_, task) = source.split_once("enum Task {\n").unwrap();
    let (task, _) = task.split_once("\n}").unwrap();
    let variants = task.lines().filter_map(|line| line.strip_prefix("    "));
    let variants = variants.filter(|line| line.starts_with(|letter: char| letter.is_ascii_uppercase()));
    let letters = |(at, letter): (usize, char)| {
        let dash = (at > 0 && letter.is_ascii_uppercase()).then_some('-');
        dash.into_iter().chain([letter.to_ascii_lowercase()])
    };
    let name = |line: &str| line.trim_end_matches([',', ' ', '{']).char_indices().flat_map(letters).collect();
    variants.map(name).collect()
}

#[test]
fn every_command_that_a_document_names_exists() {
    let commands = commands();
    assert!(commands.len() > 6 && commands.contains(&"e2e".to_owned()), "{commands:?}");
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let mut count = 0;
    for (file, text) in documents() {
        let text = text.split_whitespace().collect::<Vec<&str>>().join(" ");
        for (name, _) in
            names(&text, "cargo xtask ", is_letter).into_iter().filter(|(name, _)| !name.is_empty())
        {
            assert!(commands.contains(&name.to_owned()), "{file}: cargo xtask {name}");
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn every_measurement_names_its_commit() {
    let page = text("docs/bench/README.md");
    for command in ["bench", "bench count", "bench global"] {
        let (_, section) = page.split_once(&format!("<!-- cargo xtask {command} -->")).unwrap();
        let section = section.split("<!-- end -->").next().unwrap();
        let commits = names(section, "commit ", |letter| letter.is_ascii_hexdigit());
        assert!(commits.iter().any(|(commit, _)| commit.len() >= 7), "{command}");
    }
    let json = |file: &str| serde_json::from_str::<serde_json::Value>(&text(file)).unwrap();
    let (speed, counts) = (json("docs/bench/speed.json"), json("docs/bench/counts.json"));
    for commit in [&speed["machine"]["commit"], &counts["commit"]] {
        assert!(commit.as_str().is_some_and(|commit| commit.len() >= 7), "{commit}");
    }
}

/// The list of crates has the filter, the command and every library, and no other crate.
#[test]
fn every_crate_is_in_the_list() {
    let root = env!("CARGO_MANIFEST_DIR");
    let libraries = fs::read_dir(format!("{root}/crates")).unwrap();
    let folders = libraries.map(|entry| format!("crates/{}", entry.unwrap().file_name().to_str().unwrap()));
    let others =
        ["", "cli", "cli/playground", "cli/replay", "cli/workbench", "envoy-module"].map(str::to_owned);
    let name = |folder: String| {
        let manifest = text(&format!("{folder}/Cargo.toml"));
        manifest.split("\nname = \"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let crates: BTreeSet<String> = folders.chain(others).map(name).collect();
    let page = text("docs/internals/design/crates.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.map(str::to_owned).collect::<BTreeSet<String>>(), crates);
}

/// "`tests/it/file.rs`: `test`, `test`", also below `cli/`.
#[test]
fn every_test_that_a_document_names_exists() {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_/".contains(letter);
    let mut count = 0;
    for (file, text) in documents() {
        let text = text.split_whitespace().collect::<Vec<&str>>().join(" ");
        let of = |folder: &'static str| {
            let start = format!("`{folder}");
            let found = names(&text, &start, is_letter);
            found.into_iter().map(move |(source, rest)| (folder, source, rest)).collect::<Vec<_>>()
        };
        for (folder, source, rest) in ["tests/", "cli/tests/"].into_iter().flat_map(of) {
            let mut list = rest.strip_prefix(".rs`: ");
            while let Some((test, more)) = list.and_then(|list| list.strip_prefix('`')?.split_once('`')) {
                let code = super::text(&format!("{folder}{source}.rs"));
                assert!(code.contains(&format!("fn {test}(")), "{file}: {folder}{source}.rs has no `{test}`");
                count += 1;
                list = more.strip_prefix(", ");
            }
        }
    }
    assert!(count > 100, "{count}");
}

/// The anchor of a heading, in GitHub's form.
pub fn anchor(heading: &str) -> String {
    let is_kept = |letter: &char| letter.is_alphanumeric() || "_- ".contains(*letter);
    let kept: String = heading.trim().to_lowercase().chars().filter(is_kept).collect();
    kept.replace(' ', "-")
}

/// The anchors of a document's headings.
pub fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let outside = text.split("```").step_by(2);
    let headings = outside.flat_map(str::lines).filter(|line| line.starts_with('#'));
    for heading in headings.map(|line| line.trim_start_matches('#').trim()) {
        let anchor = anchor(heading);
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|anchor| !anchors.contains(anchor));
        anchors.extend(free);
    }
    anchors
}

/// Each file and each heading that a document links to exists.
#[test]
fn every_link_leads_somewhere() {
    for (file, text) in documents() {
        let folder = file.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        for (link, rest) in names(&text, "](", |letter| !")#".contains(letter)) {
            if link.contains("://") {
                continue;
            }
            let target = if link.is_empty() { file.clone() } else { format!("{folder}{link}") };
            let path = format!("{}/{target}", env!("CARGO_MANIFEST_DIR"));
            assert!(fs::exists(&path).unwrap(), "{file}: {link}");
            let anchor = rest.strip_prefix('#').and_then(|rest| rest.split(')').next());
            if let Some(anchor) = anchor {
                assert!(anchors(&super::text(&target)).contains(anchor), "{file}: {link}#{anchor}");
            }
        }
    }
}

/// Assistants fetch `llms.txt` alone, so its links are addresses.
#[test]
fn every_link_of_llms_txt_leads_to_a_file() {
    const FILES: &str = "https://raw.githubusercontent.com/diana-limiter/diana/main/";
    let page = text("llms.txt");
    let links = names(&page, "](", |letter| letter != ')');
    assert!(links.len() > 20, "{}", links.len());
    for (link, _) in links {
        let file = link.strip_prefix(FILES).unwrap_or_else(|| panic!("{link}: another place"));
        assert!(fs::exists(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap(), "{link}");
    }
}

#[test]
fn llms_txt_names_the_oldest_envoys() {
    let page = text("llms.txt");
    for (manifest, file) in [("manifest", "libdiana.so"), ("wasm", "diana.wasm")] {
        let manifest = text(&format!("deploy/built-on-envoy/{manifest}.yaml"));
        let (_, oldest) = manifest.split_once("minEnvoyVersion: ").unwrap();
        let oldest = oldest.split('\n').next().unwrap().trim_end_matches(".0");
        assert!(page.contains(&format!("(`{file}`) for Envoy {oldest} or later")), "{file}: {oldest}");
    }
}
