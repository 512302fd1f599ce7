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

use super::check::{Buffers, CheckContext, GroupCheck};
use super::context::{Context, WorkerCache};
use super::decision::refusal;
use super::global_check::GlobalCheck;
use super::group::Identity;
use super::refund::{Charged, GroupIndex};
use super::reservations::Reservations;
use super::{ActorSource, Decision, Events, Outcome, Policy, Reason, Role, RuleId, RuleReport, RuleResult};
use super::{LeaseRefill, Pending};
use crate::request::Request;
use crate::sort;
use crate::store::Store;
use crate::table::Hasher;
use std::ops::Range;

/// After so many lost swaps in a row a store is taken for broken. Each loss means that another worker has
/// won; even if 64 of them did nothing else, one would lose so often in a row once in 10²⁷ times.
pub(super) const MAX_LOST: u32 = 4_096;

/// Where decisions are made: the last one, and room for the next, so that nothing is allocated for it.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) decision: Decision,
    /// Who has to have more fetched ahead.
    pub(crate) refills: Vec<LeaseRefill>,
    /// The keys of all bids and parts, one behind the other.
    pub(super) keys: Vec<u8>,
    pub(super) checks: Vec<GroupCheck>,
    pub(super) globals: Vec<GlobalCheck>,
    spare: Vec<Buffers>,
    limits: Vec<usize>,
    matches: Vec<usize>,
}

/// How far a decision has come.
pub(crate) enum Progress {
    /// It is made; what may be given back later.
    Decided(Vec<Charged>),
    /// A store for all gateways has to be asked.
    Query(Pending),
}

impl Progress {
    fn nothing_charged() -> Progress {
        Progress::Decided(Vec::new())
    }
}

/// Decides about `request` and charges the rules if it passes.
pub(crate) fn decide<S: Store + ?Sized>(
    policy: &Policy,
    request: &Request,
    scratch: &mut Scratch,
    cache: &mut WorkerCache,
    context: &Context<S>,
) -> Progress {
    scratch.clear();
    let address = |request: &Request| policy.ip.client(request);
    let decision = &mut scratch.decision;
    if policy.lists.deny.names(request, address) {
        if policy.enforced {
            decision.outcome = Outcome::Reject(Reason::Denied);
            decision.left_out = policy.leaves_out_client(request, context.hasher).into();
            return Progress::nothing_charged();
        }
        decision.events.denied_in_shadow = 1;
    } else if policy.lists.allow.names(request, address) {
        decision.outcome = Outcome::Allowed;
        decision.left_out = policy.leaves_out_client(request, context.hasher).into();
        return Progress::nothing_charged();
    }
    if let Some(id) = scratch.identify(policy, request, context.hasher) {
        scratch.decision.outcome = Outcome::Reject(Reason::NoActor(id));
        return Progress::nothing_charged();
    }
    if scratch.refuse_from_cache(policy, cache, context) {
        scratch.decision.events.cached = 1;
        scratch.decision.outcome = refusal(&scratch.decision.reports);
        return Progress::nothing_charged();
    }
    let reaches = scratch.use_local_groups(policy, context);
    scratch.check(policy, &cache.reservations, context);
    let refused = scratch.globals.iter().any(|global| global.refuses(policy))
        || scratch.checks.iter().any(|check| !check.is_leased() && check.refuses());
    let mut asks = reaches
        && (scratch.checks.iter().any(GroupCheck::refuses)
            || scratch.globals.iter().any(GlobalCheck::is_unanswered));
    let mut charged = Ok(());
    if !refused && !asks {
        charged = scratch.charge(policy, &mut cache.reservations, context);
        // What was fetched ahead has just been spent by another worker.
        asks = charged.is_err_and(|ahead| ahead);
    }
    if asks && !refused && scratch.refuse_leased_from_cache(policy, cache, context) {
        scratch.decision.events.cached = 1;
        scratch.decision.outcome = refusal(&scratch.decision.reports);
        return Progress::nothing_charged();
    }
    if asks && !refused {
        return Progress::Query(scratch.suspend(policy, context.is_available, (context.clock)()));
    }
    Progress::Decided(scratch.finish(policy, refused || charged.is_err(), cache, context))
}

impl Scratch {
    pub(super) fn clear(&mut self) {
        let Scratch { decision, keys, checks, spare, globals, refills, .. } = self;
        decision.outcome = Outcome::Pass;
        decision.events = Events::default();
        decision.left_out = 0;
        decision.reports.clear();
        keys.clear();
        globals.clear();
        refills.clear();
        spare.extend(checks.drain(..).map(|check| check.buffers));
    }

