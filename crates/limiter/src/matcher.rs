//! The conditions of a limit besides its URL, such as methods, hosts and headers. One file per
//! kind.
//!
//! `tree` matches the URLs of all limits at once. `condition` is common to all kinds.
//!
//! To add a kind: a file in `matcher/` with a `KIND`, its `mod` line and its line in [`KINDS`].

mod body_size;
mod condition;
mod headers;
mod hosts;
mod jwt;
mod methods;
pub mod pattern;
mod property;
mod query;
pub(crate) mod tree;

pub use condition::{ConditionKind, Matcher};

/// All kinds of condition.
pub static KINDS: &[&ConditionKind] = &[
    &methods::KIND,
    &hosts::KIND,
    &headers::KIND,
    &query::KIND,
    &jwt::KIND,
    &property::KIND,
    &body_size::KIND,
];

#[cfg(test)]
pub(crate) mod testing {
    //! Compiles conditions from JSON and evaluates them on requests made of values.

    use super::{ConditionKind, Matcher};
    use crate::request::{Part, Parts, Request, Values};
    use diana_document::{Error, Errors, Node};

    fn compile(kind: &ConditionKind, json: &str) -> (Option<Box<dyn Matcher>>, Parts, Vec<String>) {
        let (value, errors) = (diana_document::parse(json.as_bytes()).unwrap(), Errors::default());
        let mut parts = Parts::default();
        let matcher = (kind.compile)(Node::root(&value, &errors), &mut parts);
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
            let values = parts_of.iter().fold(Values::default(), add);
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
