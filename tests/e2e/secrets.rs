//! The store's secret by Envoy's secret discovery service, which only the native module reads, in
//! Envoy 1.40 or later.

use crate::global::{PATIENCE, SECRET, client, in_redis, shared_rule};
use gateway::{Carrier, Config, Gateway, Redis, Shell, per_filter_config, target, wait_until};
use redis::Commands;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

const QUOTA: usize = 3;
const OTHER: &str = "another secret of the tests";
/// A request has come before the secret.
const MISSING: &str = "the store's secret `diana` has not arrived";

/// A store, and documents of gateways that count in it.
struct Store {
    redis: Redis,
}

impl Store {
    fn start() -> Store {
        Store { redis: Redis::start().unwrap() }
    }

    /// A gateway whose document has this `secret`, and whose bootstrap has these secrets.
    fn config(&self, secret: Value, secrets: Vec<Value>) -> Config {
        let document = json!({
            "limits": [shared_rule("/", "quota", &json!({"algo": "W", "rpu": QUOTA, "unit": "7d", "on_error": "deny"}))],
            "store": in_redis(json!({"secret": secret})),
        });
        let config = Config { shell: Shell::Native, balanced: true, secrets, ..Config::new(document) };
        Carrier::Bridge.lead(config, self.redis.address(), &json!({})).unwrap()
    }

    fn gateway(&self, secret: Value, secrets: Vec<Value>) -> Gateway {
        Gateway::start(self.config(secret, secrets)).unwrap()
    }

    /// How many counts the store has.
    fn counts(&self) -> usize {
        let keys: Vec<String> = client(&self.redis).keys("diana:*").unwrap();
        keys.iter().filter(|key| !key.ends_with(":probe")).count()
    }
}

fn secret(name: &str, value: &str) -> Value {
    json!({"name": name, "generic_secret": {"secret": {"inline_string": value}}})
}

/// A file of the secret discovery service.
struct SecretFile(PathBuf);

