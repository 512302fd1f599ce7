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
//!        │all admit           ── a store has to be asked ──► `Pending`: what is here is judged when it has answered
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
use super::give_back::{Held, Place};
use super::group::Identity;
use super::known::{Known, Refusals};
use super::lineage::Lineage;
use super::part::Part;
use super::shares::Shares;
use super::{Decision, Events, Found, Outcome, Overridden, Policy, Reason, Report, RuleId, Tally, Way};
use super::{Duty, Pending};
use crate::algorithm;
use crate::order;
use crate::request::Request;
use crate::store::Store;
use crate::table::Hasher;
use crate::time::{Span, Time};
use std::ops::Range;

/// After so many lost swaps in a row a store is taken for broken. Each loss means that another worker has
/// won; even if 64 of them did nothing else, one would lose so often in a row once in 10²⁷ times.
pub(super) const MAX_LOST: u32 = 4_096;

/// All that a decision depends on beside the policy and the request.
pub(crate) struct Terms<'a, S: ?Sized> {
    pub(crate) store: &'a S,
    pub(crate) hasher: &'a Hasher,
    pub(crate) overridden: &'a Overridden,
    pub(crate) lineage: &'a Lineage,
    pub(crate) clock: &'a dyn Fn() -> Time,
    /// Whether a shard of the store for all gateways may be asked.
    pub(crate) reaches: &'a dyn Fn(usize) -> bool,
}

/// What a worker keeps between decisions, beside the desk.
#[derive(Debug, Default)]
pub(crate) struct Memories {
    pub(crate) known: Known,
    pub(crate) refusals: Refusals,
    pub(crate) shares: Shares,
    /// Whether another configuration has taken the place of the worker's: then nothing is reserved, and the store gets
    /// back at once the quota that it hands out ahead.
    pub(crate) is_retired: bool,
}

/// Where decisions are made: the last one, and room for the next, so that nothing is allocated for it.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) decision: Decision,
    /// Who has to have more fetched ahead.
    pub(crate) duties: Vec<Duty>,
    /// The keys of all bids and parts, one behind the other.
    pub(super) keys: Vec<u8>,
    pub(super) bids: Vec<Bid>,
    pub(super) parts: Vec<Part>,
    spare: Vec<Memory>,
    limits: Vec<usize>,
    matches: Vec<usize>,
}

/// How far a decision has come.
pub(crate) enum Ruling {
    /// It is made; what may be given back later.
    Made(Vec<Held>),
    /// A store for all gateways has to be asked.
    Asks(Pending),
}

impl Ruling {
    fn none_held() -> Ruling {
        Ruling::Made(Vec::new())
    }
}

/// Decides about `request` and charges the rules if it passes.
pub(crate) fn decide<S: Store + ?Sized>(
    policy: &Policy,
    request: &Request,
    desk: &mut Desk,
    memories: &mut Memories,
    terms: &Terms<S>,
) -> Ruling {
    desk.clear();
    let address = |request: &Request| policy.ip.client(request);
    let decision = &mut desk.decision;
    if policy.lists.deny.names(request, address) {
        if policy.enforced {
            decision.outcome = Outcome::Refuse(Reason::Denied);
            decision.left_out = policy.leaves_out_client(request, terms.hasher).into();
            return Ruling::none_held();
        }
        decision.events.denied_in_shadow = 1;
    } else if policy.lists.allow.names(request, address) {
        decision.outcome = Outcome::Allowed;
        decision.left_out = policy.leaves_out_client(request, terms.hasher).into();
        return Ruling::none_held();
    }
    if let Some(id) = desk.gather(policy, request, terms.hasher) {
        desk.decision.outcome = Outcome::Refuse(Reason::NoActor(id));
        return Ruling::none_held();
    }
    if desk.recall(policy, memories, terms) {
        desk.decision.events.known = 1;
        desk.decision.outcome = refusal(&desk.decision.reports);
        return Ruling::none_held();
    }
    let reaches = desk.stand_in(policy, terms);
    desk.judge(policy, &memories.shares, terms);
    let refused = desk.parts.iter().any(|part| part.refuses(policy))
        || desk.bids.iter().any(|bid| !bid.is_ahead() && bid.refuses());
    let mut asks = reaches && (desk.bids.iter().any(Bid::refuses) || desk.parts.iter().any(Part::asks));
    let mut charged = Ok(());
    if !refused && !asks {
        charged = desk.charge(policy, &mut memories.shares, terms);
        // What was fetched ahead has just been spent by another worker.
        asks = charged.is_err_and(|ahead| ahead);
    }
    if asks && !refused && desk.recall_leased(policy, memories, terms) {
        desk.decision.events.known = 1;
        desk.decision.outcome = refusal(&desk.decision.reports);
        return Ruling::none_held();
    }
    if asks && !refused {
        return Ruling::Asks(desk.ask(policy, terms.reaches, (terms.clock)()));
    }
    Ruling::Made(desk.close(policy, refused || charged.is_err(), memories, terms))
}

