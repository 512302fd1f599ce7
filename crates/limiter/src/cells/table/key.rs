//! The names of a table's keys.

/// The size of a key: `diana/`, eleven characters for the table, four for the index.
const KEY_SIZE: usize = 21;

const START: &[u8] = b"diana/";

/// The name of one key. The prefix `diana/` lets a host put the key into a zone of that name.
/// Within a table, keys differ only in the last four bytes. The CRC-32 of equally long keys that
/// differ only there never collides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key([u8; KEY_SIZE]);

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Writes `number` into `to`, six bits per byte.
fn write_digits(number: u64, to: &mut [u8]) {
    let mut rest = number;
    for byte in to {
        let digit = DIGITS.get(usize::try_from(rest & 63).unwrap_or(usize::MAX));
        debug_assert!(digit.is_some(), "six bits are a digit");
        *byte = digit.copied().unwrap_or(b'A');
        rest >>= 6;
    }
}

impl Key {
    /// The first key of the table with this name.
    pub(super) fn first(name: u64) -> Key {
        let mut key = [b'A'; KEY_SIZE];
        key.iter_mut().zip(START).for_each(|(to, from)| *to = *from);
        if let Some(digits) = key.get_mut(6..17) {
            write_digits(name, digits);
        }
        Key(key)
    }

    /// The key of the same table for the set at this index.
    pub(super) fn at(mut self, index: u64) -> Key {
        if let Some(digits) = self.0.get_mut(17..) {
            write_digits(index, digits);
        }
        self
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Whether this is the key of a table, and not of the seed, for example.
pub(super) fn is_of_table(key: &[u8]) -> bool {
    let digits = key.strip_prefix(START).filter(|_| key.len() == KEY_SIZE);
    digits.is_some_and(|digits| digits.iter().all(|byte| DIGITS.contains(byte)))
}
