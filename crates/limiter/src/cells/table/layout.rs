//! The layout of a value: which states it holds, and where. A value says this itself, so that a
//! worker of any document finds the states that it knows, and keeps the others.
//!
//! ```text
//!   the value has   a  b  d        a worker knows   b  c        it writes   a  b  c  d
//!                                                               a and d as they were
//! ```

use super::key::Key;
use super::seed::Hasher;
use diana_base::part;
use diana_base::time::{Span, Time};

/// Ways in a value. With more ways fewer spare ones would do, but a value would cost more to copy,
/// and more swaps would be lost.
const WAYS: usize = 16;

/// The size of the format, the number of states and the checksum.
const HEADER: usize = 8;
/// Distinguishes this format from earlier and later ones. The lower 24 bits are the number of
/// states.
const FORMAT: u32 = 3 << 24;
const COUNT: u32 = (1 << 24) - 1;
const FINGERPRINT: usize = 8;

/// The bytes of a state in the header: its identity and its size, and behind those of all states
/// its end.
const ENTRY: usize = 8;
const ENDS: usize = 4;

/// The most states that a worker keeps although it does not know them, unless it knows more itself:
/// those of eight rules, each with a count, a grant and a penalty or a limit.
pub const MAX_UNKNOWN: usize = 24;

/// The largest state, so that foreign bytes do not let values grow without bound.
pub const MAX_STATE: usize = 4_096;

/// How long a state is kept after it rests, because clocks differ, reservations return late, and
/// two documents that alternate must not lay a set out anew each time.
const MARGIN: Span = Span::from_secs(60);

/// A state of a cell: what one rule counts for one actor in one role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateEntry {
    /// What the state is, the same in each document.
    pub identity: u32,
    /// The size of the state in bytes, at most [`MAX_STATE`].
    pub size: usize,
    /// Whether a writer whose state is smaller leaves what lies behind, or zeroes it.
    pub keeps_rest: bool,
}

/// The seconds since 1970 that have passed at this instant.
fn seconds(at: Time) -> u32 {
    u32::try_from(at.as_ns().checked_div(1_000_000_000).unwrap_or(0)).unwrap_or(u32::MAX)
}

/// The end of a state that rests so long from `now`.
fn end(now: Time, rests_in: Span) -> u32 {
    seconds(now.after(rests_in).after(MARGIN)).saturating_add(1)
}

/// What the values of one table have in common.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    key: Key,
    pub(super) sets: u32,
    pub(super) ways: usize,
    /// The states that the table's workers know.
    pub(super) known: States,
    /// Whether a value with other states is foreign.
    is_fixed: bool,
}

/// States side by side.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct States {
    /// By identity, which is also their order in a cell.
    all: Vec<StateEntry>,
    /// The same as a value's header has them.
    entries: Vec<u8>,
    /// The size of a cell: the sum of their sizes.
    pub(super) cell: usize,
}

/// Where the states of a sound value lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    states: usize,
    /// The bytes of a way without its fingerprint.
    cell: usize,
    /// Whether the states are exactly those of the table.
    is_own: bool,
}

/// A state in a value.
#[derive(Clone, Copy)]
struct Stored {
    entry: StateEntry,
    /// Its number in the value.
    index: usize,
    /// Where it begins in each way, behind the fingerprint.
    at: usize,
}

pub(super) enum WayLookup {
    Way(usize),
    Free(usize),
    Full,
}

impl Shape {
    fn header(self) -> usize {
        self.states.saturating_mul(ENTRY.saturating_add(ENDS)).saturating_add(HEADER)
    }

    fn way_size(self) -> usize {
        self.cell.saturating_add(FINGERPRINT)
    }

    fn value_size(self, ways: usize) -> usize {
        self.way_size().saturating_mul(ways).saturating_add(self.header())
    }

    /// Where the cell of a way begins.
    fn cell_at(self, way: usize) -> usize {
        way.saturating_mul(self.way_size()).saturating_add(self.header()).saturating_add(FINGERPRINT)
    }

    fn cell(self, value: &[u8], way: usize) -> &[u8] {
        let from = self.cell_at(way);
        part(value, from..from.saturating_add(self.cell))
    }

