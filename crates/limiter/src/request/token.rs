//! Tokens: the syntax of methods and header names (RFC 9110 §5.6.2).

use diana_document::{Node, quoted};

/// Whether `bytes` are a token: one or more letters, digits and some marks.
#[must_use]
pub fn is_token(bytes: &[u8]) -> bool {
    let is_mark = |byte: &u8| b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

/// Reads `text` as a header name (RFC 9110 §5.1) and turns the name to lower case. For a
/// lower-case name that is not allowed here, `reserved` returns the reason. Mistakes are reported
/// at `node`.
pub(crate) fn header_name(
    text: &str,
    node: &Node,
    reserved: impl Fn(&str) -> Option<&'static str>,
) -> Option<Box<str>> {
    let name = text.to_ascii_lowercase();
    if let Some(why) = reserved(&name) {
        node.fail(format!("{} cannot be given here: {why}", quoted(&name)));
    } else if !is_token(name.as_bytes()) {
        let allowed = "letters, digits and marks such as `-` and `_`";
        node.fail(format!("{} is not a header name, expected {allowed}", quoted(text)));
    } else {
        return Some(name.into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use diana_document::{Error, Errors, Value};

    #[test]
    fn a_token_has_no_gap_and_no_separator() {
        for token in ["GET", "x-plan", "a.b_c", "M-SEARCH", "1"] {
            assert!(is_token(token.as_bytes()), "{token}");
        }
        for other in ["", "a b", ":path", "a:", "é", "a/b", "a,b", "a\n"] {
            assert!(!is_token(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_header_name_is_a_token_that_is_not_reserved() {
        for (text, expected) in [
            ("X-User_ID", Ok("x-user_id")),
            ("Host", Err("`host` cannot be given here: name it elsewhere")),
            (":Path", Err("`:path` cannot be given here: name it elsewhere")),
            (":X", Err("`:X` is not a header name, expected letters, digits and marks such as `-` and `_`")),
            ("", Err("`` is not a header name, expected letters, digits and marks such as `-` and `_`")),
        ] {
            let errors = Errors::default();
            let reserved = |name: &str| matches!(name, "host" | ":path").then_some("name it elsewhere");
            let name = header_name(text, &Node::root(&Value::Null, &errors), reserved);
            let mistakes: Vec<String> = errors.into_vec().iter().map(Error::to_string).collect();
            assert_eq!(name.as_deref(), expected.ok(), "{text}");
            assert_eq!(mistakes, expected.err().into_iter().collect::<Vec<_>>());
        }
    }
}
