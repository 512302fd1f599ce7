//! Folds a rule's decisions about consecutive requests into runs.

use super::report::RuleRun;
use super::request::seconds;
use super::simulation::Decided;
use diana_base::time::Span;
use diana_limiter::algorithm::Admission;
use diana_limiter::decide::{Outcome, RuleCheck, RuleResult};
use diana_limiter::policy::RuleId;

/// The runs of a rule.
pub fn of(decisions: &[Decided], rule: RuleId) -> Vec<RuleRun> {
    let mut runs: Vec<RuleRun> = Vec::new();
    for (number, decided) in (1..).zip(decisions) {
        let next = run(number, decided, decided.check(rule));
        match runs.last_mut() {
            Some(last) if is_continued(last, &next) => extend(last, &next),
            _ => runs.push(next),
        }
    }
    runs
}

/// The run of one request. `None`: the rule did not check the request.
fn run(number: u32, decided: &Decided, check: Option<&RuleCheck>) -> RuleRun {
    let is_marked = check.is_some_and(RuleCheck::is_marked);
    let passes = !matches!(decided.outcome, Outcome::Reject(_));
    let verdict = check.and_then(RuleCheck::verdict);
    let wait = match verdict.map(|verdict| verdict.admission) {
        // Nobody waits for a rule if another rule refuses.
        Some(Admission::Admit { delay }) => (delay > Span::ZERO && passes).then_some(delay),
        // A permit returns when another request ends, at an unknown time.
        Some(Admission::Refuse { .. }) if check.is_some_and(|check| check.shown().unit == Span::ZERO) => None,
        Some(Admission::Refuse { .. }) if is_marked => None,
        Some(Admission::Refuse { retry_after }) => retry_after,
        None => None,
    };
    let is_penalty = verdict.is_some_and(|verdict| verdict.is_penalty());
    let is_enforced = check.is_some_and(RuleCheck::is_enforced);
    let result = match check.map(RuleCheck::result) {
        None => "not checked",
        Some(RuleResult::Admitted) if !passes => "would admit",
        Some(RuleResult::Admitted) if wait.is_some() && !is_enforced => "would delay",
        Some(RuleResult::Admitted) if wait.is_some() => "delayed",
        Some(RuleResult::Admitted) => "admitted",
        Some(RuleResult::Refused) if is_penalty => "refused by penalty",
        Some(RuleResult::Refused) => "refused",
        Some(RuleResult::Shadowed) if is_marked => "passes uncounted",
        Some(RuleResult::Shadowed) => "would refuse",
        Some(RuleResult::Uncounted) => "not counted",
    };
    let left = verdict.filter(|verdict| verdict.admits()).map(|verdict| [verdict.remaining; 2]);
    let wait_s = wait.map(|wait| [seconds(wait); 2]);
    let over = check.and_then(|check| {
        let own = decided.over.iter().filter(|(rule, _)| *rule == check.rule());
        own.map(|(_, percent)| *percent).max()
    });
    RuleRun { from: number, to: number, result, left, left_range: left, wait_s, over }
}

fn is_continued(last: &RuleRun, next: &RuleRun) -> bool {
    last.result == next.result
        && last.over == next.over
        && last.left.is_some() == next.left.is_some()
        && last.wait_s.is_some() == next.wait_s.is_some()
}

fn extend(last: &mut RuleRun, next: &RuleRun) {
    last.to = next.to;
    if let (Some([_, left]), Some([_, new])) = (&mut last.left, next.left) {
        *left = new;
    }
    if let (Some([least, most]), Some([new, _])) = (&mut last.left_range, next.left) {
        (*least, *most) = ((*least).min(new), (*most).max(new));
    }
    if let (Some([_, latest]), Some([_, new])) = (&mut last.wait_s, next.wait_s) {
        *latest = new;
    }
}
