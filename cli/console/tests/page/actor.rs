//! One customer is looked up and changed, and only after a yes.

use crate::fake::{Fake, Fault, refused};
use crate::running::Running;
use crate::view::{open, row, text, until};
use serde_json::json;
use thirtyfour::Key;

#[test]
fn what_comes_back_in_days_has_its_instant() {
    let gateway = Fake::start();
    let mut month = refused("per-user");
    month["more_in_ms"] = json!(1_332_000_000);
    gateway.state().counts.insert("rule=per%2Duser&user=ann".into(), month);
    let console = Running::start(&[&gateway.url()]);
    let browser = open(&console);
    browser.write("#actor-value", "ann");
    browser.press("#actor-value", &[Key::Enter]);
    until(&browser, "document.querySelectorAll('#found-rows tr').length === 1");
    let again = row(&browser, "found-rows", &gateway.name())[4].clone();
    let instant = again.strip_prefix("15.4 d, ").unwrap_or_else(|| panic!("{again}")).replace(' ', "T");
    let off = format!("return Math.abs(new Date('{instant}Z') - Date.now() - 1332000000) < 40000");
    assert_eq!(browser.run(&off), json!(true), "{again}");
}

#[test]
fn an_actor_is_found_in_each_gateway_and_changed_after_a_question() {
    let (one, other) = (Fake::start(), Fake::start());
    for gateway in [&one, &other] {
        gateway.state().counts.insert("rule=per%2Duser&user=a%26b%20c".into(), refused("per-user"));
    }
    let console = Running::start(&[&one.url(), &other.url()]);
    let browser = open(&console);
    browser.write("#actor-value", "a&b c");
    browser.press("#actor-value", &[Key::Enter]);
    until(&browser, "document.querySelectorAll('#found-rows tr').length === 2");
    assert_eq!(text(&browser, "#found-title"), "per-user, user=a&b c");
    let expected = ["100", "0", "100 a minute", "600 ms", "60 s", "1.5 s", "–", "0", "refused"];
    for gateway in [&one, &other] {
        assert_eq!(row(&browser, "found-rows", &gateway.name())[1..], expected);
    }

    // A question that is not answered with yes changes nothing.
    let changed = || [&one, &other].map(|gateway| gateway.asked("POST"));
    for keys in [&[Key::Escape][..], &[Key::Enter]] {
        browser.click("#do-reset");
        let question = text(&browser, "#ask-text");
        assert_eq!(
            question,
            "In 2 gateways, the rule per-user forgets what it has counted, and ends the penalty. The actor is user=a&b c."
        );
        // The focus is on the button that changes nothing.
        browser.press("#ask-no", keys);
        until(&browser, "!document.querySelector('#ask').open");
    }
    assert_eq!(changed(), [vec![], vec![]] as [Vec<String>; 2]);

    browser.click("#do-penalty");
    browser.click("#ask-yes");
    until(
        &browser,
        "document.querySelector('#happened h3')?.textContent === 'Penalty ended: per-user, user=a&b c'",
    );
    assert_eq!(changed(), [(); 2].map(|()| vec!["POST penalty?rule=per%2Duser user=a%26b%20c"]));
    until(&browser, "document.querySelector('#found-rows tr').cells[6].textContent === '–'");

    browser.click("#do-grant");
    browser.run("document.querySelector('#grant-amount').value = '0'");
    browser.click("#ask-yes");
    assert_eq!(browser.resolved("document.querySelector('#ask').open"), json!(true), "no grant of nothing");
    // The filter takes 10^9 units and 24 hours at most, and whole seconds are the least.
    let is_taken = |id: &str, value: &str| {
        browser.run(&format!(
            "const field = document.querySelector('#grant-{id}'); field.value = '{value}'; return field.checkValidity()"
        )) == json!(true)
    };
    assert!(is_taken("amount", "1000000000") && !is_taken("amount", "1000000001"));
    for wrong in ["2d", "25h", "0s", "500ms", "1", "0h", "1 h"] {
        assert!(!is_taken("for", wrong), "{wrong}");
    }
    for right in ["1s", "86400s", "30m", "1440m", "9h", "24h", "1d", "1h"] {
        assert!(is_taken("for", right), "{right}");
    }
    browser.run("document.querySelector('#grant-amount').value = '7'");
    browser.press("#grant-for", &[Key::Enter]);
    until(
        &browser,
        "document.querySelector('#happened h3')?.textContent === 'Granted: per-user, user=a&b c'",
    );
    assert_eq!(
        changed(),
        [(); 2].map(|()| vec!["POST grant?amount=7&for=1h&rule=per%2Duser user=a%26b%20c"])
    );
    assert!(
        text(&browser, "#happened").contains("7 granted for 60 min, 0 remaining"),
        "{}",
        text(&browser, "#happened")
    );
    until(&browser, "document.querySelector('#found-rows tr').cells[7].textContent === '7 for 60 min'");

    other.fault(Fault::CutOff);
    browser.click("#do-reset");
    browser.click("#ask-yes");
    until(
        &browser,
        "document.querySelector('#happened h3')?.textContent.startsWith('Reset in some gateways, and perhaps in the others: ')",
    );
    let happened = text(&browser, "#happened");
    assert!(happened.contains(&format!("{}: 0 used, 100 remaining", one.name())), "{happened}");
    assert!(happened.contains(&format!("{}: the answer is cut off", other.name())), "{happened}");
    assert_eq!(changed(), [vec!["POST reset?rule=per%2Duser user=a%26b%20c".to_owned()], vec![]]);

    one.fault(Fault::CutOff);
    browser.click("#do-penalty");
    browser.click("#ask-yes");
    until(
        &browser,
        "document.querySelector('#happened h3')?.textContent.startsWith('This may have taken effect, and repeating it is safe: ')",
    );
}

