//! Handles the result of a poll: a document for all workers, or none, and when the next poll is
//! due.

use super::{Follower, LONGEST_PAUSE, PollResult};
use crate::head::{Head, hash};
use crate::reply::{FetchError, ServerReply};
use crate::validators::Validators;
use diana_base::time::{Span, Time};
use diana_limiter::cells::store::Store;

/// The number of refusals that are remembered as logged.
const MAX_LOGGED: usize = 15;

impl Follower {
    /// Handles the result of a poll. `validate` compiles a document, and returns its mistakes.
    #[must_use]
    pub fn answered<S: Store + ?Sized>(
        &mut self,
        store: &S,
        now: Time,
        answer: Result<ServerReply, FetchError>,
        validators: Validators,
        random: u32,
        validate: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> PollResult {
        self.poll_until = None;
        let Some((was, version)) = self.keys.head(store).filter(|(head, _)| head.poller == self.id) else {
            return PollResult::Late;
        };
        let mut head = Head { next: now.after(self.poll_pause(0, random)), ..was.clone() };
        let result = match answer {
            Ok(ServerReply::Unchanged) if was.validators == Validators::default() => {
                self.fail(&mut head, FetchError::Status(304), now, random)
            }
            Err(error) if !error.is_contact() => self.fail(&mut head, error, now, random),
            answer => {
                (head.contact, head.failures) = (now, 0);
                self.logged_failures.clear();
                match answer {
                    // The server still has the refused document.
                    Ok(ServerReply::Unchanged) if was.refused > 0 && was.refused == self.refused => {
                        PollResult::Refused(None)
                    }
                    Ok(ServerReply::Unchanged) => PollResult::Unchanged(was.failures > 0),
                    Ok(ServerReply::Document(document)) => {
                        head.validators = validators;
                        self.read(store, &mut head, &document, was.failures > 0, validate)
                    }
                    Err(error) => {
                        head.validators = validators;
                        let words = error.words();
                        self.refuse(&mut head, hash(words.as_bytes()), || words.into_owned())
                    }
                }
            }
        };
        self.is_back = was.failures > 0 && head.failures == 0;
        if matches!(result, PollResult::NewDocument(_) | PollResult::Withdrawn) {
            self.logged_refusals.clear();
        }
        // All workers look at the head soon after.
        self.next_check = now;
        match result != PollResult::Late && self.keys.put(store, &head, version) {
            true => result,
            false => PollResult::Late,
        }
    }

    fn fail(&mut self, head: &mut Head, error: FetchError, now: Time, random: u32) -> PollResult {
        head.next = now.after(self.poll_pause(head.failures, random));
        head.failures = head.failures.saturating_add(1);
        let is_known = self.logged_failures.contains(&error);
        if !is_known {
            self.logged_failures.push(error);
        }
        // Another worker may have logged the first error.
        let is_new = !is_known && (head.failures == 1 || self.logged_failures.len() > 1);
        PollResult::Failed(is_new.then_some(error))
    }

    fn read<S: Store + ?Sized>(
        &mut self,
        store: &S,
        head: &mut Head,
        document: &[u8],
        was_out: bool,
        validate: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> PollResult {
        let found = hash(document);
        if self.refusal(found) == head.refused {
            self.refused = head.refused;
            return PollResult::Refused(None);
        }
        let is_known = head.generation > 0 && found == head.active;
        if is_known && self.keys.document(store, head.slot, found).is_some() {
            // The server is back to the active document.
            let is_back = std::mem::take(&mut head.refused) > 0;
            return if is_back { PollResult::Withdrawn } else { PollResult::Unchanged(was_out) };
        }
        if let Err(why) = validate(document) {
            return self.refuse(head, found, || why);
        }
        let slot = if is_known { head.slot } else { head.other() };
        if !self.keys.put_document(store, slot, document) {
            return PollResult::Late;
        }
        head.refused = 0;
        if !is_known {
            (head.active, head.slot) = (found, slot);
            head.generation = head.generation.saturating_add(1);
        }
        PollResult::NewDocument(head.generation)
    }

    /// The pause until the next poll. The pause is shorter than the interval by the time until all
    /// workers have read the head. A random part is also subtracted, so that gateways do not poll
    /// together. After failures in a row the pause is longer.
    fn poll_pause(&self, failures: u64, random: u32) -> Span {
        let interval = self.options.interval;
        let factor = 1u64.checked_shl(u32::try_from(failures.min(2)).unwrap_or(0)).unwrap_or(1);
        let longest = LONGEST_PAUSE.max(interval);
        let pause = Span::from_ns(interval.as_ns().saturating_mul(factor)).min(longest);
        let eighth = pause.as_ns() / 8;
        let part = (u128::from(eighth).saturating_mul(random.into()) >> 32) as u64;
        Span::from_ns(eighth.saturating_mul(6).saturating_sub(part))
    }

    /// Names, in the head, the refusal of a document or of an error with this hash over this local
    /// document.
    pub(super) fn refusal(&self, hash: u64) -> u64 {
        (hash ^ self.local).max(1)
    }

    fn refuse(&mut self, head: &mut Head, hash: u64, why: impl FnOnce() -> String) -> PollResult {
        self.refused = self.refusal(hash);
        let before = std::mem::replace(&mut head.refused, self.refused);
        // Servers that disagree may alternate between several documents.
        let is_new = before != self.refused && !self.logged_refusals.contains(&self.refused);
        if is_new {
            self.logged_refusals.truncate(MAX_LOGGED);
            self.logged_refusals.insert(0, self.refused);
        }
        PollResult::Refused(is_new.then(why))
    }
}
