//! The verdicts of one group's rules about one request: all of them admit, or none is charged.

use super::decision::{RuleReport, RuleResult};
use crate::algorithm::{Admission, Charge, Verdict, peek, step_with_headroom};
use crate::policy::{ActorRules, ActorSource, Counter, Effect, Role, Rule, actor_source};
use diana_base::time::{Span, Time};

/// The verdicts of one group's rules, and the cell as it was before. The memory is reused.
#[derive(Debug, Default)]
pub(crate) struct GroupVerdict {
    pub(super) before: Vec<u8>,
    verdicts: Vec<Verdict>,
    /// Whether an enforced rule refuses.
    pub(super) is_refused: bool,
    /// Whether every rule admits at once, rules in shadow included, but not those that
    /// [only count](ActorRules::only_counts).
    pub(super) all_admit_now: bool,
    /// How many more units of cost these rules would admit.
    pub(super) remaining: u64,
    /// Whether the refusals of shadow rules are counted already, with the charge.
    pub(super) is_counted: bool,
}

impl GroupVerdict {
    /// Checks a prepared copy of a cell, and charges the copy if all enforced rules admit. Nothing
    /// is stored yet. `costs` has the cost by each rule, or is empty if all costs are fixed.
    pub(crate) fn check(&mut self, rules: ActorRules, costs: &[u64], cell: &mut [u8], now: Time) {
        self.before.clear();
        self.before.extend_from_slice(cell);
        self.verdicts.clear();
        let (mut is_refused, mut all_admit_now, mut remaining) = (false, true, u64::MAX);
        let mut any_admits = false;
        for (rule, counter, cost) in rules.weighed(costs) {
            let effect = rules.effect(rule);
            let only_counts = rules.only_counts(rule);
            // Only requests about which the quota decides leave headroom.
            let headroom = if only_counts { 0 } else { rules.headroom(counter) };
            let (algorithm, before) = (&*counter.algorithm, || counter.state(&self.before));
            let state = counter.state_mut(cell);
            let mut verdict = match cost {
                0 if effect != Effect::Nothing => peek(algorithm, state, before(), now, headroom),
                cost if headroom == 0 => algorithm.step(state, now, cost),
                cost => step_with_headroom(algorithm, state, before(), now, cost, headroom),
            };
            if !only_counts {
                all_admit_now &= verdict.admission == Admission::Admit { delay: Span::ZERO };
                remaining = remaining.min(verdict.remaining);
            } else if !verdict.admits() {
                // A quota that only counts takes what is left.
                verdict = algorithm.step(counter.state_mut(cell), now, verdict.remaining);
            }
            is_refused |= !verdict.admits() && effect == Effect::Decides && rules.enforces(rule);
            any_admits |= verdict.admits();
            self.verdicts.push(verdict);
        }
        (self.is_refused, self.all_admit_now, self.remaining) = (is_refused, all_admit_now, remaining);
        self.is_counted = false;
        // A rule that refuses has left its state as it was.
        if is_refused && any_admits {
            self.undo(rules, cell, now);
        }
    }

    /// Checks a prepared copy of a cell from the refusal cache, and adds the reports if its rules
    /// still refuse. Returns whether they do.
    pub(crate) fn refuse_cached(
        &mut self,
        rules: ActorRules,
        costs: &[u64],
        cell: &mut [u8],
        now: Time,
        to: &mut Vec<RuleReport>,
    ) -> bool {
        self.check(rules, costs, cell, now);
        // A refusal under another plan may have been cached; this one has to be counted.
        let refuses = self.is_refused && !(rules.group.has_penalty && self.counts_refusals(rules));
        if refuses {
            self.report(rules, actor_source(rules.key), to);
        }
        refuses
    }

    /// Removes the charges from the cell, because another rule refuses. The verdicts then tell how
    /// much is left without the request.
    pub(crate) fn undo(&mut self, rules: ActorRules, cell: &mut [u8], now: Time) {
        cell.copy_from_slice(&self.before);
        for ((_, counter), verdict) in rules.counters().zip(&mut self.verdicts) {
            if verdict.admits() {
                let (state, before) = (counter.state_mut(cell), counter.state(&self.before));
                *verdict =
                    step_with_headroom(&*counter.algorithm, state, before, now, 0, rules.headroom(counter));
            }
        }
    }

    /// Counts a refusal for each rule with a penalty that decides and refuses, shadow rules
    /// included, in `cell`, which has no charge.
    pub(crate) fn count_refusals(&self, rules: ActorRules, cell: &mut [u8], now: Time) {
        for ((rule, counter), verdict) in rules.counters().zip(&self.verdicts) {
            let decides = rules.effect(rule) == Effect::Decides;
            let is_quota = decides && !verdict.admits() && !verdict.is_penalty();
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

    /// Whether further refusals count toward a penalty, so that no cache may serve them.
    pub(crate) fn counts_refusals(&self, rules: ActorRules) -> bool {
        let counts = |((rule, counter), verdict): ((&Rule, &Counter), &Verdict)| {
            let is_quota = !verdict.admits() && !verdict.is_penalty();
            is_quota && counter.algorithm.as_penalize().is_some() && rules.effect(rule) == Effect::Decides
        };
        rules.counters().zip(&self.verdicts).any(counts)
    }

    /// The longest delay by an enforced rule that decides.
    pub(crate) fn delay(&self, rules: ActorRules) -> Span {
        let enforces = |rule: &Rule| rules.enforces(rule) && rules.effect(rule) == Effect::Decides;
        let enforced = rules.counters().zip(&self.verdicts).filter(|((rule, _), _)| enforces(rule));
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

    /// Whether each rule admits.
    pub(crate) fn admits(&self) -> impl Iterator<Item = bool> {
        self.verdicts.iter().map(Verdict::admits)
    }

    /// Adds one report for each rule that decides.
    pub(crate) fn report(&self, rules: ActorRules, actor: ActorSource, to: &mut Vec<RuleReport>) {
        let degraded = rules.group.role == Role::Fallback;
        for (at, rule, compiled, counter) in rules.deciding() {
            let Some(verdict) = self.verdicts.get(at) else { continue };
            let (quota, enforced) = (counter.shown(), rules.enforces(compiled));
            let result = match verdict.admits() {
                true => RuleResult::Admitted,
                false => RuleResult::of_refusal(enforced),
            };
            let verdict = Some(*verdict);
            to.push(RuleReport { rule, quota, actor, result, enforced, verdict, degraded });
        }
    }
}
