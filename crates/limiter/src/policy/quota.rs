//! A quota as a value, and what it does to the states of an actor.

use super::place::{Place, StateKind};
use super::rule::{Brought, Rule};
use crate::algorithm::{
    self, Admission, Algorithm, BucketOptions, Charge, Parameters, Penalty, QueueOptions, QuotaError,
    Reservation, Verdict, grant, part,
};
use crate::cells::table::{Hasher, Loss, WHOLE_QUOTA};
use diana_base::time::{Span, Time};
use diana_calendar::Calendar;

/// The part of a quota that only requests of high priority may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Headroom {
    /// This many units.
    Units(u64),
    /// A part of what the quota admits at most, in percent and rounded up.
    Percent(u32),
}

impl Default for Headroom {
    fn default() -> Headroom {
        Headroom::Units(0)
    }
}

/// The numbers by which a rule judges one request, and what follows from them. A rule has a quota
/// for most actors, and one for each override and each plan. All of them judge one state.
///
/// ```
/// use diana_base::time::{Span, Time};
/// use diana_limiter::algorithm::{Admission, BucketOptions, Penalty, QuotaError};
/// use diana_limiter::policy::Quota;
///
/// let second = Span::from_secs(1);
/// let quota = Quota::token_bucket(1, second, BucketOptions::default())?;
/// let penalty = Penalty::new(second, 2, Span::from_secs(600));
/// let quota = quota.with_penalty(Some(penalty)).alone();
///
/// let (mut cell, now) = (vec![0; quota.size()], Time::from_ns(1_700_000_000_000_000_000));
/// assert!(quota.step(&mut cell, now, 1).admits());
/// for is_penalty in [false, false, true] {
///     let refused = quota.step(&mut cell, now, 1);
///     assert_eq!((refused.admits(), refused.is_penalty()), (false, is_penalty));
///     quota.count_refusal(&mut cell, now);
/// }
/// let wait = Admission::Refuse { retry_after: Some(Span::from_secs(600)) };
/// assert_eq!(quota.step(&mut cell, now, 1).admission, wait);
/// # Ok::<(), QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    algorithm: Algorithm,
    rpu: u64,
    unit: Span,
    /// In units, or in percent if `has_part`.
    headroom: u64,
    has_part: bool,
    penalty: Option<Penalty>,
    lease: u32,
    /// Whether requests may bring their own `rpu`.
    varies: bool,
}

/// Each demand of a request has one.
const _: () = assert!(size_of::<Quota>() <= 128);

/// One constructor for each algorithm. An error names the number that cannot be.
impl Quota {
    /// Refuses all requests.
    pub const NOTHING: Quota = Quota {
        algorithm: Algorithm::RefuseAll,
        rpu: 0,
        unit: algorithm::Allowance::MIN_UNIT,
        headroom: 0,
        has_part: false,
        penalty: None,
        lease: 0,
        varies: false,
    };

    /// See [`Algorithm::token_bucket`].
    pub fn token_bucket(rpu: u64, unit: Span, options: BucketOptions) -> Result<Quota, QuotaError> {
        let quota = algorithm::Allowance { rpu, unit };
        Ok(Quota::new(quota, Algorithm::token_bucket(quota, options)?))
    }

    /// See [`Algorithm::window`].
    pub fn window(rpu: u64, unit: Span) -> Result<Quota, QuotaError> {
        let quota = algorithm::Allowance { rpu, unit };
        Ok(Quota::new(quota, Algorithm::window(quota)?))
    }

    /// See [`Algorithm::calendar`].
    pub fn calendar(rpu: u64, calendar: Calendar) -> Result<Quota, QuotaError> {
        let unit = Span::from_secs(calendar.unit.days().saturating_mul(86_400));
        Ok(Quota::new(algorithm::Allowance { rpu, unit }, Algorithm::calendar(rpu, calendar)?))
    }

