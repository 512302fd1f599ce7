//! A dropped access log.

use crate::browser::Browser;
use crate::view::{open, settle, text, traces, until};
use serde_json::json;

/// Drops a file with the lines that an expression gives, which may be a promise.
fn drop(browser: &Browser, name: &str, content: &str) {
    browser.resolved(&format!(
        "(async () => {{
           const transfer = new DataTransfer();
           transfer.items.add(new File([await ({content})], {}));
           document.getElementById('main').dispatchEvent(
             new DragEvent('drop', {{dataTransfer: transfer, bubbles: true, cancelable: true}}));
         }})()",
        json!(name)
    ));
}

/// Lines of Envoy's JSON, twelve of one client in a second and one of another.
const LINES: &str = "Array.from({length: 13}, (_, at) => JSON.stringify({
  start_time: '2026-01-31T12:00:00.' + (100 + at) + 'Z', method: 'GET', path: '/', authority: 'a.example',
  downstream_remote_address: at === 12 ? '198.51.100.9:1' : '198.51.100.7:1', 'x-user-id': at === 12 ? 'bob' : 'ann', response_code: 200,
})).join('\\n')";

#[test]
fn a_dropped_log_is_replayed() {
    let browser = open("");
    browser.click("#tab-log");
    drop(&browser, "access.log", LINES);
    until(&browser, "document.getElementById('replayed').textContent.includes('would')");
    assert_eq!(text(&browser, "#replayed"), "access.log: 2 of 13 requests would have been refused");
    assert!(text(&browser, "#replay-text").contains("per-user"));
    assert_eq!(
        browser.run("return document.getElementById('bars-refused').getAttribute('d').length > 0"),
        json!(true)
    );
    assert_eq!(traces(&browser), json!([null, [], []]));
}

#[test]
fn a_compressed_log_is_unpacked() {
    let browser = open("");
    browser.click("#tab-log");
    let packed = format!(
        "new Response(new Blob([{LINES}]).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer()"
    );
    drop(&browser, "access.log.gz", &packed);
    until(&browser, "document.getElementById('replayed').textContent.includes('would')");
    assert_eq!(text(&browser, "#replayed"), "access.log.gz: 2 of 13 requests would have been refused");
}

#[test]
fn the_sample_log_is_there() {
    let browser = open("");
    browser.click("#tab-log");
    settle(&browser);
    browser.click("#sample");
    until(&browser, "document.getElementById('replayed').textContent.includes('would')");
    assert!(text(&browser, "#replay-text").len() > 200);
}

#[test]
fn what_is_no_log_says_so() {
    let browser = open("");
    browser.click("#tab-log");
    drop(&browser, "picture.png", "'\\u0089PNG'");
    until(&browser, "document.getElementById('replayed').classList.contains('alarm')");
    // A file that is cut off does not unpack.
    drop(&browser, "cut.gz", "new Uint8Array([0x1f, 0x8b, 8, 0, 0])");
    until(&browser, "document.getElementById('replayed').textContent.includes('cut.gz cannot be read')");
}
