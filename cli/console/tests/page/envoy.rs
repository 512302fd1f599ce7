//! The page over real Envoys with the filter. Questions that this build of the filter does not know
//! must be explained on the page; those that it knows must work.

use crate::fake::TOKEN;
use crate::running::Running;
use crate::view::{open, row, text, until};
use gateway::{Config, Gateway};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn start(rpu: u32) -> Gateway {
    let document = json!({
        "inspect": {"path": "/.diana", "token": TOKEN},
        "limits": [{"url": "/", "rules": [
            {"name": "per-user", "actor": "user", "algo": "W", "rpu": rpu, "unit": "day", "penalty": {"after": 3, "for": "1h"}},
        ]}],
    });
    Gateway::start(Config::new(document)).expect("the gateway should start")
}

fn ask(gateway: &Gateway, method: &str, question: &str) -> Value {
    let bearer = format!("Bearer {TOKEN}");
    let target = format!("/.diana/{question}");
    let response = gateway.request(method, &target, &[("authorization", &bearer)], b"").unwrap();
    serde_json::from_str(&response.text()).unwrap_or_else(|error| panic!("{error}: {}", response.text()))
}

#[test]
fn real_gateways_are_watched_and_an_actor_is_looked_up_and_changed() {
    let (one, other) = (start(5), start(5));
    let urls = [&one, &other].map(|gateway| format!("http://{}/.diana", gateway.address()));
    let console = Running::start(&[&urls[0], &urls[1]]);
    let browser = open(&console);
    until(&browser, "document.querySelector('#headline').textContent === 'All gateways answer'");
    let name = one.address().to_string();
    let policy = ask(&one, "GET", "policy");
    let document = row(&browser, "gateway-rows", &name)[2].clone();
    assert_eq!(document, format!("{} local document", policy["fingerprint"].as_str().unwrap()));
    assert!(row(&browser, "rule-rows", "per-user")[1].starts_with("5 a day"));

    let get = || one.get("/", &[("x-user-id", "ann")]).unwrap().status;
    for _ in 0..5 {
        assert_eq!(get(), 200);
    }
    // Three refusals begin a penalty.
    for _ in 0..4 {
        assert_eq!(get(), 429);
    }
    browser.write("#actor-value", "ann");
    browser.click("#search .main");
    until(&browser, "document.querySelectorAll('#found-rows tr').length === 2");
    let cells = |gateway: &Gateway| row(&browser, "found-rows", &gateway.address().to_string());
    assert_eq!((&*cells(&one)[1], &*cells(&one)[2], &*cells(&one)[9]), ("5", "0", "refused"));
    assert_eq!((&*cells(&other)[1], &*cells(&other)[2], &*cells(&other)[9]), ("0", "5", "admitted"));
    assert!(cells(&one)[6].ends_with(" min"), "a penalty: {:?}", cells(&one));

    // Rates, which an older filter does not know.
    let rates = ask(&one, "GET", "rates");
    if rates["rules"].is_array() {
        until(&browser, "/ [1-9][0-9]* refused/.test(document.querySelector('#plot-text').textContent)");
        assert_eq!(browser.resolved("document.querySelector('#rates-note').hidden"), json!(true));
    } else {
        assert!(rates["error"].is_string(), "{rates}");
        until(
            &browser,
            &format!("document.querySelector('#rates-note').textContent.includes('{name} tells no rates: ')"),
        );
    }

    // The penalty, and then a grant.
    let change = |button: &str| {
        browser.run("document.querySelector('#happened').replaceChildren()");
        browser.click(button);
        browser.click("#ask-yes");
        until(&browser, "document.querySelector('#happened h3')");
        text(&browser, "#happened")
    };
    for (button, question, done) in
        [("#do-penalty", "penalty", "Penalty ended"), ("#do-grant", "grant", "Granted")]
    {
        let known = ask(&one, "POST", &format!("{question}?amount=1&for=1h&rule=per-user&user=probe"));
        let happened = change(button);
        match known["error"].as_str() {
            None => {
                assert!(happened.starts_with(done), "{happened}");
                until(&browser, "document.querySelector('#found-rows tr').cells[6].textContent === '–'");
            }
            Some(why) => {
                assert!(happened.starts_with("Nothing has changed"), "{happened}");
                assert!(happened.contains(&format!("the gateway has no `{question}`: {why}")), "{happened}");
            }
        }
        if question == "grant" && known["error"].is_null() {
            assert_eq!(get(), 200, "more is granted");
        }
    }

    let happened = change("#do-reset");
    assert!(happened.starts_with("Reset: per-user, user=ann"), "{happened}");
    assert!(happened.contains(&format!("{name}: 0 used, 5 remaining")), "{happened}");
    until(&browser, "document.querySelector('#found-rows tr').cells[9].textContent === 'admitted'");
    assert!(one.log_contains("inspect: 127.0.0.1 resets actor "));

    // A gateway with another document, and one that ends.
    drop(other);
    until(&browser, "document.querySelector('#total-gateways').textContent === '1 of 2'");
    assert!(text(&browser, "#gateway-rows").contains("cannot connect: Connection refused"));
    let another = start(6);
    let url = format!("http://{}/.diana", another.address());
    let console = Running::start(&[&urls[0], &url]);
    let browser = open(&console);
    until(&browser, "document.querySelector('#headline').textContent === 'Gateways differ'");
}

