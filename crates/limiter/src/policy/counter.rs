//! The counters of a rule: its quota with the algorithm and the penalty, and those of its overrides
//! and plans. All of them judge one state of an actor, which tells what was used.

use super::key::ActorKey;
use crate::algorithm::{Algorithm, Charge, EvictionRank, Penalty, Quota, Reserve, Verdict};
use crate::cells::table::Hasher;
use diana_base::map::KeyMap;
use diana_base::sort;
use diana_base::time::{Span, Time};

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

/// A quota with its algorithm and its penalty. A rule has one counter for most actors, and one for
/// each override and each plan. The state of an actor is that of the algorithm, then that of the
/// penalty.
///
/// ```
/// use diana_base::time::{Span, Time};
/// use diana_document::{Errors, Node, parse};
/// use diana_limiter::algorithm::{Admission, KINDS, Penalty, Quota};
/// use diana_limiter::policy::Counter;
///
/// let (keys, errors) = (parse(b"{}")?, Errors::default());
/// let mut keys = Node::root(&keys, &errors).fields().ok_or("not an object")?;
/// let quota = Quota { rpu: 1, unit: Span::from_secs(1) };
/// let token_bucket = (KINDS[0].compile)(&mut keys, quota).ok_or("a mistake in the keys")?;
/// let penalty = Penalty::new(quota.unit, 2, Span::from_secs(600));
/// let counter = Counter::new(quota, token_bucket).with_penalty(Some(penalty));
///
/// let (mut state, now) = (vec![0; counter.size()], Time::from_ns(1_700_000_000_000_000_000));
/// assert!(counter.step(&mut state, now, 1).admits());
/// for is_penalty in [false, false, true] {
///     let refused = counter.step(&mut state, now, 1);
///     assert_eq!((refused.admits(), refused.is_penalty()), (false, is_penalty));
///     counter.count_refusal(&mut state, now);
/// }
/// let wait = Admission::Refuse { retry_after: Some(Span::from_secs(600)) };
/// assert_eq!(counter.step(&mut state, now, 1).admission, wait);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Counter {
    /// The configured quota.
    pub quota: Quota,
    /// The quota that response headers show at first: [`Algorithm::shown`].
    pub(crate) shown: Quota,
    /// Whether the quota moves.
    moves: bool,
    /// The algorithm that decides while no penalty runs.
    pub algorithm: Box<dyn Algorithm>,
    /// The penalty of actors that are refused too often.
    pub penalty: Option<Penalty>,
    /// The most units that one lease of a global rule holds for one actor; 0: no lease.
    pub lease: u64,
    /// What other requests leave for those of high priority.
    pub headroom: Headroom,
    /// The hash of [`Counter::canonical_form`].
    pub(crate) salt: u64,
    /// The hash of [`Algorithm::form`]; 0 without a state.
    pub(crate) form: u64,
    /// Where the state begins in the group's cell, in bytes.
    pub(crate) offset: usize,
    /// The size of the state; that of the rule's largest quota once the rule has its place.
    size: usize,
}

impl Counter {
    /// A counter without a penalty, without a lease and without headroom.
    #[must_use]
    pub fn new(quota: Quota, algorithm: Box<dyn Algorithm>) -> Counter {
        let is_share = algorithm.headroom_of_share().is_some();
        let moves = is_share || algorithm.as_adaptive().is_some();
        let counter = Counter {
            quota,
            shown: algorithm.shown(quota),
            moves,
            algorithm,
            penalty: None,
            lease: 0,
            headroom: if is_share { Headroom::Share } else { Headroom::default() },
            salt: 0,
            form: 0,
            offset: 0,
            size: 0,
        };
        counter.with_penalty(None)
    }

    /// The same counter with this penalty. The penalty is part of the meaning, not of the form.
    #[must_use]
    pub fn with_penalty(mut self, penalty: Option<Penalty>) -> Counter {
        self.penalty = penalty;
        self.salt = Hasher::name(self.canonical_form().as_bytes());
        let size = self.algorithm.size();
        self.form = if size == 0 { 0 } else { Hasher::name(self.algorithm.form().as_bytes()) };
        self.size = size.saturating_add(penalty.map_or(0, |_| Penalty::SIZE));
        self
    }

    /// The canonical text of the algorithm and of the penalty: see [`Algorithm::canonical_form`].
    #[must_use]
    pub fn canonical_form(&self) -> String {
        let penalty = self.penalty.as_ref().map(Penalty::canonical_form);
        [self.algorithm.canonical_form(), penalty.unwrap_or_default()].concat()
    }

    /// Whether both quotas count in one state: what was used under one is used under the other.
    #[must_use]
    pub fn counts_with(&self, other: &Counter) -> bool {
        self.form == other.form || self.form == 0 || other.form == 0
    }

