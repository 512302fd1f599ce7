//! Follows a source in one worker: applies the document that the head names, and polls the server
//! when a poll is due and no other worker has claimed it. After `max_stale` without contact, the
//! worker falls back to the local configuration.
//!
//! ```text
//!   follow ──────┬─ the head names another document; there is contact ─► Task::Activate
//!                └─ no contact for `max_stale` ─► Task::Local
//!   claim_poll ─── a poll is due, and no other worker polls ─► answered ─► body, then head
//! ```

mod answers;
mod task;

pub use task::{PollResult, Snapshot, Task};

use crate::head::{Head, Keys};
use crate::options::RemoteOptions;
use crate::reply::FetchError;
use crate::validators::Validators;
use diana_base::time::{Span, Time};
use diana_limiter::cells::store::Store;

/// How many times in an interval a worker checks the head. The rest of the interval is for the
/// poll, so that each worker applies a change on the server within one interval.
const CHECKS_PER_INTERVAL: u64 = 8;

/// The bounds of the pause between two checks.
const SHORTEST_CHECK_PAUSE: Span = Span::from_ms(20);
const LONGEST_CHECK_PAUSE: Span = Span::from_secs(1);

/// After failures in a row the pause between polls grows to four intervals, but not beyond this
/// span unless the interval is longer.
const LONGEST_PAUSE: Span = Span::from_secs(60);

/// A call fails this long after its timeout if the host has not reported its end.
const GRACE: Span = Span::from_ms(100);

/// Follows a source in one worker.
///
/// The host calls [`follow`](Follower::follow) at [`next`](Follower::next), then
/// [`claim_poll`](Follower::claim_poll), and [`answered`](Follower::answered) at the end of a call.
///
/// ```
/// use diana_base::time::{Span, Time};
/// use diana_limiter::cells::store::Memory;
/// use diana_remote_config::{FetchError, Follower, PollResult, RemoteOptions, Task, Validators};
///
/// let options = RemoteOptions::new("config", "/diana.json");
/// let store = Memory::new();
/// let mut follower = Follower::new(options.clone(), 1);
/// let poll = |follower: &mut Follower, now, status, document: &[u8]| {
///     assert!(follower.claim_poll(&store, now, false).is_some());
///     let reply = options.read(status, document);
///     follower.answered(&store, now, reply, Validators::default(), 0, |_| Ok(()))
/// };
///
/// let start = Time::ZERO.after(Span::from_secs(1));
/// assert_eq!(poll(&mut follower, start, 200, b"{}"), PollResult::NewDocument(1));
/// assert!(matches!(follower.follow(&store, start), Some(Task::Activate(_))));
/// follower.set_active(1);
///
/// // The server is down. After `max_stale` the local configuration takes over.
/// let end = start.after(RemoteOptions::MAX_STALE);
/// let failed = PollResult::Failed(Some(FetchError::Status(503)));
/// assert_eq!(poll(&mut follower, end, 503, b""), failed);
/// assert_eq!(follower.follow(&store, end), None);
/// let late = end.after(Span::from_ms(1));
/// assert_eq!(follower.follow(&store, late), Some(Task::Local { logs: true }));
/// ```
#[derive(Debug)]
pub struct Follower {
    options: RemoteOptions,
    keys: Keys,
    id: u64,
    /// The hash of the local document.
    local: u64,
    /// The last refusal here, as [`Follower::refusal`] names it.
    refused: u64,
    /// The errors logged since the last contact.
    logged_failures: Vec<FetchError>,
    /// Whether the last reply was the first one after failures.
    is_back: bool,
    /// The refusals logged since the last accepted document.
    logged_refusals: Vec<u64>,
    /// The generation and the hash of the active document, because generations may restart; zeros:
    /// none.
    active: (u64, u64),
    /// The generation and the hash of the last document that is invalid here.
    invalid: (u64, u64),
    /// The hash of the document in the last [`Task::Activate`].
    offered: u64,
    /// The last known contact with the server.
    contact: Time,
    /// The deadline of this worker's pending poll.
    poll_until: Option<Time>,
    next_check: Time,
}

