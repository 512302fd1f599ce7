//! The reader of `{query: api_key}`.

use super::{ActorKind, Scope};
use diana_document::Node;
use diana_limiter::actor::{Actor, Query};

/// The kind `query`.
pub(super) static KIND: ActorKind = ActorKind { key: "query", read, bare: None };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    match Query::new(node.text()?, scope.parts) {
        Ok(query) => Some(Box::new(query)),
        Err(_) => node.expected("a parameter's name"),
    }
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use diana_limiter::request::Part;
    use diana_limiter::request::Values;

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
