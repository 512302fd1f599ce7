//! What the configurations of one `filter_name` share in all threads: counts and metrics.

use crate::abi::Exports;
use crate::alarm::Alarm;
use crate::documents::Documents;
use crate::metrics::Metrics;
use crate::outbox::Outbox;
use crate::store::Memory;
use crate::timer::TIMER;
use crate::{routes, runtime};
use diana_base::time::Time;
use diana_limiter::cells::store::{Fault, Loaded, Store, Swap, Version};
use diana_limiter::cells::table::has_ended;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often ended counts are deleted.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// The shared part of all configurations with one `filter_name`.
pub struct Namespace {
    name: Box<[u8]>,
    /// The counts.
    pub store: Counts,
    /// The metrics of all threads.
    pub metrics: Metrics,
    /// The alarm of the main thread's own filter.
    pub main: Arc<Alarm>,
    /// The calls that wait for the main thread.
    pub outbox: Outbox,
    /// Rings when the main thread looks again after a busy worker.
    pub retry: Arc<Alarm>,
    /// Fires when the main thread is to read Envoy's runtime.
    pub runtime: Arc<Alarm>,
    /// Changes whenever a configuration goes.
    epoch: AtomicU64,
    /// Rings when ended counts are due to be deleted.
    pub sweep: Arc<Alarm>,
    /// Whether the next deletion is planned.
    pub is_sweep_planned: AtomicBool,
}

/// All namespaces, and the last root context's number. A namespace without configurations stays, so
/// that the next configuration of its name reuses the VMs.
struct Registry {
    /// Each with its configurations.
    namespaces: Vec<(Arc<Namespace>, Vec<u32>)>,
    last_root: u32,
    documents: Documents,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { namespaces: Vec::new(), last_root: 0, documents: Documents::new() });

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// Streams have numbers in the upper half.
    fn next_root(&mut self) -> u32 {
        self.last_root = self.last_root.wrapping_add(1) & !FIRST_STREAM;
        self.last_root
    }

    /// Makes each namespace report to Envoy which documents are in use.
    fn documents_changed(&self) {
        let in_use = self.namespaces.iter().filter(|(_, roots)| !roots.is_empty());
        in_use.for_each(|(namespace, _)| namespace.metrics.changed());
    }
}

impl Namespace {
    /// The namespace of this name, and a new root context in it. Each root ends by
    /// [`leave`](Namespace::leave).
    pub fn enter(name: &[u8]) -> (Arc<Namespace>, u32) {
        let mut registry = registry();
        let root = registry.next_root();
        if let Some((known, roots)) = registry.namespaces.iter_mut().find(|(known, _)| *known.name == *name) {
            if roots.is_empty() {
                known.store.0.open();
            }
            roots.push(root);
            return (Arc::clone(known), root);
        }
        let namespace = Arc::new(Namespace {
            name: name.into(),
            store: Counts::default(),
            metrics: Metrics::default(),
            main: Arc::default(),
            outbox: Outbox::default(),
            retry: Arc::default(),
            runtime: Arc::default(),
            epoch: AtomicU64::new(0),
            sweep: Arc::default(),
            is_sweep_planned: AtomicBool::new(false),
        });
        registry.namespaces.push((Arc::clone(&namespace), vec![root]));
        (namespace, root)
    }

    /// Ends a root context. The end of the namespace's last root frees the counts. A configuration
    /// that enters meanwhile waits: it must find the memory open.
    pub fn leave(&self, root: u32) {
        let mut registry = registry();
        registry.namespaces.iter_mut().for_each(|(_, roots)| roots.retain(|known| *known != root));
        let is_over = |roots: &[u32]| roots.is_empty();
        let ends =
            registry.namespaces.iter().any(|(known, roots)| std::ptr::eq(&**known, self) && is_over(roots));
        self.epoch.fetch_add(1, Ordering::Release);
        if ends {
            for alarm in [&self.main, &self.retry, &self.runtime, &self.sweep, &self.metrics.flush] {
                TIMER.remove(alarm);
            }
            self.store.0.close();
            self.is_sweep_planned.store(false, Ordering::Relaxed);
        }
        if registry.documents.remove(root) {
            registry.documents_changed();
        }
    }

