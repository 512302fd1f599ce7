//! Defines all metrics with one configuration: Envoy takes definitions only while a configuration
//! is made. The series of a metric differ by labels, so a remote document needs no definition.

use crate::abi::{Bytes, ConfigPtr, Exports, SUCCESS};
use diana_filter::metrics::{METRICS, MetricKind};
use log::warn;

/// What Envoy puts before each name, in an Envoy with `metrics_namespace: diana`.
const NAMESPACE: &str = "diana_";

/// The name of the counter of caught panics.
const PANICS: &str = "panics";

/// Envoy's numbers of the metrics of one configuration.
pub struct Ids {
    /// By the metric's place in [`METRICS`]; `None` if Envoy does not define it.
    ids: Vec<Option<usize>>,
    /// The number of the counter of panics.
    pub panics: usize,
}

impl Ids {
    /// Envoy's number of a metric.
    #[must_use]
    pub fn of(&self, metric: usize) -> Option<usize> {
        self.ids.get(metric).copied().flatten()
    }
}

/// Defines all metrics.
///
/// # Safety
/// Envoy is making this configuration.
pub unsafe fn define(envoy: &Exports, config: ConfigPtr) -> Ids {
    let define = |kind: MetricKind, name: &str, labels: &[&str]| {
        let labels: Vec<Bytes> = labels.iter().map(|label| Bytes::of(label.as_bytes())).collect();
        let call = match kind {
            MetricKind::Counter => envoy.http_filter_config_define_counter,
            MetricKind::Gauge => envoy.http_filter_config_define_gauge,
            MetricKind::Histogram => envoy.http_filter_config_define_histogram,
        };
        let mut id = 0;
        // SAFETY: Envoy is making the configuration; the name and the labels live through the call,
        // and Envoy writes a number.
        let result =
            unsafe { call(config, Bytes::of(name.as_bytes()), labels.as_ptr(), labels.len(), &raw mut id) };
        (result == SUCCESS).then_some(id)
    };
    // Two metrics may be series of one name: requests of rules, and of the lists.
    let mut known: Vec<(String, Option<usize>)> = Vec::new();
    let mut ids = Vec::with_capacity(METRICS.len());
    for metric in METRICS {
        let (name, labels) = metric.prometheus();
        let name = name.strip_prefix(NAMESPACE).unwrap_or(&name).to_owned();
        let id = match known.iter().find(|(other, _)| *other == name) {
            Some((_, id)) => *id,
            None => define(metric.kind, &name, &labels),
        };
        known.push((name, id));
        ids.push(id);
    }
    let panics = define(MetricKind::Counter, PANICS, &[]);
    if ids.contains(&None) || panics.is_none() {
        warn!("Envoy does not define all metrics");
    }
    // Envoy refuses a number that it does not know.
    Ids { ids, panics: panics.unwrap_or(usize::MAX) }
}
