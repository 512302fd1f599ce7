//! What a user sees and does.

use crate::browser::{Browser, root};
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The address of the built page, with this part after `#`.
pub fn address(fragment: &str) -> String {
    let file = root().join("target/playground.html");
    assert!(file.exists(), "`cargo xtask playground` builds `{}`", file.display());
    format!("file://{}#{fragment}", file.display())
}

/// Runs before the page's own script and keeps what goes wrong.
const WATCH: &str = "
  window.wrong = [];
  addEventListener('error', (event) => wrong.push('error: ' + (event.message || event.target.outerHTML)), true);
  addEventListener('unhandledrejection', (event) => wrong.push('rejection: ' + event.reason));
  addEventListener('securitypolicyviolation', (event) => wrong.push('policy: ' + event.violatedDirective));
";

/// A browser with the page, which has computed everything.
pub fn open(fragment: &str) -> Browser {
    let browser = Browser::start();
    browser.send("Page.addScriptToEvaluateOnNewDocument", json!({"source": WATCH}));
    browser.visit(&address(fragment));
    settle(&browser);
    browser
}

/// Waits until the page has nothing more to compute.
pub fn settle(browser: &Browser) {
    until(browser, "document.body.dataset.busy === 'false'");
}

/// Waits until an expression is true.
pub fn until(browser: &Browser, expression: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while browser.resolved(&format!("Boolean({expression})")) != Value::Bool(true) {
        let seen = || browser.resolved("document.body.innerText");
        assert!(Instant::now() < deadline, "{expression}:\n{}", seen().as_str().unwrap_or_default());
        sleep(Duration::from_millis(20));
    }
}

/// Puts a text or a number into a field, as somebody who types does.
pub fn put(browser: &Browser, id: &str, text: &str) {
    browser.run(&format!(
        "const field = document.getElementById({});
         field.value = {};
         field.dispatchEvent(new Event('input', {{bubbles: true}}));",
        json!(id),
        json!(text)
    ));
    settle(browser);
}

/// The text of an element.
pub fn text(browser: &Browser, selector: &str) -> String {
    let text = browser.resolved(&format!("document.querySelector({}).innerText", json!(selector)));
    text.as_str().unwrap_or_else(|| panic!("{selector}")).to_owned()
}

/// The texts of all elements.
pub fn texts(browser: &Browser, selector: &str) -> Vec<String> {
    let script = format!("[...document.querySelectorAll({})].map((one) => one.innerText)", json!(selector));
    let texts = browser.resolved(&script);
    texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// What went wrong in the page, and what it has loaded.
pub fn traces(browser: &Browser) -> Value {
    browser.run(
        "return [window.ran ?? null, wrong,
           performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => !name.startsWith('blob:'))]",
    )
}