    /// See [`Algorithm::sliding_window`].
    pub fn sliding_window(rpu: u64, unit: Span, slices: u64) -> Result<Quota, QuotaError> {
        let quota = algorithm::Allowance { rpu, unit };
        Ok(Quota::new(quota, Algorithm::sliding_window(quota, slices)?))
    }

    /// See [`Algorithm::sliding_log`].
    pub fn sliding_log(rpu: u64, unit: Span) -> Result<Quota, QuotaError> {
        let quota = algorithm::Allowance { rpu, unit };
        Ok(Quota::new(quota, Algorithm::sliding_log(quota)?))
    }

    /// See [`Algorithm::leaky_bucket`].
    pub fn leaky_bucket(rpu: u64, unit: Span, options: QueueOptions) -> Result<Quota, QuotaError> {
        let quota = algorithm::Allowance { rpu, unit };
        Ok(Quota::new(quota, Algorithm::leaky_bucket(quota, options)?))
    }

    /// See [`Algorithm::concurrency`].
    pub fn concurrency(permits: u64, max_hold: Span) -> Result<Quota, QuotaError> {
        let quota = algorithm::Allowance { rpu: permits, unit: Span::ZERO };
        Ok(Quota::new(quota, Algorithm::concurrency(permits, max_hold)?))
    }
}

impl Quota {
    /// A quota without a penalty, without a lease and without headroom.
    #[must_use]
    pub fn new(algorithm::Allowance { rpu, unit }: algorithm::Allowance, algorithm: Algorithm) -> Quota {
        Quota { algorithm, rpu, unit, ..Quota::NOTHING }
    }

    /// The same quota with this penalty, which is part of the meaning, not of the form.
    #[must_use]
    pub fn with_penalty(self, penalty: Option<Penalty>) -> Quota {
        Quota { penalty, ..self }
    }

    /// The same quota for requests whose cost is known at their end: see [`Algorithm::borrowing`].
    #[must_use]
    pub fn borrowing(self, borrow: u64) -> Option<Quota> {
        Some(Quota { algorithm: self.algorithm.borrowing(borrow)?, ..self })
    }

    /// The same quota, of which other requests leave a part for those of high priority.
    #[must_use]
    pub fn with_headroom(self, headroom: Headroom) -> Quota {
        let (headroom, has_part) = match headroom {
            Headroom::Units(units) => (units, false),
            Headroom::Percent(percent) => (percent.into(), true),
        };
        Quota { headroom, has_part, ..self }
    }

    /// The same quota, of which one lease of a global rule holds at most so many units for one
    /// actor; 0: no lease.
    #[must_use]
    pub fn with_lease(self, units: u32) -> Quota {
        Quota { lease: units, ..self }
    }

    /// The same quota for limits from `lowest` on, which move while it counts. `None` if the
    /// algorithm cannot adapt. `least` is the least that a request costs.
    #[must_use]
    pub fn adapting(self, lowest: u64, least: u64) -> Option<Quota> {
        Some(Quota { algorithm: self.algorithm.adapting(self.configured(), lowest, least)?, ..self })
    }

    /// The same quota for requests that may bring their own `rpu`: see
    /// [`RuleDraft::limit_source`](super::RuleDraft::limit_source). `None` if a request may wait,
    /// or if what it takes depends on the rate: earlier requests had other rates.
    #[must_use]
    pub fn varying(self) -> Option<Quota> {
        let fits = !self.algorithm.may_wait() && !self.algorithm.keeps_its_instant();
        fits.then_some(Quota { varies: true, ..self })
    }

    /// Whether requests may bring their own `rpu`.
    #[must_use]
    pub fn varies(&self) -> bool {
        self.varies
    }

    /// The quota of a request that brings this `rpu`. Some of it stays beside the headroom, as in a
    /// share.
    pub(super) fn brought(self, rpu: u64, least: u64) -> Quota {
        let quota = self.at(rpu, least);
        quota.with_room(quota.headroom(), least)
    }

