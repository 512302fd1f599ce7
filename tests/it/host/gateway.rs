//! A simulated gateway: workers with a filter each, over one shared data, under the rules of Envoy
//! or of nginx. It records the fate of each request, and everything that would crash a real
//! gateway.
//!
//! Sources: proxy-wasm-cpp-host `src/{context,exports,shared_data}.cc`, Envoy
//! `source/extensions/common/wasm/context.cc`, ngx_wasm_module `src/common/proxy_wasm`,
//! `ngx_wa_shm_kv.c`.

use super::callouts::Clusters;
use super::faults::{FaultKind, Faults};
use super::vm::{Location, Vm};
use diana::Exports;
use diana_base::prng;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// The fate of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The request waits for the filter.
    Paused,
    /// The request is at the upstream.
    Upstream,
    /// The filter has replied with this status, or nginx in its place.
    Answered(u32),
    /// The upstream has replied.
    Served,
    /// The request ended before a reply.
    Reset,
}

/// One request, from its headers on.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    pub path: String,
    pub user: String,
    /// All parts that were sent, path and user included.
    pub parts: Vec<(Part, Vec<u8>)>,
    /// When the request arrived, and when it went to the upstream.
    pub came: u64,
    pub went: Option<u64>,
    pub fate: Fate,
    /// The plugin was deleted while the request waited, so the request goes on before its turn.
    pub hurried: bool,
    /// The reason phrase of the filter's reply, if the host sends it to the client.
    pub reason: String,
    /// The attributes that the filter has set for the access log.
    pub attributes: Vec<(String, String)>,
    /// The headers that the filter has set for the upstream.
    pub marks: Vec<(String, String)>,
    /// The headers of the response.
    pub headers: Vec<(String, String)>,
}

/// The state that all workers share.
pub struct World {
    pub rules: CasSemantics,
    /// Whether the host ends a stream within the call that sends its reply.
    pub reenters: bool,
    /// Whether the connection breaks when the next stream resumes, which ends all its other
    /// streams.
    pub breaks: Cell<bool>,
    /// Whether the host reports the parts of a body that it holds.
    pub reports_held: Cell<bool>,
    pub configuration: RefCell<String>,
    pub vm_id: RefCell<String>,
    /// Nanoseconds since 1970.
    pub clock: Cell<u64>,
    /// How far that clock has been set back in all; the monotonic clock never is.
    pub set_back: Cell<u64>,
    pub faults: RefCell<Faults>,
    /// The clusters that the workers may call.
    pub clusters: Rc<Clusters>,
    pub records: RefCell<Vec<RequestRecord>>,
    /// Events that would have crashed a real host.
    pub crashes: RefCell<Vec<String>>,
    /// Details and body of the filter's replies.
    pub sent: RefCell<Vec<(String, String)>>,
    pub log: RefCell<Vec<(u32, String)>>,
    /// Counters and gauges by their names, over all workers.
    pub counters: RefCell<BTreeMap<String, i64>>,
    /// The values of histograms by name, over all workers.
    pub recorded: RefCell<BTreeMap<String, Vec<u64>>>,
    /// How many host calls the filter has made.
    pub called: Cell<usize>,
    /// The longest body of a reply that the filter has read.
    pub longest: Cell<usize>,
    /// The last random number.
    pub randoms: Cell<u64>,
    data: RefCell<HashMap<Key, Entry>>,
    last_version: Cell<u32>,
    /// nginx: what the location of each request does besides the filter.
    pub location: Cell<Location>,
    /// nginx: how many keys the zone has room for, and what happens to one more.
    pub zone: Cell<Option<(usize, Eviction)>>,
    /// How many keys were evicted.
    pub evicted: Cell<usize>,
    last_use: Cell<u64>,
}

/// A value, its version, the time of its last use, and the room that it has in a zone of nginx.
#[derive(Clone)]
struct Entry(Vec<u8>, u32, u64, usize);

/// What nginx does with a key for which a zone has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// nginx evicts the least recently used key; a read is a use.
    Lru,
    /// nginx fails the write. A real nginx also ends the filter's instance, and the request gets a
    /// 500.
    None,
}

/// nginx compares only the CRC-32 of a key.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Whole(Vec<u8>),
    Checksum(u32),
}

const NOT_FOUND: u32 = 1;
const CAS_MISMATCH: u32 = 8;
const INTERNAL_FAILURE: u32 = 10;

impl World {
    fn key(&self, key: &[u8]) -> Key {
        match self.rules {
            CasSemantics::Lenient => Key::Whole(key.into()),
            CasSemantics::Strict => Key::Checksum(crc32(key)),
        }
    }

    pub fn load(&self, key: &[u8]) -> Result<(Vec<u8>, u32), u32> {
        let mut data = self.data.borrow_mut();
        let held = data.get_mut(&self.key(key)).ok_or(NOT_FOUND)?;
        held.2 = self.now_used();
        Ok((held.0.clone(), held.1))
    }