    fn cell_mut(self, value: &mut [u8], way: usize) -> &mut [u8] {
        let from = self.cell_at(way);
        let cell = value.get_mut(from..from.saturating_add(self.cell));
        debug_assert!(cell.is_some(), "a value of another shape");
        cell.unwrap_or_default()
    }

    /// The states of a value, by identity.
    fn stored(self, value: &[u8]) -> impl Iterator<Item = Stored> {
        let mut at = 0usize;
        entries(value, self.states).enumerate().map(move |(index, entry)| {
            let stored = Stored { entry, index, at };
            at = at.saturating_add(entry.size);
            stored
        })
    }

    fn ends_at(self, index: usize) -> usize {
        let entries = self.states.saturating_mul(ENTRY).saturating_add(HEADER);
        index.saturating_mul(ENDS).saturating_add(entries)
    }

    /// The end of the state with this number.
    fn end(self, value: &[u8], index: usize) -> u32 {
        word(value, self.ends_at(index)).unwrap_or(0)
    }

    fn set_end(self, value: &mut [u8], index: usize, end: u32) {
        put(value, self.ends_at(index), end);
    }
}

fn word(value: &[u8], at: usize) -> Option<u32> {
    value.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn put(value: &mut [u8], at: usize, word: u32) {
    let place = value.get_mut(at..).and_then(|rest| rest.first_chunk_mut());
    debug_assert!(place.is_some(), "a value without its header");
    place.into_iter().for_each(|to| *to = word.to_le_bytes());
}

/// The entries of so many states in a value.
fn entries(value: &[u8], states: usize) -> impl Iterator<Item = StateEntry> {
    let bytes = part(value, HEADER..states.saturating_mul(ENTRY).saturating_add(HEADER));
    let (entries, _) = bytes.as_chunks::<ENTRY>();
    entries.iter().map(|[a, b, c, d, size @ ..]| {
        let size = usize::try_from(u32::from_le_bytes(*size)).unwrap_or(usize::MAX);
        StateEntry { identity: u32::from_le_bytes([*a, *b, *c, *d]), size, keeps_rest: false }
    })
}

/// The number of states of a value of this format, if the value is long enough for their header.
fn count(value: &[u8]) -> Option<usize> {
    let states = word(value, 0).filter(|word| word & !COUNT == FORMAT)? & COUNT;
    let states = usize::try_from(states).ok()?;
    let header = Shape { states, cell: 0, is_own: false }.header();
    (value.len() >= header).then_some(states)
}

/// When all states of a value of any table have ended. `None` if the bytes are no value of a table.
pub(super) fn ended_at(value: &[u8]) -> Option<Time> {
    let shape = Shape { states: count(value)?, cell: 0, is_own: false };
    let last = (0..shape.states).map(|index| shape.end(value, index)).max().unwrap_or(0);
    Some(Time::ZERO.after(Span::from_secs(last.into())))
}

impl States {
    fn new(all: Vec<StateEntry>) -> States {
        debug_assert!(all.is_sorted_by(|a, b| a.identity < b.identity), "each identity once, in order");
        let (mut entries, mut cell) = (Vec::new(), 0usize);
        for StateEntry { identity, size, .. } in &all {
            debug_assert!(*size <= MAX_STATE, "a state that would be foreign");
            entries.extend_from_slice(&identity.to_le_bytes());
            entries.extend_from_slice(&u32::try_from(*size).unwrap_or(u32::MAX).to_le_bytes());
            cell = cell.saturating_add(*size);
        }
        States { all, entries, cell }
    }

    /// The shape of a value with exactly these states. They are those of its table if `is_own`.
    fn shape(&self, is_own: bool) -> Shape {
        Shape { states: self.all.len(), cell: self.cell, is_own }
    }

    /// A value of so many ways with exactly these states, without actors and ends.
    fn empty(&self, ways: usize) -> Vec<u8> {
        let shape = self.shape(false);
        let mut value = vec![0; shape.value_size(ways)];
        put(&mut value, 0, FORMAT | u32::try_from(shape.states).unwrap_or(COUNT).min(COUNT));
        let place = value.get_mut(HEADER..HEADER.saturating_add(self.entries.len()));
        debug_assert!(place.is_some(), "a value without its header");
        place.into_iter().for_each(|to| to.copy_from_slice(&self.entries));
        value
    }

    /// Each of these states, with the one that the value has.
    fn each<'a>(
        &'a self,
        value: &'a [u8],
        shape: Shape,
    ) -> impl Iterator<Item = (StateEntry, Option<Stored>)> + 'a {
        let mut stored = shape.stored(value).peekable();
        self.all.iter().map(move |state| {
            while stored.next_if(|stored| stored.entry.identity < state.identity).is_some() {}
            (*state, stored.next_if(|stored| stored.entry.identity == state.identity))
        })
    }

    /// Copies these states of a way to a cell. What the value lacks is zero.
    fn gather(&self, value: &[u8], shape: Shape, way: usize, to: &mut Vec<u8>) {
        let from = shape.cell(value, way);
        for (own, stored) in self.each(value, shape) {
            let end = to.len().saturating_add(own.size);
            if let Some(Stored { entry, at, .. }) = stored {
                to.extend_from_slice(part(from, at..at.saturating_add(own.size.min(entry.size))));
            }
            to.resize(end, 0);
        }
    }
}