    /// Ends the module's thread if there is no root context. Call this after workers have freed a
    /// configuration, because freeing may set deadlines.
    pub fn rest() {
        // While the lock is held, no thread makes a configuration that needs the timer's thread.
        let registry = registry();
        if registry.namespaces.iter().all(|(_, roots)| roots.is_empty()) {
            TIMER.end();
        }
    }

    /// Reads Envoy's runtime, and plans the next time. Only on the main thread.
    pub fn read_runtime(&self, envoy: &Exports) {
        if runtime::read(envoy) {
            TIMER.set_deadline(&self.runtime, Instant::now().checked_add(runtime::READ_EVERY));
        }
    }

    /// Deletes counts that have ended, if that is due, whatever configurations there are, and plans
    /// the next time while there are counts. Call this on the main thread only.
    pub fn sweep(&self) {
        if self.sweep.take_due() {
            self.remove_ended(SystemTime::now());
            self.is_sweep_planned.store(false, Ordering::Relaxed);
        }
        if !self.is_sweep_planned.load(Ordering::Relaxed) && !self.store.0.is_empty() {
            let is_planned = TIMER.set_deadline(&self.sweep, Instant::now().checked_add(SWEEP_EVERY));
            self.is_sweep_planned.store(is_planned, Ordering::Relaxed);
        }
    }

    /// Deletes counts that have ended at this time.
    fn remove_ended(&self, now: SystemTime) {
        let now = now.duration_since(UNIX_EPOCH).ok().and_then(|since| u64::try_from(since.as_nanos()).ok());
        if let Some(now) = now.map(Time::from_ns) {
            self.store.0.remove(|key, value| has_ended(key, value, now));
        }
    }

    /// The number of a root context for a route. It ends with its listener's root, or with the
    /// route's document.
    pub fn root_for_route() -> u32 {
        registry().next_root()
    }

    /// Makes the main thread look in all namespaces for what the document of a route has left.
    pub fn route_has_gone() {
        let all: Vec<_> = registry().namespaces.iter().map(|(known, _)| Arc::clone(known)).collect();
        all.iter().for_each(|namespace| namespace.main.ring());
    }

    /// Notes the fingerprints of the documents that these roots use.
    pub fn show_documents(in_use: &[(u32, u64)]) {
        let mut registry = registry();
        let Registry { namespaces, documents, .. } = &mut *registry;
        let lives = |root| namespaces.iter().flat_map(|(_, roots)| roots).any(|known| *known == root);
        let in_use = in_use.iter().filter(|(root, _)| lives(*root));
        // Each root is added.
        let has_changed = in_use.fold(false, |changed, (root, of)| documents.add(*root, *of) || changed);
        if has_changed {
            registry.documents_changed();
        }
    }

    /// Reports how many configurations use each document, unless `told` is the version of the last
    /// change. No other thread reports meanwhile, so Envoy does not keep an earlier number.
    pub fn tell_documents(told: &AtomicU64, tell: impl FnMut(&str, u64)) {
        registry().documents.tell(told, tell);
    }

    /// A number that changes whenever a configuration or the document of a route goes.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire).wrapping_add(routes::epoch())
    }

    /// How many keys the counts of all namespaces have.
    pub fn keys() -> usize {
        registry().namespaces.iter().map(|(known, _)| known.store.0.len()).sum()
    }

    /// Whether this root's configuration exists.
    pub fn has(&self, root: u32) -> bool {
        let registry = registry();
        let own = registry.namespaces.iter().find(|(known, _)| std::ptr::eq(&**known, self));
        own.is_some_and(|(_, roots)| roots.contains(&root))
    }
}

/// Numbers of streams begin here, those of root contexts are lower.
pub const FIRST_STREAM: u32 = 1 << 31;

