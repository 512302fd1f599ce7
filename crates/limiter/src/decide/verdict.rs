//! The verdicts of one group's rules about one request: all of them admit, or none is charged.

use super::outcome::{RuleReport, RuleResult};
use super::settle::RuleCharge;
use crate::algorithm::{Admission, Charge, Verdict};
use crate::policy::{ActorSource, CounterGroup, Demand, Mode, PlacedQuota, Role, RuleId};
use diana_base::time::{Span, Time};

/// The verdicts of one group's rules, and the cell as it was before. The memory is reused.
#[derive(Debug, Default)]
pub(crate) struct GroupVerdict {
    pub(super) before: Vec<u8>,
    verdicts: Vec<Verdict>,
    /// Whether an enforced rule refuses.
    pub(super) is_refused: bool,
    /// Whether every rule admits at once.
    pub(super) all_admit_now: bool,
    /// How many more units of cost these rules would admit.
    pub(super) remaining: u64,
    /// Whether the refusals of shadow rules are counted already, with the charge.
    pub(super) is_counted: bool,
}

impl GroupVerdict {
    /// Checks a prepared copy of a cell, and charges the copy if all enforced rules admit. Nothing
    /// is stored yet.
    pub(crate) fn check(&mut self, demands: &[Demand], cell: &mut [u8], now: Time) {
        self.before.clear();
        self.before.extend_from_slice(cell);
        self.verdicts.clear();
        let (mut is_refused, mut all_admit_now, mut remaining) = (false, true, u64::MAX);
        let mut any_admits = false;
        for Demand { quota, mode, cost, headroom, .. } in demands {
            let verdict = match *cost {
                0 => quota.peek(cell, &self.before, now, *headroom),
                cost if *headroom == 0 => quota.step(cell, now, cost),
                cost => quota.step_with_headroom(cell, &self.before, now, cost, *headroom),
            };
            // A request that a grant pays, below, has no reservation.
            all_admit_now &= verdict.admission == Admission::Admit { delay: Span::ZERO };
            remaining = remaining.min(verdict.remaining);
            let verdict = match verdict.admits() {
                true => verdict,
                false => quota.or_grant(cell, now, *cost, verdict),
            };
            is_refused |= !verdict.admits() && *mode == Mode::Enforce;
            any_admits |= verdict.admits();
            self.verdicts.push(verdict);
        }
        (self.is_refused, self.all_admit_now, self.remaining) = (is_refused, all_admit_now, remaining);
        self.is_counted = false;
        // A rule that refuses has left its state as it was.
        if is_refused && any_admits {
            self.undo(demands, cell, now);
        }
    }

    /// The actor has no cell, because its set is full of actors that are refused: refuses by the
    /// rule that admits one of them first, so much later, or by another rule that is enforced for
    /// this actor. `cell` is a new one, and checked. Returns `false` if no rule is enforced.
    pub(crate) fn refuse_new(
        &mut self,
        demands: &[Demand],
        cell: &mut [u8],
        now: Time,
        (rule, opens_in): (RuleId, Span),
    ) -> bool {
        if self.is_refused {
            return true;
        }
        let enforced = demands.iter().enumerate().filter(|(_, demand)| demand.mode == Mode::Enforce);
        let Some((at, _)) = enforced.min_by_key(|(_, demand)| demand.rule != rule) else {
            return false;
        };
        self.undo(demands, cell, now);
        if let Some(verdict) = self.verdicts.get_mut(at) {
            let admission = Admission::Refuse { retry_after: Some(opens_in) };
            let full_in = verdict.full_in.max(opens_in);
            *verdict = Verdict { admission, remaining: 0, more_in: opens_in, full_in, ..*verdict };
        }
        (self.is_refused, self.all_admit_now) = (true, false);
        true
    }

    /// Checks a prepared copy of a cell from the refusal cache, without a charge. Returns whether
    /// its rules refuse the request; `None` if the refusal counts toward a penalty, so that it has
    /// to reach the store.
    pub(crate) fn check_cached(
        &mut self,
        group: &CounterGroup,
        demands: &[Demand],
        cell: &mut [u8],
        now: Time,
    ) -> Option<bool> {
        self.check(demands, cell, now);
        if group.has_penalty && self.counts_refusals(demands) {
            return None;
        }
        if !self.is_refused {
            self.undo(demands, cell, now);
        }
        Some(self.is_refused && group.keeps_refusing())
    }

