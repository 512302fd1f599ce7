//! Long runs freeze nothing, and end.

use crate::browser::Browser;
use crate::view::{open, put, settle, text, until};
use serde_json::Value;

/// Measures the longest time between two frames while something runs.
const FRAMES: &str = "
  window.gap = 0;
  let before = performance.now();
  const frame = () => {
    const now = performance.now();
    gap = Math.max(gap, now - before);
    before = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
";

fn gap(browser: &Browser) -> f64 {
    browser.run("return gap").as_f64().unwrap()
}

#[test]
fn the_largest_run_freezes_nothing() {
    let browser = open("");
    browser.click("#tab-sliders");
    settle(&browser);
    browser.run(FRAMES);
    put(&browser, "url", "/");
    put(&browser, "clients", "10");
    // 100 a second for 20 seconds.
    put(&browser, "rate", "10");
    put(&browser, "burst", "0");
    let outcome = text(&browser, "#outcome");
    assert!(outcome.starts_with("20,000 requests: "), "{outcome}");
    assert!(gap(&browser) < 1000.0, "{} ms", gap(&browser));
}

#[test]
fn a_run_without_end_is_stopped() {
    let browser = open("");
    browser.run(FRAMES);
    browser.run("setTimeout(() => { window.isLong = true; }, 1000)");
    browser.run(
        "const field = document.getElementById('cases');
         field.value = 'cases: [{name: x, requests: [{url: /, repeat: 1000000, every: 1ms}, {url: /, repeat: 1000000, every: 1ms}]}]';
         field.dispatchEvent(new Event('input'))",
    );
    until(&browser, "window.isLong");
    // Meanwhile the page answers, and what is typed next replaces the run.
    browser.run(
        "const field = document.getElementById('cases');
         field.value = 'cases: [{name: x, requests: [{url: /, expect: pass}]}]';
         field.dispatchEvent(new Event('input'))",
    );
    until(&browser, "document.getElementById('tested').textContent === '1 case passed, 0 failed'");
    let seen = browser.run("return [document.getElementById('trouble').hidden, wrong.length]");
    assert_eq!(seen, Value::from(vec![Value::from(true), Value::from(0)]));
    assert!(gap(&browser) < 1000.0, "{} ms", gap(&browser));
}
