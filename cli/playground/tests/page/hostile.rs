//! What a document, a script, a log or a link holds is hostile: none of it runs, loads, or changes
//! the page, and no connection is possible.

use crate::view::{open, put, settle, texts, traces, until};
use serde_json::{Value, json};

/// Ends each context of HTML that it might be in, runs, loads, and hides.
const HOSTILE: &str = concat!(
    "'></textarea></td></title></style></svg><script>ran = 1</script><img src=x onerror='ran = 2'>",
    "<svg onload='ran = 3'></svg>\u{202e}gpj\u{2066}\u{200f}\u{feff}\u{e0041}",
);

#[test]
fn hostile_text_stays_text() {
    let browser = open("");
    let name = json!(HOSTILE);
    let document = format!(
        "{{\"limits\": [{{\"url\": \"/\", {name}: 1, \"rules\": [{{\"name\": {name}, \"actor\": \"ip\", \"rpu\": 1, \"unit\": \"minute\"}}]}}]}}"
    );
    put(&browser, "document", &document);
    assert!(!texts(&browser, "#findings li").is_empty());
    put(&browser, "document", "limits: [{url: /, rules: [{name: a, actor: ip, rpu: 1, unit: minute}]}]");
    put(
        &browser,
        "cases",
        &format!(
            "{{\"cases\": [{{\"name\": {name}, \"requests\": [{{\"url\": \"/\", \"repeat\": 2, \"headers\": {{\"x-a\": {name}}}, \"expect\": \"pass\"}}]}}]}}"
        ),
    );
    browser.click("#tab-sliders");
    put(&browser, "url", &format!("/{HOSTILE}"));
    put(&browser, "header", HOSTILE);
    browser.click("#tab-log");
    settle(&browser);
    browser.resolved(&format!(
        "(() => {{
           const transfer = new DataTransfer();
           transfer.items.add(new File([{name}], {name}));
           dispatchEvent(new DragEvent('drop', {{dataTransfer: transfer, bubbles: true, cancelable: true}}));
         }})()"
    ));
    until(&browser, "document.getElementById('replayed').classList.contains('alarm')");
    assert_eq!(traces(&browser), json!([null, [], []]));
    assert_eq!(browser.run("return document.querySelectorAll('script').length"), json!(2));
    assert_eq!(browser.run("return document.querySelectorAll('img, [onload], [onerror]').length"), json!(0));
    let shown = browser.run("return document.body.innerText");
    let shown = shown.as_str().unwrap();
    assert!(shown.contains("<script>ran = 1</script>"), "{shown}");
    assert!(!shown.contains(['\u{202e}', '\u{2066}', '\u{feff}']), "{shown}");
}

#[test]
fn long_lines_scroll_in_their_fields() {
    let browser = open("");
    browser.run("for (const details of document.querySelectorAll('details')) details.open = true");
    let long = "x".repeat(20_000);
    put(&browser, "document", &format!("limits: [{{url: /{long}, rulez: 1}}]"));
    put(&browser, "cases", &format!("cases: [{{name: {long}, requests: [{{url: /, expect: refused}}]}}]"));
    for width in [320, 1200] {
        browser.look(width, 740, "light");
        let overflow = "return document.documentElement.scrollWidth - innerWidth";
        assert_eq!(browser.run(overflow), json!(0), "{width}");
    }
}

#[test]
fn the_policy_stops_every_connection() {
    let browser = open("");
    browser.run(
        "const script = document.createElement('script');
         try { script.textContent = 'ran = 1'; document.body.append(script); } catch (error) { wrong.push('' + error); }
         const image = document.createElement('img'); image.src = 'https://example.com/x.png'; document.body.append(image);
         fetch('http://127.0.0.1:1/').catch(() => {});
         navigator.sendBeacon('http://127.0.0.1:1/', 'x');
         try { new WebSocket('ws://127.0.0.1:1/').onerror = () => {}; } catch (error) { wrong.push('' + error); }
         const form = document.createElement('form'); form.action = '/x'; document.body.append(form); form.submit();",
    );
    until(&browser, "wrong.filter((one) => one.includes('connect-src')).length >= 3");
    let (ran, wrong) = (browser.run("return window.ran ?? null"), browser.run("return wrong.join(' ')"));
    assert_eq!(ran, Value::Null);
    for stopped in ["policy: img-src", "policy: connect-src", "policy: form-action", "rusted"] {
        assert!(wrong.as_str().unwrap().contains(stopped), "{stopped}: {wrong}");
    }
    // The worker of the engine has the same policy.
    let worker = browser.resolved(
        "new Promise((resolve) => {
           const code = 'fetch(\"http://127.0.0.1:1/\").then(() => postMessage(\"sent\"), (error) => postMessage(String(error)));'
             + 'onsecuritypolicyviolation = (event) => postMessage(event.violatedDirective)';
           let policy;
           try { policy = trustedTypes.createPolicy('diana', {createScriptURL: (text) => text}); } catch (error) { return resolve('no second policy'); }
         })",
    );
    assert_eq!(worker, json!("no second policy"));
}
