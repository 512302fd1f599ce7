//! What an answer of the server comes to: a document for all workers, or none, and when it is asked next.
//!
//! It does not know: how a document is taken.

use super::{Follower, LONGEST_PAUSE, PollResult};
use crate::remote::source::head::{Head, hash};
use crate::remote::source::{FetchError, ServerReply, Validators};
use crate::store::Store;
use crate::time::{Span, Time};

/// So many refused documents are told apart from one that has not been told yet.
const MOST_TOLD: usize = 15;

impl Follower {
    /// The server has answered, or has not. `takes` tries a document, and says what is wrong with it.
    pub fn answered<S: Store + ?Sized>(
        &mut self,
        store: &S,
        now: Time,
        answer: Result<ServerReply, FetchError>,
        marks: Validators,
        random: u32,
        takes: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> PollResult {
        self.asking = None;
        let Some((was, version)) = self.keys.head(store).filter(|(head, _)| head.asker == self.id) else {
            return PollResult::Late;
        };
        let mut head = Head { next: now.after(self.soon(0, random)), ..was.clone() };
        let outcome = match answer {
            Ok(ServerReply::Unchanged) if was.marks == Validators::default() => {
                self.fail(&mut head, FetchError::Status(304), now, random)
            }
            Err(failure) if !failure.is_contact() => self.fail(&mut head, failure, now, random),
            answer => {
                (head.contact, head.failures) = (now, 0);
                self.failed.clear();
                if now.since(was.contact) > self.options.max_stale {
                    // The local configuration has served meanwhile.
                    head.since = now;
                }
                match answer {
                    // What is still there is what was refused.
                    Ok(ServerReply::Unchanged) if was.refused > 0 && was.refused == self.refuses => {
                        PollResult::Refused(None)
                    }
                    Ok(ServerReply::Unchanged) => PollResult::Unchanged(was.failures > 0),
                    Ok(ServerReply::Document(document)) => {
                        head.marks = marks;
                        self.read(store, &mut head, &document, was.failures > 0, takes)
                    }
                    Err(failure) => {
                        head.marks = marks;
                        let words = failure.words();
                        self.refuse(&mut head, hash(words.as_bytes()), || words.into_owned())
                    }
                }
            }
        };
        self.is_back = was.failures > 0 && head.failures == 0;
        if matches!(outcome, PollResult::NewDocument(_) | PollResult::Candidate | PollResult::Withdrawn) {
            self.told.clear();
        }
        if self.options.canary.is_none() {
            // Nobody watches it.
            head.previous = 0;
        }
        // Soon after it, all workers look.
        self.look = now;
        match outcome != PollResult::Late && self.keys.put(store, &head, version) {
            true => outcome,
            false => PollResult::Late,
        }
    }

    fn fail(&mut self, head: &mut Head, failure: FetchError, now: Time, random: u32) -> PollResult {
        head.next = now.after(self.soon(head.failures, random));
        head.failures = head.failures.saturating_add(1);
        let is_known = self.failed.contains(&failure);
        if !is_known {
            self.failed.push(failure);
        }
        // Another worker may have told the first one of them.
        let is_news = !is_known && (head.failures == 1 || self.failed.len() > 1);
        PollResult::Failed(is_news.then_some(failure))
    }

    fn read<S: Store + ?Sized>(
        &mut self,
        store: &S,
        head: &mut Head,
        document: &[u8],
        was_out: bool,
        takes: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> PollResult {
        let found = hash(document);
        if self.refusal(found) == head.refused {
            self.refuses = head.refused;
            return PollResult::Refused(None);
        }
        let is_known = head.generation > 0 && found == head.taken;
        if is_known && self.keys.document(store, head.slot, found).is_some() {
            // The server is back to it.
            let is_back = head.refused > 0 || head.candidate > 0;
            (head.refused, head.candidate) = (0, 0);
            return if is_back { PollResult::Withdrawn } else { PollResult::Unchanged(was_out) };
        }
        let tries = self.options.canary.is_some();
        if tries && found == head.candidate && self.keys.document(store, head.other(), found).is_some() {
            let is_back = std::mem::take(&mut head.refused) > 0;
            return if is_back { PollResult::Withdrawn } else { PollResult::Unchanged(was_out) };
        }
        if let Err(why) = takes(document) {
            return self.refuse(head, found, || why);
        }
        if found == head.previous && self.keys.document(store, head.other(), found).is_some() {
            // It has served before this one, and nothing has to be tried.
            head.switch(found);
            (head.previous, head.candidate, head.refused) = (0, 0, 0);
            return PollResult::NewDocument(head.generation);
        }
        let slot = if is_known { head.slot } else { head.other() };
        if !self.keys.put_document(store, slot, document) {
            return PollResult::Late;
        }
        head.refused = 0;
        if is_known {
            head.candidate = 0;
            return PollResult::NewDocument(head.generation);
        }
        head.previous = 0;
        // There is nothing that the first one could be tried beside but the local configuration.
        if tries && head.generation > 0 {
            (head.candidate, head.since, head.over) = (found, head.contact, self.local);
            return PollResult::Candidate;
        }
        (head.taken, head.slot, head.candidate) = (found, slot, 0);
        head.generation = head.generation.saturating_add(1);
        PollResult::NewDocument(head.generation)
    }

    /// How long until it is asked again: sooner than the interval by as much as it takes until all workers have looked,
    /// and by a part that differs each time, so that gateways do not ask together. After failures in a row later.
    fn soon(&self, failures: u64, random: u32) -> Span {
        let interval = self.options.interval;
        let factor = 1u64.checked_shl(u32::try_from(failures.min(2)).unwrap_or(0)).unwrap_or(1);
        let longest = LONGEST_PAUSE.max(interval);
        let pause = Span::from_ns(interval.as_ns().saturating_mul(factor)).min(longest);
        let eighth = pause.as_ns() / 8;
        let part = (u128::from(eighth).saturating_mul(random.into()) >> 32) as u64;
        Span::from_ns(eighth.saturating_mul(6).saturating_sub(part))
    }

    /// By what the head names a document, or a failure, of this hash that was refused beside this local document.
    pub(in super::super) fn refusal(&self, hash: u64) -> u64 {
        (hash ^ self.local).max(1)
    }

    fn refuse(&mut self, head: &mut Head, hash: u64, why: impl FnOnce() -> String) -> PollResult {
        self.refuses = self.refusal(hash);
        let before = std::mem::replace(&mut head.refused, self.refuses);
        // Servers that do not agree may have several in turn.
        let is_news = before != self.refuses && !self.told.contains(&self.refuses);
        if is_news {
            self.told.truncate(MOST_TOLD);
            self.told.insert(0, self.refuses);
        }
        PollResult::Refused(is_news.then(why))
    }
}
