//! One group's part in a decision: its cell as it was loaded or as this worker's share has it, what its rules
//! say, and how it is charged.
//!
//! It does not know: the other groups of the request.
//!
//! ```text
//!   Spending ── from a share: the store is not asked
//!   Loaded ──► Judged ── commit: one swap; busy actors are charged ahead in it
//!   Failed ── the store did not work: the group has no say
//! ```

use super::context::{Context, WorkerCache};
use super::decide::MAX_LOST;
use super::group::{ActorRules, Group, actor_source};
use super::migration::GroupMigration;
use super::refund::{Charged, GroupIndex, update};
use super::reservations::{Reservations, ReservedCell, reserve};
use super::verdict::GroupVerdict;
use super::{Events, Policy, Role, RuleReport, RuleResult};
use crate::algorithm::Reservation;
use crate::store::{Fault, Store, Swap};
use crate::table::{Entry, Eviction, Set};
use crate::time::{Span, Time};
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct GroupCheck {
    pub(super) group: Arc<Group>,
    pub(super) place: GroupIndex,
    pub(super) hash: u64,
    /// Where the actor's key stands among those of the request.
    pub(super) key: Range<usize>,
    state: CellState,
    at: Time,
    pub(super) buffers: Buffers,
}

/// What verdicts are based on.
#[derive(Debug)]
enum CellState {
    Failed,
    Loaded(Set),
    Spending,
    Judged {
        entry: Entry,
        /// The actor whose cell is in the way, in a set where all refuse.
        blocker: Option<u64>,
    },
}

/// What bids need room for, kept for the next requests.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    verdict: GroupVerdict,
    /// A copy of the cell: without what is charged ahead.
    cell: Vec<u8>,
    reservations: Vec<Reservation>,
}

/// All that a bid is judged by.
pub(super) struct CheckContext<'a, 't, S: ?Sized> {
    pub(super) policy: &'a Policy,
    /// The keys of all bids.
    pub(super) keys: &'a [u8],
    pub(super) context: &'a Context<'t, S>,
}

impl GroupCheck {
    pub(super) fn new(
        group: &Arc<Group>,
        place: GroupIndex,
        hash: u64,
        key: Range<usize>,
        memory: Buffers,
    ) -> GroupCheck {
        GroupCheck {
            group: Arc::clone(group),
            place,
            hash,
            key,
            state: CellState::Failed,
            at: Time::ZERO,
            buffers: memory,
        }
    }

