//! The periodic timers of one thread's filter, one for each root context.

use crate::alarm::Alarm;
use crate::timer::TIMER;
use diana_base::exclusive::Exclusive;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The timers of one thread.
pub struct Timers {
    alarm: Arc<Alarm>,
    timers: Exclusive<Vec<RootTimer>>,
    /// The deadline that the module's thread knows.
    armed: Cell<Option<Instant>>,
}

#[derive(Clone, Copy)]
struct RootTimer {
    root: u32,
    period: Duration,
    deadline: Instant,
}

impl Timers {
    /// No timers. Deadlines ring this alarm.
    pub fn new(alarm: Arc<Alarm>) -> Timers {
        Timers { alarm, timers: Exclusive::default(), armed: Cell::new(None) }
    }

    /// Lets the timer of a root fire every `ms` milliseconds from now on; 0 stops it. Returns
    /// whether timers work.
    pub fn set(&self, root: u32, ms: u32) -> bool {
        let (period, now) = (Duration::from_millis(ms.into()), Instant::now());
        let deadline = now.checked_add(period).filter(|_| ms > 0);
        self.timers.with(|timers| {
            timers.retain(|timer| timer.root != root);
            timers.extend(deadline.map(|deadline| RootTimer { root, period, deadline }));
        });
        self.arm()
    }

    /// The roots whose timers fire now. They fire again after their periods.
    pub fn take_due(&self, now: Instant) -> Vec<u32> {
        self.armed.set(None);
        let take = |timers: &mut Vec<RootTimer>| {
            let due = timers.iter_mut().filter(|timer| timer.deadline <= now);
            due.map(|timer| {
                timer.deadline = now.checked_add(timer.period).unwrap_or(timer.deadline);
                timer.root
            })
            .collect()
        };
        self.timers.with(take).unwrap_or_default()
    }

    /// Tells the module's thread the earliest deadline. Returns whether the thread runs.
    pub fn arm(&self) -> bool {
        let earliest = |timers: &mut Vec<RootTimer>| timers.iter().map(|timer| timer.deadline).min();
        let next = self.timers.with(earliest).flatten();
        if self.armed.get() == next {
            return true;
        }
        let runs = TIMER.set_deadline(&self.alarm, next);
        self.armed.set(next.filter(|_| runs));
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_fires_again_after_its_period() {
        let timers = Timers::new(Arc::default());
        let (now, hour) = (Instant::now(), 3_600_000);
        let after = |ms: u32| now + Duration::from_millis(ms.into()) + Duration::from_secs(60);
        assert!(timers.set(1, hour) && timers.set(2, 2 * hour));
        assert_eq!(timers.take_due(now), [0; 0]);
        assert_eq!(timers.take_due(after(hour)), [1]);
        assert_eq!(timers.take_due(after(hour)), [0; 0]);
        let mut due = timers.take_due(after(2 * hour));
        due.sort_unstable();
        assert_eq!(due, [1, 2]);
        assert!(timers.set(1, 0));
        assert_eq!(timers.take_due(after(4 * hour)), [2]);
        assert!(timers.set(2, 0) && timers.arm());
        TIMER.end();
    }
}
