//! The timer for the worker's own tasks: when it has to fire, and the tasks then. The timer itself
//! and the streams that wait are in [`TimerQueue`](super::timer_queue::TimerQueue).

use super::plugin::Plugin;
use diana_base::time::{Span, Time};
use diana_limiter::global::Completion;
use diana_limiter::session::Worker;

impl Plugin {
    /// Whether the worker needs the timer earlier than it fires. No clock is read: if the worker
    /// has wanted the same span before, that span began earlier, so the timer for its end fires
    /// early enough.
    pub(super) fn must_wake(&self, worker: &Worker) -> bool {
        let is_sooner = |span: Span| self.wanted.get().is_none_or(|wanted| span < wanted);
        worker.wants().is_some_and(is_sooner) || (self.wakes_at.get().is_none() && worker.wake().is_some())
    }

    /// Arms the timer for the worker's next task.
    pub(super) fn wake(&self) {
        let now = self.monotonic();
        let (wants, calls) = self.worker.with(|worker| (worker.wants(), worker.wake())).unwrap_or_default();
        if let Some(next) = self.source.as_ref().and_then(|source| source.next_task_at()) {
            self.timer_queue.with(|queue| queue.wake_at(next, now));
        }
        // An earlier configuration may have set the timer for an earlier time. So the timer is set
        // again for the next task.
        let own = wants.map(|span| now.after(span));
        let Some(at) = own.into_iter().chain(calls).chain(self.wakes_at.get()).min() else {
            return;
        };
        let wakes = self.timer_queue.with(|queue| queue.wake_at(at, now)) == Some(true);
        self.wakes_at.set(wakes.then_some(at));
        let wanted = wants.into_iter().chain(self.wanted.get()).min();
        self.wanted.set(wanted.filter(|_| wakes));
    }

    /// Records that the timer is no longer set for the worker.
    fn sleep(&self) {
        self.wakes_at.set(None);
        self.wanted.set(None);
    }

    /// Runs when the timer fires: refunds idle reservations, and fetches quota that runs out.
    /// Returns completions for requests.
    pub(super) fn tick(&self, now: Time) -> Vec<Completion> {
        if self.wakes_at.get().is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.sleep();
        self.work(now, false)
    }

    /// Refunds all quota that this worker has reserved, because no new request reaches the worker.
    pub(super) fn retire(&self) {
        self.sleep();
        self.candidate.with(|candidate| *candidate = None);
        self.work(self.monotonic(), true);
    }

    fn work(&self, now: Time, all: bool) -> Vec<Completion> {
        let policy = &self.configuration.policy;
        let completions = self.worker.with(|worker| {
            let events = worker.tick(policy, &self.store, || self.now(), all);
            self.metrics.events(&events);
            worker.expire(now)
        });
        self.absorb(completions.unwrap_or_default())
    }
}
