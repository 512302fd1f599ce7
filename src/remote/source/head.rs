//! What all workers of a gateway keep of a source, in the shared data: who asks it and when, and which document it has.
//!
//! It does not know: any clock, or what a document says.
//!
//! ```text
//!   diana/c……………    head: asker, next, contact, generation, hashes, marks      small; read by each worker, often
//!   diana/d…………… 0  body: hash, document     one is that of the document that serves,
//!   diana/d…………… 1  body: hash, document     the other of one that is tried, or that served before
//! ```
//!
//! A body is written before the head names it. One that is not what the head names is none: the two never tell different
//! things.

use super::RemoteOptions;
use crate::store::{Loaded, Store, Swap, Version};
use crate::table::Hasher;
use crate::time::Time;

/// By what a server knows what it sent: its entity tag, and when it was changed (RFC 9110 §8.8), as it wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// `etag`; empty: none.
    pub etag: String,
    /// `last-modified`; empty: none.
    pub modified: String,
}

impl Validators {
    /// A longer one is not kept.
    const LONGEST: usize = 256;

    /// Those of an answer, and its `date`; one that could not be sent back is none. What was changed in the very second of
    /// the answer may change once more within it, and then a server that looks at seconds would not know (RFC 9110 §8.8.2.2).
    pub fn of(etag: Option<Vec<u8>>, modified: Option<Vec<u8>>, date: Option<Vec<u8>>) -> Validators {
        if modified.is_some() && modified == date {
            return Validators::default();
        }
        let mark = |value: Option<Vec<u8>>| {
            let is_plain = |byte: &u8| (b' '..=b'~').contains(byte);
            let fits = |value: &Vec<u8>| value.len() <= Validators::LONGEST && value.iter().all(is_plain);
            value.filter(fits).and_then(|value| String::from_utf8(value).ok()).unwrap_or_default()
        };
        Validators { etag: mark(etag), modified: mark(modified) }
    }
}

/// What all workers know of a source. Instants are of a clock that never steps and that they share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// Which worker asks.
    pub(super) asker: u64,
    /// When it asks next.
    pub(super) next: Time,
    /// How often in a row there was no contact.
    pub(super) failures: u64,
    /// When the server was last in contact; never: zero.
    pub(super) contact: Time,
    /// Counts documents that were taken; zero: none was.
    pub(super) generation: u64,
    /// The hash of the one that serves, and which body it is.
    pub(super) taken: u64,
    pub(super) slot: u64,
    /// The hash of one that is tried, which is the other body; zero: none is.
    pub(super) candidate: u64,
    /// The hash of the one that served before, which is the other body, as long as it may have to serve again; zero: not
    /// any more.
    pub(super) previous: u64,
    /// Since when one is tried, or watched, and over which local document, by its hash.
    pub(super) since: Time,
    pub(super) over: u64,
    /// Names one that was refused after that, and beside which local document; zero: none was.
    pub(super) refused: u64,
    /// Of the last answer.
    pub(super) marks: Validators,
}

/// The first bytes of a head: its form.
const FORM: u64 = u64::from_le_bytes(*b"diana-c3");

const WORDS: usize = 13;

