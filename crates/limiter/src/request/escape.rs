//! Percent-encoding: the escapes of a URL (RFC 3986 §2.1).

/// The length of an escape in bytes.
pub const LENGTH: usize = 3;

/// The byte that the escape at the start of `text` encodes, or `None` if `text` does not start with
/// an escape. A `%` without two hexadecimal digits after it is no escape.
#[must_use]
pub fn leading(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else { return None };
    Some(digit(*high)? << 4 | digit(*low)?)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_is_a_percent_sign_and_two_digits() {
        for (text, byte) in [
            ("%41", Some(0x41)),
            ("%4aB", Some(0x4a)),
            ("%fF", Some(0xff)),
            ("%00", Some(0)),
            ("%4", None),
            ("%", None),
            ("", None),
            ("41", None),
            ("a%41", None),
            ("%4g", None),
            ("%g4", None),
            ("%+4", None),
        ] {
            assert_eq!(leading(text.as_bytes()), byte, "{text}");
        }
    }
}
