//! The reader of `{header: x-user-id}`.

use super::{ActorKind, Scope};
use diana_document::Node;
use diana_limiter::actor::{Actor, Header};

/// The kind `header`.
pub(super) static KIND: ActorKind = ActorKind { key: "header", read, bare: None };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    let header = Header::new(&header_name(&node)?, scope.parts).ok()?;
    Some(Box::new(header))
}

/// Reads a header name and returns it in lower case. Headers that another kind of source reads are
/// mistakes.
pub(super) fn header_name(node: &Node) -> Option<Box<str>> {
    diana_response::header_name(node.text()?, node, |name| match name {
        // The raw header keeps its port and its case, so one host would be many actors.
        ":authority" | "host" => Some("the actor `host` reads the host"),
        ":method" => Some("the actor `method` reads the method"),
        ":path" => Some("the actors `path` and `query` read the url"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use diana_limiter::request::{Part, Values};

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