    /// The same quota, whose month begins on this day.
    pub(super) fn on_day(self, day: u64) -> Quota {
        let algorithm = self.algorithm.on_day(u8::try_from(day).unwrap_or(u8::MAX));
        Quota { algorithm, ..self }
    }

    /// The same quota with a headroom of so many units, or of as many as leave room for one
    /// request of `least` units.
    fn with_room(self, headroom: u64, least: u64) -> Quota {
        if headroom == 0 {
            return self;
        }
        let units = headroom.min(self.algorithm.at_rest(0).remaining.saturating_sub(least.max(1)));
        self.with_headroom(Headroom::Units(units))
    }

    /// The quota at another limit: burst and queue move in proportion. At least a request of
    /// `least` units fits.
    #[must_use]
    pub fn at(self, rpu: u64, least: u64) -> Quota {
        let quota = algorithm::Allowance { rpu, unit: self.unit };
        Quota { algorithm: self.algorithm.at(quota, self.rpu, least), rpu, ..self }
    }

    /// The share of one of so many gateways: each quantity is divided, but stays at least `least`,
    /// the cost of a request. A headroom is divided as well and rounded up, and one request still
    /// passes next to it.
    #[must_use]
    pub fn share(self, of: u64, least: u64) -> Quota {
        let quota = algorithm::Allowance { rpu: part(self.rpu, of, least), unit: self.unit };
        let algorithm = self.algorithm.share(quota, of, least);
        let share = Quota { algorithm, rpu: quota.rpu, ..self };
        let headroom = if self.has_part { share.headroom() } else { self.headroom.div_ceil(of.max(1)) };
        share.with_room(headroom, least)
    }

    /// The quota that this gateway fetched ahead from the global store, and spends by itself.
    #[must_use]
    pub fn leased(self) -> Quota {
        let algorithm = self.algorithm.leased(self.lease.into(), self.configured());
        Quota { algorithm, penalty: None, ..self }.with_headroom(Headroom::default())
    }

    /// The same quota for a host that cannot hold requests: see [`Algorithm::without_waiting`].
    /// `None` if it already is.
    pub(crate) fn without_waiting(self) -> Option<Quota> {
        let algorithm = self.algorithm.without_waiting()?;
        debug_assert_eq!(algorithm.form(), self.algorithm.form());
        Some(Quota { algorithm, ..self })
    }

    /// The algorithm that judges while no penalty runs.
    #[must_use]
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// The quota as the document states it.
    #[must_use]
    pub fn configured(&self) -> algorithm::Allowance {
        algorithm::Allowance { rpu: self.rpu, unit: self.unit }
    }

    /// The quota that response headers show: [`Algorithm::shown`].
    #[must_use]
    pub fn shown(&self) -> algorithm::Allowance {
        self.algorithm.shown(self.configured())
    }

    /// The quota that response headers show at `now`, in the calendar's present period.
    #[must_use]
    pub fn shown_at(&self, now: Time) -> algorithm::Allowance {
        let shown = self.shown();
        algorithm::Allowance { unit: self.algorithm.unit_at(now, shown.unit), ..shown }
    }

    /// The penalty of actors that are refused too often.
    #[must_use]
    pub fn penalty(&self) -> Option<&Penalty> {
        self.penalty.as_ref()
    }

    /// The most units that one lease holds for one actor; 0: no lease.
    #[must_use]
    pub fn lease(&self) -> u64 {
        self.lease.into()
    }

    /// What other requests leave for those of high priority, as the document states it.
    #[must_use]
    pub fn headroom_part(&self) -> Headroom {
        match u32::try_from(self.headroom) {
            Ok(percent) if self.has_part => Headroom::Percent(percent),
            _ => Headroom::Units(self.headroom),
        }
    }

    /// The headroom in units; 0: none.
    #[must_use]
    pub fn headroom(&self) -> u64 {
        match self.has_part {
            false => self.headroom,
            true => self.shown().rpu.saturating_mul(self.headroom).div_ceil(100),
        }
    }