impl Layout {
    /// With `is_fixed`, values hold the known states only, and other states have other keys.
    pub(super) fn new(name: u64, states: Vec<StateEntry>, actors: u64, is_fixed: bool) -> Layout {
        let ways = if actors <= 1 { 1 } else { WAYS };
        // Twice the room: 16 ways for every 8 actors. Four digits can name 2²⁴ sets.
        let sets = if actors <= 1 { 1 } else { actors.div_ceil(8).clamp(1, 1 << 24) };
        let (sets, known) = (u32::try_from(sets).unwrap_or(1), States::new(states));
        let name = Hasher::of(&(name, sets, ways, is_fixed.then_some(&known.entries)));
        Layout { key: Key::first(name), sets, ways, known, is_fixed }
    }

    /// The size of a value with only the known states.
    pub(super) fn value_size(&self) -> usize {
        self.known.shape(true).value_size(self.ways)
    }

    /// The key whose value holds the cell of `hash`. The high bits choose the set: the hash times
    /// the number of sets, divided by 2⁶⁴, is evenly spread and needs no division (Lemire 2019,
    /// "Fast random integer generation in an interval").
    pub(super) fn key(&self, hash: u64) -> Key {
        let index = u128::from(hash).saturating_mul(self.sets.into()) >> 64;
        self.key.at(u64::try_from(index).unwrap_or(0))
    }

    /// A value without actors.
    pub(super) fn empty(&self) -> (Vec<u8>, Shape) {
        (self.known.empty(self.ways), self.known.shape(true))
    }

    /// The shape of a sound value under `key`; `None` if the bytes are foreign. The work is bounded
    /// by the length of the bytes.
    pub(super) fn open(&self, key: &Key, value: &[u8]) -> Option<Shape> {
        let states = count(value)?;
        let mut shape = self.known.shape(true);
        if states != shape.states || !value.get(HEADER..)?.starts_with(&self.known.entries) {
            if self.is_fixed {
                return None;
            }
            shape = Shape { states, cell: 0, is_own: false };
            let mut last = None;
            for StateEntry { identity, size, .. } in entries(value, states) {
                if Some(identity) <= last || size > MAX_STATE {
                    return None;
                }
                last = Some(identity);
                shape.cell = shape.cell.checked_add(size)?;
            }
        }
        let is_sound =
            value.len() == shape.value_size(self.ways) && word(value, 4) == Some(checksum(key, value));
        is_sound.then_some(shape)
    }

    pub(super) fn seal(key: &Key, value: &mut [u8]) {
        let checksum = checksum(key, value);
        put(value, 4, checksum);
    }

    /// The fingerprint of a hash; zero marks a free way.
    fn mark_of(hash: u64) -> u64 {
        hash.max(1)
    }

    /// The fingerprint of a way: the hash of its actor, or zero.
    pub(super) fn fingerprint(value: &[u8], shape: Shape, way: usize) -> u64 {
        let at = shape.cell_at(way).saturating_sub(FINGERPRINT);
        let bytes = value.get(at..).and_then(|rest| rest.first_chunk());
        debug_assert!(bytes.is_some(), "a value of another shape");
        bytes.map_or(0, |fingerprint| u64::from_le_bytes(*fingerprint))
    }