impl Desk {
    pub(super) fn clear(&mut self) {
        let Desk { decision, keys, bids, spare, parts, duties, .. } = self;
        decision.outcome = Outcome::Pass;
        decision.events = Events::default();
        decision.left_out = 0;
        decision.reports.clear();
        keys.clear();
        parts.clear();
        duties.clear();
        spare.extend(bids.drain(..).map(|bid| bid.memory));
    }

    /// Whom each group counts. An enforced rule that needs an actor the request lacks is returned; what
    /// shadow rules of that kind have to say goes to the reports.
    fn gather(&mut self, policy: &Policy, request: &Request, hasher: &Hasher) -> Option<RuleId> {
        let Desk { decision, keys, bids, parts, spare, limits, matches, .. } = self;
        let mut lacking = None;
        policy.applicable(request, matches, limits);
        for at in limits.iter().copied() {
            let groups = policy.groups(at).iter().enumerate().filter(|(_, group)| group.way == Way::Own);
            let elsewhere = policy.elsewhere(at).iter().map(|elsewhere| &elsewhere.group).enumerate();
            let all = groups.map(|one| (one, false)).chain(elsewhere.map(|one| (one, true)));
            for ((index, group), is_elsewhere) in all {
                let start = keys.len();
                match group.identify(policy, request, hasher, keys) {
                    Identity::Nobody => {}
                    Identity::Actor(_) if group.is_left_out(policy, hasher, keys.get(start..)) => {
                        keys.truncate(start);
                        decision.left_out = decision.left_out.saturating_add(1);
                    }
                    Identity::Actor(hash) if is_elsewhere => {
                        parts.push(Part::new(policy, (at, index), hash, start..keys.len(), keys));
                    }
                    Identity::Actor(hash) => {
                        let memory = spare.pop().unwrap_or_default();
                        bids.push(Bid::new(group, (at, index), hash, start..keys.len(), memory));
                    }
                    Identity::Lacking => {
                        for (id, rule) in group.ids().zip(group.rules(&policy.rules)) {
                            let tally = if rule.enforced { Tally::Refused } else { Tally::Shadowed };
                            lacking = lacking.or(rule.enforced.then_some(id));
                            let quota = rule.own.count.shown;
                            let report = Report {
                                rule: id,
                                quota,
                                found: Found::Missing,
                                tally,
                                verdict: None,
                                degraded: false,
                            };
                            decision.reports.push(report);
                        }
                    }
                }
            }
        }
        lacking
    }

    /// Adds a bid of one of a limit's groups for the actor of this key.
    pub(super) fn bid(&mut self, policy: &Policy, place: Place, key: Range<usize>, hasher: &Hasher) {
        if let Some(group) = policy.group(place) {
            let hash = group.hash(&policy.rules, hasher, self.keys.get(key.clone()).unwrap_or_default());
            self.bids.push(Bid::new(group, place, hash, key, self.spare.pop().unwrap_or_default()));
        }
    }

    /// Whether this worker can tell, without asking any store, that the request is refused. Every group that is
    /// known to refuse reports, so that the longest wait among them is named.
    fn recall<S: ?Sized>(&mut self, policy: &Policy, memories: &Memories, terms: &Terms<S>) -> bool {
        let Desk { decision: Decision { reports, .. }, keys, bids, parts, .. } = self;
        let Memories { known, refusals, .. } = memories;
        // Most are not: then the clock, a call of the host's, is not asked.
        let is_known = bids.iter().any(|bid| known.holds(bid.group.id, bid.hash))
            || parts.iter().any(|part| !part.is_leased(policy) && part.is_known(policy, refusals));
        if !is_known {
            return false;
        }
        let (court, now, mut refused) = (Court { policy, keys, terms }, (terms.clock)(), false);
        for bid in bids {
            if let Some(cell) = known.recall(bid.group.id, bid.hash, now)
                && bid.recall(cell, now, &court)
            {
                refused = true;
                bid.report_recalled(&court, reports);
            }
        }
        for part in parts.iter().filter(|part| !part.is_leased(policy)) {
            refused |= part.recall(policy, refusals, now, reports);
        }
        refused
    }

    /// The same for those that fetch ahead, once the gateway holds nothing that would do. Only now, because what another
    /// worker has fetched since the refusal may be spent.
    fn recall_leased<S: ?Sized>(&mut self, policy: &Policy, memories: &Memories, terms: &Terms<S>) -> bool {
        let Desk { decision: Decision { reports, .. }, bids, parts, .. } = self;
        let is_short = |part: &&Part| part.is_leased(policy) && part.lease(bids).is_none_or(Bid::refuses);
        let leased = || parts.iter().filter(is_short);
        if !leased().any(|part| part.is_known(policy, &memories.refusals)) {
            return false;
        }
        let now = (terms.clock)();
        let mut refused = false;
        for part in leased() {
            refused |= part.recall(policy, &memories.refusals, now, reports);
        }
        refused
    }

