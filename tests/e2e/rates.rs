//! Operators see what all workers of an Envoy count in each second, and whom a rule refuses most.

use crate::start;
use gateway::filter::{self, module};
use gateway::{Config, Gateway, Load, Shell, Shot};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn document(inspect: &Value, rules: &Value) -> Value {
    let mut all = json!({"path": "/.diana", "token": TOKEN});
    all.as_object_mut().unwrap().extend(inspect.as_object().unwrap().clone());
    json!({
        "inspect": all,
        "actors": {"apikey": {"header": "x-api-key"}},
        "limits": [{"url": "/", "rules": rules}],
    })
}

fn ask(gateway: &Gateway, question: &str) -> (u16, Value) {
    let bearer = format!("Bearer {TOKEN}");
    let response = gateway.get(&format!("/.diana/{question}"), &[("authorization", &bearer)]).unwrap();
    let text = response.text();
    (response.status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

fn sum(rates: &Value, rule: &str, result: &str) -> u64 {
    let found = rates["rules"].as_array().unwrap().iter().find(|one| one["rule"] == rule);
    let all = found.and_then(|rule| rule[result].as_array());
    all.map_or(0, |all| all.iter().filter_map(Value::as_u64).sum())
}

/// Asks until the answer holds, and returns the answer and the time that this took.
fn until(what: &str, mut answer: impl FnMut() -> Value, holds: impl Fn(&Value) -> bool) -> (Value, Duration) {
    let began = Instant::now();
    loop {
        let (found, took) = (answer(), began.elapsed());
        if holds(&found) {
            println!("{what} after {took:?}");
            return (found, took);
        }
        assert!(took < Duration::from_secs(20), "{what}: {found}");
    }
}

#[test]
fn the_rates_of_all_workers_are_what_was_sent() {
    let rules = json!([
        {"name": "half", "actor": "user", "algo": "W", "rpu": 5, "unit": "day"},
        {"name": "shadow", "actor": "user", "algo": "W", "rpu": 2, "unit": "day", "mode": "shadow"},
        {"name": "unused", "actor": "apikey", "missing": "skip", "rpu": 5, "unit": "day"},
    ]);
    let mut gateway = start(document(&json!({}), &rules));
    let send = |gateway: &Gateway, total: u64, from: u64| {
        let shot = |index| Shot::get("/").header("x-user-id", format!("user-{}", from + index / 10));
        let report = gateway.load(Load::requests(total), shot).unwrap();
        (report.by_status.get(&200).copied().unwrap_or(0), report.by_status.get(&429).copied().unwrap_or(0))
    };
    // From the first request on, over several seconds.
    let (mut ok, mut refused) = (0, 0);
    let began = Instant::now();
    let mut batch = 0;
    while began.elapsed() < Duration::from_secs(3) {
        let (passed, stopped) = send(&gateway, 2_000, batch * 200);
        (ok, refused, batch) = (ok + passed, refused + stopped, batch + 1);
    }
    assert_eq!((ok, refused), (batch * 1_000, batch * 1_000), "5 of 10 requests of each user");
    let rates = |gateway: &Gateway| ask(gateway, "rates").1;
    let is_all = |found: &Value| (sum(found, "half", "ok"), sum(found, "half", "refused")) == (ok, refused);
    let (found, _) = until("all requests show", || rates(&gateway), is_all);
    // Eight of ten requests of each user.
    assert_eq!(sum(&found, "shadow", "shadow"), batch * 1_600);
    assert_eq!(found["rules"][2], json!({"rule": "unused"}));
    assert_eq!((&found["left_off"], &found["waiting"], &found["stores"]), (&json!(0), &json!(0), &json!([])));
    assert_eq!(found["rules"][0]["ok"].as_array().unwrap().len(), 300);
    let spread = found["rules"][0]["ok"].as_array().unwrap().iter().filter(|one| **one != 0).count();
    assert!((3..30).contains(&spread), "{spread} seconds");
    println!("{ok} passed and {refused} refused requests in {spread} seconds");

    // The same rule in another configuration goes on; a removed one goes.
    let rules = json!([{"name": "half", "actor": "user", "algo": "W", "rpu": 9, "unit": "hour"}]);
    gateway.update(document(&json!({}), &rules)).unwrap();
    assert_eq!(send(&gateway, 10, 1_000_000), (9, 1));
    let is_all =
        |found: &Value| (sum(found, "half", "ok"), sum(found, "half", "refused")) == (ok + 9, refused + 1);
    let (found, _) = until("the sum over the reload", || rates(&gateway), is_all);
    assert_eq!(found["rules"].as_array().unwrap().len(), 1);
    assert_eq!(ask(&gateway, "rates?rule=unused").0, 400);
    let (status, short) = ask(&gateway, "rates?rule=half&seconds=5");
    assert_eq!((status, short["rules"][0]["ok"].as_array().map(Vec::len)), (200, Some(5)), "{short}");
}

/// The numbers are at most two seconds old, also if no request comes. The load of other tests may
/// delay a single answer, so the fastest of some counts.
#[test]
fn a_request_shows_within_two_seconds() {
    let gateway = start(document(&json!({}), &json!([{"name": "one", "rpu": 1_000, "unit": "day"}])));
    let mut fastest = Duration::MAX;
    for sent in 1..=3 {
        assert_eq!(gateway.get("/", &[]).unwrap().status, 200);
        let shows = |found: &Value| sum(found, "one", "ok") == sent;
        fastest = fastest.min(until("it shows", || ask(&gateway, "rates").1, shows).1);
    }
    assert!(fastest < Duration::from_secs(2), "{fastest:?}");
}

#[test]
fn waiting_requests_show() {
    let queue = json!([{"name": "even", "algo": "LB", "rpu": 12, "unit": "minute", "queue": 3}]);
    let gateway = start(document(&json!({"allow": ["127.0.0.0/8"]}), &queue));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| gateway.get("/", &[]));
        }
        until("two wait", || ask(&gateway, "rates?seconds=1").1, |found| found["waiting"] == 2);
        until("none waits", || ask(&gateway, "rates?seconds=1").1, |found| found["waiting"] == 0);
    });
}

