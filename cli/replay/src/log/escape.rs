//! Removes the escapes of nginx: `\xNN`, and those of `escape=json`.

use memchr::memmem;
use std::borrow::Cow;

/// Appends `text` to `to` without its escapes. A backslash that begins no escape stays.
pub fn unescape(text: &[u8], to: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'\\' {
            to.push(*first);
            continue;
        }
        let (value, length) = match behind {
            [b'x', high, low, ..] => (hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low), 3),
            [b'u', b'0', b'0', high, low, ..] => {
                (hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low), 5)
            }
            [b'n', ..] => (Some(b'\n'), 1),
            [b'r', ..] => (Some(b'\r'), 1),
            [b't', ..] => (Some(b'\t'), 1),
            [b'b', ..] => (Some(8), 1),
            [b'f', ..] => (Some(12), 1),
            [plain @ (b'"' | b'\\' | b'/'), ..] => (Some(*plain), 1),
            _ => (None, 0),
        };
        match value {
            Some(value) => {
                to.push(value);
                rest = behind.get(length..).unwrap_or_default();
            }
            None => to.push(b'\\'),
        }
    }
}

/// The line with `\xNN` as JSON: nginx writes such escapes unless its format has `escape=json`.
/// Such escapes are not JSON.
pub fn of_json(line: &[u8]) -> Cow<'_, [u8]> {
    if memmem::find(line, b"\\x").is_none() {
        return line.into();
    }
    let (mut json, mut rest) = (Vec::with_capacity(line.len()), line);
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let value = match (first, behind) {
            (b'\\', [b'x', high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        let length = match (value, first, behind) {
            (Some((high, low)), ..) => {
                match high << 4 | low {
                    // A byte of a character in UTF-8.
                    byte @ 0x80.. => json.push(byte),
                    byte => json.extend(format!("\\u{byte:04x}").bytes()),
                }
                3
            }
            (None, b'\\', [escaped, ..]) => {
                json.extend([b'\\', *escaped]);
                1
            }
            _ => {
                json.push(*first);
                0
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    json.into()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(text: &str) -> Vec<u8> {
        let mut to = Vec::new();
        unescape(text.as_bytes(), &mut to);
        to
    }

    #[test]
    fn each_escape_becomes_its_byte() {
        assert_eq!(plain(r#"a\x22b\x5Cc\xe9"#), b"a\"b\\c\xe9");
        assert_eq!(plain(r#"\"\\\/\n\r\t\b\f\u001f"#), b"\"\\/\n\r\t\x08\x0c\x1f");
        assert_eq!(plain(r"\xZZ \q \x1 \"), br"\xZZ \q \x1 \");
    }

    #[test]
    fn only_escapes_that_json_lacks_change() {
        let json = |line: &str| String::from_utf8(of_json(line.as_bytes()).into_owned()).unwrap();
        assert_eq!(json(r#"{"a": "\x22\xC3\xa9\x5C\n"}"#), r#"{"a": "\u0022é\u005c\n"}"#);
        for line in [r#"{"a": "\\x22 \\\" é"}"#, r"\x", r"\x2", r"\xg0 \", "x22"] {
            assert_eq!(json(line), line);
        }
    }

    proptest! {
        #[test]
        fn what_nginx_escapes_comes_back(value: Vec<u8>) {
            let escape = |byte: &u8| match byte {
                b'"' | b'\\' | 0..32 | 127.. => format!("\\x{byte:02X}"),
                byte => char::from(*byte).to_string(),
            };
            let escaped: String = value.iter().map(escape).collect();
            prop_assert_eq!(plain(&escaped), value);
        }
    }
}
