//! What all workers of a gateway keep of a source, in the shared data: who asks it and when, and which document it has.
//!
//! It does not know: any clock, or what a document says.
//!
//! ```text
//!   diana/c……………    head: asker, next, contact, generation, hashes, marks      small; read by each worker, often
//!   diana/d……………    body: generation, the document                            read when the head names another
//! ```
//!
//! The body is written first. A body that is not the one the head names is none: the two never tell different things.

use super::Options;
use crate::store::{Loaded, Store, Swap, Version};
use crate::table::Hasher;
use crate::time::Time;

/// By what a server knows what it sent: its entity tag, and when it was changed (RFC 9110 §8.8), as it wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// `etag`; empty: none.
    pub etag: String,
    /// `last-modified`; empty: none.
    pub modified: String,
}

impl Marks {
    /// A longer one is not kept.
    const LONGEST: usize = 256;

    /// Those of an answer; one that could not be sent back is none.
    pub fn of(etag: Option<Vec<u8>>, modified: Option<Vec<u8>>) -> Marks {
        let mark = |value: Option<Vec<u8>>| {
            let is_plain = |byte: &u8| (b' '..=b'~').contains(byte);
            let fits = |value: &Vec<u8>| value.len() <= Marks::LONGEST && value.iter().all(is_plain);
            value.filter(fits).and_then(|value| String::from_utf8(value).ok()).unwrap_or_default()
        };
        Marks { etag: mark(etag), modified: mark(modified) }
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
    /// The hash of the one that was taken last.
    pub(super) taken: u64,
    /// The hash of one that was refused after that; zero: none was.
    pub(super) refused: u64,
    /// Of the last answer.
    pub(super) marks: Marks,
}

/// The first bytes of a head: its form.
const FORM: u64 = u64::from_le_bytes(*b"diana-c1");

const WORDS: usize = 8;

impl Head {
    fn bytes(&self) -> Vec<u8> {
        let Head { asker, next, failures, contact, generation, taken, refused, marks } = self;
        let words = [FORM, *asker, next.as_ns(), *failures, contact.as_ns(), *generation, *taken, *refused];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
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
        let marks = Marks::of(marks.next().flatten(), marks.next().flatten());
        Some(Head {
            asker: word(1),
            next: Time::from_ns(word(2)),
            failures: word(3),
            contact: Time::from_ns(word(4)),
            generation: word(5),
            taken: word(6),
            refused: word(7),
            marks,
        })
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Where a source's head and document are.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    head: Vec<u8>,
    body: Vec<u8>,
}

/// The hash of a document; never zero.
pub(super) fn hash(document: &[u8]) -> u64 {
    Hasher::name(document).max(1)
}

impl Keys {
    pub(super) fn of(options: &Options) -> Keys {
        let mut id = String::new();
        options.id().to_le_bytes().into_iter().for_each(|byte| crate::text::hex(&mut id, byte));
        let key = |kind: &str| ["diana/", kind, &id].concat().into_bytes();
        Keys { head: key("c"), body: key("d") }
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

    /// The document that the head names.
    pub(super) fn document<S: Store + ?Sized>(&self, store: &S, head: &Head) -> Option<Vec<u8>> {
        let Loaded { bytes, .. } = store.load(&self.body).ok()??;
        let document = bytes.get(8..)?;
        let is_named = u64_at(&bytes, 0) == head.taken && hash(document) == head.taken;
        is_named.then(|| document.to_vec())
    }

    /// Writes a document, whatever was there; whether that was done.
    pub(super) fn put_document<S: Store + ?Sized>(&self, store: &S, document: &[u8]) -> bool {
        let bytes = [&hash(document).to_le_bytes()[..], document].concat();
        // Each round that does not return lost to another worker.
        const ROUNDS: u32 = 8;
        for _ in 0..ROUNDS {
            let Ok(found) = store.load(&self.body) else {
                return false;
            };
            match store.swap(&self.body, &bytes, found.map(|loaded| loaded.version)) {
                Ok(Swap::Done) => return true,
                Ok(Swap::Lost) => {}
                Err(_) => return false,
            }
        }
        false
    }
}