#[test]
fn the_most_refused_is_first_over_all_workers() {
    let rules = json!([{"name": "each", "actor": "user", "algo": "W", "rpu": 1, "unit": "day"}]);
    let gateway = start(document(&json!({"top": true}), &rules));
    // One of four requests is ann's, one of eight bob's, all others are of users that come twice.
    let user = |index: u64| match index % 8 {
        0 | 4 => "ann".to_owned(),
        1 => "bob".to_owned(),
        _ => format!("user-{}", index / 2),
    };
    let total = 16_000;
    gateway.load(Load::requests(total), |index| Shot::get("/").header("x-user-id", user(index))).unwrap();
    let (ann, bob) = (total / 4 - 1, total / 8 - 1);
    let top = || ask(&gateway, "top?rule=each&by=refused").1;
    let place = |found: &Value, place: usize, user: &str, truth: u64| {
        let one = &found["actors"][place];
        let (count, error) = (one["count"].as_u64().unwrap_or(0), one["error"].as_u64().unwrap_or(0));
        one["actor"]["user"] == user && count >= truth && count - error <= truth
    };
    let is_ranked = |found: &Value| place(found, 0, "ann", ann) && place(found, 1, "bob", bob);
    let (found, _) = until("ann before bob", top, is_ranked);
    let bound = found["error_bound"].as_u64().unwrap();
    assert!(bound <= total / 64, "{bound}");
    println!("error bound {bound} of {total}; ann {}, bob {}", found["actors"][0], found["actors"][1]);
    assert_eq!(found["actors"].as_array().unwrap().len(), 64);
    let (status, used) = ask(&gateway, "top?rule=each&by=used");
    assert_eq!((status, used["actors"].as_array().map(Vec::len)), (200, Some(64)));

    let off = start(document(&json!({}), &rules));
    assert_eq!(ask(&off, "top?rule=each").0, 404);
}

/// A host call that the filter may not make costs the numbers, and nothing else.
#[test]
fn without_leave_to_read_metrics_requests_are_limited_as_before() {
    if Shell::of_run() == Shell::Native {
        return;
    }
    let module = std::fs::read(filter::filter().unwrap()).unwrap();
    let names = [module::export_names(&module).unwrap(), module::import_names(&module).unwrap()].concat();
    let capabilities = names.into_iter().filter(|name| name != "proxy_get_metric").collect();
    let rules = json!([{"name": "one", "algo": "W", "rpu": 1, "unit": "day"}]);
    let config = Config { capabilities, ..Config::new(document(&json!({}), &rules)) };
    let gateway = Gateway::start(config).unwrap();
    assert_eq!([(); 2].map(|()| gateway.get("/", &[]).unwrap().status), [200, 429]);
    let (status, answer) = ask(&gateway, "rates");
    assert_eq!((status, &answer["rules"]), (200, &json!([])), "{answer}");
    assert_eq!(answer["left_off"], 1);
}
