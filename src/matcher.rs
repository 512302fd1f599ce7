//! What a limit asks of a request besides its url: methods, hosts, headers; each kind a file.
//!
//! It does not know: rules, actors, or what happens to a request that matches. Which urls match is found
//! for all limits at once, in [`tree`].
//!
//! To add a kind: a file in `matcher/` with a `KIND`, its `mod` line and its line in [`KINDS`].

pub mod headers;
pub mod hosts;
pub mod methods;
pub mod pattern;
pub mod tree;

use crate::document::Node;
use crate::request::{Parts, Request};
use std::fmt;

/// One condition of a limit.
pub trait Matcher: Send + Sync {
    /// Whether the request fulfils it. A part that the request lacks fulfils nothing, unless its absence is
    /// what is asked for. Of a part in several lines, one is enough: a client could add lines in front of the
    /// one that counts, and slip past a limit.
    fn matches(&self, request: &Request) -> bool;

    /// The condition in canonical text made of compiled values. Two conditions with the same text match the same
    /// requests, however they are spelt.
    fn meaning(&self, parts: &Parts) -> String;

    /// Whether the request fulfils it whichever line of a part counts: what frees a request from other
    /// limits must not be a line that a client has added.
    fn is_certain(&self, request: &Request) -> bool {
        self.matches(request)
    }
}

impl fmt::Debug for dyn Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Matcher")
    }
}

/// A kind of condition: the key that configures it in a limit, and its compiler.
pub struct Kind {
    /// The key in a limit.
    pub key: &'static str,
    /// Reads the value at that key; mistakes are reported at their place and give `None`.
    pub compile: fn(Node, &mut Parts) -> Option<Box<dyn Matcher>>,
}

/// Every kind of condition.
pub static KINDS: &[&Kind] = &[&methods::KIND, &hosts::KIND, &headers::KIND];

#[cfg(test)]
pub(crate) mod testing {
    //! Conditions compiled from JSON and tried on requests made of values.

    use super::*;
    use crate::document::{self, Error, Errors};
    use crate::request::{Part, Values};

    fn compile(kind: &Kind, json: &str) -> (Option<Box<dyn Matcher>>, Parts, Vec<String>) {
        let (value, errors) = (document::parse(json.as_bytes()).unwrap(), Errors::default());
        let mut parts = Parts::default();
        let matcher = (kind.compile)(Node::root(&value, &errors), &mut parts);
        (matcher, parts, errors.into_vec().iter().map(Error::to_string).collect())
    }

    /// A condition without a mistake.
    pub fn compiled(kind: &Kind, json: &str) -> (Box<dyn Matcher>, Parts) {
        let (matcher, parts, mistakes) = compile(kind, json);
        assert!(mistakes.is_empty(), "{mistakes:?}");
        (matcher.unwrap(), parts)
    }

    /// The names of the requests that the condition matches.
    pub fn matching<'a>(kind: &Kind, json: &str, requests: &[(&'a str, Vec<(Part, &str)>)]) -> Vec<&'a str> {
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

    /// What is wrong with a configuration that is refused.
    pub fn mistakes(kind: &Kind, json: &str) -> Vec<String> {
        let (matcher, _, mistakes) = compile(kind, json);
        assert!(matcher.is_none() && !mistakes.is_empty(), "{json} is accepted");
        mistakes
    }
}
