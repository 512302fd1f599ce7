//! A worker's part in a canary: publishes its counts, and reaches the verdict that is due.

use super::{CanaryCounts, CanaryVerdict};
use crate::follow::Follower;
use crate::head::Head;
use diana_base::time::Time;
use diana_limiter::cells::store::Store;

impl Follower {
    /// Publishes this worker's counts since the last call. The polling worker also reaches the
    /// verdict that is due, if any.
    ///
    /// ```
    /// use diana_base::time::{Span, Time};
    /// use diana_limiter::cells::store::{Portable, Rules, Simulated};
    /// use diana_remote_config::{
    ///     CanaryCounts, CanaryOptions, CanaryStats, CanaryVerdict, Follower, PollResult,
    ///     RemoteOptions, Task, Validators,
    /// };
    ///
    /// let canary = CanaryOptions { hold: Span::from_secs(60), ..CanaryOptions::default() };
    /// let options =
    ///     RemoteOptions { canary: Some(canary), ..RemoteOptions::new("config", "/diana.json") };
    /// let store = Portable::probe(Simulated::new(Rules::Lenient)).unwrap();
    /// let mut follower = Follower::new(options.clone(), 1);
    /// let poll = |follower: &mut Follower, now, document: &[u8]| {
    ///     assert!(follower.claim_poll(&store, now, false).is_some());
    ///     let reply = options.read(200, document);
    ///     follower.answered(&store, now, reply, Validators::default(), 0, |_| Ok(()))
    /// };
    ///
    /// // The first document has nothing to be compared with. The second one is a candidate.
    /// let now = Time::ZERO.after(Span::from_secs(1));
    /// assert_eq!(poll(&mut follower, now, b"{}"), PollResult::NewDocument(1));
    /// assert!(matches!(follower.follow(&store, now), Some(Task::Activate(_))));
    /// follower.set_active(1);
    /// let now = now.after(Span::from_secs(5));
    /// assert_eq!(poll(&mut follower, now, b"[]"), PollResult::Candidate);
    /// assert!(matches!(follower.follow(&store, now), Some(Task::Compare { .. })));
    ///
    /// // It refuses one request in ten that the active document admits. `max_refused` is 5 %.
    /// let mut counts = CanaryCounts::default();
    /// (0..10).for_each(|at| _ = counts.record(at == 0, false, None));
    /// assert_eq!(follower.judge_canary(&store, now, &counts), None);
    /// let end = now.after(canary.hold);
    /// let verdict = follower.judge_canary(&store, end, &CanaryCounts::default());
    /// assert_eq!(verdict, Some(CanaryVerdict::Rejected(CanaryStats { seen: 10, refused: 1 })));
    /// ```
    #[must_use]
    pub fn judge_canary<S: Store + ?Sized>(
        &mut self,
        store: &S,
        now: Time,
        counts: &CanaryCounts,
    ) -> Option<CanaryVerdict> {
        let options = self.options.canary?;
        let (was, version) = self.keys.head(store)?;
        let comparison = was.comparison_id();
        if comparison == 0 {
            return None;
        }
        if *counts != CanaryCounts::default() && comparison == self.comparison {
            counts.publish(store, &self.keys, comparison);
        }
        // After `max_stale` without contact the local configuration is active, and nothing is
        // compared.
        if was.poller != self.id || now.since(was.contact) > self.options.max_stale {
            return None;
        }
        let mut head = was.clone();
        if was.local_document != self.local {
            // The local document has changed, so the comparison restarts.
            (head.local_document, head.since) = (self.local, now);
            self.keys.put(store, &head, version);
            return None;
        }
        let stats = CanaryCounts::published(store, &self.keys, comparison).stats();
        let mut verdict = head.canary_verdict(options, stats, comparison != self.invalid_candidate, now);
        if head.active != was.active && self.keys.document(store, head.slot, head.active).is_none() {
            // The other body is lost: the server is asked again for a lost candidate, and nothing
            // can roll back to a lost previous document.
            (head, verdict) = (Head { previous: 0, ..was.clone() }, None);
        }
        if head.refused != was.refused {
            self.refused = self.refusal(head.refused);
            head.refused = self.refused;
        }
        if head != was && !self.keys.put(store, &head, version) {
            return None;
        }
        verdict
    }

    /// Notes that the compared document has mistakes over this worker's local document.
    pub fn mark_candidate_invalid(&mut self) {
        self.invalid_candidate = self.comparison;
    }
}