    /// The canonical text of the algorithm and of the penalty: see [`Algorithm::canonical_form`].
    #[must_use]
    pub fn canonical_form(&self) -> String {
        self.canonical_form_with("")
    }

    /// The canonical text with that of what moves the algorithm.
    pub(super) fn canonical_form_with(&self, moving: &str) -> String {
        let penalty = self.penalty.as_ref().map(Penalty::canonical_form).unwrap_or_default();
        [&self.algorithm.canonical_form(), moving, &penalty].concat()
    }

    /// The meaning of the states by which this quota judges, as a number: quotas with the same time
    /// base judge one state. `None` for a quota that refuses all and has no state.
    #[must_use]
    pub fn time_base(&self) -> Option<u64> {
        self.has_state().then(|| Hasher::name(self.algorithm.form().as_bytes()))
    }

    pub(super) fn keeps_rest(&self) -> bool {
        self.algorithm.keeps_rest()
    }

    /// Whether the quota judges by a state: a quota of 0 refuses all requests without one.
    pub(crate) fn has_state(&self) -> bool {
        self.algorithm != Algorithm::RefuseAll
    }

    /// The parameters of the algorithm for a global store.
    #[must_use]
    pub fn parameters(&self) -> Parameters {
        self.algorithm.parameters()
    }

    /// The parameters for a question to a global store at `now`.
    #[must_use]
    pub fn parameters_at(&self, now: Time) -> Parameters {
        self.algorithm.parameters_at(now)
    }

    /// The algorithm, if workers may reserve quota ahead: see [`Algorithm::reserve`]. They would
    /// spend a reservation during a penalty, and for requests that bring a lower number.
    #[must_use]
    pub fn as_reserve(&self) -> Option<&Algorithm> {
        let fits = self.penalty.is_none() && !self.varies;
        (fits && self.algorithm.can_reserve()).then_some(&self.algorithm)
    }

    /// The time until a state rests.
    pub(crate) fn rests_in(&self, part: StateKind, state: &[u8], now: Time) -> Span {
        match part {
            StateKind::Count => self.algorithm.rests_in(state, now),
            StateKind::Grant => grant::rest(state, now),
            StateKind::Penalty => self.penalty.map_or(Span::ZERO, |penalty| penalty.rests_in(state, now)),
            // As long as the count, about, so that operators see both.
            StateKind::Limit | StateKind::Learned => self.shown().unit,
        }
    }

    /// The quota with the states of a cell of its own.
    #[must_use]
    pub fn alone(self) -> PlacedQuota {
        let (place, _) = Place::new(0, self.algorithm.size(), [false, self.penalty.is_some(), false, false]);
        self.in_place(place)
    }

    pub(crate) fn in_place(self, place: Place) -> PlacedQuota {
        PlacedQuota { quota: self, place }
    }
}

/// A quota, and the place of the states by which it judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedQuota {
    /// The quota.
    pub quota: Quota,
    /// The place of the rule's states in a cell.
    pub(crate) place: Place,
}

impl PlacedQuota {
    /// The size of a cell that ends with these states.
    #[must_use]
    pub fn size(&self) -> usize {
        self.place.end()
    }

    /// The quota at the limit that the actor's last counted request brought.
    pub(crate) fn at_last_limit(self, cell: &[u8], rule: &Rule) -> PlacedQuota {
        let quota = rule.brought(&self.quota, Brought { limit: self.place.limit(cell), day: None });
        PlacedQuota { quota, ..self }
    }

    /// What the actor's requests cost: see [`RequestEstimate`](super::RequestEstimate).
    pub(crate) fn learned(&self, cell: &[u8]) -> Option<u64> {
        self.place.learned(cell)
    }

    /// Notes what the actor's requests cost.
    pub(crate) fn set_learned(&self, cell: &mut [u8], cost: u64) {
        self.place.set_learned(cell, cost);
    }

    /// Notes the limit of a request that is counted.
    pub(crate) fn note_limit(&self, cell: &mut [u8]) {
        if self.quota.varies {
            self.place.set_limit(cell, self.quota.rpu);
        }
    }