/// A gateway that keeps silent delays the answers of all by its timeout, but polls do not replace
/// them, and meanwhile nothing of another actor or rule stands there.
#[test]
fn a_silent_gateway_delays_the_answers_and_stops_none() {
    let (healthy, silent) = (Fake::start(), Fake::start());
    healthy.state().top = json!({"rule": "per-user", "actors": [{"actor": {"user": "ann"}, "count": 3}]});
    healthy.state().counts.insert("rule=per%2Duser&user=ann".into(), refused("per-user"));
    // Longer than the time between two polls of the same question.
    let console = Running::with_timeout(&[&healthy.url(), &silent.url()], 6);
    let browser = open(&console);
    until(&browser, "document.querySelector('#top-rows button')");
    browser.click("#top-rows button");
    until(&browser, "document.querySelectorAll('#found-rows tr').length === 2");
    silent.fault(Fault::Silent);
    browser.run("document.querySelector('#actor-value').value = 'bob'");
    browser.click("#search .main");
    assert_eq!(browser.resolved("document.querySelector('#found').hidden"), json!(true));
    until(&browser, "document.querySelector('#found-title').textContent === 'per-user, user=bob'");
    until(&browser, "!document.querySelector('#found').hidden");
    assert_eq!(row(&browser, "found-rows", &healthy.name())[1..3], ["0", "100"]);
    let late = row(&browser, "found-rows", &silent.name());
    assert_eq!(late.last().map(String::as_str), Some("no answer within 6 s"));
    healthy.state().top = json!({"rule": "per-user", "actors": [{"actor": {"user": "carl"}, "count": 9}]});
    until(&browser, "document.querySelector('#top-rows')?.textContent.includes('user=carl')");
}

/// A rule that counts two actors together, under a plan, and one that counts everybody.
#[test]
fn two_actors_a_plan_and_nobody() {
    let gateway = Fake::start();
    let console = Running::start(&[&gateway.url()]);
    let browser = open(&console);
    gateway.asked("");
    // A rule is chosen with the names of its actors.
    let names = "['rule', 'name', 'name-2'].map((id) => document.getElementById('actor-' + id).value)";
    for (rule, actor) in [("per-ip", "ip"), ("per-user", "user")] {
        browser.run(&format!(
            "const select = document.getElementById('actor-rule'); select.value = '{rule}';
             select.dispatchEvent(new Event('change'))"
        ));
        assert_eq!(browser.resolved(names), json!([rule, actor, ""]));
    }
    browser.click("#more");
    browser.run(
        "const values = {'actor-value': 'ann', 'actor-name-2': 'ip', 'actor-value-2': '192.0.2.7', 'actor-plan': 'gold'};
         for (const [id, value] of Object.entries(values)) document.getElementById(id).value = value",
    );
    browser.click("#search .main");
    until(
        &browser,
        "document.querySelector('#found-title').textContent === 'per-user, user=ann ip=192.0.2.7 with the plan gold'",
    );
    until(&browser, "document.querySelector('#found-rows tr')");
    browser.click("#do-reset");
    let question = text(&browser, "#ask-text");
    assert!(question.ends_with("The actor is user=ann ip=192.0.2.7 with the plan gold."), "{question}");
    browser.click("#ask-no");
    assert_eq!(
        gateway.asked("GET actor")[0],
        "GET actor?rule=per%2Duser&plan=gold user=ann&ip=192%2E0%2E2%2E7"
    );
    browser.run("for (const id of ['actor-value', 'actor-value-2', 'actor-plan']) document.getElementById(id).value = ''");
    browser.click("#search .main");
    until(&browser, "document.querySelector('#found-title').textContent === 'per-user, everybody'");
}
