//! A counter: a quota with its algorithm, its penalty and its headroom, and room for a grant.

use super::moving::{Follows, Moving, Present, Replicas};
use crate::adapt::Adaptive;
use crate::algorithm::{Admission, Algorithm, Charge, Parameters, Penalty, Quota, Verdict, grant};
use crate::cells::table::{Hasher, Loss};
use diana_base::part;
use diana_base::time::{Span, Time};
use std::sync::Arc;

/// The part of a quota that only requests of high priority may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// This many units.
    Units(u64),
    /// A part of what the counter admits at most, in percent and rounded up. The part moves with
    /// the limit.
    Percent(u64),
    /// What the share of one of several gateways has: see [`Counter::of_share`].
    Share,
}

/// What a state of a cell is to its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Count,
    Grant,
    Penalty,
}

impl Default for Headroom {
    fn default() -> Headroom {
        Headroom::Units(0)
    }
}

/// A quota with its algorithm and its penalty. A rule has one counter for most actors, and one for
/// each override and each plan. The state of an actor is that of the algorithm, then that of a
/// grant, then that of the penalty.
///
/// ```
/// use diana_base::time::{Span, Time};
/// use diana_limiter::algorithm::{Admission, Algorithm, BucketOptions, Penalty, Quota, QuotaError};
/// use diana_limiter::policy::Counter;
///
/// let quota = Quota { rpu: 1, unit: Span::from_secs(1) };
/// let token_bucket = Algorithm::token_bucket(quota, BucketOptions::default())?;
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
/// # Ok::<(), QuotaError>(())
/// ```
#[derive(Debug)]
pub struct Counter {
    /// The configured quota.
    pub quota: Quota,
    /// The quota that response headers show at first: [`Algorithm::shown`].
    pub(crate) shown: Quota,
    /// The algorithm that decides while no penalty runs; if the quota moves, the first one.
    pub algorithm: Algorithm,
    /// Set if the quota moves.
    pub(super) moving: Option<Box<Moving>>,
    /// The penalty of actors that are refused too often.
    pub penalty: Option<Penalty>,
    /// Whether the state has room for a grant.
    pub(super) has_grants: bool,
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
    /// The part of the state that is the algorithm's.
    own_size: usize,
}

impl Counter {
    /// A counter without a penalty, without a lease and without headroom.
    #[must_use]
    pub fn new(quota: Quota, algorithm: Algorithm) -> Counter {
        Counter::build(Present { quota, algorithm, headroom: 0 }, None)
    }

    /// The counter of `algorithm` with an adaptive limit in place of `quota.rpu`, at which the
    /// limit is now. `least` is the least that a request costs. `None` if the algorithm cannot
    /// adapt.
    #[must_use]
    pub fn adapting(
        quota: Quota,
        algorithm: Algorithm,
        least: u64,
        adaptive: &Arc<Adaptive>,
    ) -> Option<Counter> {
        let base = Present { quota, algorithm, headroom: 0 };
        let moving = Moving::new(Follows::Limit(Arc::clone(adaptive), base, least))?;
        Some(Counter::build(moving.first().clone(), Some(moving)))
    }

    /// The share of one of `replicas`, each of which `build` builds for a number of gateways.
    /// `None` if it builds none for one gateway, whose share is the largest.
    #[must_use]
    pub fn of_share(
        replicas: &Arc<Replicas>,
        build: impl Fn(u64) -> Option<Counter> + Send + Sync + 'static,
    ) -> Option<Counter> {
        let build = move |number| {
            let counter = build(number)?;
            let headroom = counter.headroom();
            Some(Present { quota: counter.quota, algorithm: counter.algorithm, headroom })
        };
        let moving = Moving::new(Follows::Gateways(Arc::clone(replicas), Box::new(build)))?;
        let counter = Counter::build(moving.first().clone(), Some(moving));
        Some(Counter { headroom: Headroom::Share, ..counter })
    }

    fn build(Present { quota, algorithm, .. }: Present, moving: Option<Moving>) -> Counter {
        let counter = Counter {
            quota,
            shown: algorithm.shown(quota),
            algorithm,
            moving: moving.map(Box::new),
            penalty: None,
            has_grants: false,
            lease: 0,
            headroom: Headroom::default(),
            salt: 0,
            form: 0,
            offset: 0,
            size: 0,
            own_size: 0,
        };
        Counter { shown: counter.shown(), ..counter }.with_penalty(None)
    }

