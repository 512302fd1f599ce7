//! The metrics of one namespace. Each worker counts in its own memory. A flush reports the sums to
//! Envoy a little later, because a call with labels costs Envoy 0.7 µs.
//!
//! ```text
//!   worker ─► Counter (its own)  ─┐
//!   worker ─► Counter (its own)  ─┼─► flush ─► Envoy     100 ms after the first change
//!   any    ─► gauges, histograms ─┘
//! ```

mod define;
mod sink;

pub use define::{Ids, define};
pub use sink::{Change, Sink};

use crate::alarm::Alarm;
use crate::guard;
use crate::timer::TIMER;
use diana_filter::metrics::{METRICS, MetricKind, Series};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest time until Envoy learns of a change.
const FLUSH_AFTER: Duration = Duration::from_millis(100);

/// At most this many values of gauges and histograms wait for a flush. Later values are dropped.
const MAX_RECORDS: usize = 10_000;

/// The metrics of all threads.
#[derive(Default)]
pub struct Metrics {
    state: Mutex<State>,
    /// Whether a flush is due or planned.
    is_changed: AtomicBool,
    /// Rings when a flush is due.
    pub flush: Arc<Alarm>,
}

#[derive(Default)]
struct State {
    /// By the numbers that the filter gets.
    series: Vec<KnownSeries>,
    /// The numbers of the series. A document may have tens of thousands.
    numbers: HashMap<KnownSeries, u32>,
    /// How many of the series Envoy knows. A flush reports each new series, so that the series
    /// exists with 0.
    told: usize,
    /// The counters of all threads, each with the value that Envoy knows.
    counters: Vec<(Arc<Counter>, u64)>,
    /// The sums of threads that have ended, by series.
    ended: Vec<u64>,
    /// Values for gauges and histograms, in the order of their calls.
    records: Vec<(u32, u64)>,
}

/// A series, as a report to Envoy names it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KnownSeries {
    /// The metric's place in [`METRICS`].
    pub metric: usize,
    /// The values of its labels.
    pub labels: Vec<Box<str>>,
}

/// A counter or the changes of a gauge, of one thread.
pub struct Counter {
    series: u32,
    /// The sum of all changes, modulo 2⁶⁴.
    sum: AtomicU64,
}

impl Counter {
    /// Adds to the sum. Only the thread that the counter belongs to may call this.
    pub fn add(&self, by: i64) {
        let sum = self.sum.load(Ordering::Relaxed);
        self.sum.store(sum.wrapping_add_signed(by), Ordering::Relaxed);
    }
}

impl Metrics {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a series, and a counter for the calling thread.
    pub fn define(&self, series: &Series) -> Option<(u32, Arc<Counter>)> {
        let metric = METRICS.iter().position(|metric| metric.name == series.metric.name)?;
        let labels = labels(series).map(Box::from).collect();
        let known = KnownSeries { metric, labels };
        let mut state = self.lock();
        let number = match state.numbers.get(&known) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(state.series.len()).ok()?;
                state.series.push(known.clone());
                state.numbers.insert(known, number);
                number
            }
        };
        let counter = Arc::new(Counter { series: number, sum: AtomicU64::new(0) });
        state.counters.push((Arc::clone(&counter), 0));
        drop(state);
        self.changed();
        Some((number, counter))
    }

    /// Notes that a counter has changed.
    pub fn changed(&self) {
        if !self.is_changed.load(Ordering::Relaxed) {
            self.is_changed.store(true, Ordering::Relaxed);
            // Without a thread, the next flush reports the change.
            _ = TIMER.set_deadline(&self.flush, Instant::now().checked_add(FLUSH_AFTER));
        }
    }

    /// Whether there may be changes that Envoy does not know.
    pub fn has_changed(&self) -> bool {
        self.is_changed.load(Ordering::Relaxed)
    }

    /// Sets a gauge, or adds a value to a histogram.
    pub fn record(&self, number: u32, value: u64) {
        let mut state = self.lock();
        if state.records.len() < MAX_RECORDS {
            state.records.push((number, value));
        }
        drop(state);
        self.changed();
    }

    /// The totals of counters, and the values of gauges that only change by steps, over all
    /// threads.
    pub fn totals(&self, numbers: &[u32]) -> Vec<u64> {
        let state = self.lock();
        let mut totals = state.ended.clone();
        totals.resize(state.series.len(), 0);
        for (counter, _) in &state.counters {
            add(&mut totals, counter);
        }
        let total = |number: &u32| totals.get(usize::try_from(*number).ok()?);
        // If one thread has counted an end before another thread has counted the beginning, the sum
        // of a gauge is below zero.
        numbers
            .iter()
            .map(|number| total(number).map_or(0, |total| total.cast_signed().max(0).cast_unsigned()))
            .collect()
    }

    /// Reports all changes to Envoy.
    pub fn flush(&self, ids: &Ids, sink: Sink) {
        let (changes, panics) = (self.begin_flush(), guard::take_panics());
        for (series, change) in &changes {
            if let Some(id) = ids.of(series.metric)
                && let Some(metric) = METRICS.get(series.metric)
            {
                sink.tell(metric.kind, id, &series.labels, change);
            }
        }
        if panics > 0 {
            sink.tell(MetricKind::Counter, ids.panics, &[], &Change::Add(i64::try_from(panics).unwrap_or(0)));
        }
    }

    /// Takes the changes since the last flush. If there are any, one more flush follows: a worker
    /// that counts during this flush may not see that no other one is planned.
    fn begin_flush(&self) -> Vec<(KnownSeries, Change)> {
        self.is_changed.store(false, Ordering::Relaxed);
        let changes = self.take_changes();
        if !changes.is_empty() {
            self.changed();
        }
        changes
    }

    /// Takes the changes since the last call.
    fn take_changes(&self) -> Vec<(KnownSeries, Change)> {
        let mut state = self.lock();
        let State { series, told, counters, ended, records, .. } = &mut *state;
        let known = |number: u32| series.get(usize::try_from(number).ok()?).cloned();
        let fresh = series.get(std::mem::replace(told, series.len())..).unwrap_or_default();
        let mut changes: Vec<_> = fresh.iter().map(|series| (series.clone(), Change::Add(0))).collect();
        for (counter, told) in counters.iter_mut() {
            let sum = counter.sum.load(Ordering::Relaxed);
            let by = sum.wrapping_sub(std::mem::replace(told, sum)).cast_signed();
            if by != 0 {
                changes.extend(known(counter.series).map(|series| (series, Change::Add(by))));
            }
        }
        let recorded =
            records.drain(..).filter_map(|(number, value)| Some((known(number)?, Change::Record(value))));
        changes.extend(recorded);
        // A thread that has ended leaves its counters.
        ended.resize(series.len(), 0);
        counters.retain(|(counter, told)| {
            let counts = Arc::strong_count(counter) > 1 || counter.sum.load(Ordering::Relaxed) != *told;
            if !counts {
                add(ended, counter);
            }
            counts
        });
        changes
    }
}