    /// Removes the charges from the cell, because another rule refuses. The verdicts then say how
    /// much is left without the request.
    pub(crate) fn undo(&mut self, demands: &[Demand], cell: &mut [u8], now: Time) {
        debug_assert_eq!(demands.len(), self.verdicts.len(), "the verdicts of another check");
        cell.copy_from_slice(&self.before);
        for (Demand { quota, headroom, .. }, verdict) in demands.iter().zip(&mut self.verdicts) {
            if verdict.admits() {
                *verdict = quota.step_with_headroom(cell, &self.before, now, 0, *headroom);
            }
        }
    }

    /// Refunds the charges in `cell`, where they are stored.
    pub(crate) fn refund(&self, demands: &[Demand], cell: &mut [u8], now: Time) {
        for (demand, verdict) in self.each(demands).filter(|(_, verdict)| verdict.charge.cost > 0) {
            demand.quota.refund(cell, now, verdict.charge);
        }
    }

    /// Counts a refusal for each rule with a penalty that refuses, shadow rules included, in
    /// `cell`, which has no charge.
    pub(crate) fn count_refusals(&self, demands: &[Demand], cell: &mut [u8], now: Time) {
        self.counting(demands).for_each(|quota| quota.count_refusal(cell, now));
    }

    /// The refusals are counted in `cell`: rules whose penalty runs now refuse by their penalty.
    pub(crate) fn penalize(&mut self, demands: &[Demand], cell: &[u8], now: Time) {
        debug_assert_eq!(demands.len(), self.verdicts.len(), "the verdicts of another check");
        self.is_counted = true;
        for (demand, verdict) in demands.iter().zip(&mut self.verdicts) {
            if !verdict.admits() {
                *verdict = demand.quota.penalize(cell, now, *verdict);
            }
        }
    }

    /// Whether further refusals count toward a penalty, so that no cache may serve them.
    pub(crate) fn counts_refusals(&self, demands: &[Demand]) -> bool {
        self.counting(demands).next().is_some()
    }

    /// The quotas in whose penalties this refusal counts: those that refuse.
    fn counting<'a>(&'a self, demands: &'a [Demand]) -> impl Iterator<Item = &'a PlacedQuota> {
        let refusing = self.each(demands).filter(|(demand, verdict)| {
            demand.quota.quota.penalty().is_some() && !verdict.admits() && !verdict.is_penalty()
        });
        refusing.map(|(demand, _)| &demand.quota)
    }

    /// Each demand, with the verdict of its rule.
    fn each<'a>(&'a self, demands: &'a [Demand]) -> impl Iterator<Item = (&'a Demand, &'a Verdict)> {
        debug_assert_eq!(demands.len(), self.verdicts.len(), "the verdicts of another check");
        demands.iter().zip(&self.verdicts)
    }

    /// The longest delay by a rule that is enforced.
    pub(crate) fn delay(&self, demands: &[Demand]) -> Span {
        let enforced = self.each(demands).filter(|(demand, _)| demand.mode == Mode::Enforce);
        let delays = enforced.filter_map(|(_, verdict)| match verdict.admission {
            Admission::Admit { delay } => Some(delay),
            Admission::Refuse { .. } => None,
        });
        delays.max().unwrap_or(Span::ZERO)
    }

    /// The charge of each rule.
    pub(crate) fn charges(&self) -> impl Iterator<Item = Charge> {
        self.verdicts.iter().map(|verdict| verdict.charge)
    }

    /// The outcome of each demand. A rule in shadow that refuses charges nothing, neither now nor
    /// when the request ends.
    pub(crate) fn charged(&self, demands: &[Demand]) -> Vec<RuleCharge> {
        let charged = |(demand, verdict): (&Demand, &Verdict)| {
            let pending = demand.pending.clone().filter(|_| verdict.admits());
            RuleCharge { quota: demand.quota, charge: verdict.charge, pending }
        };
        self.each(demands).map(charged).collect()
    }

    /// Adds one report for each rule.
    pub(crate) fn report(
        &self,
        group: &CounterGroup,
        demands: &[Demand],
        actor: ActorSource,
        to: &mut Vec<RuleReport>,
    ) {
        let degraded = group.role == Role::Fallback;
        for (demand, verdict) in self.each(demands) {
            let (quota, enforced) = (demand.quota.quota.shown(), demand.mode == Mode::Enforce);
            let result = match verdict.admits() {
                true => RuleResult::Admitted,
                false => RuleResult::of_refusal(enforced),
            };
            let (rule, verdict) = (demand.rule, Some(*verdict));
            to.push(RuleReport { rule, quota, actor, result, enforced, verdict, degraded });
        }
    }
}
