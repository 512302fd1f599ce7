//! Bytes as a document that is laid over a local one.

use diana_config::{Configuration, compile, compile_over};
use diana_document::{Value, parse};

/// The local document, with all keys that a remote document must not have.
const LOCAL: &str = r#"{"limits": [{"url": "/", "rules": [{"actor": "tenant", "rpu": 5, "unit": "day"}, {"rpu": 5, "unit": "day", "scope": "global"}]}],
    "actors": {"tenant": {"header": "x-tenant"}}, "deny": ["10.0.0.0/8", {"tenant": "mallory"}], "response": {"status": 420},
    "local": {"max_actors": 77}, "store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}},
    "remote": {"cluster": "config", "path": "/", "headers": {"authorization": "Bearer s3cret"}}}"#;

/// Keys of the local document only.
const OWN: [&str; 3] = ["local", "store", "remote"];

/// Bytes are refused with reasons, always the same, or their keys replace those of the local
/// document.
pub fn run(bytes: &[u8]) {
    let (one, other) = (compile_over(LOCAL.as_bytes(), bytes), compile_over(LOCAL.as_bytes(), bytes));
    match (one, other) {
        (Ok(one), Ok(other)) => {
            same(&one, &other);
            let local = compile(LOCAL.as_bytes()).unwrap();
            assert_eq!(format!("{:?}", one.remote), format!("{:?}", local.remote));
            assert_eq!(format!("{:?}", one.store), format!("{:?}", local.store));
            assert_eq!(one.policy.fingerprint(), local.policy.fingerprint());
            let merged = merged(bytes);
            match compile(merged.as_bytes()) {
                Ok(merged) => same(&one, &merged),
                Err(errors) => panic!("{errors:?}\n{merged}"),
            }
        }
        (Err(one), Err(other)) => {
            assert_eq!(one, other);
            let messages: Vec<String> = one.iter().map(ToString::to_string).collect();
            assert!(
                !messages.is_empty() && messages.iter().all(|why| !why.contains(char::is_control)),
                "{messages:?}"
            );
            // Whatever the bytes hold, no message depends on the secret.
            let local = LOCAL.replace("s3cret", "hidden");
            assert_eq!(compile_over(local.as_bytes(), bytes).err(), Some(one));
        }
        _ => panic!("the same document is accepted and refused"),
    }
}

fn same(one: &Configuration, other: &Configuration) {
    assert_eq!(one.response, other.response);
    assert_eq!(one.policy.footprint(), other.policy.footprint());
    let names =
        |of: &Configuration| of.policy.rules().map(|(_, rule)| rule.name().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(one), names(other));
}

/// One document with the meaning of both.
fn merged(bytes: &[u8]) -> String {
    let entries = |value: Value| match value {
        Value::Object(entries) => entries,
        value => vec![("limits".into(), value)],
    };
    let is_in = |entries: &[(String, Value)], name: &str| entries.iter().any(|(key, _)| key == name);
    let over = entries(parse(bytes).unwrap());
    let is_limit = !is_in(&over, "limits") && (is_in(&over, "url") || is_in(&over, "Url"));
    let over = if is_limit { vec![("limits".into(), Value::List(vec![Value::Object(over)]))] } else { over };
    assert!(OWN.iter().all(|name| !is_in(&over, name)), "{over:?}");
    let local = entries(parse(LOCAL.as_bytes()).unwrap());
    let kept = local.into_iter().filter(|(key, _)| !is_in(&over, key));
    Value::Object(kept.chain(over.iter().cloned()).collect()).to_string()
}
