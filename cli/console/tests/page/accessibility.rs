//! Can everybody use the page? axe-core's rules, the keyboard, and a phone.

use crate::axe::violations;
use crate::running::Running;
use crate::sample;
use crate::view::{open, until};
use serde_json::{Value, json};
use thirtyfour::Key;

#[test]
fn axe_finds_nothing() {
    let gateways = sample::gateways();
    let console =
        Running::start(&gateways.each_ref().map(|gateway| gateway.url()).each_ref().map(|url| &**url));
    let browser = open(&console);
    browser.run("document.querySelector('#actor-value').value = 'mallory'; document.querySelector('#chart-numbers').open = true");
    browser.click("#search .main");
    until(&browser, "document.querySelectorAll('#found-rows tr').length === 3");
    until(
        &browser,
        "document.querySelectorAll('#top-rows tr').length === 4 && document.querySelector('#chart-rows tr')",
    );
    for (width, height, scheme) in
        [(1200, 900, "light"), (1200, 900, "dark"), (360, 740, "light"), (360, 740, "dark")]
    {
        browser.look(width, height, scheme);
        let (found, passes) = violations(&browser);
        assert!(found.is_empty(), "{width} {scheme}:\n  {}", found.join("\n  "));
        assert!(passes > 20, "axe-core has tried {passes} rules");
        let overflow =
            browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(overflow, json!(0), "the page is wider than {width}");
        browser.click("#do-grant");
        let (found, _) = violations(&browser);
        assert!(found.is_empty(), "the dialog, {width} {scheme}:\n  {}", found.join("\n  "));
        browser.press("#ask-no", &[Key::Escape]);
        until(&browser, "!document.querySelector('#ask').open");
    }
    // The test can fail.
    browser.run("document.querySelector('label[for=actor-name]').remove(); document.documentElement.removeAttribute('lang')");
    assert!(violations(&browser).0.len() >= 2);
}

/// Rows that change keep the focus, and what has the focus shows it.
#[test]
fn the_keyboard_reaches_everything_while_numbers_change() {
    let gateways = sample::gateways();
    let console = Running::start(&[&gateways[0].url()]);
    let browser = open(&console);
    until(&browser, "document.querySelector('#top-rows button')");
    for selector in [
        ".skip",
        "#chart-rule",
        "#rule-rows button",
        "#top-by",
        "#actor-value",
        "#search .main",
        "#top-rows button",
    ] {
        browser.press("body", &[Key::Shift]);
        let outline = browser.run(&format!(
            "const element = document.querySelector({selector:?});
             element.focus();
             const {{outlineStyle, outlineWidth}} = getComputedStyle(element);
             return document.activeElement === element && outlineStyle + outlineWidth"
        ));
        assert_eq!(outline, Value::from("solid2px"), "{selector}");
    }
    gateways[0].state().rates["rules"][0]["refused"] = json!([0, 0, 0, 0, 0]);
    until(&browser, "document.querySelector('#total-refused').textContent === '0'");
    let focus = "document.activeElement === document.querySelector('#top-rows button')";
    assert_eq!(browser.resolved(focus), Value::Bool(true));
    browser.press("#top-rows button", &[Key::Enter]);
    until(&browser, "document.querySelector('#found-title').textContent === 'per-user, user=mallory'");
}

#[test]
fn charts_have_a_text() {
    let gateways = sample::gateways();
    let console = Running::start(&[&gateways[0].url()]);
    let browser = open(&console);
    until(&browser, "document.querySelector('#rule-rows svg')");
    let words = browser.run(
        "return [document.querySelector('#plot-text').textContent, document.querySelector('#rule-rows svg').ariaLabel]",
    );
    let (chart, spark) = (words[0].as_str().unwrap(), words[1].as_str().unwrap());
    assert!(
        chart.starts_with("per-user, the last minute: ") && chart.contains(" refused, 0 errors; at most "),
        "{chart}"
    );
    assert!(spark.ends_with(" refused in the last minute") && !spark.starts_with('0'), "{spark}");
}
