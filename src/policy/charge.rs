//! Check all, then charge all: a refused request is charged nowhere.
//!
//! It does not know: what a verdict is made of, or how a table finds a cell.
//!
//! ```text
//!   known to be refused? ──yes──────────────────────────────► refuse, nothing asked
//!        │no
//!   spend of this worker's shares, load the other groups
//!        │
//!   judge every group         ── one refuses ──────────────► refuse, nothing charged
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

use super::bid::{Bid, Court, Memory};
use super::give_back::Held;
use super::group::Identity;
use super::shares::Shares;
use super::{Decision, Events, Known, Outcome, Overridden, Policy, Reason, Report, RuleId, Tally};
use crate::algorithm;
use crate::request::Request;
use crate::store::Store;
use crate::table::Hasher;
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

/// Where decisions are made: the last one, and room for the next, so that nothing is allocated for it.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) decision: Decision,
    /// The keys of all bids, one behind the other.
    keys: Vec<u8>,
    bids: Vec<Bid>,
    spare: Vec<Memory>,
    limits: Vec<usize>,
    matches: Vec<usize>,
}

/// Decides about `request` and charges the rules if it passes; what may be given back later is returned.
pub(crate) fn decide<S: Store + ?Sized>(
    policy: &Policy,
    request: &Request,
    desk: &mut Desk,
    known: &mut Known,
    shares: &mut Shares,
    terms: &Terms<S>,
) -> Vec<Held> {
    desk.clear();
    let address = |request: &Request| policy.ip.client(request);
    let decision = &mut desk.decision;
    if policy.lists.deny.names(request, address) {
        if policy.enforced {
            decision.outcome = Outcome::Refuse(Reason::Denied);
            return Vec::new();
        }
        decision.events.denied_in_shadow = 1;
    } else if policy.lists.allow.names(request, address) {
        decision.outcome = Outcome::Allowed;
        return Vec::new();
    }
    if let Some(id) = desk.gather(policy, request, terms.hasher) {
        desk.decision.outcome = Outcome::Refuse(Reason::NoActor(id));
        return Vec::new();
    }
    let Desk { decision: Decision { outcome, reports, events }, keys, bids, .. } = desk;
    let court = Court { policy, keys, terms };
    if recall(bids, known, &court, reports) {
        events.known = 1;
        *outcome = refusal(reports);
        return Vec::new();
    }
    judge(bids, shares, &court, events);
    let refused = bids.iter().any(Bid::refuses) || !charge(bids, shares, &court, events);
    if refused {
        bids.iter_mut().for_each(|bid| bid.step_back(known, shares, &court, events));
    }
    bids.iter().for_each(|bid| bid.report(&court, reports));
    if refused {
        *outcome = refusal(reports);
        return Vec::new();
    }
    *outcome = bids.iter().filter_map(|bid| bid.turn(&court)).max().map_or(Outcome::Pass, Outcome::Wait);
    // Who waits may leave, and then gives all of it back.
    let is_waiting = matches!(outcome, Outcome::Wait(_));
    bids.iter().filter(|bid| is_waiting || bid.group.settles).filter_map(Bid::held).collect()
}

impl Desk {
    fn clear(&mut self) {
        let Desk { decision, keys, bids, spare, .. } = self;
        decision.outcome = Outcome::Pass;
        decision.events = Events::default();
        decision.reports.clear();
        keys.clear();
        spare.extend(bids.drain(..).map(|bid| bid.memory));
    }

    /// Whom each group counts. An enforced rule that needs an actor the request lacks is returned; what
    /// shadow rules of that kind have to say goes to the reports.
    fn gather(&mut self, policy: &Policy, request: &Request, hasher: &Hasher) -> Option<RuleId> {
        let Desk { decision, keys, bids, spare, limits, matches } = self;
        let mut lacking = None;
        policy.applicable(request, matches, limits);
        for at in limits.iter().copied() {
            for (index, group) in policy.groups(at).iter().enumerate() {
                let start = keys.len();
                match group.identify(policy, request, hasher, keys) {
                    Identity::Nobody => {}
                    Identity::Actor(hash) => {
                        let memory = spare.pop().unwrap_or_default();
                        bids.push(Bid::new(group, (at, index), hash, start..keys.len(), memory));
                    }
                    Identity::Lacking => {
                        for (id, rule) in group.ids().zip(group.rules(policy)) {
                            let tally = if rule.enforced { Tally::Refused } else { Tally::Shadowed };
                            lacking = lacking.or(rule.enforced.then_some(id));
                            let quota = rule.count.quota;
                            decision.reports.push(Report { rule: id, quota, tally, verdict: None });
                        }
                    }
                }
            }
        }
        lacking
    }
}

/// Whether this worker can tell, without asking the store, that the request is refused. Every group that is
/// known to refuse reports, so that the longest wait among them is named.
fn recall<S: ?Sized>(bids: &mut [Bid], known: &Known, court: &Court<S>, reports: &mut Vec<Report>) -> bool {
    if !bids.iter().any(|bid| known.holds(bid.group.id, bid.hash)) {
        return false;
    }
    let (now, mut refused) = ((court.terms.clock)(), false);
    for bid in bids {
        if let Some(cell) = known.recall(bid.group.id, bid.hash, now)
            && bid.recall(cell, now, court)
        {
            refused = true;
            bid.report_recalled(court, reports);
        }
    }
    refused
}

/// Judges every group: by this worker's share of it, or by its cell. A request that may wait may leave and give
/// all back, so it spends of no share.
fn judge<S: Store + ?Sized>(bids: &mut [Bid], shares: &Shares, court: &Court<S>, events: &mut Events) {
    if bids.is_empty() {
        // Nobody is counted: the clock, a call of the host's, is not asked.
        return;
    }
    let may_spend = may_spend(bids);
    let share = |bid: &Bid| shares.find(bid.group.id, bid.hash).filter(|_| may_spend);
    for bid in bids.iter_mut().filter(|bid| share(bid).is_none()) {
        bid.load(court.terms, events);
    }
    let now = (court.terms.clock)();
    for bid in bids {
        match share(bid) {
            None => bid.judge(now, shares, court),
            Some(share) if bid.spend(share, now, court) => {}
            Some(_) => {
                bid.load(court.terms, events);
                bid.judge((court.terms.clock)(), shares, court);
            }
        }
    }
}

fn may_spend(bids: &[Bid]) -> bool {
    !bids.iter().any(|bid| bid.group.waits)
}

/// Swaps every group, or none: whether all were charged. What is spent of shares cannot fail.
fn charge<S: Store + ?Sized>(
    bids: &mut [Bid],
    shares: &mut Shares,
    court: &Court<S>,
    events: &mut Events,
) -> bool {
    let lends = may_spend(bids);
    for index in 0..bids.len() {
        let Some((done, [bid, ..])) = bids.split_at_mut_checked(index) else {
            break;
        };
        if !bid.commit(lends, shares, court, events) {
            done.iter().for_each(|earlier| earlier.give_back(court, events));
            return false;
        }
    }
    bids.iter().for_each(|bid| bid.note(shares));
    true
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
