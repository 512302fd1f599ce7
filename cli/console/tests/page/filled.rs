//! A page that two real gateways fill, with Redis, until Redis goes down.

use crate::fake::TOKEN;
use crate::running::Running;
use crate::view::{is_alarm, open, text, until};
use gateway::{Carrier, Config, Gateway, Redis};
use serde_json::json;

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

#[test]
fn two_real_gateways_fill_the_page() {
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
    // Requests do not wait for a Redis that is down, and the page says who counts meanwhile.
    redis.kill();
    send(["carl", "dora", "emil"], 30);
    let outage = "'Redis is down: 2 gateways decide alone; gateways differ'";
    until(&browser, &format!("document.querySelector('#headline').textContent === {outage}"));
    assert!(is_alarm(&browser, "#headline") && is_alarm(&browser, "#total-stores"));
    assert_eq!(text(&browser, "#total-stores"), "down");
}
