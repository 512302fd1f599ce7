//! `cargo xtask playground [--update] [FILTER]`: the page of the playground as one file, which
//! needs no server, and its tests in a real Chromium. `--update` retakes the pictures of the docs.

use crate::report;
use crate::step::{self, Step};
use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use gateway::{filter, root, target};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

/// The page below `target/`, and in a release.
pub const FILE: &str = "playground.html";

/// The largest page, in bytes. Somebody opens a link on a phone.
const LARGEST: usize = 1_500_000;

/// Where links of the page lead.
const DOCS: &str = "https://github.com/diana-limiter/diana/blob/main/docs/";

const STYLES: [&str; 2] = ["cli/page/style.css", "cli/playground/page/style.css"];

/// The parts of the script, in their order.
const SCRIPTS: [&str; 5] = [
    "cli/page/script.js",
    "cli/playground/page/engine.js",
    "cli/playground/page/link.js",
    "cli/playground/page/example.js",
    "cli/playground/page/script.js",
];

/// Builds the page and runs the tests whose names contain `filter`, or all.
pub fn run(update: bool, filter: Option<&str>) -> Result<()> {
    report::prepare()?;
    step::run_all(&steps(update, filter))
}

/// The build and the tests as steps.
pub fn steps(update: bool, filter: Option<&str>) -> Vec<Step> {
    let name = "the playground, in Chromium";
    vec![
        Step::check("the playground's page", build, "cargo xtask playground"),
        report::in_browser(name, "diana-playground", "page", update, filter),
    ]
}

/// Builds `target/playground.html`, and prints its size.
pub fn build() -> Result<()> {
    let module = filter::playground()?;
    let page = page(&module)?;
    println!("target/{FILE:<17} {} bytes, of which {} are the module before gzip", page.len(), module.len());
    ensure!(page.len() <= LARGEST, "`{FILE}` has {} bytes, {LARGEST} are allowed", page.len());
    fs::write(target().join(FILE), page).with_context(|| format!("cannot write `{FILE}`"))
}

/// The page with everything that it needs.
fn page(module: &[u8]) -> Result<String> {
    let style = joined(&STYLES)?;
    let script = joined(&SCRIPTS)?;
    let html = read("cli/playground/page/page.html")?;
    let parts = [
        ("{POLICY}", policy(&style, &script)),
        ("{STYLE}", style),
        ("{DOCS}", DOCS.to_owned()),
        ("{SCRIPT}", script),
        ("{DATA}", data(module)?),
    ];
    Ok(parts.iter().fold(html, |html, (name, text)| html.replace(name, text)))
}

/// A policy that allows the page's own style and script, WebAssembly and a worker, and no
/// connection.
fn policy(style: &str, script: &str) -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; script-src 'sha256-{}' 'wasm-unsafe-eval'; style-src 'sha256-{}'; \
         worker-src blob:; connect-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'; trusted-types diana",
        hash(script),
        hash(style)
    )
}

/// What the page unpacks: the texts as JSON, after its length in four bytes, then the module.
fn data(module: &[u8]) -> Result<String> {
    // The log is for whoever has none at hand.
    let texts = json!({"recipes": recipes()?, "log": read("examples/access.log")?}).to_string();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&u32::try_from(texts.len())?.to_le_bytes())?;
    gzip.write_all(texts.as_bytes())?;
    gzip.write_all(module)?;
    Ok(STANDARD.encode(gzip.finish()?))
}

/// The recipes by their titles.
fn recipes() -> Result<Vec<Value>> {
    let mut recipes = BTreeMap::new();
    for entry in fs::read_dir(root().join("docs/cookbook"))? {
        let file = entry?.file_name();
        let Some(name) = file.to_str().and_then(|file| file.strip_suffix(".test.yaml")) else { continue };
        let text = |ending: &str| read(&format!("docs/cookbook/{name}.{ending}"));
        let page = text("md")?;
        let title = page.lines().next().and_then(|line| line.strip_prefix("# "));
        let title = title.with_context(|| format!("{name}.md has no title"))?.to_owned();
        let (document, cases) = (text("yaml")?, text("test.yaml")?);
        let recipe = json!({"name": name, "title": title, "document": document, "cases": cases});
        recipes.insert(title, recipe);
    }
    Ok(recipes.into_values().collect())
}

fn joined(files: &[&str]) -> Result<String> {
    files.iter().map(|file| read(file)).collect()
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(root().join(file)).with_context(|| format!("cannot read `{file}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_refers_to_nothing_else() {
        let page = page(b"module").unwrap();
        assert!(page.ends_with("</html>\n") && !page.contains("src=") && !page.contains("@import"));
        for name in ["{POLICY}", "{STYLE}", "{DOCS}", "{SCRIPT}", "{DATA}"] {
            assert!(!page.contains(name), "{name}");
        }
        let (style, script) = (joined(&STYLES).unwrap(), joined(&SCRIPTS).unwrap());
        for text in [&style, &script] {
            assert!(!text.contains("</") && !text.contains("<!--"));
        }
        for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("] {
            assert!(!script.contains(way), "{way}");
        }
        for way in ["fetch(", "XMLHttpRequest", "WebSocket", "Storage", "indexedDB", "cookie"] {
            assert!(!script.contains(way), "{way}");
        }
    }

    #[test]
    fn every_recipe_is_in_the_page() {
        let recipes = recipes().unwrap();
        assert!(recipes.len() >= 30, "{}", recipes.len());
        assert!(recipes.is_sorted_by_key(|recipe| recipe["title"].to_string()));
        let log_in = recipes.iter().find(|recipe| recipe["name"] == "log-in").unwrap();
        assert_eq!(log_in["title"], "Log-in protection");
        assert!(log_in["document"].as_str().unwrap().starts_with("limits:"));
        assert!(log_in["cases"].as_str().unwrap().contains("cases:"));
    }
}
