//! Text of a log is hostile: none of it runs, loads, or changes the page.

use crate::browser::Browser;
use crate::page::{HOSTILE, hostile};
use crate::sample;
use diana_replay::report::html;
use serde_json::{Value, json};

/// Runs before the page's own script and keeps what goes wrong.
const WATCH: &str = "
  window.wrong = [];
  window.alert = () => wrong.push('alert');
  addEventListener('error', (event) => wrong.push('error: ' + (event.message || event.target.outerHTML)), true);
  addEventListener('securitypolicyviolation', (event) => wrong.push('policy: ' + event.violatedDirective));
";

fn watched() -> Browser {
    let browser = Browser::start();
    browser.send("Page.addScriptToEvaluateOnNewDocument", json!({"source": WATCH}));
    browser
}

/// What ran, what was loaded, and what went wrong.
fn traces(browser: &Browser) -> Value {
    browser.run(
        "return [window.ran ?? null, performance.getEntriesByType('resource').map((entry) => entry.name), wrong]",
    )
}

#[test]
fn the_page_loads_nothing_and_keeps_its_own_policy() {
    let browser = watched();
    browser.open(&html(&sample::summary()));
    assert_eq!(traces(&browser), json!([null, [], []]));
    assert_eq!(
        browser.run("return document.querySelector('.slider').hidden"),
        json!(false),
        "its script runs"
    );
}

#[test]
fn hostile_text_does_nothing() {
    let browser = watched();
    browser.open(&html(&hostile()));
    browser.click("#theme-dark + label");
    browser.press("input[type=range]", &[thirtyfour::Key::Right]);
    assert_eq!(traces(&browser), json!([null, [], []]));
    // Only the numbers of pieces of text between backticks may differ from the quiet page.
    let elements = "const names = {};
        for (const {localName} of document.querySelectorAll('*:not(bdi):not(code)')) {
          names[localName] = (names[localName] ?? 0) + 1;
        }
        return names";
    let hostile_elements = browser.run(elements);
    let shown = browser.run("return document.querySelector('.actors tbody th').textContent");
    let shown = shown.as_str().unwrap();
    assert!(shown.contains("<script>ran = 1</script>") && shown.contains("\\u{202e}"), "{shown}");
    assert!(!shown.contains('\u{202e}'), "{shown}");
    browser.open(&html(&sample::summary()));
    assert_eq!(browser.run(elements), hostile_elements);
}

#[test]
fn the_policy_stops_what_is_not_escaped() {
    let page = html(&sample::summary());
    let broken = page.replacen("</h1>", &format!("{HOSTILE}</h1>"), 1);
    let browser = watched();
    browser.open(&broken);
    let stopped = traces(&browser);
    assert_eq!(stopped[0], Value::Null, "{stopped}");
    assert!(stopped[2].to_string().contains("policy: script-src"), "{stopped}");
    assert!(stopped[2].to_string().contains("policy: img-src"), "{stopped}");
    // Without the policy the same text runs: the test can fail.
    let start = broken.find("<meta http-equiv").unwrap();
    let end = start + broken[start..].find('>').unwrap() + 1;
    browser.open(&format!("{}{}", &broken[..start], &broken[end..]));
    assert_ne!(traces(&browser)[0], Value::Null);
}
