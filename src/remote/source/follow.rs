//! One worker's part in following a source: it takes what the head names, asks the server when it is its turn, and goes
//! back to the local configuration when there was no contact for too long.
//!
//! It does not know: any clock, how a call is made, or what a document says.
//!
//! ```text
//!   follow ─┬─ the head names another document, and the server was in contact ─► Task::Take
//!           └─ no contact for `max_stale` ─► Task::Local
//!   asks ───── it is time, and nobody else asks ─► a call ─► answered ─► a document, whole, then the head
//! ```
//!
//! One worker asks. The head says which, and when it asks next; when it does not, another one does, soon after.

mod answers;

use super::head::{Head, Keys};
use super::{FetchError, RemoteOptions, Validators};
use crate::store::Store;
use crate::time::{Span, Time};

/// How often in an interval a worker looks at the head: with the rest of it, within one interval of a change on the
/// server each worker has taken it.
const LOOKS: u64 = 8;

/// It never looks more often, and never less often, than this.
const SHORTEST_LOOK: Span = Span::from_ms(20);
const LONGEST_LOOK: Span = Span::from_secs(1);

/// After failures in a row it is waited up to four times as long, and no longer than this if the interval is not longer.
const LONGEST_PAUSE: Span = Span::from_secs(60);

/// A call that the host has not answered so long after its time was up has failed.
const GRACE: Span = Span::from_ms(100);

/// A document that was taken, and which one that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Counts the documents of this source, from one.
    pub generation: u64,
    /// As the server has it.
    pub document: Vec<u8>,
}

/// What a worker has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Lay this document over the local configuration.
    Take(Snapshot),
    /// Try this document beside the one that serves.
    Try {
        /// As the server has it, or had it.
        document: Vec<u8>,
        /// Whether the one that serves is the new one of both, and is watched.
        is_before: bool,
        /// Whether this worker is the one that asks, and so tells what is wrong with it.
        tells: bool,
    },
    /// Try none any more.
    Drop,
    /// Serve by the local configuration alone.
    Local {
        /// Whether this worker is the one that asks, and so tells it.
        tells: bool,
    },
}

/// What became of an answer, for metrics and the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PollResult {
    /// A document that all workers take now, and its number.
    NewDocument(u64),
    /// A document that all workers try now.
    Candidate,
    /// What was there before; whether that is news, as there was no contact until now.
    Unchanged(bool),
    /// What was there before another one, which is tried or refused no more.
    Withdrawn,
    /// A document that cannot be taken, and why; `None` when that has been told before.
    Refused(Option<String>),
    /// No contact, and why; `None` when that has been told since there was some.
    Failed(Option<FetchError>),
    /// Somebody else asks by now, or the shared data cannot be written.
    Late,
}

/// One worker's part in following a source.
#[derive(Debug)]
pub struct Follower {
    pub(super) options: RemoteOptions,
    pub(super) keys: Keys,
    pub(super) id: u64,
    /// Tells the local document from another.
    pub(super) local: u64,
    /// What was refused here, as the head names it.
    pub(super) refuses: u64,
    /// Why there was no contact since there was some.
    failed: Vec<FetchError>,
    /// Whether the last answer was the first one after failures.
    is_back: bool,
    /// What was told to be refused since one was taken, likewise.
    told: Vec<u64>,
    /// Which document serves here, by its number, and its hash, as numbers may begin anew; zeros: none.
    serves: (u64, u64),
    /// Which one could not be taken here.
    unfit: (u64, u64),
    /// The hash of the one that is to be taken.
    offered: u64,
    /// When the server was last in contact, as far as is known here.
    contact: Time,
    /// Names the trial that there is here, or was to be; zero: none.
    pub(super) tries: u64,
    /// Names one of a document that has mistakes here.
    pub(super) untriable: u64,
    /// Until when an answer is waited for.
    asking: Option<Time>,
    look: Time,
}

impl Follower {
    /// A worker with a number of its own.
    pub fn new(options: RemoteOptions, id: u64) -> Follower {
        let keys = Keys::of(&options);
        Follower {
            options,
            keys,
            id: id.max(1),
            local: 0,
            refuses: 0,
            failed: Vec::new(),
            is_back: false,
            told: Vec::new(),
            serves: (0, 0),
            unfit: (0, 0),
            offered: 0,
            contact: Time::ZERO,
            tries: 0,
            untriable: 0,
            asking: None,
            look: Time::ZERO,
        }
    }

    /// The same, over a local document of this hash.
    pub fn over(self, local: u64) -> Follower {
        Follower { local, ..self }
    }