    pub(super) fn find(value: &[u8], shape: Shape, hash: u64) -> WayLookup {
        let ways = part(value, shape.header()..).chunks_exact(shape.way_size());
        let mut free = None;
        for (way, bytes) in ways.enumerate() {
            match bytes.first_chunk().map(|fingerprint| u64::from_le_bytes(*fingerprint)) {
                Some(fingerprint) if fingerprint == Layout::mark_of(hash) => return WayLookup::Way(way),
                Some(0) if free.is_none() => free = Some(way),
                _ => {}
            }
        }
        free.map_or(WayLookup::Full, WayLookup::Free)
    }

    /// Empties a way for the actor with this hash.
    pub(super) fn claim(value: &mut [u8], shape: Shape, way: usize, hash: u64) {
        let at = shape.cell_at(way).saturating_sub(FINGERPRINT);
        if let Some(bytes) = value.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            *bytes = Layout::mark_of(hash).to_le_bytes();
        }
        shape.cell_mut(value, way).fill(0);
    }

    /// Copies the known states of a way to a worker's cell. What the value lacks is zero.
    pub(super) fn gather(&self, value: &[u8], shape: Shape, way: usize, to: &mut Vec<u8>) {
        to.clear();
        match shape.is_own {
            true => to.extend_from_slice(shape.cell(value, way)),
            false => self.known.gather(value, shape, way, to),
        }
    }

    /// Writes a worker's cell to a way, whole, and raises the end of each known state. `rests_in`
    /// gets the index of a state and the state. First lays the value out anew if it lacks room, or
    /// has unknown states that have to go.
    pub(super) fn scatter(
        &self,
        (value, shape): (&mut Vec<u8>, &mut Shape),
        way: usize,
        cell: &[u8],
        now: Time,
        rests_in: impl Fn(usize, &[u8]) -> Span,
    ) {
        debug_assert_eq!(cell.len(), self.known.cell, "a cell of another table");
        if !shape.is_own
            && let Some(states) = self.union(value, *shape, now)
        {
            (*value, *shape) = self.relay(value, *shape, states);
        }
        let shape = *shape;
        if shape.is_own {
            shape.cell_mut(value, way).copy_from_slice(cell);
        }
        let mut places: Vec<Stored> = Vec::new();
        if !shape.is_own {
            places.extend(self.known.each(value, shape).filter_map(|(_, stored)| stored));
            debug_assert_eq!(places.len(), self.known.all.len(), "a value laid out without a known state");
        }
        let mut rest = cell;
        for (index, own) in self.known.all.iter().enumerate() {
            let Some((state, behind)) = rest.split_at_checked(own.size) else { break };
            rest = behind;
            let number = match places.get(index) {
                None => index,
                Some(Stored { entry, index, at }) => {
                    let place = *at..at.saturating_add(entry.size);
                    let place = shape.cell_mut(value, way).get_mut(place).unwrap_or_default();
                    // The state may have more bytes in another document.
                    if !own.keeps_rest {
                        place.fill(0);
                    }
                    place.iter_mut().zip(state).for_each(|(to, byte)| *to = *byte);
                    *index
                }
            };
            let end = end(now, rests_in(index, state)).max(shape.end(value, number));
            shape.set_end(value, number, end);
        }
    }

    /// Whether an unknown state of this way holds anything that has not ended.
    pub(super) fn holds_unknown(&self, value: &[u8], shape: Shape, way: usize, now: Time) -> bool {
        let cell = shape.cell(value, way);
        let mut unknown = self.unknown(value, shape).filter(|(_, end)| *end >= seconds(now));
        !shape.is_own
            && unknown.any(|(Stored { entry, at, .. }, _)| {
                part(cell, at..at.saturating_add(entry.size)).iter().any(|byte| *byte != 0)
            })
    }

    /// The states of a value that this table does not know, each with its end.
    fn unknown<'a>(&'a self, value: &'a [u8], shape: Shape) -> impl Iterator<Item = (Stored, u32)> + 'a {
        let is_known = |entry: &StateEntry| {
            self.known.all.binary_search_by_key(&entry.identity, |own| own.identity).is_ok()
        };
        let unknown = shape.stored(value).filter(move |stored| !is_known(&stored.entry));
        unknown.map(move |stored| (stored, shape.end(value, stored.index)))
    }

    /// The states that the value should have, by identity; `None` if it has exactly these: the
    /// known ones in the larger size, and of the others that have not ended those that end last.
    fn union(&self, value: &[u8], shape: Shape, now: Time) -> Option<Vec<StateEntry>> {
        let mut kept: Vec<(u32, StateEntry)> = Vec::new();
        let mut unknown = 0usize;
        for (stored, end) in self.unknown(value, shape) {
            unknown = unknown.saturating_add(1);
            if end >= seconds(now) {
                kept.push((end, stored.entry));
            }
        }
        let has_room = self
            .known
            .each(value, shape)
            .all(|(own, stored)| stored.is_some_and(|stored| stored.entry.size >= own.size));
        let most = MAX_UNKNOWN.max(self.known.all.len());
        if has_room && kept.len() == unknown && unknown <= most {
            return None;
        }
        diana_base::sort::sort_by_key(&mut kept, |(end, entry)| (*end, entry.identity));
        let last = kept.len().saturating_sub(most);
        let mut states: Vec<StateEntry> = part(&kept, last..).iter().map(|(_, entry)| *entry).collect();
        states.extend(self.known.each(value, shape).map(|(own, stored)| StateEntry {
            size: stored.map_or(own.size, |stored| stored.entry.size.max(own.size)),
            ..own
        }));
        diana_base::sort::sort_by_key(&mut states, |state| state.identity);
        Some(states)
    }

    /// The value with these states. What it lacked is zero.
    fn relay(&self, value: &[u8], shape: Shape, states: Vec<StateEntry>) -> (Vec<u8>, Shape) {
        let wanted = States::new(states);
        let (mut laid, later) = (wanted.empty(self.ways), wanted.shape(wanted == self.known));
        for (index, (_, stored)) in wanted.each(value, shape).enumerate() {
            later.set_end(&mut laid, index, stored.map_or(0, |stored| shape.end(value, stored.index)));
        }
        let mut cell = Vec::new();
        for way in 0..self.ways {
            let mark = Layout::fingerprint(value, shape, way);
            if mark != 0 {
                cell.clear();
                wanted.gather(value, shape, way, &mut cell);
                Layout::claim(&mut laid, later, way, mark);
                later.cell_mut(&mut laid, way).copy_from_slice(&cell);
            }
        }
        (laid, later)
    }
}

