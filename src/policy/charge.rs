//! Check all, then charge all: a refused request is charged nowhere.
//!
//! It does not know: what a verdict is made of, or how a table finds a cell.
//!
//! ```text
//!   known to be refused? ──yes──────────────────────────────► refuse, nothing asked
//!        │no
//!   load and judge every group ── one refuses ──────────────► refuse, nothing charged
//!        │all admit
//!   swap group 1, 2, … n ── swap lost: load, judge again ─┬─ admits: swap again
//!        │all swapped                                     └─ refuses: give back 1 … k, refuse
//!        ▼
//!      pass
//! ```
//!
//! The clock is read after the loads. Whoever stored a cell had read it before, so that a cell which seems to
//! come from the future means that the clock stepped.
//!
//! Between its charge and its being given back a request counts as having passed, so that others may be
//! refused that need not have been; never the other way round.

use super::give_back::{Held, Place, uncharge};
use super::group::{Group, Identity, Judgement};
use super::{Count, Decision, Events, Known, Outcome, Overridden, Policy, Reason, Report, RuleId, Tally};
use crate::algorithm;
use crate::request::Request;
use crate::store::{Fault, Store, Swap};
use crate::table::{Entry, Eviction, Hasher, Set};
use crate::time::{Span, Time};

/// After so many lost swaps in a row a store is taken for broken. Each loss means that another worker has
/// won; even if 64 of them did nothing else, one would lose so often in a row once in 10²⁷ times.
pub(super) const MAX_LOST: u32 = 4_096;

/// All that a decision depends on beside the policy and the request.
pub(crate) struct Terms<'a, S: ?Sized> {
    pub(crate) store: &'a S,
    pub(crate) hasher: &'a Hasher,
    pub(crate) overridden: &'a Overridden,
    pub(crate) clock: &'a dyn Fn() -> Time,
}

/// One group's part in a decision.
struct Bid<'p> {
    group: &'p Group,
    place: Place,
    hash: u64,
    key: Vec<u8>,
    counts: Vec<&'p Count>,
    /// `None` when the store failed: the group has no say.
    judged: Option<Judged<'p>>,
}

struct Judged<'p> {
    entry: Entry<'p>,
    judgement: Judgement,
    at: Time,
}

/// Decides about `request` and charges the rules if it passes.
pub(crate) fn decide<S: Store + ?Sized>(
    policy: &Policy,
    request: &Request,
    known: &mut Known,
    terms: &Terms<S>,
) -> (Decision, Vec<Held>) {
    let address = |request: &Request| policy.ip.client(request);
    let (mut reports, mut events) = (Vec::new(), Events::default());
    if policy.lists.deny.names(request, address) {
        if policy.enforced {
            return (Decision::of(Outcome::Refuse(Reason::Denied)), Vec::new());
        }
        events.denied_in_shadow = 1;
    } else if policy.lists.allow.names(request, address) {
        return (Decision::of(Outcome::Allowed), Vec::new());
    }
    let mut bids = match bids(policy, request, terms.hasher, &mut reports) {
        Ok(bids) => bids,
        Err(id) => {
            let decision = Decision { outcome: Outcome::Refuse(Reason::NoActor(id)), reports, events };
            return (decision, Vec::new());
        }
    };
    if recall(policy, &bids, known, terms, &mut reports) {
        events.known = 1;
        return (Decision { outcome: refusal(&reports), reports, events }, Vec::new());
    }
    let sets: Vec<Option<Set>> = bids.iter().map(|bid| bid.load(terms, &mut events)).collect();
    let now = (terms.clock)();
    for (bid, set) in bids.iter_mut().zip(sets) {
        bid.judge(policy, set, terms, now);
    }
    let refused = bids.iter().any(Bid::refuses) || !charge(policy, &mut bids, terms, &mut events);
    if refused {
        for bid in &mut bids {
            bid.step_back(policy, terms, known, &mut events);
        }
    }
    bids.iter().for_each(|bid| bid.report(policy, &mut reports));
    if refused {
        return (Decision { outcome: refusal(&reports), reports, events }, Vec::new());
    }
    let outcome = bids.iter().filter_map(|bid| bid.turn(policy)).max().map_or(Outcome::Pass, Outcome::Wait);
    // Who waits may leave, and then gives all of it back.
    let is_waiting = matches!(outcome, Outcome::Wait(_));
    let held = bids.into_iter().filter(|bid| is_waiting || bid.settles()).filter_map(Bid::held).collect();
    (Decision { outcome, reports, events }, held)
}