impl Head {
    fn bytes(&self) -> Vec<u8> {
        let Head { asker, next, failures, contact, generation, taken, .. } = self;
        let Head { slot, candidate: trial, previous, since, over, refused, marks, .. } = self;
        let times = [next, contact, since].map(|time| time.as_ns());
        let [next, contact, since] = times;
        let own = [FORM, *asker, next, *failures, contact, *generation];
        let documents = [*taken, *slot, *trial, *previous, since, *refused, *over];
        let words = own.into_iter().chain(documents);
        let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        for mark in [&marks.etag, &marks.modified] {
            bytes.extend(mark.as_bytes());
            bytes.push(0);
        }
        let sum = Hasher::name(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// `None` for bytes that are not ours.
    fn read(bytes: &[u8]) -> Option<Head> {
        let (bytes, sum) = bytes.split_last_chunk()?;
        let (words, marks) = bytes.split_at_checked(WORDS.saturating_mul(8))?;
        if Hasher::name(bytes) != u64::from_le_bytes(*sum) || u64_at(words, 0) != FORM {
            return None;
        }
        let word = |index: usize| u64_at(words, index.saturating_mul(8));
        let mut marks = marks.split(|byte| *byte == 0).map(|mark| Some(mark.to_vec()));
        let marks = Validators::of(marks.next().flatten(), marks.next().flatten(), None);
        Some(Head {
            asker: word(1),
            next: Time::from_ns(word(2)),
            failures: word(3),
            contact: Time::from_ns(word(4)),
            generation: word(5),
            taken: word(6),
            slot: word(7),
            candidate: word(8),
            previous: word(9),
            since: Time::from_ns(word(10)),
            refused: word(11),
            over: word(12),
            marks,
        })
    }
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

impl Head {
    /// The body that is not the one of the document that serves.
    pub(super) fn other(&self) -> u64 {
        u64::from(self.slot == 0)
    }
}

/// Where a source's head and document are.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) head: Vec<u8>,
    bodies: [Vec<u8>; 2],
    pub(super) canary_counts: Vec<u8>,
}

/// The hash of a document; never zero.
pub(super) fn hash(document: &[u8]) -> u64 {
    Hasher::name(document).max(1)
}

impl Keys {
    pub(super) fn of(options: &RemoteOptions) -> Keys {
        let mut id = String::new();
        options.id().to_le_bytes().into_iter().for_each(|byte| crate::format::hex(&mut id, byte));
        let key = |kind: &str, end: &str| ["diana/", kind, &id, end].concat().into_bytes();
        Keys { head: key("c", ""), bodies: [key("d", "0"), key("d", "1")], canary_counts: key("t", "") }
    }

    /// The head, if there is one, and its version. A store that fails has none.
    pub(super) fn head<S: Store + ?Sized>(&self, store: &S) -> Option<(Head, Option<Version>)> {
        let found = store.load(&self.head).ok()?;
        let head = found.as_ref().and_then(|loaded| Head::read(&loaded.bytes)).unwrap_or_default();
        Some((head, found.map(|loaded| loaded.version)))
    }

    /// Changes the head from that version; whether it was still that one.
    pub(super) fn put<S: Store + ?Sized>(&self, store: &S, head: &Head, was: Option<Version>) -> bool {
        store.swap(&self.head, &head.bytes(), was) == Ok(Swap::Done)
    }

    fn body(&self, slot: u64) -> &[u8] {
        let [first, second] = &self.bodies;
        if slot == 0 { first } else { second }
    }

    /// The document of this hash, if it is there.
    pub(super) fn document<S: Store + ?Sized>(&self, store: &S, slot: u64, named: u64) -> Option<Vec<u8>> {
        let Loaded { bytes, .. } = store.load(self.body(slot)).ok()??;
        let document = bytes.get(8..)?;
        let is_named = u64_at(&bytes, 0) == named && hash(document) == named;
        is_named.then(|| document.to_vec())
    }

    /// Writes a document, whatever was there; whether that was done.
    pub(super) fn put_document<S: Store + ?Sized>(&self, store: &S, slot: u64, document: &[u8]) -> bool {
        let bytes = [&hash(document).to_le_bytes()[..], document].concat();
        // Each round that does not return lost to another worker.
        const ROUNDS: u32 = 8;
        for _ in 0..ROUNDS {
            let Ok(found) = store.load(self.body(slot)) else {
                return false;
            };
            match store.swap(self.body(slot), &bytes, found.map(|loaded| loaded.version)) {
                Ok(Swap::Done) => return true,
                Ok(Swap::Lost) => {}
                Err(_) => return false,
            }
        }
        false
    }
}
