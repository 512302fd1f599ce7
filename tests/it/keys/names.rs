//! Asks the filter's reader which keys each object has, and compares the answers with the table,
//! in both directions: an unknown key gets an error that names all keys.

use super::places::{Place, UNKNOWN, each, expected, keys, leaves, places};
use diana_config::keys::{Shape, definitions};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[test]
fn every_place_is_accepted_as_it_stands() {
    for place in places() {
        // A range of no size, and a quota that changes nothing, are mistakes of their own.
        let result = place.compile(&place.object);
        let is_incomplete = place.definition == "body_size" && place.object == json!({});
        assert!(result.is_ok() || is_incomplete, "{} {}: {:?}", place.document, place.object, result.err());
    }
}

/// The definition as which the reader reads an object, before the reader refuses some of the keys.
fn read_as(name: &'static str) -> &'static str {
    if name == "actor_segment" { "actor" } else { name }
}

/// The keys of a definition, with those of old documents.
fn own(name: &str) -> Vec<&'static str> {
    let definition = definitions().find(|known| known.name == name).unwrap();
    keys(&definition.shape).into_iter().map(|key| key.name).collect()
}

#[test]
fn the_keys_are_those_that_the_reader_names() {
    each(|name, _, places| {
        let known: BTreeSet<String> = places.iter().flat_map(|place| place.known()).collect();
        let definition = definitions().find(|known| known.name == read_as(name)).unwrap();
        let offered = keys(&definition.shape).into_iter().filter(|key| key.is_offered);
        let keys: BTreeSet<String> = offered.map(|key| key.name.to_owned()).collect();
        assert_eq!(keys, known, "{name}");
    });
}

/// The keys of the objects that a shape leads to, through lists, choices and names of the user.
fn objects(shape: &Shape) -> Vec<BTreeSet<String>> {
    match shape {
        Shape::Any(shapes) => shapes.iter().flat_map(objects).collect(),
        Shape::OneOrMany(item, _) | Shape::List(item, ..) | Shape::Map(item) => objects(item),
        Shape::Def(name) => {
            let known = definitions().find(|known| known.name == read_as(name)).unwrap();
            objects(&known.shape)
        }
        Shape::Object(object) => vec![object.keys().map(|key| key.name.to_owned()).collect()],
        _ => Vec::new(),
    }
}

/// The definitions that a shape names itself.
fn named(shape: &Shape) -> Vec<&'static str> {
    match shape {
        Shape::Any(shapes) => shapes.iter().flat_map(named).collect(),
        Shape::OneOrMany(item, _) | Shape::List(item, ..) | Shape::Map(item) => named(item),
        Shape::Def(name) => vec![name],
        _ => Vec::new(),
    }
}

/// The object, also in a list, below a name of the user, and in a list below such a name.
fn wrapped(object: &Value) -> [Value; 4] {
    [object.clone(), json!([object]), json!({"gold": object}), json!({"gold": [object]})]
}

/// An object that the table does not have would be an object whose keys no editor knows.
#[test]
fn every_object_that_the_reader_knows_is_in_the_table() {
    let all = places();
    let mut probed = 0;
    each(|name, keys, places| {
        for key in &keys {
            let (known, names) = (objects(&key.shape), named(&key.shape));
            // The reader tells some objects apart by their other keys.
            let valid = all.iter().filter(|place| names.contains(&place.definition));
            let probes = valid.map(|place| place.with(UNKNOWN, json!(1))).chain([json!({UNKNOWN: 1})]);
            let mut is_read = false;
            for value in probes.flat_map(|object| wrapped(&object)) {
                for place in &places {
                    let Some(read) = expected(&place.mistakes(key.name, value.clone())) else { continue };
                    let is_known = known.iter().any(|keys| read.is_subset(keys));
                    assert!(is_known, "{name}.{}: the reader knows {read:?} in {value}", key.name);
                    is_read = true;
                }
            }
            assert_eq!(is_read, !known.is_empty(), "{name}.{}: {known:?} is in the table", key.name);
            probed += usize::from(is_read);
        }
    });
    assert!(probed > 25, "{probed}");
}

/// The tests probe definitions: an object without a name would be left out.
#[test]
fn every_object_with_keys_has_a_name() {
    each(|name, keys, _| {
        for key in keys {
            let leaves = leaves(&key.shape).into_iter().flat_map(|leaf| match leaf {
                Shape::Map(item) => leaves(item),
                leaf => vec![leaf],
            });
            let is_nameless =
                |leaf: Shape| matches!(leaf, Shape::Object(object) if object.keys().next().is_some());
            assert!(!leaves.into_iter().any(is_nameless), "{name}.{}", key.name);
        }
    });
}

/// A key that the reader takes without naming it in an error is found here.
#[test]
fn keys_of_other_objects_are_unknown() {
    let shapes: Vec<Shape> =
        definitions().flat_map(|known| keys(&known.shape)).map(|key| key.shape).collect();
    let all: BTreeSet<&str> = definitions().flat_map(|known| own(known.name)).collect();
    each(|name, _, places| {
        // At the same place, the keys of another object make this object that one.
        let beside = shapes.iter().map(named).filter(|names| names.contains(&name)).flatten();
        let known: BTreeSet<&str> = beside.chain([read_as(name)]).flat_map(own).collect();
        for other in all.difference(&known) {
            let unknown = format!("unknown key `{other}`, ");
            for place in &places {
                let mistakes = place.mistakes(other, json!(1));
                let is_unknown = mistakes.iter().any(|why| why.starts_with(&unknown));
                assert!(is_unknown, "{name}.{other} in {}: {mistakes:?}", place.document);
            }
        }
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

#[test]
fn an_actor_of_a_rule_is_a_segment_only() {
    let places = places();
    let place = places.iter().find(|place| place.definition == "actor_segment").unwrap();
    for key in own("actor") {
        let object = if key == "path" { json!({key: 1}) } else { json!({key: "a"}) };
        assert_eq!(place.compile(&object).is_ok(), own("actor_segment").contains(&key), "{object}");
    }
}
