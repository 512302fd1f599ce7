//! The keys of a document, in one table that the hints about misplaced keys, the JSON Schema,
//! `diana init` and the reference page walk. A kind's key without an entry does not compile, and
//! the filter contains the names only; `docs/internals/design/documents.md` says how.

mod document;
mod kinds;
mod limit;
mod names;
mod rule;
mod shape;
mod store;

pub(super) use names::{DENY_KEYS, LIMIT_KEYS, REDIS_KEYS, REMOTE_KEYS, RULE_KEYS, STORE_KEYS, TOP_KEYS};
pub use shape::{DefaultValue, Definition, Key, Object, SPAN, Shape, Unless};

/// All definitions: the document, the limit, the rule, and all objects in them.
///
/// ```
/// use diana_config::keys::{Shape, definitions};
///
/// let mut rules = definitions().filter(|definition| definition.name == "rule");
/// let rule = rules.next().and_then(|rule| rule.shape.object()).expect("the definition of a rule");
/// let slices = rule.keys().find(|key| key.name == "slices").expect("a key of a rule");
/// assert!(matches!(slices.shape, Shape::Whole(2, 60)));
/// assert_eq!(slices.page, "algorithms.md#keys");
/// ```
pub fn definitions() -> impl Iterator<Item = Definition> + Clone {
    [document::DEFINITIONS, limit::DEFINITIONS, rule::DEFINITIONS, store::DEFINITIONS]
        .into_iter()
        .flatten()
        .copied()
}

/// The keys of a rule, in the order in which people write them.
///
/// ```
/// let names: Vec<&str> = diana_config::keys::of_rule().map(|key| key.name).collect();
/// assert_eq!(names[..3], ["name", "actor", "algo"]);
/// ```
pub fn of_rule() -> impl Iterator<Item = Key> {
    rule::RULE.keys()
}

/// The sources of an actor's value.
///
/// ```
/// let names: Vec<&str> = diana_config::keys::of_actor().map(|key| key.name).collect();
/// assert!(names.contains(&"header"));
/// ```
pub fn of_actor() -> impl Iterator<Item = Key> {
    document::ACTOR.keys()
}
