//! How much counters have grown in each of the last 300 seconds, over all workers of a gateway.
//!
//! Sampling costs requests nothing. Once a second, one worker reads the counters and stores how
//! much they have grown since the last sample:
//!
//! ```text
//!   diana/rates        second · each series with its last totals · the newest sample
//!   diana/rates/0…303  older samples, by second
//! ```
//!
//! The worker whose compare-and-swap of `diana/rates` succeeds has taken the sample. Before that,
//! it moves the previous sample to its own key. All workers move the same bytes, so a reader that
//! finds a sample in `diana/rates` finds all older ones, too.
//!
//! Series are identified by the hash of a name, so that they survive a new configuration. A series
//! that no worker samples for 300 seconds is forgotten.

use diana_base::format::decimal;
use diana_base::sort;
use diana_limiter::cells::store::{Changed, Fault, Store, Swap};
use std::borrow::Cow;

/// The most seconds that a question can ask for.
pub const WINDOW: usize = 300;

/// How many counters one series has.
pub const COUNTERS: usize = 4;

/// The most series that are sampled. Further ones are left out.
const MAX_SERIES: usize = 512;

/// More keys than a window has seconds, so that a reader that began before the next sample still
/// finds the oldest one.
const SLOTS: u64 = 304;

/// If the clock is more than this many seconds behind the last sample, it has stepped back.
const MAX_BACK: u64 = 5;

/// How often a worker tries to add its series, if other workers do so at the same time.
const ROUNDS: u32 = 16;

const HEAD: &[u8] = b"diana/rates";

/// Distinguishes the format of the values from later ones.
const FORMAT: u32 = 1;

/// The present totals of one series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// A hash of the series' name.
    pub id: u64,
    /// The totals of its counters.
    pub totals: [u64; COUNTERS],
}

/// A series at its last sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    id: u64,
    second: u64,
    totals: [u64; COUNTERS],
}

/// How much a series has grown in the `span` seconds up to a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Growth {
    id: u64,
    span: u32,
    by: [u32; COUNTERS],
}

/// All growth up to the end of a second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sample {
    second: u64,
    /// By id.
    growth: Vec<Growth>,
}

/// The value of `diana/rates`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Head {
    /// By id.
    entries: Vec<Entry>,
    last: Sample,
}

/// Begins to sample the series that no sample knows yet, so that their growth counts from now on.
/// Call this before the first request of a configuration.
#[cold]
pub fn begin(store: &dyn Store, second: u64, series: &[Series]) -> Result<(), Fault> {
    let mut add = |value: Option<&[u8]>| -> Changed<'static> {
        let head = value.and_then(Head::decode);
        let is_known = |head: &Head| series.iter().all(|one| head.find(one.id).is_ok());
        if head.as_ref().is_some_and(is_known) {
            return None;
        }
        let empty = || Head { last: Sample { second, growth: Vec::new() }, ..Head::default() };
        let mut head = head.unwrap_or_else(empty);
        series.iter().for_each(|one| head.add(second, one));
        Some(head.encode().into())
    };
    store.update(HEAD, ROUNDS, &mut add).map(|_| ())
}

/// Samples all series at the beginning of `second`, unless a worker has already done so. `read`
/// reads the totals. Returns whether this worker has taken the sample.
#[cold]
pub fn sample(store: &dyn Store, second: u64, read: impl FnOnce() -> Vec<Series>) -> Result<bool, Fault> {
    let found = store.load(HEAD)?;
    let version = found.as_ref().map(|loaded| loaded.version);
    let mut head = found.and_then(|loaded| Head::decode(&loaded.bytes)).unwrap_or_default();
    let last = head.last.second;
    if last >= second && last <= second.saturating_add(MAX_BACK) {
        return Ok(false);
    }
    keep(store, &head.last)?;
    head.sample(second, &read());
    Ok(store.swap(HEAD, &head.encode(), version)? == Swap::Done)
}

/// Stores a sample under its own key.
fn keep(store: &dyn Store, sample: &Sample) -> Result<(), Fault> {
    let bytes = sample.encode();
    let mut replace = |value: Option<&[u8]>| (value != Some(&*bytes)).then_some(Cow::Borrowed(&*bytes));
    store.update(&key(sample.second), ROUNDS, &mut replace).map(|_| ())
}

fn key(second: u64) -> Vec<u8> {
    let slot = second.checked_rem(SLOTS).unwrap_or(0);
    [HEAD, b"/", decimal(slot).as_bytes()].concat()
}

