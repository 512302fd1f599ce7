//! Streams that wait: requests for their turn, and refusals that are held back.
//!
//! It does not know: why they wait, or the host's clock: its instants are those of one that never steps. The
//! timer is armed for the earliest deadline and off when there is none; a tick may come whenever it likes, nobody
//! goes before his turn.

use super::calls::{self, LocalReply};
use super::streams::NumberMap;
use crate::sort;
use crate::time::{Span, Time};
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// A worker holds so many refusals back at once; what exceeds is refused at once, so that a flood of
/// refusals does not fill its memory.
const MAX_REFUSALS: usize = 1_000;

/// All plugins of a VM together hold at most this many requests at once, because each takes memory of the gateway. Beyond
/// this bound, requests that would have to wait are refused.
const MAX_HELD_REQUESTS: usize = 10_000;

/// So many turns that nobody waits for are not worth clearing away.
const MAX_STALE_ENTRIES: usize = 64;

/// A stream that the host does not let go is tried again after this.
const RETRY_AFTER: Span = Span::from_ms(100);

/// So often it is tried; a host that still has the stream then would hold it for ever.
const MAX_TRIES: u32 = 100;

/// What becomes of a stream when its time has come.
#[derive(Debug)]
pub(super) enum Held {
    /// The request goes on.
    Request,
    /// It is answered.
    Refusal(LocalReply),
    /// It does not wait for stores any longer.
    Query,
}

/// One stream's turn.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) held: Held,
    /// When the wait began.
    pub(super) since: Time,
    /// Tells it from an earlier one of the same number.
    sequence: u64,
    /// How often the host has not let it go.
    tries: u32,
}

/// All streams of one plugin that wait.
#[derive(Debug, Default)]
pub(super) struct TimerQueue {
    /// The earliest first; of equals the one that came first.
    queue: BinaryHeap<Reverse<(Time, u64, u32)>>,
    turns: NumberMap<Turn>,
    refusals: usize,
    /// How many requests all plugins of the VM hold.
    held_requests: Rc<Cell<usize>>,
    next_sequence: u64,
    /// Whether the host has a timer running, and when it fires next if that is known.
    has_timer: bool,
    armed: Option<Time>,
    /// When the plugin wants to be woken for its own sake.
    wake: Option<Time>,
    /// The gauge of waiting streams, over all workers.
    gauge: Option<u32>,
}

impl TimerQueue {
    /// Counts waiting streams with this gauge from now on, unless some wait already.
    pub(super) fn set_gauge(&mut self, gauge: Option<u32>) {
        if self.turns.is_empty() {
            self.gauge = gauge;
        }
    }

    /// Changes the number of waiting streams.
    fn count(&self, by: usize, sign: i64) {
        if let (Some(gauge), Ok(by @ 1..)) = (self.gauge, i64::try_from(by)) {
            calls::increment(gauge, by.saturating_mul(sign));
        }
    }

    /// Whether one more refusal may be held back.
    pub(super) fn has_room(&self) -> bool {
        self.refusals < MAX_REFUSALS
    }

    /// Counts the requests that wait here together with those of other plugins.
    pub(super) fn share_held_requests(&mut self, held: &Rc<Cell<usize>>) {
        self.held_requests = Rc::clone(held);
    }

    /// Whether no more requests may be held.
    pub(super) fn is_full(&self) -> bool {
        self.held_requests.get() >= MAX_HELD_REQUESTS
    }

    /// Holds a stream until then; it is returned if no timer can be had.
    pub(super) fn hold(&mut self, id: u32, until: Time, held: Held, now: Time) -> Result<(), Held> {
        self.put(id, until, Turn { held, since: now, sequence: 0, tries: 0 });
        self.arm(now);
        match self.has_timer {
            true => Ok(()),
            false => self.take(id).map_or(Ok(()), |turn| Err(turn.held)),
        }
    }

    /// Lets the timer fire at `at` or soon after, whoever waits; whether it will.
    pub(super) fn wake_at(&mut self, at: Time, now: Time) -> bool {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
        self.arm(now);
        self.has_timer
    }

    /// Whether the host has a timer running.
    pub(super) fn has_timer(&self) -> bool {
        self.has_timer
    }

    /// The stream is gone.
    pub(super) fn remove(&mut self, id: u32) {
        self.take(id);
        // Clients that come and leave must not fill the queue with turns that nobody waits for.
        let turns = &self.turns;
        if self.queue.len() > turns.len().saturating_mul(2).saturating_add(MAX_STALE_ENTRIES) {
            self.queue.retain(|Reverse((_, came, id))| is_current(turns, *came, *id));
        }
    }

