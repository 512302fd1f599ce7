//! Strings in JSON.

use diana_base::format::is_plain;

/// Appends a JSON string (RFC 8259 §7).
///
/// ```
/// let mut body = String::from(r#"{"rule":"#);
/// diana_response::json_string(&mut body, "a \"b\"");
/// assert_eq!(body, r#"{"rule":"a \"b\"""#);
/// ```
pub fn json_string(to: &mut String, text: &str) {
    match is_plain(text) {
        true => {
            to.push('"');
            to.push_str(text);
            to.push('"');
        }
        false => to.push_str(&serde_json::to_string(text).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn json_reads_back(text in ".*|[\\x00-\\x1f\"\\\\]{0,8}") {
            let mut written = String::new();
            json_string(&mut written, &text);
            let read: String = serde_json::from_str(&written).unwrap();
            prop_assert_eq!(read, text);
        }
    }
}
