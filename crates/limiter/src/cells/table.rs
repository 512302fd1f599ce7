//! A bounded table of cells over a [`Store`]: the configuration fixes the number of keys and cells,
//! however many actors clients invent. In a full set the cell whose loss matters least makes room,
//! but none that refuses: see [`Loss`].
//!
//! ```text
//!   actor ─ keyed hash (64 bits) ─┬─ high bits ─► the key: "diana/" + table + index
//!                                 └─ all bits ──► the way in the key's value
//!
//!   value:  format u8, states u24 │ checksum u32
//!           identity u32, size u32 of each state, by identity │ end u32 of each state
//!           way 0: fingerprint u64, its states in this order │ way 1 │ … │ way 15
//! ```
//!
//! A value says which states it holds, so workers of several documents share it: each changes the
//! states that it knows and keeps the others. The end of a state, in seconds since 1970, is when
//! the state rests for the last actor of the set, so that nothing is lost without it. Each worker
//! that knows the state raises its end at each write; after the end, a worker that does not know
//! the state drops it.
//!
//! The checksum covers the key as well, because a host may compare only the CRC-32 of keys and
//! copy values without a lock, so a read may return another key's value, or a torn one.

mod key;
mod layout;
mod seed;

pub use layout::{MAX_STATE, MAX_UNKNOWN, StateEntry};
pub use seed::{Dated, Hasher, Seed, keep_seed, shared_seed};

use crate::cells::store::{Fault, Store, Swap, Version};
use diana_base::time::{Span, Time};
use key::Key;
use layout::{Layout, Shape, WayLookup, ended_at};
use std::sync::Arc;

/// What is lost if an actor's cell is evicted. Variants are in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// Nothing: all states rest.
    Nothing,
    /// The actor starts anew, and has used this part of its quota, in 2³² parts.
    Part(u64),
    /// A rule refuses the actor, and would admit a new one.
    Refuses {
        /// The time until the rule admits a request again.
        opens_in: Span,
        /// The index of the rule in its group.
        rule: usize,
    },
}

/// A whole quota, as a [`Loss::Part`].
pub(crate) const WHOLE_QUOTA: u64 = 1 << 32;

/// Set in the [`Loss::Part`] of a cell that holds a state that the worker does not know.
const UNKNOWN_PART: u64 = 1 << 63;

/// What happens to the cell that has to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Nothing is lost.
    Lossless,
    /// The evicted actor loses its count.
    Lossy,
}

/// Every cell of a set refuses, so that none is evicted: the new actor gets none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetFull {
    /// The index, in its group, of the rule that admits a request first.
    pub rule: usize,
    /// The time until then.
    pub opens_in: Span,
}

/// The number of actors that a set has room for: half of its ways. [`Table::new`] gives the reason.
pub const ACTORS_OF_A_SET: u64 = 8;

/// The table of one group.
///
/// ```
/// use diana_limiter::cells::store::{Fault, Memory, Swap};
/// use diana_limiter::cells::table::{Hasher, Loss, StateEntry, Table};
/// use diana_limiter::time::{Span, Time};
///
/// let store = Memory::new();
/// let state = StateEntry { identity: 7, size: 8, keeps_rest: false };
/// let table = Table::new("per-user", vec![state], 1_000);
/// let ann = Hasher::new(&[7; 16]).hash(b"ann");
/// let now = Time::from_ns(1_795_392_000_000_000_000);
///
/// // Two workers claim the cell of one actor. The second commit loses, and has to load again.
/// let claim = || table.load(&store, ann).map(|set| set.claim(now, |_, _| Loss::Nothing));
/// let (mut entry, mut late) = (claim()?.expect("room"), claim()?.expect("room"));
/// assert!(!entry.found() && entry.eviction().is_none());
/// let rests_in = |_, _: &[u8]| Span::from_secs(60);
/// entry.write(b"8 left..", now, rests_in);
/// late.write(b"9 left..", now, rests_in);
/// assert_eq!((entry.commit(&store)?, late.commit(&store)?), (Swap::Done, Swap::Conflict));
///
/// let found = table.load(&store, ann)?.find().expect("a cell");
/// assert_eq!(found.cell(), b"8 left..");
///
/// // The number of keys does not depend on the actors.
/// assert_eq!(table.keys(), 125);
/// # Ok::<(), Fault>(())
/// ```
#[derive(Debug)]
pub struct Table(Arc<Layout>);

