//! The store does not reveal actors: neither its keys nor its values do, and every key expires.

use super::{Shared, connections, shared_rule};
use serde_json::{Value, json};

const USER: &str = "ann.surname@example.org";

#[test]
fn no_key_and_no_value_in_redis_names_a_user() {
    let kinds = [
        ("TB", json!({"rpu": 50, "unit": "7d"})),
        ("TB", json!({"rpu": 50, "unit": "7d", "lease": 10})),
        ("TB", json!({"rpu": 50, "unit": "7d", "start": "empty", "burst": 60})),
        ("W", json!({"rpu": 50, "unit": "day"})),
        ("W", json!({"rpu": 50, "unit": "day", "lease": "20%"})),
        ("SW", json!({"rpu": 50, "unit": "hour"})),
        ("SL", json!({"rpu": 50, "unit": "hour"})),
        ("LB", json!({"rpu": 50, "unit": "second"})),
        ("C", json!({"rpu": 50})),
    ];
    let rule = |number: usize, (algo, keys): &(&str, Value)| {
        let mut keys = keys.clone();
        keys["algo"] = json!(algo);
        keys["actor"] = json!(["user", "ip"]);
        shared_rule(&format!("/private/{number}"), &format!("rule-{number}"), &keys)
    };
    let limits: Vec<Value> = kinds.iter().enumerate().map(|(number, kind)| rule(number, kind)).collect();
    let shared = Shared::start(&json!(limits));
    let mut all = connections(&shared.gateways, 4);
    for (number, (algo, keys)) in kinds.iter().enumerate() {
        let path = format!("/private/{number}/things");
        for turn in 0..10 {
            let index = turn % all.len();
            let answer = all[index].request("GET", &path, &[("x-user-id", USER)], b"").unwrap();
            let passes = keys["start"] != "empty";
            assert_eq!(answer.status, if passes { 200 } else { 429 }, "{algo}: {}", answer.text());
        }
    }
    let mut client = shared.client();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut client).unwrap();
    assert!(keys.len() >= kinds.len() - 1, "all but what refuses at once: {keys:?}");
    for key in &keys {
        let digits = key.strip_prefix("diana:{0}:").unwrap_or_else(|| panic!("{key}"));
        let is_hash = |letter: char| matches!(letter, '0'..='9' | 'a'..='f');
        assert!(digits.len() == 32 && digits.chars().all(is_hash), "{key}");
        let left: i64 = redis::cmd("PTTL").arg(key).query(&mut client).unwrap();
        assert!(left > 0, "{key} is kept for ever");
        let value: Vec<u8> = redis::cmd("GET").arg(key).query(&mut client).unwrap();
        let all = String::from_utf8_lossy(&value).to_lowercase();
        for secret in [USER, "ann", "surname", "example.org", "private", "things", "127.0.0.1", "rule-"] {
            assert!(!all.contains(secret), "{key} holds {all:?}");
        }
    }
    println!("{} keys, of {} bytes at the most", keys.len(), keys.iter().map(String::len).max().unwrap());
}
