//! Secrets that are variables of the gateway's environment, in both shells.

use crate::global::{SECRET, in_redis, shared_rule};
use gateway::{Carrier, Config, Gateway, Redis};
use serde_json::{Value, json};

const QUOTA: usize = 3;
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const PASSWORD: &str = "the password of the tests";

fn config(redis: &Redis, secret: Value, options: &Value, env: &[(&str, &str)]) -> Config {
    let document = json!({
        "limits": [shared_rule("/", "quota", &json!({"algo": "W", "rpu": QUOTA, "unit": "7d", "on_error": "deny"}))],
        "store": in_redis(json!({"secret": secret})),
        "inspect": {"path": "/.diana", "token": {"env": "DIANA_TOKEN"}},
    });
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let config = Config { env, ..Config::new(document) };
    Carrier::Bridge.lead(config, redis.address(), options).unwrap()
}

/// A file of a Kubernetes Secret often ends with a line break.
#[test]
fn secrets_of_the_environment_count_like_their_texts_and_are_shown_nowhere() {
    let redis = Redis::start().unwrap();
    let mut admin = crate::global::client(&redis);
    redis::cmd("CONFIG").arg("SET").arg("requirepass").arg(PASSWORD).exec(&mut admin).unwrap();
    let password = json!({"password": {"env": "DIANA_PASSWORD"}});
    let broken = format!("{SECRET}\n");
    let env = [("DIANA_TOKEN", TOKEN), ("DIANA_PASSWORD", PASSWORD), ("DIANA_SECRET", &*broken)];
    let start = |secret| Gateway::start(config(&redis, secret, &password, &env)).unwrap();
    let (hidden, shown) = (start(json!({"env": "DIANA_SECRET"})), start(json!(SECRET)));
    let passes = |index: &usize| {
        let gateway = if index.is_multiple_of(2) { &hidden } else { &shown };
        gateway.get("/", &[("x-user-id", "ann")]).unwrap().status == 200
    };
    assert_eq!((0..4 * QUOTA).filter(passes).count(), QUOTA, "{}", hidden.logs());
    let bearer = |token: &str| hidden.get("/.diana/policy", &[("authorization", &format!("Bearer {token}"))]);
    assert_eq!(bearer(TOKEN).unwrap().status, 200);
    assert!(!bearer("DIANA_TOKEN").unwrap().text().contains("quota"), "the name is no token");
    let dump = hidden.admin().get("/config_dump?include_eds").unwrap().text();
    assert!(
        ["DIANA_SECRET", "DIANA_PASSWORD", "DIANA_TOKEN"].iter().all(|name| dump.contains(name)),
        "{dump}"
    );
    for text in [SECRET, PASSWORD, TOKEN] {
        assert!(!dump.contains(text) && !hidden.log_contains(text), "{text}");
    }
}

#[test]
fn a_variable_that_is_missing_is_refused_by_its_place() {
    let redis = Redis::start().unwrap();
    let config = config(&redis, json!({"env": "DIANA_SECRET"}), &json!({}), &[("DIANA_TOKEN", TOKEN)]);
    let error = format!("{:#}", Gateway::start(config).map(drop).unwrap_err());
    let why = "store.redis.secret: the gateway's environment has no such text";
    assert!(error.contains(why), "{error}");
}