    /// Whom each group counts. An enforced rule that needs an actor the request lacks is returned; what
    /// shadow rules of that kind have to say goes to the reports.
    fn identify(&mut self, policy: &Policy, request: &Request, hasher: &Hasher) -> Option<RuleId> {
        let Scratch { decision, keys, checks, globals, spare, limits, matches, .. } = self;
        let mut lacking = None;
        policy.applicable(request, matches, limits);
        for at in limits.iter().copied() {
            let groups =
                policy.groups(at).iter().enumerate().filter(|(_, group)| group.role == Role::Primary);
            let global_group =
                policy.global_groups(at).iter().map(|global_group| &global_group.group).enumerate();
            let all = groups.map(|one| (one, false)).chain(global_group.map(|one| (one, true)));
            for ((index, group), is_elsewhere) in all {
                let start = keys.len();
                match group.identify(policy, request, hasher, keys) {
                    Identity::NotApplicable => {}
                    Identity::Actor(_) if group.is_left_out(policy, hasher, keys.get(start..)) => {
                        keys.truncate(start);
                        decision.left_out = decision.left_out.saturating_add(1);
                    }
                    Identity::Actor(hash) if is_elsewhere => {
                        globals.push(GlobalCheck::new(policy, (at, index), hash, start..keys.len(), keys));
                    }
                    Identity::Actor(hash) => {
                        let memory = spare.pop().unwrap_or_default();
                        checks.push(GroupCheck::new(group, (at, index), hash, start..keys.len(), memory));
                    }
                    Identity::Missing => {
                        for (id, rule) in group.ids().zip(group.rules(&policy.rules)) {
                            let tally =
                                if rule.enforced { RuleResult::Refused } else { RuleResult::Shadowed };
                            lacking = lacking.or(rule.enforced.then_some(id));
                            let quota = rule.primary.default.shown;
                            let report = RuleReport {
                                rule: id,
                                quota,
                                actor: ActorSource::Missing,
                                result: tally,
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
    pub(super) fn add_check(
        &mut self,
        policy: &Policy,
        place: GroupIndex,
        key: Range<usize>,
        hasher: &Hasher,
    ) {
        if let Some(group) = policy.group(place) {
            let hash = group.hash(&policy.rules, hasher, self.keys.get(key.clone()).unwrap_or_default());
            self.checks.push(GroupCheck::new(group, place, hash, key, self.spare.pop().unwrap_or_default()));
        }
    }

    /// Whether this worker can tell, without asking any store, that the request is refused. Every group that is
    /// known to refuse reports, so that the longest wait among them is named.
    fn refuse_from_cache<S: ?Sized>(
        &mut self,
        policy: &Policy,
        cache: &WorkerCache,
        context: &Context<S>,
    ) -> bool {
        let Scratch { decision: Decision { reports, .. }, keys, checks, globals, .. } = self;
        let WorkerCache { refusals: known, global_refusals, .. } = cache;
        // Most are not: then the clock, a call of the host's, is not asked.
        let is_known = checks.iter().any(|check| known.contains(check.group.id, check.hash))
            || globals
                .iter()
                .any(|global| !global.is_leased(policy) && global.is_cached(policy, global_refusals));
        if !is_known {
            return false;
        }
        let (ctx, now, mut refused) = (CheckContext { policy, keys, context }, (context.clock)(), false);
        for check in checks {
            if let Some(cell) = known.lookup(check.group.id, check.hash, now)
                && check.check_cached(cell, now, &ctx)
            {
                refused = true;
                check.report_cached(&ctx, reports);
            }
        }
        for global in globals.iter().filter(|global| !global.is_leased(policy)) {
            refused |= global.report_cached(policy, global_refusals, now, reports);
        }
        refused
    }

    /// The same for those that fetch ahead, once the gateway holds nothing that would do. Only now, because what another
    /// worker has fetched since the refusal may be spent.
    fn refuse_leased_from_cache<S: ?Sized>(
        &mut self,
        policy: &Policy,
        cache: &WorkerCache,
        context: &Context<S>,
    ) -> bool {
        let Scratch { decision: Decision { reports, .. }, checks, globals, .. } = self;
        let is_short = |global: &&GlobalCheck| {
            global.is_leased(policy) && global.lease(checks).is_none_or(GroupCheck::refuses)
        };
        let leased = || globals.iter().filter(is_short);
        if !leased().any(|global| global.is_cached(policy, &cache.global_refusals)) {
            return false;
        }
        let now = (context.clock)();
        let mut refused = false;
        for global in leased() {
            refused |= global.report_cached(policy, &cache.global_refusals, now, reports);
        }
        refused
    }

    pub(super) fn check<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        shares: &Reservations,
        context: &Context<S>,
    ) {
        let Scratch { decision: Decision { events, .. }, keys, checks, .. } = self;
        check(checks, shares, &CheckContext { policy, keys, context }, events);
    }

    /// Charges every bid or none. The error says whether the one that was lost spends what was fetched ahead.
    pub(super) fn charge<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        shares: &mut Reservations,
        context: &Context<S>,
    ) -> Result<(), bool> {
        let Scratch { decision: Decision { events, .. }, keys, checks, .. } = self;
        charge(checks, shares, &CheckContext { policy, keys, context }, events)
    }

    /// Ends a decision about which no store has to be asked any more; what may be given back is returned.
    pub(super) fn finish<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        refused: bool,
        cache: &mut WorkerCache,
        context: &Context<S>,
    ) -> Vec<Charged> {
        let Scratch {
            decision: Decision { outcome, reports, events, .. },
            keys,
            checks,
            globals,
            refills,
            ..
        } = self;
        let ctx = CheckContext { policy, keys, context };
        if refused {
            checks.iter_mut().for_each(|check| check.withdraw(cache, &ctx, events));
        }
        // That nothing is left of what was fetched ahead is no refusal.
        let counted = |check: &&GroupCheck| !check.is_leased() || !check.refuses();
        checks.iter().filter(counted).for_each(|check| check.report(&ctx, reports));
        globals.iter().for_each(|global| global.report(policy, keys, reports));
        if !globals.is_empty() {
            // In the order of the configuration, wherever they were counted.
            sort::sort_by_key(reports, |report| report.rule);
        }
        if refused {
            *outcome = refusal(reports);
            return Vec::new();
        }
        refills.extend(
            checks
                .iter()
                .filter(|check| check.wants_refill())
                .filter_map(|check| LeaseRefill::of(check, globals, keys)),
        );
        let replies = globals.iter().filter_map(|global| global.ready_at(policy));
        let turns = checks.iter().filter_map(|check| check.ready_at(&ctx)).chain(replies);
        *outcome = turns.max().map_or(Outcome::Pass, Outcome::Delay);
        // Who waits may leave, and then gives all of it back.
        let is_waiting = matches!(outcome, Outcome::Delay(_));
        checks
            .iter()
            .filter(|check| is_waiting || check.group.ends_with_request)
            .filter_map(GroupCheck::charged)
            .collect()
    }
}

/// Judges every group: by this worker's share of it, or by its cell. A request that may wait may leave and give
/// all back, so it spends of no share.
fn check<S: Store + ?Sized>(
    checks: &mut [GroupCheck],
    shares: &Reservations,
    ctx: &CheckContext<S>,
    events: &mut Events,
) {
    if checks.is_empty() {
        // Nobody is counted: the clock, a call of the host's, is not asked.
        return;
    }
    let may_spend = may_spend_reservations(checks);
    let share = |check: &GroupCheck| shares.find(check.group.id, check.hash).filter(|_| may_spend);
    for check in checks.iter_mut().filter(|check| share(check).is_none()) {
        check.load(ctx, events);
    }
    let now = (ctx.context.clock)();
    for check in checks {
        match share(check) {
            None => check.check(now, shares, ctx, events),
            Some(share) if check.check_reserved(share, now, ctx) => {}
            Some(_) => {
                check.load(ctx, events);
                check.check((ctx.context.clock)(), shares, ctx, events);
            }
        }
    }
}

fn may_spend_reservations(checks: &[GroupCheck]) -> bool {
    !checks.iter().any(|check| check.group.may_wait)
}

/// Swaps every group, or none; which was lost is told as [`Desk::charge`] does. What is spent of shares cannot fail.
fn charge<S: Store + ?Sized>(
    checks: &mut [GroupCheck],
    shares: &mut Reservations,
    ctx: &CheckContext<S>,
    events: &mut Events,
) -> Result<(), bool> {
    let lends = may_spend_reservations(checks);
    for index in 0..checks.len() {
        let Some((done, [check, ..])) = checks.split_at_mut_checked(index) else {
            break;
        };
        if !check.commit(lends, shares, ctx, events) {
            done.iter().for_each(|earlier| earlier.refund(ctx, events));
            return Err(check.is_leased());
        }
    }
    checks.iter().for_each(|check| check.record_spending(shares));
    Ok(())
}
