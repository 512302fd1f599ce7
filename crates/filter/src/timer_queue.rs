//! Streams that wait: requests for their turn, a global store or their body, and delayed refusals.
//!
//! All times are of the monotonic clock. The timer is armed for the earliest deadline and off if
//! there is none. A tick may come at any time; no stream resumes before its turn.

use super::streams::NumberMap;
use crate::Host;
use diana_base::sort;
use diana_base::time::{Span, Time};
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// A worker delays at most this many refusals at once. Refusals beyond this bound are sent at once,
/// so that a flood of refusals does not fill the worker's memory.
const MAX_REFUSALS: usize = 1_000;

/// All plugins of a VM together hold at most this many requests at once, because each takes memory
/// of the gateway. Beyond this bound, requests that would have to wait are refused.
const MAX_HELD_REQUESTS: usize = 10_000;

/// All plugins of a VM together hold at most this many requests for their bodies. These requests
/// are not counted yet, so they have slots of their own: however many come, others can still wait
/// for their turn or a store. Beyond this bound, bodies count as unread.
pub(super) const MAX_HELD_BODIES: usize = 2_500;

/// The queue is cleaned up only if it has more stale entries than this.
const MAX_STALE_ENTRIES: usize = 64;

/// A stream that the host does not resume is tried again after this span.
const RETRY_AFTER: Span = Span::from_ms(100);

/// At most this many tries. A host that still has the stream then would hold it for ever.
const MAX_TRIES: u32 = 100;

/// A held stream's next step when its deadline comes.
#[derive(Debug)]
pub(super) enum Held<H: Host> {
    /// The request resumes.
    Request,
    /// The client gets the refusal.
    Refusal(H::LocalReply),
    /// The request stops waiting for global stores.
    Query,
    /// The request stops waiting for its body, and is decided without it.
    Body,
}

/// How many streams all plugins of a VM hold.
#[derive(Debug, Default)]
pub(super) struct HeldStreams {
    /// Requests that wait for their turn or a store.
    requests: Cell<usize>,
    /// Requests that wait for their bodies.
    bodies: Cell<usize>,
}

/// The wait of one stream.
#[derive(Debug)]
pub(super) struct Turn<H: Host> {
    pub(super) held: Held<H>,
    /// When the wait began.
    pub(super) since: Time,
    /// Distinguishes this wait from an earlier wait of the same stream.
    sequence: u64,
    /// How often the host has not resumed the stream.
    tries: u32,
}

/// All waiting streams of one plugin.
pub(super) struct TimerQueue<H: Host> {
    host: H,
    /// Deadline, sequence, stream; the earliest deadline first, then the lowest sequence.
    queue: BinaryHeap<Reverse<(Time, u64, u32)>>,
    turns: NumberMap<Turn<H>>,
    refusals: usize,
    held_streams: Rc<HeldStreams>,
    next_sequence: u64,
    /// Whether the host runs a timer.
    has_timer: bool,
    armed: Option<Time>,
    /// When the plugin wants the timer for its own tasks.
    wake: Option<Time>,
    /// The gauge of waiting streams, over all workers.
    gauge: Option<u32>,
}

impl<H: Host> TimerQueue<H> {
    pub(super) fn new(host: H) -> TimerQueue<H> {
        TimerQueue {
            host,
            queue: BinaryHeap::new(),
            turns: NumberMap::default(),
            refusals: 0,
            held_streams: Rc::default(),
            next_sequence: 0,
            has_timer: false,
            armed: None,
            wake: None,
            gauge: None,
        }
    }

    /// Counts waiting streams with this gauge from now on, unless some wait already.
    pub(super) fn set_gauge(&mut self, gauge: Option<u32>) {
        if self.turns.is_empty() {
            self.gauge = gauge;
        }
    }

    /// Changes the gauge of waiting streams.
    fn count(&self, by: usize, sign: i64) {
        if let (Some(gauge), Ok(by @ 1..)) = (self.gauge, i64::try_from(by)) {
            self.host.increment(gauge, by.saturating_mul(sign));
        }
    }

    /// Whether one more refusal may be delayed.
    pub(super) fn has_room(&self) -> bool {
        self.refusals < MAX_REFUSALS
    }

    /// Shares the counts of held streams with other plugins.
    pub(super) fn share_held_streams(&mut self, held: &Rc<HeldStreams>) {
        self.held_streams = Rc::clone(held);
    }

    /// Whether no more requests may be held for their turn or a store.
    pub(super) fn is_full(&self) -> bool {
        self.held_streams.requests.get() >= MAX_HELD_REQUESTS
    }

    /// Whether no more requests may be held for their bodies.
    pub(super) fn is_full_of_bodies(&self) -> bool {
        self.held_streams.bodies.get() >= MAX_HELD_BODIES
    }

    /// Holds a stream until `until`. Returns `held` if the host provides no timer.
    pub(super) fn hold(&mut self, id: u32, until: Time, held: Held<H>, now: Time) -> Result<(), Held<H>> {
        self.put(id, until, Turn { held, since: now, sequence: 0, tries: 0 });
        self.arm(now);
        match self.has_timer {
            true => Ok(()),
            false => self.take(id).map_or(Ok(()), |turn| Err(turn.held)),
        }
    }

    /// Lets the timer fire at `at` or soon after, for the plugin's own tasks. Returns whether the
    /// timer runs.
    pub(super) fn wake_at(&mut self, at: Time, now: Time) -> bool {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
        self.arm(now);
        self.has_timer
    }

