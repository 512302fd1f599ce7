//! Tests the types that threads share, in loom's interleavings: `cargo xtask interleavings`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

use diana_envoy_module::alarm::{Alarm, Bell};
use diana_envoy_module::store::Memory;
use diana_envoy_module::turns::Turns;
use diana_limiter::cells::store::{Store, Swap};
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

#[test]
fn of_two_creations_one_is_done() {
    loom::model(|| {
        let memory = Arc::new(Memory::with_shards(1));
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || other.swap(b"key", b"other", None).unwrap());
        let own = memory.swap(b"key", b"own", None).unwrap();
        let theirs = thread.join().unwrap();
        let winner: &[u8] = if own == Swap::Done { b"own" } else { b"other" };
        assert_ne!(own, theirs);
        assert_eq!(memory.load(b"key").unwrap().unwrap().bytes, winner);
    });
}

#[test]
fn of_two_swaps_of_one_version_one_is_done() {
    loom::model(|| {
        let memory = Arc::new(Memory::with_shards(1));
        memory.swap(b"key", b"first", None).unwrap();
        let swap = |memory: &Memory| {
            let version = memory.load(b"key").unwrap().unwrap().version;
            (version, memory.swap(b"key", b"next", Some(version)).unwrap())
        };
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || swap(&other));
        let (own, theirs) = (swap(&memory), thread.join().unwrap());
        let done = [own, theirs].iter().filter(|(_, swapped)| *swapped == Swap::Done).count();
        assert_eq!(done, if own.0 == theirs.0 { 1 } else { 2 }, "{own:?} {theirs:?}");
    });
}

#[test]
fn a_removed_key_does_not_return_by_an_old_version() {
    loom::model(|| {
        let memory = Arc::new(Memory::with_shards(1));
        memory.swap(b"key", b"first", None).unwrap();
        let first = memory.load(b"key").unwrap().unwrap().version;
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || {
            let removed = other.remove(|_, value| value == b"first");
            (removed, other.swap(b"key", b"second", None).unwrap())
        });
        let swapped = memory.swap(b"key", b"late", Some(first)).unwrap();
        let (removed, created) = thread.join().unwrap();
        match swapped {
            Swap::Done => assert_eq!((removed, created), (0, Swap::Conflict)),
            Swap::Conflict => assert_eq!((removed, created), (1, Swap::Done)),
        }
    });
}

#[test]
fn nothing_is_written_after_the_end() {
    loom::model(|| {
        let memory = Arc::new(Memory::with_shards(1));
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || _ = other.swap(b"key", b"value", None));
        memory.close();
        thread.join().unwrap();
        assert!(memory.is_empty());
    });
}

/// Envoy's queue of events for one worker: the streams that rang.
type Queue = Arc<Mutex<Vec<u32>>>;

struct StreamBell(u32, Queue);

impl Bell for StreamBell {
    fn ring(&self) {
        self.1.lock().unwrap().push(self.0);
    }
}

/// A worker with an alarm and Envoy's queue of events.
#[derive(Clone)]
struct Worker {
    alarm: Arc<Alarm>,
    queue: Queue,
}

impl Worker {
    fn new() -> Worker {
        Worker { alarm: Arc::new(Alarm::default()), queue: Arc::new(Mutex::new(Vec::new())) }
    }

    fn hold(&self, stream: u32) {
        self.alarm.add(stream, Box::new(StreamBell(stream, Arc::clone(&self.queue))));
    }

    /// Runs Envoy's events of streams that live. Returns whether the worker acted.
    fn run_events(&self, live: &[u32]) -> bool {
        let events: Vec<u32> = self.queue.lock().unwrap().drain(..).collect();
        let reaches = events.iter().any(|stream| live.contains(stream));
        reaches && self.alarm.take_due()
    }
}

#[test]
fn a_ring_reaches_a_worker_whose_stream_begins_to_wait_meanwhile() {
    loom::model(|| {
        let worker = Worker::new();
        let alarm = Arc::clone(&worker.alarm);
        let thread = thread::spawn(move || alarm.ring());
        worker.hold(1);
        thread.join().unwrap();
        assert!(worker.run_events(&[1]), "the ring was lost");
    });
}

#[test]
fn a_ring_reaches_a_worker_one_of_whose_streams_ends_meanwhile() {
    loom::model(|| {
        let worker = Worker::new();
        worker.hold(1);
        worker.hold(2);
        let alarm = Arc::clone(&worker.alarm);
        let thread = thread::spawn(move || alarm.ring());
        worker.alarm.remove(2);
        thread.join().unwrap();
        assert!(worker.run_events(&[1]), "the ring was lost");
    });
}

#[test]
fn what_precedes_a_ring_is_seen_after_it() {
    loom::model(|| {
        let (alarm, rung) = (Arc::new(Alarm::default()), Arc::new(AtomicBool::new(false)));
        let written = Arc::new(AtomicU32::new(0));
        let (theirs, number) = (Arc::clone(&alarm), Arc::clone(&written));
        let thread = thread::spawn(move || {
            number.store(7, Ordering::Relaxed);
            theirs.ring();
        });
        if alarm.take_due() {
            rung.store(true, Ordering::Relaxed);
            assert_eq!(written.load(Ordering::Relaxed), 7);
        }
        thread.join().unwrap();
        assert!(rung.load(Ordering::Relaxed) || alarm.take_due());
    });
}

#[test]
fn the_worker_and_the_main_thread_take_turns() {
    loom::model(|| {
        // A plain number. loom reports two threads that use it at once.
        let shared = Arc::new((Turns::default(), loom::cell::UnsafeCell::new(0)));
        let main = Arc::clone(&shared);
        // SAFETY: only the thread that has the turn uses the number.
        let add = |number: &loom::cell::UnsafeCell<u32>| number.with_mut(|number| unsafe { *number += 1 });
        let thread = thread::spawn(move || main.0.in_place_of_worker(|| add(&main.1)));
        // SAFETY: this thread is the worker.
        unsafe { shared.0.worker(|| add(&shared.1)) };
        let ran = thread.join().unwrap();
        // SAFETY: the other thread has ended.
        assert_eq!(shared.1.with(|number| unsafe { *number }), 1 + u32::from(ran));
    });
}
