//! Holds streams until their turns, and runs the worker's own tasks. The timer itself and the
//! streams that wait are in [`TimerQueue`].

use super::{CellStore, Plugin};
use crate::Host;
use crate::timer_queue::{Held, TimerQueue};
use diana_base::time::{Span, Time};
use diana_limiter::global::Completion;
use diana_limiter::session::Worker;

/// How long the counts of a busy worker wait at most before the host has them.
const COUNTED_WITHIN: Span = Span::from_ms(100);

impl<H: Host> Plugin<H> {
    /// Whether the worker holds too many requests to hold this one. If so, the request is counted
    /// as unheld.
    pub(crate) fn cannot_hold(&self) -> bool {
        self.count_unheld(self.is_full())
    }

    /// Whether the worker holds too many requests for their bodies to hold this one. If so, the
    /// request is counted as unheld.
    pub(crate) fn cannot_hold_for_body(&self) -> bool {
        self.count_unheld(self.timer_queue.with(|queue| queue.is_full_of_bodies()) == Some(true))
    }

    fn count_unheld(&self, is_full: bool) -> bool {
        if is_full {
            self.metrics.unheld();
        }
        is_full
    }

    /// Whether the worker holds the maximum of requests.
    pub(super) fn is_full(&self) -> bool {
        self.timer_queue.with(|queue| queue.is_full()) == Some(true)
    }

    /// Holds a stream until the host's clock shows `until`, disregarding steps of that clock.
    /// Returns `held` if the stream cannot be held.
    pub(crate) fn hold(&self, id: u32, until: Time, held: Held<H>) -> Result<(), Held<H>> {
        let (now, deadline) = self.clock.deadline(until);
        let mut held = Some(held);
        let hold = |queue: &mut TimerQueue<H>| match held.take() {
            Some(held) => queue.hold(id, deadline, held, now),
            None => Ok(()),
        };
        match self.timer_queue.with(hold) {
            Some(result) => result,
            None => held.map_or(Ok(()), Err),
        }
    }

    /// Whether the worker needs the timer earlier than it fires. No clock is read. If the worker
    /// has wanted the same span before, that span began earlier, so the timer for its end fires
    /// early enough.
    pub(super) fn must_wake(&self) -> bool {
        let is_sooner = |span: Span| self.wanted.get().is_none_or(|wanted| span < wanted);
        let needs_timer = |worker: &mut Worker<_>| {
            self.wants(worker).is_some_and(is_sooner)
                || (self.wakes_at.get().is_none() && worker.wake().is_some())
        };
        self.worker.with(needs_timer) == Some(true)
    }

    /// The span after which the timer should fire at the latest: for the worker, or to hand the
    /// host what was counted.
    fn wants(&self, worker: &mut Worker<CellStore<H>>) -> Option<Span> {
        let counted = self.metrics.has_deferred().then_some(COUNTED_WITHIN);
        worker.wants().into_iter().chain(counted).min()
    }

    /// Arms the timer for the worker's next task.
    pub(crate) fn wake(&self) {
        let now = self.clock.monotonic();
        let (wants, calls) =
            self.worker.with(|worker| (self.wants(worker), worker.wake())).unwrap_or_default();
        if let Some(next) = self.remote.as_ref().and_then(|source| source.next_task_at()) {
            self.timer_queue.with(|queue| queue.wake_at(next, now));
        }
        if let Some(next) = self.next_sample_at() {
            self.timer_queue.with(|queue| queue.wake_at(next, now));
        }
        // An earlier configuration may have set the timer for an earlier time, so the timer is set
        // again for the next task.
        let own = wants.map(|span| now.after(span));
        let Some(at) = own.into_iter().chain(calls).chain(self.wakes_at.get()).min() else {
            return;
        };
        let wakes = self.timer_queue.with(|queue| queue.wake_at(at, now)) == Some(true);
        self.wakes_at.set(wakes.then_some(at));
        if !wakes {
            self.metrics.flush();
        }
        let wanted = wants.into_iter().chain(self.wanted.get()).min();
        self.wanted.set(wanted.filter(|_| wakes));
    }

    /// Records that the timer is no longer set for the worker.
    fn sleep(&self) {
        self.wakes_at.set(None);
        self.wanted.set(None);
    }

    /// Runs when the timer fires: refunds idle reservations, and refills leases that are due.
    /// Returns completions for requests.
    pub(crate) fn tick(&self, now: Time) -> Vec<Completion> {
        if self.wakes_at.get().is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.sleep();
        self.work(now, false)
    }

    /// Refunds all quota that this worker has reserved, because no new request reaches the worker.
    pub(crate) fn retire(&self) {
        self.sleep();
        self.work(self.clock.monotonic(), true);
        self.publish_actors();
    }

    fn work(&self, now: Time, all: bool) -> Vec<Completion> {
        self.metrics.flush();
        let completions = self.worker.with(|worker| {
            let events = worker.tick(|| self.now(), all);
            self.metrics.events(&events);
            worker.expire(now)
        });
        // A configuration that is replaced no longer shows its limits.
        if !all {
            self.show_limits();
        }
        self.absorb(completions.unwrap_or_default())
    }
}
