//! What the simulated Envoy has: configurations, streams, schedulers, calls and their events. The
//! simulation records each mistake of the module, and the run fails when the event is over.

use super::hooks::Entry;
use super::lent::Lender;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::fmt::Display;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

/// The number of workers.
pub const WORKERS: usize = 2;

/// A thread of Envoy's. All of them are played by one thread, in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thread {
    #[default]
    Main,
    Worker(usize),
}

impl Thread {
    /// The number by which the module knows the thread.
    pub fn number(self) -> u32 {
        match self {
            Thread::Main => u32::MAX,
            Thread::Worker(worker) => u32::MAX - 1 - worker as u32,
        }
    }
}

/// The receiver of a scheduler's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Config(usize),
    Stream(usize),
}

pub struct Config {
    /// The module's pointer.
    pub entry: usize,
    /// Whether Envoy is making the configuration.
    pub is_new: bool,
    /// Whether new streams get a later configuration.
    pub is_removed: bool,
    /// The numbers of labels of the metrics that are defined.
    pub metrics: Vec<(String, usize)>,
    /// The secrets that the module follows.
    pub secrets: Vec<Vec<u8>>,
}

#[derive(Default)]
pub struct Stream {
    pub config: usize,
    pub thread: Thread,
    pub route: Option<usize>,
    /// The module's pointer.
    pub entry: usize,
    pub request: Vec<(Vec<u8>, Vec<u8>)>,
    pub response: Vec<(Vec<u8>, Vec<u8>)>,
    /// The part of a body that is arriving, and its kind.
    pub chunk: Option<(u32, Vec<Vec<u8>>)>,
    pub has_request: bool,
    pub has_response: bool,
    /// Whether the request waits with all that follows.
    pub is_held: bool,
    /// Whether the request waits with a part of its body or with its trailers.
    pub is_stopped: bool,
    pub is_answered: bool,
    pub has_trailers: bool,
    /// The events that arrived while the request was held.
    pub pending: usize,
    pub filter_state: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether a local response or the upstream ends the stream before a callback returns.
    pub ends_at_once: bool,
}

pub struct Call {
    pub config: usize,
}

/// A gauge goes with the last configuration that has changed it.
#[derive(Default)]
pub struct Gauge {
    pub value: i64,
    pub keepers: BTreeSet<usize>,
}

#[derive(Default)]
pub struct World {
    pub mistakes: Vec<String>,
    /// The thread that plays Envoy.
    pub player: Option<ThreadId>,
    /// The thread of each running event. The last event interrupts those before.
    pub threads: Vec<Thread>,
    pub lender: Lender,
    pub configs: BTreeMap<usize, Config>,
    pub streams: BTreeMap<usize, Stream>,
    /// The pointers of the documents of routes, each with whether it is removed.
    pub routes: Vec<(usize, bool)>,
    pub schedulers: BTreeMap<usize, Owner>,
    /// Events that schedulers have asked for.
    pub events: Vec<Owner>,
    pub calls: BTreeMap<u64, Call>,
    pub last_address: usize,
    pub last_call: u64,
    /// The secret that the discovery service has delivered.
    pub secret: Vec<u8>,
    /// The numbers of the runtime.
    pub runtime: BTreeMap<Vec<u8>, f64>,
    /// The gauges, by their names and labels.
    pub gauges: BTreeMap<(String, Vec<Vec<u8>>), Gauge>,
    /// Whether an event of the main thread interrupts the next reading.
    pub interrupts: bool,
    /// Whether Envoy cannot make calls.
    pub is_down: bool,
    /// Whether the clusters of calls have the module among their filters.
    pub filters_calls: bool,
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);

static RUNG: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Option<World>> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A scheduler has asked for an event.
pub fn rung() {
    RUNG.notify_all();
}

/// Waits until there is an event of a scheduler, for at most this time.
pub fn wait_for_event(longest: Duration) {
    let is_quiet = |world: &mut Option<World>| world.as_ref().is_none_or(|world| world.events.is_empty());
    _ = RUNG.wait_timeout_while(lock(), longest, is_quiet).unwrap_or_else(PoisonError::into_inner);
}

/// Uses the world for a moment. No function of the module is called meanwhile.
pub fn with<R>(work: impl FnOnce(&mut World) -> R) -> R {
    work(lock().get_or_insert_default())
}

impl World {
    pub fn mistake(&mut self, what: impl Display) {
        let thread = self.threads.last();
        self.mistakes.push(format!("{what} (in {thread:?})"));
    }

    /// An address that points nowhere, and that no other object has had.
    pub fn address(&mut self) -> usize {
        self.last_address += 64;
        0x5000_0000_0000 + self.last_address
    }

    /// Checks that the calling thread is Envoy's, in an event.
    pub fn check_thread(&mut self, what: &str) {
        if self.player != Some(std::thread::current().id()) {
            self.mistakes.push(format!("{what} on a thread of the module"));
        } else if self.threads.is_empty() {
            self.mistake(format!("{what} outside of events"));
        }
    }

    /// Checks that this is the main thread.
    pub fn check_main(&mut self, what: &str) {
        self.check_thread(what);
        if self.threads.last() != Some(&Thread::Main) {
            self.mistake(format!("{what} beside the main thread"));
        }
    }

    /// The stream of this address, if it lives and this is its thread.
    pub fn stream(&mut self, pointer: *mut c_void, what: &str) -> Option<&mut Stream> {
        self.check_thread(what);
        let thread = self.streams.get(&(pointer as usize)).map(|stream| stream.thread);
        match thread {
            None => self.mistake(format!("{what} with a stream that has gone")),
            Some(thread) if self.threads.last() != Some(&thread) => {
                self.mistake(format!("{what} beside the stream's thread {thread:?}"));
            }
            Some(_) => {}
        }
        self.streams.get_mut(&(pointer as usize))
    }

    /// The configuration of this address, if it lives.
    pub fn config(&mut self, pointer: *mut c_void, what: &str) -> Option<&mut Config> {
        self.check_thread(what);
        if !self.configs.contains_key(&(pointer as usize)) {
            self.mistake(format!("{what} with a configuration that has gone"));
        }
        self.configs.get_mut(&(pointer as usize))
    }

    /// The configuration that Envoy is making.
    pub fn new_config(&mut self, pointer: *mut c_void, what: &str) -> Option<&mut Config> {
        self.check_main(what);
        if self.config(pointer, what).is_some_and(|config| !config.is_new) {
            self.mistake(format!("{what} after the configuration is made"));
        }
        self.configs.get_mut(&(pointer as usize))
    }

    pub fn entry(&self, owner: Owner) -> Entry {
        let entry = match owner {
            Owner::Config(address) => self.configs[&address].entry,
            Owner::Stream(address) => self.streams[&address].entry,
        };
        entry as Entry
    }
}
