//! A bounded table of cells over a [`Store`]: the configuration fixes the numbers of keys and
//! cells, however many actors clients invent, and all values have one size. A full set evicts the
//! cell with the least [`EvictionRank`], but none that refuses.
//!
//! ```text
//!   actor ─ keyed hash (64 bits) ─┬─ high bits ─► the key: "diana/" + table + index
//!                                 └─ all bits ──► the way in the key's value
//!
//!   value:  format u32 │ checksum u32 │ way 0: fingerprint u64, cell │ way 1 │ … │ way 15
//! ```
//!
//! The checksum covers the key as well, because a host may compare only the CRC-32 of keys and
//! copy values without a lock, so a read may return another key's value, or a torn one.

mod layout;
mod seed;

pub use layout::TableId;
pub use seed::{Dated, Hasher, Seed, keep_seed, shared_seed};

use crate::algorithm::EvictionRank;
use crate::cells::store::{Fault, Store, Swap, Version};
use layout::{Key, Layout, Lookup};

/// What happens to the cell that has to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Nothing is lost.
    Lossless,
    /// The evicted actor loses its count.
    Lossy,
    /// Every cell of the set refuses. None is evicted; the new actor is refused with one of them.
    SetFull {
        /// The hash of the actor with that cell.
        by: u64,
    },
}

/// The number of actors that a set has room for: half of its ways. [`Table::new`] gives the reason.
pub const ACTORS_OF_A_SET: u64 = 8;

/// The table of one group.
///
/// ```
/// use diana_limiter::cells::store::{Fault, Memory, Swap};
/// use diana_limiter::algorithm::EvictionRank;
/// use diana_limiter::cells::table::{Hasher, Table};
///
/// let store = Memory::new();
/// let table = Table::new("per-user", "10 a minute", 8, 1_000);
/// let ann = Hasher::new(&[7; 16]).hash(b"ann");
///
/// // Two workers claim the cell of one actor. The second commit loses, and has to load again.
/// let rank = |_, _: &[u8]| EvictionRank::Nothing;
/// let mut entry = table.load(&store, ann)?.claim(rank);
/// let mut late = table.load(&store, ann)?.claim(rank);
/// assert!(!entry.found() && entry.eviction().is_none());
/// entry.cell_mut().copy_from_slice(b"8 left..");
/// assert_eq!((entry.commit(&store)?, late.commit(&store)?), (Swap::Done, Swap::Conflict));
///
/// let found = table.load(&store, ann)?.find().expect("a cell");
/// assert_eq!(found.cell(), b"8 left..");
///
/// // The table's memory does not depend on its actors.
/// assert_eq!(table.keys(), 125);
/// # Ok::<(), Fault>(())
/// ```
#[derive(Debug)]
pub struct Table {
    layout: Layout,
    /// Separates cells with different meanings in the same keys.
    salt: u64,
}

/// The cells of one key, as loaded.
#[derive(Debug)]
pub struct Set {
    layout: Layout,
    key: Key,
    version: Option<Version>,
    value: Vec<u8>,
    hash: u64,
    salt: u64,
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
    /// A table for about `actors` actors, with `cell` bytes for each.
    ///
    /// `name` identifies the group, `canonical_form` how it counts. Tables of one name share their
    /// keys, but an actor has one cell per canonical form. So two configurations that differ in a
    /// quota can run at the same time, for example while the older one drains. Memory does not grow
    /// with each change of a quota.
    ///
    /// For one actor there is one way, in its own key. Otherwise there are twice as many ways as
    /// actors, 16 to a key. If `actors` actors are spread at random, about one in 1,300 finds its
    /// 16 ways taken. This share is the expected excess over 16 of a Poisson distribution of mean
    /// 8, divided by 8.
    #[must_use]
    pub fn new(name: &str, canonical_form: &str, cell: usize, actors: u64) -> Table {
        let salt = Hasher::name(canonical_form.as_bytes());
        let name = match actors {
            0..=1 => format!("{name} {cell} {salt}"),
            _ => format!("{name} {cell}"),
        };
        Table { layout: Layout::new(Hasher::name(name.as_bytes()), cell, actors), salt }
    }

    /// What the keys of this table have in common.
    #[must_use]
    pub fn id(&self) -> TableId {
        self.layout.id()
    }