    /// The size of the state in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Makes the state valid at `now`: see [`Algorithm::prepare`].
    pub fn prepare(&self, state: &mut [u8], now: Time) -> bool {
        let (state, own) = self.split_mut(state);
        let is_prepared = self.algorithm.prepare(state, now);
        self.penalty.is_some_and(|penalty| penalty.prepare(own, now)) || is_prepared
    }

    /// Checks a request of `cost` units, and charges the state if the request is admitted.
    pub fn step(&self, state: &mut [u8], now: Time, cost: u64) -> Verdict {
        let (state, own) = self.split_mut(state);
        match self.penalty {
            Some(penalty) if penalty.rest(own, now) > Span::ZERO => {
                let look = self.algorithm.step(state, now, 0);
                // A request that the algorithm would admit must not be charged.
                let fits = cost <= look.remaining;
                let verdict = if fits { look } else { self.algorithm.step(state, now, cost) };
                let penalized = penalty.penalize(own, now, verdict);
                match cost {
                    0 => Verdict { admission: look.admission, ..penalized },
                    _ => penalized,
                }
            }
            _ => self.algorithm.step(state, now, cost),
        }
    }

    /// Refunds a charge: see [`Algorithm::refund`]. Counted refusals stay counted.
    pub fn refund(&self, state: &mut [u8], now: Time, charge: Charge) {
        self.algorithm.refund(self.split_mut(state).0, now, charge);
    }

    /// Counts a refusal at `now` in the prepared state of the refused actor, if the rule has a
    /// penalty.
    pub fn count_refusal(&self, state: &mut [u8], now: Time) {
        let (_, own) = self.split_mut(state);
        self.penalty.into_iter().for_each(|penalty| penalty.count_refusal(own, now));
    }

    /// The verdict `refusal`, after it was counted: if a penalty runs at `now`, the penalty's
    /// verdict.
    pub fn penalize(&self, state: &[u8], now: Time, refusal: Verdict) -> Verdict {
        let (_, own) = self.split(state);
        self.penalty.map_or(refusal, |penalty| penalty.penalize(own, now, refusal))
    }

    /// The loss if the state is evicted at `now`.
    #[must_use]
    pub fn eviction_rank(&self, state: &[u8], now: Time) -> EvictionRank {
        let (state, own) = self.split(state);
        let rank = self.algorithm.eviction_rank(state, now);
        self.penalty.map_or(rank, |penalty| rank.max(penalty.eviction_rank(own, now)))
    }

    /// How workers reserve quota ahead. `None` if they may not: they would spend a reservation
    /// during a penalty.
    #[must_use]
    pub fn as_reserve(&self) -> Option<&dyn Reserve> {
        self.algorithm.as_reserve().filter(|_| self.penalty.is_none())
    }

    /// The headroom in units now; 0: none.
    #[must_use]
    pub fn headroom(&self) -> u64 {
        match self.headroom {
            Headroom::Units(units) => units,
            Headroom::Percent(_) | Headroom::Share => self.moving_headroom(),
        }
    }

    /// Replaces the algorithm by one of the same form. The salt stays, so the actors keep their
    /// cells.
    pub(crate) fn replace(&mut self, algorithm: Box<dyn Algorithm>) {
        debug_assert_eq!(algorithm.form(), self.algorithm.form());
        self.shown = algorithm.shown(self.quota);
        self.algorithm = algorithm;
    }

    /// The quota that response headers show now.
    pub(crate) fn shown(&self) -> Quota {
        if self.moves { self.algorithm.shown(self.quota) } else { self.shown }
    }

    /// Corrects `charge` to `cost` units, if the algorithm can settle.
    pub(crate) fn settle(&self, state: &mut [u8], now: Time, charge: Charge, cost: u64) {
        if let Some(settle) = self.algorithm.as_settle() {
            settle.settle(self.split_mut(state).0, now, charge, cost);
        }
    }

    /// Copies the state `from` of the counter `older`, which has the same form.
    pub(crate) fn take_over(&self, state: &mut [u8], older: &Counter, from: &[u8]) {
        debug_assert_eq!(self.form, older.form, "a state of another form");
        let ((state, own), (from, penalty)) = (self.split_mut(state), older.split(from));
        state.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        own.iter_mut().zip(penalty).for_each(|(to, from)| *to = *from);
    }

    /// Whether the counter has headroom and admits no more than that.
    pub(crate) fn has_only_headroom(&self, cell: &[u8], now: Time) -> bool {
        let headroom = self.headroom();
        if headroom == 0 {
            return false;
        }
        let mut state = self.state(cell).to_vec();
        self.prepare(&mut state, now);
        self.step(&mut state, now, 0).remaining <= headroom
    }

