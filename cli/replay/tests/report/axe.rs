//! axe-core's rules, on the page that a browser shows.

use crate::browser::{Browser, root};
use std::fs;

/// Where `cargo xtask report` puts axe-core.
const AXE: &str = "target/tools/axe-core-4.14.1/axe.min.js";

/// The violations that axe-core finds, and how many rules it has tried.
pub fn violations(browser: &Browser) -> (Vec<String>, usize) {
    let file = root().join(AXE);
    let axe = fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("`{}`: {error}; `cargo xtask report` fetches it", file.display()));
    browser.send("Runtime.evaluate", serde_json::json!({"expression": axe}));
    let options = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}";
    let found = browser.resolved(&format!("axe.run(document, {options})"));
    let list = |name: &str| found[name].as_array().unwrap().clone();
    let violations = list("violations").into_iter().map(|violation| {
        let nodes = violation["nodes"].as_array().unwrap().iter().take(3);
        let nodes: Vec<_> =
            nodes.map(|node| format!("{}: {}", node["html"], node["failureSummary"])).collect();
        format!("{} {}: {}", violation["impact"], violation["id"], nodes.join("\n    "))
    });
    (violations.collect(), list("passes").len())
}
