//! The actor is the requested host: `{host: {}}`, or `host` for short.
//!
//! A client can request any host. All spellings of a host are one actor (see
//! [`syntax::host_name`]).

use super::kind::{append, nothing_to_set, text};
use super::{Actor, ActorKind, FastPathPart, Scope};
use crate::request::{Part, PartId, Parts, Request, syntax};
use diana_document::Node;

pub(super) static KIND: ActorKind = ActorKind { key: "host", compile, bare: Some(bare) };

#[derive(Debug)]
struct Host(PartId);

impl Actor for Host {
    fn canonical_form(&self, parts: &Parts) -> String {
        parts.canonical_form(self.0)
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        request.get(self.0).is_some_and(|authority| append(&syntax::host_name(authority), key))
    }

    fn raw<'r>(&self, request: &Request<'r>) -> FastPathPart<'r> {
        FastPathPart::of(request.get(self.0))
    }

    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        text(&syntax::host_name(value.as_bytes()))
    }
}

fn compile(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    nothing_to_set(&node)?;
    Some(bare(scope))
}

fn bare(scope: &mut Scope) -> Box<dyn Actor> {
    Box::new(Host(scope.parts.intern(Part::Host)))
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use crate::request::{Part, Values};

    #[test]
    fn all_spellings_of_a_host_are_one_actor() {
        for (sent, expected) in [
            ("Example.COM.:8080", Some("example.com")),
            ("192.0.2.7:80", Some("192.0.2.7")),
            ("[2001:DB8:0::1]:443", Some("[2001:db8::1]")),
            ("", None),
            (":80", None),
            (".", None),
        ] {
            for definition in [r#""host""#, r#"{"host": {}}"#] {
                let value = testing::value(definition, Values::default().with(Part::Host, sent));
                assert_eq!(value, expected.map(|text| text.as_bytes().to_vec()), "{sent}");
            }
            assert_eq!(testing::parse(r#""host""#, sent).ok(), expected.map(|text| text.as_bytes().to_vec()));
        }
    }

    #[test]
    fn there_is_nothing_to_set() {
        assert_eq!(testing::mistakes(r#"{"host": "a"}"#), ["host: expected `{}` or true, found `a`"]);
    }
}
