//! The verdicts of one group's rules about one request: all of them admit, or none is charged.

use super::report::{RuleReport, RuleResult};
use crate::algorithm::{Admission, Charge, Verdict};
use crate::policy::{ActorRules, ActorSource, Counter, Role, Rule};
use diana_base::time::{Span, Time};

/// The verdicts of one group's rules, and the cell as it was before. The memory is reused.
#[derive(Debug, Default)]
pub(crate) struct GroupVerdict {
    before: Vec<u8>,
    verdicts: Vec<Verdict>,
    is_refused: bool,
    /// Whether the refusals of shadow rules are counted already, with the charge.
    is_counted: bool,
}

impl GroupVerdict {
    /// Checks a prepared copy of a cell, and charges the copy if all enforced rules admit. Nothing
    /// is stored yet.
    pub(crate) fn check(&mut self, rules: ActorRules, cell: &mut [u8], now: Time) {
        self.before.clear();
        self.before.extend_from_slice(cell);
        self.verdicts.clear();
        (self.is_refused, self.is_counted) = (false, false);
        for (rule, counter) in rules.counters() {
            let verdict = counter.algorithm.step(counter.state_mut(cell), now, rule.cost);
            self.is_refused |= rule.enforced && !verdict.admits();
            self.verdicts.push(verdict);
        }
        if self.is_refused {
            self.undo(rules, cell, now);
        }
    }

    /// Removes the charges from the cell, because another rule refuses. The verdicts then tell how
    /// much is left without the request.
    pub(crate) fn undo(&mut self, rules: ActorRules, cell: &mut [u8], now: Time) {
        cell.copy_from_slice(&self.before);
        for ((_, counter), verdict) in rules.counters().zip(&mut self.verdicts) {
            if verdict.admits() {
                *verdict = counter.algorithm.step(counter.state_mut(cell), now, 0);
            }
        }
    }

    /// Counts a refusal for each rule with a penalty that refuses, shadow rules included, in
    /// `cell`, which has no charge.
    pub(crate) fn count_refusals(&self, rules: ActorRules, cell: &mut [u8], now: Time) {
        for ((_, counter), verdict) in rules.counters().zip(&self.verdicts) {
            let is_quota = !verdict.admits() && !verdict.is_penalty();
            if let (true, Some(penalty)) = (is_quota, counter.algorithm.as_penalize()) {
                penalty.count_refusal(counter.state_mut(cell), now);
            }
        }
    }

    /// The refusals are counted in `cell`: rules whose penalty runs now refuse by their penalty.
    pub(crate) fn penalize(&mut self, rules: ActorRules, cell: &[u8], now: Time) {
        self.is_counted = true;
        for ((_, counter), verdict) in rules.counters().zip(&mut self.verdicts) {
            if let (false, Some(penalty)) = (verdict.admits(), counter.algorithm.as_penalize()) {
                *verdict = penalty.penalize(counter.state(cell), now, *verdict);
            }
        }
    }

    /// Whether the refusals are counted.
    pub(crate) fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Whether further refusals count toward a penalty, so that no cache may serve them.
    pub(crate) fn counts_refusals(&self, rules: ActorRules) -> bool {
        let counts = |((_, counter), verdict): ((&Rule, &Counter), &Verdict)| {
            !verdict.admits() && !verdict.is_penalty() && counter.algorithm.as_penalize().is_some()
        };
        rules.counters().zip(&self.verdicts).any(counts)
    }

    /// Whether an enforced rule refuses.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// The cell before it was charged.
    pub(crate) fn before(&self) -> &[u8] {
        &self.before
    }

    /// Whether every rule admits at once, shadow rules included.
    pub(crate) fn all_admit_now(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.admission == Admission::Admit { delay: Span::ZERO })
    }

    /// How many more units of cost every rule would admit.
    pub(crate) fn remaining(&self) -> u64 {
        self.verdicts.iter().map(|verdict| verdict.remaining).min().unwrap_or(0)
    }

    /// The longest delay by an enforced rule.
    pub(crate) fn delay(&self, rules: ActorRules) -> Span {
        let enforced = rules.counters().zip(&self.verdicts).filter(|((rule, _), _)| rule.enforced);
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

    /// Adds one report for each rule.
    pub(crate) fn report(&self, rules: ActorRules, actor: ActorSource, to: &mut Vec<RuleReport>) {
        let degraded = rules.group.role == Role::Fallback;
        for ((id, (rule, counter)), verdict) in rules.group.ids().zip(rules.counters()).zip(&self.verdicts) {
            let result = match (verdict.admits(), rule.enforced) {
                (true, _) => RuleResult::Admitted,
                (false, true) => RuleResult::Refused,
                (false, false) => RuleResult::Shadowed,
            };
            let verdict = Some(*verdict);
            to.push(RuleReport { rule: id, quota: counter.shown, actor, result, verdict, degraded });
        }
    }
}