impl Follower {
    /// A follower for the worker with this unique number.
    #[must_use]
    pub fn new(options: RemoteOptions, id: u64) -> Follower {
        let keys = Keys::of(&options);
        Follower {
            options,
            keys,
            id: id.max(1),
            local: 0,
            refused: 0,
            logged_failures: Vec::new(),
            is_back: false,
            logged_refusals: Vec::new(),
            active: (0, 0),
            invalid: (0, 0),
            offered: 0,
            contact: Time::ZERO,
            poll_until: None,
            next_check: Time::ZERO,
        }
    }

    /// The same follower over a local document with this hash.
    #[must_use]
    pub fn over(self, local: u64) -> Follower {
        Follower { local, ..self }
    }

    /// When [`Follower::follow`] must be called next.
    #[must_use]
    pub fn next(&self) -> Time {
        self.next_check
    }

    /// Whether the last reply was the first one after failures.
    #[must_use]
    pub fn is_back(&self) -> bool {
        self.is_back
    }

    /// The number of the active document; zero: none.
    #[must_use]
    pub fn active_generation(&self) -> u64 {
        self.active.0
    }

    /// Notes that the document is active here; zero: the local configuration is.
    pub fn set_active(&mut self, generation: u64) {
        self.active = (generation, self.offered);
    }

    /// Notes that the document is invalid here. Returns whether the refusal is new.
    pub fn mark_invalid(&mut self, generation: u64) -> bool {
        self.invalid = (generation, self.offered);
        self.refused != self.refusal(self.offered)
    }

    fn pause(&self) -> Span {
        let pause =
            Span::from_ns(self.options.interval.as_ns().checked_div(CHECKS_PER_INTERVAL).unwrap_or(0));
        pause.clamp(SHORTEST_CHECK_PAUSE, LONGEST_CHECK_PAUSE)
    }

    /// What has to be done now. The task repeats until it is done.
    #[must_use]
    pub fn follow<S: Store + ?Sized>(&mut self, store: &S, now: Time) -> Option<Task> {
        self.next_check = now.after(self.pause());
        // Without a readable head, the last known state holds.
        let head = self.keys.head(store).map(|(head, _)| head).filter(|head| head.generation > 0);
        self.contact = head.as_ref().map_or(self.contact, |head| head.contact);
        if now.since(self.contact) > self.options.max_stale {
            let logs = head.is_some_and(|head| head.poller == self.id);
            return (self.active_generation() > 0).then_some(Task::Local { logs });
        }
        let head = head?;
        // If a body does not match the head, it is being written or is lost.
        if [self.active, self.invalid].contains(&(head.generation, head.active)) {
            return None;
        }
        let document = self.keys.document(store, head.slot, head.active)?;
        self.offered = head.active;
        Some(Task::Activate(Snapshot { generation: head.generation, document }))
    }

    /// Whether the host has not answered this worker's poll in time, so that the poll has failed.
    #[must_use]
    pub fn is_overdue(&self, now: Time) -> bool {
        self.poll_until.is_some_and(|until| until <= now)
    }

    /// The headers of the request, if a poll is due and this worker claims it. The caller hands the
    /// result to [`Follower::answered`]. A worker whose configuration `is_outdated` leaves the poll
    /// to the newer one.
    #[must_use]
    pub fn claim_poll<S: Store + ?Sized>(
        &mut self,
        store: &S,
        now: Time,
        is_outdated: bool,
    ) -> Option<Vec<u8>> {
        let until = now.after(self.options.timeout).after(GRACE);
        if is_outdated || self.poll_until.is_some_and(|deadline| now < deadline && deadline <= until) {
            return None;
        }
        let (head, version) = self.keys.head(store)?;
        // The worker that polled last has a head start.
        let patience = if head.poller == self.id { Span::ZERO } else { self.pause() };
        // A later time comes from another clock, and does not count.
        let latest = until.max(now.after(LONGEST_PAUSE.max(self.options.interval)));
        if head.poller > 0 && head.next <= latest && now < head.next.after(patience).after(patience) {
            return None;
        }
        let claim = Head { poller: self.id, next: until, contact: head.contact.min(now), ..head.clone() };
        if !self.keys.put(store, &claim, version) {
            return None;
        }
        self.poll_until = Some(until);
        let is_lost = head.active > 0 && self.keys.document(store, head.slot, head.active).is_none();
        // A document that another worker has refused may be valid over this local document.
        let is_unjudged = head.refused > 0 && (head.refused != self.refused || head.judging > Time::ZERO);
        let validators = if is_lost || is_unjudged { Validators::default() } else { head.validators };
        Some(self.options.request(&validators))
    }
}
