//! The reader of `{host: {}}`, or `host` for short.

use super::{ActorKind, Scope, nothing_to_set};
use diana_document::Node;
use diana_limiter::actor::{Actor, Host};

/// The kind `host`.
pub(super) static KIND: ActorKind = ActorKind { key: "host", read, bare: Some(bare) };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    nothing_to_set(&node)?;
    Some(bare(scope))
}

fn bare(scope: &mut Scope) -> Box<dyn Actor> {
    Box::new(Host::new(scope.parts))
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use diana_limiter::request::{Part, Values};

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
