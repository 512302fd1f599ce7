//! `deploy/observability`: the recording rules are those of the table of metrics; alerts and
//! dashboard name what the rules record; each alert leads to a page, and has a unit test.
//! `cargo xtask test` runs the unit tests by promtool.

use super::names::{anchors, documents, names, wrong_metrics};
use super::{text, yaml};
use diana_filter::metrics::{Each, METRICS, MetricKind};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::{env, fs};

const RULES: &str = "deploy/observability/rules.yaml";
const ALERTS: &str = "deploy/observability/alerts.yaml";
const TESTS: &str = "deploy/observability/tests/alerts.yaml";
const DASHBOARD: &str = "deploy/observability/dashboard.json";

/// Labels that Prometheus and the rules add.
const ADDED: [&str; 4] = ["job", "instance", "shell", "le"];

/// Envoy's own metrics, which both shells have under one name.
const OF_ENVOY: [&str; 2] =
    ["envoy_wasm_diana_vm_reload_success", "envoy_listener_manager_lds_update_rejected"];

/// What the names of the filter and of the module begin with. Gateways that do not let the operator
/// choose `metrics_namespace`, such as Envoy Gateway, have Envoy's own.
const PREFIXES: [(&str, &[&str]); 2] =
    [("wasm", &["diana"]), ("native", &["envoy_diana", "envoy_dynamicmodulescustom"])];

/// The recording rules: the recorded name, the shell and the expression.
fn recorded() -> Vec<(String, &'static str, String)> {
    let mut rules: Vec<(String, &str, String)> = Vec::new();
    let any = |prefixes: &[&str], of: &dyn Fn(&str) -> String| {
        prefixes.iter().map(|prefix| of(prefix)).collect::<Vec<_>>().join(" or ")
    };
    // nginx has no page that Prometheus could read.
    for metric in METRICS.iter().filter(|metric| metric.each != Each::RestrictedHost) {
        let name = metric.prometheus().0;
        let name = name.strip_prefix("diana_").unwrap();
        for (shell, prefixes) in PREFIXES {
            let rate = |name: &str| any(prefixes, &|prefix| format!("rate({prefix}_{name}[5m])"));
            let rule = match metric.kind {
                MetricKind::Counter => (format!("diana:{name}:rate5m"), shell, rate(name)),
                MetricKind::Gauge => (
                    format!("diana:{name}:value"),
                    shell,
                    any(prefixes, &|prefix| format!("{prefix}_{name}")),
                ),
                MetricKind::Histogram => {
                    (format!("diana:{name}_bucket:rate5m"), shell, rate(&format!("{name}_bucket")))
                }
            };
            // The lists are rules, too.
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    let (shell, prefixes) = PREFIXES[1];
    let panics = any(prefixes, &|prefix| format!("rate({prefix}_panics[5m])"));
    rules.push(("diana:panics:rate5m".into(), shell, panics));
    rules
}

/// `UPDATE=1 cargo test --test it docs::observability` writes the file.
#[test]
fn the_recording_rules_are_those_of_the_table() {
    let mut printed = String::from(
        "# Recording rules that make the names of both shells one: the filter's metrics are `diana_…`, those\n\
         # of the native module `envoy_diana_…`, or under Envoy Gateway `envoy_dynamicmodulescustom_…`, and\n\
         # `diana:…` are all, with the label `shell`. Counters and histograms become rates a second.\n\
         # `UPDATE=1 cargo test --test it docs::observability` writes this file from the table of metrics.\n\
         groups:\n  - name: diana-names\n    rules:\n",
    );
    for (record, shell, expression) in recorded() {
        writeln!(
            printed,
            r#"      - {{record: "{record}", labels: {{shell: {shell}}}, expr: "{expression}"}}"#
        )
        .unwrap();
    }
    if env::var_os("UPDATE").is_some() {
        fs::write(format!("{}/{RULES}", env!("CARGO_MANIFEST_DIR")), &printed).unwrap();
    }
    assert!(text(RULES) == printed, "{RULES} differs; UPDATE=1 writes it");
}

/// The alerts, each an object with `alert`, `expr` and so on.
fn alerts() -> Vec<Value> {
    let file = yaml(&text(ALERTS));
    let groups = file["groups"].as_array().unwrap().iter();
    groups.flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// The panels of the dashboard, without the headings of its rows.
fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(&text(DASHBOARD)).unwrap();
    let all = dashboard["panels"].as_array().unwrap().iter();
    all.filter(|panel| panel["type"] != "row").cloned().collect()
}

/// What is wrong with the names and labels of an expression, or of a text with series in it.
/// `is_raw` says whether it may have names that no rule has recorded.
fn wrong(expression: &str, is_raw: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let recorded = recorded();
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_:".contains(letter);
    let mut rest = expression;
    while let Some(at) = rest.find(is_letter) {
        let end = rest[at..].find(|letter| !is_letter(letter)).map_or(rest.len(), |end| at + end);
        let (name, after) = (&rest[at..end], &rest[end..]);
        rest = after;
        let known = recorded.iter().find(|(record, ..)| record == name);
        let metric = match known {
            Some((_, _, expression)) => {
                let first = expression.split(" or ").next().unwrap();
                let raw = first.trim_start_matches("rate(").trim_end_matches("[5m])");
                raw.trim_start_matches("envoy_").to_owned()
            }
            None if OF_ENVOY.contains(&name) => continue,
            None if is_raw && PREFIXES.iter().any(|(_, all)| all.iter().any(|of| name.starts_with(of))) => {
                name.replace("dynamicmodulescustom", "diana").trim_start_matches("envoy_").to_owned()
            }
            None if name.contains("diana") || name.starts_with("envoy_") => {
                wrong.push(format!("{name} is not recorded"));
                continue;
            }
            None => {
                let is_list = ["by", "without", "on", "ignoring", "group_left"].contains(&name);
                if let Some((list, _)) =
                    after.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')'))
                    && is_list
                {
                    wrong.extend(wrong_labels(list.split(',')));
                }
                continue;
            }
        };
        let labels = after.strip_prefix('{').and_then(|rest| rest.split('}').next()).unwrap_or_default();
        let own = labels.split(',').map(str::trim).filter(|label| {
            let name = label.split(['=', '!']).next().unwrap_or_default();
            !ADDED.contains(&name)
        });
        let selector = format!("{metric}{{{}}}", own.collect::<Vec<&str>>().join(","));
        wrong.extend(wrong_metrics(&selector));
    }
    wrong
}