    /// Makes the states valid at `now`: see [`Algorithm::prepare`].
    pub fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        let PlacedQuota { quota, place } = self;
        let is_prepared = quota.algorithm.prepare(place.count_mut(cell), now);
        let is_prepared = place.has_grant() && grant::prepare(place.grant_mut(cell), now) || is_prepared;
        quota.penalty.is_some_and(|penalty| penalty.prepare(place.penalty_mut(cell), now)) || is_prepared
    }

    /// Checks a request of `cost` units, and charges the count if the request is admitted.
    pub fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        match &self.quota.penalty {
            Some(penalty) if penalty.rest(self.place.penalty(cell), now) > Span::ZERO => {
                let look = self.count(cell, now, 0);
                // A request that the algorithm would admit must not be charged.
                let fits = cost <= look.remaining;
                let verdict = if fits { look } else { self.count(cell, now, cost) };
                let penalized = penalty.penalize(self.place.penalty(cell), now, verdict);
                match cost {
                    0 => Verdict { admission: look.admission, ..penalized },
                    _ => penalized,
                }
            }
            _ => self.count(cell, now, cost),
        }
    }

    fn count(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        self.quota.algorithm.step(self.place.count_mut(cell), now, cost)
    }

    /// Refunds a charge: see [`Algorithm::refund`]. Counted refusals stay counted.
    pub fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        if charge.is_granted() {
            // A later document may have no room for grants.
            if self.place.has_grant() {
                grant::refund(self.place.grant_mut(cell), charge, charge.cost);
            }
        } else {
            self.quota.algorithm.refund(self.place.count_mut(cell), now, charge);
        }
    }

    /// Counts a refusal at `now` in the prepared states of the refused actor, if the quota has a
    /// penalty.
    pub fn count_refusal(&self, cell: &mut [u8], now: Time) {
        if let Some(penalty) = &self.quota.penalty {
            penalty.count_refusal(self.place.penalty_mut(cell), now);
        }
    }

    /// The verdict `refusal`, after it was counted: if a penalty runs at `now`, the penalty's
    /// verdict.
    pub fn penalize(&self, cell: &[u8], now: Time, refusal: Verdict) -> Verdict {
        let penalty = self.quota.penalty.as_ref();
        penalty.map_or(refusal, |penalty| penalty.penalize(self.place.penalty(cell), now, refusal))
    }

    /// The rest of the penalty that runs at `now`; zero without one.
    #[must_use]
    pub(crate) fn penalty_rest(&self, cell: &[u8], now: Time) -> Span {
        let penalty = self.quota.penalty.as_ref();
        penalty.map_or(Span::ZERO, |penalty| penalty.rest(self.place.penalty(cell), now))
    }

    /// Ends the penalty that runs at `now`. Returns whether one did.
    pub fn end_penalty(&self, cell: &mut [u8], now: Time) -> bool {
        self.quota.penalty.is_some_and(|penalty| penalty.end(self.place.penalty_mut(cell), now))
    }

    /// Corrects `charge` to `cost` units, if the algorithm can settle.
    pub(crate) fn settle(&self, cell: &mut [u8], now: Time, charge: Charge, cost: u64) {
        if charge.is_granted() {
            self.settle_granted(cell, now, charge, cost);
        } else if self.quota.algorithm.can_settle() {
            self.quota.algorithm.settle(self.place.count_mut(cell), now, charge, cost);
        }
    }

    /// The time until the states rest if no request comes: new states would then behave the same.
    #[must_use]
    pub fn rests_in(&self, cell: &[u8], now: Time) -> Span {
        let PlacedQuota { quota, place } = self;
        let count = quota.rests_in(StateKind::Count, place.count(cell), now);
        let grant = quota.rests_in(StateKind::Grant, place.grant(cell), now);
        count.max(grant).max(quota.rests_in(StateKind::Penalty, place.penalty(cell), now))
    }

    /// What an actor loses by this quota of the rule with this place in its group, if its cell is
    /// evicted. If the rule is enforced, it refuses an actor to which it leaves less than a request
    /// costs beside headroom, although a new one would get more.
    pub(crate) fn loss(self, cell: &[u8], now: Time, rule: &Rule, at: usize) -> Loss {
        let quota = self.at_last_limit(cell, rule);
        let headroom = quota.quota.headroom();
        let look = |mut cell: Vec<u8>| {
            quota.prepare(&mut cell, now);
            let before = cell.clone();
            let beyond = quota.step_with_headroom(&mut cell, &before, now, 0, headroom);
            (quota.step(&mut cell, now, 0).remaining, beyond)
        };
        let ((left, beyond), (of_new, beyond_of_new)) = (look(cell.to_vec()), look(vec![0; cell.len()]));
        let least = rule.least.max(1);
        if rule.enforced() && beyond.remaining < least && beyond_of_new.remaining >= least {
            return Loss::Refuses { opens_in: beyond.more_in, rule: at };
        }
        let most = quota.quota.shown().rpu.max(1);
        // Large numbers lose their low bits, so that the product fits.
        let bits = u64::BITS.saturating_sub(most.leading_zeros()).saturating_sub(31);
        let (lost, most) = (left.abs_diff(of_new) >> bits, most >> bits);
        Loss::Part(lost.saturating_mul(WHOLE_QUOTA).checked_div(most).unwrap_or(0))
    }
}

