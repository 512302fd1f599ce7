//! Configurations as Envoy delivers them: both forms, and refused ones.

use crate::{limits, start};
use gateway::{Config, Connection, Gateway, Plugin, Shell, Update, free_port, root, wait_until};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn yaml_in_envoys_own_file_is_the_same_document() {
    let document = limits(json!([{"name": "few", "actor": "ip", "rpu": 2, "unit": "hour", "burst": 1}]));
    let gateway = Gateway::start(Config::new(Plugin::Struct(document))).unwrap();
    assert_eq!(gateway.get("/", &[]).unwrap().status, 200);
    let refused = gateway.get("/", &[]).unwrap();
    assert_eq!((refused.status, refused.header("ratelimit-policy")), (429, Some(r#""few";q=1;w=1800"#)));
}

#[test]
fn a_wrong_update_is_refused_with_every_mistake_and_the_old_one_stays() {
    let mut gateway = start(limits(json!([{"name": "one", "rpu": 1, "unit": "hour"}])));
    assert_eq!(gateway.get("/", &[]).unwrap().status, 200);
    let wrong = json!({"limits": [
        {"url": "api", "rules": [{"rpu": -1, "unit": "secnd"}]},
        {"url": "/", "rulse": []},
    ]});
    let Update::Rejected(why) = gateway.update(wrong).unwrap() else {
        panic!("a wrong configuration was accepted");
    };
    for place in [
        "limits[0].url",
        "limits[0].rules[0].rpu",
        "limits[0].rules[0].unit",
        "limits[1]: unknown key `rulse`",
    ] {
        assert!(
            why.contains(place) || gateway.log_contains(place),
            "{place} is not reported:\n{}",
            gateway.logs()
        );
    }
    assert_eq!(gateway.get("/", &[]).unwrap().status, 429, "the old configuration has its count");
}

/// Only the native module reads secrets by SDS.
#[test]
fn the_proxy_wasm_filter_refuses_a_secret_by_sds_with_the_place() {
    let document = |rpu: u64| limits(json!([{"name": "few", "rpu": rpu, "unit": "hour"}]));
    let mut gateway = Gateway::start(Config { shell: Shell::Wasm, ..Config::new(document(1)) }).unwrap();
    assert_eq!(gateway.get("/", &[]).unwrap().status, 200);
    let mut wrong = document(2);
    wrong["store"] = json!({"redis": {"cluster": "upstream", "secret": {"sds": "diana"}}});
    assert!(matches!(gateway.update(wrong).unwrap(), Update::Rejected(_)));
    let why = "configuration refused, 1 mistake: (1) store.redis.secret: only the native module reads secrets by SDS";
    assert!(gateway.log_contains(why), "{}", gateway.logs());
    assert_eq!(gateway.get("/", &[]).unwrap().status, 429, "the old configuration has its count");
}

#[test]
fn a_gateway_does_not_start_with_a_wrong_configuration_and_says_why() {
    let error = Gateway::start(Config::new("{\"limits\": [")).map(|_| ()).unwrap_err();
    assert!(format!("{error:#}").contains("not valid JSON"), "{error:#}");
}

#[test]
fn a_new_configuration_keeps_the_counts_of_unchanged_rules() {
    let one = json!({"url": "/one", "rules": [{"name": "one", "rpu": 1, "unit": "hour"}]});
    let two = json!({"url": "/two", "rules": [{"name": "two", "actor": "ip", "rpu": 1, "unit": "hour"}]});
    let mut gateway = start(json!({"limits": [one]}));
    assert_eq!(gateway.get("/one", &[]).unwrap().status, 200);
    assert_eq!(gateway.get("/two", &[]).unwrap().status, 200);
    assert_eq!(gateway.update(json!({"limits": [two, one]})).unwrap(), Update::Accepted);
    assert_eq!(gateway.get("/one", &[]).unwrap().status, 429, "its count is kept");
    assert_eq!(gateway.get("/two", &[]).unwrap().status, 200);
    assert_eq!(gateway.get("/two", &[]).unwrap().status, 429);
}

/// Envoy's own mechanism: Envoy watches the listener's file.
#[test]
fn updates_under_load_fail_no_request_and_keep_counts() {
    let limits = |more: Value| {
        let few = json!({"url": "/few", "rules": [{"name": "few", "rpu": 3, "unit": "hour"}]});
        json!({"limits": [few, {"url": "/more", "rules": [more]}]})
    };
    let config =
        Config { concurrency: 2, ..Config::new(limits(json!({"name": "more", "rpu": 0, "unit": "hour"}))) };
    let mut gateway = Gateway::start(config).unwrap();
    let rejected =
        |gateway: &Gateway| gateway.admin().counter("listener_manager.lds.update_rejected").unwrap();
    let (address, before, stops) = (gateway.address(), rejected(&gateway), AtomicBool::new(false));
    let load = || {
        let (mut passed, mut failed, begin) = (0, 0, Instant::now());
        let goes_on = || !stops.load(Relaxed) && begin.elapsed() < Duration::from_secs(60);
        while goes_on() {
            // A listener that ends closes its connections.
            let Ok(mut connection) = Connection::open(address) else { continue };
            while let (true, Ok(answer)) = (goes_on(), connection.request("GET", "/free", &[], b"")) {
                match answer.status {
                    200 => passed += 1,
                    _ => failed += 1,
                }
            }
        }
        (passed, failed)
    };
    thread::scope(|scope| {
        let loads: Vec<_> = (0..2).map(|_| scope.spawn(load)).collect();
        for round in 1..=3 {
            assert_eq!(gateway.get("/few", &[]).unwrap().status, 200, "round {round}");
            let wrong = limits(json!({"name": "more", "rpu": "lots", "unit": "hour"}));
            let Update::Rejected(_) = gateway.update(wrong).unwrap() else {
                panic!("a wrong configuration was accepted");
            };
            assert_eq!(rejected(&gateway), before + round);
            assert!(gateway.log_contains("limits[1].rules[0].rpu"));
            let more = |gateway: &Gateway| gateway.get("/more", &[]).unwrap().status;
            assert_eq!(
                more(&gateway),
                if round == 1 { 429 } else { 200 },
                "the old configuration stays active"
            );
            let good = limits(json!({"name": "more", "rpu": 1_000 + round, "unit": "hour"}));
            assert_eq!(gateway.update(good).unwrap(), Update::Accepted);
            assert_eq!(more(&gateway), 200);
        }
        assert_eq!(gateway.get("/few", &[]).unwrap().status, 429, "its count is kept over all of them");
        stops.store(true, Relaxed);
        for load in loads {
            let (passed, failed) = load.join().unwrap();
            assert_eq!(failed, 0);
            assert!(passed > 100, "{passed}");
        }
    });
    assert_eq!(rejected(&gateway), before + 3);
}

#[test]
fn a_configuration_is_logged_once_for_all_workers() {
    let config = Config { concurrency: 2, ..Config::new(limits(json!([{"rpu": 1, "unit": "hour"}]))) };
    let gateway = Gateway::start(config).unwrap();
    let taken = || gateway.logs().matches("configuration taken").count();
    wait_until("the line in the log", Duration::from_secs(10), || (taken() > 0).then_some(())).unwrap();
    assert_eq!(gateway.get("/", &[]).unwrap().status, 200);
    assert_eq!(taken(), 1);
}

#[test]
fn envoy_yaml_works_as_its_comments_say() {
    let file = match Shell::of_run() {
        Shell::Wasm => "envoy.yaml",
        Shell::Native => "envoy-native.yaml",
    };
    let gateway = Gateway::from_file(&root().join(file), |_| free_port().unwrap()).unwrap();
    let status = |path: &str, headers: &[(&str, &str)]| gateway.get(path, headers).unwrap().status;
    assert_eq!(status("/api", &[("x-user-id", "ann"), ("x-plan", "free")]), 200);
    assert_eq!(status("/api", &[("x-user-id", "bot")]), 429);
    assert_eq!(status("/hello", &[("x-user-id", "mallory")]), 429);
    let orders = b"GET /users/42/orders HTTP/1.1\r\nhost: shop.example.com\r\n\r\n";
    let answer = gateway.raw(orders).unwrap().unwrap();
    assert_eq!(answer.status, 429, "an empty bucket has to be saved up");
    let passed =
        (0..6).filter(|_| gateway.request("POST", "/login", &[], b"").unwrap().status == 200).count();
    assert_eq!(passed, 5);
    let health = (0..50).filter(|_| status("/health", &[]) == 200).count();
    assert_eq!(health, 50);
    let stats = gateway.stats().unwrap();
    assert_eq!(stats.sum("diana_requests", &[("rule", "login"), ("result", "refused")]), 1);
}

/// The old configuration stays in use beside the new one until its last connection ends. The rule is
/// the same in both, so its count is, too.
#[test]
fn while_the_old_configuration_is_drained_both_count_together() {
    let rule = |rpu: u32| json!({"url": "/counted", "rules": [{"actor": "ip", "rpu": rpu, "unit": "hour"}]});
    let config = Config { drain: Duration::from_secs(60), ..Config::new(rule(5)) };
    let mut gateway = Gateway::start(config).unwrap();
    let status = |connection: &mut Connection, path: &str| {
        Some(connection.request("GET", path, &[], b"").ok()?.status)
    };
    let mut old = gateway.connect().unwrap();
    assert_eq!(status(&mut old, "/counted"), Some(200));
    assert_eq!(gateway.update_beside(rule(6)).unwrap(), Update::Accepted);
    // The old listener resets connections that it has not accepted before its end.
    let connect = || {
        let mut new = gateway.connect().ok()?;
        status(&mut new, "/free").map(|_| new)
    };
    let mut new = wait_until("a connection to the new listener", Duration::from_secs(10), connect).unwrap();
    let (mut old_passed, mut new_passed) = (1, 0);
    for _ in 0..20 {
        old_passed += u32::from(status(&mut old, "/counted") == Some(200));
        new_passed += u32::from(status(&mut new, "/counted") == Some(200));
    }
    assert_eq!(old_passed + new_passed, 6, "{old_passed} by the old one, {new_passed} by the new one");
    assert_eq!(gateway.stats().unwrap().sum("diana_foreign_values", &[]), 0);
}