    pub(super) fn judge<S: Store + ?Sized>(&mut self, policy: &Policy, shares: &Shares, terms: &Terms<S>) {
        let Desk { decision: Decision { events, .. }, keys, bids, .. } = self;
        judge(bids, shares, &Court { policy, keys, terms }, events);
    }

    /// Charges every bid or none. The error says whether the one that was lost spends what was fetched ahead.
    pub(super) fn charge<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        shares: &mut Shares,
        terms: &Terms<S>,
    ) -> Result<(), bool> {
        let Desk { decision: Decision { events, .. }, keys, bids, .. } = self;
        charge(bids, shares, &Court { policy, keys, terms }, events)
    }

    /// Ends a decision about which no store has to be asked any more; what may be given back is returned.
    pub(super) fn close<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        refused: bool,
        memories: &mut Memories,
        terms: &Terms<S>,
    ) -> Vec<Held> {
        let Desk { decision: Decision { outcome, reports, events, .. }, keys, bids, parts, duties, .. } =
            self;
        let court = Court { policy, keys, terms };
        if refused {
            bids.iter_mut().for_each(|bid| bid.step_back(memories, &court, events));
        }
        // That nothing is left of what was fetched ahead is no refusal.
        let counted = |bid: &&Bid| !bid.is_ahead() || !bid.refuses();
        bids.iter().filter(counted).for_each(|bid| bid.report(&court, reports));
        parts.iter().for_each(|part| part.report(policy, keys, reports));
        if !parts.is_empty() {
            // In the order of the configuration, wherever they were counted.
            order::sort_by_key(reports, |report| report.rule);
        }
        if refused {
            *outcome = refusal(reports);
            return Vec::new();
        }
        duties.extend(
            bids.iter().filter(|bid| bid.asks_for_more()).filter_map(|bid| Duty::of(bid, parts, keys)),
        );
        let told = parts.iter().filter_map(|part| part.turn(policy));
        let turns = bids.iter().filter_map(|bid| bid.turn(&court)).chain(told);
        *outcome = turns.max().map_or(Outcome::Pass, Outcome::Wait);
        // Who waits may leave, and then gives all of it back.
        let is_waiting = matches!(outcome, Outcome::Wait(_));
        bids.iter().filter(|bid| is_waiting || bid.group.settles).filter_map(Bid::held).collect()
    }
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
        bid.load(court, events);
    }
    let now = (court.terms.clock)();
    for bid in bids {
        match share(bid) {
            None => bid.judge(now, shares, court, events),
            Some(share) if bid.spend(share, now, court) => {}
            Some(_) => {
                bid.load(court, events);
                bid.judge((court.terms.clock)(), shares, court, events);
            }
        }
    }
}

fn may_spend(bids: &[Bid]) -> bool {
    !bids.iter().any(|bid| bid.group.waits)
}

/// Swaps every group, or none; which was lost is told as [`Desk::charge`] does. What is spent of shares cannot fail.
fn charge<S: Store + ?Sized>(
    bids: &mut [Bid],
    shares: &mut Shares,
    court: &Court<S>,
    events: &mut Events,
) -> Result<(), bool> {
    let lends = may_spend(bids);
    for index in 0..bids.len() {
        let Some((done, [bid, ..])) = bids.split_at_mut_checked(index) else {
            break;
        };
        if !bid.commit(lends, shares, court, events) {
            done.iter().for_each(|earlier| earlier.give_back(court, events));
            return Err(bid.is_ahead());
        }
    }
    bids.iter().for_each(|bid| bid.note(shares));
    Ok(())
}

/// The refusing rule whose wait is longest; one that never admits waits longest.
pub(super) fn refusal(reports: &[Report]) -> Outcome {
    // A permit comes back when another request ends: that is sooner than its time is up.
    let is_permit = |report: &Report| report.quota.unit == Span::ZERO;
    let wait = |report: &&Report| match report.verdict.map(|verdict| verdict.outcome) {
        Some(algorithm::Outcome::Refuse { retry_after: Some(_) }) if is_permit(report) => Span::from_secs(1),
        Some(algorithm::Outcome::Refuse { retry_after }) => retry_after.unwrap_or(Span::from_ns(u64::MAX)),
        _ => Span::ZERO,
    };
    // Backwards, because the last of equals is taken and the first is meant.
    let refusing = reports.iter().rev().filter(|report| report.tally == Tally::Refused);
    let is_unattributed = reports.iter().any(|report| report.tally == Tally::Unattributed);
    let otherwise = if is_unattributed { Outcome::Refuse(Reason::Unattributed) } else { Outcome::Pass };
    refusing.max_by_key(wait).map_or(otherwise, |report| match report {
        Report { verdict: None, degraded: true, rule, .. } => Outcome::Refuse(Reason::Unavailable(*rule)),
        report => Outcome::Refuse(Reason::Rule(report.rule)),
    })
}