    /// The number of keys that this table can ever use.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.layout.sets().into()
    }

    /// The size of each value in bytes.
    #[must_use]
    pub(crate) fn value_size(&self) -> usize {
        self.layout.value_size()
    }

    /// The number of sets; `None` if the table has room for only one actor.
    #[must_use]
    pub(crate) fn sets(&self) -> Option<u64> {
        (self.layout.ways() > 1).then(|| self.keys())
    }

    /// The size of a cell in bytes.
    #[must_use]
    pub(crate) fn cell_size(&self) -> usize {
        self.layout.cell_size()
    }

    /// A hash of the table. Tables for which [`Table::is`] holds have the same hash; others rarely
    /// do.
    #[must_use]
    pub(crate) fn number(&self) -> u64 {
        self.layout.number() ^ self.salt.rotate_left(32)
    }

    /// Whether both tables keep the actor of a given hash in the same cell.
    #[must_use]
    pub(crate) fn is(&self, other: &Table) -> bool {
        (self.layout, self.salt) == (other.layout, other.salt)
    }

    /// Loads the set for the actor with this hash. A missing or foreign value becomes an empty one.
    /// Takes one load, or up to three if reads are torn.
    pub fn load(&self, store: &dyn Store, hash: u64) -> Result<Set, Fault> {
        const READS: u32 = 3;
        let Table { layout, salt } = *self;
        let hash = hash ^ salt;
        let key = layout.key(hash);
        let mut set = Set { layout, key, version: None, value: Vec::new(), hash, salt, foreign: false };
        for _ in 0..READS {
            let Some(loaded) = store.load(key.as_bytes())? else {
                break;
            };
            let ours = layout.is_ours(&key, &loaded.bytes);
            let torn = !ours && loaded.bytes.len() == layout.value_size();
            set.version = Some(loaded.version);
            set.foreign = !ours && !loaded.bytes.is_empty();
            if ours {
                set.value = loaded.bytes;
            }
            if !torn {
                break;
            }
        }
        if set.value.is_empty() {
            set.value = layout.empty();
        }
        Ok(set)
    }
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
        match self.layout.find(&self.value, self.hash) {
            Lookup::Way(way) => Some(Entry { set: self, way, found: true, eviction: None }),
            Lookup::Free(_) | Lookup::Full => None,
        }
    }

    /// The actor's cell. An actor without one takes a free way or evicts the cell of the least
    /// `rank`; see `Eviction`. `rank` gets an actor's hash and its cell.
    pub fn claim(self, rank: impl Fn(u64, &[u8]) -> EvictionRank) -> Entry {
        match self.layout.find(&self.value, self.hash) {
            Lookup::Way(way) => Entry { set: self, way, found: true, eviction: None },
            Lookup::Free(way) => self.take(way, None),
            Lookup::Full => {
                let rank_of = |way: usize| rank(self.actor(way), self.layout.cell(&self.value, way));
                let least = (0..self.layout.ways()).map(|way| (rank_of(way), way)).min();
                debug_assert!(least.is_some(), "a set has at least one way");
                let (least_rank, way) = least.unwrap_or((EvictionRank::Nothing, 0));
                match least_rank {
                    EvictionRank::Nothing => self.take(way, Some(Eviction::Lossless)),
                    EvictionRank::Used(_) => self.take(way, Some(Eviction::Lossy)),
                    EvictionRank::Refusing(_) => {
                        let set_full = Eviction::SetFull { by: self.actor(way) };
                        Entry { set: self, way, found: false, eviction: Some(set_full) }
                    }
                }
            }
        }
    }

    /// All cells in use, each with its actor's hash.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let is_taken = |way: &usize| self.layout.fingerprint(&self.value, *way) != 0;
        let ways = (0..self.layout.ways()).filter(is_taken);
        ways.map(|way| (self.actor(way), self.layout.cell(&self.value, way)))
    }

    /// The hash of the actor whose cell is in this way.
    fn actor(&self, way: usize) -> u64 {
        self.layout.fingerprint(&self.value, way) ^ self.salt
    }

    fn take(mut self, way: usize, eviction: Option<Eviction>) -> Entry {
        self.layout.mark(&mut self.value, way, self.hash);
        self.layout.cell_mut(&mut self.value, way).fill(0);
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

    /// The actor's cell.
    #[must_use]
    pub fn cell(&self) -> &[u8] {
        self.set.layout.cell(&self.set.value, self.way)
    }

    /// The actor's cell, to change before a commit.
    pub fn cell_mut(&mut self) -> &mut [u8] {
        self.set.layout.cell_mut(&mut self.set.value, self.way)
    }

    /// Swaps the whole value. After [`Swap::Conflict`], load the set again: another worker changed
    /// one of its cells. Never commit an entry with `Eviction::SetFull`: its cell belongs to
    /// another actor.
    pub fn commit(&mut self, store: &dyn Store) -> Result<Swap, Fault> {
        let Set { layout, key, version, value, .. } = &mut self.set;
        layout.seal(key, value);
        store.swap(key.as_bytes(), value, *version)
    }
}

#[cfg(test)]
mod tests;
