//! Numbers arrive, and differences are marked.

use crate::fake::{Fake, Fault};
use crate::running::Running;
use crate::view::{is_alarm, open, row, text, until};
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
    until(&browser, "document.querySelector('#headline').textContent === 'Gateways differ'");
    assert!(is_alarm(&browser, "#headline") && is_alarm(&browser, "#note-documents"));
    let cells = |place: usize| row(&browser, "gateway-rows", &gateways[place].name())[1..5].to_vec();
    assert_eq!(cells(0), ["answers", "ad62478a83fc1f92 local document", "0.2.0", "d0c4"]);
    assert_eq!(cells(1), ["answers", "ad62478a83fc1f92 local document", "0.2.0", "87a3 differs"]);
    assert_eq!(cells(2), ["answers", "0000000000000001 differs local document", "0.2.0", "d0c4"]);
    assert!(row(&browser, "rule-rows", "per-user")[1].starts_with("100 a minute or 200 a minute differs"));
    // Two unknown secrets may differ.
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
    assert_eq!(
        browser.resolved("document.querySelectorAll('#gateway-rows .badge, .alarm').length"),
        json!(0)
    );
}

/// Values that are no client's own would lead to an actor that nobody has.
#[test]
fn only_whole_values_can_be_looked_up() {
    let (one, other) = (Fake::start(), Fake::start());
    // The hashes of a gateway without a store differ from others.
    other.state().policy["store_secret"] = json!(null);
    for gateway in [&one, &other] {
        gateway.state().top = json!({"rule": "per-user", "actors": [
            {"actor": {"user": "ann"}, "count": 40},
            {"actor": {"a": "1", "b": "2"}, "count": 35},
            {"actor": {"user": "#0123456789abcdef"}, "name": "Acme", "count": 30},
            {"actor": {"user": "cut off here…"}, "count": 20},
            {"actor": {"a": "1", "b": "2", "c": "3"}, "count": 5},
        ]});
    }
    let console = Running::start(&[&one.url(), &other.url()]);
    let browser = open(&console);
    until(&browser, "document.querySelectorAll('#top-rows tr').length === 6");
    let rows = browser.resolved(
        "[...document.querySelectorAll('#top-rows tr')].map(({cells}) => [1, 3].map((at) => cells[at].textContent).join(' '))",
    );
    assert_eq!(
        rows,
        json!([
            "80 Look up",
            "70 Look up",
            "40 the value is cut",
            "30 hidden value: only its hash is known",
            "30 hidden value: only its hash is known",
            "10 more than two values: use diana ctl",
        ])
    );
    assert_eq!(browser.resolved("document.querySelectorAll('#top-rows button').length"), json!(2));
    let hashed = row(&browser, "top-rows", &format!("user=#0123456789abcdef Acmein {}", other.name()));
    assert_eq!(hashed[1], "30");
    // An actor that is looked up by its value is marked in the list, by the gateway's hash.
    let mut count = crate::fake::refused("per-user");
    count["actor"] = json!({"user": "#0123456789abcdef"});
    one.state().counts.insert("rule=per%2Duser&user=k%2D4711".into(), count);
    browser.write("#actor-value", "k-4711");
    browser.click("#search .main");
    until(
        &browser,
        "document.querySelector('#top-rows tr.chosen')?.textContent.includes('#0123456789abcdef Acmeunder the secret d0c4')",
    );
    assert_eq!(browser.resolved("document.querySelectorAll('#top-rows tr.chosen').length"), json!(1));
    // Gateways with the same secret share one sum.
    other.state().policy["store_secret"] = json!("d0c4");
    until(&browser, "document.querySelectorAll('#top-rows tr').length === 5");
    assert_eq!(row(&browser, "top-rows", "user=#0123456789abcdef Acmeunder the secret d0c4")[1], "60");
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
    browser.send("Emulation.setTimezoneOverride", json!({"timezoneId": "Asia/Tokyo"}));
    until(&browser, "document.querySelectorAll('#top-rows tr').length === 4");
    assert_eq!(row(&browser, "top-rows", "user=mallory")[1..3], ["1,132", "2"]);
    assert_eq!(
        ["#total-stores", "#note-stores", "#headline"].map(|selector| text(&browser, selector)),
        ["down", "redis in 1 of 2 gateways", "Redis is down: 1 gateway decides alone; gateways differ"]
    );
    let names = gateways.each_ref().map(|gateway| gateway.name());
    assert_eq!(row(&browser, "store-rows", &names[1])[1..3], ["redis", "down"]);
    assert_eq!(row(&browser, "store-rows", &names[0])[1..3], ["redis", "answers"]);
    // The hour is the same in all time zones, as in the report.
    assert!(
        text(&browser, "#top-note").starts_with("Since 14:15:00 UTC."),
        "{}",
        text(&browser, "#top-note")
    );
    gateways[0].state().top = json!({"rule": "per-user", "actors": []});
    gateways[1].state().top = json!(null);
    let note = "document.querySelector('#top-note').textContent";
    until(&browser, &format!("{note}.includes('Nobody yet. {}: the gateway has no `top`: ')", names[1]));
    assert_eq!(browser.resolved("document.querySelector('#top-panel').hidden"), json!(true));
}

/// Refusals are normal: only errors have the alarm colour.
#[test]
fn refusals_are_no_alarm() {
    let gateway = Fake::start();
    gateway.state().rates = json!({"rules": [{"rule": "per-user", "refused": [5], "error": [5]}]});
    let console = Running::start(&[&gateway.url()]);
    let browser = open(&console);
    until(&browser, "document.querySelector('#total-refused').textContent === '1.0'");
    assert!(!is_alarm(&browser, "#total-refused") && is_alarm(&browser, "#total-errors"));
    let cell = |at: u8| format!("#rule-rows tr:first-child > :nth-child({at})");
    assert!(!is_alarm(&browser, &cell(4)) && is_alarm(&browser, &cell(6)));
    assert!(!is_alarm(&browser, "#headline"));
}