impl Head {
    fn find(&self, id: u64) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&id, |entry| entry.id)
    }

    /// Adds a series that is not known, if there is room.
    fn add(&mut self, second: u64, series: &Series) {
        let Series { id, totals } = *series;
        if let Err(place) = self.find(id)
            && self.entries.len() < MAX_SERIES
        {
            self.entries.insert(place, Entry { id, second, totals });
        }
    }

    /// Makes this the head after a sample of these series.
    fn sample(&mut self, second: u64, all: &[Series]) {
        let mut growth = Vec::new();
        for series in all {
            let Some(entry) = self.find(series.id).ok().and_then(|place| self.entries.get_mut(place)) else {
                self.add(second, series);
                continue;
            };
            let span = second.saturating_sub(entry.second).max(1);
            let span = u32::try_from(span).unwrap_or(u32::MAX);
            let mut by = [0; COUNTERS];
            for ((by, now), before) in by.iter_mut().zip(series.totals).zip(entry.totals) {
                // A total that has shrunk was reset meanwhile.
                let grown = now.checked_sub(before).unwrap_or(now);
                *by = u32::try_from(grown).unwrap_or(u32::MAX);
            }
            if by != [0; COUNTERS] {
                growth.push(Growth { id: series.id, span, by });
            }
            *entry = Entry { second, totals: series.totals, ..*entry };
        }
        sort::sort_by_key(&mut growth, |growth| growth.id);
        self.last = Sample { second, growth };
        let window = u64::try_from(WINDOW).unwrap_or(u64::MAX);
        self.entries.retain(|entry| second.saturating_sub(entry.second) < window);
    }

    fn encode(&self) -> Vec<u8> {
        let mut to = FORMAT.to_le_bytes().to_vec();
        to.extend(u32::try_from(self.entries.len()).unwrap_or(u32::MAX).to_le_bytes());
        for Entry { id, second, totals } in &self.entries {
            [*id, *second].iter().chain(totals).for_each(|number| to.extend(number.to_le_bytes()));
        }
        to.extend(self.last.encode());
        to
    }

    /// `None` for a value of another format.
    fn decode(bytes: &[u8]) -> Option<Head> {
        let mut rest = Bytes(bytes);
        if rest.four()? != FORMAT {
            return None;
        }
        let mut entries = Vec::new();
        for _ in 0..rest.four()? {
            let (id, second) = (rest.eight()?, rest.eight()?);
            let mut totals = [0; COUNTERS];
            for total in &mut totals {
                *total = rest.eight()?;
            }
            entries.push(Entry { id, second, totals });
        }
        Some(Head { entries, last: Sample::decode(rest.0)? })
    }
}

impl Sample {
    fn encode(&self) -> Vec<u8> {
        let mut to = self.second.to_le_bytes().to_vec();
        for Growth { id, span, by } in &self.growth {
            to.extend(id.to_le_bytes());
            [*span].iter().chain(by).for_each(|number| to.extend(number.to_le_bytes()));
        }
        to
    }

    /// `None` for a value of another format.
    fn decode(bytes: &[u8]) -> Option<Sample> {
        let mut rest = Bytes(bytes);
        let (second, mut growth) = (rest.eight()?, Vec::new());
        while !rest.0.is_empty() {
            let (id, span) = (rest.eight()?, rest.four()?);
            let mut by = [0; COUNTERS];
            for by in &mut by {
                *by = rest.four()?;
            }
            growth.push(Growth { id, span, by });
        }
        Some(Sample { second, growth })
    }
}

/// The rest of an encoded value.
struct Bytes<'b>(&'b [u8]);

impl Bytes<'_> {
    fn four(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*first))
    }

    fn eight(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }
}

/// The samples of the last seconds.
#[derive(Clone, Debug)]
pub struct Rates {
    /// The last sample ends at the beginning of this second, counted since 1970.
    pub end: u64,
    seconds: usize,
    /// The known series, by id.
    known: Vec<u64>,
    samples: Vec<Sample>,
}

