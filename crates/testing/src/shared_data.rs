//! Shared data in memory, under either host's rules. Single-threaded: tests simulate several
//! workers by interleaving their calls.

use diana_limiter::cells::store::{CasSemantics, Fault, SharedData, Swap};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Value and version of each key.
type Entries = HashMap<Vec<u8>, (Vec<u8>, u32)>;

/// The shared data of a simulated host.
#[derive(Debug)]
pub struct Simulated {
    rules: CasSemantics,
    /// The version of the last write. Versions count over all keys; some hosts count per
    /// key.
    last_version: Cell<u32>,
    entries: RefCell<Entries>,
}

impl Simulated {
    /// Empty shared data under `rules`.
    #[must_use]
    pub fn new(rules: CasSemantics) -> Simulated {
        Simulated { rules, last_version: Cell::new(0), entries: RefCell::default() }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All keys, in no particular order.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.entries.borrow().keys().cloned().collect()
    }

    /// The size of all keys and values in bytes.
    pub fn bytes(&self) -> usize {
        self.entries.borrow().iter().map(|(key, (value, _))| key.len().saturating_add(value.len())).sum()
    }
}

impl SharedData for Simulated {
    fn get(&self, key: &[u8]) -> Result<(Option<Vec<u8>>, Option<u32>), Fault> {
        let entries = self.entries.borrow();
        Ok(match entries.get(key) {
            Some((value, version)) if value.is_empty() => (None, Some(*version)),
            Some((value, version)) => (Some(value.clone()), Some(*version)),
            None => (None, None),
        })
    }

    fn set(&self, key: &[u8], value: &[u8], cas: Option<u32>) -> Result<Swap, Fault> {
        let mut entries = self.entries.borrow_mut();
        let found = entries.get(key).map(|(_, version)| *version);
        let fits = match self.rules {
            CasSemantics::Lenient => match (found, cas.unwrap_or(0)) {
                (Some(version), cas) if cas != 0 => version == cas,
                _ => true,
            },
            CasSemantics::Strict => found.unwrap_or(0) == cas.unwrap_or(0),
        };
        if !fits {
            return Ok(Swap::Conflict);
        }
        let version = self.last_version.get().wrapping_add(1);
        self.last_version.set(version);
        entries.insert(key.to_vec(), (value.to_vec(), version));
        Ok(Swap::Done)
    }
}

impl SharedData for &Simulated {
    fn get(&self, key: &[u8]) -> Result<(Option<Vec<u8>>, Option<u32>), Fault> {
        (**self).get(key)
    }

    fn set(&self, key: &[u8], value: &[u8], cas: Option<u32>) -> Result<Swap, Fault> {
        (**self).set(key, value, cas)
    }
}
