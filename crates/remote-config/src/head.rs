//! What all workers of a gateway share about a source, in the shared data: which worker polls and
//! when, and which documents there are. A body counts only if the head has its hash, so a worker
//! writes the body first, and head and bodies never disagree.
//!
//! ```text
//!   diana/c……………    head: poller, next, contact, generation, hashes, validators
//!                    (small; each worker reads it often)
//!   diana/d…………… 0  body: hash, document     one is the active document,
//!   diana/d…………… 1  body: hash, document     the other one will be the next
//! ```

use crate::options::RemoteOptions;
use crate::validators::Validators;
use diana_base::time::Time;
use diana_limiter::cells::store::{Loaded, Store, Swap, Update, Version};
use diana_limiter::cells::table::Hasher;
use std::borrow::Cow;

/// The shared state of a source. Instants are those of the monotonic clock that all workers share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The worker that polls.
    pub(crate) poller: u64,
    /// When the next poll is due.
    pub(crate) next: Time,
    /// How many polls in a row had no contact.
    pub(crate) failures: u64,
    /// The last contact with the server; zero: never.
    pub(crate) contact: Time,
    /// Counts the active documents; zero: none yet.
    pub(crate) generation: u64,
    /// The hash of the active document, and the body that holds it.
    pub(crate) active: u64,
    pub(crate) slot: u64,
    /// The last refusal since the active document, as `Follower::refusal` names it; zero: none.
    pub(crate) refused: u64,
    /// Until when a worker may be compiling the refused document, which is not refused for good
    /// before; zero: it is.
    pub(crate) judging: Time,
    /// The validators of the last reply.
    pub(crate) validators: Validators,
}

/// The first bytes of a head: its format.
const FORM: u64 = u64::from_le_bytes(*b"diana-c5");

const WORDS: usize = 10;

impl Head {
    fn bytes(&self) -> Vec<u8> {
        let Head { poller, next, failures, contact, generation, active, slot, refused, judging, validators } =
            self;
        let [next, contact, judging] = [next, contact, judging].map(|time| time.as_ns());
        let words = [FORM, *poller, next, *failures, contact, *generation, *active, *slot, *refused, judging];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        for validator in [&validators.etag, &validators.modified] {
            bytes.extend(validator.as_bytes());
            bytes.push(0);
        }
        let sum = Hasher::name(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// `None` for bytes that Diana did not write.
    fn read(bytes: &[u8]) -> Option<Head> {
        let (bytes, sum) = bytes.split_last_chunk()?;
        let (words, validators) = bytes.split_at_checked(WORDS.saturating_mul(8))?;
        if Hasher::name(bytes) != u64::from_le_bytes(*sum) || u64_at(words, 0) != FORM {
            return None;
        }
        let word = |index: usize| u64_at(words, index.saturating_mul(8));
        let mut validators = validators.split(|byte| *byte == 0).map(|validator| Some(validator.to_vec()));
        let validators = Validators::of(validators.next().flatten(), validators.next().flatten(), None);
        Some(Head {
            poller: word(1),
            next: Time::from_ns(word(2)),
            failures: word(3),
            contact: Time::from_ns(word(4)),
            generation: word(5),
            active: word(6),
            slot: word(7),
            refused: word(8),
            judging: Time::from_ns(word(9)),
            validators,
        })
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

impl Head {
    /// The body that does not hold the active document.
    pub(crate) fn other(&self) -> u64 {
        u64::from(self.slot == 0)
    }
}

/// The keys of a source in the shared data.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) head: Vec<u8>,
    bodies: [Vec<u8>; 2],
}

/// The hash of a document; never zero.
pub(crate) fn hash(document: &[u8]) -> u64 {
    Hasher::name(document).max(1)
}

impl Keys {
    pub(crate) fn of(options: &RemoteOptions) -> Keys {
        let mut id = String::new();
        options.id().to_le_bytes().into_iter().for_each(|byte| diana_base::format::hex(&mut id, byte));
        let key = |kind: &str, end: &str| ["diana/", kind, &id, end].concat().into_bytes();
        Keys { head: key("c", ""), bodies: [key("d", "0"), key("d", "1")] }
    }

    /// The head, or the default if there is none, and its version. `None` if the store fails.
    pub(crate) fn head<S: Store + ?Sized>(&self, store: &S) -> Option<(Head, Option<Version>)> {
        let found = store.load(&self.head).ok()?;
        let head = found.as_ref().and_then(|loaded| Head::read(&loaded.bytes)).unwrap_or_default();
        Some((head, found.map(|loaded| loaded.version)))
    }

    /// Writes the head if its version is still `was`. Returns whether it was written.
    pub(crate) fn put<S: Store + ?Sized>(&self, store: &S, head: &Head, was: Option<Version>) -> bool {
        store.swap(&self.head, &head.bytes(), was) == Ok(Swap::Done)
    }

    fn body(&self, slot: u64) -> &[u8] {
        let [first, second] = &self.bodies;
        if slot == 0 { first } else { second }
    }

    /// The document with this hash in this body, if it is there.
    pub(crate) fn document<S: Store + ?Sized>(&self, store: &S, slot: u64, named: u64) -> Option<Vec<u8>> {
        let Loaded { bytes, .. } = store.load(self.body(slot)).ok()??;
        let document = bytes.get(8..)?;
        let is_named = u64_at(&bytes, 0) == named && hash(document) == named;
        is_named.then(|| document.to_vec())
    }

    /// Writes a document over any other. Returns whether it was written.
    pub(crate) fn put_document<S: Store + ?Sized>(&self, store: &S, slot: u64, document: &[u8]) -> bool {
        let bytes = [&hash(document).to_le_bytes()[..], document].concat();
        const ROUNDS: u32 = 8;
        let body = self.body(slot);
        store.update(body, ROUNDS, &mut |_| Some(Cow::Borrowed(&bytes))) == Ok(Update::Stored)
    }
}
