//! A record while its line is read. If a line has several fields with one meaning, their ranks
//! decide, never their order in the line.

use super::record::Record;
use diana_limiter::time::Time;

/// The rank of a field among all fields with the same meaning. The lowest rank with a value counts.
pub type Rank = u8;

/// The line does not have the key.
const NO_KEY: Rank = Rank::MAX;
/// The line has the key without a value.
const NO_VALUE: Rank = Rank::MAX - 1;

/// A value that several fields of a line may have.
#[derive(Clone, Copy, Debug)]
pub struct Best<T> {
    rank: Rank,
    value: Option<T>,
}

impl<T> Default for Best<T> {
    fn default() -> Best<T> {
        Best { rank: NO_KEY, value: None }
    }
}

impl<T: Copy + Ord> Best<T> {
    /// Offers what the field of this rank has. Of equal ranks, as of two spellings of one key, the
    /// lesser value counts: any rule will do that ignores the order.
    pub fn offer(&mut self, rank: Rank, value: Option<T>) {
        let rank = if value.is_some() { rank } else { NO_VALUE };
        if rank < self.rank || rank == self.rank && value < self.value {
            *self = Best { rank, value };
        }
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> Option<T> {
        self.value
    }

    /// Whether the line has a field of this meaning, possibly without a value.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.rank != NO_KEY
    }
}

/// The time in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant {
    /// The time; `None` if the text is not a time.
    pub time: Option<Time>,
    /// Whether the request ended then. Otherwise the request started.
    pub is_end: bool,
    /// Whether the field never has fractions of a second.
    pub is_whole: bool,
}

/// A record while its line is read.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// When the request started or ended.
    pub time: Best<Instant>,
    /// How long the request took, in nanoseconds.
    pub duration_ns: Best<u64>,
    /// How long the upstream took to begin its response, in nanoseconds.
    pub latency_ns: Best<u64>,
    /// The status of the response.
    pub status: Best<u16>,
    /// The bytes of the request's body.
    pub received: Best<u64>,
    /// The bytes of the response's body.
    pub sent: Best<u64>,
    /// Whether nginx wrote the line.
    pub is_nginx: bool,
    record: &'a mut Record,
    /// The rank of the value of each slot.
    ranks: &'a mut Vec<Rank>,
}

impl<'a> Incoming<'a> {
    /// Empties the record before its line is read. The memory of `ranks` is reused.
    pub fn new(record: &'a mut Record, ranks: &'a mut Vec<Rank>) -> Incoming<'a> {
        record.clear();
        ranks.clear();
        Incoming {
            time: Best::default(),
            duration_ns: Best::default(),
            latency_ns: Best::default(),
            status: Best::default(),
            received: Best::default(),
            sent: Best::default(),
            is_nginx: false,
            record,
            ranks,
        }
    }

    /// Offers a value of a slot; `None` if the line has the key without a value. The rule is the
    /// one of [`Best::offer`].
    pub fn offer(&mut self, slot: usize, rank: Rank, value: Option<&[u8]>) {
        let Some(value) = value else { return self.record.note(slot) };
        if self.ranks.len() <= slot {
            self.ranks.resize(slot.saturating_add(1), NO_KEY);
        }
        let Some(known) = self.ranks.get_mut(slot) else { return };
        if rank < *known || rank == *known && self.record.get(slot).is_some_and(|known| value < known) {
            *known = rank;
            self.record.set(slot, value);
        }
    }

    /// Whether the line has no fraction of a second.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.time.value.is_some_and(|instant| instant.is_whole)
    }

    /// Completes the record. `target` is the slot of the path. The error says what is missing.
    pub fn finish(&mut self, target: Option<usize>) -> Result<(), &'static str> {
        let instant = self.time.value.ok_or("the line has no time")?;
        let time = instant.time.ok_or("the time cannot be read")?;
        let before = self.duration_ns.value.filter(|_| instant.is_end).unwrap_or(0);
        self.record.start = Time::from_ns(time.as_ns().saturating_sub(before));
        let record = &mut *self.record;
        (record.duration_ns, record.latency_ns) = (self.duration_ns.value, self.latency_ns.value);
        (record.received, record.sent) = (self.received.value, self.sent.value);
        (record.status, record.is_nginx) = (self.status.value, self.is_nginx);
        match target.and_then(|slot| self.record.get(slot)) {
            Some(target) if !target.is_empty() => Ok(()),
            _ => Err("the line has no path"),
        }
    }

    /// Whether the line has the key of this slot, possibly without a value.
    #[must_use]
    pub fn has(&self, slot: usize) -> bool {
        self.record.has(slot)
    }
}
