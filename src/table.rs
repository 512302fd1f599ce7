//! A bounded table of cells over a [`Store`]: so many keys, so many cells, whatever clients invent.
//!
//! It does not know: what a cell means. It is told what would be lost with one ([`Worth`]) and drops the one
//! that is worth least.
//!
//! ```text
//!   actor ─ keyed hash (64 bits) ─┬─ high bits ─► which key: "diana/" + table + index
//!                                 └─ all bits ──► which way of its value
//!
//!   value:  format u32 │ checksum u32 │ way 0: fingerprint u64, cell │ way 1 │ … │ way 15
//! ```
//!
//! A value always has the same size, so neither host's memory grows once every key has been written. The
//! checksum covers the key as well: nginx compares only the CRC-32 of keys, and copies values out without
//! a lock, so that a read may be another key's value, or torn.
//!
//! A new actor takes a free way, else that of the cell which is worth least. If every way is refusing, none
//! is dropped and it is refused with the one that is worth least ([`Eviction::Crowded`]): nobody gets rid of
//! a refusal by inventing actors, not even with a burst of one.

mod layout;
mod seed;

pub use seed::{Dated, Hasher, Seed, keep_seed, shared_seed};

use crate::store::{Fault, Store, Swap, Version};
use crate::time::Span;
use layout::{Key, Layout, Lookup};

/// What would be lost if a cell were dropped, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionRank {
    /// Nothing: a new cell would be the same.
    Nothing,
    /// So much time until the cell is worth nothing, or that it took to become worth this.
    Used(Span),
    /// The same, of a cell that refuses what a new one would admit.
    Refusing(Span),
}

/// What becomes of the cell that has to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Nothing is lost.
    Lossless,
    /// Its actor starts anew.
    Lossy,
    /// Every cell of the set refuses: it stays, and the newcomer is refused with it.
    SetFull {
        /// The hash of the actor whose cell it is.
        by: u64,
    },
}

/// A set has room for this many actors: half of its ways, see [`Table::new`] for the reason.
pub const ACTORS_OF_A_SET: u64 = 8;

/// The table of one cell group.
#[derive(Debug)]
pub struct Table {
    layout: Layout,
    /// Keeps apart what means something else, in the same keys.
    salt: u64,
}

/// The cells of one key, loaded.
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

/// The cell of one actor, and all that is needed to swap it.
#[derive(Debug)]
pub struct Entry {
    set: Set,
    way: usize,
    found: bool,
    eviction: Option<Eviction>,
}

impl Table {
    /// A table for about `actors` actors of `cell` bytes each.
    ///
    /// `name` tells whom it counts, `meaning` how: tables of one name share their keys, but an actor has a
    /// cell of its own for each meaning. So two configurations that differ in a quota may be used at once, as
    /// while the older one is drained, and memory does not grow with every change of one.
    ///
    /// For one actor there is one way, in a key of its own. Otherwise there are twice as many ways as actors,
    /// 16 to a key: with `actors` of them spread at random, about one in 1,300 finds its 16 ways taken (the
    /// expected excess over 16 of a Poisson distribution of mean 8, by 8).
    pub fn new(name: &str, meaning: &str, cell: usize, actors: u64) -> Table {
        let salt = Hasher::name(meaning.as_bytes());
        let name = match actors {
            0..=1 => format!("{name} {cell} {salt}"),
            _ => format!("{name} {cell}"),
        };
        Table { layout: Layout::new(Hasher::name(name.as_bytes()), cell, actors), salt }
    }

    /// The number of keys this table can ever use.
    pub fn keys(&self) -> u64 {
        self.layout.sets().into()
    }

    /// Bytes of each key's value.
    pub fn value_size(&self) -> usize {
        self.layout.value_size()
    }

    /// The number of sets; `None` if the table has room for only one actor.
    pub fn sets(&self) -> Option<u64> {
        (self.layout.ways() > 1).then(|| self.keys())
    }

    /// Bytes of a cell.
    pub fn cell_size(&self) -> usize {
        self.layout.cell_size()
    }

