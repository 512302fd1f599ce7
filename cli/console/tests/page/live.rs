//! Numbers arrive, and differences are marked.

use crate::fake::{Fake, Fault};
use crate::running::Running;
use crate::view::{open, row, text, until};
use serde_json::json;

#[test]
fn a_change_of_rates_shows_with_the_second_poll_at_the_latest() {
    let (one, other) = (Fake::start(), Fake::start());
    let console = Running::start(&[&one.url(), &other.url()]);
    let browser = open(&console);
    until(&browser, "document.querySelector('#total-refused').textContent === '0'");
    for gateway in [&one, &other] {
        gateway.state().rates = json!({"waiting": 4, "rules": [
            {"rule": "per-user", "ok": [0, 10, 10, 10, 10, 10], "refused": [0, 0, 0, 0, 0, 20], "shadow": [], "error": [1]},
        ]});
    }
    one.asked("");
    until(&browser, "document.querySelector('#total-refused').textContent === '8.0'");
    let polls = one.asked("GET rates").len();
    assert!((1..=2).contains(&polls), "{polls} polls, one a second");
    // Both gateways together: means of five seconds.
    assert_eq!(row(&browser, "rule-rows", "per-user")[2..6], ["20", "8.0", "0", "0.4"]);
    assert_eq!(row(&browser, "rule-rows", "per-ip")[2], "–", "no traffic is not zero requests");
    assert_eq!(text(&browser, "#total-waiting"), "8");
    let chart = text(&browser, "#plot-text");
    assert!(
        chart.starts_with(
            "per-user, the last minute: 100 admitted, 0 admitted in shadow mode only, 40 refused"
        ),
        "{chart}"
    );
    assert!(chart.ends_with("at most 62 in a second"), "{chart}");
}

/// A gateway that has never answered is not up.
#[test]
fn a_gateway_that_keeps_silent_from_the_start_is_not_up() {
    let (one, silent) = (Fake::start(), Fake::start());
    silent.fault(Fault::Silent);
    let console = Running::start(&[&one.url(), &silent.url()]);
    let browser = open(&console);
    until(&browser, "document.querySelector('#headline').textContent === '1 gateway silent or down'");
    assert_eq!(row(&browser, "gateway-rows", &silent.name())[1], "asked for the first time");
}

#[test]
fn gateways_that_differ_are_marked() {
    let gateways = [Fake::start(), Fake::start(), Fake::start()];
    gateways[2].state().policy["fingerprint"] = "0000000000000001".into();
    gateways[1].state().policy["store_secret"] = "87a3".into();
    gateways[2].state().policy["rules"][0]["rpu"] = json!(200);
    let urls = gateways.each_ref().map(|gateway| gateway.url());
    let console = Running::start(&urls.each_ref().map(|url| &**url));
    let browser = open(&console);
    until(
        &browser,
        "document.querySelector('#headline').textContent === 'All gateways answer, and they differ'",
    );
    let cells = |place: usize| row(&browser, "gateway-rows", &gateways[place].name())[1..5].to_vec();
    assert_eq!(cells(0), ["answers", "ad62478a83fc1f92 local document", "0.2.0", "d0c4"]);
    assert_eq!(cells(1), ["answers", "ad62478a83fc1f92 local document", "0.2.0", "87a3 differs"]);
    assert_eq!(cells(2), ["answers", "0000000000000001 differs local document", "0.2.0", "d0c4"]);
    assert!(row(&browser, "rule-rows", "per-user")[1].starts_with("100 a minute or 200 a minute differs"));
    gateways[2].state().policy = crate::fake::policy();
    gateways[1].state().policy = crate::fake::policy();
    until(&browser, "document.querySelector('#headline').textContent === 'All gateways answer'");
    assert_eq!(browser.resolved("document.querySelectorAll('#gateway-rows .badge').length"), json!(0));
}

#[test]
fn stores_and_the_most_refused_are_listed() {
    let gateways = crate::sample::gateways();
    let console = Running::start(&[&gateways[0].url(), &gateways[1].url()]);
    let browser = open(&console);
    until(&browser, "document.querySelectorAll('#top-rows tr').length === 4");
    assert_eq!(row(&browser, "top-rows", "user=mallory")[1..3], ["1,132", "2"]);
    assert_eq!(text(&browser, "#total-stores"), "1 open");
    let names = gateways.each_ref().map(|gateway| gateway.name());
    assert_eq!(row(&browser, "store-rows", &names[1])[1..3], ["redis", "half-open"]);
    assert_eq!(row(&browser, "store-rows", &names[0])[1..3], ["redis", "closed"]);
    gateways[0].state().top = json!({"rule": "per-user", "actors": []});
    gateways[1].state().top = json!(null);
    let note = "document.querySelector('#top-note').textContent";
    until(&browser, &format!("{note}.includes('Nobody yet. {}: the gateway has no `top`: ')", names[1]));
    assert_eq!(browser.resolved("document.querySelector('#top-panel').hidden"), json!(true));
}
