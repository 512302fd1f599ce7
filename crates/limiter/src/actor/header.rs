//! The actor is the value of a request header: `{header: x-user-id}`.
//!
//! A client can send any header. A rule that must hold needs a header that a proxy or filter before
//! this one sets or verifies. A header whose lines differ counts as missing (see [`Request::get`]).

use super::client_ip::header_name;
use super::kind::append;
use super::{Actor, ActorKind, FastPathPart, Scope};
use crate::request::{Part, PartId, Parts, Request};
use diana_document::Node;

pub(super) static KIND: ActorKind = ActorKind { key: "header", compile, bare: None };

#[derive(Debug)]
struct Header(PartId);

impl Actor for Header {
    fn canonical_form(&self, parts: &Parts) -> String {
        parts.canonical_form(self.0)
    }

    /// White space around the value is not part of the value (RFC 9110, section 5.5).
    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        request.get(self.0).is_some_and(|value| append(value.trim_ascii(), key))
    }

    fn raw<'r>(&self, request: &Request<'r>) -> FastPathPart<'r> {
        FastPathPart::of(request.get(self.0).map(<[u8]>::trim_ascii))
    }

    fn header(&self) -> Option<PartId> {
        Some(self.0)
    }
}

fn compile(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    Some(named(header_name(&node)?, scope))
}

/// The actor of the header `name`, which is lower case.
pub(super) fn named(name: Box<str>, scope: &mut Scope) -> Box<dyn Actor> {
    Box::new(Header(scope.parts.intern(Part::Header(name))))
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use crate::request::{Part, Values};

    #[test]
    fn the_value_counts_without_the_space_around_it() {
        for (sent, expected) in [
            (Some("alice"), Some("alice")),
            (Some(" alice\t"), Some("alice")),
            (Some("Alice, bob"), Some("Alice, bob")),
            (Some(""), None),
            (Some(" "), None),
            (None, None),
        ] {
            let mut request = Values::default();
            if let Some(sent) = sent {
                request = request.with(Part::Header("x-user-id".into()), sent);
            }
            let value = testing::value(r#"{"header": "X-User-ID"}"#, request);
            assert_eq!(value, expected.map(|text| text.as_bytes().to_vec()), "{sent:?}");
        }
        let twice = |first: &str, second: &str| {
            let header = Part::Header("x-user-id".into());
            let request = Values::default().with(header.clone(), first).with(header, second);
            testing::value(r#"{"header": "x-user-id"}"#, request)
        };
        assert_eq!(twice("alice", "alice").as_deref(), Some(&b"alice"[..]));
        assert_eq!(twice("random", "alice"), None);
        assert_eq!(testing::parse(r#"{"header": "a"}"#, "alice").unwrap(), b"alice");
        assert_eq!(testing::parse(r#"{"header": "a"}"#, "").unwrap_err(), "an empty value is never counted");
    }

    #[test]
    fn a_name_that_no_header_has_is_refused() {
        let form = "is not a header name, expected letters, digits and marks such as `-` and `_`";
        let host = "cannot be given here: the actor `host` reads the host";
        for (definition, why) in [
            (r#"{"header": ""}"#, &*format!("`` {form}")),
            (r#"{"header": "a b"}"#, &format!("`a b` {form}")),
            (r#"{"header": ":scheme"}"#, &format!("`:scheme` {form}")),
            (r#"{"header": ":authority"}"#, &format!("`:authority` {host}")),
            (r#"{"header": "Host"}"#, &format!("`host` {host}")),
            (
                r#"{"header": ":path"}"#,
                "`:path` cannot be given here: the actors `path` and `query` read the url",
            ),
            (r#"{"header": 1}"#, "expected text, found `1`, put it in quotes"),
        ] {
            assert_eq!(testing::mistakes(definition), [format!("header: {why}")]);
        }
    }
}