/// Adds what a counter has to the sum of its series.
fn add(sums: &mut [u64], counter: &Counter) {
    let sum = usize::try_from(counter.series).ok().and_then(|series| sums.get_mut(series));
    if let Some(sum) = sum {
        *sum = sum.wrapping_add(counter.sum.load(Ordering::Relaxed));
    }
}

/// The values of a series' labels, in the order of the labels' names.
fn labels<'a>(series: &'a Series<'a>) -> impl Iterator<Item = &'a str> {
    let (_, names) = series.metric.prometheus();
    let mut words = series.metric.name.split('.');
    names.into_iter().map(move |name| {
        words.find(|word| *word == name);
        match words.next() {
            Some("NAME" | "CLUSTER" | "VERSION" | "FINGERPRINT") => series.of,
            // The lists are rules, too: `rule.allow`.
            Some(word) if !word.starts_with(|letter: char| letter.is_ascii_uppercase()) => word,
            _ => series.value,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series<'a>(name: &str, of: &'a str, value: &'a str) -> Series<'a> {
        let metric = METRICS.iter().find(|metric| metric.name == name).unwrap();
        Series { metric, of, value }
    }

    #[test]
    fn labels_have_the_values_of_the_series() {
        let of = |name, of, value| labels(&series(name, of, value)).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(of("diana.rule.NAME.result.RESULT.requests", "login", "ok"), ["login", "ok"]);
        assert_eq!(of("diana.rule.deny.result.RESULT.requests", "", "refused"), ["deny", "refused"]);
        assert_eq!(of("diana.store.CLUSTER.calls", "redis", ""), ["redis"]);
        assert_eq!(of("diana.lost_swaps", "", ""), [""; 0]);
        for metric in METRICS {
            let series = Series { metric, of: "x", value: "y" };
            assert_eq!(labels(&series).count(), metric.prometheus().1.len(), "{metric:?}");
        }
    }

    #[test]
    fn the_changes_of_all_threads_are_taken_once() {
        let metrics = Metrics::default();
        let login = series("diana.rule.NAME.result.RESULT.requests", "login", "ok");
        let ((number, one), (same, two)) = (metrics.define(&login).unwrap(), metrics.define(&login).unwrap());
        let (gauge, waiting) = metrics.define(&series("diana.waiting_requests", "", "")).unwrap();
        assert!(number == same && number != gauge);
        one.add(2);
        two.add(3);
        waiting.add(-1);
        metrics.record(gauge, 7);
        let changes: Vec<Change> = metrics.take_changes().into_iter().map(|(_, change)| change).collect();
        let zeros = [Change::Add(0), Change::Add(0)];
        assert_eq!(changes[..2], zeros, "both series exist");
        assert_eq!(changes[2..], [Change::Add(2), Change::Add(3), Change::Add(-1), Change::Record(7)]);
        assert!(metrics.take_changes().is_empty());
        assert_eq!(metrics.totals(&[number, gauge, 99]), [5, 0, 0], "a flush takes nothing away");
        waiting.add(3);
        one.add(1);
        assert_eq!(metrics.totals(&[gauge, number]), [2, 6]);
        assert_eq!(metrics.take_changes().len(), 2);
        one.add(1);
        for (changes, is_planned) in [(1, true), (0, false), (0, false)] {
            assert_eq!(metrics.begin_flush().len(), changes);
            assert_eq!(metrics.is_changed.load(Ordering::Relaxed), is_planned, "one more flush");
        }
        one.add(1);
        drop(one);
        assert_eq!(metrics.take_changes().len(), 1, "the last counts of a thread that has ended");
        assert_eq!(metrics.lock().counters.len(), 2);
        assert_eq!(metrics.totals(&[number]), [8], "also what a thread has counted that has ended");
        TIMER.end();
    }
}
