//! One configuration of Envoy's filter, which all threads share.

use crate::abi::{ConfigPtr, Exports};
use crate::alarm::Bell;
use crate::callouts::{Caller, Callouts};
use crate::calls::ConfigBell;
use crate::metrics::{self, Change, Ids, Sink};
use crate::namespace::Namespace;
use crate::secret::SharedSecret;
use crate::timer::TIMER;
use diana_filter::metrics::{Each, METRICS, MetricKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// After this span the main thread looks again whether a worker is busy.
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// One configuration.
pub struct FilterConfig {
    pub envoy: &'static Exports,
    pub namespace: Arc<Namespace>,
    /// Its root context.
    pub root: u32,
    /// The document.
    pub document: Arc<[u8]>,
    /// The store's secret, if Envoy delivers it.
    pub secret: Option<SharedSecret>,
    /// Envoy's numbers of the metrics.
    pub ids: Ids,
    /// The version of the documents that this configuration has told Envoy.
    told_documents: AtomicU64,
    /// The calls to stores and document servers.
    pub callouts: Callouts,
    pointer: Pointer,
    has_left: AtomicBool,
}

/// Envoy's configuration.
struct Pointer(ConfigPtr);

// SAFETY: the pointer is used on the thread of an event only, and Envoy keeps the configuration
// until the event ends.
unsafe impl Send for Pointer {}
// SAFETY: the same.
unsafe impl Sync for Pointer {}

/// A bell that several alarms share.
struct SharedBell(Arc<ConfigBell>);

impl Bell for SharedBell {
    fn ring(&self) {
        self.0.ring();
    }
}

impl FilterConfig {
    /// A configuration with this document; `None` if Envoy does not know its secret.
    ///
    /// # Safety
    /// Envoy is making the configuration `pointer`, and [`leave`](FilterConfig::leave) is called
    /// before Envoy deletes it.
    pub unsafe fn new(
        envoy: &'static Exports,
        pointer: ConfigPtr,
        name: &[u8],
        document: &[u8],
    ) -> Option<FilterConfig> {
        // SAFETY: by the caller's promise.
        let secret = unsafe { SharedSecret::follow(envoy, pointer, document) };
        let secret = secret.inspect_err(|why| log::error!("configuration refused, {why}")).ok()?;
        let document: Arc<[u8]> = document.into();
        let (namespace, root) = Namespace::enter(name);
        // SAFETY: by the caller's promise.
        let (ids, bell) = unsafe { (metrics::define(envoy, pointer), ConfigBell::new(envoy, pointer)) };
        let bell = Arc::new(bell);
        let shared = || Box::new(SharedBell(Arc::clone(&bell)));
        namespace.main.add(root, shared());
        namespace.retry.add(root, shared());
        namespace.runtime.add(root, shared());
        namespace.read_runtime(envoy);
        namespace.sweep.add(root, shared());
        namespace.outbox.add(root, shared());
        if can_flush(envoy) {
            namespace.metrics.flush.add(root, shared());
        }
        let pointer = Pointer(pointer);
        let callouts = Callouts::default();
        Some(FilterConfig {
            envoy,
            namespace,
            root,
            document,
            secret,
            ids,
            told_documents: AtomicU64::new(0),
            callouts,
            pointer,
            has_left: AtomicBool::new(false),
        })
    }

    /// Envoy's configuration. It lives only during an event of this configuration or of one of its
    /// streams.
    pub fn pointer(&self) -> ConfigPtr {
        self.pointer.0
    }

    /// The configuration as Envoy makes calls for it.
    pub fn caller(&self) -> Caller {
        Caller { envoy: self.envoy, pointer: self.pointer() }
    }

    /// Makes the calls that wait, if this is the newest configuration.
    ///
    /// # Safety
    /// This is an event of the configuration on the main thread.
    pub unsafe fn make_calls(&self) {
        // SAFETY: by the caller's promise.
        unsafe { self.callouts.make(self.caller(), self.namespace.outbox.take(self.root)) };
    }

    /// Makes Envoy run the module on the main thread a little later, because a worker was busy.
    pub fn retry_soon(&self) {
        let alarm = &self.namespace.retry;
        _ = TIMER.set_deadline(alarm, Instant::now().checked_add(RETRY_AFTER));
    }

    /// Reports the metrics of all threads to Envoy, if a report is due and a configuration can
    /// report.
    ///
    /// # Safety
    /// This is an event of the configuration, on a thread of Envoy's.
    pub unsafe fn flush_if_due(&self) {
        if can_flush(self.envoy) && self.namespace.metrics.flush.take_due() {
            // SAFETY: by the caller's promise.
            unsafe { self.flush() };
        }
    }

    /// Reports the metrics of all threads to Envoy, if a configuration can report.
    ///
    /// # Safety
    /// This is an event of the configuration, on a thread of Envoy's.
    pub unsafe fn flush(&self) {
        // SAFETY: by the caller's promise.
        if let Some(sink) = unsafe { Sink::config(self.envoy, self.pointer()) } {
            self.flush_to(sink);
        }
    }

    /// Reports the metrics of all threads, and the documents in use.
    pub fn flush_to(&self, sink: Sink) {
        self.namespace.metrics.flush(&self.ids, sink);
        let metric = METRICS.iter().position(|metric| metric.each == Each::Document);
        if let Some(id) = metric.and_then(|metric| self.ids.of(metric)) {
            Namespace::tell_documents(&self.told_documents, |fingerprint, uses| {
                sink.tell(MetricKind::Gauge, id, &[fingerprint.into()], &Change::Record(uses));
            });
        }
    }

    /// Ends the configuration: no thread rings its bells any more, and its calls count as failed.
    /// Repeated calls have no effect.
    pub fn leave(&self) {
        if self.has_left.swap(true, Ordering::Relaxed) {
            return;
        }
        self.namespace.outbox.remove(self.root);
        self.callouts.end_all();
        self.namespace.main.remove(self.root);
        self.namespace.retry.remove(self.root);
        self.namespace.runtime.remove(self.root);
        self.namespace.sweep.remove(self.root);
        self.namespace.metrics.flush.remove(self.root);
        self.namespace.leave(self.root);
    }
}

/// A configuration ends also if a panic keeps it from being made.
impl Drop for FilterConfig {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Whether a configuration can report metrics to Envoy. In Envoy 1.38 only a stream can.
pub fn can_flush(envoy: &Exports) -> bool {
    envoy.http_filter_config_increment_counter.is_some()
}
