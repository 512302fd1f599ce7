//! Handles the result of a poll: a document for all workers, or none, and when the next poll is
//! due.

use super::{Follower, LONGEST_PAUSE, PollResult};
use crate::head::{Head, hash};
use crate::reply::{FetchError, ServerReply};
use crate::validators::Validators;
use diana_base::time::{Span, Time};
use diana_limiter::cells::store::{Store, Version};

/// The number of refusals that are remembered as logged.
const MAX_LOGGED: usize = 15;

/// How long a document is left to the worker that compiles it.
const JUDGING: Span = Span::from_secs(10);

/// How often a worker tries to write its verdict while others claim polls.
const ROUNDS: u32 = 64;

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
        // All workers look at the head soon after.
        self.next_check = now;
        self.is_back = false;
        let result = match answer {
            Ok(ServerReply::Unchanged) if was.validators == Validators::default() => {
                self.fail(&mut head, FetchError::Status(304), now, random)
            }
            Err(error) if !error.is_contact() => self.fail(&mut head, error, now, random),
            answer => {
                (head.contact, head.failures) = (now, 0);
                self.logged_failures.clear();
                self.is_back = was.failures > 0;
                match answer {
                    // The server still has the refused document.
                    Ok(ServerReply::Unchanged) if was.refused > 0 && was.refused == self.refused => {
                        PollResult::Refused(None)
                    }
                    Ok(ServerReply::Unchanged) => PollResult::Unchanged(was.failures > 0),
                    Ok(ServerReply::Document(document)) => {
                        match self.recognize(store, &mut head, hash(&document), was.failures > 0, now) {
                            Some(result) => {
                                head.validators = validators;
                                result
                            }
                            None => {
                                head.judging = now.after(JUDGING);
                                return self.judge(store, (head, version), &document, validators, validate);
                            }
                        }
                    }
                    Err(error) => {
                        head.validators = validators;
                        let words = error.words();
                        let refusal = self.refusal(hash(words.as_bytes()));
                        let before = std::mem::replace(&mut head.refused, refusal);
                        self.refuse(before, refusal, || words.into_owned())
                    }
                }
            }
        };
        if matches!(result, PollResult::Withdrawn) {
            self.logged_refusals.clear();
        }
        if self.keys.put(store, &head, version) { result } else { PollResult::Late }
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

    /// The result of a document that has been judged before: the active or the refused one.
    fn recognize<S: Store + ?Sized>(
        &mut self,
        store: &S,
        head: &mut Head,
        found: u64,
        was_out: bool,
        now: Time,
    ) -> Option<PollResult> {
        if self.refusal(found) == head.refused {
            if head.judging == Time::ZERO {
                self.refused = head.refused;
            }
            // The worker that began to compile it never came back.
            let is_forgotten = Time::ZERO < head.judging && head.judging <= now;
            return (!is_forgotten).then_some(PollResult::Refused(None));
        }
        if !is_active(head, found) || self.keys.document(store, head.slot, found).is_none() {
            return None;
        }
        // The server is back to the active document.
        let is_back = std::mem::take(&mut head.refused) > 0;
        Some(if is_back { PollResult::Withdrawn } else { PollResult::Unchanged(was_out) })
    }

    /// Compiles a document, which takes as long as the document makes it, and meanwhile another
    /// worker may poll. The head therefore calls the document refused before, so that no other
    /// worker compiles it, too.
    fn judge<S: Store + ?Sized>(
        &mut self,
        store: &S,
        (mut head, version): (Head, Option<Version>),
        document: &[u8],
        validators: Validators,
        validate: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> PollResult {
        let found = hash(document);
        let refusal = self.refusal(found);
        let before = std::mem::replace(&mut head.refused, refusal);
        if !self.keys.put(store, &head, version) {
            return PollResult::Late;
        }
        let refused = validate(document).err().map(|why| self.refuse(before, refusal, || why));
        for _ in 0..ROUNDS {
            let Some((head, version)) = self.keys.head(store) else { continue };
            if head.refused != refusal {
                // Another document has been judged meanwhile.
                break;
            }
            let next = match refused {
                Some(_) => Some(head.clone()),
                None => self.put_document(store, &head, found, document),
            };
            let is_written = next.is_some();
            let next = match next {
                Some(next) => Head { judging: Time::ZERO, validators: validators.clone(), ..next },
                // The next poll fetches the document again.
                None => Head { refused: before, judging: Time::ZERO, ..head },
            };
            if self.keys.put(store, &next, version) {
                if refused.is_none() && is_written {
                    self.logged_refusals.clear();
                    return PollResult::NewDocument(next.generation);
                }
                break;
            }
        }
        refused.unwrap_or(PollResult::Late)
    }

    /// Writes the body of an accepted document. Returns the head that names it.
    fn put_document<S: Store + ?Sized>(
        &self,
        store: &S,
        head: &Head,
        found: u64,
        document: &[u8],
    ) -> Option<Head> {
        let is_lost = is_active(head, found);
        let slot = if is_lost { head.slot } else { head.other() };
        let generation = head.generation.saturating_add(u64::from(!is_lost));
        let is_written = self.keys.put_document(store, slot, document);
        is_written.then(|| Head { active: found, slot, generation, refused: 0, ..head.clone() })
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

    /// `before` is the refusal in the head that this one replaces.
    fn refuse(&mut self, before: u64, refusal: u64, why: impl FnOnce() -> String) -> PollResult {
        self.refused = refusal;
        // Servers that disagree may alternate between several documents.
        let is_new = before != refusal && !self.logged_refusals.contains(&refusal);
        if is_new {
            self.logged_refusals.truncate(MAX_LOGGED);
            self.logged_refusals.insert(0, refusal);
        }
        PollResult::Refused(is_new.then(why))
    }
}

fn is_active(head: &Head, found: u64) -> bool {
    head.generation > 0 && found == head.active
}