/// The labels that no metric has.
fn wrong_labels<'t>(labels: impl Iterator<Item = &'t str>) -> Vec<String> {
    let known: BTreeSet<&str> =
        METRICS.iter().flat_map(|metric| metric.prometheus().1).chain(ADDED).collect();
    let unknown = labels.map(str::trim).filter(|label| !label.is_empty() && !known.contains(label));
    unknown.map(|label| format!("no metric has the label {label}")).collect()
}

#[test]
fn every_name_of_the_alerts_and_the_dashboard_is_recorded() {
    for alert in alerts() {
        assert_eq!(wrong(word(&alert["expr"]), false), [""; 0], "{}", alert["alert"]);
        let labels =
            names(word(&alert["annotations"]["summary"]), "$labels.", |letter| letter.is_ascii_lowercase());
        assert_eq!(wrong_labels(labels.into_iter().map(|(label, _)| label)), [""; 0], "{}", alert["alert"]);
    }
    for panel in panels() {
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(wrong(word(&target["expr"]), false), [""; 0], "{}", panel["title"]);
            let legend = names(word(&target["legendFormat"]), "{{", |letter| letter.is_ascii_lowercase());
            assert_eq!(
                wrong_labels(legend.into_iter().map(|(label, _)| label)),
                [""; 0],
                "{}",
                panel["title"]
            );
        }
    }
    let dashboard: Value = serde_json::from_str(&text(DASHBOARD)).unwrap();
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        assert_eq!(wrong(word(&variable["query"]), false), [""; 0], "{}", variable["name"]);
    }
    // A series that does not exist would make a quiet alert quiet for another reason.
    for test in yaml(&text(TESTS))["tests"].as_array().unwrap() {
        for series in test["input_series"].as_array().unwrap() {
            assert_eq!(wrong(word(&series["series"]), true), [""; 0], "{}", test["name"]);
        }
    }
    for mistake in [
        "diana:decision:rate5m > 0",
        "diana_decisions > 0",
        "rate(envoy_diana_decisions[5m]) > 0",
        r#"diana:decisions:rate5m{outcome="lost"}"#,
        "diana:decisions:rate5m{result=\"ok\"}",
        "sum by (rules) (diana:requests:rate5m)",
        "sum without (job, results) (diana:requests:rate5m)",
        "increase(envoy_wasm_diana_vm_reloads[15m])",
        "diana:lost_keys:rate5m",
    ] {
        assert_eq!(wrong(mistake, false).len(), 1, "{mistake}");
    }
}

