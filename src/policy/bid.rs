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

use super::charge::{MAX_LOST, Memories, Terms};
use super::give_back::{Held, Place, change};
use super::group::{Counted, Group, found};
use super::judgement::Judgement;
use super::lineage::Line;
use super::shares::{self, Shares, Slot};
use super::{Events, Policy, Report, Tally, Way};
use crate::algorithm::Piece;
use crate::store::{Fault, Store, Swap};
use crate::table::{Entry, Eviction, Set};
use crate::time::{Span, Time};
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Bid {
    pub(super) group: Arc<Group>,
    pub(super) place: Place,
    pub(super) hash: u64,
    /// Where the actor's key stands among those of the request.
    pub(super) key: Range<usize>,
    basis: Basis,
    at: Time,
    pub(super) memory: Memory,
}

/// What verdicts are based on.
#[derive(Debug)]
enum Basis {
    Failed,
    Loaded(Set),
    Spending,
    Judged {
        entry: Entry,
        /// The actor whose cell is in the way, in a set where all refuse.
        crowd: Option<u64>,
    },
}

/// What bids need room for, kept for the next requests.
#[derive(Debug, Default)]
pub(super) struct Memory {
    judgement: Judgement,
    /// A copy of the cell: without what is charged ahead.
    cell: Vec<u8>,
    pieces: Vec<Piece>,
}

/// All that a bid is judged by.
pub(super) struct Court<'a, 't, S: ?Sized> {
    pub(super) policy: &'a Policy,
    /// The keys of all bids.
    pub(super) keys: &'a [u8],
    pub(super) terms: &'a Terms<'t, S>,
}

impl Bid {
    pub(super) fn new(group: &Arc<Group>, place: Place, hash: u64, key: Range<usize>, memory: Memory) -> Bid {
        Bid { group: Arc::clone(group), place, hash, key, basis: Basis::Failed, at: Time::ZERO, memory }
    }

