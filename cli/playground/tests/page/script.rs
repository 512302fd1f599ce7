//! Traffic by test cases.

use crate::view::{open, put, text, texts};
use serde_json::json;

const CASES: &str = "cases:
  - name: right
    requests:
      - {url: /login, method: POST, repeat: 5, expect: pass}
  - name: wrong
    requests:
      - {url: /login, method: POST, repeat: 7, every: 1s, expect: pass}
";

#[test]
fn a_script_passes_and_fails() {
    let browser = open("");
    assert_eq!(text(&browser, "#tested"), "3 cases passed, 0 failed");
    assert_eq!(browser.run("return document.querySelector('#case').options.length"), json!(3));
    put(&browser, "cases", CASES);
    assert_eq!(text(&browser, "#tested"), "1 case passed, 1 failed");
    let list = texts(&browser, "#case-list li");
    assert!(list[0].starts_with("Passed: right"), "{list:?}");
    assert!(list[1].starts_with("Failed: wrong") && list[1].contains("refused by `log-ins`"), "{list:?}");
    assert_eq!(texts(&browser, ".editor:has(#cases) .at.error"), ["7"]);
    browser.click("#case-list summary");
    assert!(text(&browser, "#case-list pre").contains("Limits that apply"));
    browser.click("#case-list details button");
    let line = "const field = document.activeElement;
                return [field.id, field.value.slice(0, field.selectionStart).split('\\n').length]";
    assert_eq!(browser.run(line), json!(["cases", 7]));
}

/// The chart and the requests are those of the chosen case.
#[test]
fn a_case_is_shown_over_time() {
    let browser = open("");
    put(&browser, "cases", CASES);
    assert_eq!(text(&browser, "#outcome"), "5 requests: 5 passed, 0 refused");
    browser.run("document.querySelector('#case').selectedIndex = 1; document.querySelector('#case').dispatchEvent(new Event('change'))");
    assert_eq!(text(&browser, "#outcome"), "7 requests: 5 passed, 2 refused (log-ins 2)");
    let rows = texts(&browser, "#request-rows tr");
    assert_eq!(rows.len(), 7);
    assert!(
        rows[6].starts_with("6 s") && rows[6].contains("refused") && rows[6].contains("by log-ins"),
        "{rows:?}"
    );
}

#[test]
fn a_script_that_cannot_be_read_says_why() {
    let browser = open("");
    put(&browser, "cases", "cases:\n  - title: x\n");
    let said = text(&browser, "#tested");
    assert!(said.contains("title"), "{said}");
    assert_eq!(texts(&browser, "#case-list li"), [""; 0]);
}
