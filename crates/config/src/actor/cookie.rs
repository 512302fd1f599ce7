//! The reader of `{cookie: session}`.

use super::{ActorKind, Scope};
use diana_document::{Node, quoted};
use diana_limiter::actor::{Actor, Cookie};

/// The kind `cookie`.
pub(super) static KIND: ActorKind = ActorKind { key: "cookie", read, bare: None };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    let name = node.text()?;
    match Cookie::new(name, scope.parts) {
        Ok(cookie) => Some(Box::new(cookie)),
        Err(_) => {
            node.fail(format!("{} is not a cookie's name: text without spaces, `;` and `=`", quoted(name)));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use diana_limiter::request::{Part, Values};

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
