//! What the rules of one group say to one request, all of them together: admitted by all, or charged to none.
//!
//! It does not know: the store, or other groups.

use super::group::ActorRules;
use super::{ActorSource, Role, RuleReport, RuleResult};
use crate::algorithm::{Admission, Charge, Verdict};
use crate::time::{Span, Time};

/// Made anew for each request in the same memory.
#[derive(Debug, Default)]
pub(super) struct GroupVerdict {
    /// The cell before anything was charged.
    before: Vec<u8>,
    verdicts: Vec<Verdict>,
    /// Whether an enforced rule refuses.
    pub(super) refused: bool,
    /// Whether the cell has to be stored even if the request is refused.
    pub(super) repaired: bool,
}

impl GroupVerdict {
    /// Judges and, if all enforced rules admit, charges `cell`.
    pub(super) fn check(&mut self, counted: ActorRules, cell: &mut [u8], now: Time) {
        self.repaired = false;
        for (_, count) in counted.rules() {
            self.repaired |= count.algorithm.prepare(count.state_mut(cell), now);
        }
        self.before.clear();
        self.before.extend_from_slice(cell);
        self.verdicts.clear();
        self.refused = false;
        for (rule, count) in counted.rules() {
            let verdict = count.algorithm.step(count.state_mut(cell), now, rule.cost);
            self.refused |= rule.enforced && !verdict.admits();
            self.verdicts.push(verdict);
        }
        if self.refused {
            self.undo(counted, cell, now);
        }
    }

    /// Uncharges `cell` and looks again at what is left: the request is refused elsewhere.
    pub(super) fn undo(&mut self, counted: ActorRules, cell: &mut [u8], now: Time) {
        cell.copy_from_slice(&self.before);
        for ((_, count), verdict) in counted.rules().zip(&mut self.verdicts) {
            if verdict.admits() {
                *verdict = count.algorithm.step(count.state_mut(cell), now, 0);
            }
        }
    }

    /// Whether the cell has changed and has to be stored.
    pub(super) fn changed(&self, cell: &[u8]) -> bool {
        self.repaired || self.before != cell
    }

    /// The cell before anything was charged.
    pub(super) fn before(&self) -> &[u8] {
        &self.before
    }

    /// Whether every rule admits at once, those in shadow too.
    pub(super) fn all_admit_now(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.admission == Admission::Admit { delay: Span::ZERO })
    }

    /// How much more every rule would admit.
    pub(super) fn remaining(&self) -> u64 {
        self.verdicts.iter().map(|verdict| verdict.remaining).min().unwrap_or(0)
    }

    /// The longest that an enforced rule makes the request wait.
    pub(super) fn delay(&self, counted: ActorRules) -> Span {
        let enforced = counted.rules().zip(&self.verdicts).filter(|((rule, _), _)| rule.enforced);
        let delays = enforced.filter_map(|(_, verdict)| match verdict.admission {
            Admission::Admit { delay } => Some(delay),
            Admission::Refuse { .. } => None,
        });
        delays.max().unwrap_or(Span::ZERO)
    }

    /// What each rule was charged.
    pub(super) fn charges(&self) -> impl Iterator<Item = Charge> {
        self.verdicts.iter().map(|verdict| verdict.charge)
    }

    /// One report a rule.
    pub(super) fn report(&self, counted: ActorRules, found: ActorSource, to: &mut Vec<RuleReport>) {
        for ((id, (rule, count)), verdict) in counted.group.ids().zip(counted.rules()).zip(&self.verdicts) {
            let tally = match (verdict.admits(), rule.enforced) {
                (true, _) => RuleResult::Admitted,
                (false, true) => RuleResult::Refused,
                (false, false) => RuleResult::Shadowed,
            };
            let degraded = counted.group.role == Role::Fallback;
            to.push(RuleReport {
                rule: id,
                quota: count.shown,
                actor: found,
                result: tally,
                verdict: Some(*verdict),
                degraded,
            });
        }
    }
}
