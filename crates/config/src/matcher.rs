//! The readers of a limit's conditions, one file a kind. All conditions of a limit must hold.

mod body_size;
mod headers;
mod hosts;
mod ip;
mod jwt;
mod methods;
mod property;
mod query;
mod request_json;

pub(crate) use ip::network;

use crate::actor::Scope;
use diana_base::map::KeySet;
use diana_document::{Node, Value, quoted};
use diana_limiter::matcher::{Condition, Lookup, Matcher, Named};
use diana_limiter::request::Parts;

/// A kind of condition: the key that configures the kind in a limit, and its reader.
pub struct ConditionKind {
    /// The key in a limit.
    pub key: &'static str,
    /// Reads the value at that key. Reports each mistake at its place and then returns `None`.
    pub read: fn(Node, &mut Scope) -> Option<Box<dyn Matcher>>,
}

/// All kinds of condition.
pub static KINDS: &[&ConditionKind] = &[
    &methods::KIND,
    &hosts::KIND,
    &ip::KIND,
    &headers::KIND,
    &query::KIND,
    &jwt::KIND,
    &property::KIND,
    &request_json::KIND,
    &body_size::KIND,
];

/// How a kind calls its names, and reads them.
struct Names {
    /// The key in a limit.
    key: &'static str,
    /// What one name stands for.
    one: &'static str,
    /// Reads a name. A mistake is reported at the node of the condition.
    read: fn(&str, &Node, &mut Parts) -> Option<Box<dyn Lookup>>,
}

/// Reads an object of names and conditions.
fn named(node: &Node, parts: &mut Parts, names: &Names) -> Option<Box<dyn Matcher>> {
    let Names { key, one, read } = names;
    let entries = node.entries()?;
    if entries.is_empty() {
        node.fail(format!("no {one} is listed, leave `{key}` out to match every request"));
    }
    let listed = entries.len();
    let (mut conditions, mut known) = (Vec::new(), KeySet::default());
    for (name, node) in entries {
        // Read both before returning, so that the mistakes in each are reported.
        let lookup = read(name, &node, parts);
        let condition = condition_of(&node, lookup.as_ref().is_some_and(|lookup| lookup.trims()));
        let (Some(lookup), Some(condition)) = (lookup, condition) else { continue };
        match known.add(lookup.canonical_form(parts).as_bytes()) {
            true => conditions.push((lookup, condition)),
            // Only a header has a name of several spellings.
            false => node.fail("this header is given twice, names of headers ignore case"),
        }
    }
    let is_complete = conditions.len() == listed;
    let condition = Named::new(conditions).ok().filter(|_| is_complete)?;
    Some(Box::new(condition))
}

/// Reads what a kind lists: the items, and whether they are those of `{not: …}`. `of_ip`: keys that
/// belong to `ip` at the top.
fn listed<'a>(node: &Node<'a>, of_ip: &[&'static str]) -> Option<(Vec<Node<'a>>, bool)> {
    let Value::Object(_) = node.value() else { return Some((node.one_or_many(), false)) };
    let mut fields = node.fields()?;
    let excluded = fields.require("not");
    fields.belong(of_ip, "to `ip` at the top, beside `limits`");
    fields.finish();
    Some((excluded?.one_or_many(), true))
}

/// Reads a condition: a value, or `{prefix}`, `{regex}`, `{present}` or `{not}`. Reports each
/// mistake at its place and then returns `None`. `trims`: whether white space around a value is no
/// part of it.
fn condition_of(node: &Node, trims: bool) -> Option<Condition> {
    let Value::Object(entries) = node.value() else { return value_of(node, trims) };
    let mut fields = node.fields()?;
    let [prefix, regex, present, not] = ["prefix", "regex", "present", "not"].map(|key| fields.take(key));
    fields.finish();
    match (prefix, regex, present, not) {
        (Some(node), None, None, None) => prefix_of(&node, trims, "write `present: true`"),
        (None, Some(node), None, None) => regex_of(&node),
        (None, None, Some(node), None) => node.flag().map(Condition::Present),
        (None, None, None, Some(node)) => none_of(&node, trims),
        // All keys are unknown, and each has been reported.
        (None, None, None, None) if !entries.is_empty() => None,
        _ => {
            node.fail("expected `prefix`, `regex`, `present` or `not`, and one of them only");
            None
        }
    }
}