    /// The same counter with this penalty. The penalty is part of the meaning, not of the form.
    #[must_use]
    pub fn with_penalty(mut self, penalty: Option<Penalty>) -> Counter {
        self.penalty = penalty;
        self.salt = Hasher::name(self.canonical_form().as_bytes());
        let size = self.algorithm.size();
        self.form = if size == 0 { 0 } else { Hasher::name(self.algorithm.form().as_bytes()) };
        self.set_penalty_offset(size.saturating_add(self.size_of_grant()));
        self
    }

    /// The canonical text of the algorithm and of the penalty: see [`Algorithm::canonical_form`].
    #[must_use]
    pub fn canonical_form(&self) -> String {
        let moving = self.moving.as_ref().map(|moving| moving.canonical_form());
        let penalty = self.penalty.as_ref().map(Penalty::canonical_form);
        [self.algorithm.canonical_form(), moving.unwrap_or_default(), penalty.unwrap_or_default()].concat()
    }

    /// What a state means by which this quota judges, as a number: quotas with the same time base
    /// judge one state. `None` for a quota that refuses all and has no state.
    #[must_use]
    pub fn time_base(&self) -> Option<u64> {
        Some(self.form).filter(|form| *form != 0)
    }

    /// The size of the state in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Makes the state valid at `now`: see [`Algorithm::prepare`].
    pub fn prepare(&self, state: &mut [u8], now: Time) -> bool {
        let (state, behind) = self.split_mut(state);
        let is_prepared = self.decide(|algorithm| algorithm.prepare(state, now));
        let is_prepared = self.has_grants && grant::prepare(behind, now) || is_prepared;
        self.penalty.is_some_and(|penalty| penalty.prepare(self.penalty_in_mut(behind), now)) || is_prepared
    }

    /// Checks a request of `cost` units, and charges the state if the request is admitted.
    pub fn step(&self, state: &mut [u8], now: Time, cost: u64) -> Verdict {
        let (state, behind) = self.split_mut(state);
        self.decide(|algorithm| match self.penalty {
            Some(penalty) if penalty.rest(self.penalty_in(behind), now) > Span::ZERO => {
                let own = self.penalty_in(behind);
                let look = algorithm.step(state, now, 0);
                // A request that the algorithm would admit must not be charged.
                let fits = cost <= look.remaining;
                let verdict = if fits { look } else { algorithm.step(state, now, cost) };
                let penalized = penalty.penalize(own, now, verdict);
                match cost {
                    0 => Verdict { admission: look.admission, ..penalized },
                    _ => penalized,
                }
            }
            _ => algorithm.step(state, now, cost),
        })
    }

    /// Refunds a charge: see [`Algorithm::refund`]. Counted refusals stay counted.
    pub fn refund(&self, state: &mut [u8], now: Time, charge: Charge) {
        if charge.is_granted() {
            // A later document may have no room for grants.
            if self.has_grants {
                grant::refund(self.split_mut(state).1, charge, charge.cost);
            }
        } else if !self.is_outdated(charge) {
            self.decide(|algorithm| algorithm.refund(self.split_mut(state).0, now, charge));
        }
    }

    /// Counts a refusal at `now` in the prepared state of the refused actor, if the rule has a
    /// penalty.
    pub fn count_refusal(&self, state: &mut [u8], now: Time) {
        let own = self.penalty_in_mut(self.split_mut(state).1);
        self.penalty.into_iter().for_each(|penalty| penalty.count_refusal(own, now));
    }

    /// The verdict `refusal`, after it was counted: if a penalty runs at `now`, the penalty's
    /// verdict.
    pub fn penalize(&self, state: &[u8], now: Time, refusal: Verdict) -> Verdict {
        let own = self.penalty_in(self.split(state).1);
        self.penalty.map_or(refusal, |penalty| penalty.penalize(own, now, refusal))
    }

    /// The rest of the penalty that runs at `now`; zero without one.
    #[must_use]
    pub(crate) fn penalty_rest(&self, state: &[u8], now: Time) -> Span {
        let own = self.penalty_in(self.split(state).1);
        self.penalty.map_or(Span::ZERO, |penalty| penalty.rest(own, now))
    }

    /// Ends the penalty that runs at `now`. Returns whether one did.
    pub fn end_penalty(&self, state: &mut [u8], now: Time) -> bool {
        let own = self.penalty_in_mut(self.split_mut(state).1);
        self.penalty.is_some_and(|penalty| penalty.end(own, now))
    }

