//! The document and its findings.

use crate::view::{open, put, settle, text, texts, traces};
use serde_json::json;

/// Opened from a file, with nothing but the file.
#[test]
fn the_page_works_from_a_file() {
    let browser = open("");
    assert_eq!(text(&browser, "#verdict"), "No mistakes: 3 rules");
    assert_eq!(text(&browser, "#tested"), "3 cases passed, 0 failed");
    assert_eq!(browser.run("return document.getElementById('trouble').hidden"), json!(true));
    assert_eq!(traces(&browser), json!([null, [], []]));
}

#[test]
fn a_mistake_appears_with_its_line_and_goes() {
    let browser = open("");
    let document = "limits:\n  - url: /\n    rules:\n      - {actor: ip, rpuu: 5, unit: second}\n";
    put(&browser, "document", document);
    let findings = texts(&browser, "#findings li.error");
    assert!(!findings.is_empty());
    assert!(findings[0].starts_with("Line 4") && findings[0].contains("`rpuu`"), "{findings:?}");
    assert!(findings[0].contains("`rpu`"), "the hint: {findings:?}");
    assert_eq!(texts(&browser, ".editor:has(#document) .at.error"), ["4"]);
    let links = browser.run("return document.querySelector('#findings a').href");
    assert!(links.as_str().unwrap().contains("docs/cli/check.md#"), "{links}");
    browser.click("#findings button");
    let selected = browser.run(
        "const field = document.activeElement;
         return [field.id, field.value.slice(field.selectionStart, field.selectionEnd)]",
    );
    assert_eq!(selected[0], "document");
    assert!(selected[1].as_str().unwrap().contains("rpuu"), "{selected}");
    // The last results stay, and say why they are not new.
    assert_eq!(text(&browser, "#tested"), "Nothing is run: the document has errors");
    assert_eq!(text(&browser, "#result-title"), "What passed before the change");
    put(&browser, "document", &document.replace("rpuu", "rpu"));
    assert_eq!(text(&browser, "#verdict"), "No mistakes: 1 rule");
    assert_eq!(text(&browser, "#result-title"), "What passes");
    assert_eq!(texts(&browser, "#findings li"), [""; 0]);
    assert_eq!(texts(&browser, ".at"), texts(&browser, ".editor:has(#cases) .at"));
}

#[test]
fn typing_is_enough() {
    let browser = open("");
    put(&browser, "document", "");
    // A new line keeps the indentation.
    browser.write("#document", "limits:\n  - url: /\nrules: [{actor: ip, rpu: 1, unit: minute}]");
    settle(&browser);
    let value = browser.run("return document.getElementById('document').value");
    assert_eq!(value, json!("limits:\n  - url: /\n  rules: [{actor: ip, rpu: 1, unit: minute}]"));
    browser.write("#document", "\u{e003}");
    settle(&browser);
    assert!(text(&browser, "#verdict").contains("error"), "{}", text(&browser, "#verdict"));
}

#[test]
fn what_cannot_be_seen_is_named() {
    let browser = open("");
    put(&browser, "document", "limits: [] # a\u{202e}b\n");
    let findings = texts(&browser, "#findings li.warning");
    assert!(findings.iter().any(|one| one.contains("\\u{202e}")), "{findings:?}");
}