    pub(crate) fn state<'c>(&self, cell: &'c [u8]) -> &'c [u8] {
        let end = self.offset.saturating_add(self.size);
        cell.get(self.offset..end).unwrap_or_default()
    }

    pub(crate) fn state_mut<'c>(&self, cell: &'c mut [u8]) -> &'c mut [u8] {
        let end = self.offset.saturating_add(self.size);
        debug_assert!(cell.is_empty() || cell.len() >= end, "a cell of another group");
        cell.get_mut(self.offset..end).unwrap_or_default()
    }

    /// The states of the algorithm and of the penalty.
    fn split<'c>(&self, state: &'c [u8]) -> (&'c [u8], &'c [u8]) {
        state.split_at_checked(self.penalty_offset()).unwrap_or((state, &[]))
    }

    fn split_mut<'c>(&self, state: &'c mut [u8]) -> (&'c mut [u8], &'c mut [u8]) {
        state.split_at_mut(self.penalty_offset().min(state.len()))
    }

    /// Where the penalty's state begins in the counter's.
    fn penalty_offset(&self) -> usize {
        self.size.saturating_sub(self.penalty.map_or(0, |_| Penalty::SIZE))
    }

    #[inline(never)]
    fn moving_headroom(&self) -> u64 {
        match self.headroom {
            Headroom::Units(units) => units,
            Headroom::Percent(percent) => self.shown().rpu.saturating_mul(percent).div_ceil(100),
            Headroom::Share => self.algorithm.headroom_of_share().unwrap_or(0),
        }
    }
}

/// The counters of one rule.
#[derive(Debug)]
pub struct Counters {
    /// The counter for actors without an override.
    pub default: Counter,
    /// The overrides, by actor value.
    pub overrides: KeyMap<Counter>,
    /// The quotas of plans.
    pub(super) plans: Vec<Counter>,
}

