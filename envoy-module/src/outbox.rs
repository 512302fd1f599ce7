//! Calls on their way from any thread to the main thread, where Envoy makes them for the newest
//! configuration. Envoy ends the calls of a configuration together with the configuration, and the
//! newest one is likely to live longest.

use crate::alarm::Bell;
use crate::callouts::Call;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The calls that the configurations of one `filter_name` want.
#[derive(Default)]
pub struct Outbox(Mutex<State>);

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    /// The bells of the living configurations by their roots, the newest last.
    callers: Vec<(u32, Box<dyn Bell>)>,
}

impl State {
    /// Makes Envoy run the newest configuration.
    fn ring(&self) {
        if let Some((_, bell)) = self.callers.last() {
            bell.ring();
        }
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a new configuration.
    pub fn add(&self, root: u32, bell: Box<dyn Bell>) {
        self.lock().callers.push((root, bell));
    }

    /// Removes a configuration. The newest of the remaining configurations makes the waiting calls.
    /// Without one, drops the calls: no filter waits for a reply.
    pub fn remove(&self, root: u32) {
        let mut state = self.lock();
        state.callers.retain(|(known, _)| *known != root);
        if state.callers.is_empty() {
            state.calls.clear();
        } else if !state.calls.is_empty() {
            state.ring();
        }
    }

    /// Makes the main thread make a call. Any thread may call this.
    pub fn post(&self, call: Call) {
        let mut state = self.lock();
        state.calls.push(call);
        // Envoy puts the event into a queue and calls nobody, so the lock may be held.
        state.ring();
    }

    /// Whether this configuration is the newest.
    pub fn is_newest(&self, root: u32) -> bool {
        self.lock().callers.last().is_some_and(|(newest, _)| *newest == root)
    }

    /// Takes the calls that this configuration has to make: all if it is the newest, or else none.
    pub fn take(&self, root: u32) -> Vec<Call> {
        let mut state = self.lock();
        let is_newest = state.callers.last().is_some_and(|(newest, _)| *newest == root);
        if is_newest { std::mem::take(&mut state.calls) } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Counter(Arc<AtomicU32>);

    impl Bell for Counter {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn call(token: u32) -> Call {
        let (cluster, headers, body) = (Vec::new(), Vec::new(), Vec::new());
        Call { token, mailbox: Arc::default(), cluster, headers, body, timeout_ms: 1 }
    }

    #[test]
    fn the_newest_configuration_makes_the_calls_also_of_one_that_ends() {
        let (outbox, rings) = (Outbox::default(), [0; 3].map(|_: u32| Arc::new(AtomicU32::new(0))));
        let rung = || rings.each_ref().map(|rings| rings.load(Ordering::Relaxed));
        let tokens = |root| outbox.take(root).into_iter().map(|call| call.token).collect::<Vec<_>>();
        for (root, rings) in (0..).zip(&rings) {
            outbox.add(root, Box::new(Counter(Arc::clone(rings))));
        }
        outbox.post(call(7));
        assert_eq!(rung(), [0, 0, 1]);
        assert!(outbox.is_newest(2) && !outbox.is_newest(1));
        assert_eq!((tokens(1), tokens(2), tokens(2)), (vec![], vec![7], vec![]));
        outbox.remove(2);
        assert_eq!(rung(), [0, 0, 1], "no call waits");
        outbox.post(call(8));
        outbox.remove(1);
        assert_eq!(rung(), [1, 1, 1], "the ring of the configuration that has ended is lost");
        outbox.post(call(9));
        assert_eq!((tokens(1), tokens(0)), (vec![], vec![8, 9]));
        outbox.post(call(10));
        outbox.remove(0);
        outbox.add(3, Box::new(Counter(Arc::default())));
        assert_eq!(tokens(3), [0; 0], "the filters that wanted the call have ended");
    }
}
