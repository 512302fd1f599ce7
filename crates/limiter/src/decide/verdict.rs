//! The verdicts of one group's rules about one request: all of them admit, or none is charged.

use super::outcome::{RuleReport, RuleResult};
use super::settle::RuleCharge;
use crate::algorithm::{Admission, Charge, Verdict};
use crate::cells::table::SetFull;
use crate::policy::{ActorSource, Counter, Demand, Demands, Mode, Owed, Role};
use diana_base::time::{Span, Time};

/// The verdicts of one group's rules, and the cell as it was before. The memory is reused.
#[derive(Debug, Default)]
pub(crate) struct GroupVerdict {
    pub(super) before: Vec<u8>,
    verdicts: Vec<Verdict>,
    /// Whether an enforced rule refuses.
    pub(super) is_refused: bool,
    /// Whether every rule that applies admits at once.
    pub(super) all_admit_now: bool,
    /// How many more units of cost these rules would admit.
    pub(super) remaining: u64,
    /// Whether the refusals of shadow rules are counted already, with the charge.
    pub(super) is_counted: bool,
}

impl GroupVerdict {
    /// Checks a prepared copy of a cell, and charges the copy if all enforced rules admit. Nothing
    /// is stored yet.
    pub(crate) fn check(&mut self, demands: Demands, cell: &mut [u8], now: Time) {
        self.before.clear();
        self.before.extend_from_slice(cell);
        self.verdicts.clear();
        let (mut is_refused, mut all_admit_now, mut remaining) = (false, true, u64::MAX);
        let mut any_admits = false;
        for (demand, counter) in demands.each() {
            let headroom = headroom(demand, counter);
            let (state, before) = (counter.state_mut(cell), || counter.state(&self.before));
            let verdict = match demand.cost {
                0 if demand.mode != Mode::Skip => counter.peek(state, before(), now, headroom),
                cost if headroom == 0 => counter.step(state, now, cost),
                cost => counter.step_with_headroom(state, before(), now, cost, headroom),
            };
            if demand.mode.decides() {
                // A request that a grant pays, below, has no reservation.
                all_admit_now &= verdict.admission == Admission::Admit { delay: Span::ZERO };
                remaining = remaining.min(verdict.remaining);
            }
            let verdict = match verdict.admits() {
                true => verdict,
                false => counter.or_grant(state, now, demand.cost, verdict),
            };
            is_refused |= !verdict.admits() && demand.mode == Mode::Enforce;
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

    /// The actor has no cell, because its set is full of actors that are refused: refuses by the rule
    /// that admits one of them first, or by another rule that is enforced for this actor. `cell` is a
    /// new one, and checked. Returns `false` if no rule is enforced.
    pub(crate) fn refuse_new(
        &mut self,
        demands: Demands,
        cell: &mut [u8],
        now: Time,
        SetFull { rule, opens_in }: SetFull,
    ) -> bool {
        if self.is_refused {
            return true;
        }
        let is_enforced = |demand: &Demand| demand.mode == Mode::Enforce;
        let first = demands.demands.iter().position(is_enforced);
        let by = Some(rule).filter(|at| demands.demands.get(*at).is_some_and(is_enforced)).or(first);
        let Some(at) = by else { return false };
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
    pub(crate) fn check_cached(&mut self, demands: Demands, cell: &mut [u8], now: Time) -> Option<bool> {
        self.check(demands, cell, now);
        if demands.group.has_penalty && self.counts_refusals(demands) {
            return None;
        }
        if !self.is_refused {
            self.undo(demands, cell, now);
        }
        Some(self.is_refused && demands.group.keeps_refusing())
    }

    /// Removes the charges from the cell, because another rule refuses. The verdicts then tell how
    /// much is left without the request.
    pub(crate) fn undo(&mut self, demands: Demands, cell: &mut [u8], now: Time) {
        debug_assert_eq!(demands.demands.len(), self.verdicts.len(), "the verdicts of another check");
        cell.copy_from_slice(&self.before);
        for ((demand, counter), verdict) in demands.each().zip(&mut self.verdicts) {
            if verdict.admits() {
                let (state, before) = (counter.state_mut(cell), counter.state(&self.before));
                let headroom = headroom(demand, counter);
                *verdict = counter.step_with_headroom(state, before, now, 0, headroom);
            }
        }
    }

    /// Refunds the charges in `cell`, where they are stored.
    pub(crate) fn refund(&self, demands: Demands, cell: &mut [u8], now: Time) {
        let charged = self.with(demands.each(), demands.demands.len());
        for ((_, counter), verdict) in charged.filter(|(_, verdict)| verdict.charge.cost > 0) {
            counter.refund(counter.state_mut(cell), now, verdict.charge);
        }
    }

    /// Counts a refusal for each rule with a penalty that decides and refuses, shadow rules
    /// included, in `cell`, which has no charge.
    pub(crate) fn count_refusals(&self, demands: Demands, cell: &mut [u8], now: Time) {
        for counter in self.counting(demands) {
            counter.count_refusal(counter.state_mut(cell), now);
        }
    }

    /// The refusals are counted in `cell`: rules whose penalty runs now refuse by their penalty.
    pub(crate) fn penalize(&mut self, demands: Demands, cell: &[u8], now: Time) {
        debug_assert_eq!(demands.demands.len(), self.verdicts.len(), "the verdicts of another check");
        self.is_counted = true;
        for ((_, counter), verdict) in demands.each().zip(&mut self.verdicts) {
            if !verdict.admits() {
                *verdict = counter.penalize(counter.state(cell), now, *verdict);
            }
        }
    }

    /// Whether further refusals count toward a penalty, so that no cache may serve them.
    pub(crate) fn counts_refusals(&self, demands: Demands) -> bool {
        self.counting(demands).next().is_some()
    }

    /// The counters in whose penalties this refusal counts: those of rules that decide and whose
    /// quota refuses.
    fn counting<'a>(&'a self, demands: Demands<'a>) -> impl Iterator<Item = &'a Counter> {
        let refusing =
            self.with(demands.each(), demands.demands.len()).filter(|((demand, counter), verdict)| {
                counter.penalty.is_some()
                    && demand.mode.decides()
                    && !verdict.admits()
                    && !verdict.is_penalty()
            });
        refusing.map(|((_, counter), _)| counter)
    }

    /// Each of these, one for each rule, with the verdict of its rule.
    fn with<T>(&self, each: impl Iterator<Item = T>, count: usize) -> impl Iterator<Item = (T, &Verdict)> {
        debug_assert_eq!(count, self.verdicts.len(), "the verdicts of another check");
        each.zip(&self.verdicts)
    }

    /// The longest delay by a rule that is enforced.
    pub(crate) fn delay(&self, demands: &[Demand]) -> Span {
        let all = self.with(demands.iter(), demands.len());
        let enforced = all.filter(|(demand, _)| demand.mode == Mode::Enforce);
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
            let owed = if verdict.admits() { demand.owed } else { Owed::Nothing };
            RuleCharge { quota: demand.quota, charge: verdict.charge, owed }
        };
        self.with(demands.iter(), demands.len()).map(charged).collect()
    }

    /// Adds one report for each rule that decides.
    pub(crate) fn report(&self, demands: Demands, actor: ActorSource, to: &mut Vec<RuleReport>) {
        let degraded = demands.group.role == Role::Fallback;
        let all = self.with(demands.each(), demands.demands.len());
        for ((demand, counter), verdict) in all.filter(|((demand, _), _)| demand.mode.decides()) {
            let (quota, enforced) = (counter.shown(), demand.mode == Mode::Enforce);
            let result = match verdict.admits() {
                true => RuleResult::Admitted,
                false => RuleResult::of_refusal(enforced),
            };
            let (rule, verdict) = (demand.rule, Some(*verdict));
            to.push(RuleReport { rule, quota, actor, result, enforced, verdict, degraded });
        }
    }
}

/// The units that the request has to leave in this quota now.
fn headroom(demand: &Demand, counter: &Counter) -> u64 {
    if demand.leaves_headroom { counter.headroom() } else { 0 }
}
