//! The layout of a table: the names of its keys, and the positions of cells in a value.

use diana_base::part;

/// Ways in a value. With more ways fewer spare ones would do, but a value would cost more to copy,
/// and more swaps would be lost.
const WAYS: usize = 16;

/// The size of the format number and the checksum.
const HEADER: usize = 8;
/// Distinguishes this layout of a value from later ones.
const FORMAT: u32 = 1;
const FINGERPRINT: usize = 8;

/// The size of a key: `diana/`, eleven characters for the table, four for the index.
const KEY_SIZE: usize = 21;

const START: &[u8] = b"diana/";

/// The name of one key. The prefix `diana/` lets a host put the key into a zone of that name.
/// Within a table, keys differ only in the last four bytes. The CRC-32 of equally long keys that
/// differ only there never collides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key([u8; KEY_SIZE]);

impl Key {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The part of a key that all keys of a table have.
const PREFIX_SIZE: usize = 17;

/// Tells the keys of one table from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableId([u8; PREFIX_SIZE]);

impl TableId {
    /// The table of a key. `None` if the key is no table's: it has the seed, for example.
    #[must_use]
    pub fn of_key(key: &[u8]) -> Option<TableId> {
        let (prefix, index) = key.split_first_chunk()?;
        let digits = key.strip_prefix(START)?;
        let is_key = index.len() == KEY_SIZE - PREFIX_SIZE && digits.iter().all(|byte| DIGITS.contains(byte));
        is_key.then_some(TableId(*prefix))
    }
}

pub(super) enum Lookup {
    Way(usize),
    Free(usize),
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    prefix: [u8; KEY_SIZE],
    sets: u32,
    ways: usize,
    cell: usize,
}

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

impl Layout {
    /// A hash of the keys' prefix.
    pub(super) fn number(&self) -> u64 {
        super::Hasher::name(&self.prefix)
    }

    pub(super) fn id(&self) -> TableId {
        let prefix = self.prefix.first_chunk();
        debug_assert!(prefix.is_some(), "a key is longer than its prefix");
        TableId(prefix.copied().unwrap_or([b'A'; PREFIX_SIZE]))
    }

    pub(super) fn new(name: u64, cell: usize, actors: u64) -> Layout {
        let ways = if actors <= 1 { 1 } else { WAYS };
        // Twice the room: 16 ways for every 8 actors. Four digits can name 2²⁴ sets.
        let sets = if actors <= 1 { 1 } else { actors.div_ceil(8).clamp(1, 1 << 24) };
        let mut prefix = [b'A'; KEY_SIZE];
        prefix.iter_mut().zip(START).for_each(|(to, from)| *to = *from);
        if let Some(digits) = prefix.get_mut(6..17) {
            write_digits(name, digits);
        }
        Layout { prefix, sets: u32::try_from(sets).unwrap_or(1), ways, cell }
    }

    pub(super) fn sets(&self) -> u32 {
        self.sets
    }

    pub(super) fn ways(&self) -> usize {
        self.ways
    }

    pub(super) fn cell_size(&self) -> usize {
        self.cell
    }

    pub(super) fn value_size(&self) -> usize {
        self.way_size().saturating_mul(self.ways).saturating_add(HEADER)
    }

    fn way_size(&self) -> usize {
        self.cell.saturating_add(FINGERPRINT)
    }

    /// The key whose value holds the cell of `hash`. The high bits choose the set: the hash times
    /// the number of sets, divided by 2⁶⁴, is evenly spread and needs no division (Lemire 2019,
    /// "Fast random integer generation in an interval").
    pub(super) fn key(&self, hash: u64) -> Key {
        let index = u128::from(hash).saturating_mul(self.sets.into()) >> 64;
        let mut key = self.prefix;
        if let Some(digits) = key.get_mut(17..) {
            write_digits(u64::try_from(index).unwrap_or(0), digits);
        }
        Key(key)
    }

    pub(super) fn empty(&self) -> Vec<u8> {
        vec![0; self.value_size()]
    }

    /// The fingerprint of a hash; zero marks a free way.
    fn mark_of(hash: u64) -> u64 {
        hash.max(1)
    }