impl SecretFile {
    fn with(secrets: &[Value]) -> SecretFile {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("secrets-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = target().join("gateway").join(name);
        fs::create_dir_all(&folder).unwrap();
        let file = SecretFile(folder);
        file.write(secrets);
        file
    }

    /// Replaces the file in one step, as Envoy's watcher wants it.
    fn write(&self, secrets: &[Value]) {
        let resource = |secret: &Value| {
            let mut resource = secret.clone();
            resource["@type"] = json!("type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret");
            resource
        };
        let resources: Vec<Value> = secrets.iter().map(resource).collect();
        fs::write(self.0.join("new"), json!({"resources": resources}).to_string()).unwrap();
        fs::rename(self.0.join("new"), self.0.join("sds.json")).unwrap();
    }

    /// What a document says as `secret`.
    fn source(&self, name: &str) -> Value {
        let path = json!({"path": self.0.join("sds.json"), "watched_directory": {"path": self.0}});
        let config = json!({"resource_api_version": "V3", "path_config_source": path});
        json!({"sds": {"name": name, "sds_config": config}})
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn status(gateway: &Gateway, path: &str, user: &str) -> u16 {
    gateway.get(path, &[("x-user-id", user)]).unwrap().status
}

fn passed(gateways: &[&Gateway], user: &str) -> usize {
    let of_each = |gateway: &&Gateway| (0..2 * QUOTA).filter(|_| status(gateway, "/", user) == 200).count();
    gateways.iter().map(of_each).sum()
}

fn dump(gateway: &Gateway) -> String {
    gateway.admin().get("/config_dump?include_eds").unwrap().text()
}

#[test]
fn a_secret_of_the_bootstrap_counts_like_the_same_text_and_is_shown_nowhere() {
    let store = Store::start();
    let hidden = store.gateway(json!({"sds": "diana"}), vec![secret("diana", SECRET)]);
    let shown = store.gateway(json!(SECRET), Vec::new());
    assert_eq!(passed(&[&hidden, &shown], "ann"), QUOTA, "{}", hidden.logs());
    assert_eq!(passed(&[&shown, &hidden], "bob"), QUOTA);
    assert_eq!(store.counts(), 2);
    assert!(dump(&shown).contains(SECRET), "a text is shown");
    let dump = dump(&hidden);
    // The document is a text in JSON.
    assert!(dump.contains(r#"\"sds\":\"diana\""#) && !dump.contains(SECRET), "{dump}");
    assert!(!hidden.log_contains(SECRET) && hidden.log_contains("fingerprint of its secret"));
    assert!(!hidden.log_contains(MISSING), "no request came before the secret");
}

#[test]
fn another_secret_takes_effect_without_an_update_of_the_listener() {
    let (store, file) = (Store::start(), SecretFile::with(&[secret("diana", SECRET)]));
    let mut config = store.config(file.source("diana"), Vec::new());
    let rule =
        shared_rule("/", "quota", &json!({"algo": "W", "rpu": QUOTA, "unit": "7d", "on_error": "deny"}));
    config.routes = vec![json!({
        "match": {"prefix": "/route"},
        "route": {"cluster": "upstream"},
        "typed_per_filter_config": per_filter_config(json!({"limits": [rule]})),
    })];
    let gateway = Gateway::start(config).unwrap();
    let shown = store.gateway(json!(SECRET), Vec::new());
    assert_eq!(passed(&[&shown, &gateway], "ann"), QUOTA, "{}", gateway.logs());
    assert_eq!(
        (status(&gateway, "/route", "ann"), store.counts()),
        (429, 1),
        "the same rule, the same count"
    );

    file.write(&[secret("diana", &format!("{OTHER}\n"))]);
    wait_until("the other secret", PATIENCE, || (status(&gateway, "/", "ann") == 200).then_some(())).unwrap();
    let other = store.gateway(json!(OTHER), Vec::new());
    // The request that was admitted counts.
    wait_until("all workers", PATIENCE, || (status(&gateway, "/", "ann") == 429).then_some(())).unwrap();
    for path in ["/", "/route"] {
        let all_refuse = || (0..8).all(|_| status(&gateway, path, "ann") == 429);
        assert!(all_refuse(), "{path}");
    }
    assert_eq!(status(&other, "/", "ann"), 429, "both count in one place");
    assert_eq!(store.counts(), 2, "the counts under the old secret stay until they expire");

    file.write(&[secret("diana", "too short")]);
    wait_until("the refusal", PATIENCE, || {
        assert_eq!(status(&gateway, "/", "ann"), 429, "the secret before stays");
        gateway.log_contains("the store's secret `diana` is refused").then_some(())
    })
    .unwrap();
    assert_eq!(passed(&[&gateway, &other], "bob"), QUOTA);
    assert_eq!(gateway.logs().matches("is refused").count(), 1, "{}", gateway.logs());
    assert!(!gateway.log_contains(MISSING), "the listener waited for the secret");
    for text in [SECRET, OTHER, "too short"] {
        assert!(!gateway.log_contains(text) && !dump(&gateway).contains(text), "{text}");
    }
    assert_eq!(gateway.stats().unwrap().sum("diana_panics", &[]), 0);
}

#[test]
fn until_the_secret_arrives_the_store_counts_as_down() {
    let (store, file) = (Store::start(), SecretFile::with(&[]));
    let gateway = store.gateway(file.source("diana"), Vec::new());
    assert_eq!(status(&gateway, "/", "ann"), 503, "`on_error: deny`");
    assert_eq!(store.counts(), 0);
    // The log is read by another thread of the test.
    wait_until("the line in the log", PATIENCE, || gateway.log_contains(MISSING).then_some(())).unwrap();
    assert!(gateway.counted("rule.quota.degraded").unwrap() > 0);
    file.write(&[secret("diana", SECRET)]);
    wait_until("the secret", PATIENCE, || (status(&gateway, "/", "ann") == 200).then_some(())).unwrap();
    let shown = store.gateway(json!(SECRET), Vec::new());
    assert_eq!(passed(&[&gateway, &shown], "bob"), QUOTA);
    assert_eq!(gateway.logs().matches(MISSING).count(), 1);
}

#[test]
fn a_secret_that_nobody_has_is_refused_by_name() {
    let store = Store::start();
    let error = Gateway::start(store.config(json!({"sds": "diana"}), vec![secret("other", SECRET)]));
    let error = format!("{:#}", error.map(drop).unwrap_err());
    assert!(error.contains("Envoy has no secret `diana`"), "{error}");
    let error = Gateway::start(store.config(json!({"sds": "diana"}), vec![secret("diana", "short")]));
    assert!(error.is_ok(), "it counts as absent, as a secret that arrives later would");
}