    /// Begins a tick: the streams whose time has come, in the order of their turns.
    pub(super) fn begin_tick(&mut self, now: Time) -> Vec<(u32, Turn)> {
        self.armed = None;
        self.wake = self.wake.filter(|wake| *wake > now);
        let mut due = Vec::new();
        while let Some(Reverse((until, came, id))) = self.queue.peek().copied() {
            let waits = is_current(&self.turns, came, id);
            if until > now && waits {
                break;
            }
            self.queue.pop();
            if waits {
                due.extend(self.take(id).map(|turn| (id, turn)));
            }
        }
        due
    }

    /// Ends a tick: holds streams again that the host did not let go, and sets the timer. Only then, as one that
    /// was stopped before might not be had again. Returned are streams that the host never will let go.
    pub(super) fn finish_tick(&mut self, turns: Vec<(u32, Turn)>, now: Time) -> Vec<u32> {
        let mut lost = Vec::new();
        for (id, turn) in turns {
            if self.turns.get(id).is_some() {
                // Meanwhile it was given another.
                continue;
            }
            match turn.tries < MAX_TRIES {
                true => {
                    self.put(id, now.after(RETRY_AFTER), Turn { tries: turn.tries.saturating_add(1), ..turn })
                }
                false => lost.push(id),
            }
        }
        self.arm(now);
        lost
    }

    /// All streams, whether their time has come or not.
    pub(super) fn drain(&mut self) -> Vec<(u32, Turn)> {
        self.queue.clear();
        self.refusals = 0;
        self.count(self.turns.len(), -1);
        let turns = self.turns.take().into_iter();
        let turns = turns.inspect(|(_, turn)| {
            self.held_requests.set(self.held_requests.get().saturating_sub(turn.requests()))
        });
        let mut all: Vec<(u32, Turn)> =
            turns.filter_map(|(id, turn)| Some((u32::try_from(id).ok()?, turn))).collect();
        sort::sort_by_key(&mut all, |(_, turn)| turn.sequence);
        all
    }

    fn put(&mut self, id: u32, until: Time, turn: Turn) {
        self.take(id);
        self.refusals = self.refusals.saturating_add(turn.held.is_refusal().into());
        self.held_requests.set(self.held_requests.get().saturating_add(turn.requests()));
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.queue.push(Reverse((until, self.next_sequence, id)));
        let before = self.turns.len();
        self.turns.insert(id, Turn { sequence: self.next_sequence, ..turn });
        self.count(self.turns.len().saturating_sub(before), 1);
    }

    fn take(&mut self, id: u32) -> Option<Turn> {
        let turn = self.turns.remove(id)?;
        self.count(1, -1);
        self.refusals = self.refusals.saturating_sub(turn.held.is_refusal().into());
        self.held_requests.set(self.held_requests.get().saturating_sub(turn.requests()));
        Some(turn)
    }

    /// Sets the timer for the earliest deadline, unless it is set for it. A host that refuses keeps the timer
    /// it has.
    fn arm(&mut self, now: Time) {
        let turn = self.queue.peek().map(|Reverse((until, ..))| *until);
        match (turn.into_iter().chain(self.wake).min(), self.armed) {
            (None, _) => {
                self.armed = None;
                if self.has_timer && calls::set_tick_period(0).is_ok() {
                    self.has_timer = false;
                }
            }
            (Some(until), Some(armed)) if armed <= until => {}
            (Some(until), _) => {
                if calls::set_tick_period(ms_ceil(until.since(now))).is_ok() {
                    (self.has_timer, self.armed) = (true, Some(until));
                }
            }
        }
    }
}

impl Turn {
    /// How many requests this entry holds. A refusal is none, because refusals have a bound of their own.
    fn requests(&self) -> usize {
        (!self.held.is_refusal()).into()
    }
}

impl Held {
    fn is_refusal(&self) -> bool {
        matches!(self, Held::Refusal(_))
    }
}

/// Whether that turn of the stream is still to come.
fn is_current(turns: &NumberMap<Turn>, came: u64, id: u32) -> bool {
    turns.get(id).is_some_and(|turn| turn.sequence == came)
}

/// Whole milliseconds, at least one, rounded up: nobody goes before his turn.
fn ms_ceil(span: Span) -> u32 {
    u32::try_from(span.as_ns().div_ceil(1_000_000)).unwrap_or(u32::MAX).max(1)
}
