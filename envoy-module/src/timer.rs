//! The module's own thread, which wakes workers at their deadlines because Envoy gives HTTP filters
//! no timers. It sleeps until the earliest deadline and ends with the last configuration.
//!
//! ```text
//!   worker ─► Timer::set_deadline ─► thread sleeps ─► Alarm::ring ─► Envoy's scheduler ─► worker
//! ```

use crate::alarm::Alarm;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// The deadlines of all workers.
#[derive(Default)]
pub struct Timer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// One entry a worker that has ever set a deadline; few.
    alarms: Vec<(Arc<Alarm>, Option<Instant>)>,
    thread: Option<JoinHandle<()>>,
    must_end: bool,
}

/// The timer of the process.
pub static TIMER: Timer = Timer::new();

impl Timer {
    /// A timer without deadlines and without a thread.
    #[must_use]
    pub const fn new() -> Timer {
        let state = State { alarms: Vec::new(), thread: None, must_end: false };
        Timer { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rings `alarm` at `deadline` in place of any earlier deadline of this alarm; `None`: never.
    /// Returns whether the thread runs.
    pub fn set_deadline(&'static self, alarm: &Arc<Alarm>, deadline: Option<Instant>) -> bool {
        let mut state = self.lock();
        let is_sooner = match state.alarms.iter_mut().find(|(known, _)| Arc::ptr_eq(known, alarm)) {
            Some((_, known)) => {
                let before = std::mem::replace(known, deadline);
                deadline.is_some_and(|deadline| before.is_none_or(|before| deadline < before))
            }
            None if deadline.is_none() => false,
            None => {
                state.alarms.push((Arc::clone(alarm), deadline));
                true
            }
        };
        let runs = deadline.is_none() || state.start(self);
        drop(state);
        // A later deadline is found when the thread wakes for the earlier one.
        if is_sooner {
            self.changed.notify_one();
        }
        runs
    }

    /// Forgets an alarm.
    pub fn remove(&self, alarm: &Arc<Alarm>) {
        self.lock().alarms.retain(|(known, _)| !Arc::ptr_eq(known, alarm));
    }

    /// Ends the thread and waits for its end. A later deadline starts another thread.
    pub fn end(&self) {
        let mut state = self.lock();
        state.alarms.clear();
        let Some(thread) = state.thread.take() else {
            return;
        };
        state.must_end = true;
        drop(state);
        self.changed.notify_one();
        // The thread does not panic; if it did, it would be at its end as well.
        _ = thread.join();
        self.lock().must_end = false;
    }

    /// Whether the thread runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.lock().thread.is_some()
    }

    /// Rings alarms at their deadlines until the end.
    fn run(&self) {
        let mut state = self.lock();
        while !state.must_end {
            let now = Instant::now();
            let due = state.take_due(now);
            if !due.is_empty() {
                drop(state);
                due.iter().for_each(|alarm| alarm.ring());
                state = self.lock();
                continue;
            }
            state = match state.alarms.iter().filter_map(|(_, deadline)| *deadline).min() {
                Some(next) => {
                    let span = next.saturating_duration_since(now);
                    self.changed.wait_timeout(state, span).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl State {
    /// Starts the thread if none runs. Returns whether one runs.
    fn start(&mut self, timer: &'static Timer) -> bool {
        if self.thread.is_none() && !self.must_end {
            let thread = thread::Builder::new().name("diana-timer".into());
            self.thread = thread.spawn(|| timer.run()).ok();
        }
        self.thread.is_some()
    }

    /// Takes the alarms whose deadlines have come. Each then has no deadline.
    fn take_due(&mut self, now: Instant) -> Vec<Arc<Alarm>> {
        let is_due = |deadline: &Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        let due = self.alarms.iter_mut().filter(|(_, deadline)| is_due(deadline));
        due.map(|(alarm, deadline)| {
            *deadline = None;
            Arc::clone(alarm)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarm::Bell;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(600);

    /// A bell that reports when it rings.
    struct Reporter(Sender<Instant>);

    impl Bell for Reporter {
        fn ring(&self) {
            _ = self.0.send(Instant::now());
        }
    }

    fn alarm() -> (Arc<Alarm>, Receiver<Instant>) {
        let (sender, receiver) = channel();
        let alarm = Arc::new(Alarm::default());
        alarm.add(1, Box::new(Reporter(sender)));
        (alarm, receiver)
    }

    fn timer() -> &'static Timer {
        Box::leak(Box::new(Timer::new()))
    }

    #[test]
    fn alarms_ring_in_the_order_of_their_deadlines_and_once() {
        let timer = timer();
        let ((late, rings_late), (early, rings_early)) = (alarm(), alarm());
        let now = Instant::now();
        let deadlines = [now + Duration::from_millis(60), now + Duration::from_millis(30)];
        assert!(timer.set_deadline(&late, Some(deadlines[0])));
        assert!(timer.set_deadline(&early, Some(deadlines[1])));
        let rings = [rings_late.recv_timeout(LONG).unwrap(), rings_early.recv_timeout(LONG).unwrap()];
        assert!(rings[0] >= deadlines[0] && rings[1] >= deadlines[1], "no alarm rings early");
        assert!(late.take_due() && early.take_due());
        timer.end();
        assert!(rings_late.try_recv().is_err() && rings_early.try_recv().is_err(), "one ring a deadline");
    }

    #[test]
    fn a_sooner_deadline_wakes_the_thread() {
        let timer = timer();
        let ((first, _rings), (second, rings)) = (alarm(), alarm());
        assert!(timer.set_deadline(&first, Some(Instant::now() + LONG)));
        assert!(timer.set_deadline(&second, Some(Instant::now())));
        assert!(rings.recv_timeout(LONG / 2).is_ok());
        assert!(!first.take_due());
        timer.end();
    }

    #[test]
    fn a_removed_or_cleared_deadline_does_not_ring() {
        let timer = timer();
        let ((removed, rings), (cleared, other), (last, end)) = (alarm(), alarm(), alarm());
        let soon = Instant::now() + Duration::from_millis(20);
        assert!(timer.set_deadline(&removed, Some(soon)) && timer.set_deadline(&cleared, Some(soon)));
        timer.remove(&removed);
        assert!(timer.set_deadline(&cleared, None));
        assert!(timer.set_deadline(&last, Some(soon)));
        assert!(end.recv_timeout(LONG).is_ok(), "a later deadline has come");
        assert!(rings.try_recv().is_err() && other.try_recv().is_err());
        timer.end();
    }

    #[test]
    fn after_the_end_a_deadline_starts_a_thread_again() {
        let timer = timer();
        let (alarm, rings) = alarm();
        timer.end();
        for _ in 0..3 {
            assert!(timer.set_deadline(&alarm, Some(Instant::now())));
            assert!(rings.recv_timeout(LONG).is_ok());
            timer.end();
            assert!(timer.lock().thread.is_none() && timer.lock().alarms.is_empty());
        }
    }
}