    fn key<'a>(&self, keys: &'a [u8]) -> &'a [u8] {
        keys.get(self.key.clone()).unwrap_or_default()
    }

    /// The rules as they count the actor, or the one whose cell is in the way.
    fn counted<'a, S: ?Sized>(
        group: &'a Group,
        key: &'a [u8],
        crowd: Option<u64>,
        ctx: &CheckContext<'a, '_, S>,
    ) -> ActorRules<'a> {
        let key = crowd.map_or(key, |by| ctx.context.overridden.key(group.id, by));
        group.for_actor(&ctx.policy.rules, key)
    }

    pub(super) fn load<S: Store + ?Sized>(&mut self, ctx: &CheckContext<S>, events: &mut Events) {
        self.state = match self.group.table.load(ctx.context.store, self.hash) {
            Ok(set) => {
                events.foreign = events.foreign.saturating_add(set.foreign().into());
                CellState::Loaded(set)
            }
            Err(Fault(_)) => {
                events.faults = events.faults.saturating_add(1);
                CellState::Failed
            }
        };
    }

    /// Judges by a cell that this worker knows: whether it refuses.
    pub(super) fn check_cached<S: ?Sized>(&mut self, cell: &[u8], now: Time, ctx: &CheckContext<S>) -> bool {
        let counted = self.group.for_actor(&ctx.policy.rules, self.key(ctx.keys));
        let Buffers { verdict, cell: copy, .. } = &mut self.buffers;
        copy.clear();
        copy.extend_from_slice(cell);
        verdict.check(counted, copy, now);
        verdict.refused
    }

    pub(super) fn report_cached<S: ?Sized>(&self, ctx: &CheckContext<S>, to: &mut Vec<RuleReport>) {
        let key = self.key(ctx.keys);
        self.buffers.verdict.report(self.group.for_actor(&ctx.policy.rules, key), actor_source(key), to);
    }

    /// Judges by this worker's share, and spends of it if all is well; else the store has to be asked.
    pub(super) fn check_reserved<S: ?Sized>(
        &mut self,
        share: &ReservedCell,
        now: Time,
        ctx: &CheckContext<S>,
    ) -> bool {
        if !share.is_fresh(now) {
            return false;
        }
        let counted = self.group.for_actor(&ctx.policy.rules, self.key(ctx.keys));
        let Buffers { verdict, cell, reservations, .. } = &mut self.buffers;
        cell.clear();
        cell.extend_from_slice(&share.cell);
        reservations.clear();
        reservations.extend_from_slice(&share.reservations);
        verdict.check(counted, cell, now);
        let suffices = !verdict.repaired && verdict.all_admit_now() && {
            let mut rules = counted.rules().zip(reservations);
            rules.all(|((rule, count), reservation)| {
                count.algorithm.covers(reservation, now) && reservation.spend(rule.cost)
            })
        };
        if suffices {
            (self.state, self.at) = (CellState::Spending, now);
        }
        suffices
    }

    /// Judges by what was loaded, to which the rest of an older share is given back, and what is taken along from older
    /// cells.
    pub(super) fn check<S: Store + ?Sized>(
        &mut self,
        mut now: Time,
        shares: &Reservations,
        ctx: &CheckContext<S>,
        events: &mut Events,
    ) {
        let set = match std::mem::replace(&mut self.state, CellState::Failed) {
            CellState::Loaded(set) => set,
            other => {
                self.state = other;
                return;
            }
        };
        let group = &*self.group;
        let mut entry = set.claim(|hash, cell| {
            group
                .for_actor(&ctx.policy.rules, ctx.context.overridden.key(group.id, hash))
                .eviction_rank(cell, now)
        });
        let crowd = match entry.eviction() {
            Some(Eviction::SetFull { by }) => Some(by),
            _ => None,
        };
        let counted = GroupCheck::counted(group, self.key(ctx.keys), crowd, ctx);
        // Who gets no cell takes nothing along yet.
        let line = ctx.context.migration.group(group.id).filter(|_| crowd.is_none());
        let find =
            |line: &GroupMigration| line.find(counted, (self.hash, entry.found()), now, ctx.context, events);
        let previous_cells = line.map(find).unwrap_or_default();
        if !previous_cells.is_empty() {
            // They may have been stored since the clock was read.
            now = (ctx.context.clock)();
        }
        let share = shares.find(group.id, self.hash).filter(|_| entry.found());
        if let Some(share) = share {
            counted.release(&share.reservations, entry.cell_mut(), now);
        }
        let mut inherits = false;
        for previous_cell in previous_cells {
            inherits |= line.is_some_and(|line| line.merge(previous_cell, counted, entry.cell_mut(), now));
        }
        let verdict = &mut self.buffers.verdict;
        verdict.check(counted, entry.cell_mut(), now);
        verdict.repaired |= share.is_some() || inherits;
        (self.state, self.at) = (CellState::Judged { entry, blocker: crowd }, now);
    }

    /// Whether an enforced rule refuses; of what was fetched ahead, whether that does not suffice for every rule.
    pub(super) fn refuses(&self) -> bool {
        let (failed, verdict) = (matches!(self.state, CellState::Failed), &self.buffers.verdict);
        match self.is_leased() {
            true => failed || !verdict.all_admit_now(),
            false => !failed && verdict.refused,
        }
    }

    /// Stores the charged cell; `false` when somebody was faster and there is not enough left. A busy actor
    /// is charged ahead, where `lends` allows it.
    pub(super) fn commit<S: Store + ?Sized>(
        &mut self,
        lends: bool,
        shares: &mut Reservations,
        ctx: &CheckContext<S>,
        events: &mut Events,
    ) -> bool {
        let lends = lends && self.group.can_reserve && shares.is_busy(self.group.id, self.hash, self.at);
        for _ in 0..MAX_LOST {
            if self.refuses() {
                return false;
            }
            let CellState::Judged { entry, blocker: crowd } = &mut self.state else {
                return true;
            };
            let Buffers { verdict, cell, reservations, .. } = &mut self.buffers;
            if !verdict.changed(entry.cell()) {
                return true;
            }
            let key = ctx.keys.get(self.key.clone()).unwrap_or_default();
            let counted = GroupCheck::counted(&self.group, key, *crowd, ctx);
            cell.clear();
            cell.extend_from_slice(entry.cell());
            reservations.clear();
            if lends && verdict.all_admit_now() {
                reserve(counted, verdict.remaining(), entry, reservations, self.at);
                if reservations.is_empty() {
                    entry.cell_mut().copy_from_slice(cell);
                }
            }
            match entry.commit(ctx.context.store) {
                Ok(Swap::Done) => {
                    events.evicted(entry.eviction());
                    ctx.context.migration.mark_migrated(self.group.id, self.hash);
                    let actor = (self.group.id, self.hash);
                    if reservations.is_empty() {
                        shares.forget(actor.0, actor.1);
                    } else {
                        shares.put(actor, self.place, cell, reservations, self.at);
                    }
                    return true;
                }
                Ok(Swap::Lost) => {
                    events.swaps_lost = events.swaps_lost.saturating_add(1);
                    self.load(ctx, events);
                    self.check((ctx.context.clock)(), shares, ctx, events);
                }
                Err(Fault(_)) => break,
            }
        }
        // Whether the share was given back is not known: it is not given back again.
        shares.forget(self.group.id, self.hash);
        events.faults = events.faults.saturating_add(1);
        self.state = CellState::Failed;
        !self.is_leased()
    }

    /// Takes note of what was spent of a share; the store is not asked.
    pub(super) fn record_spending(&self, shares: &mut Reservations) {
        if let CellState::Spending = self.state {
            let Buffers { cell, reservations, .. } = &self.buffers;
            shares.spend(self.group.id, self.hash, cell, reservations, self.at);
        }
    }

    /// Whether it spends what was fetched ahead.
    pub(super) fn is_leased(&self) -> bool {
        self.group.role == Role::Leased
    }

    /// Whether this request is the one that is to have more fetched ahead.
    pub(super) fn wants_refill(&self) -> bool {
        self.is_leased() && self.buffers.verdict.charges().any(|charge| charge.asks_for_more())
    }

    /// Takes back a charge that is already stored.
    pub(super) fn refund<S: Store + ?Sized>(&self, ctx: &CheckContext<S>, events: &mut Events) {
        let CellState::Judged { blocker: crowd, .. } = &self.state else {
            return;
        };
        let counted = GroupCheck::counted(&self.group, self.key(ctx.keys), *crowd, ctx);
        update(&self.group, self.hash, ctx.context, events, &|cell, now| {
            counted.refund(self.buffers.verdict.charges(), cell, now);
        });
    }

    /// The request is refused: leaves the cell uncharged, stores a repaired one, remembers a refusing one.
    pub(super) fn withdraw<S: Store + ?Sized>(
        &mut self,
        cache: &mut WorkerCache,
        ctx: &CheckContext<S>,
        events: &mut Events,
    ) {
        let WorkerCache { refusals: known, reservations: shares, .. } = cache;
        let (key, Buffers { verdict, cell, .. }) = (self.key(ctx.keys), &mut self.buffers);
        let (entry, counted) = match &mut self.state {
            CellState::Spending => {
                return verdict.undo(self.group.for_actor(&ctx.policy.rules, key), cell, self.at);
            }
            CellState::Judged { entry, blocker: crowd } => {
                (entry, GroupCheck::counted(&self.group, key, *crowd, ctx))
            }
            CellState::Failed | CellState::Loaded(_) => return,
        };
        if let Some(Eviction::SetFull { .. }) = entry.eviction() {
            events.evicted(entry.eviction());
            return;
        }
        if verdict.refused && !self.group.ends_with_request {
            // Permits come back at any time: their lack is not remembered.
            known.insert(self.group.id, self.hash, self.at, verdict.before());
        }
        if !verdict.refused {
            verdict.undo(counted, entry.cell_mut(), self.at);
        }
        if verdict.repaired {
            match entry.commit(ctx.context.store) {
                // The next request repairs it.
                Ok(Swap::Lost) => {}
                Ok(Swap::Done) => {
                    events.evicted(entry.eviction());
                    ctx.context.migration.mark_migrated(self.group.id, self.hash);
                    shares.forget(self.group.id, self.hash);
                }
                // What was written is not known.
                Err(Fault(_)) => shares.forget(self.group.id, self.hash),
            }
        }
    }

    pub(super) fn report<S: ?Sized>(&self, ctx: &CheckContext<S>, to: &mut Vec<RuleReport>) {
        let crowd = match &self.state {
            CellState::Judged { blocker: crowd, .. } => *crowd,
            _ => None,
        };
        let found = actor_source(self.key(ctx.keys));
        let counted = GroupCheck::counted(&self.group, self.key(ctx.keys), crowd, ctx);
        if let CellState::Failed | CellState::Loaded(_) = self.state {
            let rules = self.group.ids().zip(counted.rules());
            let tally = RuleResult::Uncounted;
            let degraded = self.group.role == Role::Fallback;
            return to.extend(rules.map(|(rule, (_, count))| RuleReport {
                rule,
                quota: count.shown,
                actor: found,
                result: tally,
                verdict: None,
                degraded,
            }));
        }
        self.buffers.verdict.report(counted, found, to);
    }

    /// When the request may go on, if it has to wait: a delay counts from the instant its group was judged at,
    /// which is what they have booked: other groups may have been judged later.
    pub(super) fn ready_at<S: ?Sized>(&self, ctx: &CheckContext<S>) -> Option<Time> {
        let CellState::Judged { blocker: crowd, .. } = &self.state else {
            return None;
        };
        let counted = GroupCheck::counted(&self.group, self.key(ctx.keys), *crowd, ctx);
        let delay = self.buffers.verdict.delay(counted);
        (delay > Span::ZERO).then(|| self.at.after(delay))
    }

    /// What was charged, to be given back; nothing when the store failed.
    pub(super) fn charged(&self) -> Option<Charged> {
        let CellState::Judged { .. } = &self.state else {
            return None;
        };
        let charges = self.buffers.verdict.charges().collect();
        Some(Charged { place: self.place, hash: self.hash, charges })
    }
}