/// The rule that refuses most is what an operator comes for. A choice of the operator stays, and is
/// the same in all places.
#[test]
fn one_rule_is_chosen_everywhere() {
    let gateway = Fake::start();
    gateway.state().top = json!({"rule": "per-user", "actors": [{"actor": {"ip": "192.0.2.7"}, "count": 3}]});
    let rates = |user: u32, ip: u32| json!({"rules": [{"rule": "per-user", "refused": [user]}, {"rule": "per-ip", "refused": [ip]}]});
    let console = Running::start(&[&gateway.url()]);
    let browser = open(&console);
    let chosen = "['chart', 'top', 'actor'].map((id) => document.getElementById(id + '-rule').value)
        .concat(document.querySelector('tr.chosen').dataset.id, document.getElementById('actor-name').value).join(' ')";
    let (user, ip) = ("per-user per-user per-user per-user user", "per-ip per-ip per-ip per-ip ip");
    until(&browser, &format!("{chosen} === '{user}'"));
    gateway.state().rates = rates(1, 2);
    until(&browser, &format!("{chosen} === '{ip}'"));
    // The chart does not change its rule while somebody looks at it.
    gateway.state().rates = rates(3, 2);
    until(&browser, "document.querySelector('#total-refused').textContent === '1.0'");
    assert_eq!(browser.resolved(chosen), json!(ip));
    let choose = |id: &str, rule: &str| {
        browser.run(&format!(
            "const select = document.getElementById('{id}-rule'); select.value = '{rule}';
             select.dispatchEvent(new Event('change'))"
        ));
    };
    for (place, id) in ["chart", "top", "actor"].into_iter().enumerate() {
        let (rule, expected) = if place % 2 == 0 { ("per-user", user) } else { ("per-ip", ip) };
        choose(id, rule);
        until(&browser, &format!("{chosen} === '{expected}'"));
    }
    gateway.asked("GET");
    browser.click("#rule-rows tr:nth-child(2) button");
    until(&browser, &format!("{chosen} === '{ip}'"));
    until(&browser, "document.querySelector('#plot-text').textContent.startsWith('per-ip, ')");
    until(&browser, r#"document.querySelector('#top-rows tr')?.dataset.id.startsWith('["per-ip"')"#);
    assert!(gateway.asked("GET top").iter().any(|asked| asked.starts_with("GET top?rule=per%2Dip&")));
    // The same holds for an actor. A rule that counts another actor shows no count.
    browser.click("#top-rows button");
    until(&browser, "document.querySelector('#top-rows tr').classList.contains('chosen')");
    until(&browser, "document.querySelector('#found-title').textContent === 'per-ip, ip=192.0.2.7'");
    until(&browser, "document.querySelector('#found-rows tr')");
    choose("chart", "per-user");
    assert_eq!(browser.resolved("document.querySelector('#found').hidden"), json!(true));
    // A rule that counts the same actor shows it.
    gateway.state().policy["rules"][1] =
        json!({"name": "per-ip", "actors": ["user"], "rpu": 77, "unit_ms": 1_000});
    until(&browser, "document.querySelector('#rule-rows').textContent.includes('77 a second')");
    browser.write("#actor-value", "ann");
    browser.click("#search .main");
    until(&browser, "document.querySelector('#found-title').textContent === 'per-user, user=ann'");
    choose("top", "per-ip");
    until(&browser, "document.querySelector('#found-title').textContent === 'per-ip, user=ann'");
    until(&browser, "!document.querySelector('#found').hidden");
}

#[test]
fn labels_of_the_chart_touch_no_bar() {
    let gateways = crate::sample::gateways();
    let console = Running::start(&[&gateways[0].url()]);
    let browser = open(&console);
    until(&browser, "document.querySelector('#area-ok').getAttribute('d')");
    for width in [1200, 360] {
        browser.look(width, 900, "light");
        let boxes = browser.run(
            "const box = (element) => element.getBoundingClientRect();
             const {left, top, bottom} = box(document.querySelector('#plot-areas'));
             return [...document.querySelectorAll('#plot text')].map((text) => [text.textContent, box(text)])
               .filter(([, text]) => text.left < 0 || (text.right > left && text.bottom > top && text.top < bottom))",
        );
        assert_eq!(boxes, json!([]), "{width}");
    }
}

/// The worker that answers may not have called a store that is down, but failed calls count for all
/// workers.
#[test]
fn a_store_whose_calls_all_fail_is_down() {
    let gateway = Fake::start();
    let store = |failed: u32| json!({"stores": [{"store": "redis", "breaker": "closed", "calls": [5], "failed": [failed]}], "rules": []});
    gateway.state().rates = store(5);
    let other = Fake::start();
    let console = Running::start(&[&gateway.url(), &other.url()]);
    let browser = open(&console);
    until(
        &browser,
        "document.querySelector('#headline').textContent === 'Redis is down: 1 gateway decides alone'",
    );
    gateway.state().rates = store(2);
    until(&browser, "document.querySelector('#headline').textContent === 'All gateways answer'");
    assert_eq!(row(&browser, "store-rows", &gateway.name())[2..], ["answers", "1.0", "0.4"]);
    assert!(is_alarm(&browser, "#store-rows td:last-child") && !is_alarm(&browser, "#total-stores"));
}
