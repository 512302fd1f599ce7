//! The metrics of one configuration in one worker: defines them when the configuration is accepted,
//! then counts. `table.rs` has all names. A new metric is a line there and a call of `add` here.

mod table;

pub(super) use table::{ChangeLabel, PollLabel, QuestionLabel};
pub use table::{Each, METRICS, Metric, MetricKind, Series};

use super::access_log::whole_ms;
use crate::{Host, HostKind};
use diana_base::exclusive::Exclusive;
use diana_base::format::{hex, sanitize};
use diana_base::map::KeyMap;
use diana_base::time::Span;
use diana_config::Configuration;
use diana_inspect::rates;
use diana_limiter::cells::Events;
use diana_limiter::cells::table::{ACTORS_OF_A_SET, Hasher};
use diana_limiter::decide::{Decision, Outcome, Reason, RuleResult};
use diana_limiter::global::CallStats as Calls;
use diana_limiter::policy::{Policy, RuleId};
use log::warn;
use std::borrow::Cow;
use std::cell::Cell;
use table::{DeniedLabel, EvictionLabel, Id, OutcomeLabel, ResultLabel};

/// The host's ids by name, for the life of the VM. Envoy makes a new id for each definition and
/// never frees one.
#[derive(Debug, Default)]
pub(super) struct Ids {
    series: Exclusive<KeyMap<u32>>,
    documents: Exclusive<Vec<Document>>,
}

/// The gauge of a document.
#[derive(Debug)]
struct Document {
    /// `None` for all documents without a gauge of their own.
    fingerprint: Option<u64>,
    id: Option<u32>,
    /// What this VM has added to the gauge. All VMs of a host share the gauge, also those that
    /// share nothing else.
    shown: i64,
}

/// The most documents that get a gauge of their own in the life of a VM, because hosts never delete
/// a gauge. Later documents share one.
pub const MAX_DOCUMENTS: usize = 256;

/// The most counters of a VM, because hosts never delete one: a document server may rename rules
/// for ever. Further rules have none.
const MAX_COUNTERS: usize = 1 << 18;

/// The most counters of a restricted host, which ends the VM when the memory for metrics is full.
/// With up to 48 workers, a counter takes up to 1 KiB, so the default of 5 MiB holds this many.
const MAX_RESTRICTED: usize = 4_096;

impl Ids {
    /// The id of the metric with this name, which `new` defines in the host; `None` if the host
    /// does not define it, or has `most` metrics.
    fn define(&self, name: &str, most: usize, new: impl FnOnce() -> Option<u32>) -> Option<u32> {
        let define = |ids: &mut KeyMap<u32>| {
            if let Some(id) = ids.get(name.as_bytes()) {
                return Some(*id);
            }
            let id = (ids.values().len() < most).then(new).flatten()?;
            ids.insert(name.as_bytes(), id);
            Some(id)
        };
        self.series.with(define).flatten()
    }

    /// Increments the gauges of documents that this VM has begun to use, and decrements those of
    /// documents that it no longer uses. `in_use` has the document of each configuration, by root
    /// context.
    pub(super) fn show_documents(&self, host: impl Host, in_use: &[(u32, u64)]) {
        let Some(metric) = METRICS.get(Id::ConfigInfo as usize) else {
            return;
        };
        self.documents.with(|documents| {
            let mut shown = Vec::new();
            for (_, fingerprint) in in_use {
                let is_own = |known: &Document| known.fingerprint == Some(*fingerprint);
                let has_own = documents.len() < MAX_DOCUMENTS || documents.iter().any(is_own);
                let fingerprint = has_own.then_some(*fingerprint);
                shown.push(fingerprint);
                if !documents.iter().any(|known| known.fingerprint == fingerprint) {
                    let of = fingerprint.map_or("other".into(), fingerprint_text);
                    let id = host.define_metric(&Series { metric, of: &of, value: "" });
                    documents.push(Document { fingerprint, id, shown: 0 });
                }
            }
            for document in documents {
                let uses = shown.iter().filter(|fingerprint| **fingerprint == document.fingerprint).count();
                let uses = i64::try_from(uses).unwrap_or(i64::MAX);
                let by = uses.saturating_sub(std::mem::replace(&mut document.shown, uses));
                document.id.filter(|_| by != 0).into_iter().for_each(|id| host.increment(id, by));
            }
        });
    }
}

