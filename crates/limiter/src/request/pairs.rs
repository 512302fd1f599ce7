//! Header maps in the proxy-wasm ABI's serialised form, read in place.
//!
//! ```text
//!   count u32 │ size of name u32, size of value u32 │ … │ name 0 value 0 │ …        little-endian
//! ```

use diana_base::narrowed;
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
    let size = |len: usize| {
        let size = u32::try_from(len);
        debug_assert!(size.is_ok(), "a header of 4 GiB");
        size.unwrap_or(0).to_le_bytes()
    };
    let capacity =
        |(name, value): (&[u8], &[u8])| name.len().saturating_add(value.len()).saturating_add(SIZES + 2);
    let capacity = lines.clone().map(capacity).fold(HEAD, usize::saturating_add);
    let mut bytes = Vec::with_capacity(capacity);
    // `extend` adds an array byte by byte.
    bytes.extend_from_slice(&size(lines.len()));
    for (name, value) in lines.clone() {
        bytes.extend_from_slice(&size(name.len()));
        bytes.extend_from_slice(&size(value.len()));
    }
    for text in lines.flat_map(|(name, value)| [name, value]) {
        bytes.extend_from_slice(text);
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
        let count = narrowed(count.into());
        let sizes = bytes.get(HEAD..).unwrap_or_default();
        let (sizes, rest) = sizes.split_at_checked(count.saturating_mul(SIZES)).unwrap_or_default();
        Pairs { sizes, rest }
    }

    /// The value of the header `name`, which is lower case, if all of its lines are the same bytes.
    /// Finds what iterating finds, in a third of the time.
    pub(super) fn only(&self, name: &[u8]) -> Option<&'b [u8]> {
        let (sizes, _) = self.sizes.as_chunks::<SIZES>();
        let (mut rest, mut found) = (self.rest, None);
        for size in sizes {
            let both = u64::from_le_bytes(*size);
            let (name_size, value_size) = (narrowed(both & u64::from(u32::MAX)), narrowed(both >> 32));
            // One byte follows either.
            let value_at = name_size.saturating_add(1);
            let Some((pair, [_, tail @ ..])) = rest.split_at_checked(value_at.saturating_add(value_size))
            else {
                break;
            };
            rest = tail;
            if name_size == name.len() && pair.get(..name_size).is_some_and(|own| is_name(own, name)) {
                let value = pair.get(value_at..);
                if found.is_some() && found != value {
                    return None;
                }
                found = value;
            }
        }
        found
    }

    /// The elements of a list in the encoding of the ABI, in which each is the name of a pair with
    /// an empty value. `None` if these bytes are no such list.
    #[must_use]
    pub fn list(bytes: &'b [u8]) -> Option<Vec<&'b [u8]>> {
        let count = narrowed(u32::from_le_bytes(*bytes.first_chunk()?).into());
        let mut pairs = Pairs::of(bytes);
        if pairs.sizes.len() != count.checked_mul(SIZES)? || count == 0 && bytes.len() != HEAD {
            return None;
        }
        let mut elements = Vec::new();
        for (element, value) in pairs.by_ref() {
            elements.push(element);
            if !value.is_empty() {
                return None;
            }
        }
        (elements.len() == count && pairs.rest.is_empty()).then_some(elements)
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

/// Whether these bytes, as many as `name` has, are the name. Most hosts write names in lower case.
fn is_name(own: &[u8], name: &[u8]) -> bool {
    let ends = |bytes: &[u8]| Some((bytes.first_chunk::<8>().copied()?, bytes.last_chunk::<8>().copied()?));
    let is_same = name.len() <= 16 && ends(name).is_some_and(|name| ends(own) == Some(name));
    is_same || own.eq_ignore_ascii_case(name)
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

    #[test]
    fn a_list_is_recognized() {
        let list = |elements: &[&str]| {
            encode_bytes(&elements.iter().map(|element| (element.as_bytes(), &b""[..])).collect::<Vec<_>>())
        };
        for elements in [&[][..], &[""], &["admin"], &["admin", "", "a\0b"]] {
            let expected: Vec<&[u8]> = elements.iter().map(|element| element.as_bytes()).collect();
            assert_eq!(Pairs::list(&list(elements)), Some(expected));
        }
        let map = encode(&[("a", "b".into())]);
        let whole = list(&["admin"]);
        let longer = [&whole[..], b"x"].concat();
        let number = 1.0f64.to_le_bytes();
        for other in [&map[..], &whole[..whole.len() - 1], &longer, &number, &[0; 8], b"gold", b"", &[1]] {
            assert_eq!(Pairs::list(other), None, "{other:?}");
        }
    }

    proptest! {
        /// Also of maps that end early, and of names of all lengths.
        #[test]
        fn the_only_value_is_that_of_all_lines(
            headers in prop::collection::vec(("[aB]{0,2}|[xX]-user-i[dD]|x-request-(id|of)|x-a-long-header-name", "[xy]{0,2}"), 0..6),
            cut in 0usize..20,
        ) {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, value.into())).collect();
            let bytes = encode(&headers);
            let bytes = &bytes[..bytes.len().saturating_sub(cut)];
            for name in ["", "a", "ab", "x-user-id", "x-request-id", "x-a-long-header-name"] {
                let lines = values(bytes, name.as_bytes());
                let only = lines.first().copied().filter(|first| lines.iter().all(|line| line == first));
                prop_assert_eq!(Pairs::of(bytes).only(name.as_bytes()), only, "{}", name);
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>, count in 0u8..9, sizes in prop::collection::vec(0u8..9, 0..99)) {
            values(&bytes, b"a");
            let few = [&[count, 0, 0, 0][..], &sizes].concat();
            let lines = values(&few, b"a");
            let only = lines.first().copied().filter(|first| lines.iter().all(|line| line == first));
            prop_assert_eq!(Pairs::of(&few).only(b"a"), only);
        }
    }
}
