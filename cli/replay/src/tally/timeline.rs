//! Counts over time: intervals that double in length, so that a bounded number suffices.

use crate::summary::{Hour, Interval, Timeline};
use diana_limiter::time::Time;

/// The most intervals.
const MOST: usize = 400;
const SECOND_NS: u64 = 1_000_000_000;

/// The intervals of a log, from the first request on.
#[derive(Clone, Debug)]
pub struct Scale {
    start: Option<Time>,
    length_ns: u64,
}

impl Default for Scale {
    fn default() -> Scale {
        Scale { start: None, length_ns: SECOND_NS }
    }
}

impl Scale {
    /// The interval of an instant, and how often the length has doubled for it.
    pub fn place(&mut self, at: Time) -> (usize, u32) {
        let start = *self.start.get_or_insert_with(|| {
            let second = at.as_ns().checked_div(SECOND_NS).unwrap_or(0);
            Time::from_ns(second.saturating_mul(SECOND_NS))
        });
        let mut doubled = 0u32;
        loop {
            let place = at.since(start).as_ns().checked_div(self.length_ns).unwrap_or(0);
            match usize::try_from(place) {
                Ok(place) if place < MOST => return (place, doubled),
                _ => {
                    self.length_ns = self.length_ns.saturating_mul(2);
                    doubled = doubled.saturating_add(1);
                }
            }
        }
    }
}

/// Merges pairs of intervals, once for each time that the length has doubled.
pub fn double<T: Clone + Default>(intervals: &mut Vec<T>, times: u32, merge: impl Fn(&mut T, &T)) {
    for _ in 0..times {
        let pairs = intervals.chunks(2).map(|pair| {
            let mut both = pair.first().cloned().unwrap_or_default();
            pair.iter().skip(1).for_each(|other| merge(&mut both, other));
            both
        });
        *intervals = pairs.collect();
    }
}

/// The interval at `place`. The list grows as far as necessary.
pub fn at<T: Clone + Default>(intervals: &mut Vec<T>, place: usize) -> Option<&mut T> {
    if intervals.len() <= place {
        intervals.resize(place.saturating_add(1), T::default());
    }
    intervals.get_mut(place)
}

/// All requests over time.
#[derive(Clone, Debug, Default)]
pub struct Times {
    scale: Scale,
    intervals: Vec<Interval>,
    /// Requests and refused requests by hour of the week.
    hours: Vec<(u64, u64)>,
}

impl Times {
    /// Adds a request. Returns its interval and its hour of the week, and how often the length of
    /// intervals has doubled for it.
    pub fn add(&mut self, at: Time, is_refused: bool, is_delayed: bool) -> (usize, usize, u32) {
        let (place, doubled) = self.scale.place(at);
        double(&mut self.intervals, doubled, |all, other| {
            all.requests = all.requests.saturating_add(other.requests);
            all.refused = all.refused.saturating_add(other.refused);
            all.delayed = all.delayed.saturating_add(other.delayed);
        });
        if let Some(interval) = self::at(&mut self.intervals, place) {
            interval.requests = interval.requests.saturating_add(1);
            interval.refused = interval.refused.saturating_add(is_refused.into());
            interval.delayed = interval.delayed.saturating_add(is_delayed.into());
        }
        // 1970 began on a Thursday.
        let hour = at.as_ns().checked_div(3_600 * SECOND_NS).unwrap_or(0).saturating_add(3 * 24);
        let hour = usize::try_from(hour.checked_rem(7 * 24).unwrap_or(0)).unwrap_or(0);
        if let Some((requests, refused)) = self::at(&mut self.hours, hour) {
            *requests = requests.saturating_add(1);
            *refused = refused.saturating_add(is_refused.into());
        }
        (place, hour, doubled)
    }

    /// Takes refusals back, whose numbers are by interval and by hour of the week.
    pub fn take_back(&mut self, intervals: &[u64], hours: &[u64]) {
        for (interval, number) in self.intervals.iter_mut().zip(intervals) {
            interval.refused = interval.refused.saturating_sub(*number);
        }
        for ((_, refused), number) in self.hours.iter_mut().zip(hours) {
            *refused = refused.saturating_sub(*number);
        }
    }

    /// The number of intervals.
    #[must_use]
    pub fn len(&self) -> usize {
        self.intervals.len()
    }

    /// The intervals.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        Timeline {
            start_s: self.scale.start.map_or(0.0, seconds),
            interval_s: self.scale.length_ns as f64 / 1e9,
            intervals: self.intervals.clone(),
        }
    }

    /// All 168 hours of the week.
    #[must_use]
    pub fn week(&self) -> Vec<Hour> {
        let hours = (0..7u8).flat_map(|weekday| (0..24u8).map(move |hour| (weekday, hour)));
        let counts = self.hours.iter().copied().chain(std::iter::repeat((0, 0)));
        hours
            .zip(counts)
            .map(|((weekday, hour), (requests, refused))| Hour { weekday, hour, requests, refused })
            .collect()
    }
}

/// An instant in seconds since the epoch, to the microsecond: a float has no room for more.
#[must_use]
pub fn seconds(at: Time) -> f64 {
    at.as_ns().checked_div(1_000).unwrap_or(0) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_and_keep_all_requests() {
        let mut times = Times::default();
        let start = 1_795_392_000 * SECOND_NS; // a Monday, 00:00
        for second in 0..1_000 {
            times.add(Time::from_ns(start + second * SECOND_NS + 5), second % 10 == 0, second == 999);
        }
        let Timeline { start_s, interval_s, intervals } = times.timeline();
        assert_eq!((start_s, interval_s, intervals.len()), (1_795_392_000.0, 4.0, 250));
        assert!(intervals.iter().all(|interval| interval.requests == 4));
        assert_eq!(intervals.iter().map(|interval| interval.refused).sum::<u64>(), 100);
        assert_eq!((intervals[0].refused, intervals[249].delayed), (1, 1));
        let week = times.week();
        assert_eq!((week.len(), week[0].requests, week[0].refused, week[1].requests), (168, 1_000, 100, 0));
    }

    #[test]
    fn a_log_of_years_has_few_intervals() {
        let mut times = Times::default();
        times.add(Time::from_ns(0), false, false);
        times.add(Time::from_ns(u64::MAX), false, false);
        assert!(times.timeline().intervals.len() <= 400);
        assert_eq!(times.timeline().intervals.iter().map(|interval| interval.requests).sum::<u64>(), 2);
    }
}