    /// When it wants to be called next.
    pub fn next(&self) -> Time {
        self.look
    }

    /// Names what it was last told to try, the same in all workers.
    pub fn tries(&self) -> u64 {
        self.tries
    }

    /// Whether the last answer was the first one after failures.
    pub fn is_back(&self) -> bool {
        self.is_back
    }

    /// Which document serves here; zero: none.
    pub fn serves(&self) -> u64 {
        self.serves.0
    }

    /// The document was taken here; zero: the local configuration was.
    pub fn took(&mut self, generation: u64) {
        // What is tried is tried beside another.
        (self.serves, self.tries) = ((generation, self.offered), 0);
    }

    /// The document cannot be taken here; whether that is news.
    pub fn cannot_take(&mut self, generation: u64) -> bool {
        self.unfit = (generation, self.offered);
        self.refuses != self.refusal(self.offered)
    }

    fn pause(&self) -> Span {
        let pause = Span::from_ns(self.options.interval.as_ns().checked_div(LOOKS).unwrap_or(0));
        pause.clamp(SHORTEST_LOOK, LONGEST_LOOK)
    }

    /// What has to be done now. It is said again until it is done.
    pub fn follow<S: Store + ?Sized>(&mut self, store: &S, now: Time) -> Option<Task> {
        self.look = now.after(self.pause());
        // Without one that can be read things are as they were last.
        let head = self.keys.head(store).map(|(head, _)| head).filter(|head| head.generation > 0);
        self.contact = head.as_ref().map_or(self.contact, |head| head.contact);
        if now.since(self.contact) > self.options.max_stale {
            let tells = head.is_some_and(|head| head.asker == self.id);
            return (self.serves() > 0).then_some(Task::Local { tells });
        }
        let head = head?;
        // A body that is not the one that the head names is on its way, or is lost.
        if ![self.serves, self.unfit].contains(&(head.generation, head.taken)) {
            let document = self.keys.document(store, head.slot, head.taken)?;
            self.offered = head.taken;
            return Some(Task::Take(Snapshot { generation: head.generation, document }));
        }
        // One that does not try documents takes what it is told, when it asks. Who serves another one has nothing to tell.
        let tries = self.options.canary.is_some() && self.serves == (head.generation, head.taken);
        let trial = if tries { head.comparison_id() } else { 0 };
        if trial == self.tries {
            return None;
        }
        let document =
            if trial > 0 { self.keys.document(store, head.other(), head.compared_document()) } else { None };
        let before = std::mem::replace(&mut self.tries, if document.is_some() { trial } else { 0 });
        let (is_before, tells) = (head.candidate == 0, head.asker == self.id);
        match document {
            Some(document) => Some(Task::Try { document, is_before, tells }),
            None => (before > 0).then_some(Task::Drop),
        }
    }

    /// Whether a call was made that the host has not answered in time: it is taken for one without an answer.
    pub fn is_overdue(&self, now: Time) -> bool {
        self.asking.is_some_and(|until| until <= now)
    }

    /// The headers of the request to be made now, if it is this worker's turn and time; it is answered to
    /// [`Follower::answered`]. One of a configuration that `is_outdated` leaves
    /// it to the newer one.
    pub fn asks<S: Store + ?Sized>(&mut self, store: &S, now: Time, is_outdated: bool) -> Option<Vec<u8>> {
        let until = now.after(self.options.timeout).after(GRACE);
        if is_outdated || self.asking.is_some_and(|asked| now < asked && asked <= until) {
            return None;
        }
        let (head, version) = self.keys.head(store)?;
        // Whoever asks has some time to go on doing so before another one does.
        let patience = if head.asker == self.id { Span::ZERO } else { self.pause() };
        // Nobody waits longer: it was written by another clock.
        let latest = until.max(now.after(LONGEST_PAUSE.max(self.options.interval)));
        if head.asker > 0 && head.next <= latest && now < head.next.after(patience).after(patience) {
            return None;
        }
        let claim = Head { asker: self.id, next: until, contact: head.contact.min(now), ..head.clone() };
        if !self.keys.put(store, &claim, version) {
            return None;
        }
        self.asking = Some(until);
        let is_lost = |slot, named| named > 0 && self.keys.document(store, slot, named).is_none();
        let is_lost = is_lost(head.slot, head.taken) || is_lost(head.other(), head.candidate);
        // What another one has refused may be good beside this local document.
        let is_untried = head.refused > 0 && head.refused != self.refuses;
        let is_left = head.candidate > 0 && self.options.canary.is_none();
        let marks = if is_lost || is_untried || is_left { Validators::default() } else { head.marks };
        Some(self.options.request(&marks))
    }
}
