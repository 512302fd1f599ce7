//! The load over the week, and numbers that are spread over it.

use super::INTERVALS;

/// The weights of the intervals in a week without incidents: days above nights, weekdays above the
/// weekend.
pub fn rhythm(interval: usize) -> f64 {
    let hour = (interval % 48) as f64 / 2.0;
    let day = 1.0 - ((hour - 14.5) / 24.0 * std::f64::consts::TAU).cos().mul_add(-0.62, 0.0) + evening(hour);
    let weekend = if interval / 48 >= 5 { 0.62 } else { 1.0 };
    day * weekend * (0.94 + 0.12 * noise(interval))
}

/// The weights in an incident: it begins on Wednesday at 13:30 and fades after 17:00.
pub fn incident(interval: usize) -> f64 {
    let since = interval as f64 - (2.0 * 48.0 + 27.0);
    let height = match since {
        since if since < 0.0 => 0.0,
        since if since < 7.0 => 1.0 - (since - 3.0).abs() * 0.12,
        since => 0.4 * (7.0 - since).exp2(),
    };
    height * (0.8 + 0.4 * noise(interval))
        + if rhythm(interval) > 1.5 { 0.004 * noise(interval * 7) } else { 0.0 }
}

/// The weights of people who mistype: in the mornings, and a little all day.
pub fn mornings(interval: usize) -> f64 {
    let hour = (interval % 48) as f64 / 2.0;
    let peak = (-(hour - 8.5).powi(2) / 3.0).exp();
    if interval / 48 >= 5 { 0.2 * peak } else { peak * (0.6 + 0.8 * noise(interval)) }
}

/// The weights of jobs at night.
pub fn nights(interval: usize) -> f64 {
    let hour = (interval % 48) as f64 / 2.0;
    (-(hour - 2.0).powi(2)).exp() * (0.5 + noise(interval / 48))
}

/// A sum in whole numbers with these weights.
pub fn spread(sum: u64, weight: fn(usize) -> f64) -> Vec<u64> {
    let total: f64 = (0..INTERVALS).map(weight).sum();
    let mut before = 0.0;
    let ends = (0..INTERVALS).map(|interval| {
        before += weight(interval);
        (before / total * sum as f64).round() as u64
    });
    let ends: Vec<_> = ends.collect();
    let starts = std::iter::once(&0).chain(&ends);
    starts.zip(&ends).map(|(start, end)| end - start).collect()
}

fn evening(hour: f64) -> f64 {
    0.35 * (-(hour - 20.0).powi(2) / 4.0).exp()
}

/// From 0 to 1, without a pattern that one sees.
pub fn noise(index: usize) -> f64 {
    let mixed = (index as u64 ^ 0x9e37_79b9).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 40) as f64 / f64::from(1 << 24)
}
