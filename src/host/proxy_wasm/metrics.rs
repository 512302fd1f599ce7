//! Counters: requests by rule and result, and what happened to the store.
//!
//! It does not know: Prometheus. Names are made so that Envoy's `stats_tags` can turn
//! `diana.rule.NAME.result.RESULT.requests` into `diana_requests{rule="NAME",result="RESULT"}`; their
//! number is that of the rules, whatever clients send.

use super::calls;
use crate::policy::{ALLOW, DENY, Decision, Events, Outcome, Policy, Reason, Tally};
use std::cell::RefCell;
use std::collections::HashMap;

thread_local! {
    /// Ids by name, for the life of the VM: a host makes a new id for each definition and never frees one.
    static IDS: RefCell<HashMap<String, Option<u32>>> = RefCell::default();
}

fn id(name: String) -> Option<u32> {
    IDS.with_borrow_mut(|ids| match ids.get(&name) {
        Some(id) => *id,
        None => {
            let id = calls::define_counter(&name);
            ids.insert(name, id);
            id
        }
    })
}

/// A counter that is defined when it is first needed.
#[derive(Debug, Default)]
struct Counter(Option<Option<u32>>);

impl Counter {
    fn add(&mut self, by: u32, name: impl FnOnce() -> String) {
        if by == 0 {
            return;
        }
        if let Some(id) = *self.0.get_or_insert_with(|| id(name())) {
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
    fn add(&mut self, rule: &str, result: Result) {
        let index = result as usize;
        if let (Some(counter), Some(name)) = (self.0.get_mut(index), Result::NAMES.get(index)) {
            counter.add(1, || format!("diana.rule.{rule}.result.{name}.requests"));
        }
    }
}

/// The counters of one policy in one worker.
#[derive(Debug)]
pub(super) struct Metrics {
    rules: Vec<Results>,
    allow: Results,
    deny: Results,
    lossless: Counter,
    lossy: Counter,
    crowded: Counter,
    lost_swaps: Counter,
    store_errors: Counter,
    foreign_values: Counter,
    known_refusals: Counter,
}

impl Metrics {
    pub(super) fn new(policy: &Policy) -> Metrics {
        Metrics {
            rules: policy.rules().map(|_| Results::default()).collect(),
            allow: Results::default(),
            deny: Results::default(),
            lossless: Counter::default(),
            lossy: Counter::default(),
            crowded: Counter::default(),
            lost_swaps: Counter::default(),
            store_errors: Counter::default(),
            foreign_values: Counter::default(),
            known_refusals: Counter::default(),
        }
    }

    /// Counts a decision. A rule that would have admitted a request which another refused counts nothing.
    pub(super) fn decision(&mut self, policy: &Policy, decision: &Decision) {
        for report in &decision.reports {
            let result = match report.tally {
                Tally::Admitted if decision.refuses() => continue,
                Tally::Admitted => Result::Ok,
                Tally::Refused => Result::Refused,
                Tally::Shadowed => Result::Shadow,
                Tally::Uncounted => Result::Error,
            };
            if let (Some(results), Some(rule)) =
                (self.rules.get_mut(report.rule.index()), policy.rule(report.rule))
            {
                results.add(rule.name(), result);
            }
        }
        match decision.outcome {
            Outcome::Allowed => self.allow.add(ALLOW, Result::Ok),
            Outcome::Refuse(Reason::Denied) => self.deny.add(DENY, Result::Refused),
            _ if decision.events.denied_in_shadow > 0 => self.deny.add(DENY, Result::Shadow),
            _ => {}
        }
        self.events(&decision.events);
    }

    /// Counts what happened to the store.
    pub(super) fn events(&mut self, events: &Events) {
        let evictions = |kind: &'static str| move || format!("diana.kind.{kind}.evictions");
        self.lossless.add(events.evicted_lossless, evictions("lossless"));
        self.lossy.add(events.evicted_lossy, evictions("lossy"));
        self.crowded.add(events.evicted_crowded, evictions("crowded"));
        self.lost_swaps.add(events.swaps_lost, || "diana.lost_swaps".into());
        self.store_errors.add(events.faults, || "diana.store_errors".into());
        self.foreign_values.add(events.foreign, || "diana.foreign_values".into());
        self.known_refusals.add(events.known, || "diana.known_refusals".into());
    }
}
