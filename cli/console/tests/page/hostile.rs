//! Names of rules and actors, and words of gateways, are hostile: none of them runs, loads, or
//! changes the page.

use crate::browser::Browser;
use crate::fake::Fake;
use crate::running::Running;
use crate::view::{text, until};
use serde_json::{Value, json};

/// Ends each context of HTML that it might be in, runs, loads, and hides.
const HOSTILE: &str = concat!(
    "\"'></td></title></style></svg><script>ran = 1</script><img src=x onerror=\"ran = 2\">",
    "<svg onload='ran = 3'></svg>\u{1b}[2J\u{202e}gpj\u{2066}\u{200f}\u{feff}\u{e0041}",
);

/// Runs before the page's own script and keeps what goes wrong.
const WATCH: &str = "
  window.wrong = [];
  addEventListener('error', (event) => wrong.push('error: ' + (event.message || event.target.outerHTML)), true);
  addEventListener('unhandledrejection', (event) => wrong.push('rejection: ' + event.reason));
  addEventListener('securitypolicyviolation', (event) => wrong.push('policy: ' + event.violatedDirective));
";

#[test]
fn hostile_text_does_nothing() {
    let (hostile, wrong) = (Fake::start(), Fake::start());
    {
        let mut state = hostile.state();
        state.policy = json!({"version": HOSTILE, "fingerprint": HOSTILE, "store_secret": HOSTILE, "rules": [
            {"name": HOSTILE, "scope": HOSTILE, "rpu": 1, "unit_ms": 1, "algorithm": HOSTILE, "enforce": HOSTILE},
        ]});
        state.rates = json!({
            "rules": [{"rule": HOSTILE, "refused": [1]}],
            "stores": [{"store": HOSTILE, "breaker": HOSTILE, "calls": [1]}],
        });
        state.top = json!({"rule": HOSTILE, "actors": [{"actor": {HOSTILE: HOSTILE}, "count": 1}]});
    }
    // What a gateway says when it refuses.
    wrong.state().policy = json!({"rules": [], "fingerprint": "x"});
    let console = Running::start(&[&hostile.url(), &wrong.url()]);
    let browser = Browser::start();
    browser.send("Page.addScriptToEvaluateOnNewDocument", json!({"source": WATCH}));
    browser.visit(console.link());
    until(&browser, "document.querySelector('#top-rows button') && document.querySelector('#store-rows tr')");
    browser.click("#top-rows button");
    until(&browser, "document.querySelectorAll('#found-rows tr').length === 2");
    browser.click("#do-reset");
    browser.click("#ask-yes");
    until(&browser, "document.querySelector('#happened h3')");
    assert_eq!(browser.run("return [window.ran ?? null, wrong]"), json!([null, []]));
    assert_eq!(browser.run("return document.querySelectorAll('script').length"), json!(1));
    assert_eq!(browser.run("return document.querySelectorAll('img, [onload], [onerror]').length"), json!(0));
    let page = browser.run("return document.body.textContent");
    let page = page.as_str().unwrap();
    assert!(page.contains("<script>ran = 1</script>") && page.contains("\\u{1b}[2J\\u{202e}gpj"), "{page}");
    assert!(!page.contains(['\u{202e}', '\u{1b}', '\u{2066}']));
    // The gateway was asked for the very value, not for what is shown.
    let asked = hostile.asked("POST reset").pop().unwrap();
    assert!(asked.contains("%1B%5B2J%E2%80%AEgpj"), "{asked}");
}

/// A script that got into the page would not run.
#[test]
fn the_policy_stops_what_is_not_escaped() {
    let gateway = Fake::start();
    let console = Running::start(&[&gateway.url()]);
    let browser = Browser::start();
    browser.send("Page.addScriptToEvaluateOnNewDocument", json!({"source": WATCH}));
    browser.visit(console.link());
    until(&browser, "document.querySelector('#gateway-rows tr')");
    assert_eq!(text(&browser, "#trouble"), "");
    browser.run(
        "const script = document.createElement('script');
         try { script.textContent = 'ran = 1'; document.body.append(script); } catch (error) { wrong.push('' + error); }
         const image = document.createElement('img'); image.src = '/x.png'; document.body.append(image);
         fetch('http://127.0.0.1:1/').catch(() => {});
         const form = document.createElement('form'); form.action = '/x'; document.body.append(form); form.submit();",
    );
    until(&browser, "wrong.length >= 4");
    let (ran, wrong) = (browser.run("return window.ran ?? null"), browser.run("return wrong.join(' ')"));
    assert_eq!(ran, Value::Null);
    for stopped in ["policy: img-src", "policy: connect-src", "policy: form-action", "rusted"] {
        assert!(wrong.as_str().unwrap().contains(stopped), "{stopped}: {wrong}");
    }
}