    fn key<'a>(&self, keys: &'a [u8]) -> &'a [u8] {
        keys.get(self.key.clone()).unwrap_or_default()
    }

    /// The rules as they count the actor, or the one whose cell is in the way.
    fn counted<'a, S: ?Sized>(
        group: &'a Group,
        key: &'a [u8],
        crowd: Option<u64>,
        court: &Court<'a, '_, S>,
    ) -> Counted<'a> {
        let key = crowd.map_or(key, |by| court.terms.overridden.key(group.id, by));
        group.counted(&court.policy.rules, key)
    }

    pub(super) fn load<S: Store + ?Sized>(&mut self, court: &Court<S>, events: &mut Events) {
        self.basis = match self.group.table.load(court.terms.store, self.hash) {
            Ok(set) => {
                events.foreign = events.foreign.saturating_add(set.foreign().into());
                Basis::Loaded(set)
            }
            Err(Fault(_)) => {
                events.faults = events.faults.saturating_add(1);
                Basis::Failed
            }
        };
    }

    /// Judges by a cell that this worker knows: whether it refuses.
    pub(super) fn recall<S: ?Sized>(&mut self, cell: &[u8], now: Time, court: &Court<S>) -> bool {
        let counted = self.group.counted(&court.policy.rules, self.key(court.keys));
        let Memory { judgement, cell: copy, .. } = &mut self.memory;
        copy.clear();
        copy.extend_from_slice(cell);
        judgement.pass(counted, copy, now);
        judgement.refused
    }

    pub(super) fn report_recalled<S: ?Sized>(&self, court: &Court<S>, to: &mut Vec<Report>) {
        let key = self.key(court.keys);
        self.memory.judgement.report(self.group.counted(&court.policy.rules, key), found(key), to);
    }

    /// Judges by this worker's share, and spends of it if all is well; else the store has to be asked.
    pub(super) fn spend<S: ?Sized>(&mut self, share: &Slot, now: Time, court: &Court<S>) -> bool {
        if !share.is_fresh(now) {
            return false;
        }
        let counted = self.group.counted(&court.policy.rules, self.key(court.keys));
        let Memory { judgement, cell, pieces, .. } = &mut self.memory;
        cell.clear();
        cell.extend_from_slice(&share.cell);
        pieces.clear();
        pieces.extend_from_slice(&share.pieces);
        judgement.pass(counted, cell, now);
        let suffices = !judgement.repaired && judgement.passes_all() && {
            let mut rules = counted.rules().zip(pieces);
            rules.all(|((rule, count), piece)| count.algorithm.covers(piece, now) && piece.spend(rule.cost))
        };
        if suffices {
            (self.basis, self.at) = (Basis::Spending, now);
        }
        suffices
    }

    /// Judges by what was loaded, to which the rest of an older share is given back, and what is taken along from older
    /// cells.
    pub(super) fn judge<S: Store + ?Sized>(
        &mut self,
        mut now: Time,
        shares: &Shares,
        court: &Court<S>,
        events: &mut Events,
    ) {
        let set = match std::mem::replace(&mut self.basis, Basis::Failed) {
            Basis::Loaded(set) => set,
            other => {
                self.basis = other;
                return;
            }
        };
        let group = &*self.group;
        let mut entry = set.claim(|hash, cell| {
            group.counted(&court.policy.rules, court.terms.overridden.key(group.id, hash)).worth(cell, now)
        });
        let crowd = match entry.eviction() {
            Some(Eviction::Crowded { by }) => Some(by),
            _ => None,
        };
        let counted = Bid::counted(group, self.key(court.keys), crowd, court);
        // Who gets no cell takes nothing along yet.
        let line = court.terms.lineage.line(group.id).filter(|_| crowd.is_none());
        let find = |line: &Line| line.find(counted, (self.hash, entry.found()), now, court.terms, events);
        let legacies = line.map(find).unwrap_or_default();
        if !legacies.is_empty() {
            // They may have been stored since the clock was read.
            now = (court.terms.clock)();
        }
        let share = shares.find(group.id, self.hash).filter(|_| entry.found());
        if let Some(share) = share {
            counted.take_back(&share.pieces, entry.cell_mut(), now);
        }
        let mut inherits = false;
        for legacy in legacies {
            inherits |= line.is_some_and(|line| line.merge(legacy, counted, entry.cell_mut(), now));
        }
        let judgement = &mut self.memory.judgement;
        judgement.pass(counted, entry.cell_mut(), now);
        judgement.repaired |= share.is_some() || inherits;
        (self.basis, self.at) = (Basis::Judged { entry, crowd }, now);
    }

    /// Whether an enforced rule refuses; of what was fetched ahead, whether that does not suffice for every rule.
    pub(super) fn refuses(&self) -> bool {
        let (failed, judgement) = (matches!(self.basis, Basis::Failed), &self.memory.judgement);
        match self.is_ahead() {
            true => failed || !judgement.passes_all(),
            false => !failed && judgement.refused,
        }
    }

    /// Stores the charged cell; `false` when somebody was faster and there is not enough left. A busy actor
    /// is charged ahead, where `lends` allows it.
    pub(super) fn commit<S: Store + ?Sized>(
        &mut self,
        lends: bool,
        shares: &mut Shares,
        court: &Court<S>,
        events: &mut Events,
    ) -> bool {
        let lends = lends && self.group.lends && shares.came(self.group.id, self.hash, self.at);
        for _ in 0..MAX_LOST {
            if self.refuses() {
                return false;
            }
            let Basis::Judged { entry, crowd } = &mut self.basis else {
                return true;
            };
            let Memory { judgement, cell, pieces, .. } = &mut self.memory;
            if !judgement.changed(entry.cell()) {
                return true;
            }
            let key = court.keys.get(self.key.clone()).unwrap_or_default();
            let counted = Bid::counted(&self.group, key, *crowd, court);
            cell.clear();
            cell.extend_from_slice(entry.cell());
            pieces.clear();
            if lends && judgement.passes_all() {
                take(counted, judgement.remaining(), entry, pieces, self.at);
                if pieces.is_empty() {
                    entry.cell_mut().copy_from_slice(cell);
                }
            }
            match entry.commit(court.terms.store) {
                Ok(Swap::Done) => {
                    events.evicted(entry.eviction());
                    court.terms.lineage.note(self.group.id, self.hash);
                    let actor = (self.group.id, self.hash);
                    if pieces.is_empty() {
                        shares.forget(actor.0, actor.1);
                    } else {
                        shares.put(actor, self.place, cell, pieces, self.at);
                    }
                    return true;
                }
                Ok(Swap::Lost) => {
                    events.swaps_lost = events.swaps_lost.saturating_add(1);
                    self.load(court, events);
                    self.judge((court.terms.clock)(), shares, court, events);
                }
                Err(Fault(_)) => break,
            }
        }
        // Whether the share was given back is not known: it is not given back again.
        shares.forget(self.group.id, self.hash);
        events.faults = events.faults.saturating_add(1);
        self.basis = Basis::Failed;
        !self.is_ahead()
    }

    /// Takes note of what was spent of a share; the store is not asked.
    pub(super) fn note(&self, shares: &mut Shares) {
        if let Basis::Spending = self.basis {
            let Memory { cell, pieces, .. } = &self.memory;
            shares.spend(self.group.id, self.hash, cell, pieces, self.at);
        }
    }

    /// Whether it spends what was fetched ahead.
    pub(super) fn is_ahead(&self) -> bool {
        self.group.way == Way::Ahead
    }

    /// Whether this request is the one that is to have more fetched ahead.
    pub(super) fn asks_for_more(&self) -> bool {
        self.is_ahead() && self.memory.judgement.charges().any(|charge| charge.asks_for_more())
    }

    /// Takes back a charge that is already stored.
    pub(super) fn give_back<S: Store + ?Sized>(&self, court: &Court<S>, events: &mut Events) {
        let Basis::Judged { crowd, .. } = &self.basis else {
            return;
        };
        let counted = Bid::counted(&self.group, self.key(court.keys), *crowd, court);
        change(&self.group, self.hash, court.terms, events, &|cell, now| {
            counted.give_back(self.memory.judgement.charges(), cell, now);
        });
    }

    /// The request is refused: leaves the cell uncharged, stores a repaired one, remembers a refusing one.
    pub(super) fn step_back<S: Store + ?Sized>(
        &mut self,
        memories: &mut Memories,
        court: &Court<S>,
        events: &mut Events,
    ) {
        let Memories { known, shares, .. } = memories;
        let (key, Memory { judgement, cell, .. }) = (self.key(court.keys), &mut self.memory);
        let (entry, counted) = match &mut self.basis {
            Basis::Spending => {
                return judgement.undo(self.group.counted(&court.policy.rules, key), cell, self.at);
            }
            Basis::Judged { entry, crowd } => (entry, Bid::counted(&self.group, key, *crowd, court)),
            Basis::Failed | Basis::Loaded(_) => return,
        };
        if let Some(Eviction::Crowded { .. }) = entry.eviction() {
            events.evicted(entry.eviction());
            return;
        }
        if judgement.refused && !self.group.settles {
            // Permits come back at any time: their lack is not remembered.
            known.remember(self.group.id, self.hash, self.at, judgement.before());
        }
        if !judgement.refused {
            judgement.undo(counted, entry.cell_mut(), self.at);
        }
        if judgement.repaired {
            match entry.commit(court.terms.store) {
                // The next request repairs it.
                Ok(Swap::Lost) => {}
                Ok(Swap::Done) => {
                    events.evicted(entry.eviction());
                    court.terms.lineage.note(self.group.id, self.hash);
                    shares.forget(self.group.id, self.hash);
                }
                // What was written is not known.
                Err(Fault(_)) => shares.forget(self.group.id, self.hash),
            }
        }
    }

    pub(super) fn report<S: ?Sized>(&self, court: &Court<S>, to: &mut Vec<Report>) {
        let crowd = match &self.basis {
            Basis::Judged { crowd, .. } => *crowd,
            _ => None,
        };
        let found = found(self.key(court.keys));
        let counted = Bid::counted(&self.group, self.key(court.keys), crowd, court);
        if let Basis::Failed | Basis::Loaded(_) = self.basis {
            let rules = self.group.ids().zip(counted.rules());
            let tally = Tally::Uncounted;
            let degraded = self.group.way == Way::Spare;
            return to.extend(rules.map(|(rule, (_, count))| Report {
                rule,
                quota: count.shown,
                found,
                tally,
                verdict: None,
                degraded,
            }));
        }
        self.memory.judgement.report(counted, found, to);
    }

    /// When the request may go on, if it has to wait: a delay counts from the instant its group was judged at,
    /// which is what they have booked: other groups may have been judged later.
    pub(super) fn turn<S: ?Sized>(&self, court: &Court<S>) -> Option<Time> {
        let Basis::Judged { crowd, .. } = &self.basis else {
            return None;
        };
        let counted = Bid::counted(&self.group, self.key(court.keys), *crowd, court);
        let delay = self.memory.judgement.delay(counted);
        (delay > Span::ZERO).then(|| self.at.after(delay))
    }

    /// What was charged, to be given back; nothing when the store failed.
    pub(super) fn held(&self) -> Option<Held> {
        let Basis::Judged { .. } = &self.basis else {
            return None;
        };
        let charges = self.memory.judgement.charges().collect();
        Some(Held { place: self.place, hash: self.hash, charges })
    }
}

/// Charges a part of what remains ahead, by every rule or none: `pieces` has one a rule, or is empty and the
/// cell as good as lost.
fn take(counted: Counted, remaining: u64, entry: &mut Entry, pieces: &mut Vec<Piece>, now: Time) {
    let here =
        counted.rules().map(|(_, count)| count.algorithm.lendable(count.state(entry.cell()), now)).min();
    let Some(part) = shares::part_of(here.map_or(remaining, |here| remaining.min(here))) else {
        return;
    };
    for (_, count) in counted.rules() {
        match count.algorithm.lend(count.state_mut(entry.cell_mut()), now, part) {
            Some(piece) => pieces.push(piece),
            None => return pieces.clear(),
        }
    }
}