/// The counts of a namespace.
#[derive(Clone, Default)]
pub struct Counts(pub Arc<Memory>);

impl Store for Counts {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        self.0.load(key)
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        self.0.swap(key, value, expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diana_base::time::Span;
    use diana_limiter::cells::table::{Loss, StateEntry, Table};
    use std::thread;

    /// As an hour later, whatever configurations there are.
    #[test]
    fn counts_that_have_ended_are_deleted() {
        let (namespace, root) = Namespace::enter(b"swept");
        let (begin, hour) = (UNIX_EPOCH + Duration::from_secs(1_795_392_000), Duration::from_secs(3_600));
        let now = Time::from_ns(1_795_392_000_000_000_000);
        let state = StateEntry { identity: 4, size: 8, keeps_rest: false };
        let table = |name| Table::new(name, vec![state], 1_000);
        let write = |name, actor: u64, lasts| {
            let hash = actor.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let set = table(name).load(&namespace.store, hash).unwrap();
            let mut entry = set.claim(now, |_, _| Loss::Nothing).unwrap();
            entry.write(&[1; 8], now, |_, _| lasts);
            assert_eq!(entry.commit(&namespace.store), Ok(Swap::Done));
        };
        (0..50).for_each(|actor| write("short", actor, Span::from_secs(60)));
        let short = namespace.store.0.len();
        (0..50).for_each(|actor| write("long", actor, Span::from_secs(86_400)));
        let all = namespace.store.0.len();
        assert_eq!(namespace.store.swap(b"diana/seed", b"seed", None), Ok(Swap::Done));
        namespace.remove_ended(begin);
        assert_eq!(namespace.store.0.len(), all + 1);
        namespace.remove_ended(begin + hour);
        assert_eq!(namespace.store.0.len(), all - short + 1);
        namespace.remove_ended(begin + hour * 25);
        assert_eq!(namespace.store.0.len(), 1, "the seed");
        namespace.leave(root);
    }

    #[test]
    fn configurations_of_one_name_share_counts_until_the_last_goes() {
        let ((one, first), (two, second), (other, third)) =
            (Namespace::enter(b"one"), Namespace::enter(b"one"), Namespace::enter(b"other"));
        assert!(Arc::ptr_eq(&one, &two) && !Arc::ptr_eq(&one, &other));
        assert!(first != second && one.has(first) && one.has(second) && !one.has(third));
        assert_eq!(one.store.swap(b"key", b"value", None), Ok(Swap::Done));
        assert_eq!(other.store.load(b"key"), Ok(None));
        let epoch = one.epoch();
        one.leave(first);
        assert!(!one.has(first) && one.has(second) && one.epoch() != epoch);
        assert!(two.store.load(b"key").unwrap().is_some());
        one.leave(second);
        assert!(two.store.load(b"key").is_err(), "the memory is returned");
        let (anew, root) = Namespace::enter(b"one");
        assert!(Arc::ptr_eq(&anew, &two));
        assert_eq!(anew.store.load(b"key"), Ok(None));
        anew.leave(root);
        other.leave(third);
    }

    /// Envoy makes configurations on the main thread, and deletes them on any thread.
    #[test]
    fn a_configuration_has_counts_also_if_the_last_one_goes_meanwhile() {
        // Keeps the module's thread running, which other tests use.
        let (other, kept) = Namespace::enter(b"kept");
        // One thread often comes while the other goes.
        let come_and_go = || {
            let come_and_go = |_: &u32| {
                let (namespace, root) = Namespace::enter(b"raced");
                thread::yield_now();
                let has_counts = namespace.store.load(b"key").is_ok();
                namespace.leave(root);
                has_counts
            };
            (0..50_000).filter(|turn| !come_and_go(turn)).count()
        };
        let failed = thread::scope(|scope| {
            let other = scope.spawn(come_and_go);
            come_and_go() + other.join().unwrap()
        });
        other.leave(kept);
        assert_eq!(failed, 0, "times, the memory of a configuration was closed");
    }
}
