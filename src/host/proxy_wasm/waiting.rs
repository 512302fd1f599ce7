//! Streams that wait: requests for their turn, and refusals that are held back.
//!
//! It does not know: why they wait, or the host's clock: its instants are those of one that never steps. The
//! timer is armed for the earliest deadline and off when nobody waits; a tick comes when it is due or a little
//! later, never earlier.

use super::calls::{self, Answer};
use crate::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// A worker holds so many refusals back at once; what exceeds is refused at once, so that a flood of
/// refusals does not fill its memory.
const MOST_REFUSALS: usize = 1_000;

/// So many turns that nobody waits for are not worth clearing away.
const SPARE: usize = 64;

/// What becomes of a stream when its time has come.
#[derive(Debug)]
pub(super) enum Parked {
    /// The request goes on.
    Request,
    /// It is answered.
    Refusal(Answer),
}

/// All streams of one worker that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The earliest first; of equals the one that came first.
    queue: BinaryHeap<Reverse<(Time, u64, u32)>>,
    parked: HashMap<u32, Parked>,
    refusals: usize,
    came: u64,
    /// When the timer is set to fire.
    armed: Option<Time>,
}

impl Waiting {
    /// Whether one more refusal may be held back.
    pub(super) fn has_room(&self) -> bool {
        self.refusals < MOST_REFUSALS
    }

    /// Whether the stream waits.
    pub(super) fn holds(&self, stream: u32) -> bool {
        self.parked.contains_key(&stream)
    }

    /// Holds a stream until then.
    pub(super) fn park(&mut self, stream: u32, until: Time, parked: Parked, now: Time) {
        self.refusals = self.refusals.saturating_add(matches!(parked, Parked::Refusal(_)).into());
        self.came = self.came.wrapping_add(1);
        self.queue.push(Reverse((until, self.came, stream)));
        self.parked.insert(stream, parked);
        self.arm(now);
    }

    /// The stream is gone: whether it was waiting.
    pub(super) fn leave(&mut self, stream: u32) -> bool {
        let waited = self.take(stream).is_some();
        // Clients that come and leave must not fill the queue with turns that nobody waits for.
        let parked = &self.parked;
        if self.queue.len() > parked.len().saturating_mul(2).saturating_add(SPARE) {
            self.queue.retain(|Reverse((_, _, stream))| parked.contains_key(stream));
        }
        waited
    }

    fn take(&mut self, stream: u32) -> Option<Parked> {
        let parked = self.parked.remove(&stream)?;
        self.refusals = self.refusals.saturating_sub(matches!(parked, Parked::Refusal(_)).into());
        Some(parked)
    }

    /// The streams whose time has come, in the order of their turns.
    pub(super) fn due(&mut self, now: Time) -> Vec<(u32, Parked)> {
        self.armed = None;
        let mut due = Vec::new();
        while let Some(Reverse((until, _, stream))) = self.queue.peek().copied() {
            if until > now && self.parked.contains_key(&stream) {
                break;
            }
            self.queue.pop();
            due.extend(self.take(stream).map(|parked| (stream, parked)));
        }
        self.arm(now);
        due
    }

    /// Sets the timer for the earliest deadline, unless it is set for it.
    fn arm(&mut self, now: Time) {
        let earliest = self.queue.peek().map(|Reverse((until, ..))| *until);
        match (earliest, self.armed) {
            (None, _) => calls::set_tick_period(0),
            (Some(until), Some(armed)) if armed <= until => {}
            (Some(until), _) => {
                calls::set_tick_period(ms_ceil(until.since(now)));
                self.armed = Some(until);
            }
        }
    }
}

/// Whole milliseconds, at least one, rounded up: nobody goes before his turn.
fn ms_ceil(span: Span) -> u32 {
    u32::try_from(span.as_ns().div_ceil(1_000_000)).unwrap_or(u32::MAX).max(1)
}
