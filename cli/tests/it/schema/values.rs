//! Asks the filter's reader what it accepts at each place, and compares the answers with the
//! schema: a wrong key or value gets an error that names all keys, the range, or the choices.

use diana_cli::schema::definitions;
use diana_cli::schema::shape::{Key, Shape};
use diana_config::{Configuration, Secret, Source};
use diana_document::one_of;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// An object of a definition within a document: `@` stands for the object.
struct Place {
    definition: &'static str,
    document: String,
    object: Value,
}

fn place(definition: &'static str, document: &str, object: Value) -> Place {
    Place { definition, document: document.into(), object }
}

const LIMIT: &str = r#"{"url": "/{a}", "exclusive": true"#;
const STORE: &str = r#""store": {"redis": {"cluster": "redis", "secret": "0123456789abcdef"}}"#;

fn places() -> Vec<Place> {
    let of_rule = |key: &str| {
        format!(r#"{{"limits": [{LIMIT}, "rules": [{{"rpu": 1000000000, "unit": "second", {key}}}]}}]}}"#)
    };
    let mut places = vec![
        place("document", "@", json!({"limits": []})),
        place("actor", r#"{"limits": [], "actors": {"a": @}}"#, json!({"header": "x-a"})),
        place("actor_ip", r#"{"limits": [], "actors": {"a": {"ip": @}}}"#, json!({})),
        place(
            "plan_members",
            r#"{"limits": [], "plan": @}"#,
            json!({"actor": "user", "members": {"gold": ["a"]}}),
        ),
        place("ip", r#"{"limits": [], "ip": @}"#, json!({})),
        place("deny_members", r#"{"limits": [], "deny": @}"#, json!({"members": [], "response": {}})),
        place("response", r#"{"limits": [], "response": @}"#, json!({})),
        place("response", r#"{"limits": [], "response": @}"#, json!({"body": "no"})),
        place("own_response", &format!(r#"{{"limits": [{LIMIT}, "response": @}}]}}"#), json!({})),
        place("local", r#"{"limits": [], "local": @}"#, json!({})),
        place("limit", r#"{"limits": [@]}"#, json!({"url": "/", "rules": [{"rpu": 1, "unit": "second"}]})),
        place(
            "condition",
            &format!(r#"{{"limits": [{LIMIT}, "headers": {{"x-a": @}}}}]}}"#),
            json!({"present": true}),
        ),
        place("body_size", &format!(r#"{{"limits": [{LIMIT}, "body_size": @}}]}}"#), json!({})),
        place("body_size", &format!(r#"{{"limits": [{LIMIT}, "body_size": @}}]}}"#), json!({"min": 1})),
        place("missing", &of_rule(r#""actor": "user", "missing": @"#), json!({"action": "deny"})),
        place("statuses", &of_rule(r#""charge": @"#), json!({"status": 401})),
        place("cost_header", &of_rule(r#""cost": @"#), json!({"header": "x-c", "max": 1_000_000_000})),
        place(
            "cost_header",
            &of_rule(r#""cost": @"#),
            json!({"header": "x-c", "max": 1_000_000_000, "min": 0}),
        ),
        place("cost_response", &of_rule(r#""cost": @"#), json!({"response_header": "x-c"})),
        place("cost_response", &of_rule(r#""cost": @"#), json!({"response_json": "/c"})),
        place("penalty", &of_rule(r#""penalty": @"#), json!({"after": 1, "for": "1s"})),
        place(
            "adapt",
            r#"{"url": "/", "rules": [{"rpu": 10, "unit": "second", "adapt": @}]}"#,
            json!({"signal": "latency_p90", "target": "1s"}),
        ),
        place("priority", &of_rule(r#""priority": @"#), json!({"reserve": 1})),
        place(
            "store",
            r#"{"limits": [], "store": @}"#,
            json!({"rls": {"cluster": "a", "secret": "0123456789abcdef"}}),
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
            "rls",
            r#"{"limits": [], "store": {"rls": @}}"#,
            json!({"cluster": "a", "secret": "0123456789abcdef"}),
        ),
        place(
            "secret",
            r#"{"limits": [], "store": {"rls": {"cluster": "a", "secret": @}}}"#,
            json!({"sds": "a"}),
        ),
        place("remote", r#"{"limits": [], "remote": @}"#, json!({"cluster": "a", "path": "/"})),
        place("canary", r#"{"limits": [], "remote": {"cluster": "a", "path": "/", "canary": @}}"#, json!({})),
    ];
    for kind in diana_limiter::algorithm::KINDS {
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
    fn compile(&self, object: &Value) -> Result<Configuration, Vec<String>> {
        let document = self.document.replacen('@', &object.to_string(), 1);
        let secret = Secret::Known("a secret of sixteen bytes".into());
        let mistakes =
            |errors: Vec<diana_document::Error>| errors.into_iter().map(|error| error.why).collect();
        Source::new(document.as_bytes(), &secret).compile().map_err(mistakes)
    }

    fn with(&self, key: &str, value: Value) -> Value {
        let mut object = self.object.clone();
        object[key] = value;
        object
    }

    /// The mistakes with this value at a key; none if the value is accepted.
    fn mistakes(&self, key: &str, value: Value) -> Vec<String> {
        self.compile(&self.with(key, value)).err().unwrap_or_default()
    }

    /// The keys that the reader names for an unknown one.
    fn known(&self) -> BTreeSet<String> {
        let mistakes = self.mistakes("zzzzzzzzzz", json!(1));
        let expected =
            mistakes.iter().find_map(|why| why.strip_prefix("unknown key `zzzzzzzzzz`, expected "));
        let expected = expected.unwrap_or_else(|| panic!("{}: {mistakes:?}", self.document));
        expected.split(", ").flat_map(|words| words.split(" or ")).map(str::to_owned).collect()
    }
}

fn keys(shape: &Shape) -> Vec<Key> {
    match shape {
        Shape::Object(object) => object.keys.clone(),
        // Of several objects, each has a definition of its own.
        Shape::Any(shapes) => shapes.iter().flat_map(keys).collect(),
        _ => Vec::new(),
    }
}

/// Every definition with keys, its keys, and its places.
fn each(mut check: impl FnMut(&str, Vec<Key>, Vec<&Place>)) {
    let places = places();
    for (name, shape) in definitions() {
        let keys = keys(&shape);
        if !keys.is_empty() {
            let own: Vec<&Place> = places.iter().filter(|place| place.definition == name).collect();
            assert!(!own.is_empty(), "`{name}` has no place to probe");
            check(name, keys, own);
        }
    }
}

#[test]
fn every_place_is_accepted_as_it_stands() {
    for place in places() {
        // A range of no size, and a quota that changes nothing, are mistakes of their own.
        let result = place.compile(&place.object);
        let is_incomplete = place.definition == "body_size" && place.object == json!({});
        assert!(result.is_ok() || is_incomplete, "{} {}: {:?}", place.document, place.object, result.err());
    }
}

#[test]
fn the_keys_are_those_that_the_reader_names() {
    each(|name, keys, places| {
        let known: BTreeSet<String> = places.iter().flat_map(|place| place.known()).collect();
        // No error offers `Url`, a spelling for old documents.
        let keys: BTreeSet<String> =
            keys.iter().map(|key| key.name.to_owned()).filter(|key| key != "Url").collect();
        assert_eq!(keys, known, "{name}");
    });
}

#[test]
fn required_keys_are_those_that_the_reader_misses() {
    each(|name, keys, places| {
        // Of `url` and `Url`, one is required.
        for key in keys.into_iter().filter(|key| key.name != "url") {
            let is_missed = |place: &&Place| {
                let mut object = place.object.clone();
                object.as_object_mut().unwrap().remove(key.name);
                let mistakes = place.compile(&object).err().unwrap_or_default();
                mistakes.contains(&format!("`{}` is missing", key.name))
            };
            let (missed, places) = (places.iter().filter(|place| is_missed(place)).count(), places.len());
            assert_eq!(key.is_required, missed == places, "{name}.{}: {missed} of {places}", key.name);
        }
    });
}

fn leaves(shape: &Shape) -> Vec<Shape> {
    match shape {
        Shape::Any(shapes) => shapes.iter().flat_map(leaves).collect(),
        Shape::OneOrMany(item, _) | Shape::List(item, ..) => leaves(item),
        leaf => vec![leaf.clone()],
    }
}

#[test]
fn ranges_and_choices_are_those_that_the_reader_names() {
    let mut probed = 0;
    each(|name, keys, places| {
        for key in &keys {
            for leaf in leaves(&key.shape) {
                // A wrong value, and words of the error.
                let (wrong, expected) = match &leaf {
                    Shape::Whole(min, max) | Shape::Size(min, max) if min < max => {
                        (json!(max + 1), vec![format!("from {min} to {max}")])
                    }
                    Shape::Span(min, max) => {
                        let beyond = max.as_ns() / 1_000_000 + 1;
                        (json!(format!("{beyond}ms")), vec![format!("from {min} to {max}")])
                    }
                    // The range depends on the signal.
                    Shape::Percent(..) if key.name == "target" => continue,
                    Shape::Percent(min, max) => (json!("1001%"), vec![format!("from `{min}%` to `{max}%`")]),
                    Shape::Choice(words) if matches!(key.name, "algo" | "unit") => {
                        (json!("zzzzzzzzzz"), words.iter().map(|word| (*word).to_owned()).collect())
                    }
                    Shape::Choice(words) if key.name == "cost" => {
                        (json!("zzzzzzzzzz"), vec![format!("expected {}", one_of(words))])
                    }
                    Shape::Choice(words) => {
                        (json!("zzzzzzzzzz"), vec![format!("expected {}", one_of(words))])
                    }
                    Shape::Flag => (json!("zzzzzzzzzz"), vec!["true or false".into()]),
                    _ => continue,
                };
                let ends = |why: &String| match leaf {
                    Shape::Choice(_) if !matches!(key.name, "algo" | "unit") => {
                        expected.iter().all(|words| why.ends_with(words))
                    }
                    _ => expected.iter().all(|words| why.contains(words)),
                };
                let answers: Vec<String> =
                    places.iter().flat_map(|place| place.mistakes(key.name, wrong.clone())).collect();
                assert!(answers.iter().any(ends), "{name}.{}: {expected:?} is not in {answers:#?}", key.name);
                probed += 1;
            }
        }
    });
    assert!(probed > 70, "{probed}");
}

#[test]
fn both_ends_of_each_range_are_accepted() {
    let mut probed = 0;
    each(|name, keys, places| {
        for key in &keys {
            for leaf in leaves(&key.shape) {
                let ends = match leaf {
                    Shape::Whole(min, max) | Shape::Size(min, max) => vec![json!(min), json!(max)],
                    Shape::Span(min, max) => {
                        [min, max].map(|end| json!(format!("{}ms", end.as_ns() / 1_000_000))).to_vec()
                    }
                    Shape::Percent(min, max) if key.name != "target" => {
                        [min, max].map(|end| json!(format!("{end}%"))).to_vec()
                    }
                    Shape::Choice(words) => words.into_iter().map(|word| json!(word)).collect(),
                    Shape::Flag => vec![json!(true), json!(false)],
                    Shape::Only(flag) => vec![json!(flag)],
                    _ => continue,
                };
                for end in ends {
                    // Other keys may exclude an end, but the reader does not call the value wrong.
                    let is_wrong = |why: &String| {
                        why.contains("expected a whole number")
                            || why.contains("expected a span")
                            || why.contains("unknown ")
                    };
                    let is_fine =
                        |place: &&Place| !place.mistakes(key.name, end.clone()).iter().any(is_wrong);
                    assert!(places.iter().any(is_fine), "{name}.{} refuses {end}", key.name);
                    probed += 1;
                }
            }
        }
    });
    assert!(probed > 150, "{probed}");
}

/// What a configuration does, as far as a default may change it.
fn effect(configuration: &Configuration) -> String {
    let Configuration { policy, response, store, remote, logs_all, .. } = configuration;
    format!("{:?}", (policy.meanings(), policy.footprint(), response, store, remote, logs_all))
}

#[test]
fn a_default_means_the_same_as_no_key() {
    let mut probed = 0;
    each(|name, keys, places| {
        for key in &keys {
            let Some(default) = &key.default else { continue };
            let mut compared = 0;
            for place in &places {
                let mut without = place.object.clone();
                without.as_object_mut().unwrap().remove(key.name);
                if let (Ok(with), Ok(without)) =
                    (place.compile(&place.with(key.name, default.clone())), place.compile(&without))
                {
                    assert_eq!(effect(&with), effect(&without), "{name}.{} in {}", key.name, place.document);
                    compared += 1;
                }
            }
            assert!(compared > 0, "{name}.{}: {default} is nowhere accepted", key.name);
            probed += 1;
        }
    });
    assert!(probed > 30, "{probed}");
}
