//! Folds the outcomes of consecutive requests into runs.

use super::report::OutcomeRun;
use super::request::seconds;
use super::simulation::{Decided, Simulation};
use diana_limiter::decide::Outcome;

/// The runs of the outcomes.
pub fn runs(simulation: &Simulation) -> Vec<OutcomeRun> {
    let mut runs: Vec<OutcomeRun> = Vec::new();
    for (number, decided) in (1..).zip(&simulation.decisions) {
        let next = run(number, decided);
        match runs.last_mut() {
            Some(last) if is_continued(last, &next) => {
                last.to = number;
                if let (Some([_, latest]), Some([_, new])) = (&mut last.wait_s, next.wait_s) {
                    *latest = new;
                }
            }
            _ => runs.push(next),
        }
    }
    runs
}

fn run(number: u32, decided: &Decided) -> OutcomeRun {
    let outcome = match decided.outcome {
        Outcome::Pass | Outcome::Query(_) => "pass",
        Outcome::Allowed => "allowed",
        Outcome::Delay(_) => "delayed",
        Outcome::Reject(_) => "refused",
    };
    let wait_s = matches!(decided.outcome, Outcome::Delay(_)).then(|| [seconds(decided.delay); 2]);
    let (details, shadow) = (decided.details.clone(), decided.shadow.clone());
    OutcomeRun { from: number, to: number, outcome, details, shadow, wait_s }
}

fn is_continued(last: &OutcomeRun, next: &OutcomeRun) -> bool {
    (last.outcome, &last.details, &last.shadow) == (next.outcome, &next.details, &next.shadow)
}