    /// The time until the state rests if no request comes: a new state would then behave the same.
    #[must_use]
    pub fn rests_in(&self, state: &[u8], now: Time) -> Span {
        let (own, behind) = self.split(state);
        let parts = [(Part::Count, own), (Part::Grant, behind), (Part::Penalty, self.penalty_in(behind))];
        let parts = parts.into_iter().filter(|(part, _)| *part != Part::Grant || self.has_grants);
        parts.map(|(part, state)| self.part_rests_in(part, state, now)).max().unwrap_or(Span::ZERO)
    }

    /// The time until one part of the state rests.
    pub(crate) fn part_rests_in(&self, part: Part, state: &[u8], now: Time) -> Span {
        match part {
            Part::Count => self.decide(|algorithm| algorithm.rests_in(state, now)),
            Part::Grant => grant::rest(state, now),
            Part::Penalty => self.penalty.map_or(Span::ZERO, |penalty| penalty.rests_in(state, now)),
        }
    }

    /// What an actor loses by this quota if its cell is evicted. If the quota `is_enforced`, it
    /// refuses an actor to which it leaves nothing but headroom, although a new one would get more.
    pub(crate) fn loss(&self, cell: &[u8], now: Time, is_enforced: bool, rule: usize) -> Loss {
        let look = |mut state: Vec<u8>| {
            self.prepare(&mut state, now);
            let before = state.clone();
            let beyond = self.step_with_headroom(&mut state, &before, now, 0, self.headroom());
            (self.step(&mut state, now, 0).remaining, beyond)
        };
        let own = self.state(cell);
        let ((left, beyond), (lefts, of_new)) = (look(own.to_vec()), look(vec![0; own.len()]));
        if is_enforced && beyond.remaining == 0 && of_new.remaining > 0 {
            return Loss::Refuses { opens_in: beyond.more_in, rule };
        }
        let part = left.abs_diff(lefts).saturating_mul(1 << 32).checked_div(self.shown().rpu.max(1));
        Loss::Part(part.unwrap_or(0))
    }

    /// The algorithm, if workers may reserve quota ahead: see [`Algorithm::reserve`]. They would
    /// spend a reservation during a penalty, and at a limit that has moved.
    #[must_use]
    pub fn as_reserve(&self) -> Option<&Algorithm> {
        let can_reserve = self.penalty.is_none() && self.moving.is_none() && self.algorithm.can_reserve();
        can_reserve.then_some(&self.algorithm)
    }

    /// The parameters of the algorithm for a global store. The share of one of several gateways
    /// tells those of the largest share.
    #[must_use]
    pub fn parameters(&self) -> Parameters {
        if self.adaptive().is_some() { Parameters::adaptive() } else { self.algorithm.parameters() }
    }

    /// The adaptive limit. `None` if the quota does not adapt.
    #[must_use]
    pub fn adaptive(&self) -> Option<&Arc<Adaptive>> {
        self.moving.as_ref()?.adaptive()
    }

    /// The headroom in units now; 0: none.
    #[must_use]
    pub fn headroom(&self) -> u64 {
        match self.headroom {
            Headroom::Units(units) => units,
            Headroom::Percent(percent) => self.part_now(percent),
            Headroom::Share => self.headroom_of_share(),
        }
    }

    /// For a host that cannot hold requests: see [`Algorithm::without_waiting`]. The salt stays, so
    /// the actors keep their cells. Returns whether any decision changes.
    pub(crate) fn refuse_to_wait(&mut self) -> bool {
        let Some(algorithm) = self.algorithm.without_waiting() else { return false };
        debug_assert_eq!(algorithm.form(), self.algorithm.form());
        self.moving.iter_mut().for_each(|moving| moving.refuse_to_wait());
        self.shown = algorithm.shown(self.quota);
        let waited = self.algorithm.may_wait();
        self.algorithm = algorithm;
        waited
    }

    /// The quota that response headers show now.
    #[must_use]
    pub fn shown(&self) -> Quota {
        match &self.moving {
            None => self.shown,
            Some(moving) => {
                let present = moving.now();
                present.algorithm.shown(present.quota)
            }
        }
    }

    /// Corrects `charge` to `cost` units, if the algorithm can settle.
    pub(crate) fn settle(&self, state: &mut [u8], now: Time, charge: Charge, cost: u64) {
        if charge.is_granted() {
            return self.settle_granted(state, now, charge, cost);
        }
        let is_lost = cost < charge.cost && self.is_outdated(charge);
        if self.algorithm.can_settle() && !is_lost {
            self.decide(|algorithm| algorithm.settle(self.split_mut(state).0, now, charge, cost));
        }
    }

