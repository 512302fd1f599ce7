//! Pages that two real gateways fill, with Redis, until Redis goes down: what a phone shows of
//! them, in light and dark, and what the headline says. `PICTURES=FOLDER` keeps photographs.

use crate::axe::violations;
use crate::browser::Browser;
use crate::fake::TOKEN;
use crate::running::Running;
use crate::view::{is_alarm, open, photograph, text, until};
use gateway::{Carrier, Config, Gateway, Redis};
use serde_json::{Value, json};

/// A gateway whose rules have names as they occur, and whose document differs by `rpu`.
fn start(redis: &Redis, rpu: u32) -> Gateway {
    let document = json!({
        "inspect": {"path": "/.diana", "token": TOKEN, "top": true},
        "store": {"redis": {"cluster": Carrier::CLUSTER, "secret": "a secret of two gateways", "timeout": "1s"}},
        "actors": {"apikey": {"header": "x-api-key"}},
        "limits": [
            {"url": "/", "rules": [
                {"name": "per-user", "actor": "user", "rpu": rpu, "unit": "minute", "penalty": {"after": 3, "for": "1h"}},
                {"name": "requests-per-api-key", "actor": "apikey", "algo": "W", "rpu": 20_000, "unit": "day", "mode": "shadow"},
            ]},
            {"url": "/search", "rules": [
                {"name": "searches-of-all-gateways", "actor": "user", "algo": "SW", "rpu": 30, "unit": "hour", "scope": "global"},
            ]},
        ],
    });
    let config = Carrier::Tunnel.lead(Config::new(document), redis.address(), &json!({})).unwrap();
    Gateway::start(config).expect("the gateway should start")
}

/// What does not fit: tables and cells that are wider than the screen or hidden, and words that are
/// broken into lines.
fn misfits(browser: &Browser) -> Value {
    browser.run(
        "const width = document.documentElement.clientWidth;
         const wrong = [];
         const tables = [...document.querySelectorAll('table')].filter((table) => table.offsetParent);
         if (tables.length < 6) wrong.push('only ' + tables.length + ' tables');
         for (const table of tables) {
           const id = table.tBodies[0].id;
           if (table.tBodies[0].rows.length === 0) wrong.push(id + ' is empty');
           const around = table.parentElement;
           if (around.scrollWidth > around.clientWidth) wrong.push(id + ' scrolls sideways');
           for (const cell of table.tBodies[0].querySelectorAll('th, td')) {
             const box = cell.getBoundingClientRect();
             if (box.width === 0 || box.left < 0 || box.right > width) wrong.push(id + ' has no room: ' + cell.textContent);
             const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
             while (texts.nextNode()) {
               for (const word of texts.currentNode.data.matchAll(/[^\\s-]+-?/g)) {
                 const range = document.createRange();
                 range.setStart(texts.currentNode, word.index);
                 range.setEnd(texts.currentNode, word.index + word[0].length);
                 const lines = new Set([...range.getClientRects()].map(({top}) => top));
                 if (lines.size !== 1 || range.getBoundingClientRect().right > width) wrong.push(id + ' breaks ' + word[0]);
               }
             }
           }
         }
         return wrong",
    )
}

#[test]
fn two_real_gateways_fill_the_page_of_a_phone() {
    let mut redis = Redis::start().unwrap();
    let gateways = [20, 25].map(|rpu| start(&redis, rpu));
    let urls = gateways.each_ref().map(|gateway| format!("http://{}/.diana", gateway.address()));
    let console = Running::start(&[&urls[0], &urls[1]]);
    let send = |users: [&str; 3], requests: usize| {
        for gateway in &gateways {
            let mut connection = gateway.connect().unwrap();
            for request in 0..requests {
                let headers = [
                    ("x-user-id", users[request % 7 % 3]),
                    ("x-api-key", "4f1d8a0c6be94ce2a7f35d2b90e1c7a8"),
                ];
                connection.request("GET", ["/", "/search"][request % 2], &headers, b"").unwrap();
            }
        }
    };
    send(["ann@customer.example.com", "bob", "10293847"], 200);
    let browser = open(&console);
    until(&browser, "document.querySelector('#headline').textContent === 'Gateways differ'");
    assert_eq!(text(&browser, "#note-stores"), format!("{} in 2 gateways", Carrier::CLUSTER));
    until(&browser, "document.querySelectorAll('#top-rows tr').length === 3");
    browser.click("#top-rows button");
    until(&browser, "document.querySelectorAll('#found-rows tr').length === 2");
    browser.run("document.querySelector('#chart-numbers').open = true");
    until(&browser, "document.querySelectorAll('#chart-rows tr').length === 60");
    for scheme in ["light", "dark"] {
        browser.look(360, 740, scheme);
        assert_eq!(misfits(&browser), json!([]));
        let (found, passes) = violations(&browser);
        assert!(found.is_empty() && passes > 20, "{scheme}:\n  {}", found.join("\n  "));
        photograph(&browser, &format!("phone-{scheme}"));
        browser.look(1200, 900, scheme);
        photograph(&browser, &format!("wide-{scheme}"));
    }

    // Requests do not wait for a Redis that is down, and the page says who counts meanwhile.
    redis.kill();
    send(["carl", "dora", "emil"], 30);
    let outage = "'Redis is down: 2 gateways decide alone; gateways differ'";
    until(&browser, &format!("document.querySelector('#headline').textContent === {outage}"));
    assert!(is_alarm(&browser, "#headline") && is_alarm(&browser, "#total-stores"));
    assert_eq!(text(&browser, "#total-stores"), "down");
    browser.look(360, 740, "light");
    assert_eq!(misfits(&browser), json!([]));
    photograph(&browser, "phone-outage");
}