/// Reservations: see [`Algorithm::reserve`].
impl PlacedQuota {
    pub(crate) fn reservable(&self, cell: &[u8], now: Time) -> u64 {
        self.quota.as_reserve().map_or(0, |algorithm| algorithm.reservable(self.place.count(cell), now))
    }

    pub(crate) fn reserve(&self, cell: &mut [u8], now: Time, amount: u64) -> Option<Reservation> {
        self.quota.as_reserve()?.reserve(self.place.count_mut(cell), now, amount)
    }

    pub(crate) fn spend(
        &self,
        cell: &mut [u8],
        reservation: &mut Reservation,
        now: Time,
        cost: u64,
    ) -> Option<Verdict> {
        self.quota.as_reserve()?.spend(self.place.count_mut(cell), reservation, now, cost)
    }

    pub(crate) fn release(&self, cell: &mut [u8], now: Time, reservation: &Reservation) {
        if let Some(algorithm) = self.quota.as_reserve().filter(|_| reservation.charge.cost > 0) {
            algorithm.release(self.place.count_mut(cell), now, reservation);
        }
    }
}

/// Grants: see [`grant`]. Only steps that the quota refuses look at them.
impl PlacedQuota {
    /// Forgets what the states have counted and learned, with a penalty of any quota of the rule
    /// and a grant.
    pub(crate) fn reset(&self, cell: &mut [u8]) {
        self.set_learned(cell, 0);
        self.place.count_mut(cell).fill(0);
        self.place.penalty_mut(cell).fill(0);
        grant::end(self.place.grant_mut(cell));
    }

    /// `verdict` on a request of `cost` units; if the quota refuses, and not a penalty, and a grant
    /// suffices, the request is admitted at once and charged to the grant.
    #[cold]
    #[inline(never)]
    pub(crate) fn or_grant(&self, cell: &mut [u8], now: Time, cost: u64, verdict: Verdict) -> Verdict {
        if !self.place.has_grant() || verdict.admits() || verdict.is_penalty() {
            return verdict;
        }
        match grant::spend(self.place.grant_mut(cell), now, cost) {
            Some(charge) => Verdict { admission: Admission::Admit { delay: Span::ZERO }, charge, ..verdict },
            None => verdict,
        }
    }

    /// Gives a grant of `amount` units for the span `lasts`, in place of an earlier one.
    pub(crate) fn grant(&self, cell: &mut [u8], now: Time, amount: u64, lasts: Span) {
        grant::give(self.place.grant_mut(cell), now, amount, lasts);
    }