    pub(crate) fn state<'c>(&self, cell: &'c [u8]) -> &'c [u8] {
        let end = self.offset.saturating_add(self.size);
        debug_assert!(cell.is_empty() || cell.len() >= end, "a cell of another group");
        cell.get(self.offset..end).unwrap_or_default()
    }

    pub(crate) fn state_mut<'c>(&self, cell: &'c mut [u8]) -> &'c mut [u8] {
        let end = self.offset.saturating_add(self.size);
        debug_assert!(cell.is_empty() || cell.len() >= end, "a cell of another group");
        cell.get_mut(self.offset..end).unwrap_or_default()
    }

    /// The parts of the state, each with its size, if the largest state has `size` bytes.
    pub(super) fn parts(&self, size: usize) -> impl Iterator<Item = (Part, usize)> + use<> {
        let (count, grant) = (self.own_size, self.size_of_grant());
        let penalty = size.saturating_sub(count).saturating_sub(grant);
        let parts = [(Part::Count, count), (Part::Grant, grant), (Part::Penalty, penalty)];
        parts.into_iter().filter(|(_, size)| *size > 0)
    }

    /// The state of the algorithm, and what is behind: the states of a grant and of the penalty.
    fn split<'c>(&self, state: &'c [u8]) -> (&'c [u8], &'c [u8]) {
        state.split_at_checked(self.own_size).unwrap_or((state, &[]))
    }

    fn split_mut<'c>(&self, state: &'c mut [u8]) -> (&'c mut [u8], &'c mut [u8]) {
        state.split_at_mut(self.own_size.min(state.len()))
    }

    /// The state of the penalty in what is behind the algorithm's. That of a grant comes first, so
    /// that quotas with and without a penalty find it at the same place.
    fn penalty_in<'c>(&self, behind: &'c [u8]) -> &'c [u8] {
        behind.get(self.size_of_grant()..).unwrap_or_default()
    }

    fn penalty_in_mut<'c>(&self, behind: &'c mut [u8]) -> &'c mut [u8] {
        behind.get_mut(self.size_of_grant()..).unwrap_or_default()
    }

    fn size_of_grant(&self) -> usize {
        if self.has_grants { grant::SIZE } else { 0 }
    }

    /// Where the penalty's state begins in the counter's.
    pub(super) fn penalty_offset(&self) -> usize {
        self.own_size.saturating_add(self.size_of_grant())
    }

    /// Sets where the penalty's state begins, behind at least [`Algorithm::size`] bytes.
    pub(super) fn set_penalty_offset(&mut self, offset: usize) {
        self.own_size = offset.saturating_sub(self.size_of_grant());
        self.size = offset.saturating_add(self.penalty.map_or(0, |_| Penalty::SIZE));
    }

    /// Calls `by` with the algorithm that decides now.
    fn decide<R>(&self, by: impl FnOnce(&Algorithm) -> R) -> R {
        let present;
        let algorithm = match &self.moving {
            None => &self.algorithm,
            Some(moving) => {
                present = moving.now();
                &present.algorithm
            }
        };
        by(algorithm)
    }

    /// Whether a charge is from before the quota moved, and is not refunded.
    fn is_outdated(&self, charge: Charge) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.is_outdated(charge))
    }

    #[inline(never)]
    fn part_now(&self, percent: u64) -> u64 {
        self.shown().rpu.saturating_mul(percent).div_ceil(100)
    }

    #[inline(never)]
    fn headroom_of_share(&self) -> u64 {
        debug_assert!(self.moving.is_some(), "a share of nothing");
        self.moving.as_ref().map_or(0, |moving| moving.now().headroom)
    }
}

/// Grants: see [`grant`]. Only steps that the quota refuses look at them.
impl Counter {
    /// Makes room for a grant in the state, before the state has its place.
    pub(super) fn with_room_for_grants(&mut self) {
        debug_assert!(!self.has_grants, "the state has room");
        let offset = self.penalty_offset().saturating_add(grant::SIZE);
        self.has_grants = true;
        self.set_penalty_offset(offset);
    }

    /// Whether an actor can get a grant.
    pub(crate) fn takes_grants(&self) -> bool {
        self.has_grants
    }

    /// Forgets what the state has counted, with a penalty and a grant.
    pub(crate) fn reset(&self, state: &mut [u8]) {
        let granted = self.has_grants.then(|| part(self.split(state).1, ..grant::SIZE).to_vec());
        state.fill(0);
        if let Some(granted) = granted {
            let behind = self.split_mut(state).1;
            behind.iter_mut().zip(&granted).for_each(|(to, from)| *to = *from);
            grant::end(behind);
        }
    }