/// The cells of one key, as loaded.
#[derive(Debug)]
pub struct Set {
    layout: Arc<Layout>,
    key: Key,
    version: Option<Version>,
    value: Vec<u8>,
    shape: Shape,
    hash: u64,
    foreign: bool,
}

/// The cell of one actor, with what is needed to commit it.
#[derive(Debug)]
pub struct Entry {
    set: Set,
    way: usize,
    found: bool,
    eviction: Option<Eviction>,
}

impl Table {
    /// A table for about `actors` actors, whose workers know these states, which are by identity,
    /// each once. Tables of one name share their keys if they have as many sets.
    ///
    /// For one actor there is one way, in its own key. Otherwise there are twice as many ways as
    /// actors, 16 to a key. If `actors` actors are spread at random, about one in 1,300 finds its
    /// 16 ways taken. This share is the expected excess over 16 of a Poisson distribution of mean
    /// 8, divided by 8.
    #[must_use]
    pub fn new(name: &str, states: Vec<StateEntry>, actors: u64) -> Table {
        Table(Arc::new(Layout::new(Hasher::name(name.as_bytes()), states, actors, false)))
    }

    /// The same table for a host in which values must not grow: tables with other states have other
    /// keys.
    #[must_use]
    pub(crate) fn of_fixed_size(name: &str, states: Vec<StateEntry>, actors: u64) -> Table {
        Table(Arc::new(Layout::new(Hasher::name(name.as_bytes()), states, actors, true)))
    }

    /// The number of keys that this table can ever use.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.0.sets.into()
    }

    /// The size of each value in bytes, without states that the table does not know.
    #[must_use]
    pub(crate) fn value_size(&self) -> usize {
        self.0.value_size()
    }

    /// The number of sets; `None` if the table has room for only one actor.
    #[must_use]
    pub(crate) fn sets(&self) -> Option<u64> {
        (self.0.ways > 1).then(|| self.keys())
    }

    /// The size of a cell in bytes.
    #[must_use]
    pub(crate) fn cell_size(&self) -> usize {
        self.0.known.cell
    }

    /// Loads the set for the actor with this hash. A missing or foreign value becomes an empty one.
    /// Takes one load, or up to three if reads are torn.
    pub fn load(&self, store: &dyn Store, hash: u64) -> Result<Set, Fault> {
        const READS: u32 = 3;
        let (layout, key) = (Arc::clone(&self.0), self.0.key(hash));
        let (mut version, mut foreign) = (None, false);
        for _ in 0..READS {
            let Some(loaded) = store.load(key.as_bytes())? else {
                break;
            };
            version = Some(loaded.version);
            if let Some(shape) = layout.open(&key, &loaded.bytes) {
                return Ok(Set { layout, key, version, value: loaded.bytes, shape, hash, foreign: false });
            }
            foreign = !loaded.bytes.is_empty();
            if ended_at(&loaded.bytes).is_none() {
                // The bytes are not a torn value.
                break;
            }
        }
        let (value, shape) = layout.empty();
        Ok(Set { layout, key, version, value, shape, hash, foreign })
    }
}

/// Whether a key and its value may be deleted at `now`, if the host can delete keys: all states of
/// the set have ended. A key that is no table's stays.
#[must_use]
pub fn has_ended(key: &[u8], value: &[u8], now: Time) -> bool {
    key::is_of_table(key) && ended_at(value).is_some_and(|end| end < now)
}

impl Set {
    /// Whether the key held a foreign or torn value.
    #[must_use]
    pub(crate) fn foreign(&self) -> bool {
        self.foreign
    }

    /// The actor's cell, if it has one.
    #[must_use]
    pub fn find(self) -> Option<Entry> {
        match Layout::find(&self.value, self.shape, self.hash) {
            WayLookup::Way(way) => Some(Entry { set: self, way, found: true, eviction: None }),
            WayLookup::Free(_) | WayLookup::Full => None,
        }
    }