    fn now_used(&self) -> u64 {
        self.last_use.set(self.last_use.get() + 1);
        self.last_use.get()
    }

    /// Removes a key.
    pub fn forget(&self, key: &[u8]) {
        self.data.borrow_mut().remove(&self.key(key)).expect("a key that is there");
    }

    pub fn store(&self, key: &[u8], value: &[u8], cas: u32) -> u32 {
        let (key, mut data) = (self.key(key), self.data.borrow_mut());
        let found = data.get(&key).map(|held| held.1);
        let fits = match self.rules {
            CasSemantics::Lenient => found.is_none_or(|version| cas == 0 || cas == version),
            CasSemantics::Strict => found.unwrap_or(0) == cas,
        };
        if !fits {
            return CAS_MISMATCH;
        }
        let room = data.get(&key).map_or(value.len(), |held| held.3);
        if self.rules == CasSemantics::Strict && value.len() > room {
            self.crash("a value grew, which crashes a worker if the zone is full");
        }
        // Envoy's version counts over all keys, nginx' version per key.
        self.last_version.set(self.last_version.get() + 1);
        let version = match self.rules {
            CasSemantics::Lenient => self.last_version.get(),
            CasSemantics::Strict => found.unwrap_or(0) + 1,
        };
        if let Some((room, eviction)) = self.zone.get().filter(|_| found.is_none())
            && data.len() >= room
        {
            if eviction == Eviction::None {
                return INTERNAL_FAILURE;
            }
            let oldest = data.values().map(|held| held.2).min();
            data.retain(|_, held| Some(held.2) != oldest);
            self.evicted.set(self.evicted.get() + 1);
        }
        data.insert(key, Entry(value.into(), version, self.now_used(), room));
        0
    }

    /// Overwrites the value of every key, as another filter might.
    pub fn overwrite(&self, change: impl Fn(&mut Vec<u8>)) {
        for Entry(bytes, version, ..) in self.data.borrow_mut().values_mut() {
            change(bytes);
            *version += 1;
        }
    }

    /// Whether a value of the shared data contains these bytes.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        self.data.borrow().values().any(|held| held.0.windows(bytes.len()).any(|part| part == bytes))
    }

    pub fn crash(&self, why: impl Into<String>) {
        self.crashes.borrow_mut().push(why.into());
    }

    pub fn note(&self, request: usize, fate: Fate) {
        let record = &mut self.records.borrow_mut()[request];
        if fate == Fate::Upstream {
            record.went = Some(self.clock.get());
        }
        record.fate = fate;
    }

    /// How many lines of the log contain these words.
    pub fn logged(&self, words: &str) -> usize {
        self.log.borrow().iter().filter(|(_, line)| line.contains(words)).count()
    }
}

/// A gateway and its workers.
pub struct Gateway {
    pub world: Rc<World>,
    pub vms: Vec<Vm>,
}

impl Gateway {
    /// A gateway whose workers are not configured yet.
    pub fn new(rules: CasSemantics, workers: usize, callbacks: Exports, reenters: bool) -> Gateway {
        Gateway::build(rules, workers, callbacks, reenters, Rc::default())
    }

    fn build(
        rules: CasSemantics,
        workers: usize,
        callbacks: Exports,
        reenters: bool,
        clusters: Rc<Clusters>,
    ) -> Gateway {
        // Workers of different gateways draw different numbers.
        let randoms = Cell::new(Rc::strong_count(&clusters) as u64);
        let world = Rc::new(World {
            rules,
            reenters,
            breaks: Cell::default(),
            reports_held: Cell::default(),
            configuration: RefCell::default(),
            vm_id: RefCell::new("diana".into()),
            clock: Cell::new(1_700_000_000_000_000_000),
            set_back: Cell::default(),
            faults: RefCell::default(),
            clusters,
            records: RefCell::default(),
            crashes: RefCell::default(),
            sent: RefCell::default(),
            log: RefCell::default(),
            counters: RefCell::default(),
            recorded: RefCell::default(),
            data: RefCell::default(),
            called: Cell::new(0),
            longest: Cell::new(0),
            randoms,
            last_version: Cell::new(0),
            location: Cell::default(),
            zone: Cell::default(),
            evicted: Cell::new(0),
            last_use: Cell::new(0),
        });
        let vms = (0..workers).map(|_| Vm::new(&world, callbacks)).collect();
        Gateway { world, vms }
    }

    /// The same, with clusters that the workers can call.
    pub fn among(clusters: Rc<Clusters>, workers: usize, reenters: bool) -> Gateway {
        Gateway::build(CasSemantics::Lenient, workers, Exports::All, reenters, clusters)
    }

    /// A gateway whose workers have all accepted the configuration.
    pub fn start(rules: CasSemantics, workers: usize, configuration: &str) -> Gateway {
        let gateway = Gateway::new(rules, workers, Exports::All, false);
        assert!(gateway.configure(configuration), "{:?}", gateway.world.log.borrow());
        gateway
    }