/// The metrics of one configuration in one worker.
#[derive(Debug)]
pub(super) struct Metrics<H: Host> {
    host: H,
    /// By metric. Each entry lists the values of the first rule or cluster, then of the second, and
    /// so on.
    series: Vec<Vec<Option<u32>>>,
    deferred: Deferred,
}

/// Increments that reach the host later, because a call of the host costs more than a decision from
/// the worker's memory: each counter with its sum.
#[derive(Debug, Default)]
struct Deferred {
    sums: Exclusive<Vec<(u32, u32)>>,
    /// Whether increments are deferred now.
    is_on: Cell<bool>,
}

/// The most counters whose increments wait. A decision of few rules needs three.
const MAX_DEFERRED: usize = 16;

/// The rules, clusters or versions for which a configuration has a metric, in their order. `None`
/// keeps the place of a rule without the metric.
fn instances<'a>(
    each: Each,
    configuration: &'a Configuration,
    clusters: &'a [String],
    kind: HostKind,
) -> Vec<Option<Cow<'a, str>>> {
    let Configuration { policy, remote, inspect, near_limit, soft_limits, .. } = configuration;
    let one_if = |exists: bool| exists.then_some(Some(Cow::from(""))).into_iter().collect();
    match each {
        Each::Configuration => one_if(true),
        Each::RestrictedHost => one_if(kind == HostKind::Restricted),
        Each::Version => vec![Some(sanitize(crate::VERSION).replace('_', "-").into())],
        Each::Rule => policy.rules().map(|(_, rule)| Some(rule.name().into())).collect(),
        Each::GlobalRule => {
            policy.rules().map(|(_, rule)| rule.is_global().then(|| rule.name().into())).collect()
        }
        Each::NearRule if near_limit.is_none() => Vec::new(),
        Each::NearRule => policy.rules().map(|(_, rule)| Some(rule.name().into())).collect(),
        Each::OverRule => some_rules(policy, &mut soft_limits.thresholds().iter().map(|limit| limit.rule)),
        Each::AdaptiveRule => some_rules(policy, &mut policy.adaptive_limits().map(|(rule, _)| rule)),
        Each::Table => some_rules(policy, &mut policy.tables().map(|(rule, _)| rule)),
        // These series come when the document is activated: see `Ids::show_documents`.
        Each::Document => Vec::new(),
        Each::Cluster => clusters.iter().map(|cluster| Some(sanitize(cluster).into())).collect(),
        Each::Store => one_if(policy.replicas().is_some()),
        Each::Remote => one_if(remote.is_some()),
        Each::Inspect => one_if(inspect.is_some()),
        Each::AllowList => one_if(policy.has_allow_list()),
        Each::DenyList => one_if(policy.has_deny_list()),
    }
}

/// The names of these rules, each at the place of its rule.
fn some_rules<'p>(policy: &'p Policy, rules: &mut dyn Iterator<Item = RuleId>) -> Vec<Option<Cow<'p, str>>> {
    let mut all = vec![None; policy.rules().count()];
    for rule in rules {
        if let (Some(slot), Some(rule)) = (all.get_mut(rule.index()), policy.rule(rule)) {
            *slot = Some(rule.name().into());
        }
    }
    all
}

