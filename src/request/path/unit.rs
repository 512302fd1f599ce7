//! The characters of a path: how each is spelt, and what it means to which backend.
//!
//! It does not know: segments, or which paths there are.

use crate::request::escape;

/// How a backend answers the four questions: a set of the flags below.
pub type Reading = u8;
/// As RFC 3986 reads a path: no to all four.
pub const STRICT: Reading = 0;
/// Escapes are decoded before the path is taken apart, so that `%2f` separates as `/` does.
pub const DECODES: Reading = 1;
/// `\` separates as `/` does.
pub const BACKSLASH: Reading = 2;
/// What follows `;` in a segment is dropped, before dot segments are resolved.
pub const PARAMETERS: Reading = 4;
/// What follows two or more separators at the beginning, up to the next one, is a host and no segment.
pub const AUTHORITY: Reading = 8;

/// One character of a path and how it is spelt: as it is, or as an escape.
pub struct Unit<'a> {
    /// The byte that is meant.
    pub byte: u8,
    text: &'a [u8],
}

impl Unit<'_> {
    /// Whether it is written `%xx`.
    pub fn is_escape(&self) -> bool {
        self.text.len() > 1
    }

    /// Whether it ends a segment for a backend of this way.
    pub fn separates(&self, way: Reading) -> bool {
        self.is_seen(way) && (self.byte == b'/' || self.byte == b'\\' && way & BACKSLASH != 0)
    }

    /// Whether it ends a segment for a backend of any way.
    pub fn may_separate(&self) -> bool {
        matches!(self.byte, b'/' | b'\\')
    }

    /// Whether it begins parameters for a backend of this way.
    pub fn cuts(&self, way: Reading) -> bool {
        self.is_seen(way) && self.byte == b';' && way & PARAMETERS != 0
    }

    fn is_seen(&self, way: Reading) -> bool {
        !self.is_escape() || way & DECODES != 0
    }

    /// Whether it is spelt as in a normal path.
    pub fn is_normal(&self) -> bool {
        match self.byte {
            byte if is_plain(byte) => !self.is_escape(),
            b'/' if !self.is_escape() => true,
            _ => self.is_escape() && !self.text.iter().any(u8::is_ascii_lowercase),
        }
    }

    /// Appends it as it is spelt in a normal path.
    pub fn write(&self, out: &mut Vec<u8>) {
        const HEX: [u8; 16] = *b"0123456789ABCDEF";
        let hex = |digit: u8| HEX.get(usize::from(digit)).copied().unwrap_or(b'0');
        if is_plain(self.byte) {
            out.push(self.byte);
        } else {
            out.extend([b'%', hex(self.byte >> 4), hex(self.byte & 15)]);
        }
    }
}

/// The characters of a path, each escape decoded once.
pub fn units(mut path: &[u8]) -> impl Iterator<Item = Unit<'_>> {
    std::iter::from_fn(move || {
        let (length, byte) = match escape::leading(path) {
            Some(byte) => (escape::LENGTH, byte),
            None => (1, *path.first()?),
        };
        let (text, rest) = path.split_at_checked(length)?;
        path = rest;
        Some(Unit { byte, text })
    })
}

/// Whether a byte may stand in a segment as it is: `pchar` of RFC 3986 §3.3, escapes aside.
pub fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}
