//! The two phases of a decision: check all groups, then charge all, or none.
//!
//! A check charges the worker's copy of a cell; a commit stores the copy. So the charge of a
//! refused request is undone in one of two ways. If nothing is stored yet, the copies are dropped
//! ([`GroupCheck::withdraw`]). If another worker was faster and a later group now refuses, the
//! stored groups are refunded ([`GroupCheck::refund`]).

use super::cache::WorkerCache;
use super::decision::{Decision, Outcome, refusal};
use super::global_check::GlobalCheck;
use super::group_check::GroupCheck;
use super::scratch::Scratch;
use crate::cells::store::Store;
use crate::cells::{Context, Reservations};
use crate::global::LeaseRefill;
use diana_base::sort;

/// A group lost its swap, and now refuses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    /// Whether the group spends a lease. If so, the global store decides.
    pub(crate) by_lease: bool,
}

impl Scratch {
    /// Whether a global store has to answer: a lease does not suffice, or a group has no lease.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.checks.iter().any(GroupCheck::refuses) || self.globals.iter().any(GlobalCheck::is_unanswered)
    }

    /// Opens and checks every group's cell: the worker's reservation, or the cell in the store. A
    /// request that may wait spends no reservation, because the request may leave and be refunded.
    pub(crate) fn check<S: Store + ?Sized>(&mut self, reservations: &Reservations, context: &Context<S>) {
        let Scratch { decision: Decision { events, .. }, keys, checks, .. } = self;
        if checks.is_empty() {
            // Returns before the clock is read, because reading the clock is a host call.
            return;
        }
        let may_reserve = may_reserve(checks);
        let reserved =
            |check: &GroupCheck| reservations.find(check.group.id, check.hash).filter(|_| may_reserve);
        for check in checks.iter_mut().filter(|check| reserved(check).is_none()) {
            check.load(context, events);
        }
        let now = (context.clock)();
        for check in checks {
            match reserved(check) {
                None => check.check(now, reservations, keys, context, events),
                Some(reserved) if check.check_reserved(reserved, now, keys, context) => {}
                Some(_) => {
                    check.load(context, events);
                    check.check((context.clock)(), reservations, keys, context, events);
                }
            }
        }
    }

    /// Commits every group, or none. Spending a reservation cannot fail.
    pub(crate) fn commit<S: Store + ?Sized>(
        &mut self,
        reservations: &mut Reservations,
        context: &Context<S>,
    ) -> Result<(), Refused> {
        let Scratch { decision: Decision { events, .. }, keys, checks, .. } = self;
        let may_reserve = may_reserve(checks);
        for index in 0..checks.len() {
            let Some((done, [check, ..])) = checks.split_at_mut_checked(index) else {
                break;
            };
            if !check.commit(may_reserve, reservations, keys, context, events) {
                done.iter().for_each(|earlier| earlier.refund(keys, context, events));
                return Err(Refused { by_lease: check.is_leased() });
            }
        }
        checks.iter().for_each(|check| check.record_spending(keys, reservations));
        Ok(())
    }

    /// Ends a decision that needs no further reply of a global store.
    pub(crate) fn finish<S: Store + ?Sized>(
        &mut self,
        is_refused: bool,
        cache: &mut WorkerCache,
        context: &Context<S>,
    ) {
        let Scratch { decision, charges, keys, checks, globals, refills, .. } = self;
        let Decision { outcome, reports, events, .. } = decision;
        if is_refused {
            checks.iter_mut().for_each(|check| check.withdraw(cache, keys, context, events));
        }
        // A used-up lease does not refuse: the global store decides.
        let reporting = checks.iter().filter(|check| !check.is_leased() || !check.refuses());
        reporting.for_each(|check| check.report(keys, context, reports));
        globals.iter().for_each(|global| global.report(context.policy, keys, reports));
        if !globals.is_empty() {
            // Rules report in the order of the configuration, wherever they are counted.
            sort::sort_by_key(reports, |report| report.rule);
        }
        if is_refused {
            *outcome = refusal(reports);
            return;
        }
        let refill = |check: &GroupCheck| refill_of(check, globals, keys);
        refills.extend(checks.iter().filter(|check| check.wants_refill()).filter_map(refill));
        let delayed = globals.iter().filter_map(|global| global.ready_at(context.policy));
        let delayed = checks.iter().filter_map(|check| check.ready_at(keys, context)).chain(delayed);
        *outcome = delayed.max().map_or(Outcome::Pass, Outcome::Delay);
        // A request that waits may leave, and is then refunded all of its charges. Others are
        // settled at their end.
        let is_waiting = matches!(outcome, Outcome::Delay(_));
        let refundable =
            checks.iter().filter(|check| is_waiting || check.group.ends_with_request || check.group.settles);
        charges.local.extend(refundable.filter_map(GroupCheck::charged));
    }
}

/// Whether the worker may spend and make reservations.
fn may_reserve(checks: &[GroupCheck]) -> bool {
    !checks.iter().any(|check| check.group.may_wait)
}

/// The refill of the lease from which a check spends.
fn refill_of(check: &GroupCheck, globals: &[GlobalCheck], keys: &[u8]) -> Option<LeaseRefill> {
    let global = globals.iter().find(|global| global.place.0 == check.place.0 && global.key == check.key)?;
    Some(LeaseRefill { place: global.place, hash: global.hash, key: keys.get(global.key.clone())?.to_vec() })
}