    /// The fingerprint of a way: the hash of its actor, or zero.
    pub(super) fn fingerprint(&self, value: &[u8], way: usize) -> u64 {
        let bytes = value.get(self.way_start(way)..).and_then(|rest| rest.first_chunk());
        debug_assert!(bytes.is_some(), "a value of another table");
        bytes.map_or(0, |fingerprint| u64::from_le_bytes(*fingerprint))
    }

    pub(super) fn find(&self, value: &[u8], hash: u64) -> Lookup {
        let ways = part(value, HEADER..).chunks_exact(self.way_size());
        let mut free = None;
        for (way, bytes) in ways.enumerate() {
            match bytes.first_chunk().map(|fingerprint| u64::from_le_bytes(*fingerprint)) {
                Some(fingerprint) if fingerprint == Layout::mark_of(hash) => return Lookup::Way(way),
                Some(0) if free.is_none() => free = Some(way),
                _ => {}
            }
        }
        free.map_or(Lookup::Full, Lookup::Free)
    }

    pub(super) fn mark(&self, value: &mut [u8], way: usize, hash: u64) {
        let from = self.way_start(way);
        if let Some(bytes) = value.get_mut(from..).and_then(|rest| rest.first_chunk_mut()) {
            *bytes = Layout::mark_of(hash).to_le_bytes();
        }
    }

    fn way_start(&self, way: usize) -> usize {
        way.saturating_mul(self.way_size()).saturating_add(HEADER)
    }

    pub(super) fn cell<'v>(&self, value: &'v [u8], way: usize) -> &'v [u8] {
        let from = self.way_start(way).saturating_add(FINGERPRINT);
        part(value, from..from.saturating_add(self.cell))
    }

    pub(super) fn cell_mut<'v>(&self, value: &'v mut [u8], way: usize) -> &'v mut [u8] {
        let from = self.way_start(way).saturating_add(FINGERPRINT);
        let cell = value.get_mut(from..from.saturating_add(self.cell));
        debug_assert!(cell.is_some(), "a value of another table");
        cell.unwrap_or_default()
    }

    pub(super) fn seal(&self, key: &Key, value: &mut [u8]) {
        let header = u64::from(self.checksum(key, value)) << 32 | u64::from(FORMAT);
        let place = value.first_chunk_mut();
        debug_assert!(place.is_some(), "a value without a header");
        place.into_iter().for_each(|to| *to = header.to_le_bytes());
    }

    pub(super) fn is_ours(&self, key: &Key, value: &[u8]) -> bool {
        let word = |at: usize| value.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        value.len() == self.value_size()
            && word(0) == Some(FORMAT)
            && word(4) == Some(self.checksum(key, value))
    }

    /// The checksum of the key and of all bytes after the header. It detects accidents, not
    /// forgeries: a writer of shared data can also write a checksum. The mixing step is that of
    /// FxHash (Firefox), eight bytes at a time. Four independent sums let the processor work on
    /// four steps at once.
    fn checksum(&self, key: &Key, value: &[u8]) -> u32 {
        const K: u64 = 0x517c_c1b7_2722_0a95;
        let mix = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(K);
        // Less than eight bytes, as if zeros followed.
        let last = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let body = part(value, HEADER..);
        let (whole, rest) = body.as_chunks::<8>();
        let (fours, others) = whole.as_chunks::<4>();
        let (mut a, mut b, mut c, mut d) = (0, 1, 2, 3);
        for [first, second, third, fourth] in fours {
            a = mix(a, u64::from_le_bytes(*first));
            b = mix(b, u64::from_le_bytes(*second));
            c = mix(c, u64::from_le_bytes(*third));
            d = mix(d, u64::from_le_bytes(*fourth));
        }
        let (of_key, last_of_key) = key.0.as_chunks::<8>();
        let mut sum = of_key.iter().fold(0, |sum, bytes| mix(sum, u64::from_le_bytes(*bytes)));
        sum = mix(sum, last(last_of_key));
        sum = [a, b, c, d].into_iter().fold(sum, mix);
        sum = others.iter().fold(sum, |sum, bytes| mix(sum, u64::from_le_bytes(*bytes)));
        sum = mix(sum, last(rest));
        u32::try_from(sum >> 32).unwrap_or(0)
    }
}