#[test]
fn every_alert_waits_and_leads_to_a_page() {
    let repository = format!("{}/blob/main/", env!("CARGO_PKG_REPOSITORY"));
    let mut found = BTreeSet::new();
    for alert in alerts() {
        let name = word(&alert["alert"]);
        assert!(name.starts_with("Diana") && found.insert(name.to_owned()), "{name}");
        assert!(word(&alert["for"]).ends_with('m'), "{name}");
        assert!(["critical", "warning", "info"].contains(&word(&alert["labels"]["severity"])), "{name}");
        let url = word(&alert["annotations"]["runbook_url"]);
        let page = url.strip_prefix(&repository).unwrap_or_else(|| panic!("{name}: {url}"));
        let (page, anchor) = page.split_once('#').unwrap_or_else(|| panic!("{name}: {url}"));
        assert!(anchors(&text(page)).contains(anchor), "{name}: {url}");
    }
    assert!(found.len() > 12, "{found:?}");
    // A page names only alerts that exist, and says which to expect.
    let mut named = BTreeSet::new();
    for (file, text) in documents() {
        for (name, _) in names(&text, "`Diana", |letter| letter.is_ascii_alphabetic()) {
            let name = format!("Diana{name}");
            assert!(name == "Diana" || found.contains(&name), "{file}: {name}");
            named.insert(name);
        }
    }
    assert!(named.len() > 3, "{named:?}");
}

/// In a test of an alert, it first waits, and then fires for some of the series.
#[test]
fn every_alert_has_a_unit_test() {
    let tests = yaml(&text(TESTS));
    let expectations: Vec<&Value> = tests["tests"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|test| test["alert_rule_test"].as_array().unwrap())
        .collect();
    for alert in alerts() {
        let own = expectations.iter().filter(|test| test["alertname"] == alert["alert"]);
        let fires: Vec<bool> = own.map(|test| test["exp_alerts"].as_array().unwrap().is_empty()).collect();
        assert_eq!(fires, [true, false], "{}: quiet, then firing", alert["alert"]);
    }
    let known: BTreeSet<String> = alerts().iter().map(|alert| word(&alert["alert"]).to_owned()).collect();
    for test in expectations {
        assert!(known.contains(word(&test["alertname"])), "{}", test["alertname"]);
    }
}

/// What Grafana would not report: panels that overlap, or that name a data source of another
/// installation.
#[test]
fn the_dashboard_is_well_formed() {
    let dashboard: Value = serde_json::from_str(&text(DASHBOARD)).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let variables: Vec<&str> = variables.iter().map(|variable| word(&variable["name"])).collect();
    assert_eq!(variables, ["datasource", "job", "instance"]);
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = word(&panel["title"]);
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is another's");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        assert!(x + w <= 24, "{title}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{title} lies over another panel");
        }
    }
    let panels = panels();
    assert!(panels.len() > 12, "{}", panels.len());
    for panel in panels {
        let title = word(&panel["title"]);
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        assert!(word(&panel["description"]).ends_with('.'), "{title}");
        let targets = panel["targets"].as_array().unwrap();
        let references: BTreeSet<&str> = targets.iter().map(|target| word(&target["refId"])).collect();
        assert!(!targets.is_empty() && references.len() == targets.len(), "{title}");
        for target in targets {
            let selected = r#"{job=~"$job", instance=~"$instance""#;
            let selectors = word(&target["expr"]).matches("diana:").count();
            assert_eq!(
                word(&target["expr"]).matches(selected).count(),
                selectors,
                "{title}: {}",
                target["expr"]
            );
        }
    }
}

/// The rules and the dashboard lie where a release has them, and the example of Compose reads them
/// there.
#[test]
fn the_example_of_compose_loads_these_files() {
    let compose = text("examples/docker-compose/compose.yaml");
    for file in [RULES, ALERTS, DASHBOARD] {
        assert!(compose.contains(&format!("../../{file}:/etc/")), "{file}");
    }
}
