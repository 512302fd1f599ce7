//! Reads a document: JSON text, or a message in protobuf's wire form.

use super::errors::Error;
use super::structure;
use super::value::Value;

/// Reads a document: JSON text, or a `google.protobuf.Struct` in its wire form. The error names the
/// line and the column of the text.
///
/// ```
/// use diana_document::{Value, parse};
///
/// let expected = Value::Object(vec![("rpu".into(), Value::Whole(1_000))]);
/// assert_eq!(parse(br#"{"rpu": 1e3}"#)?, expected);
/// // As Envoy passes the YAML `a: true`.
/// let message = b"\x0a\x07\x0a\x01a\x12\x02\x20\x01";
/// assert_eq!(parse(message)?, Value::Object(vec![("a".into(), Value::Bool(true))]));
/// let error = parse(br#"{"a" 1}"#).map_err(|error| error.to_string());
/// assert_eq!(error, Err("not valid JSON: expected `:` at line 1 column 6".into()));
/// # Ok::<(), diana_document::Error>(())
/// ```
pub fn parse(bytes: &[u8]) -> Result<Value, Error> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(wrong("the configuration is empty".into()));
    }
    let not_json = |error| {
        // A string or a server's response often contains YAML by mistake. YAML in the gateway's own
        // file arrives as a `Struct`.
        let hint = match bytes.trim_ascii_start() {
            [b'{' | b'[' | b'"', ..] => "",
            [b'<', ..] => "; it begins as a page of HTML does",
            _ => {
                "; YAML is read only where the gateway takes a structure: in a string, and on a server, write JSON"
            }
        };
        wrong(format!("not valid JSON: {error}{hint}"))
    };
    // A `Struct` starts with 0x0a, a line feed in text, so the bytes are tried as JSON first.
    serde_json::from_slice(bytes).or_else(|error| structure::parse(bytes).ok_or(error)).map_err(not_json)
}

/// A mistake about the document itself.
fn wrong(why: String) -> Error {
    Error { path: String::new(), why, key: None }
}

/// Reads JSON text only, for documents that a client sends.
///
/// ```
/// use diana_document::{Value, parse_json};
///
/// assert_eq!(parse_json(b"[0]"), Some(Value::List(vec![Value::Whole(0)])));
/// assert_eq!(parse_json(b"<html>"), None);
/// ```
#[must_use]
pub fn parse_json(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_fraction_is_whole_however_it_is_written() {
        for json in ["1000", "1e3", "1000.0"] {
            assert_eq!(parse(json.as_bytes()).unwrap(), Value::Whole(1000));
        }
        assert_eq!(parse(b"-1").unwrap(), Value::Number(-1.0));
        assert_eq!(parse(b"0.5").unwrap(), Value::Number(0.5));
        assert_eq!(parse(b"1e300").unwrap(), Value::Number(1e300));
    }

    #[test]
    fn a_value_prints_as_the_json_it_was() {
        let json = r#"{"a":[1,-1.5,null,true],"b\"c":"d\ne","a":{}}"#;
        assert_eq!(parse(json.as_bytes()).unwrap().to_string(), json);
    }

    #[test]
    fn an_empty_document_says_so() {
        assert_eq!(parse(b" \n").unwrap_err().to_string(), "the configuration is empty");
        assert!(parse(b"{").unwrap_err().to_string().starts_with("not valid JSON: EOF"));
    }
}
