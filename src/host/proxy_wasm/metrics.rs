//! Counters: requests by rule and result, and what happened to the store.
//!
//! It does not know: Prometheus. Names are made so that Envoy's `stats_tags` can turn
//! `diana.rule.NAME.result.RESULT.requests` into `diana_requests{rule="NAME",result="RESULT"}`; their
//! number is that of the rules, whatever clients send.

use super::calls;
use super::exclusive::Exclusive;
use super::source::Poll;
use crate::index::ByKey;
use crate::policy::{ALLOW, DENY, Decision, Events, Outcome, Policy, Reason, Tally};
use crate::remote::Tally as Calls;
use crate::remote::source::{Compared, Judgement};
use crate::text::plain;
use std::rc::Rc;

/// Ids by name, for the life of the VM: a host makes a new id for each definition and never frees one.
#[derive(Debug, Default)]
pub(super) struct Ids(Exclusive<ByKey<u32>>);

impl Ids {
    /// The id of a counter; `None` as long as the host does not define it.
    fn get(&self, name: String, define: fn(&str) -> Option<u32>) -> Option<u32> {
        let find = |ids: &mut ByKey<u32>| {
            if let Some(id) = ids.get(name.as_bytes()) {
                return Some(*id);
            }
            let id = define(&name)?;
            ids.insert(name.as_bytes(), id);
            Some(id)
        };
        self.0.with(find).flatten()
    }
}

/// A counter that is defined when it is first needed.
#[derive(Debug, Default)]
struct Counter(Option<u32>);

impl Counter {
    fn add(&mut self, ids: &Ids, by: u32, name: impl FnOnce() -> String) {
        if by == 0 {
            return;
        }
        if self.0.is_none() {
            self.0 = ids.get(name(), calls::define_counter);
        }
        if let Some(id) = self.0 {
            calls::increment(id, by);
        }
    }
}

/// What a request came to, as far as a rule or a list is concerned.
#[derive(Clone, Copy, Debug)]
enum Result {
    Ok,
    Refused,
    Shadow,
    Error,
}

impl Result {
    const NAMES: [&str; 4] = ["ok", "refused", "shadow", "error"];
}

/// The counters of one rule, by result.
#[derive(Debug, Default)]
struct Results([Counter; Result::NAMES.len()]);

impl Results {
    fn add(&mut self, ids: &Ids, rule: &str, result: Result) {
        let index = result as usize;
        if let (Some(counter), Some(name)) = (self.0.get_mut(index), Result::NAMES.get(index)) {
            counter.add(ids, 1, || format!("diana.rule.{rule}.result.{name}.requests"));
        }
    }
}

/// The counters of one policy in one worker.
#[derive(Debug)]
pub(super) struct Metrics {
    ids: Rc<Ids>,
    rules: Vec<Results>,
    allow: Results,
    deny: Results,
    lossless: Counter,
    lossy: Counter,
    crowded: Counter,
    lost_swaps: Counter,
    shared_data_errors: Counter,
    foreign_values: Counter,
    known_refusals: Counter,
    switches: Counter,
    /// What is tried: as it was, newly refused, newly admitted.
    canary: [Counter; 3],
    /// By rule.
    degraded: Vec<Counter>,
    /// By shard: calls, calls that failed, questions, dropped refunds.
    stores: Vec<[Counter; 4]>,
}

impl Metrics {
    pub(super) fn new(policy: &Policy, ids: Rc<Ids>) -> Metrics {
        Metrics {
            ids,
            rules: policy.rules().map(|_| Results::default()).collect(),
            allow: Results::default(),
            deny: Results::default(),
            lossless: Counter::default(),
            lossy: Counter::default(),
            crowded: Counter::default(),
            lost_swaps: Counter::default(),
            shared_data_errors: Counter::default(),
            foreign_values: Counter::default(),
            known_refusals: Counter::default(),
            switches: Counter::default(),
            canary: Default::default(),
            degraded: policy.rules().map(|_| Counter::default()).collect(),
            stores: Vec::new(),
        }
    }

