//! A remote document laid over a local one: absent keys stay, and keys that do not fit together are
//! refused with the reason and the place.

use serde_json::{Value, json};

/// The mistakes in `over` laid over `base`, which is valid alone.
fn mistakes(base: &Value, over: &Value) -> Vec<String> {
    assert!(diana_config::compile(base.to_string().as_bytes()).is_ok(), "{base}");
    match diana_config::compile_over(base.to_string().as_bytes(), over.to_string().as_bytes()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

fn base() -> Value {
    json!({
        "limits": [{"url": "/", "rules": [{"name": "per-plan", "actor": "plan", "rpu": 10, "unit": "hour"}]}],
        "actors": {"plan": {"header": "x-plan"}, "team": {"header": "x-team"}},
        "deny": [{"team": "mallory"}],
    })
}

#[test]
fn each_remote_key_replaces_the_local_one() {
    let actors = json!({"plan": {"query": "plan"}, "team": {"query": "team"}});
    for over in [
        json!({"actors": actors}),
        json!({"limits": []}),
        json!({"deny": []}),
        json!({"mode": "shadow"}),
        json!({"url": "/", "rules": [{"actor": "team", "rpu": 1, "unit": "hour"}]}),
        json!([{"url": "/", "rules": [{"actor": "plan", "rpu": 1, "unit": "hour"}]}]),
    ] {
        assert_eq!(mistakes(&base(), &over), [""; 0], "{over}");
    }
    let policy =
        diana_config::compile_over(base().to_string().as_bytes(), br#"{"limits": []}"#).unwrap().policy;
    assert_eq!(policy.rules().count(), 0);
    let policy =
        diana_config::compile_over(base().to_string().as_bytes(), br#"{"deny": []}"#).unwrap().policy;
    assert_eq!(policy.rules().count(), 1);
}

/// A deny list that lost an entry would admit a client whom it denies.
#[test]
fn a_local_key_without_the_key_that_it_needs_is_reported() {
    let without = |name: &str| {
        let mut actors = base()["actors"].clone();
        actors.as_object_mut().unwrap().remove(name);
        mistakes(&base(), &json!({"actors": actors}))
    };
    for (name, place) in [("plan", "limits[0].rules[0].actor"), ("team", "deny[0]")] {
        let found = without(name);
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("the local document's {place}")),
            "{name}: {found:?}"
        );
    }
}

#[test]
fn local_only_keys_in_a_remote_document_are_refused() {
    let store = json!({"redis": {"cluster": "redis", "secret": "0123456789abcdef"}});
    for (key, value) in [
        ("remote", json!({"cluster": "elsewhere", "path": "/"})),
        ("store", store),
        ("local", json!({"max_actors": 1})),
    ] {
        let found = mistakes(&base(), &json!({"limits": [], key: value}));
        assert!(found.len() == 1 && found[0].starts_with(&format!("{key}: ")), "{found:?}");
    }
}
