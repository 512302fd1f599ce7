//! The verdicts of one group's rules about one request: all of them admit, or none is charged.

use super::settle::RuleCharge;
use crate::algorithm::{Admission, Verdict};
use crate::policy::{Demand, Judgement, Mode, RuleCheck, RuleId};
use diana_base::time::{Span, Time};

/// What the rules' verdicts mean for their group, and the cell before the charge. The memory is
/// reused.
#[derive(Debug, Default)]
pub(crate) struct GroupVerdict {
    pub(super) before: Vec<u8>,
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
    /// Every rule admits at once, because a reservation pays. `cell` is the worker's own.
    pub(crate) fn admit(&mut self, cell: &[u8]) {
        self.before.clear();
        self.before.extend_from_slice(cell);
        (self.is_refused, self.all_admit_now, self.remaining, self.is_counted) = (false, true, 0, false);
    }

    /// Checks a prepared copy of a cell, and charges the copy if all enforced rules admit. Nothing
    /// is stored yet.
    pub(crate) fn check(&mut self, checks: &mut [RuleCheck], cell: &mut [u8], now: Time) {
        self.before.clear();
        self.before.extend_from_slice(cell);
        let (mut is_refused, mut all_admit_now, mut remaining) = (false, true, u64::MAX);
        let mut any_admits = false;
        for RuleCheck { demand, judgement, .. } in &mut *checks {
            if demand.pending.is_some() {
                demand.estimate(cell);
            }
            let Demand { quota, mode, cost, headroom, .. } = demand;
            let verdict = match *cost {
                0 => quota.peek(cell, &self.before, now, *headroom),
                cost if *headroom == 0 => quota.step(cell, now, cost),
                cost => quota.step_with_headroom(cell, &self.before, now, cost, *headroom),
            };
            // A request that a grant pays, below, makes no reservation.
            all_admit_now &= verdict.admission == Admission::Admit { delay: Span::ZERO };
            remaining = remaining.min(verdict.remaining);
            let is_enforced = *mode == Mode::Enforce;
            let verdict = match verdict.admits() {
                true => verdict,
                false => demand.or_less(cell, &self.before, now, verdict),
            };
            is_refused |= !verdict.admits() && is_enforced;
            any_admits |= verdict.admits();
            *judgement = Judgement::By(verdict);
        }
        (self.is_refused, self.all_admit_now, self.remaining) = (is_refused, all_admit_now, remaining);
        self.is_counted = false;
        // A rule that refuses has left its state as it was.
        if is_refused && any_admits {
            self.undo(checks, cell, now);
        }
    }

    /// Refuses an actor that has no cell because its set is full of refused actors: by `rule`,
    /// which admits one of these in `opens_in`, or, if it is in shadow for this actor, by an
    /// enforced one. `cell` is new and checked. Returns `false` if no rule is enforced; a rule that
    /// marks then marks the request.
    pub(crate) fn refuse_new(
        &mut self,
        checks: &mut [RuleCheck],
        cell: &mut [u8],
        now: Time,
        (rule, opens_in): (RuleId, Span),
    ) -> bool {
        if self.is_refused {
            return true;
        }
        let judging = checks.iter().enumerate().filter(|(_, check)| !check.is_in_shadow());
        let best = judging.min_by_key(|(_, check)| (!check.is_enforced(), check.rule() != rule));
        let Some((at, is_enforced)) = best.map(|(at, check)| (at, check.is_enforced())) else {
            return false;
        };
        self.undo(checks, cell, now);
        if let Some(RuleCheck { judgement: Judgement::By(verdict), .. }) = checks.get_mut(at) {
            let admission = Admission::Refuse { retry_after: Some(opens_in) };
            let full_in = verdict.full_in.max(opens_in);
            *verdict = Verdict { admission, remaining: 0, more_in: opens_in, full_in, ..*verdict };
        }
        (self.is_refused, self.all_admit_now) = (is_enforced, false);
        is_enforced
    }

    /// Removes the charges from the cell, because another rule refuses. The verdicts then say how
    /// much is left without the request.
    pub(crate) fn undo(&mut self, checks: &mut [RuleCheck], cell: &mut [u8], now: Time) {
        cell.copy_from_slice(&self.before);
        for RuleCheck { demand: Demand { quota, headroom, .. }, judgement, .. } in checks {
            if let Judgement::By(verdict) = judgement
                && verdict.admits()
            {
                *verdict = quota.step_with_headroom(cell, &self.before, now, 0, *headroom);
            }
        }
    }

    /// Once the refusals are counted in `cell`, rules with a running penalty refuse by it.
    pub(crate) fn penalize(&mut self, checks: &mut [RuleCheck], cell: &[u8], now: Time) {
        self.is_counted = true;
        for RuleCheck { demand, judgement, .. } in checks {
            if let Judgement::By(verdict) = judgement
                && !verdict.admits()
            {
                *verdict = demand.quota.penalize(cell, now, *verdict);
            }
        }
    }
}

impl Demand {
    /// `verdict`; if it refuses, and a grant pays, or the rule takes what is left in place of the
    /// estimate, an admission.
    #[cold]
    #[inline(never)]
    fn or_less(&self, cell: &mut [u8], before: &[u8], now: Time, verdict: Verdict) -> Verdict {
        let Demand { quota, cost, headroom, .. } = self;
        let verdict = quota.or_grant(cell, now, *cost, verdict);
        let (rest, least) = (verdict.remaining.min(*cost), self.least_rest());
        match verdict.admits() || verdict.is_penalty() || least == 0 || rest < least {
            true => verdict,
            false => quota.step_with_headroom(cell, before, now, rest, *headroom),
        }
    }
}

/// Refunds the charges in `cell`, where they are stored.
pub(super) fn refund(checks: &[RuleCheck], cell: &mut [u8], now: Time) {
    for RuleCheck { demand, judgement, .. } in checks {
        if let Judgement::By(verdict) = judgement
            && verdict.charge.cost > 0
        {
            demand.quota.refund(cell, now, verdict.charge);
        }
    }
}

/// Counts a refusal for each rule with a penalty that refuses, shadow rules included, in `cell`,
/// which has no charge.
pub(super) fn count_refusals(checks: &[RuleCheck], cell: &mut [u8], now: Time) {
    let counting = checks.iter().filter(|check| check.counts_refusal());
    counting.for_each(|check| check.demand.quota.count_refusal(cell, now));
}

/// The longest delay by an enforced rule.
pub(super) fn delay(checks: &[RuleCheck]) -> Span {
    let enforced = checks.iter().filter(|check| check.is_enforced());
    enforced.map(RuleCheck::delay).max().unwrap_or(Span::ZERO)
}

/// The charge of each rule that has judged. A shadow rule that refuses charges nothing, neither now
/// nor when the request ends.
pub(super) fn charges(checks: &[RuleCheck]) -> Vec<RuleCharge> {
    let charge = |RuleCheck { demand, judgement, .. }: &RuleCheck| {
        let Judgement::By(verdict) = judgement else { return None };
        let pending = demand.pending.clone().filter(|_| verdict.admits());
        Some(RuleCharge { quota: demand.quota, charge: verdict.charge, pending })
    };
    checks.iter().filter_map(charge).collect()
}
