//! A map with `u64` keys, whose code exists once for all types of values: a `HashMap` for each adds
//! 11,900 bytes to the filter, a `BTreeMap` 53,500, the standard hasher 2,300, and the crate `slab`
//! for the values 1,300 (measured 2026-11, `cargo xtask build`).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A fast hasher without a secret. The host or a worker counts the keys up, or they are keyed
/// hashes, so clients cannot choose colliding keys.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    /// Fibonacci hashing (Knuth, volume 3, 6.4), folded so that high and low bits are both good.
    fn write_u64(&mut self, number: u64) {
        let spread = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}

/// Values by number. The slots are separate from the values, so that their code exists only once.
///
/// ```
/// use diana_limiter::number_map::NumberMap;
///
/// let mut waiting = NumberMap::default();
/// waiting.insert(7u32, "a request");
/// assert_eq!(waiting.get(7u32), Some(&"a request"));
/// assert_eq!(waiting.remove(7u32), Some("a request"));
/// assert!(waiting.is_empty());
/// ```
#[derive(Debug)]
pub struct NumberMap<V> {
    places: Slots,
    values: Vec<Option<V>>,
}

/// The slot of each number, and the free slots.
#[derive(Debug, Default)]
struct Slots {
    by_id: HashMap<u64, usize, BuildHasherDefault<Spread>>,
    free: Vec<usize>,
}

#[cfg(test)]
thread_local! {
    /// How many lookups, insertions and removals all maps of this thread have made.
    pub(crate) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn step() {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

impl Slots {
    #[inline(never)]
    fn find(&self, id: u64) -> Option<usize> {
        step();
        self.by_id.get(&id).copied()
    }

    /// Assigns a slot to a new number: a free one, else `end`.
    #[inline(never)]
    fn add(&mut self, id: u64, end: usize) -> usize {
        step();
        let place = self.free.pop().unwrap_or(end);
        self.by_id.insert(id, place);
        place
    }

    #[inline(never)]
    fn remove(&mut self, id: u64) -> Option<usize> {
        step();
        // Most maps of the host are empty most of the time.
        if self.by_id.is_empty() {
            return None;
        }
        let place = self.by_id.remove(&id)?;
        self.free.push(place);
        Some(place)
    }
}

impl<V> Default for NumberMap<V> {
    fn default() -> NumberMap<V> {
        NumberMap { places: Slots::default(), values: Vec::new() }
    }
}

impl<V> NumberMap<V> {
    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.by_id.len()
    }

    /// Whether the map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of `id`.
    pub fn get(&self, id: impl Into<u64>) -> Option<&V> {
        self.values.get(self.places.find(id.into())?)?.as_ref()
    }

    /// The value of `id`, mutable.
    pub fn get_mut(&mut self, id: impl Into<u64>) -> Option<&mut V> {
        self.values.get_mut(self.places.find(id.into())?)?.as_mut()
    }

    /// Inserts or replaces the value of `id`.
    pub fn insert(&mut self, id: impl Into<u64>, value: V) {
        let id = id.into();
        let place = match self.places.find(id) {
            Some(place) => place,
            None => self.places.add(id, self.values.len()),
        };
        match self.values.get_mut(place) {
            Some(slot) => *slot = Some(value),
            None => self.values.push(Some(value)),
        }
    }

    /// Removes and returns the value of `id`.
    pub fn remove(&mut self, id: impl Into<u64>) -> Option<V> {
        self.values.get_mut(self.places.remove(id.into())?)?.take()
    }

    /// Keeps only the values for which `keeps` returns true.
    pub fn retain(&mut self, keeps: impl Fn(&V) -> bool) {
        let all = self.take().into_iter().filter(|(_, value)| keeps(value));
        all.for_each(|(id, value)| self.insert(id, value));
    }

    /// Removes and returns all values, in no particular order.
    pub fn take(&mut self) -> Vec<(u64, V)> {
        let NumberMap { places, values } = std::mem::take(self);
        let mut values = values;
        let all = places.by_id.into_iter();
        all.filter_map(|(id, place)| Some((id, values.get_mut(place)?.take()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_map_agrees_with_a_hash_map(entries: Vec<(u8, Option<u8>)>) {
            let (mut expected, mut map) = (HashMap::new(), NumberMap::default());
            for (number, value) in entries {
                match value {
                    Some(value) => {
                        expected.insert(u64::from(number), value);
                        map.insert(number, value);
                    }
                    None => prop_assert_eq!(map.remove(number), expected.remove(&number.into())),
                }
                prop_assert_eq!(map.len(), expected.len());
                prop_assert!(map.values.len() <= 256, "places are used again");
            }
            for number in 0..=u8::MAX {
                prop_assert_eq!(map.get(number), expected.get(&number.into()));
            }
            let mut all = map.take();
            all.sort_unstable();
            let mut expected: Vec<(u64, u8)> = expected.into_iter().collect();
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
            prop_assert!(map.is_empty());
        }
    }
}
