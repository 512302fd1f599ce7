//! Whatever a gateway does, the page goes on and says so.

use crate::browser::Browser;
use crate::fake::{Fake, Fault};
use crate::running::Running;
use crate::view::{open, row, text, until};
use serde_json::{Value, json};

#[test]
fn a_gateway_that_is_down_is_shown_and_the_others_go_on() {
    let (healthy, broken) = (Fake::start(), Fake::start());
    let console = Running::start(&[&healthy.url(), &broken.url()]);
    let browser = open(&console);
    let state = format!(
        "[...document.querySelectorAll('#gateway-rows tr')].find((row) => row.dataset.id === {:?}).cells[1].textContent",
        broken.name()
    );
    until(&browser, "document.querySelector('#headline').textContent === 'All gateways answer'");
    let mut refused = 0;
    for (fault, expected) in [
        (Fault::CutOff, "the answer is cut off"),
        (Fault::Garbage, "the answer is cut off or broken"),
        (Fault::OtherJson, "is not understood"),
        (Fault::Endless, "the answer is larger than 8 MiB"),
    ] {
        broken.fault(fault);
        until(&browser, &format!("{state}.includes({expected:?})"));
        // The last answer remains, and the other gateway's numbers move.
        assert_eq!(row(&browser, "gateway-rows", &broken.name())[2], "ad62478a83fc1f92 local document");
        refused += 5;
        healthy.state().rates = json!({"rules": [{"rule": "per-user", "refused": [refused]}]});
        until(
            &browser,
            &format!("document.querySelector('#total-refused').textContent === '{}.0'", refused / 5),
        );
        assert_eq!(text(&browser, "#total-gateways"), "1 of 2");
    }
    broken.fault(Fault::None);
    until(&browser, &format!("{state} === 'answers'"));
    // One that keeps silent is slow, not down before its time is over, and holds nobody up.
    broken.fault(Fault::Silent);
    healthy.state().rates = json!({"rules": [{"rule": "per-user", "refused": [40]}]});
    until(&browser, "document.querySelector('#total-refused').textContent === '8.0'");
    until(&browser, &format!("{state}.startsWith(' slowits last answer is ')"));
    until(&browser, "document.querySelector('#headline').textContent === '1 gateway silent or down'");
    healthy.fault(Fault::CutOff);
    until(&browser, "document.querySelector('#total-gateways').textContent === '0 of 2'");
    assert_eq!(browser.resolved("document.querySelector('#trouble').hidden"), Value::Bool(true));
}

/// An upstream that answers in place of the gateway is no gateway, even if it writes JSON.
#[test]
fn an_upstream_is_not_taken_for_a_gateway() {
    let upstream = Fake::start();
    upstream.fault(Fault::UpstreamJson(404, r#"{"error": "not found"}"#));
    let console = Running::start(&[&upstream.url()]);
    let browser = open(&console);
    let state = "document.querySelector('#gateway-rows tr').cells[1].textContent";
    until(&browser, &format!("{state}.includes('`inspect` does not answer (status 404)')"));
    assert_eq!(text(&browser, "#headline"), "No gateway answers");
    assert_eq!(browser.resolved("document.querySelector('#rates-note').hidden"), json!(true));
}

/// Version 0.2 has no rates, no list of the most refused and no grants.
#[test]
fn an_old_gateway_shows_what_it_has() {
    let old = Fake::start();
    old.fault(Fault::Old);
    let console = Running::start(&[&old.url()]);
    let browser = open(&console);
    let note = format!("{} tells no rates: the gateway has no `rates`: expected GET policy", old.name());
    until(&browser, &format!("document.querySelector('#rates-note').textContent.startsWith({note:?})"));
    assert_eq!(row(&browser, "rule-rows", "per-user")[2..6], ["–"; 4]);
    assert_eq!(text(&browser, "#total-refused"), "–");
    assert_eq!(row(&browser, "gateway-rows", &old.name())[1], "answers");
    until(&browser, "document.querySelector('#top-note').textContent.includes('the gateway has no `top`')");
    browser.run("document.querySelector('#actor-value').value = 'ann'");
    browser.click("#search .main");
    until(&browser, "document.querySelector('#found-rows tr')");
    browser.click("#do-grant");
    browser.click("#ask-yes");
    until(&browser, "document.querySelector('#happened h3')?.textContent.startsWith('Nothing has changed')");
    assert!(text(&browser, "#happened").contains("the gateway has no `grant`"));
}

#[test]
fn a_console_that_has_ended_is_said() {
    let gateway = Fake::start();
    let console = Running::start(&[&gateway.url()]);
    let browser = open(&console);
    drop(console);
    until(&browser, "!document.querySelector('#trouble').hidden");
    assert!(text(&browser, "#trouble").contains("Is `diana console` still running?"));
    // The page marks the numbers it still shows as old.
    assert_eq!(text(&browser, "#headline"), "These numbers are old");
    let opacity = "return Number(getComputedStyle(document.querySelector('#rules')).opacity)";
    assert!(browser.run(opacity).as_f64().unwrap() < 0.5);
}

/// What a slow gateway last said of its rates is no rate of now.
#[test]
fn old_rates_are_not_counted() {
    let (healthy, silent) = (Fake::start(), Fake::start());
    for (gateway, waiting) in [(&healthy, 1), (&silent, 10)] {
        gateway.state().rates = json!({"waiting": waiting, "rules": [{"rule": "per-user", "refused": [5]}]});
    }
    let console = Running::with_timeout(&[&healthy.url(), &silent.url()], 60);
    let browser = open(&console);
    let totals =
        "['refused', 'waiting'].map((id) => document.getElementById('total-' + id).textContent).join(' ')";
    until(&browser, &format!("{totals} === '2.0 11'"));
    silent.fault(Fault::Silent);
    until(&browser, &format!("{totals} === '1.0 1'"));
    until(&browser, "document.querySelector('#headline').textContent === '1 gateway silent or down'");
}

/// The key is in the link alone: neither the address bar nor the page shows it, and a page without
/// it gets nothing.
#[test]
fn the_key_is_needed_and_hidden() {
    let gateway = Fake::start();
    let console = Running::start(&[&gateway.url()]);
    let browser = open(&console);
    let seen =
        browser.run("return [location.href, document.documentElement.outerHTML, document.cookie].join(' ')");
    assert!(!seen.as_str().unwrap().contains(console.key()));
    // A new load of the tab still has it, another tab does not.
    browser.run("location.reload()");
    until(&browser, "document.querySelector('#headline')?.textContent === 'All gateways answer'");
    let other = Browser::start();
    other.visit(&format!("http://{}/", console.address()));
    until(&other, "!document.querySelector('#trouble').hidden");
    assert!(text(&other, "#trouble").contains("open the link that `diana console` has printed"));
    assert_eq!(other.resolved("document.querySelectorAll('#gateway-rows tr').length"), json!(0));
    // A link that is pasted into the open tab works, and those within the page load nothing.
    other.run(&format!("location.hash = '#{}'", console.key()));
    until(&other, "document.querySelector('#headline')?.textContent === 'All gateways answer'");
    other.run("window.isOld = true; location.hash = '#stores'");
    gateway.state().policy["version"] = json!("9.9.9");
    until(&other, "document.querySelector('#gateway-rows')?.textContent.includes('9.9.9')");
    assert_eq!(other.resolved("window.isOld"), json!(true));
    assert!(!other.resolved("location.href").as_str().unwrap().contains(console.key()));
}