/// Whom each group counts. An enforced rule that needs an actor the request lacks is the error; what
/// shadow rules of that kind have to say goes to `reports`.
fn bids<'p>(
    policy: &'p Policy,
    request: &Request,
    hasher: &Hasher,
    reports: &mut Vec<Report>,
) -> Result<Vec<Bid<'p>>, RuleId> {
    let mut bids = Vec::new();
    let mut lacking = None;
    for (at, limit) in policy.applicable(request) {
        for (index, group) in limit.groups.iter().enumerate() {
            match group.identify(policy, request, hasher) {
                Identity::Nobody => {}
                Identity::Actor { hash, key } => {
                    let counts = group.counts(policy, &key);
                    bids.push(Bid { group, place: (at, index), hash, key, counts, judged: None });
                }
                Identity::Lacking => {
                    for (id, rule) in group.rules(policy) {
                        let tally = if rule.enforced { Tally::Refused } else { Tally::Shadowed };
                        lacking = lacking.or(rule.enforced.then_some(id));
                        reports.push(Report { rule: id, quota: rule.count.quota, tally, verdict: None });
                    }
                }
            }
        }
    }
    lacking.map_or(Ok(bids), Err)
}

/// Whether this worker can tell, without asking the store, that the request is refused. Every group that is
/// known to refuse reports, so that the longest wait among them is named.
fn recall<S: ?Sized>(
    policy: &Policy,
    bids: &[Bid],
    known: &Known,
    terms: &Terms<S>,
    reports: &mut Vec<Report>,
) -> bool {
    if !bids.iter().any(|bid| known.holds(bid.group.id, bid.hash)) {
        return false;
    }
    let (now, mut refused) = ((terms.clock)(), false);
    for bid in bids {
        let Some(cell) = known.recall(bid.group.id, bid.hash, now) else {
            continue;
        };
        let mut cell = cell.to_vec();
        let judgement = Judgement::pass(policy, bid.group, &bid.counts, &mut cell, now);
        if judgement.refused {
            refused = true;
            judgement.report(policy, bid.group, &bid.counts, reports);
        }
    }
    refused
}

/// Swaps every group, or none: whether all were charged.
fn charge<'p, S: Store + ?Sized>(
    policy: &'p Policy,
    bids: &mut [Bid<'p>],
    terms: &Terms<S>,
    events: &mut Events,
) -> bool {
    for index in 0..bids.len() {
        let Some((done, [bid, ..])) = bids.split_at_mut_checked(index) else {
            return true;
        };
        if !bid.commit(policy, terms, events) {
            for earlier in done {
                earlier.give_back(policy, terms, events);
            }
            return false;
        }
    }
    true
}

