//! The actor is the value of a cookie: `{cookie: session}`. All lines are one list (RFC 9113
//! §8.2.3). If a cookie has two different values, it counts as missing, because a client could
//! otherwise get a fresh quota by a second one that its backend ignores.

use super::kind::{append, only, text};
use super::{Actor, ActorKind, Scope};
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::netstring;
use diana_document::{Node, quoted};

pub(super) static KIND: ActorKind = ActorKind { key: "cookie", compile, bare: None };

#[derive(Debug)]
struct Cookie {
    header: PartId,
    /// Case-sensitive.
    name: Box<str>,
}

impl Actor for Cookie {
    fn canonical_form(&self, _: &Parts) -> String {
        ["cookie ", &netstring(&self.name)].concat()
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        let lines = request.list(self.header);
        let values = lines.flat_map(|line| values(line, self.name.as_bytes()));
        only(values).is_some_and(|value| append(value, key))
    }

    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        text(unquoted(value.trim_ascii().as_bytes()))
    }
}

/// The values of `name` in a line of `cookie`: `a=1; b="2"` (RFC 6265, sections 4.2.1 and 5.4).
fn values<'a>(header: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    header.split(|byte| *byte == b';').filter_map(move |pair| {
        let value = pair.trim_ascii().strip_prefix(name)?;
        Some(unquoted(value.trim_ascii_start().strip_prefix(b"=")?.trim_ascii()))
    })
}

/// Most backends do not count the quotes around a cookie's value as part of the value.
fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

fn compile(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    let name = node.text()?;
    let delimits = |c: char| matches!(c, ';' | '=') || c.is_control() || c.is_whitespace();
    if name.is_empty() || name.contains(delimits) {
        node.fail(format!("{} is not a cookie's name: text without spaces, `;` and `=`", quoted(name)));
        return None;
    }
    let header = scope.parts.intern(Part::Header("cookie".into()));
    Some(Box::new(Cookie { header, name: name.into() }))
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use crate::request::{Part, Values};

    #[test]
    fn the_value_of_the_named_cookie_counts() {
        for (sent, expected) in [
            ("session=1", Some("1")),
            ("a=2; session=1; b=3", Some("1")),
            ("a=2;session=1;b=3", Some("1")),
            (" session = 1 ", Some("1")),
            ("session=\"1\"", Some("1")),
            ("session=\"", Some("\"")),
            ("session=a=b==", Some("a=b==")),
            ("session=1; session=1", Some("1")),
            ("session=1; session=\"1\"", Some("1")),
            ("session=1; session=2", None),
            ("session=1; session=", None),
            ("session=", None),
            ("session=\"\"", None),
            ("session", None),
            ("Session=1", None),
            ("mysession=1; session2=3", None),
            ("a=session=1", None),
            ("", None),
            (";;=;", None),
        ] {
            let request = Values::default().with(Part::Header("cookie".into()), sent);
            let value = testing::value(r#"{"cookie": "session"}"#, request);
            assert_eq!(value, expected.map(|text| text.as_bytes().to_vec()), "{sent}");
        }
        assert_eq!(testing::parse(r#"{"cookie": "session"}"#, " \"1\"").unwrap(), b"1");
        assert!(testing::parse(r#"{"cookie": "session"}"#, "\"\"").is_err());
    }

    #[test]
    fn the_cookies_of_all_lines_are_one_list() {
        for (lines, expected) in [
            (["a=1", "session=2"], Some("2")),
            (["session=2; a=1", "b=3"], Some("2")),
            (["session=2", "session=2"], Some("2")),
            (["session=x", "session=2"], None),
            (["session=2", "a=1; session="], None),
            (["a=1", "b=2"], None),
        ] {
            let add = |values: Values, line: &str| values.with(Part::Header("cookie".into()), line);
            let request = lines.into_iter().fold(Values::default(), add);
            let value = testing::value(r#"{"cookie": "session"}"#, request);
            assert_eq!(value, expected.map(|text| text.as_bytes().to_vec()), "{lines:?}");
        }
    }

    #[test]
    fn a_name_that_no_cookie_has_is_refused() {
        for name in ["", "a b", "a=", "a;"] {
            let why = format!("cookie: `{name}` is not a cookie's name: text without spaces, `;` and `=`");
            assert_eq!(testing::mistakes(&format!(r#"{{"cookie": "{name}"}}"#)), [why]);
        }
    }
}
