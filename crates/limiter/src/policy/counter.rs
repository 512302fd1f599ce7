//! The counters of a rule: its quota with the algorithm, and those of its overrides.

use super::missing::BY_VALUE;
use crate::algorithm::{Algorithm, Quota};
use crate::cells::table::Hasher;
use diana_base::map::KeyMap;
use diana_base::time::Time;

/// The part of a quota that only requests of high priority may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// This many units.
    Units(u64),
    /// A part of what the counter admits at most, in percent and rounded up. The part moves with
    /// the limit.
    Percent(u64),
    /// What the share of one of several gateways has: [`Algorithm::headroom_of_share`].
    Share,
}

impl Default for Headroom {
    fn default() -> Headroom {
        Headroom::Units(0)
    }
}

/// A quota and its algorithm. A rule has one counter for most actors, and one for each override.
#[derive(Debug)]
pub struct Counter {
    /// The configured quota.
    pub quota: Quota,
    /// The quota that response headers show at first: [`Algorithm::shown`].
    pub(crate) shown: Quota,
    /// Whether the quota moves.
    moves: bool,
    /// The algorithm that decides.
    pub algorithm: Box<dyn Algorithm>,
    /// The most units that one lease of a global rule holds for one actor; 0: no lease.
    pub lease: u64,
    /// What other requests leave for those of high priority.
    pub headroom: Headroom,
    /// The hash of [`Algorithm::meaning`].
    pub(crate) salt: u64,
    /// The hash of [`Algorithm::form`]; 0 without a state.
    pub(crate) form: u64,
    /// Where the state begins in the group's cell, in bytes.
    pub(crate) offset: usize,
    /// The size of the state in bytes: that of the rule, once it has its place.
    pub(super) size: usize,
}

impl Counter {
    /// A counter without a lease and without headroom. See the example of
    /// [`Draft::build`](super::Draft::build).
    #[must_use]
    pub fn new(quota: Quota, algorithm: Box<dyn Algorithm>) -> Counter {
        let salt = Hasher::name(algorithm.meaning().as_bytes());
        let (shown, size) = (algorithm.shown(quota), algorithm.size());
        let form = if size == 0 { 0 } else { Hasher::name(algorithm.form().as_bytes()) };
        let is_share = algorithm.headroom_of_share().is_some();
        let moves = is_share || algorithm.as_adaptive().is_some();
        Counter {
            quota,
            shown,
            moves,
            algorithm,
            lease: 0,
            headroom: if is_share { Headroom::Share } else { Headroom::default() },
            salt,
            form,
            offset: 0,
            size,
        }
    }

    /// Replaces the algorithm by one of the same form, so the actors keep their cells.
    pub(crate) fn replace(&mut self, algorithm: Box<dyn Algorithm>) {
        debug_assert_eq!(algorithm.form(), self.algorithm.form());
        self.shown = algorithm.shown(self.quota);
        self.algorithm = algorithm;
    }

    /// The quota that response headers show now.
    pub(crate) fn shown(&self) -> Quota {
        if self.moves { self.algorithm.shown(self.quota) } else { self.shown }
    }

    pub(crate) fn state<'c>(&self, cell: &'c [u8]) -> &'c [u8] {
        let end = self.offset.saturating_add(self.size);
        cell.get(self.offset..end).unwrap_or_default()
    }

    /// The headroom in units now; 0: none.
    #[must_use]
    pub fn headroom(&self) -> u64 {
        match self.headroom {
            Headroom::Units(units) => units,
            Headroom::Percent(_) | Headroom::Share => self.moving_headroom(),
        }
    }

    #[inline(never)]
    fn moving_headroom(&self) -> u64 {
        match self.headroom {
            Headroom::Units(units) => units,
            Headroom::Percent(percent) => self.shown().rpu.saturating_mul(percent).div_ceil(100),
            Headroom::Share => self.algorithm.headroom_of_share().unwrap_or(0),
        }
    }

    /// Whether the counter has headroom and admits no more than that.
    pub(crate) fn has_only_headroom(&self, cell: &[u8], now: Time) -> bool {
        let headroom = self.headroom();
        if headroom == 0 {
            return false;
        }
        let mut state = self.state(cell).to_vec();
        self.algorithm.prepare(&mut state, now);
        self.algorithm.step(&mut state, now, 0).remaining <= headroom
    }

    pub(crate) fn state_mut<'c>(&self, cell: &'c mut [u8]) -> &'c mut [u8] {
        let end = self.offset.saturating_add(self.size);
        cell.get_mut(self.offset..end).unwrap_or_default()
    }
}

