//! Links hold the document and the traffic.

use crate::browser::Browser;
use crate::view::{open, put, settle, text, traces, until};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::{Value, json};
use std::io::Write;

const FIELDS: &str =
    "return ['document', 'cases', 'method', 'url', 'header', 'clients', 'rate', 'seconds', 'burst']
  .map((id) => document.getElementById(id).value)";

fn hash(browser: &Browser) -> String {
    browser.run("return location.hash.slice(1)").as_str().unwrap().to_owned()
}

/// A link with this content.
fn packed(content: &[u8]) -> String {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    URL_SAFE_NO_PAD.encode(encoder.finish().unwrap())
}

#[test]
fn a_link_opens_with_the_same_content() {
    let browser = open("");
    put(
        &browser,
        "document",
        "# größer 🏹\nlimits: [{url: /x, rules: [{name: x, actor: ip, rpu: 7, unit: hour}]}]\n",
    );
    put(&browser, "cases", "cases: [{name: one, requests: [{url: /x, repeat: 7, expect: pass}]}]\n");
    browser.click("#tab-sliders");
    for (id, value) in
        [("method", "POST"), ("url", "/x?a=b&c"), ("header", ""), ("clients", "4"), ("rate", "7")]
    {
        put(&browser, id, value);
    }
    let outcome = text(&browser, "#outcome");
    browser.click("#copy");
    until(&browser, "document.getElementById('copied').textContent !== ''");
    let other = open(&hash(&browser));
    assert_eq!(other.run(FIELDS), browser.run(FIELDS));
    assert_eq!(text(&other, "#outcome"), outcome);
    assert_eq!(other.run("return document.getElementById('tab-sliders').ariaSelected"), json!("true"));
    assert_eq!(traces(&other), json!([null, [], []]));
}

#[test]
fn a_link_that_cannot_be_read_leads_to_the_example() {
    let largest = packed(&vec![b' '; 1 << 21]);
    assert!(largest.len() < 5000, "a small link that unpacks to megabytes");
    let broken = packed(br#"{"document": "a"}"#);
    let cut = packed(br#"{"document": "limits: []", "mode": "script", "cases": "", "sliders": {}}"#);
    for link in ["x", "%%%", &cut[..cut.len() / 2], &broken, &largest] {
        let browser = open(link);
        assert!(text(&browser, "#trouble").contains("cannot be read"), "{link}");
        assert_eq!(text(&browser, "#verdict"), "No mistakes: 3 rules");
    }
    // Numbers and names of others do no harm.
    let odd = packed(br#"{"document": "", "mode": "sliders", "cases": "", "sliders": {"clients": -5, "rate": "x", "url": 7}}"#);
    let browser = open(&odd);
    assert_eq!(browser.run("return document.getElementById('clients').value"), json!("1"));
    assert_eq!(browser.run("return wrong"), json!([]));
}

#[test]
fn recipes_open_by_their_names() {
    let browser = open("recipe=log-in");
    assert_eq!(browser.run("return document.getElementById('recipe').value"), json!("log-in"));
    assert!(text(&browser, "#verdict").starts_with("No mistakes"), "{}", text(&browser, "#verdict"));
    assert!(text(&browser, "#tested").ends_with(" passed, 0 failed"), "{}", text(&browser, "#tested"));
    let browser = open("recipe=none");
    assert!(text(&browser, "#trouble").contains("There is no recipe none"));
}

/// Every recipe's cases pass here, too.
#[test]
fn all_recipes_pass() {
    let browser = open("");
    let names = browser.run(
        "return [...document.querySelectorAll('#recipe option')].map((one) => one.value).filter(Boolean)",
    );
    let names: Vec<&str> = names.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(names.len() >= 30, "{names:?}");
    for name in &names {
        browser.run(&format!("location.hash = 'recipe={name}'"));
        until(&browser, &format!("document.getElementById('recipe').value === '{name}'"));
        settle(&browser);
        let (verdict, tested) = (text(&browser, "#verdict"), text(&browser, "#tested"));
        assert!(!verdict.contains("error"), "{name}: {verdict}");
        assert!(tested.ends_with(" passed, 0 failed"), "{name}: {tested}");
    }
}

/// A recipe replaces what was written, and the browser's way back brings that again.
#[test]
fn the_way_back_leads_to_what_was_written() {
    let browser = open("");
    put(&browser, "document", "limits: [] # mine\n");
    browser.run("const recipe = document.getElementById('recipe'); recipe.value = 'ipv6'; recipe.dispatchEvent(new Event('change'))");
    until(&browser, "document.getElementById('document').value.includes('rules')");
    browser.run("history.back()");
    until(&browser, "document.getElementById('document').value === 'limits: [] # mine\\n'");
}