    /// Gives every worker a new plugin with this configuration. Returns whether all have accepted
    /// it.
    pub fn configure(&self, configuration: &str) -> bool {
        *self.world.configuration.borrow_mut() = configuration.into();
        let accepted: Vec<bool> = self.vms.iter().map(Vm::configure).collect();
        accepted.into_iter().all(|accepted| accepted)
    }

    /// Gives every worker of nginx a plugin for each directive, in a random order. Returns the
    /// plugins by worker and directive.
    pub fn configure_directives(&self, documents: &[&str], seed: u64) -> Vec<Vec<u32>> {
        let mut random = seed;
        let of_worker = |vm: &Vm| {
            let mut left: Vec<usize> = (0..documents.len()).collect();
            let mut roots = vec![0; documents.len()];
            while !left.is_empty() {
                let directive = left.remove(prng::next(&mut random) as usize % left.len());
                *self.world.configuration.borrow_mut() = documents[directive].into();
                assert!(vm.configure(), "{:?}", self.world.log.borrow());
                roots[directive] = vm.newest_root().unwrap();
            }
            roots
        };
        self.vms.iter().map(of_worker).collect()
    }

    /// Begins `GET path` of `user` at a worker. Returns the number of the request.
    pub fn request(&self, worker: usize, path: &str, user: &str) -> usize {
        let vm = &self.vms[worker % self.vms.len()];
        vm.request(path, user)
    }

    pub fn fate(&self, request: usize) -> Fate {
        self.world.records.borrow()[request].fate.clone()
    }

    /// Ends all requests: requests at the upstream are served, waiting ones are reset.
    pub fn end_all(&self) {
        self.vms.iter().for_each(Vm::end_all);
    }

    /// Lets time pass and timers fire when they are due.
    pub fn pass(&self, ms: u64) {
        let end = self.world.clock.get() + ms * 1_000_000;
        while self.fire_next(end) {}
        self.world.clock.set(end);
    }

    /// The next event: its time, the plugin of a timer or `None` for a call, and the worker.
    fn next(&self) -> Option<(u64, Option<u32>, &Vm)> {
        let timers = self.vms.iter().filter_map(|vm| vm.next_tick().map(|(at, root)| (at, Some(root), vm)));
        let calls = self.vms.iter().filter_map(|vm| vm.next_call().map(|at| (at, None, vm)));
        calls.chain(timers).min_by_key(|(at, ..)| *at)
    }

    /// Lets time pass for several gateways that share a clock.
    pub fn pass_all(gateways: &[Gateway], ms: u64) {
        let due = |gateway: &&Gateway| gateway.next().map_or(u64::MAX, |(at, ..)| at);
        let clock = |gateway: &Gateway| gateway.world.clock.get();
        let end = gateways.iter().map(clock).max().unwrap_or(0) + ms * 1_000_000;
        while gateways.iter().min_by_key(due).is_some_and(|gateway| gateway.fire_next(end)) {}
        gateways.iter().for_each(|gateway| gateway.world.clock.set(end));
    }

    /// Runs the next event, if it is before `end`: a timer fires, or a call proceeds.
    fn fire_next(&self, end: u64) -> bool {
        let Some((at, root, vm)) = self.next().filter(|(at, ..)| *at <= end) else {
            return false;
        };
        self.world.clock.set(self.world.clock.get().max(at));
        match root {
            Some(root) => vm.tick(root),
            None => vm.call_goes_on(),
        }
        true
    }

    /// Lets all timers fire until no request waits. A request that waits without a timer, or for an
    /// hour, is taken to wait for ever.
    pub fn settle(&self) {
        let end = self.world.clock.get() + 3_600_000_000_000;
        while self.paused() > 0 {
            assert!(self.fire_next(end), "{} requests are paused for ever", self.paused());
        }
    }

    pub fn paused(&self) -> usize {
        self.world.records.borrow().iter().filter(|record| record.fate == Fate::Paused).count()
    }

    pub fn counter(&self, name: &str) -> i64 {
        self.world.counters.borrow().get(name).copied().unwrap_or(0)
    }

    /// How many streams have state in the filters.
    pub fn kept_streams(&self) -> usize {
        self.vms.iter().map(Vm::kept_streams).sum()
    }

    /// Makes all calls of a kind fail from now on, or none.
    pub fn fail(&self, kind: FaultKind) {
        self.world.faults.replace(Faults { kind, one_in: 1, seed: 1 });
    }

    pub fn no_crash(&self) {
        assert_eq!(*self.world.crashes.borrow(), Vec::<String>::new());
    }
}

/// CRC-32 as in ISO 3309, which nginx uses.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8)
            .fold(crc ^ u32::from(*byte), |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[test]
fn the_checksum_is_nginx() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
}