    /// `verdict` on a request of `cost` units; if the quota refuses, and not a penalty, and a grant
    /// suffices, the request is admitted at once and charged to the grant.
    #[cold]
    #[inline(never)]
    pub(crate) fn or_grant(&self, state: &mut [u8], now: Time, cost: u64, verdict: Verdict) -> Verdict {
        if !self.has_grants || verdict.admits() || verdict.is_penalty() {
            return verdict;
        }
        match grant::spend(self.split_mut(state).1, now, cost) {
            Some(charge) => Verdict { admission: Admission::Admit { delay: Span::ZERO }, charge, ..verdict },
            None => verdict,
        }
    }

    /// Gives a grant of `amount` units for the span `lasts`, in place of an earlier one.
    pub(crate) fn grant(&self, state: &mut [u8], now: Time, amount: u64, lasts: Span) {
        grant::give(self.split_mut(state).1, now, amount, lasts);
    }

    /// The units that are left of a grant at `now`, and how long they are valid.
    pub(crate) fn granted(&self, state: &[u8], now: Time) -> (u64, Span) {
        let (_, granted) = self.split(state);
        match grant::left(granted, now) {
            _ if !self.has_grants => (0, Span::ZERO),
            0 => (0, Span::ZERO),
            left => (left, grant::rest(granted, now)),
        }
    }

    /// Corrects a charge that a grant has paid. What the grant lacks, the quota owes.
    #[cold]
    #[inline(never)]
    fn settle_granted(&self, state: &mut [u8], now: Time, charge: Charge, cost: u64) {
        debug_assert!(self.has_grants, "a charge under another policy");
        let (state, granted) = self.split_mut(state);
        match cost.checked_sub(charge.cost) {
            Some(more) => {
                let owed = more.saturating_sub(grant::take(granted, now, charge, more));
                if owed > 0 && self.algorithm.can_settle() {
                    _ = self.decide(|algorithm| algorithm.charge(state, now, owed));
                }
            }
            None => grant::refund(granted, charge, charge.cost.saturating_sub(cost)),
        }
    }
}

/// Steps that leave headroom: a part of what a counter admits, for requests of high priority. A
/// cell does not know the headroom: it counts all requests alike.
///
/// ```text
///   remaining  ████████████████████░░░░░░░░   a request of high priority may take all of this
///              └ for all requests ┘headroom   another request leaves at least `headroom` units
/// ```
impl Counter {
    /// Like [`Counter::step`] for a request that has to leave `headroom` units. `before` is the
    /// state, and as long as the state.
    ///
    /// The verdict is that of a state with `headroom` units less, exact to the nanosecond:
    /// [`Verdict::remaining`] does not include the headroom, `retry_after` is the time until the
    /// request can leave it, and [`Verdict::more_in`] is the time until `remaining` grows. A
    /// request of cost 0 is admitted, and only reads.
    ///
    /// The algorithm admits without a delay, and `headroom` plus one unit fit into a full cell.
    pub fn step_with_headroom(
        &self,
        state: &mut [u8],
        before: &[u8],
        now: Time,
        cost: u64,
        headroom: u64,
    ) -> Verdict {
        if headroom == 0 {
            return self.step(state, now, cost);
        }
        if cost > 0 {
            let with_headroom = self.step(state, now, cost.saturating_add(headroom));
            if !with_headroom.admits() {
                return self.without_headroom(state, now, with_headroom, headroom);
            }
            state.copy_from_slice(before);
        }
        let verdict = self.step(state, now, cost);
        self.without_headroom(state, now, verdict, headroom)
    }

    /// The verdict about a request that costs nothing on arrival: refused if not one unit is left
    /// beside `headroom` units. `before` is the state, and stays the state.
    pub fn peek(&self, state: &mut [u8], before: &[u8], now: Time, headroom: u64) -> Verdict {
        let one = self.step_with_headroom(state, before, now, 1, headroom);
        if !one.admits() {
            return one;
        }
        state.copy_from_slice(before);
        self.step_with_headroom(state, before, now, 0, headroom)
    }

    /// `verdict` without the headroom. `state` is as the verdict left it.
    fn without_headroom(&self, state: &mut [u8], now: Time, verdict: Verdict, headroom: u64) -> Verdict {
        if let Some(remaining) = verdict.remaining.checked_sub(headroom) {
            return Verdict { remaining, ..verdict };
        }
        // The headroom comes back first. A refused step leaves the state unchanged.
        let more_in = match self.step(state, now, headroom.saturating_add(1)).admission {
            Admission::Refuse { retry_after } => retry_after.unwrap_or(Span::ZERO),
            Admission::Admit { .. } => Span::ZERO,
        };
        Verdict { remaining: 0, more_in, ..verdict }
    }
}
