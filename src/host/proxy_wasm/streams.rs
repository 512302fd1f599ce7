//! Streams by the numbers that hosts give them.
//!
//! It does not know: what is kept of a stream.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Numbers are given out by the host one after the other, so there is nobody to defend against.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }

    /// Fibonacci hashing (Knuth, volume 3, 6.4), folded so that high and low bits are both good.
    fn write_u32(&mut self, number: u32) {
        let spread = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}

/// Something for each of some streams. The map is one for all kinds of things, which are kept beside it: each more would be
/// three kilobytes of the module.
#[derive(Debug)]
pub(super) struct Map<V> {
    places: Places,
    kept: Vec<Option<V>>,
}

/// Where the things are, and where there is room.
#[derive(Debug, Default)]
struct Places {
    of: HashMap<u32, usize, BuildHasherDefault<Spread>>,
    free: Vec<usize>,
}

impl Places {
    #[inline(never)]
    fn find(&self, id: u32) -> Option<usize> {
        self.of.get(&id).copied()
    }

    /// A place for one that has none; `end` if there is no other.
    #[inline(never)]
    fn add(&mut self, id: u32, end: usize) -> usize {
        let place = self.free.pop().unwrap_or(end);
        self.of.insert(id, place);
        place
    }

    #[inline(never)]
    fn remove(&mut self, id: u32) -> Option<usize> {
        let place = self.of.remove(&id)?;
        self.free.push(place);
        Some(place)
    }
}

impl<V> Default for Map<V> {
    fn default() -> Map<V> {
        Map { places: Places::default(), kept: Vec::new() }
    }
}

impl<V> Map<V> {
    pub(super) fn len(&self) -> usize {
        self.places.of.len()
    }

    pub(super) fn get(&self, id: u32) -> Option<&V> {
        self.kept.get(self.places.find(id)?)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut V> {
        self.kept.get_mut(self.places.find(id)?)?.as_mut()
    }

    pub(super) fn insert(&mut self, id: u32, value: V) {
        let place = match self.places.find(id) {
            Some(place) => place,
            None => self.places.add(id, self.kept.len()),
        };
        match self.kept.get_mut(place) {
            Some(kept) => *kept = Some(value),
            None => self.kept.push(Some(value)),
        }
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<V> {
        self.kept.get_mut(self.places.remove(id)?)?.take()
    }

    /// Forgets those that are not to be kept.
    pub(super) fn retain(&mut self, keeps: impl Fn(&V) -> bool) {
        let all = self.take().into_iter().filter(|(_, value)| keeps(value));
        all.for_each(|(id, value)| self.insert(id, value));
    }

    /// All of them, in no order.
    pub(super) fn take(&mut self) -> Vec<(u32, V)> {
        let Map { places, kept } = std::mem::take(self);
        let mut kept = kept;
        let all = places.of.into_iter();
        all.filter_map(|(id, place)| Some((id, kept.get_mut(place)?.take()?))).collect()
    }
}

/// Whose stream a stream is, from its creation to its headers. Hosts create one when its headers have come, so
/// there is one at a time, and nothing is inserted anywhere.
#[derive(Debug, Default)]
pub(super) struct Newest {
    /// The stream and its plugin.
    last: Option<(u32, u32)>,
    before: Map<u32>,
}

impl Newest {
    pub(super) fn put(&mut self, id: u32, plugin: u32) {
        if let Some((id, plugin)) = self.last.replace((id, plugin)) {
            self.before.insert(id, plugin);
        }
        self.before.remove(id);
    }

    /// The plugin of a stream that has not been asked for before.
    pub(super) fn take(&mut self, id: u32) -> Option<u32> {
        match self.last {
            Some((last, plugin)) if last == id => {
                self.last = None;
                Some(plugin)
            }
            _ => self.before.remove(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_told_once() {
        let mut newest = Newest::default();
        newest.put(2, 1);
        assert_eq!((newest.take(3), newest.take(2), newest.take(2)), (None, Some(1), None));
        for id in 2..9 {
            newest.put(id, id + 10);
        }
        newest.put(8, 1);
        assert_eq!((newest.take(8), newest.take(8)), (Some(1), None));
        for id in (2..8).rev() {
            assert_eq!((newest.take(id), newest.take(id)), (Some(id + 10), None));
        }
        assert_eq!(newest.before.len(), 0);
    }
}
