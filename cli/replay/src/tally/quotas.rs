//! What other quotas of one rule would have refused, had the rule been alone.

use super::stream::{Event, Stream};
use crate::engine::MAX_HELD;
use diana_config::RulePlace;
use diana_limiter::algorithm::{Charge, Verdict};
use diana_limiter::policy::{PlacedQuota, Policy, Quota};
use diana_limiter::time::{Span, Time};
use serde_json::{Map, Value, json};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// A rule of a document, alone and with another `rpu`.
#[derive(Clone, Debug)]
pub struct Variants {
    document: Map<String, Value>,
    limit: Map<String, Value>,
    rule: Map<String, Value>,
    is_adaptive: bool,
}

/// Keys of a rule that the variants leave out: they belong to other actors, to a global store, or
/// move the quota.
const LEFT_OUT: [&str; 8] = ["plans", "overrides", "scope", "on_error", "lease", "adapt", "missing", "mode"];

impl Variants {
    /// The rule at this place of a document. `None` if the rule is not there.
    #[must_use]
    pub fn new(document: &Value, place: &RulePlace) -> Option<Variants> {
        let limits = match document {
            Value::Array(limits) => Some(limits),
            document => document.get("limits").and_then(Value::as_array),
        };
        let limit = match limits {
            Some(limits) => limits.get(place.index.0)?,
            None => document,
        };
        let mut rule = limit.get("rules")?.get(place.index.1)?.as_object()?.clone();
        let is_adaptive = rule.contains_key("adapt");
        rule.retain(|key, _| !LEFT_OUT.contains(&&**key));
        let keep = |from: &Value, keys: &[&str]| -> Map<String, Value> {
            let kept = keys.iter().filter_map(|key| Some(((*key).to_owned(), from.get(*key)?.clone())));
            kept.collect()
        };
        let (document, limit) = (
            keep(document, &["actors", "ip", "case_sensitive"]),
            keep(limit, &["url", "Url", "case_sensitive"]),
        );
        Some(Variants { document, limit, rule, is_adaptive })
    }

    /// Whether the rule of the document adapts its quota. The variants do not.
    #[must_use]
    pub fn is_adaptive(&self) -> bool {
        self.is_adaptive
    }

    /// Whether each quota admits all requests of an actor if a lower quota does. With `warm_up`, a
    /// higher quota may refuse some: its bucket is full more often, and gets colder.
    #[must_use]
    pub fn spares_the_same(&self) -> bool {
        !self.rule.contains_key("warm_up")
    }

    /// The rule with this quota. `burst` replaces the `burst` of a rule that has the key. `None` if
    /// the rule would be a mistake, for example because its `burst` is then too small.
    #[must_use]
    pub fn with(&self, rpu: u64, burst: Option<u64>) -> Option<Arc<Policy>> {
        let Variants { mut document, mut limit, mut rule, .. } = self.clone();
        rule.insert("rpu".into(), rpu.into());
        if let (Some(key), Some(burst)) = (rule.get_mut("burst"), burst) {
            *key = burst.into();
        }
        limit.insert("rules".into(), json!([rule]));
        document.insert("limits".into(), json!([limit]));
        let bytes = serde_json::to_vec(&document).ok()?;
        Some(diana_config::compile_locally(&bytes).ok()?.policy)
    }
}

/// What a quota refuses, by the weights of the actors.
#[derive(Clone, Debug, Default)]
pub struct Refused {
    /// Refused requests.
    pub requests: u64,
    /// Whether each actor has a refused request, by place.
    pub actors: Vec<bool>,
}

impl Refused {
    /// The number of actors with a refused request.
    #[must_use]
    pub fn actor_count(&self, weights: &[u64]) -> u64 {
        self.actors
            .iter()
            .zip(weights)
            .map(|(is_refused, weight)| weight.saturating_mul((*is_refused).into()))
            .sum()
    }
}

/// Checks the requests of `stream` by a counter from empty cells. `weights` has the weight of
/// each actor, by place.
#[must_use]
pub fn check(quota: Quota, stream: &Stream, weights: &[u64]) -> Refused {
    let (quota, actors) = (quota.alone(), weights.len());
    let (headroom, mut before) = (quota.quota.headroom(), Vec::new());
    let size = quota.size().max(1);
    let mut cells = vec![0; size.saturating_mul(actors)];
    let mut refused = Refused { requests: 0, actors: vec![false; actors] };
    let mut in_flight = BinaryHeap::new();
    let ends = quota.quota.algorithm().ends_with_request();
    for Event { place, at, cost, is_high_priority, duration_ns } in stream.iter() {
        while in_flight.peek().is_some_and(|first: &InFlight| first.ends <= at) || in_flight.len() > MAX_HELD
        {
            let Some(InFlight { ends, place, charge }) = in_flight.pop() else { break };
            let ends = ends.min(at);
            cell(&mut cells, place, size).into_iter().for_each(|cell| quota.refund(cell, ends, charge));
        }
        let Some(cell) = cell(&mut cells, place, size) else { continue };
        quota.prepare(cell, at);
        let headroom = if is_high_priority { 0 } else { headroom };
        let verdict = step(&quota, cell, &mut before, (at, cost, headroom));
        if verdict.admits() {
            if ends {
                let ends = at.after(Span::from_ns(duration_ns));
                in_flight.push(InFlight { ends, place, charge: verdict.charge });
            }
            continue;
        }
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        refused.requests = refused.requests.saturating_add(weights.get(place).copied().unwrap_or(0));
        refused.actors.iter_mut().skip(place).take(1).for_each(|is_refused| *is_refused = true);
        if !verdict.is_penalty() {
            quota.count_refusal(cell, at);
        }
    }
    refused
}

/// One step as in a decision. A request that costs nothing passes only if one unit is left.
fn step(quota: &PlacedQuota, cell: &mut [u8], before: &mut Vec<u8>, request: (Time, u64, u64)) -> Verdict {
    let (at, cost, headroom) = request;
    if cost > 0 && headroom == 0 {
        return quota.step(cell, at, cost);
    }
    before.clear();
    before.extend_from_slice(cell);
    match cost {
        0 => quota.peek(cell, before, at, headroom),
        cost => quota.step_with_headroom(cell, before, at, cost, headroom),
    }
}

fn cell(cells: &mut [u8], place: u32, size: usize) -> Option<&mut [u8]> {
    let start = usize::try_from(place).ok()?.checked_mul(size)?;
    cells.get_mut(start..start.checked_add(size)?)
}

/// A request that holds permits.
struct InFlight {
    ends: Time,
    place: u32,
    charge: Charge,
}

impl Ord for InFlight {
    /// The earliest is the greatest. Requests that end at once are interchangeable.
    fn cmp(&self, other: &InFlight) -> Ordering {
        other.ends.cmp(&self.ends)
    }
}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &InFlight) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for InFlight {
    fn eq(&self, other: &InFlight) -> bool {
        self.ends == other.ends
    }
}

impl Eq for InFlight {}