impl<H: Host> Metrics<H> {
    /// Defines every metric of the configuration, so that each exists with 0. A metric that the
    /// host does not define is left out, because a missing metric must not cause an outage.
    pub(super) fn new(
        (host, kind): (H, HostKind),
        configuration: &Configuration,
        clusters: &[String],
        ids: &Ids,
    ) -> Metrics<H> {
        let most = if kind.has_all_metrics() { MAX_COUNTERS } else { MAX_RESTRICTED };
        let mut missing = 0_u32;
        let mut define = |metric: &'static Metric, of: Option<Cow<str>>, value: &str| {
            let id = of.map(|of| {
                let series = Series { metric, of: &of, value };
                ids.define(&series.name(), most, || host.define_metric(&series))
            });
            missing = missing.saturating_add((id == Some(None)).into());
            id.flatten()
        };
        let mut series = Vec::with_capacity(METRICS.len());
        for metric in METRICS {
            let mut all = Vec::new();
            if metric.kind == MetricKind::Counter || kind.has_all_metrics() {
                let values = if metric.values.is_empty() { &[""] } else { metric.values };
                for of in instances(metric.each, configuration, clusters, kind) {
                    all.extend(values.iter().map(|value| define(metric, of.clone(), value)));
                }
            }
            series.push(all);
        }
        if missing > 0 {
            warn!("the host does not define {missing} of the metrics");
        }
        let metrics = Metrics { host, series, deferred: Deferred::default() };
        metrics.record(Id::BuildInfo, 0, 1);
        for (rule, sets) in configuration.policy.tables() {
            metrics.record(Id::CellsRoom, rule.index(), sets.saturating_mul(ACTORS_OF_A_SET));
        }
        // The gauge exists only with a store.
        metrics.record(Id::SecretFingerprint, 0, configuration.policy.fingerprint().into());
        metrics.limits(&configuration.policy);
        metrics
    }

    /// Sets the gauges of adaptive limits and of the number of gateways.
    pub(super) fn limits(&self, policy: &Policy) {
        policy.replicas().into_iter().for_each(|replicas| self.record(Id::Replicas, 0, replicas.number()));
        for (rule, limit) in policy.adaptive_limits() {
            self.record(Id::Limit, rule.index(), limit);
        }
    }

    #[inline]
    fn id(&self, metric: Id, of: usize, value: usize) -> Option<u32> {
        let series = self.series.get(metric as usize)?;
        let values = METRICS.get(metric as usize)?.values.len().max(1);
        *series.get(of.checked_mul(values)?.checked_add(value)?)?
    }

    /// Adds to a counter without a label of values. `of` is the index of the rule or cluster.
    fn add(&self, metric: Id, of: usize, by: u32) {
        self.add_to(metric, of, 0_usize, by);
    }

    /// Adds to a counter, for this value of its label.
    fn add_to(&self, metric: Id, of: usize, value: impl Into<usize>, by: u32) {
        self.increment(metric, of, value.into(), by);
    }

    // Out of line, because a decision counts several times.
    #[inline(never)]
    fn increment(&self, metric: Id, of: usize, value: usize, by: u32) {
        if by > 0
            && let Some(id) = self.id(metric, of, value)
            && !(self.deferred.is_on.get() && self.deferred.add(id, by))
        {
            self.host.increment(id, by.into());
        }
    }

    /// Counts a decision from the worker's memory. The host gets the counts with
    /// [`Metrics::flush`].
    pub(super) fn defer(&self, decision: &Decision) {
        self.deferred.is_on.set(true);
        self.decision(decision);
        self.deferred.is_on.set(false);
    }

    /// Whether counts wait for [`Metrics::flush`].
    pub(super) fn has_deferred(&self) -> bool {
        self.deferred.sums.with(|sums| !sums.is_empty()) == Some(true)
    }

    /// Hands the counts of deferred decisions to the host.
    pub(super) fn flush(&self) {
        let increment = |(id, by): (u32, u32)| self.host.increment(id, by.into());
        self.deferred.sums.with(|sums| sums.drain(..).for_each(increment));
    }

    /// Sets a gauge, or adds a value to a histogram.
    fn record(&self, metric: Id, of: usize, value: u64) {
        if let Some(id) = self.id(metric, of, 0) {
            self.host.record(id, value);
        }
    }

    /// Counts a decision. A rule that would admit a request has no result if another rule refuses
    /// it.
    pub(super) fn decision(&self, decision: &Decision) {
        if decision.is_plain() {
            let rules = decision.checks.iter().map(|check| check.rule().index());
            rules.for_each(|rule| self.add_to(Id::Requests, rule, ResultLabel::Ok, 1));
            return self.add_to(Id::Decisions, 0, OutcomeLabel::Passed, 1);
        }
        for check in decision.checks.iter() {
            let result = match check.result() {
                RuleResult::Admitted | RuleResult::Uncounted if decision.is_rejected() => None,
                RuleResult::Admitted if check.would_delay() => Some(ResultLabel::Delayed),
                RuleResult::Admitted => Some(ResultLabel::Ok),
                // `diana_over` counts it as well.
                RuleResult::Shadowed if check.is_marked() => Some(ResultLabel::Ok),
                RuleResult::Refused => Some(ResultLabel::Refused),
                RuleResult::Shadowed => Some(ResultLabel::Shadow),
                RuleResult::Uncounted => Some(ResultLabel::Error),
            };
            let rule = check.rule().index();
            result.into_iter().for_each(|result| self.add_to(Id::Requests, rule, result, 1));
            self.add(Id::Degraded, rule, check.is_degraded().into());
        }
        let outcome = match decision.outcome {
            Outcome::Reject(Reason::Denied) => OutcomeLabel::Denied,
            Outcome::Reject(_) => OutcomeLabel::Refused,
            Outcome::Allowed => OutcomeLabel::Allowed,
            Outcome::Pass | Outcome::Delay(_) if is_unlimited(decision) => OutcomeLabel::Error,
            Outcome::Delay(_) => OutcomeLabel::Delayed,
            Outcome::Pass => OutcomeLabel::Passed,
            // The decision is counted once it is made.
            Outcome::Query(_) => return,
        };
        self.add_to(Id::Decisions, 0, outcome, 1);
        match decision.outcome {
            Outcome::Allowed => self.add(Id::Allowed, 0, 1),
            Outcome::Reject(Reason::Denied) => self.add_to(Id::Denied, 0, DeniedLabel::Refused, 1),
            _ => {}
        }
        self.add_to(Id::Denied, 0, DeniedLabel::Shadow, decision.events.denied_in_shadow);
        self.events(&decision.events);
    }

    /// Counts a request that passes and leaves little of this rule's quota.
    pub(super) fn near_limit(&self, rule: RuleId) {
        self.add(Id::NearLimit, rule.index(), 1);
    }

    /// Counts a request beyond the lowest threshold of this rule.
    pub(super) fn over(&self, rule: RuleId) {
        self.add(Id::Over, rule.index(), 1);
    }

    /// Counts a request that is not held, because the worker already holds the maximum.
    pub(super) fn unheld(&self) {
        self.add(Id::UnheldRequests, 0, 1);
    }

    /// Counts the calls to a global store.
    pub(super) fn calls(&self, shard: usize, stats: &Calls) {
        self.add(Id::Calls, shard, stats.calls);
        self.add(Id::FailedCalls, shard, stats.failed);
        self.add(Id::Queries, shard, stats.queries);
        self.add(Id::DroppedRefunds, shard, stats.dropped_refunds);
        self.add(Id::StrayReplies, shard, stats.stray);
        for duration in &stats.durations {
            self.record(Id::CallDuration, shard, duration.as_ns().checked_div(1_000).unwrap_or(0));
        }
    }

    /// Records how long a request waited for its turn.
    pub(super) fn waited(&self, waited: Span) {
        self.record(Id::WaitDuration, 0, whole_ms(waited));
    }

    /// The gauge of waiting requests.
    pub(super) fn waiting_requests(&self) -> Option<u32> {
        self.id(Id::WaitingRequests, 0, 0)
    }

    /// Sets how many cells are in use in the table whose first rule this is.
    pub(super) fn used_cells(&self, rule: RuleId, used: u64) {
        self.record(Id::CellsUsed, rule.index(), used);
    }

    /// The totals over all workers that [`rates`] samples: the requests of each rule by result, and
    /// the calls and failed calls of each store. Empty if the host does not report them.
    #[cold]
    #[inline(never)]
    pub(super) fn series(&self, policy: &Policy, clusters: &[String]) -> Vec<rates::Series> {
        self.flush();
        let rules = policy.rules().map(|(rule, compiled)| {
            let of = |result: ResultLabel| self.id(Id::Requests, rule.index(), result.into());
            (rule_series(compiled.name()), RATES.map(of))
        });
        let stores = clusters.iter().enumerate().map(|(shard, cluster)| {
            let ids = [self.id(Id::Calls, shard, 0), self.id(Id::FailedCalls, shard, 0), None, None];
            (store_series(cluster), ids)
        });
        let all: Vec<(u64, [Option<u32>; rates::COUNTERS])> = rules.chain(stores).collect();
        let ids: Vec<u32> = all.iter().flat_map(|(_, ids)| ids).flatten().copied().collect();
        let Some(values) = self.host.read_metrics(&ids) else {
            return Vec::new();
        };
        let mut values = values.into_iter();
        let mut read = |id: Option<u32>| id.and_then(|_| values.next()).unwrap_or(0);
        all.into_iter().map(|(id, ids)| rates::Series { id, totals: ids.map(&mut read) }).collect()
    }

    /// Counts that this worker has switched to the document of this generation; 0: no document.
    pub(super) fn switched(&self, generation: u64) {
        self.add(Id::ConfigSwitches, 0, 1);
        self.generation(generation);
    }

    /// Records the generation of the active document; 0: no document.
    pub(super) fn generation(&self, generation: u64) {
        self.record(Id::ConfigGeneration, 0, generation);
    }

    /// Counts a poll of the document server.
    pub(super) fn poll(&self, result: PollLabel) {
        self.add_to(Id::ConfigPolls, 0, result, 1);
    }

    /// Counts a question of an operator, or one without the right token.
    pub(super) fn inspected(&self, result: QuestionLabel) {
        self.add_to(Id::InspectQuestions, 0, result, 1);
    }

    /// Counts a change by an operator.
    pub(super) fn changed(&self, kind: ChangeLabel) {
        self.add_to(Id::InspectChanges, 0, kind, 1);
    }

    /// Counts keys that this worker wrote and the host has evicted.
    pub(super) fn lost_keys(&self, keys: u32) {
        self.add(Id::LostKeys, 0, keys);
    }

    /// Counts a refusal in whose place the host sent another response.
    pub(super) fn lost_refusal(&self) {
        self.add(Id::LostRefusals, 0, 1);
    }

    /// Counts what happened in the store.
    pub(super) fn events(&self, events: &Events) {
        self.add_to(Id::Evictions, 0, EvictionLabel::Lossless, events.evicted_lossless);
        self.add_to(Id::Evictions, 0, EvictionLabel::Lossy, events.evicted_lossy);
        self.add_to(Id::Evictions, 0, EvictionLabel::SetFull, events.set_full);
        self.add(Id::LostSwaps, 0, events.swaps_lost);
        self.add(Id::SharedDataErrors, 0, events.faults);
        self.add(Id::ForeignValues, 0, events.foreign);
        self.add(Id::CachedRefusals, 0, events.cached);
        self.add(Id::UnreadCosts, 0, events.unread);
    }
}