impl Rates {
    /// Loads the last `seconds` seconds, at most [`WINDOW`]. `None` if there is no sample yet.
    #[cold]
    pub fn load(store: &dyn Store, seconds: usize) -> Result<Option<Rates>, Fault> {
        let seconds = seconds.clamp(1, WINDOW);
        let Some(head) = store.load(HEAD)?.and_then(|loaded| Head::decode(&loaded.bytes)) else {
            return Ok(None);
        };
        let (end, known) = (head.last.second, head.entries.iter().map(|entry| entry.id).collect());
        let older = (1..u64::try_from(seconds).unwrap_or(0)).map(|ago| end.saturating_sub(ago));
        let mut samples = vec![head.last];
        for second in older {
            let found = store.load(&key(second))?.and_then(|loaded| Sample::decode(&loaded.bytes));
            // A key may still have the sample of an earlier round.
            samples.extend(found.filter(|sample| sample.second == second));
        }
        Ok(Some(Rates { end, seconds, known, samples }))
    }

    /// Whether the series is sampled.
    #[must_use]
    pub fn knows(&self, id: u64) -> bool {
        self.known.binary_search(&id).is_ok()
    }

    /// How much each counter of a series has grown in each second, the oldest first. `None` if none
    /// has.
    #[must_use]
    #[cold]
    pub fn of(&self, id: u64) -> Option<[Vec<u64>; COUNTERS]> {
        let mut all: Option<[Vec<u64>; COUNTERS]> = None;
        for sample in &self.samples {
            let place = sample.growth.binary_search_by_key(&id, |growth| growth.id);
            if let Some(growth) = place.ok().and_then(|place| sample.growth.get(place)) {
                let seconds = all.get_or_insert_with(|| std::array::from_fn(|_| vec![0; self.seconds]));
                // The seconds of this sample, from its last one back.
                let ago = usize::try_from(self.end.saturating_sub(sample.second)).unwrap_or(usize::MAX);
                for (seconds, by) in seconds.iter_mut().zip(growth.by) {
                    spread(by, growth.span, seconds.iter_mut().rev().skip(ago));
                }
            }
        }
        all
    }
}

