//! Header maps in the proxy-wasm ABI's serialised form, read in place.
//!
//! ```text
//!   count u32 │ size of name u32, size of value u32 │ … │ name 0 value 0 │ …        little-endian
//! ```

use std::borrow::Cow;

const HEAD: usize = 4;
const SIZES: usize = 8;

/// The serialised form of these headers.
#[must_use]
pub fn encode(headers: &[(&str, Cow<str>)]) -> Vec<u8> {
    encode_all(headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
}

/// The serialised form of these lines, whose values need not be text.
#[must_use]
pub fn encode_bytes(lines: &[(&[u8], &[u8])]) -> Vec<u8> {
    encode_all(lines.iter().copied())
}

fn encode_all<'a>(lines: impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])> + Clone) -> Vec<u8> {
    let size = |len: usize| u32::try_from(len).unwrap_or(0).to_le_bytes();
    let capacity =
        |(name, value): (&[u8], &[u8])| name.len().saturating_add(value.len()).saturating_add(SIZES + 2);
    let capacity = lines.clone().map(capacity).fold(HEAD, usize::saturating_add);
    let mut bytes = Vec::with_capacity(capacity);
    bytes.extend(size(lines.len()));
    for (name, value) in lines.clone() {
        bytes.extend(size(name.len()));
        bytes.extend(size(value.len()));
    }
    for text in lines.flat_map(|(name, value)| [name, value]) {
        bytes.extend(text);
        bytes.push(0);
    }
    bytes
}

/// The names and values of a serialised map, in order. The iterator ends at the first malformed
/// pair.
///
/// ```
/// use diana_limiter::request::pairs::{Pairs, encode};
///
/// let map = encode(&[(":path", "/orders".into()), ("x-plan", "free".into())]);
/// let mut pairs = Pairs::of(&map);
/// assert_eq!(pairs.next(), Some((&b":path"[..], &b"/orders"[..])));
/// assert_eq!(pairs.next(), Some((&b"x-plan"[..], &b"free"[..])));
/// assert_eq!(pairs.next(), None);
/// ```
#[derive(Clone, Debug)]
pub struct Pairs<'b> {
    sizes: &'b [u8],
    rest: &'b [u8],
}

impl<'b> Pairs<'b> {
    /// The pairs in `bytes`.
    #[must_use]
    pub fn of(bytes: &'b [u8]) -> Pairs<'b> {
        let count = bytes.first_chunk().map_or(0, |count| u32::from_le_bytes(*count));
        let count = usize::try_from(count).unwrap_or(0);
        let sizes = bytes.get(HEAD..).unwrap_or_default();
        let (sizes, rest) = sizes.split_at_checked(count.saturating_mul(SIZES)).unwrap_or_default();
        Pairs { sizes, rest }
    }

    fn pair(&mut self) -> Option<(&'b [u8], &'b [u8])> {
        let (sizes, tail) = self.sizes.split_first_chunk::<SIZES>()?;
        self.sizes = tail;
        let (name, value) = (sizes.first_chunk()?, sizes.last_chunk()?);
        Some((self.take(*name)?, self.take(*value)?))
    }

    /// Takes `size` bytes from the front and skips the zero byte after them.
    fn take(&mut self, size: [u8; 4]) -> Option<&'b [u8]> {
        let size = usize::try_from(u32::from_le_bytes(size)).ok()?;
        let (taken, rest) = self.rest.split_at_checked(size)?;
        let (_, rest) = rest.split_first()?;
        self.rest = rest;
        Some(taken)
    }
}

impl<'b> Iterator for Pairs<'b> {
    type Item = (&'b [u8], &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.pair();
        if pair.is_none() {
            self.sizes = &[];
        }
        pair
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::HeaderLines;
    use proptest::prelude::*;

    fn values<'b>(bytes: &'b [u8], name: &'b [u8]) -> Vec<&'b [u8]> {
        HeaderLines::Named(Pairs::of(bytes), name).collect()
    }

    #[test]
    fn all_lines_of_a_name_are_found_in_their_order() {
        let headers = [("a", "1"), ("Cookie", "x=1"), ("b", ""), ("cookie", "y=2"), ("a", "3")];
        let bytes = encode(&headers.map(|(name, value)| (name, value.into())));
        assert_eq!(values(&bytes, b"cookie"), [b"x=1", b"y=2"]);
        assert_eq!(values(&bytes, b"a"), [b"1", b"3"]);
        assert_eq!(values(&bytes, b"b"), [b""]);
        assert!(values(&bytes, b"c").is_empty());
        assert_eq!(values(&bytes[..bytes.len() - 1], b"a"), [b"1"], "the last one is cut off");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>, count in 0u8..9, sizes in prop::collection::vec(0u8..9, 0..99)) {
            values(&bytes, b"a");
            values(&[&[count, 0, 0, 0][..], &sizes].concat(), b"a");
        }
    }
}