/// A plugin may count between its last tick and its end.
impl<H: Host> Drop for Metrics<H> {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Deferred {
    /// Returns whether there was room.
    fn add(&self, id: u32, by: u32) -> bool {
        let add = |sums: &mut Vec<(u32, u32)>| {
            if let Some((_, sum)) = sums.iter_mut().find(|(known, _)| *known == id) {
                *sum = sum.checked_add(by)?;
            } else if sums.len() < MAX_DEFERRED {
                sums.push((id, by));
            } else {
                return None;
            }
            Some(())
        };
        self.sums.with(add).flatten().is_some()
    }
}

/// The results that the series of a rule counts: those of `diana_requests`.
pub(super) const RATES: [ResultLabel; rates::COUNTERS] =
    [ResultLabel::Ok, ResultLabel::Refused, ResultLabel::Shadow, ResultLabel::Error];

/// The id of a rule's series for rates.
pub(super) fn rule_series(rule: &str) -> u64 {
    Hasher::of(&("rule", rule))
}

/// The id of a store's series for rates.
pub(super) fn store_series(cluster: &str) -> u64 {
    Hasher::of(&("store", cluster))
}

/// A fingerprint as the log and the gauge show it: 16 hexadecimal digits.
#[must_use]
pub fn fingerprint_text(fingerprint: u64) -> String {
    let mut text = String::with_capacity(16);
    fingerprint.to_be_bytes().into_iter().for_each(|byte| hex(&mut text, byte));
    text
}

/// Whether an enforced rule could not count the request, so that the rule did not limit it.
fn is_unlimited(decision: &Decision) -> bool {
    decision.checks.iter().any(|check| check.result() == RuleResult::Uncounted && check.is_enforced())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vm_with_all_its_metrics_keeps_them_and_defines_no_more() {
        let ids = Ids::default();
        let most = u32::try_from(MAX_COUNTERS).unwrap();
        for id in 0..most {
            // A metric that the host refuses takes no room.
            assert_eq!(ids.define("refused", MAX_COUNTERS, || None), None);
            assert_eq!(ids.define(&id.to_string(), MAX_COUNTERS, || Some(id)), Some(id));
        }
        for more in ["more", "more", "refused"] {
            assert_eq!(ids.define(more, MAX_COUNTERS, || panic!("the host has all metrics")), None);
        }
        // Rules that come back count in the series that they had.
        for id in [0, 1, most / 2, most - 1] {
            assert_eq!(ids.define(&id.to_string(), MAX_COUNTERS, || panic!("{id} is known")), Some(id));
        }
    }
}