impl Counters {
    /// Counters without plans.
    #[must_use]
    pub fn new(default: Counter, overrides: KeyMap<Counter>) -> Counters {
        Counters { default, overrides, plans: Vec::new() }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Counter> {
        self.overrides.values().iter().chain(&self.plans).chain([&self.default])
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Counter> {
        self.overrides.values_mut().iter_mut().chain(&mut self.plans).chain([&mut self.default])
    }

    /// Places the rule's states in a cell, from `offset` on. All quotas of one form count in one
    /// state; a plan of another form has a state of its own.
    pub(crate) fn place(&mut self, mut offset: usize) {
        let (own, size_of_penalty) = (self.first_form(), self.size_of_penalty());
        for (form, size) in self.states() {
            let is_of_plan = |plan: &&mut Counter| plan.form == form || form == own && plan.form == 0;
            let plans = self.plans.iter_mut().filter(is_of_plan);
            let others = self.overrides.values_mut().iter_mut().chain([&mut self.default]);
            for counter in plans.chain(others.filter(|_| form == own)) {
                counter.offset = offset;
                counter.size = size.saturating_add(counter.penalty.map_or(0, |_| Penalty::SIZE));
            }
            offset = offset.saturating_add(size).saturating_add(size_of_penalty);
        }
    }

    /// The form of the first state: that of the default quota and of overrides, or of a plan if the
    /// default quota has no state.
    fn first_form(&self) -> u64 {
        let of_plans = || self.plans.iter().map(|plan| plan.form).filter(|form| *form != 0).min();
        if self.default.form == 0 { of_plans().unwrap_or(0) } else { self.default.form }
    }

    /// The forms of the rule's states, and their sizes without a penalty. That of the default quota
    /// and of overrides comes first.
    fn states(&self) -> Vec<(u64, usize)> {
        let own = self.first_form();
        let is_apart = |plan: &&Counter| ![0, own].contains(&plan.form);
        let mut states: Vec<(u64, usize)> = Vec::new();
        for plan in self.plans.iter().filter(is_apart) {
            match states.iter_mut().find(|(form, _)| *form == plan.form) {
                Some((_, size)) => *size = plan.penalty_offset().max(*size),
                None => states.push((plan.form, plan.penalty_offset())),
            }
        }
        sort::sort_by_key(&mut states, |state| *state);
        let others = self.overrides.values().iter().chain([&self.default]);
        let others = others.chain(self.plans.iter().filter(|plan| !is_apart(plan)));
        states.insert(0, (own, others.map(Counter::penalty_offset).max().unwrap_or(0)));
        states
    }

    fn size_of_penalty(&self) -> usize {
        if self.all().any(|counter| counter.penalty.is_some()) { Penalty::SIZE } else { 0 }
    }

    pub(crate) fn plans(&self) -> &[Counter] {
        &self.plans
    }

    /// For each state of the actor with this key, the quota that admits most. A quota that refuses
    /// all has no state.
    pub(crate) fn roomiest(&self, key: ActorKey) -> Vec<&Counter> {
        let own = self.find(key);
        // An override wins over every plan.
        let plans = if own.is_default() { &*self.plans } else { &[] };
        let mut states: Vec<&Counter> = Vec::new();
        for counter in plans.iter().chain([self.at(own)]).filter(|counter| counter.form != 0) {
            match states.iter_mut().find(|state| state.form == counter.form) {
                Some(state) if counter.shown.rpu > state.shown.rpu => *state = counter,
                Some(_) => {}
                None => states.push(counter),
            }
        }
        states
    }

    /// The form of the state of this override, if it means nothing to the default quota. The actor
    /// then counts in another cell.
    pub(crate) fn apart(&self, quota: QuotaRef) -> Option<u64> {
        let form = if quota.is_default() { return None } else { self.at(quota).form };
        (![0, self.default.form].contains(&form)).then_some(form)
    }

    /// A hash of the overridden actors that count in another cell; 0 without any.
    pub(crate) fn aparts(&self) -> u64 {
        let apart = |counter: &&Counter| ![0, self.default.form].contains(&counter.form);
        let of = |value: &[u8]| {
            let form = self.overrides.get(value).filter(apart)?.form;
            Some(Hasher::name(&[&form.to_le_bytes(), value].concat()))
        };
        self.overrides.keys().filter_map(of).fold(0, u64::wrapping_add)
    }

    /// The override of this actor value, if its quota is not the default one.
    fn other(&self, value: &[u8]) -> Option<&Counter> {
        self.overrides.get(value).filter(|counter| counter.salt != self.default.salt)
    }

    /// A hash of all quotas.
    pub(super) fn fingerprint(&self) -> u64 {
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

    /// The size of the rule's states in bytes.
    pub(crate) fn size(&self) -> usize {
        let size_of_penalty = self.size_of_penalty();
        let sizes = self.states().into_iter().map(|(_, size)| size.saturating_add(size_of_penalty));
        sizes.fold(0, usize::saturating_add)
    }

    /// The forms and sizes of plans' states of their own.
    pub(crate) fn forms_apart(&self) -> String {
        self.states().iter().skip(1).map(|(form, size)| format!(" {size} {form:x}")).collect()
    }

    /// The order of the rule's state in a cell, independent of the document's order.
    pub(crate) fn order(&self) -> (usize, u64, u64) {
        (self.size(), self.default.salt, self.others())
    }

    /// Which counter counts the actor with this key. Only the test for overrides is inlined,
    /// because most rules have none.
    #[inline]
    pub(crate) fn find(&self, key: ActorKey) -> QuotaRef {
        if self.overrides.is_empty() { QuotaRef::default() } else { self.search(key) }
    }

    #[inline(never)]
    fn search(&self, key: ActorKey) -> QuotaRef {
        let place = key.own_value().and_then(|value| self.overrides.place(value));
        QuotaRef(place.and_then(|place| u32::try_from(place.saturating_add(1)).ok()).unwrap_or(0))
    }

    /// The counter at this place.
    #[inline]
    pub(crate) fn at(&self, QuotaRef(place): QuotaRef) -> &Counter {
        if place == 0 { &self.default } else { self.other_at(place) }
    }

    #[inline(never)]
    fn other_at(&self, place: u32) -> &Counter {
        let overrides = self.overrides.values();
        let at = usize::try_from(place).unwrap_or(usize::MAX).saturating_sub(1);
        let of_plan = || self.plans.get(at.checked_sub(overrides.len())?);
        let counter = overrides.get(at).or_else(of_plan);
        debug_assert!(counter.is_some(), "a quota of another rule");
        counter.unwrap_or(&self.default)
    }

    /// The quota of the plan at this place.
    pub(super) fn of_plan(&self, place: usize) -> QuotaRef {
        let place = self.overrides.values().len().saturating_add(place);
        QuotaRef(u32::try_from(place).unwrap_or(0))
    }
}

/// Which quota of a rule counts a request: 0 for the rule's own, or the place of an override plus 1,
/// or behind those the place of a plan's quota plus 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QuotaRef(u32);

impl QuotaRef {
    /// The place as a number.
    pub(crate) fn number(self) -> u64 {
        self.0.into()
    }

    /// Whether this is the rule's own quota, and not that of an override or a plan.
    pub(crate) fn is_default(self) -> bool {
        self == QuotaRef::default()
    }
}