    /// Counts a decision. A rule that would have let a request pass which another refused has no result.
    pub(super) fn decision(&mut self, policy: &Policy, decision: &Decision) {
        for report in &decision.reports {
            let result = match report.tally {
                Tally::Admitted | Tally::Uncounted if decision.refuses() => None,
                Tally::Admitted => Some(Result::Ok),
                Tally::Refused => Some(Result::Refused),
                Tally::Shadowed => Some(Result::Shadow),
                Tally::Uncounted => Some(Result::Error),
            };
            if let (Some(results), Some(rule)) =
                (self.rules.get_mut(report.rule.index()), policy.rule(report.rule))
            {
                result.into_iter().for_each(|result| results.add(&self.ids, rule.name(), result));
                if let (true, Some(counter)) = (report.degraded, self.degraded.get_mut(report.rule.index())) {
                    counter.add(&self.ids, 1, || ["diana.rule.", rule.name(), ".degraded"].concat());
                }
            }
        }
        match decision.outcome {
            Outcome::Allowed => self.allow.add(&self.ids, ALLOW, Result::Ok),
            Outcome::Refuse(Reason::Denied) => self.deny.add(&self.ids, DENY, Result::Refused),
            _ if decision.events.denied_in_shadow > 0 => self.deny.add(&self.ids, DENY, Result::Shadow),
            _ => {}
        }
        self.events(&decision.events);
    }

    /// Counts the calls to the store that the gateway calls `cluster`.
    pub(super) fn calls(&mut self, shard: usize, cluster: &str, tally: &Calls) {
        if self.stores.len() <= shard {
            self.stores.resize_with(shard.saturating_add(1), Default::default);
        }
        let name = |what: &str| ["diana.store.", &plain(cluster), what].concat();
        if let Some([calls, failed, questions, dropped]) = self.stores.get_mut(shard) {
            calls.add(&self.ids, tally.calls, || name(".calls"));
            failed.add(&self.ids, tally.failed, || name(".failed_calls"));
            questions.add(&self.ids, tally.questions, || name(".questions"));
            dropped.add(&self.ids, tally.dropped_refunds, || name(".dropped_refunds"));
        }
    }

    /// This worker has switched to the document of that number; zero: to none.
    pub(super) fn switched(&mut self, generation: u64) {
        self.switches.add(&self.ids, 1, || "diana.config.switches".into());
        self.serves(generation);
    }

    /// The document of that number serves in this worker; zero: none.
    pub(super) fn serves(&mut self, generation: u64) {
        if let Some(id) = self.ids.get("diana.config.generation".into(), calls::define_gauge) {
            calls::record(id, generation);
        }
    }

    /// Counts how a request fared, and would have under what is tried.
    pub(super) fn compared(&mut self, compared: Compared) {
        let (counter, name) = match (compared, &mut self.canary) {
            (Compared::Same, [counter, _, _]) => (counter, "same"),
            (Compared::NewlyRefused, [_, counter, _]) => (counter, "newly_refused"),
            (Compared::NewlyAdmitted, [_, _, counter]) => (counter, "newly_admitted"),
        };
        counter.add(&self.ids, 1, || ["diana.canary.result.", name, ".requests"].concat());
    }

    /// Counts what became of what was tried, or watched.
    pub(super) fn judgement(&mut self, judgement: &Judgement) {
        let name = match judgement {
            Judgement::Kept(_) => return,
            Judgement::Promoted(_) => "diana.canary.promotions",
            Judgement::Rejected(_) | Judgement::Unfit => "diana.canary.rejections",
            Judgement::RolledBack(_) => "diana.canary.rollbacks",
        };
        if let Some(id) = self.ids.get(name.into(), calls::define_counter) {
            calls::increment(id, 1);
        }
    }

    /// Counts an answer of the server that documents come from.
    pub(super) fn poll(&mut self, poll: Poll) {
        let name = match poll {
            Poll::Fresh => "fresh",
            Poll::Unchanged => "unchanged",
            Poll::Refused => "refused",
            Poll::Failed => "failed",
        };
        if let Some(id) =
            self.ids.get(["diana.config.result.", name, ".polls"].concat(), calls::define_counter)
        {
            calls::increment(id, 1);
        }
    }

    /// Counts what happened to the store.
    pub(super) fn events(&mut self, events: &Events) {
        let evictions = |kind: &'static str| move || format!("diana.kind.{kind}.evictions");
        self.lossless.add(&self.ids, events.evicted_lossless, evictions("lossless"));
        self.lossy.add(&self.ids, events.evicted_lossy, evictions("lossy"));
        self.crowded.add(&self.ids, events.evicted_crowded, evictions("crowded"));
        self.lost_swaps.add(&self.ids, events.swaps_lost, || "diana.lost_swaps".into());
        self.shared_data_errors.add(&self.ids, events.faults, || "diana.shared_data_errors".into());
        self.foreign_values.add(&self.ids, events.foreign, || "diana.foreign_values".into());
        self.known_refusals.add(&self.ids, events.known, || "diana.known_refusals".into());
    }
}
