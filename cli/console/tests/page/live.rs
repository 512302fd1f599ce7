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
    // Two secrets that no gateway tells may be two.
    for gateway in &gateways {
        gateway.state().policy.as_object_mut().unwrap().remove("store_secret");
    }
    until(
        &browser,
        "[...document.querySelectorAll('#gateway-rows tr')].every((row) => row.cells[4].textContent === 'unknown differs')",
    );
    gateways[0].state().policy = crate::fake::policy();
    gateways[2].state().policy = crate::fake::policy();
    gateways[1].state().policy = crate::fake::policy();
    until(&browser, "document.querySelector('#headline').textContent === 'All gateways answer'");
    assert_eq!(browser.resolved("document.querySelectorAll('#gateway-rows .badge').length"), json!(0));
}

/// Values that are no client's own would lead to an actor that nobody has.
#[test]
fn only_whole_values_can_be_looked_up() {
    let (one, other) = (Fake::start(), Fake::start());
    for gateway in [&one, &other] {
        gateway.state().top = json!({"rule": "per-user", "actors": [
            {"actor": {"user": "ann"}, "count": 40},
            {"actor": {"a": "1", "b": "2"}, "count": 35},
            {"actor": {"user": "#0123456789abcdef"}, "count": 30},
            {"actor": {"user": "cut off here…"}, "count": 20},
            {"actor": {"user": "a\u{fffd}b"}, "count": 10},
            {"actor": {"a": "1", "b": "2", "c": "3"}, "count": 5},
        ]});
    }
    let console = Running::start(&[&one.url(), &other.url()]);
    let browser = open(&console);
    until(&browser, "document.querySelectorAll('#top-rows tr').length === 7");
    let rows = browser.resolved(
        "[...document.querySelectorAll('#top-rows tr')].map(({cells}) => [1, 3].map((at) => cells[at].textContent).join(' '))",
    );
    assert_eq!(
        rows,
        json!([
            "80 Look up",
            "70 Look up",
            "40 the value is cut",
            // A gateway has a hash of its own for each value.
            "30 hidden value: only its hash is known",
            "30 hidden value: only its hash is known",
            "20 the value is not text",
            "10 more than two values: use diana ctl",
        ])
    );
    assert_eq!(browser.resolved("document.querySelectorAll('#top-rows button').length"), json!(2));
    let hashed = row(&browser, "top-rows", &format!("user=#0123456789abcdefin {}", other.name()));
    assert_eq!(hashed[1], "30");
    // The plan of the last look-up does not go on with another actor.
    browser.run("document.querySelector('#actor-plan').value = 'gold'");
    one.asked("GET actor");
    browser.click("#top-rows button");
    until(&browser, "document.querySelector('#found-title').textContent === 'per-user, user=ann'");
    assert_eq!(one.asked("GET actor")[0], "GET actor?rule=per%2Duser user=ann");
}

/// The sums lack the rules that a gateway leaves off, and two stores of one name share a row.
#[test]
fn what_is_left_off_is_said() {
    let gateway = Fake::start();
    gateway.state().rates = json!({"left_off": 3, "rules": [{"rule": "per-user", "refused": [5]}],
        "stores": [{"store": "redis", "breaker": "closed"}, {"store": "redis", "breaker": "open"}]});
    let console = Running::start(&[&gateway.url()]);
    let browser = open(&console);
    until(&browser, "document.querySelector('#note-refused').textContent === 'a second, without 3 rules'");
    assert_eq!(text(&browser, "#note-errors"), "a second, without 3 rules");
    assert_eq!(browser.resolved("document.querySelectorAll('#store-rows tr').length"), json!(1));
    gateway.state().rates = json!({"rules": [{"rule": "per-user", "refused": [5]}]});
    until(&browser, "document.querySelector('#note-refused').textContent === 'a second, all rules'");
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
