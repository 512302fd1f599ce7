//! Makes a worker act for another thread, which marks the worker as due and rings one of its bells,
//! because Envoy runs a module on a worker only for a stream.

use crate::sync::{Arc, AtomicBool, Mutex, MutexGuard, Ordering};
use std::collections::BTreeMap;
use std::sync::PoisonError;

/// A way to have Envoy run the module on a thread: the scheduler of a stream or of a configuration.
pub trait Bell: Send {
    /// Asks Envoy to run the module. Envoy does so later, never before this returns.
    fn ring(&self);
}

type Bells = BTreeMap<u32, Box<dyn Bell>>;

/// The mark and the bells of one worker.
///
/// Envoy forgets a ring if its stream ends first, so a worker that removes a bell also checks the
/// mark, and rings another bell if the worker is due. A worker without waiting streams has no bell;
/// the ring then goes to the main thread, which acts in the worker's place.
#[derive(Default)]
pub struct Alarm {
    is_due: AtomicBool,
    /// The bells by the streams they belong to. Thousands of streams may wait.
    bells: Mutex<Bells>,
    /// The alarm of the main thread; `None` for that alarm itself.
    deputy: Option<Arc<Alarm>>,
}

impl Alarm {
    /// An alarm whose rings go to `deputy` while there is no bell.
    #[must_use]
    pub fn with_deputy(deputy: Arc<Alarm>) -> Alarm {
        Alarm { deputy: Some(deputy), ..Alarm::default() }
    }

    fn bells(&self) -> MutexGuard<'_, Bells> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the worker as due, and rings a bell if the worker has one. Any thread may call this.
    pub fn ring(&self) {
        let bells = self.bells();
        self.is_due.store(true, Ordering::Release);
        // The lock is held during the call so that the worker does not give the bell back
        // meanwhile. Envoy puts the event into a queue and calls nobody.
        self.ring_one(&bells);
    }

    /// Rings a bell, or the deputy.
    fn ring_one(&self, bells: &Bells) {
        match (bells.last_key_value(), &self.deputy) {
            (Some((_, bell)), _) => bell.ring(),
            (None, Some(deputy)) => deputy.ring(),
            (None, None) => {}
        }
    }

    /// Whether the worker is due.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }

    /// Removes the mark. Returns whether there was one.
    #[must_use]
    pub fn take_due(&self) -> bool {
        self.is_due() && self.is_due.swap(false, Ordering::AcqRel)
    }

    /// Whether a ring reaches the worker without another event.
    #[must_use]
    pub fn has_bells(&self) -> bool {
        !self.bells().is_empty()
    }

    /// Adds the bell of a stream, in place of an earlier one of the same stream. If the worker is
    /// due, the new bell rings: the ring came before there was a bell.
    pub fn add(&self, stream: u32, bell: Box<dyn Bell>) {
        let mut bells = self.bells();
        if self.is_due() {
            bell.ring();
        }
        bells.insert(stream, bell);
    }

    /// Removes the bell of a stream. If the worker is still due, the ring may have been for this
    /// stream, so another bell rings.
    pub fn remove(&self, stream: u32) {
        let mut bells = self.bells();
        let is_removed = bells.remove(&stream).is_some();
        if is_removed && self.is_due() {
            self.ring_one(&bells);
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    struct Counter(Arc<AtomicU32>);

    impl Bell for Counter {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn one_bell_rings_and_another_one_takes_over() {
        let (alarm, rings) = (Alarm::default(), [0; 2].map(|_: u32| Arc::new(AtomicU32::new(0))));
        let rung = || [0, 1].map(|bell: usize| rings[bell].load(Ordering::Relaxed));
        let add = |stream: u32| alarm.add(stream, Box::new(Counter(Arc::clone(&rings[stream as usize]))));
        alarm.ring();
        assert!(alarm.is_due() && !alarm.has_bells());
        add(0);
        assert_eq!(rung(), [1, 0], "the ring came before the bell");
        assert!(alarm.take_due() && !alarm.take_due());
        add(1);
        alarm.ring();
        assert_eq!(rung(), [1, 1]);
        alarm.remove(1);
        assert_eq!(rung(), [2, 1], "the stream that Envoy would run has ended");
        assert!(alarm.take_due());
        alarm.remove(0);
        alarm.remove(0);
        assert_eq!(rung(), [2, 1]);
        assert!(!alarm.has_bells());
    }

    #[test]
    fn the_deputy_rings_for_a_worker_without_bells() {
        let (main, count) = (Arc::new(Alarm::default()), Arc::new(AtomicU32::new(0)));
        let bell = || Box::new(Counter(Arc::clone(&count)));
        main.add(7, bell());
        let worker = Alarm::with_deputy(Arc::clone(&main));
        worker.ring();
        assert!(worker.is_due() && main.is_due() && count.load(Ordering::Relaxed) == 1);
        assert!(worker.take_due() && main.take_due());
        worker.add(1, Box::new(Counter(Arc::default())));
        worker.ring();
        assert!(worker.is_due() && !main.is_due());
        worker.remove(1);
        assert!(main.is_due(), "the only stream has ended");
    }
}
