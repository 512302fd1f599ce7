//! The objects of a document, each within a whole document, and what the filter's reader says to
//! changes of an object.

use diana_config::keys::{Definition, Key, Shape, definitions};
use diana_config::{Configuration, Secret, Source};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// An object of a definition within a document: `@` stands for the object.
pub struct Place {
    pub definition: &'static str,
    pub document: String,
    pub object: Value,
}

pub fn place(definition: &'static str, document: &str, object: Value) -> Place {
    Place { definition, document: document.into(), object }
}

const LIMIT: &str = r#"{"url": "/{a}", "exclusive": true"#;
const STORE: &str = r#""store": {"redis": {"cluster": "redis", "secret": "0123456789abcdef"}}"#;

/// The largest number of units.
const LARGEST: u64 = 999_999_999_999_999;

pub fn places() -> Vec<Place> {
    let of_rule = |key: &str| {
        format!(r#"{{"limits": [{LIMIT}, "rules": [{{"rpu": 1000000000, "unit": "second", {key}}}]}}]}}"#)
    };
    let of_window = |key: &str| {
        let rule = format!(r#"{{"algo": "W", "rpu": 999999999999999, "unit": "second", {key}}}"#);
        format!(r#"{{"limits": [{LIMIT}, "rules": [{rule}]}}]}}"#)
    };
    let mut places = vec![
        place("document", "@", json!({"limits": []})),
        place("actor", r#"{"limits": [], "actors": {"a": @}}"#, json!({"header": "x-a"})),
        place("actor_ip", r#"{"limits": [], "actors": {"a": {"ip": @}}}"#, json!({})),
        place(
            "fingerprint",
            r#"{"limits": [], "actors": {"a": {"fingerprint": [@]}}}"#,
            json!({"request_json": "/params"}),
        ),
        place(
            "plan_members",
            r#"{"limits": [], "plan": @}"#,
            json!({"actor": "user", "members": {"gold": ["a"]}}),
        ),
        place("plan_first", r#"{"limits": [], "plan": @}"#, json!({"jwt": "roles", "first": ["gold"]})),
        place("plan_first", r#"{"limits": [], "plan": @}"#, json!({"property": "roles", "first": ["gold"]})),
        place("ip", r#"{"limits": [], "ip": @}"#, json!({})),
        place("deny_members", r#"{"limits": [], "deny": @}"#, json!({"members": [], "response": {}})),
        place("response", r#"{"limits": [], "response": @}"#, json!({})),
        place("response", r#"{"limits": [], "response": @}"#, json!({"body": "no"})),
        place("json_rpc", r#"{"limits": [], "response": {"json_rpc": @}}"#, json!({})),
        place("own_response", &format!(r#"{{"limits": [{LIMIT}, "response": @}}]}}"#), json!({})),
        place("access_log", r#"{"limits": [], "access_log": @}"#, json!({})),
        place(
            "access_log",
            r#"{"limits": [], "access_log": @}"#,
            json!({"actor": "hash", "secret": "0123456789abcdef"}),
        ),
        place("local", r#"{"limits": [], "local": @}"#, json!({})),
        place("limit", r#"{"limits": [@]}"#, json!({"url": "/", "rules": [{"rpu": 1, "unit": "second"}]})),
        place(
            "condition",
            &format!(r#"{{"limits": [{LIMIT}, "headers": {{"x-a": @}}}}]}}"#),
            json!({"present": true}),
        ),
        place(
            "condition",
            &format!(r#"{{"limits": [{LIMIT}, "headers": {{"x-a": @}}}}]}}"#),
            json!({"not": "a"}),
        ),
        place("not", &format!(r#"{{"limits": [{LIMIT}, "hosts": @}}]}}"#), json!({"not": "a.example"})),
        place("not", &format!(r#"{{"limits": [{LIMIT}, "methods": @}}]}}"#), json!({"not": ["GET"]})),
        place(
            "value",
            &format!(r#"{{"limits": [{LIMIT}, "headers": {{"x-a": {{"not": @}}}}}}]}}"#),
            json!({"prefix": "a"}),
        ),
        place("body_size", &format!(r#"{{"limits": [{LIMIT}, "body_size": @}}]}}"#), json!({})),
        place("body_size", &format!(r#"{{"limits": [{LIMIT}, "body_size": @}}]}}"#), json!({"min": 1})),
        place(
            "actor_segment",
            &format!(r#"{{"limits": [{LIMIT}, "rules": [{{"rpu": 1, "unit": "second", "actor": @}}]}}]}}"#),
            json!({"segment": "a"}),
        ),
        place("missing", &of_rule(r#""actor": "user", "missing": @"#), json!({"action": "deny"})),
        place("statuses", &of_rule(r#""charge": @"#), json!({"status": 401})),
        place("cost_header", &of_window(r#""cost": @"#), json!({"header": "x-c", "max": LARGEST})),
        place("cost_header", &of_window(r#""cost": @"#), json!({"header": "x-c", "max": LARGEST, "min": 0})),
        place("cost_header", &of_window(r#""cost": @"#), json!({"request_json": "/c", "max": LARGEST})),
        place("request_body", r#"{"limits": [], "request_body": @}"#, json!({})),
        place(
            "cost_response",
            &of_window(r#""cost": @"#),
            json!({"response_header": "x-c", "estimate": 1, "default": 1}),
        ),
        place(
            "cost_response",
            &of_window(r#""cost": @"#),
            json!({"response_json": "/c", "estimate": 1, "default": 1}),
        ),
        place(
            "cost_response",
            &of_window(r#""cost": @"#),
            json!({"sum": [{"response_json": "/c"}], "estimate": 1, "default": 1}),
        ),
        place(
            "cost_estimate",
            &of_window(r#""cost": {"response_json": "/c", "estimate": @}"#),
            json!({"input": {"request_bytes": true}, "output": {"learned": "p95"}}),
        ),
        place(
            "estimate_input",
            &of_window(r#""cost": {"response_json": "/c", "estimate": {"input": @}}"#),
            json!({"request_bytes": true, "per": 4}),
        ),
        place(
            "estimate_output",
            &of_window(r#""cost": {"response_json": "/c", "estimate": {"output": @}}"#),
            json!({"request_json": "/m", "else": 0, "max": LARGEST}),
        ),
        place(
            "estimate_learned",
            &of_window(
                r#""cost": {"response_json": "/c", "estimate": {"output": {"request_json": "/m", "else": @}}}"#,
            ),
            json!({"learned": "p95"}),
        ),
        place(
            "cost_term",
            &of_window(r#""cost": {"sum": [@, {"response_json": "/other"}], "estimate": 1}"#),
            json!({"response_json": "/c", "weight": 2}),
        ),
        place(
            "cost_by",
            &of_window(r#""cost": {"response_json": "/c", "estimate": 1, "by": @}"#),
            json!({"header": "x-model", "values": {"small": 0.2}, "default": 1}),
        ),
        place(
            "rpu",
            r#"{"limits": [{"url": "/", "rules": [{"algo": "W", "unit": "second", "rpu": @}]}]}"#,
            json!({"jwt": "a", "default": 1, "max": LARGEST}),
        ),
        place(
            "anchor",
            r#"{"limits": [{"url": "/", "rules": [{"algo": "W", "rpu": 1, "unit": "month", "anchor": @}]}]}"#,
            json!({"day": 1, "hour": 5}),
        ),
        place(
            "anchor",
            r#"{"limits": [{"url": "/", "rules": [{"algo": "W", "rpu": 1, "unit": "week", "anchor": @}]}]}"#,
            json!({"weekday": "friday", "hour": 5}),
        ),
        place(
            "anchor",
            r#"{"limits": [{"url": "/", "rules": [{"algo": "W", "rpu": 1, "unit": "year", "anchor": @}]}]}"#,
            json!({"month": 2, "hour": 5}),
        ),
        place(
            "anchor_day",
            r#"{"limits": [{"url": "/", "rules": [{"algo": "W", "rpu": 1, "unit": "month", "anchor": {"day": @}}]}]}"#,
            json!({"jwt": "a", "default": 1}),
        ),
        place("penalty", &of_rule(r#""penalty": @"#), json!({"after": 1, "for": "1s"})),
        place(
            "over",
            &of_rule(r#""over": @"#),
            json!({"at": "80%", "admit": true, "request_header": {"x-a": "b"}}),
        ),
        place(
            "adapt",
            r#"{"url": "/", "rules": [{"rpu": 10, "unit": "second", "adapt": @}]}"#,
            json!({"signal": "latency_p90", "target": "1s"}),
        ),
        place(
            "store",
            r#"{"limits": [], "store": @}"#,
            json!({"redis": {"cluster": "a", "secret": "0123456789abcdef"}}),
        ),
        place(
            "redis",
            r#"{"limits": [], "store": {"redis": @}}"#,
            json!({"cluster": "a", "secret": "0123456789abcdef"}),
        ),
        place(
            "redis",
            r#"{"limits": [], "store": {"redis": @}}"#,
            json!({"clusters": ["a"], "secret": "0123456789abcdef"}),
        ),
        place(
            "secret",
            r#"{"limits": [], "store": {"redis": {"cluster": "a", "secret": @}}}"#,
            json!({"sds": "a"}),
        ),
        place(
            "sds",
            r#"{"limits": [], "store": {"redis": {"cluster": "a", "secret": {"sds": @}}}}"#,
            json!({"name": "a", "sds_config": {}}),
        ),
        place("remote", r#"{"limits": [], "remote": @}"#, json!({"cluster": "a", "path": "/"})),
        place(
            "inspect",
            r#"{"limits": [], "inspect": @}"#,
            json!({"path": "/.diana", "token": "0123456789abcdef0123456789abcdef"}),
        ),
        place(
            "inspect",
            r#"{"limits": [], "inspect": @}"#,
            json!({"path": "/.diana", "tokens": {"ann": "0123456789abcdef0123456789abcdef"}}),
        ),
        place(
            "inspect_token",
            r#"{"limits": [], "inspect": {"path": "/.diana", "tokens": {"ann": @}}}"#,
            json!({"token": "0123456789abcdef0123456789abcdef"}),
        ),
        place(
            "top",
            r#"{"limits": [], "inspect": {"path": "/.diana", "token": "0123456789abcdef0123456789abcdef", "top": @}}"#,
            json!({"claim": "sub"}),
        ),
        place("tickets", r#"{"limits": [], "tickets": @}"#, json!({"secret": "0123456789abcdef"})),
    ];
    for kind in diana_config::algorithm::KINDS {
        let base = match kind.per_unit {
            true => json!({"rpu": 9, "unit": "second", "actor": "user", "algo": kind.short}),
            false => json!({"rpu": 9, "actor": "user", "algo": kind.short}),
        };
        let with = |key: &str, value: Value| {
            let mut rule = base.clone();
            rule[key] = value;
            rule
        };
        let document =
            format!(r#"{{"limits": [{LIMIT}, "rules": [@]}}], "plan": {{"header": "x-p"}}, {STORE}}}"#);
        let mut rules = vec![base.clone(), with("scope", json!("global")), with("mode", json!("shadow"))];
        // Only these can correct a charge when the request ends.
        rules.extend(matches!(kind.short, "TB" | "W" | "SW").then(|| with("charge", json!({"status": 401}))));
        rules.extend((kind.short == "W").then(|| with("unit", json!("month"))));
        for rule in rules {
            let text = rule.to_string();
            let text = text.strip_suffix('}').unwrap();
            for (key, value) in [("overrides", json!({})), ("plans", json!({}))] {
                let document = document.replace('@', &format!(r#"{text}, "{key}": {{"a": @}}}}"#));
                places.push(place("quota", &document, value));
            }
            places.push(place("rule", &document, rule));
        }
    }
    // Without `algo`, which then has its default.
    let document = format!(r#"{{"limits": [{LIMIT}, "rules": [@]}}]}}"#);
    places.push(place("rule", &document, json!({"rpu": 9, "unit": "second", "actor": "user"})));
    places.push(place("rule", &document, json!({"rpu": 9, "unit": "second"})));
    places
}

impl Place {
    pub fn compile(&self, object: &Value) -> Result<Configuration, Vec<String>> {
        let document = self.document.replacen('@', &object.to_string(), 1);
        let secret = Secret::Known("a secret of sixteen bytes".into());
        let mistakes =
            |errors: Vec<diana_document::Error>| errors.into_iter().map(|error| error.why).collect();
        Source::new(document.as_bytes(), &secret).compile().map_err(mistakes)
    }

    pub fn with(&self, key: &str, value: Value) -> Value {
        let mut object = self.object.clone();
        object[key] = value;
        object
    }

    /// The mistakes with this value at a key; none if the value is accepted.
    pub fn mistakes(&self, key: &str, value: Value) -> Vec<String> {
        self.compile(&self.with(key, value)).err().unwrap_or_default()
    }

    /// The keys that the reader names for an unknown one.
    pub fn known(&self) -> BTreeSet<String> {
        let mistakes = self.mistakes(UNKNOWN, json!(1));
        expected(&mistakes).unwrap_or_else(|| panic!("{}: {mistakes:?}", self.document))
    }
}

/// A key that no object has, and that is no misspelling of one.
pub const UNKNOWN: &str = "zzzzzzzzzz";

/// The keys that a mistake about the unknown key names. None if no object has the key.
pub fn expected(mistakes: &[String]) -> Option<BTreeSet<String>> {
    let hint = mistakes.iter().find_map(|why| why.strip_prefix("unknown key `zzzzzzzzzz`, "))?;
    let words = hint.strip_prefix("expected ").unwrap_or_default();
    let words = words.split(", ").flat_map(|words| words.split(" or ")).filter(|word| !word.is_empty());
    Some(words.map(str::to_owned).collect())
}

pub fn keys(shape: &Shape) -> Vec<Key> {
    shape.object().into_iter().flat_map(|object| object.keys()).collect()
}

/// Every definition with keys, its keys, and its places.
pub fn each(mut check: impl FnMut(&'static str, Vec<Key>, Vec<&Place>)) {
    let places = places();
    for Definition { name, shape } in definitions() {
        let keys = keys(&shape);
        if !keys.is_empty() {
            let own: Vec<&Place> = places.iter().filter(|place| place.definition == name).collect();
            assert!(!own.is_empty(), "`{name}` has no place to probe");
            check(name, keys, own);
        }
    }
}

/// The shapes of single values.
pub fn leaves(shape: &Shape) -> Vec<Shape> {
    match shape {
        Shape::Any(shapes) => shapes.iter().flat_map(leaves).collect(),
        Shape::OneOrMany(item, _) | Shape::List(item, ..) => leaves(item),
        leaf => vec![*leaf],
    }
}
