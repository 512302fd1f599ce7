//! Traffic by sliders.

use crate::browser::Browser;
use crate::view::{open, put, settle, text, texts};
use serde_json::json;
use thirtyfour::Key;

fn with_sliders() -> Browser {
    let browser = open("");
    browser.click("#tab-sliders");
    settle(&browser);
    browser
}

/// How many bars of this kind the chart has.
fn bars(browser: &Browser, kind: &str) -> usize {
    let path = browser.run(&format!("return document.getElementById('bars-{kind}').getAttribute('d')"));
    path.as_str().unwrap().matches('M').count()
}

#[test]
fn sliders_give_bars_of_what_is_refused() {
    let browser = with_sliders();
    put(&browser, "url", "/");
    assert!(bars(&browser, "passed") > 10 && bars(&browser, "refused") > 5);
    let outcome = text(&browser, "#outcome");
    assert!(outcome.contains("refused (per-user "), "{outcome}");
    // The text of the chart and its table have the same numbers.
    browser.click("#plot-numbers summary");
    let chart = browser.run(
        "const numbers = [1, 2, 3].map((at) => [...document.querySelectorAll('#plot-rows tr')]
           .reduce((all, row) => all + Number(row.cells[at].textContent.replace(',', '')), 0));
         return [document.querySelector('#plot-text').textContent, numbers]",
    );
    let [passed, delayed, refused] = [0, 1, 2].map(|at| chart[1][at].as_u64().unwrap());
    let words = format!("{passed} passed, {delayed} delayed, {refused} refused; at most ");
    assert!(chart[0].as_str().unwrap().starts_with(&words), "{chart}");
    // With one slow client, nothing is.
    put(&browser, "clients", "1");
    put(&browser, "burst", "0");
    browser.press("#rate", &[Key::Home]);
    settle(&browser);
    assert_eq!(bars(&browser, "refused"), 0);
    assert_eq!(browser.run("return document.getElementById('rate').ariaValueText"), json!("0.1 a second"));
}

#[test]
fn waiting_requests_have_bars_too() {
    let browser = with_sliders();
    put(&browser, "url", "/search");
    assert!(bars(&browser, "delayed") > 3);
    browser.run("const show = document.getElementById('show'); show.value = 'delayed'; show.dispatchEvent(new Event('change'))");
    let rows = texts(&browser, "#request-rows tr");
    assert!(!rows.is_empty() && rows.iter().all(|row| row.contains("waits ")), "{rows:?}");
}

#[test]
fn a_request_is_explained() {
    let browser = with_sliders();
    put(&browser, "url", "/");
    put(&browser, "burst", "12");
    browser.run("const show = document.getElementById('show'); show.value = 'refused'; show.dispatchEvent(new Event('change'))");
    browser.click("#request-rows button");
    settle(&browser);
    assert_eq!(browser.run("return document.getElementById('explained').open"), json!(true));
    let explanation = text(&browser, "#explanation");
    assert!(explanation.contains("per-user") && explanation.contains("refused"), "{explanation}");
    browser.press("#explanation", &[Key::Escape]);
    assert_eq!(browser.run("return document.getElementById('explained').open"), json!(false));
}

#[test]
fn too_many_requests_are_not_run() {
    let browser = with_sliders();
    browser.press("#rate", &[Key::End]);
    browser.press("#seconds", &[Key::End]);
    settle(&browser);
    let said = text(&browser, "#sent");
    assert!(said.contains("at most 20,000"), "{said}");
}