/// The checksum of the key and of all bytes of a value but its checksum. It detects accidents, not
/// forgeries: a writer of shared data can also write a checksum. The mixing step is that of FxHash
/// (Firefox), eight bytes at a time. Four independent sums let the processor work on four steps at
/// once.
fn checksum(key: &Key, value: &[u8]) -> u32 {
    const K: u64 = 0x517c_c1b7_2722_0a95;
    let mix = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(K);
    // Less than eight bytes, as if zeros followed.
    let last = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let (whole, rest) = part(value, HEADER..).as_chunks::<8>();
    let (fours, others) = whole.as_chunks::<4>();
    let (mut a, mut b, mut c, mut d) = (0, 1, 2, 3);
    for [first, second, third, fourth] in fours {
        a = mix(a, u64::from_le_bytes(*first));
        b = mix(b, u64::from_le_bytes(*second));
        c = mix(c, u64::from_le_bytes(*third));
        d = mix(d, u64::from_le_bytes(*fourth));
    }
    let (of_key, last_of_key) = key.as_bytes().as_chunks::<8>();
    let begin = u64::from(word(value, 0).unwrap_or(0));
    let mut sum = of_key.iter().fold(begin, |sum, bytes| mix(sum, u64::from_le_bytes(*bytes)));
    sum = mix(sum, last(last_of_key));
    sum = [a, b, c, d].into_iter().fold(sum, mix);
    sum = others.iter().fold(sum, |sum, bytes| mix(sum, u64::from_le_bytes(*bytes)));
    sum = mix(sum, last(rest));
    u32::try_from(sum >> 32).unwrap_or(0)
}
