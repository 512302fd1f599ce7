//! The key `priority` of a rule, `{reserve}`, and the warnings about `important` and `priority`.

use diana_base::time::Time;
use diana_document::{Error, Fields, Node, Value};
use diana_limiter::algorithm::{Algorithm, AlgorithmKind, Quota};
use diana_limiter::policy::{Counter, Kept, LimitDraft};
use diana_limiter::response;

const NOT_BY_A_SERVICE: &str = "a rate limit service does not know which requests are important: leave it out, write \
    `scope: local`, or count in `redis`";
const WAITS: &str = "a rule whose requests wait cannot keep a part of its quota: leave `priority` out, or \
    write `algo: TB` without `max_wait`, `W`, `SW`, `SL` or `C`";
const EXPECTED: &str = "a whole number of units from 1, or a part from `1%` to `99%`";
const NOTHING_IMPORTANT: &str =
    "no limit has `important: true`: no request ever takes what is kept, so the rule admits less";
const NOTHING_KEPT: &str = "no rule has `priority`, so `important` changes nothing";

/// What a rule keeps for important requests.
#[derive(Clone, Copy)]
pub(super) struct Priority<'a> {
    reserve: Kept,
    /// The place of `reserve`.
    node: Node<'a>,
}

/// Takes `priority`. `by_service`: whether a rate limit service counts the rule. A mistake yields
/// `None`; without the key, `Some(None)`.
pub(super) fn priority<'a>(
    fields: &mut Fields<'a>,
    kind: Option<&AlgorithmKind>,
    by_service: bool,
) -> Option<Option<Priority<'a>>> {
    let Some(node) = fields.take("priority") else {
        return Some(None);
    };
    let Value::Object(_) = node.value() else {
        return node.expected("an object such as `{reserve: \"30%\"}`");
    };
    let mut keys = node.fields()?;
    let priority = keys.require("reserve").and_then(reserve);
    keys.finish();
    if by_service {
        node.fail(NOT_BY_A_SERVICE);
        return None;
    }
    if kind.is_some_and(|kind| kind.short == "LB") {
        node.fail(WAITS);
        return None;
    }
    priority.map(Some)
}

fn reserve(node: Node) -> Option<Priority> {
    let percent = match node.value() {
        Value::Text(text) if text.contains('%') => response::percent_of(text),
        Value::Text(text) if !text.trim_start().starts_with(|first: char| first.is_ascii_digit()) => None,
        Value::Text(_) | Value::Whole(_) => {
            return Some(Priority { reserve: Kept::Units(node.size(1..=Quota::MAX_RPU)?), node });
        }
        _ => None,
    };
    match percent {
        Some(percent @ 1..=99) => Some(Priority { reserve: Kept::Percent(percent.into()), node }),
        _ => node.expected(EXPECTED),
    }
}

impl Priority<'_> {
    /// Sets what `counter` keeps. A percentage is a part of what the counter admits at most,
    /// rounded up. `least` is the least cost of a request. `fields` describe the counter: a rule,
    /// an override or a plan. Reports a mistake at its place and then returns `None`.
    pub(super) fn keep(self, fields: &Fields, mut counter: Counter, least: u64) -> Option<Counter> {
        let Counter { quota, algorithm, .. } = &counter;
        if quota.rpu == 0 {
            // The rule refuses all requests anyway.
            return Some(counter);
        }
        if algorithm.may_wait() {
            self.node.fail(WAITS);
            return None;
        }
        counter.kept = self.reserve;
        let (most, least) = (most(&*counter.algorithm), least.max(1));
        if let Some(why) = lacks_room("", most, counter.kept(), least) {
            // An override or a plan has too little room for what its rule keeps.
            match fields.has("priority") {
                true => self.node.fail(why),
                false => fields.fail(why),
            }
            return None;
        }
        Some(counter)
    }

    /// Sets what the counter of one of several gateways keeps while the global store is down: a
    /// number of units is divided like the quota and rounded up. One request still passes.
    pub(super) fn keep_part(self, mut counter: Counter, replicas: u64, least: u64) -> Counter {
        counter.kept = match self.reserve {
            Kept::Units(units) => Kept::Units(units.div_ceil(replicas.max(1))),
            percent => percent,
        };
        let room = most(&*counter.algorithm).saturating_sub(least.max(1));
        counter.kept = Kept::Units(counter.kept().min(room));
        counter
    }

    /// Sets what a counter with an adaptive limit keeps. `most` is what the rule admits at once at
    /// the limit `rpu`. A number of units needs room at the lowest limit, too.
    pub(super) fn keep_adapting(self, mut counter: Counter, most: u64, least: u64) -> Option<Counter> {
        let Some(adaptive) = counter.algorithm.as_adaptive() else {
            return Some(counter);
        };
        let (lowest, _) = adaptive.controller().range();
        let at_lowest = u128::from(most).saturating_mul(lowest.into()).checked_div(counter.quota.rpu.into());
        let at_lowest = u64::try_from(at_lowest.unwrap_or(0)).unwrap_or(u64::MAX).max(least);
        let lacks = |units| lacks_room(" at the lowest limit", at_lowest, units, least.max(1));
        if let Kept::Units(units) = self.reserve
            && let Some(why) = lacks(units)
        {
            self.node.fail(why);
            return None;
        }
        counter.kept = self.reserve;
        Some(counter)
    }
}

/// The mistake of a counter that admits at most `most` units, if it cannot admit a request of
/// `least` units beside `kept` units.
fn lacks_room(limit: &str, most: u64, kept: u64, least: u64) -> Option<String> {
    (kept.saturating_add(least) > most).then(|| {
        format!(
            "no other request could ever pass{limit}: `priority` keeps {kept}, a request costs at least {least}, and \
             the rule admits at most {most} at once"
        )
    })
}

/// How many units the algorithm certainly admits at once after a long time without requests. With
/// `warm_up`, the rule is then cold.
pub(super) fn most(algorithm: &dyn Algorithm) -> u64 {
    let (begin, later) = (Time::from_ns(1), Time::from_ns(u64::MAX / 2));
    let mut cell = vec![0; algorithm.size()];
    algorithm.prepare(&mut cell, begin);
    algorithm.prepare(&mut cell, later);
    algorithm.step(&mut cell, later, 0).remaining
}

/// At most one warning: nothing is important, or nothing is kept. `nodes` are the places of the
/// limits.
pub(super) fn warning(nodes: &[Node], limits: &[LimitDraft]) -> Option<Error> {
    let keeps = |limit: &LimitDraft| {
        limit.rules.iter().position(|rule| {
            let plans = rule.plans.iter().filter_map(|(_, plan)| plan.as_ref()).map(|plan| &plan.primary);
            let counters = rule.counters.overrides.values().iter().chain([&rule.counters.default]);
            counters.chain(plans).any(|counter| counter.kept() > 0)
        })
    };
    let placed = || nodes.iter().zip(limits);
    let important = placed().find(|(_, limit)| limit.important);
    let keeping = placed().find_map(|(node, limit)| Some((node, keeps(limit)?)));
    match (important, keeping) {
        (Some((node, _)), None) => {
            let warning = node.warning(NOTHING_KEPT);
            Some(Error { path: below(&warning.path, "important"), ..warning })
        }
        (None, Some((node, index))) => {
            let warning = node.warning(NOTHING_IMPORTANT);
            Some(Error { path: below(&warning.path, &format!("rules[{index}].priority")), ..warning })
        }
        _ => None,
    }
}

fn below(path: &str, key: &str) -> String {
    let dot = if path.is_empty() { "" } else { "." };
    [path, dot, key].concat()
}