    /// The units that are left of a grant at `now`, and how long they are valid.
    pub(crate) fn granted(&self, cell: &[u8], now: Time) -> (u64, Span) {
        let granted = self.place.grant(cell);
        match grant::left(granted, now) {
            0 => (0, Span::ZERO),
            left => (left, grant::rest(granted, now)),
        }
    }

    /// Corrects a charge that a grant has paid. What the grant lacks, the quota owes.
    #[cold]
    #[inline(never)]
    fn settle_granted(&self, cell: &mut [u8], now: Time, charge: Charge, cost: u64) {
        debug_assert!(self.place.has_grant(), "a charge under another policy");
        let granted = self.place.grant_mut(cell);
        match cost.checked_sub(charge.cost) {
            Some(more) => {
                let owed = more.saturating_sub(grant::take(granted, now, charge, more));
                if owed > 0 && self.quota.algorithm.can_settle() {
                    _ = self.quota.algorithm.charge(self.place.count_mut(cell), now, owed);
                }
            }
            None => grant::refund(granted, charge, charge.cost.saturating_sub(cost)),
        }
    }
}

/// Steps that leave headroom: a part of what a quota admits, for requests of high priority. A cell
/// does not know the headroom: it counts all requests alike.
///
/// ```text
///   remaining  ████████████████████░░░░░░░░   a request of high priority may take all of this
///              └ for all requests ┘headroom   another request leaves at least `headroom` units
/// ```
impl PlacedQuota {
    /// Like [`PlacedQuota::step`] for a request that has to leave `headroom` units. `before` is the
    /// cell, and as long as the cell.
    ///
    /// The verdict is that of a cell with `headroom` units less, exact to the nanosecond:
    /// [`Verdict::remaining`] does not include the headroom, `retry_after` is the time until the
    /// request can leave it, and [`Verdict::more_in`] is the time until `remaining` grows. A
    /// request of cost 0 is admitted, and only reads.
    ///
    /// The algorithm admits without a delay, and `headroom` plus one unit fit into a full cell.
    pub fn step_with_headroom(
        &self,
        cell: &mut [u8],
        before: &[u8],
        now: Time,
        cost: u64,
        headroom: u64,
    ) -> Verdict {
        if headroom == 0 {
            return self.step(cell, now, cost);
        }
        if cost > 0 {
            let with_headroom = self.step(cell, now, cost.saturating_add(headroom));
            if !with_headroom.admits() {
                return self.without_headroom(cell, now, with_headroom, headroom);
            }
            self.restore(cell, before);
        }
        let verdict = self.step(cell, now, cost);
        self.without_headroom(cell, now, verdict, headroom)
    }

    /// The verdict about a request that costs nothing on arrival: refused if not one unit is left
    /// next to `headroom` units. `before` is the cell, and stays the cell.
    pub fn peek(&self, cell: &mut [u8], before: &[u8], now: Time, headroom: u64) -> Verdict {
        let one = self.step_with_headroom(cell, before, now, 1, headroom);
        if !one.admits() {
            return one;
        }
        self.restore(cell, before);
        self.step_with_headroom(cell, before, now, 0, headroom)
    }

    /// Undoes a step.
    fn restore(&self, cell: &mut [u8], before: &[u8]) {
        self.place.count_mut(cell).copy_from_slice(self.place.count(before));
    }

    /// `verdict` without the headroom. `cell` is as the verdict left it.
    fn without_headroom(&self, cell: &mut [u8], now: Time, verdict: Verdict, headroom: u64) -> Verdict {
        if let Some(remaining) = verdict.remaining.checked_sub(headroom) {
            return Verdict { remaining, ..verdict };
        }
        // The headroom comes back first. A refused step leaves the count unchanged.
        let more_in = match self.step(cell, now, headroom.saturating_add(1)).admission {
            Admission::Refuse { retry_after } => retry_after.unwrap_or(Span::ZERO),
            Admission::Admit { .. } => Span::ZERO,
        };
        Verdict { remaining: 0, more_in, ..verdict }
    }
}