impl<'p> Bid<'p> {
    fn load<S: Store + ?Sized>(&self, terms: &Terms<S>, events: &mut Events) -> Option<Set<'p>> {
        match self.group.table.load(terms.store, self.hash) {
            Ok(set) => {
                events.foreign = events.foreign.saturating_add(set.foreign().into());
                Some(set)
            }
            Err(Fault(_)) => {
                events.faults = events.faults.saturating_add(1);
                None
            }
        }
    }

    fn judge<S: ?Sized>(&mut self, policy: &'p Policy, set: Option<Set<'p>>, terms: &Terms<S>, now: Time) {
        let group = self.group;
        self.judged = set.map(|set| {
            let key = |hash| terms.overridden.key(group.id, hash);
            let mut entry = set.claim(|hash, cell| group.worth(policy, key(hash), cell, now));
            if let Some(Eviction::Crowded { by }) = entry.eviction() {
                self.counts = group.counts(policy, key(by));
            }
            let cell = entry.cell_mut();
            let judgement = Judgement::pass(policy, group, &self.counts, cell, now);
            Judged { entry, judgement, at: now }
        });
    }

    fn refuses(&self) -> bool {
        self.judged.as_ref().is_some_and(|judged| judged.judgement.refused)
    }

    /// Stores the charged cell; `false` when somebody was faster and there is not enough left.
    fn commit<S: Store + ?Sized>(
        &mut self,
        policy: &'p Policy,
        terms: &Terms<S>,
        events: &mut Events,
    ) -> bool {
        for _ in 0..MAX_LOST {
            let Some(Judged { entry, judgement, .. }) = &mut self.judged else {
                return true;
            };
            if judgement.refused {
                return false;
            }
            if !judgement.changed(entry.cell()) {
                return true;
            }
            match entry.commit(terms.store) {
                Ok(Swap::Done) => {
                    events.evicted(entry.eviction());
                    return true;
                }
                Ok(Swap::Lost) => {
                    events.swaps_lost = events.swaps_lost.saturating_add(1);
                    let set = self.load(terms, events);
                    self.judge(policy, set, terms, (terms.clock)());
                }
                Err(Fault(_)) => break,
            }
        }
        events.faults = events.faults.saturating_add(1);
        self.judged = None;
        true
    }

    /// Takes back a charge that is already stored.
    fn give_back<S: Store + ?Sized>(&mut self, policy: &Policy, terms: &Terms<S>, events: &mut Events) {
        let Some(Judged { judgement, .. }) = &self.judged else {
            return;
        };
        uncharge(self.group, self.hash, &self.counts, &judgement.charges(), policy, terms, events);
    }

    /// The request is refused: leaves the cell uncharged, stores a repaired one, remembers a refusing one.
    fn step_back<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        terms: &Terms<S>,
        known: &mut Known,
        events: &mut Events,
    ) {
        let settles = self.settles();
        let Some(Judged { entry, judgement, at }) = &mut self.judged else {
            return;
        };
        if let Some(Eviction::Crowded { .. }) = entry.eviction() {
            events.evicted(entry.eviction());
            return;
        }
        if judgement.refused && !settles {
            // Permits come back at any time: their lack is not remembered.
            known.remember(self.group.id, self.hash, *at, judgement.before());
        }
        if !judgement.refused {
            judgement.undo(policy, self.group, &self.counts, entry.cell_mut(), *at);
        }
        // Lost or failed, the next request repairs it.
        if judgement.repaired && entry.commit(terms.store) == Ok(Swap::Done) {
            events.evicted(entry.eviction());
        }
    }

    fn report(&self, policy: &Policy, reports: &mut Vec<Report>) {
        match &self.judged {
            Some(Judged { judgement, .. }) => judgement.report(policy, self.group, &self.counts, reports),
            None => {
                for ((id, _), count) in self.group.rules(policy).zip(&self.counts) {
                    let tally = Tally::Uncounted;
                    reports.push(Report { rule: id, quota: count.quota, tally, verdict: None });
                }
            }
        }
    }
}

impl Bid<'_> {
    /// When its enforced rules let the request go on; `None` is at once. Counted from when they were judged,
    /// which is what they have booked: other groups may have been judged later.
    fn turn(&self, policy: &Policy) -> Option<Time> {
        let Judged { judgement, at, .. } = self.judged.as_ref()?;
        let delay = judgement.delay(policy, self.group);
        (delay > Span::ZERO).then(|| at.after(delay))
    }

    /// Whether a charge of it ends with the request.
    fn settles(&self) -> bool {
        self.counts.iter().any(|count| count.algorithm.settles())
    }

    /// What was charged, to be given back.
    fn held(self) -> Option<Held> {
        let judgement = self.judged?.judgement;
        let Bid { place, hash, key, .. } = self;
        Some(Held { place, hash, key, charges: judgement.charges() })
    }
}

/// The refusing rule whose wait is longest; one that never admits waits longest.
fn refusal(reports: &[Report]) -> Outcome {
    // A permit comes back when another request ends: that is sooner than its time is up.
    let is_permit = |report: &Report| report.quota.unit == Span::ZERO;
    let wait = |report: &&Report| match report.verdict.map(|verdict| verdict.outcome) {
        Some(algorithm::Outcome::Refuse { retry_after: Some(_) }) if is_permit(report) => Span::from_secs(1),
        Some(algorithm::Outcome::Refuse { retry_after }) => retry_after.unwrap_or(Span::from_ns(u64::MAX)),
        _ => Span::ZERO,
    };
    // Backwards, because the last of equals is taken and the first is meant.
    let refusing = reports.iter().rev().filter(|report| report.tally == Tally::Refused);
    refusing.max_by_key(wait).map_or(Outcome::Pass, |report| Outcome::Refuse(Reason::Rule(report.rule)))
}