    /// Whether the host runs a timer.
    pub(super) fn has_timer(&self) -> bool {
        self.has_timer
    }

    /// Removes a stream that has ended or resumed.
    pub(super) fn remove(&mut self, id: u32) {
        self.take(id);
        // Clients that come and leave must not fill the queue with stale entries.
        let turns = &self.turns;
        if self.queue.len() > turns.len().saturating_mul(2).saturating_add(MAX_STALE_ENTRIES) {
            self.queue.retain(|Reverse((_, sequence, id))| is_current(turns, *sequence, *id));
        }
    }

    /// Begins a tick. Returns the streams whose deadlines have come, in the order of their turns.
    pub(super) fn begin_tick(&mut self, now: Time) -> Vec<(u32, Turn<H>)> {
        self.armed = None;
        self.wake = self.wake.filter(|wake| *wake > now);
        let mut due = Vec::new();
        while let Some(Reverse((until, sequence, id))) = self.queue.peek().copied() {
            let is_current = is_current(&self.turns, sequence, id);
            if until > now && is_current {
                break;
            }
            self.queue.pop();
            if is_current {
                due.extend(self.take(id).map(|turn| (id, turn)));
            }
        }
        due
    }

    /// Ends a tick: holds streams again that the host did not resume, and re-arms the timer.
    /// Returns streams that the host never resumes. The timer must not stop earlier in a tick: a
    /// stopped timer might fail to start again.
    pub(super) fn finish_tick(&mut self, turns: Vec<(u32, Turn<H>)>, now: Time) -> Vec<u32> {
        let mut abandoned = Vec::new();
        for (id, turn) in turns {
            if self.turns.get(id).is_some() {
                // The stream has begun another wait meanwhile.
                continue;
            }
            match turn.tries < MAX_TRIES {
                true => {
                    self.put(id, now.after(RETRY_AFTER), Turn { tries: turn.tries.saturating_add(1), ..turn })
                }
                false => abandoned.push(id),
            }
        }
        self.arm(now);
        abandoned
    }

    /// Takes all streams, whether their deadlines have come or not.
    pub(super) fn drain(&mut self) -> Vec<(u32, Turn<H>)> {
        self.queue.clear();
        self.refusals = 0;
        self.count(self.turns.len(), -1);
        let turns = self.turns.take().into_iter();
        let turns = turns.inspect(|(_, turn)| self.held_streams.remove(&turn.held));
        let mut all: Vec<(u32, Turn<H>)> =
            turns.filter_map(|(id, turn)| Some((u32::try_from(id).ok()?, turn))).collect();
        sort::sort_by_key(&mut all, |(_, turn)| turn.sequence);
        all
    }

    fn put(&mut self, id: u32, until: Time, turn: Turn<H>) {
        self.take(id);
        self.refusals = self.refusals.saturating_add(turn.held.is_refusal().into());
        self.held_streams.add(&turn.held);
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.queue.push(Reverse((until, self.next_sequence, id)));
        let before = self.turns.len();
        self.turns.insert(id, Turn { sequence: self.next_sequence, ..turn });
        self.count(self.turns.len().saturating_sub(before), 1);
    }

    fn take(&mut self, id: u32) -> Option<Turn<H>> {
        let turn = self.turns.remove(id)?;
        self.count(1, -1);
        self.refusals = self.refusals.saturating_sub(turn.held.is_refusal().into());
        self.held_streams.remove(&turn.held);
        Some(turn)
    }

    /// Arms the timer for the earliest deadline, unless it is already armed for that or earlier. If
    /// the host refuses, the timer keeps its period.
    fn arm(&mut self, now: Time) {
        let turn = self.queue.peek().map(|Reverse((until, ..))| *until);
        match (turn.into_iter().chain(self.wake).min(), self.armed) {
            (None, _) => {
                self.armed = None;
                if self.has_timer && self.host.set_tick_period(0).is_ok() {
                    self.has_timer = false;
                }
            }
            (Some(until), Some(armed)) if armed <= until => {}
            (Some(until), _) => {
                if self.host.set_tick_period(ms_ceil(until.since(now))).is_ok() {
                    (self.has_timer, self.armed) = (true, Some(until));
                }
            }
        }
    }
}

impl HeldStreams {
    fn add<H: Host>(&self, held: &Held<H>) {
        self.count(held, |count| count.saturating_add(1));
    }

    fn remove<H: Host>(&self, held: &Held<H>) {
        self.count(held, |count| count.saturating_sub(1));
    }

    fn count<H: Host>(&self, held: &Held<H>, change: impl Fn(usize) -> usize) {
        match held {
            Held::Request | Held::Query => self.requests.set(change(self.requests.get())),
            Held::Body => self.bodies.set(change(self.bodies.get())),
            // Each plugin has a bound of its own.
            Held::Refusal(_) => {}
        }
    }
}

impl<H: Host> Held<H> {
    fn is_refusal(&self) -> bool {
        matches!(self, Held::Refusal(_))
    }
}

/// Whether this is the stream's present wait.
fn is_current<H: Host>(turns: &NumberMap<Turn<H>>, sequence: u64, id: u32) -> bool {
    turns.get(id).is_some_and(|turn| turn.sequence == sequence)
}

/// Whole milliseconds, at least one. Rounded up, so that no stream resumes before its turn.
fn ms_ceil(span: Span) -> u32 {
    u32::try_from(span.as_ns().div_ceil(1_000_000)).unwrap_or(u32::MAX).max(1)
}