/// Ends the load, also if the test fails.
struct Load<'a>(&'a AtomicBool);

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn under_load_the_page_agrees_with_the_next_response() {
    let document = json!({
        "inspect": {"path": "/.diana", "token": TOKEN, "top": true},
        "headers": "ietf",
        "limits": [{"url": "/", "rules": [
            {"name": "per-user", "actor": "user", "algo": "W", "rpu": 20, "unit": "day"},
        ]}],
    });
    let gateways = [(); 2].map(|()| Gateway::start(Config::new(document.clone())).unwrap());
    let left = |gateway: &Gateway, user: &str| {
        let response = gateway.get("/", &[("x-user-id", user)]).unwrap();
        let shown = response.header("ratelimit").unwrap().to_owned();
        let left = shown.split(r#""per-user";r="#).nth(1).unwrap().split(';').next().unwrap();
        (u32::from(response.status), left.parse::<u64>().unwrap())
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = Load(&is_over);
        for gateway in &gateways {
            scope.spawn(|| {
                let mut connection = gateway.connect().unwrap();
                for request in 0_u32.. {
                    if is_over.load(Relaxed) {
                        break;
                    }
                    let user = format!("user-{}", request % 50);
                    connection.request("GET", "/", &[("x-user-id", &user)], b"").unwrap();
                }
            });
        }
        for (gateway, requests) in gateways.iter().zip([7, 3]) {
            (0..requests).for_each(|_| _ = left(gateway, "ann"));
            while left(gateway, "bob").0 == 200 {}
        }
        let urls = gateways.each_ref().map(|gateway| format!("http://{}/.diana", gateway.address()));
        let console = Running::start(&[&urls[0], &urls[1]]);
        let browser = open(&console);
        // The load shows: it is refused, and by users that the page ranks.
        until(
            &browser,
            "Number(document.querySelector('#total-refused').textContent.replace(/\\D/g, '')) > 0",
        );
        until(&browser, "document.querySelectorAll('#top-rows tr').length > 1");
        browser.write("#actor-value", "ann");
        browser.click("#search .main");
        until(&browser, "document.querySelectorAll('#found-rows tr').length === 2");
        for (gateway, remaining) in gateways.iter().zip([13, 17]) {
            let shown = row(&browser, "found-rows", &gateway.address().to_string());
            assert_eq!(shown[2], remaining.to_string());
            assert_eq!(left(gateway, "ann"), (200, remaining - 1), "the next response");
        }
        browser.click("#do-reset");
        browser.click("#ask-yes");
        until(&browser, "document.querySelector('#happened h3')?.textContent.startsWith('Reset: ')");
        for gateway in &gateways {
            assert_eq!((left(gateway, "ann"), left(gateway, "bob")), ((200, 19), (429, 0)));
        }
        drop(load);
    });
}
