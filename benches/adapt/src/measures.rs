//! Reduces a run to the numbers of the table.

use crate::run::{Point, Trace};
use crate::scenario::{Scenario, within};

/// The numbers of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measures {
    /// Seconds from the slow-down to two intervals in a row that meet the target. `None`: never.
    pub react: Option<f64>,
    /// The p90 of requests that arrived during the slow-down, in ms.
    pub slow_p90: f64,
    /// Responses without errors, as a share of the ideal.
    pub slow_share: f64,
    /// Seconds from the end of the slow-down to two intervals in a row with nine tenths of the
    /// ideal. `None`: never.
    pub recover: Option<f64>,
    /// The median of the intervals' p90 from half of the time before the slow-down, in ms.
    pub steady_p90: f64,
    /// Responses without errors over the same time, as a share of the ideal.
    pub steady_share: f64,
    /// Errors during the slow-down, as a share of all responses.
    pub slow_errors: f64,
    /// The limit's standard deviation over the same time, as a share of the mean.
    pub oscillation: f64,
}

/// Measures a run. `meets` tells whether an interval meets the target.
pub fn measure(scenario: &Scenario, trace: &Trace, meets: impl Fn(&Point) -> bool) -> Measures {
    let (from, to) = scenario.slow;
    let in_time = |range: (f64, f64)| -> Vec<&Point> {
        trace.points.iter().filter(|point| within(range, point.start)).collect()
    };
    let steady = in_time((from / 2.0, from));
    let slow = in_time((from, to));
    let after = in_time((to, scenario.end));
    let ideal = |point: &Point| scenario.ideal(point.start) * (point.end - point.start);
    let share = |points: &[&Point]| {
        let answered: u64 = points.iter().map(|point| point.answered).sum();
        answered as f64 / points.iter().map(|point| ideal(point)).sum::<f64>()
    };
    let answered: u64 = slow.iter().map(|point| point.answered).sum();
    let errors: u64 = slow.iter().map(|point| point.errors).sum();
    let mut p90: Vec<f64> = steady.iter().map(|point| point.p90).collect();
    p90.sort_by(f64::total_cmp);
    Measures {
        react: time_to(&slow, from, meets),
        slow_p90: trace.slow.quantile(900).map_or(0.0, |p90| p90.as_ns() as f64 / 1e6),
        slow_share: share(&slow),
        recover: time_to(&after, to, |point| point.answered as f64 >= 0.9 * ideal(point)),
        steady_p90: p90.get(p90.len() / 2).copied().unwrap_or(0.0),
        steady_share: share(&steady),
        slow_errors: errors as f64 / (answered + errors).max(1) as f64,
        oscillation: deviation(&steady),
    }
}

/// Seconds until the first of two intervals in a row for which this holds has ended.
fn time_to(points: &[&Point], from: f64, holds: impl Fn(&Point) -> bool) -> Option<f64> {
    let pair = points.windows(2).find(|pair| pair.iter().all(|point| holds(point)))?;
    Some(pair.first()?.end - from)
}

fn deviation(points: &[&Point]) -> f64 {
    let number = points.len().max(1) as f64;
    let mean = points.iter().map(|point| point.limit).sum::<f64>() / number;
    let variance = points.iter().map(|point| (point.limit - mean).powi(2)).sum::<f64>() / number;
    variance.sqrt() / mean
}