    /// The actor's cell. An actor without one takes a free way, or evicts the cell with the least
    /// `loss` at `now`. `loss` gets an actor's hash and its cell. A cell whose known states all
    /// rest may hold others, and then its loss is not nothing.
    pub fn claim(self, now: Time, loss: impl Fn(u64, &[u8]) -> Loss) -> Result<Entry, SetFull> {
        match Layout::find(&self.value, self.shape, self.hash) {
            WayLookup::Way(way) => Ok(Entry { set: self, way, found: true, eviction: None }),
            WayLookup::Free(way) => Ok(self.take(way, None)),
            WayLookup::Full => {
                let mut least: Option<(Loss, usize)> = None;
                for way in 0..self.layout.ways {
                    let one = (self.loss(way, now, &loss), way);
                    least = Some(least.map_or(one, |least| least.min(one)));
                    if one.0 == Loss::Nothing {
                        break;
                    }
                }
                debug_assert!(least.is_some(), "a set has at least one way");
                match least.unwrap_or((Loss::Nothing, 0)) {
                    (Loss::Nothing, way) => Ok(self.take(way, Some(Eviction::Lossless))),
                    (Loss::Part(_), way) => Ok(self.take(way, Some(Eviction::Lossy))),
                    (Loss::Refuses { opens_in, rule }, _) => Err(SetFull { rule, opens_in }),
                }
            }
        }
    }

    fn loss(&self, way: usize, now: Time, loss: impl Fn(u64, &[u8]) -> Loss) -> Loss {
        let mut cell = Vec::new();
        self.layout.gather(&self.value, self.shape, way, &mut cell);
        match loss(Layout::fingerprint(&self.value, self.shape, way), &cell) {
            // An unknown state may refuse, so its cell goes after all cells that certainly do not.
            loss @ (Loss::Nothing | Loss::Part(_))
                if self.layout.holds_unknown(&self.value, self.shape, way, now) =>
            {
                Loss::Part(UNKNOWN_PART | if let Loss::Part(part) = loss { part } else { 0 })
            }
            loss => loss,
        }
    }

    /// All cells in use, each with its actor's hash.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        (0..self.layout.ways).filter_map(|way| {
            let hash = Some(Layout::fingerprint(&self.value, self.shape, way)).filter(|hash| *hash != 0)?;
            let mut cell = Vec::new();
            self.layout.gather(&self.value, self.shape, way, &mut cell);
            Some((hash, cell))
        })
    }

    fn take(mut self, way: usize, eviction: Option<Eviction>) -> Entry {
        Layout::claim(&mut self.value, self.shape, way, self.hash);
        Entry { set: self, way, found: false, eviction }
    }
}

impl Entry {
    /// Whether the actor had a cell.
    #[must_use]
    pub fn found(&self) -> bool {
        self.found
    }

    /// What the commit of this entry evicts.
    #[must_use]
    pub fn eviction(&self) -> Option<Eviction> {
        self.eviction
    }

    /// The actor's cell, with the states that the table knows.
    #[must_use]
    pub fn cell(&self) -> Vec<u8> {
        let mut cell = Vec::new();
        self.read(&mut cell);
        cell
    }

    /// Copies the actor's cell to `cell`, in place of what is there.
    pub(crate) fn read(&self, cell: &mut Vec<u8>) {
        self.set.layout.gather(&self.set.value, self.set.shape, self.way, cell);
    }

    /// Writes the actor's cell, to be committed, at `now`. `rests_in` returns how long each state
    /// then takes until it rests, by its index and its bytes.
    pub fn write(&mut self, cell: &[u8], now: Time, rests_in: impl Fn(usize, &[u8]) -> Span) {
        let Set { layout, value, shape, .. } = &mut self.set;
        layout.scatter((value, shape), self.way, cell, now, rests_in);
    }

    /// Swaps the whole value. After [`Swap::Conflict`], load the set again: another worker changed
    /// one of its cells.
    pub fn commit(&mut self, store: &dyn Store) -> Result<Swap, Fault> {
        let Set { key, version, value, .. } = &mut self.set;
        Layout::seal(key, value);
        store.swap(key.as_bytes(), value, *version)
    }
}

#[cfg(test)]
mod tests;
