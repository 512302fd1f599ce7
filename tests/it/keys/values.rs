//! Asks the filter's reader which values each key has, and compares the answers with the table: a
//! wrong value gets an error that names the range, or the choices.

use super::places::{Place, each, leaves};
use diana_config::Configuration;
use diana_config::keys::{DefaultValue, Shape};
use diana_document::one_of;
use serde_json::{Value, json};

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
                // The items of a list have fewer choices.
                let probes = [json!([wrong]), wrong];
                let answers = |wrong: &Value| {
                    places.iter().flat_map(|place| place.mistakes(key.name, wrong.clone())).collect()
                };
                let answers: Vec<String> = probes.iter().flat_map::<Vec<String>, _>(answers).collect();
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
                    Shape::Choice(words) => words.iter().map(|word| json!(word)).collect(),
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

fn value(default: DefaultValue) -> Value {
    match default {
        DefaultValue::Flag(flag) => flag.into(),
        DefaultValue::Whole(number) => number.into(),
        DefaultValue::Text(text) => text.into(),
    }
}

/// What a configuration does, as far as a default may change it.
fn effect(configuration: &Configuration) -> String {
    let Configuration { policy, response, store, remote, access_log, near_limit, .. } = configuration;
    format!(
        "{:?}",
        (policy.fingerprints(), policy.footprint(), response, store, remote, access_log, near_limit)
    )
}

#[test]
fn a_default_means_the_same_as_no_key() {
    let mut probed = 0;
    each(|name, keys, places| {
        for key in &keys {
            let Some(default) = key.default.map(value) else { continue };
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
