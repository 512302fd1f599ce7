//! Reports changes to Envoy: through a configuration, or in Envoy 1.38 through a stream.

use crate::abi::{Bytes, ConfigPtr, Exports, StreamPtr};
use diana_filter::metrics::MetricKind;

/// Envoy's functions that change a metric, all for a configuration or all for a stream.
type Call = unsafe extern "C" fn(*mut std::ffi::c_void, usize, *const Bytes, usize, u64) -> u32;

/// One change to report to Envoy.
#[derive(Debug, PartialEq)]
pub enum Change {
    /// Adds to a counter or a gauge.
    Add(i64),
    /// Sets a gauge, or adds a value to a histogram.
    Record(u64),
}

/// The way to Envoy's metrics.
#[derive(Clone, Copy)]
pub struct Sink {
    of: *mut std::ffi::c_void,
    counter: Call,
    increment: Call,
    decrement: Call,
    set: Call,
    histogram: Call,
}

impl Sink {
    /// Through a configuration; `None` in Envoy 1.38.
    ///
    /// # Safety
    /// The configuration lives while the sink is used, and this is a thread of Envoy's.
    pub unsafe fn config(envoy: &Exports, config: ConfigPtr) -> Option<Sink> {
        Some(Sink {
            of: config,
            counter: envoy.http_filter_config_increment_counter?,
            increment: envoy.http_filter_config_increment_gauge?,
            decrement: envoy.http_filter_config_decrement_gauge?,
            set: envoy.http_filter_config_set_gauge?,
            histogram: envoy.http_filter_config_record_histogram_value?,
        })
    }

    /// Through a stream.
    ///
    /// # Safety
    /// The stream lives while the sink is used, and this is its thread.
    pub unsafe fn stream(envoy: &Exports, stream: StreamPtr) -> Sink {
        Sink {
            of: stream,
            counter: envoy.http_filter_increment_counter,
            increment: envoy.http_filter_increment_gauge,
            decrement: envoy.http_filter_decrement_gauge,
            set: envoy.http_filter_set_gauge,
            histogram: envoy.http_filter_record_histogram_value,
        }
    }

    /// Reports one change to Envoy. Ignores errors, because nothing may fail because of a metric.
    pub fn tell(self, kind: MetricKind, id: usize, labels: &[Box<str>], change: &Change) {
        let (call, value) = match (kind, change) {
            // Envoy shows a histogram from its definition on.
            (MetricKind::Histogram, Change::Add(_)) => return,
            (MetricKind::Counter, Change::Add(by)) => (self.counter, by.unsigned_abs()),
            (_, Change::Add(by)) if *by >= 0 => (self.increment, by.unsigned_abs()),
            (_, Change::Add(by)) => (self.decrement, by.unsigned_abs()),
            (MetricKind::Counter, Change::Record(value)) => (self.counter, *value),
            (MetricKind::Gauge, Change::Record(value)) => (self.set, *value),
            (MetricKind::Histogram, Change::Record(value)) => (self.histogram, *value),
        };
        let labels: Vec<Bytes> = labels.iter().map(|label| Bytes::of(label.as_bytes())).collect();
        // SAFETY: the sink's configuration or stream lives, and the labels live through the call.
        unsafe { call(self.of, id, labels.as_ptr(), labels.len(), value) };
    }
}
