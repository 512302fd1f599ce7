//! The characters of a path: their spelling, and their meaning to each kind of backend.

use crate::request::escape;

/// How a backend answers the four questions of [`Readings`](super::Readings): a set of the flags
/// below.
pub type Reading = u8;
/// As RFC 3986 reads a path: no flag is set.
pub const STRICT: Reading = 0;
/// The backend decodes escapes before it splits the path, so `%2f` separates as `/` does.
pub const DECODES: Reading = 1;
/// `\` separates as `/` does.
pub const BACKSLASH: Reading = 2;
/// The backend drops `;` and the text after it from a segment before it resolves dot segments.
pub const PARAMETERS: Reading = 4;
/// After two or more leading separators, the text up to the next separator is a host.
pub const AUTHORITY: Reading = 8;

/// One character of a path, spelt literally or as an escape.
pub struct Unit<'a> {
    /// The decoded byte.
    pub byte: u8,
    text: &'a [u8],
}

impl Unit<'_> {
    /// Whether the character is written `%xx`.
    pub fn is_escape(&self) -> bool {
        self.text.len() > 1
    }

    /// Whether the character ends a segment for a backend with these `flags`.
    pub fn separates(&self, flags: Reading) -> bool {
        self.counts_for(flags) && (self.byte == b'/' || self.byte == b'\\' && flags & BACKSLASH != 0)
    }

    /// Whether the character ends a segment for some backend.
    pub fn may_separate(&self) -> bool {
        matches!(self.byte, b'/' | b'\\')
    }

    /// Whether the character starts parameters for a backend with these `flags`.
    pub fn cuts(&self, flags: Reading) -> bool {
        self.counts_for(flags) && self.byte == b';' && flags & PARAMETERS != 0
    }

    fn counts_for(&self, flags: Reading) -> bool {
        !self.is_escape() || flags & DECODES != 0
    }

    /// Whether the character is spelt as in a normal path.
    pub fn is_normal(&self) -> bool {
        match self.byte {
            byte if is_plain(byte) => !self.is_escape(),
            b'/' if !self.is_escape() => true,
            _ => self.is_escape() && !self.text.iter().any(u8::is_ascii_lowercase),
        }
    }

    /// Appends the character as it is spelt in a normal path.
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

/// Whether a byte may stand literally in a segment: `pchar` of RFC 3986 §3.3 without escapes.
pub fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}