/// Adds `total` evenly to the `span` seconds before `back`, which runs backwards and may end
/// earlier.
fn spread<'s>(total: u32, span: u32, back: impl Iterator<Item = &'s mut u64>) {
    let until = |seconds: u32| {
        let share = u64::from(total).saturating_mul(seconds.into());
        share.checked_div(span.into()).unwrap_or(0)
    };
    for (second, after) in back.zip((1..=span).rev()) {
        *second = second.saturating_add(until(after).saturating_sub(until(after.saturating_sub(1))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diana_limiter::cells::store::Memory;
    use proptest::prelude::*;

    fn series(id: u64, total: u64) -> Vec<Series> {
        vec![Series { id, totals: [total, 0, 0, 0] }]
    }

    fn counted(store: &Memory, id: u64, seconds: usize) -> Vec<u64> {
        let rates = Rates::load(store, seconds).unwrap().unwrap();
        rates.of(id).map(|[first, ..]| first).unwrap_or_default()
    }

    #[test]
    fn a_series_begins_at_its_present_total_and_is_known_by_its_name() {
        let store = Memory::new();
        begin(&store, 100, &series(1, 40)).unwrap();
        begin(&store, 100, &series(1, 99)).unwrap();
        assert!(sample(&store, 101, || series(1, 42)).unwrap());
        // Another configuration has another rule, too. Its counter may be old.
        begin(&store, 101, &series(2, 1_000)).unwrap();
        let both = |one, two| [series(1, one), series(2, two)].concat();
        assert!(sample(&store, 102, || both(42, 1_003)).unwrap());
        assert_eq!((counted(&store, 1, 3), counted(&store, 2, 3)), (vec![0, 2, 0], vec![0, 0, 3]));
        // A series that a sample finds first begins with that sample.
        assert!(sample(&store, 103, || [both(42, 1_003), series(3, 70)].concat()).unwrap());
        assert_eq!(counted(&store, 3, 3), [0; 0]);
        assert!(Rates::load(&store, 3).unwrap().unwrap().knows(3));
    }

    #[test]
    fn what_a_worker_does_not_sample_is_spread_over_the_seconds_of_the_next_sample() {
        let store = Memory::new();
        begin(&store, 100, &[series(1, 0), series(2, 0)].concat()).unwrap();
        // This worker does not have rule 2 yet.
        assert!(sample(&store, 101, || series(1, 5)).unwrap());
        assert!(sample(&store, 102, || [series(1, 6), series(2, 9)].concat()).unwrap());
        assert_eq!((counted(&store, 1, 3), counted(&store, 2, 3)), (vec![0, 5, 1], vec![0, 4, 5]));
    }

    #[test]
    fn a_series_that_nobody_samples_is_forgotten_and_begins_anew() {
        let store = Memory::new();
        begin(&store, 100, &[series(1, 0), series(2, 0)].concat()).unwrap();
        for second in 101..=399 {
            assert!(sample(&store, second, || series(1, second)).unwrap());
        }
        assert!(Rates::load(&store, 1).unwrap().unwrap().knows(2));
        assert!(sample(&store, 400, || series(1, 400)).unwrap());
        assert!(!Rates::load(&store, 1).unwrap().unwrap().knows(2));
        assert!(sample(&store, 401, || [series(1, 400), series(2, 8)].concat()).unwrap());
        assert_eq!((counted(&store, 2, WINDOW), counted(&store, 1, 4)), (vec![], vec![1, 1, 1, 0]));
    }

    #[test]
    fn a_reset_counter_and_a_clock_that_steps_back_lose_nothing_later() {
        let store = Memory::new();
        begin(&store, 1_000, &series(1, 500)).unwrap();
        assert!(sample(&store, 1_001, || series(1, 501)).unwrap());
        assert!(sample(&store, 1_002, || series(1, 3)).unwrap());
        assert_eq!(counted(&store, 1, 2), [1, 3]);
        assert!(!sample(&store, 998, || series(1, 4)).unwrap(), "the clocks of workers differ a little");
        assert!(sample(&store, 900, || series(1, 10)).unwrap());
        assert!(sample(&store, 901, || series(1, 12)).unwrap());
        assert_eq!(counted(&store, 1, 3), [0, 7, 2]);
        let all: u64 = counted(&store, 1, WINDOW).iter().sum();
        assert_eq!(all, 9, "samples of a time that is yet to come do not count");
    }

    #[test]
    fn only_so_many_series_are_sampled() {
        let store = Memory::new();
        let all: Vec<Series> = (0..600).map(|id| Series { id, totals: [0; COUNTERS] }).collect();
        begin(&store, 1, &all).unwrap();
        assert!(sample(&store, 2, || all.clone()).unwrap());
        let rates = Rates::load(&store, 1).unwrap().unwrap();
        assert!(rates.knows(511) && !rates.knows(512));
        let size = store.load(HEAD).unwrap().unwrap().bytes.len();
        assert!(size < 25_000, "{size} bytes");
    }

    #[test]
    fn foreign_values_are_replaced() {
        let store = Memory::new();
        store.swap(HEAD, b"not ours", None).unwrap();
        assert!(Rates::load(&store, 5).unwrap().is_none());
        begin(&store, 10, &series(1, 0)).unwrap();
        assert!(sample(&store, 11, || series(1, 4)).unwrap());
        let version = store.load(&key(10)).unwrap().map(|loaded| loaded.version);
        store.swap(&key(10), &[7; 13], version).unwrap();
        assert_eq!(counted(&store, 1, 3), [0, 0, 4]);
    }

    proptest! {
        /// Whichever worker samples, and however late: every unit is in exactly one second.
        #[test]
        fn nothing_is_lost_and_nothing_counts_twice(
            steps in prop::collection::vec((0u64..4, 0u64..1_000, 1usize..4), 1..60),
        ) {
            let store = Memory::new();
            let (mut second, mut total) = (5_000, 77);
            begin(&store, second, &series(1, total)).unwrap();
            let mut expected = vec![];
            for (later, more, workers) in steps {
                (second, total) = (second + later, total + more);
                let taken = (0..workers).filter(|_| sample(&store, second, || series(1, total)).unwrap());
                prop_assert_eq!(taken.count(), usize::from(later > 0));
                expected.push((second, total));
            }
            let sampled = {
                // What was counted after the last sample of a second is in the next one.
                let last = expected.iter().position(|(at, _)| *at == second).unwrap();
                expected[last].1 - 77
            };
            let found = counted(&store, 1, WINDOW);
            prop_assert_eq!(found.iter().sum::<u64>(), if second == 5_000 { 0 } else { sampled });
        }

        #[test]
        fn any_value_is_read(bytes: Vec<u8>, cut in 0usize..400) {
            _ = Head::decode(&bytes);
            let entries = vec![Entry { id: 3, second: 9, totals: [1, 2, 3, 4] }; 3];
            let growth = vec![Growth { id: 3, span: 1, by: [1, 0, 0, u32::MAX] }; 2];
            let head = Head { entries, last: Sample { second: 9, growth } };
            let encoded = head.encode();
            prop_assert_eq!(Head::decode(&encoded), Some(head));
            _ = Head::decode(&encoded[..cut.min(encoded.len())]);
        }
    }
}