    /// A number that tables have in common if each [is](Table::is) the other, and hardly any others.
    pub fn number(&self) -> u64 {
        self.layout.number() ^ self.salt.rotate_left(32)
    }

    /// Whether both keep an actor of one hash in one cell.
    pub fn is(&self, other: &Table) -> bool {
        (self.layout, self.salt) == (other.layout, other.salt)
    }

    /// Loads the set of cells in which the actor with hash `hash` has its place, one load.
    pub fn load<S: Store + ?Sized>(&self, store: &S, hash: u64) -> Result<Set, Fault> {
        let Table { layout, salt } = self;
        let hash = hash ^ salt;
        let key = layout.key(hash);
        let ReadValue { value, version, foreign } = self.read(store, &key)?;
        Ok(Set { layout: *layout, key, version, value, hash, salt: *salt, foreign })
    }

    /// What is at `key`: the value if it is ours and whole, else an empty one in its place. A torn read
    /// mends itself when it is repeated.
    fn read<S: Store + ?Sized>(&self, store: &S, key: &Key) -> Result<ReadValue, Fault> {
        const READS: u32 = 3;
        let mut read = ReadValue { value: Vec::new(), version: None, foreign: false };
        for _ in 0..READS {
            let Some(loaded) = store.load(key.as_bytes())? else {
                break;
            };
            let ours = self.layout.is_ours(key, &loaded.bytes);
            let torn = !ours && loaded.bytes.len() == self.layout.value_size();
            read.version = Some(loaded.version);
            read.foreign = !ours && !loaded.bytes.is_empty();
            if ours {
                read.value = loaded.bytes;
            }
            if !torn {
                break;
            }
        }
        if read.value.is_empty() {
            read.value = self.layout.empty();
        }
        Ok(read)
    }
}

struct ReadValue {
    value: Vec<u8>,
    version: Option<Version>,
    foreign: bool,
}

impl Set {
    /// Whether the key held a value that was not ours.
    pub fn foreign(&self) -> bool {
        self.foreign
    }

    /// The actor's cell if it has one.
    pub fn find(self) -> Option<Entry> {
        match self.layout.find(&self.value, self.hash) {
            Lookup::Way(way) => Some(Entry { set: self, way, found: true, eviction: None }),
            Lookup::Free(_) | Lookup::Full => None,
        }
    }

    /// The actor's cell. If it has none, it gets a free one, or that of the actor whose is worth least: see
    /// [`Eviction`]. `worth` is handed an actor's hash and its cell.
    pub fn claim(self, rank: impl Fn(u64, &[u8]) -> EvictionRank) -> Entry {
        match self.layout.find(&self.value, self.hash) {
            Lookup::Way(way) => Entry { set: self, way, found: true, eviction: None },
            Lookup::Free(way) => self.take(way, None),
            Lookup::Full => {
                let rank_of = |way: usize| rank(self.actor(way), self.layout.cell(&self.value, way));
                let least = (0..self.layout.ways()).map(|way| (rank_of(way), way)).min();
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

    /// The cells that actors have in it, each with its actor's hash.
    pub fn cells(&self) -> impl Iterator<Item = (u64, &[u8])> {
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
    pub fn found(&self) -> bool {
        self.found
    }

    /// What will have been evicted once this entry is committed.
    pub fn eviction(&self) -> Option<Eviction> {
        self.eviction
    }

    /// The actor's cell.
    pub fn cell(&self) -> &[u8] {
        self.set.layout.cell(&self.set.value, self.way)
    }

    /// The actor's cell, to be changed and then committed.
    pub fn cell_mut(&mut self) -> &mut [u8] {
        self.set.layout.cell_mut(&mut self.set.value, self.way)
    }

    /// Swaps the whole value. [`Swap::Lost`]: somebody else has changed a cell of this key, load it again. Not for a
    /// crowded entry: its cell is another's.
    pub fn commit<S: Store + ?Sized>(&mut self, store: &S) -> Result<Swap, Fault> {
        let Set { layout, key, version, value, .. } = &mut self.set;
        layout.seal(key, value);
        store.swap(key.as_bytes(), value, *version)
    }
}

#[cfg(test)]
mod tests;