/// The counters of one rule.
#[derive(Debug)]
pub struct Counters {
    /// The counter for actors without an override.
    pub default: Counter,
    /// The overrides, by actor value.
    pub overrides: KeyMap<Counter>,
}

impl Counters {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Counter> {
        self.overrides.values().iter().chain([&self.default])
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Counter> {
        self.overrides.values_mut().iter_mut().chain([&mut self.default])
    }

    /// The override of this actor value, if its state means nothing to the default quota. The actor
    /// then counts in another cell.
    pub(crate) fn apart(&self, value: &[u8]) -> Option<&Counter> {
        if self.overrides.is_empty() {
            return None;
        }
        self.overrides.get(value).filter(|counter| ![0, self.default.form].contains(&counter.form))
    }

    /// A hash of the actors that count in another cell; 0 without any.
    pub(crate) fn aparts(&self) -> u64 {
        let of =
            |value: &[u8]| self.apart(value).map(|counter| [&counter.form.to_le_bytes(), value].concat());
        let hashes = self.overrides.keys().filter_map(of).map(|text| Hasher::name(&text));
        hashes.fold(0, u64::wrapping_add)
    }

    /// The override of this actor value, if its quota is not the default one.
    fn other(&self, value: &[u8]) -> Option<&Counter> {
        self.overrides.get(value).filter(|counter| counter.salt != self.default.salt)
    }

    /// Whether this actor value has an override.
    pub(crate) fn has_override(&self, value: &[u8]) -> bool {
        !self.overrides.is_empty() && self.overrides.get(value).is_some()
    }

    /// A hash of all quotas.
    pub(super) fn meaning(&self) -> u64 {
        Hasher::of(&(self.default.salt, self.default.lease, self.others()))
    }

    /// A hash of all effective overrides, whatever their order; 0 without any.
    pub(crate) fn others(&self) -> u64 {
        let sum = |sum: u64, value: &[u8]| {
            let name = |counter: &Counter| Hasher::name(&[&counter.salt.to_le_bytes(), value].concat());
            sum.wrapping_add(self.other(value).map_or(0, name))
        };
        self.overrides.keys().fold(0, sum)
    }

    /// A hash of the counters' headroom, whatever the order of overrides; 0 without any. Cells do
    /// not depend on this hash.
    pub(crate) fn headroom(&self) -> u64 {
        let name = |counter: &Counter, value: &[u8]| match (counter.headroom(), counter.headroom) {
            (0, _) => 0,
            (_, Headroom::Percent(percent)) if counter.moves => {
                Hasher::name(&[&percent.to_le_bytes(), &b"%"[..], value].concat())
            }
            (units, _) => Hasher::name(&[&units.to_le_bytes(), value].concat()),
        };
        let sum = |sum: u64, value: &[u8]| {
            sum.wrapping_add(self.other(value).map_or(0, |counter| name(counter, value)))
        };
        self.overrides.keys().fold(name(&self.default, b""), sum)
    }

    /// The size of the rule's state in bytes: the largest of its counters.
    pub(crate) fn size(&self) -> usize {
        self.all().map(|counter| counter.size).max().unwrap_or(0)
    }

    /// The order of the rule's state in a cell, independent of the document's order.
    pub(crate) fn order(&self) -> (usize, u64, u64) {
        (self.size(), self.default.salt, self.others())
    }

    /// The counter of the actor with this key.
    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> &Counter {
        self.at(self.find(key))
    }

    /// Which counter counts the actor with this key. Only the test for overrides is inlined,
    /// because most rules have none.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> QuotaRef {
        if self.overrides.is_empty() { QuotaRef::default() } else { self.search(key) }
    }

    #[inline(never)]
    fn search(&self, key: &[u8]) -> QuotaRef {
        let place = key.strip_prefix(&[BY_VALUE]).and_then(|value| self.overrides.place(value));
        QuotaRef(place.and_then(|place| u32::try_from(place.saturating_add(1)).ok()).unwrap_or(0))
    }

    /// The counter at this place.
    #[inline]
    pub(crate) fn at(&self, QuotaRef(place): QuotaRef) -> &Counter {
        let of_override = || self.overrides.values().get(usize::try_from(place).ok()?.checked_sub(1)?);
        if place == 0 { &self.default } else { of_override().unwrap_or(&self.default) }
    }
}

/// Which quota of a rule counts an actor: 0 for the rule's own, or the place of an override plus 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QuotaRef(u32);

impl QuotaRef {
    /// Whether this is the rule's own quota, and not that of an override.
    pub(crate) fn is_default(self) -> bool {
        self == QuotaRef::default()
    }
}
