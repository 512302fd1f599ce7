//! What a user sees, and waits for.

use crate::browser::Browser;
use crate::running::Running;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

/// A browser with the page of this console.
pub fn open(console: &Running) -> Browser {
    let browser = Browser::start();
    browser.visit(console.link());
    until(&browser, "document.querySelectorAll('#gateway-rows tr').length > 0");
    browser
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

/// The texts of the cells of a row, which begins with this text.
pub fn row(browser: &Browser, body: &str, first: &str) -> Vec<String> {
    let cells = browser.resolved(&format!(
        "[...document.querySelectorAll('#{body} tr')].find((row) => row.cells[0].textContent === {first:?})
           ?.innerText.split('\\t').map((text) => text.trim().replace(/\\s+/g, ' ')) ?? []"
    ));
    cells.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap().to_owned()).collect()
}

/// The text of an element.
pub fn text(browser: &Browser, selector: &str) -> String {
    let text = browser.resolved(&format!("document.querySelector({selector:?}).textContent"));
    text.as_str().unwrap().to_owned()
}

/// Whether an element has the alarm colour.
pub fn is_alarm(browser: &Browser, selector: &str) -> bool {
    let script = format!(
        "const alarm = document.createElement('p');
         alarm.className = 'alarm';
         document.body.append(alarm);
         const expected = getComputedStyle(alarm).color;
         alarm.remove();
         return getComputedStyle(document.querySelector({selector:?})).color === expected"
    );
    browser.run(&script) == Value::Bool(true)
}

/// Keeps a photograph of the whole page in the folder that `PICTURES` names, if any.
pub fn photograph(browser: &Browser, name: &str) {
    let Some(folder) = env::var_os("PICTURES") else { return };
    browser.run("scrollTo(0, 0)");
    let parameters = json!({"format": "png", "captureBeyondViewport": true});
    let picture = browser.send("Page.captureScreenshot", parameters);
    let bytes = STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
    fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
}
