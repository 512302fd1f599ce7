//! The actor is a query parameter: `{query: api_key}`.
//!
//! Names and values are [decoded](query_values), so `k=a+b` and `%6B=a%20b` are one actor. The
//! decoded value may be any bytes.
//!
//! A parameter with two different values counts as missing, because backends disagree whether the
//! first or the last one counts. Otherwise a client could get a fresh quota with a second parameter
//! that its backend ignores.

use super::kind::{append, only};
use super::{Actor, ActorKind, Scope};
use crate::request::syntax::query_values;
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::netstring;
use diana_document::Node;

pub(super) static KIND: ActorKind = ActorKind { key: "query", compile, bare: None };

#[derive(Debug)]
struct Query {
    target: PartId,
    /// The decoded name.
    name: Box<str>,
}

impl Actor for Query {
    fn canonical_form(&self, _: &Parts) -> String {
        ["query ", &netstring(&self.name)].concat()
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        let Some(target) = request.get(self.target) else { return false };
        only(query_values(target, self.name.as_bytes())).is_some_and(|value| append(&value, key))
    }
}

fn compile(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    let name = node.text()?;
    if name.is_empty() {
        return node.expected("a parameter's name");
    }
    Some(Box::new(Query { target: scope.parts.intern(Part::Path), name: name.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::testing;
    use crate::request::Values;

    fn check(name: &str, target: &str, expected: Option<&[u8]>) {
        let definition = format!(r#"{{"query": "{name}"}}"#);
        let value = testing::value(&definition, Values::default().with(Part::Path, target));
        assert_eq!(value.as_deref(), expected, "{target}");
    }

    #[test]
    fn the_decoded_parameter_counts() {
        check("key", "/?key=1", Some(b"1"));
        check("key", "/a?x=2&key=1&y=3", Some(b"1"));
        check("key", "/?key=a%20b", Some(b"a b"));
        check("key", "/?%6bey=a+b", Some(b"a b"));
        check("key", "/?k%65y=%41%4a%4A", Some(b"AJJ"));
        check("key", "/?key=a=b", Some(b"a=b"));
        check("key", "/?key=a%26b", Some(b"a&b"));
        check("key", "/?key=a?key=b", Some(b"a?key=b"));
        check("key", "/?key=%ff", Some(b"\xff"));
        check("key", "/?key=%", Some(b"%"));
        check("key", "/?key=%4", Some(b"%4"));
        check("key", "/?key=%4x%zz%+1", Some(b"%4x%zz% 1"));
        check("a b", "/?a+b=1", Some(b"1"));
        check("key", "http://host/?key=1", Some(b"1"));
    }

    #[test]
    fn without_one_value_the_actor_is_missing() {
        check("key", "/", None);
        check("key", "/?", None);
        check("key", "/key=1", None);
        check("key", "/?key", None);
        check("key", "/?key=", None);
        check("key", "/?Key=1&akey=2&keys=3", None);
        check("key", "/#?key=1", None);
        check("key", "/?a=1#&key=1", None);
    }

    #[test]
    fn a_second_value_must_be_the_same() {
        check("key", "/?key=a&key=%61", Some(b"a"));
        check("key", "/?key=a&key=b", None);
        check("key", "/?key=a&key", None);
        check("key", "/?key=a&k%65y=a&key=b", None);
    }

    #[test]
    fn a_name_is_needed() {
        assert_eq!(testing::mistakes(r#"{"query": ""}"#), ["query: expected a parameter's name, found ``"]);
    }
}