/// Reads what `not` excludes: one value, `{prefix}` or `{regex}`, or a list.
fn none_of(node: &Node, trims: bool) -> Option<Condition> {
    let nodes = node.one_or_many();
    if nodes.is_empty() {
        node.fail("no value is listed");
    }
    let conditions: Vec<Option<Condition>> = nodes.iter().map(|node| value_of(node, trims)).collect();
    Condition::none_of(conditions.into_iter().collect::<Option<_>>()?).ok()
}

fn value_of(node: &Node, trims: bool) -> Option<Condition> {
    let Value::Object(entries) = node.value() else {
        let text = node.scalar()?;
        let value = if trims { text.trim_ascii() } else { &text };
        return Some(Condition::Exact(value.as_bytes().into()));
    };
    let mut fields = node.fields()?;
    let [prefix, regex] = ["prefix", "regex"].map(|key| fields.take(key));
    fields.finish();
    match (prefix, regex) {
        (Some(node), None) => prefix_of(&node, trims, "so no other value is left"),
        (None, Some(node)) => regex_of(&node),
        (None, None) if !entries.is_empty() => None,
        _ => {
            node.fail("expected `prefix` or `regex`, and one of them only");
            None
        }
    }
}

/// `hint`: what an empty prefix leads to.
fn prefix_of(node: &Node, trims: bool, hint: &str) -> Option<Condition> {
    let text = node.scalar()?;
    let prefix = if trims { text.trim_ascii_start() } else { &text };
    if prefix.is_empty() {
        node.fail(match text.is_empty() {
            true => format!("every value begins with an empty prefix, {hint}"),
            false => format!(
                "white space around the value of a header is removed, and no value begins with it, {hint}"
            ),
        });
        return None;
    }
    Some(Condition::Prefix(prefix.as_bytes().into()))
}

fn regex_of(node: &Node) -> Option<Condition> {
    let text = node.scalar()?;
    let fail = |error| node.fail(format!("{} is not a regular expression: {error}", quoted(&text)));
    Condition::regex(&text).map_err(fail).ok()
}

#[cfg(test)]
mod testing {
    //! Compiles conditions from JSON and evaluates them on requests made of values.

    use super::ConditionKind;
    use crate::actor::{Scope, client_ip};
    use diana_document::{Error, Errors, Node};
    use diana_limiter::matcher::Matcher;
    use diana_limiter::request::{Part, Parts, Request, Values};

    fn compile(kind: &ConditionKind, json: &str) -> (Option<Box<dyn Matcher>>, Parts, Vec<String>) {
        let (value, errors) = (diana_document::parse(json.as_bytes()).unwrap(), Errors::default());
        let mut parts = Parts::default();
        let ip = client_ip(None, &mut parts);
        let matcher = (kind.read)(Node::root(&value, &errors), &mut Scope { parts: &mut parts, ip: &ip });
        (matcher, parts, errors.into_vec().iter().map(Error::to_string).collect())
    }

    /// Compiles a condition that has no mistake.
    pub fn compiled(kind: &ConditionKind, json: &str) -> (Box<dyn Matcher>, Parts) {
        let (matcher, parts, mistakes) = compile(kind, json);
        assert!(mistakes.is_empty(), "{mistakes:?}");
        (matcher.unwrap(), parts)
    }

