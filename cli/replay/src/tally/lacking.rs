//! Requests that only such rules refuse as have not found their actor in the log. If they find it
//! nowhere, the log cannot tell whether the gateway would refuse these requests.

use super::timeline::{at, double};

/// Combinations of rules. The requests of any further ones count as refused.
const MOST: usize = 64;

/// The refusals by combinations of rules.
#[derive(Clone, Debug, Default)]
pub struct Lacking(Vec<Refusals>);

/// The refusals by a combination of rules.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    /// The rules, by their places in the document, in ascending order.
    pub rules: Vec<usize>,
    /// All of them.
    pub requests: u64,
    /// In each interval of the timeline.
    pub intervals: Vec<u64>,
    /// In each hour of the week.
    pub hours: Vec<u64>,
}

impl Lacking {
    /// Adds a refusal by these rules in an interval and an hour.
    pub fn add(&mut self, rules: Vec<usize>, interval: usize, hour: usize) {
        let place = match self.0.iter().position(|refusals| refusals.rules == rules) {
            Some(place) => place,
            None if self.0.len() >= MOST => return,
            None => {
                self.0.push(Refusals { rules, ..Refusals::default() });
                self.0.len().saturating_sub(1)
            }
        };
        let Some(refusals) = self.0.get_mut(place) else { return };
        refusals.requests = refusals.requests.saturating_add(1);
        for (counts, place) in [(&mut refusals.intervals, interval), (&mut refusals.hours, hour)] {
            at(counts, place).into_iter().for_each(|count| *count = count.saturating_add(1));
        }
    }

    /// The intervals have doubled in length.
    pub fn double(&mut self, times: u32) {
        for refusals in &mut self.0 {
            double(&mut refusals.intervals, times, |all, other| *all = all.saturating_add(*other));
        }
    }

    /// The refusals by rules of which `lacks` says that none found its actor.
    pub fn of(&self, lacks: impl Fn(usize) -> bool) -> impl Iterator<Item = &Refusals> {
        self.0.iter().filter(move |refusals| refusals.rules.iter().all(|rule| lacks(*rule)))
    }
}