    /// The names of the requests that the condition matches.
    pub fn matching<'a>(
        kind: &ConditionKind,
        json: &str,
        requests: &[(&'a str, Vec<(Part, &str)>)],
    ) -> Vec<&'a str> {
        let (matcher, parts, mistakes) = compile(kind, json);
        assert!(mistakes.is_empty(), "{mistakes:?}");
        let matcher = matcher.unwrap();
        let is_matched = |parts_of: &[(Part, &str)]| {
            let add = |values: Values, (part, value): &(Part, &str)| values.with(part.clone(), *value);
            let values = parts_of.iter().fold(Values::default().with_claims(crate::claim), add);
            matcher.matches(&Request::new(&values, &parts))
        };
        requests.iter().filter(|(_, parts_of)| is_matched(parts_of)).map(|(name, _)| *name).collect()
    }

    /// The mistakes in a configuration that is refused.
    pub fn mistakes(kind: &ConditionKind, json: &str) -> Vec<String> {
        let (matcher, _, mistakes) = compile(kind, json);
        assert!(matcher.is_none() && !mistakes.is_empty(), "{json} is accepted");
        mistakes
    }
}

#[cfg(test)]
mod tests {
    use super::testing::compiled;
    use super::{ConditionKind, KINDS};
    use diana_limiter::request::{Part, Request, Values};
    use proptest::prelude::*;

    /// Conditions, and whether one value fulfils each.
    type Fulfils = fn(&str) -> bool;

    const CONDITIONS: [(&str, Fulfils); 6] = [
        (r#""a""#, |value| value == "a"),
        (r#""""#, |value| value.is_empty()),
        (r#"{"prefix": "a"}"#, |value| value.starts_with('a')),
        (r#"{"regex": "a+"}"#, |value| !value.is_empty() && value.chars().all(|letter| letter == 'a')),
        (r#"{"not": "a"}"#, |value| value != "a"),
        (r#"{"not": [{"prefix": "b"}, "", {"prefix": "b"}]}"#, |value| value.starts_with('a')),
    ];

    fn kind(key: &str) -> &'static ConditionKind {
        KINDS.iter().find(|kind| kind.key == key).unwrap()
    }

    /// Whether a condition on `k` holds and is certain.
    fn check(key: &str, condition: &str, values: &Values) -> (bool, bool) {
        let (matcher, parts) = compiled(kind(key), &format!(r#"{{"k": {condition}}}"#));
        // Two requests, so that neither spends the work of the other.
        let request = || Request::new(values, &parts);
        (matcher.matches(&request()), matcher.is_certain(&request()))
    }

    /// A request whose header and whose parameter `k` have these values.
    fn request(values: &[&str]) -> Values {
        let pairs: Vec<String> = values.iter().map(|value| format!("k={value}")).collect();
        let target = Values::default().with(Part::Path, format!("/?{}", pairs.join("&")));
        values.iter().fold(target, |request, value| request.with(Part::Header("k".into()), *value))
    }

    proptest! {
        #[test]
        fn one_value_is_enough_to_hold_and_all_are_certain(
            values in prop::collection::vec(prop::sample::select(vec!["", "a", "aa", "ab", "b"]), 0..5),
        ) {
            let sent = request(&values);
            for key in ["headers", "query"] {
                for (condition, fulfils) in CONDITIONS {
                    let by_absence = values.is_empty() && condition.contains("not");
                    let holds = by_absence || values.iter().any(|value| fulfils(value));
                    let is_certain = !values.is_empty() && values.iter().all(|value| fulfils(value));
                    prop_assert_eq!(check(key, condition, &sent), (holds, is_certain), "{} {}", key, condition);
                }
                for expected in [true, false] {
                    let is_it = values.is_empty() != expected;
                    let condition = format!(r#"{{"present": {expected}}}"#);
                    prop_assert_eq!(check(key, &condition, &sent), (is_it, is_it), "{} {}", key, condition);
                }
            }
        }
    }

    #[test]
    fn an_expression_on_any_kind_of_value_is_bounded() {
        let long = "a".repeat(4_097);
        let values = request(&[&long]);
        for key in ["headers", "query"] {
            assert_eq!(check(key, r#"{"regex": "a*"}"#, &values), (true, false), "{key}");
            assert_eq!(check(key, r#"{"prefix": "a"}"#, &values), (true, true), "{key}");
        }
    }
}
