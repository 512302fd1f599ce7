//! The key `headroom` of a rule, and the warnings about `headroom` and `priority: high`.

use super::algorithm::AlgorithmKind;
use diana_base::time::Time;
use diana_document::{Error, Fields, Node, Value};
use diana_limiter::algorithm::{Algorithm, Quota, Verdict};
use diana_limiter::policy::{Counter, Headroom, LimitDraft};

const WAITS: &str = "a rule whose requests wait has no headroom: leave `headroom` out, or write `algo: TB` without `max_wait`, `W`, `SW`, `SL` or `C`";
const EXPECTED: &str = "a whole number of units from 1, or a part from `1%` to `99%`";
const NO_HIGH_PRIORITY: &str =
    "no limit has `priority: high`: no request ever takes the headroom, so the rule admits less";
const NO_HEADROOM: &str = "no rule has `headroom`, so `priority: high` changes nothing";

/// The headroom of a rule.
#[derive(Clone, Copy)]
pub(super) struct RuleHeadroom<'a> {
    headroom: Headroom,
    node: Node<'a>,
}

/// Takes `headroom`. A mistake yields `None`; without the key, `Some(None)`.
pub(super) fn headroom<'a>(
    fields: &mut Fields<'a>,
    kind: Option<&AlgorithmKind>,
) -> Option<Option<RuleHeadroom<'a>>> {
    let Some(node) = fields.take("headroom") else {
        return Some(None);
    };
    let headroom = read(node);
    if kind.is_some_and(|kind| kind.short == "LB") {
        node.fail(WAITS);
        return None;
    }
    headroom.map(Some)
}

fn read(node: Node) -> Option<RuleHeadroom> {
    let percent = match node.value() {
        Value::Text(text) if text.contains('%') => diana_response::percent_of(text),
        Value::Text(text) if !text.trim_start().starts_with(|first: char| first.is_ascii_digit()) => None,
        Value::Text(_) | Value::Whole(_) => {
            return Some(RuleHeadroom { headroom: Headroom::Units(node.size(1..=Quota::MAX_RPU)?), node });
        }
        _ => None,
    };
    match percent {
        Some(percent @ 1..=99) => Some(RuleHeadroom { headroom: Headroom::Percent(percent.into()), node }),
        _ => node.expected(EXPECTED),
    }
}

impl RuleHeadroom<'_> {
    /// Sets the headroom of `counter`. A percentage is a part of what the counter admits at most,
    /// rounded up. `least` is the least cost of a request. `fields` describe the counter: a rule,
    /// an override or a plan. Reports a mistake at its place and then returns `None`.
    pub(super) fn apply(self, fields: &Fields, mut counter: Counter, least: u64) -> Option<Counter> {
        let Counter { quota, algorithm, .. } = &counter;
        if quota.rpu == 0 {
            // The rule refuses all requests anyway.
            return Some(counter);
        }
        if algorithm.may_wait() {
            self.node.fail(WAITS);
            return None;
        }
        counter.headroom = self.headroom;
        let (most, least) = (most(&counter.algorithm), least.max(1));
        if let Some(why) = lacks_room("", most, counter.headroom(), least) {
            // An override or a plan has too little room for the headroom of its rule.
            match fields.has("headroom") {
                true => self.node.fail(why),
                false => fields.fail(why),
            }
            return None;
        }
        Some(counter)
    }

    /// The headroom itself.
    pub(super) fn headroom(self) -> Headroom {
        self.headroom
    }

    /// Sets the headroom of a counter with an adaptive limit. `most` is what the rule admits at
    /// once at the limit `rpu`. A number of units needs room at the lowest limit, too.
    pub(super) fn apply_adapting(self, mut counter: Counter, most: u64, least: u64) -> Option<Counter> {
        let Some(adaptive) = counter.adaptive() else {
            return Some(counter);
        };
        let (lowest, _) = adaptive.controller().range();
        let at_lowest = u128::from(most).saturating_mul(lowest.into()).checked_div(counter.quota.rpu.into());
        let at_lowest = u64::try_from(at_lowest.unwrap_or(0)).unwrap_or(u64::MAX).max(least);
        let lacks = |units| lacks_room(" at the lowest limit", at_lowest, units, least.max(1));
        if let Headroom::Units(units) = self.headroom
            && let Some(why) = lacks(units)
        {
            self.node.fail(why);
            return None;
        }
        counter.headroom = self.headroom;
        Some(counter)
    }
}

/// Sets the headroom of the counter of one of several gateways while the global store is down: a
/// number of units is divided like the quota and rounded up. One request still passes.
pub(super) fn apply_part(headroom: Headroom, mut counter: Counter, replicas: u64, least: u64) -> Counter {
    counter.headroom = match headroom {
        Headroom::Units(units) => Headroom::Units(units.div_ceil(replicas.max(1))),
        percent => percent,
    };
    let room = most(&counter.algorithm).saturating_sub(least.max(1));
    counter.headroom = Headroom::Units(counter.headroom().min(room));
    counter
}

/// The mistake of a counter that admits at most `most` units, if it cannot admit a request of
/// `least` units beside `headroom` units.
fn lacks_room(limit: &str, most: u64, headroom: u64, least: u64) -> Option<String> {
    (headroom.saturating_add(least) > most).then(|| {
        format!(
            "no request without `priority: high` could ever pass{limit}: `headroom` is {headroom}, a request costs at \
             least {least}, and the rule admits at most {most} at once"
        )
    })
}

/// How many units the algorithm certainly admits at once after a long time without requests. With
/// `warm_up`, the rule is then cold.
pub(super) fn most(algorithm: &Algorithm) -> u64 {
    at_rest(algorithm, 0).remaining
}

/// Whether the algorithm admits a request of this cost after a long time without requests.
fn admits_at_rest(algorithm: &Algorithm, cost: u64) -> bool {
    at_rest(algorithm, cost).admits()
}

fn at_rest(algorithm: &Algorithm, cost: u64) -> Verdict {
    let (begin, later) = (Time::from_ns(1), Time::from_ns(u64::MAX / 2));
    let mut cell = vec![0; algorithm.size()];
    algorithm.prepare(&mut cell, begin);
    algorithm.prepare(&mut cell, later);
    algorithm.step(&mut cell, later, cost)
}

/// The warning about a counter whose quota has no room for the cheapest request, which is charged
/// `least` units on arrival. A quota of 0 refuses all requests on purpose.
pub(super) fn never_admits(counter: &Counter, least: u64) -> Option<String> {
    if counter.quota.rpu == 0 || least == 0 {
        return None;
    }
    let most = most(&counter.algorithm);
    let headroom = counter.headroom();
    let (most, headroom) = match counter.adaptive() {
        None => (most, headroom),
        // Both move with the limit, unless the headroom is a number of units.
        Some(adaptive) => {
            let (_, highest) = adaptive.controller().range();
            let at_highest = |units: u64| {
                let product = u128::from(units).saturating_mul(highest.into());
                let scaled = product.checked_div(counter.quota.rpu.into()).unwrap_or(product);
                u64::try_from(scaled).unwrap_or(u64::MAX)
            };
            let is_fixed = matches!(counter.headroom, Headroom::Units(_));
            (at_highest(most), if is_fixed { headroom } else { at_highest(headroom) })
        }
    };
    let room = most.saturating_sub(headroom);
    let priority = if least <= most { " without `priority: high`" } else { "" };
    (least > room && !admits_at_rest(&counter.algorithm, least.saturating_add(headroom))).then(|| {
        format!(
            "no request{priority} can ever pass by this quota: each costs at least {least} on arrival, and at most {room} pass at \
             once; raise the quota, or lower the cost"
        )
    })
}

/// At most one warning: no limit has `priority: high`, or no rule has headroom. `nodes` are the
/// places of the limits.
pub(super) fn warning(nodes: &[Node], limits: &[LimitDraft]) -> Option<Error> {
    let with_headroom = |limit: &LimitDraft| {
        limit.rules.iter().position(|rule| {
            let plans = rule.plans.iter().filter_map(|(_, plan)| plan.as_ref()).map(|plan| &plan.primary);
            let counters = rule.counters.overrides.values().iter().chain([&rule.counters.default]);
            counters.chain(plans).any(|counter| counter.headroom() > 0)
        })
    };
    let placed = || nodes.iter().zip(limits);
    let high_priority = placed().find(|(_, limit)| limit.high_priority);
    let headroom = placed().find_map(|(node, limit)| Some((node, with_headroom(limit)?)));
    match (high_priority, headroom) {
        (Some((node, _)), None) => {
            let warning = node.warning(NO_HEADROOM);
            Some(Error { path: below(&warning.path, "priority"), ..warning })
        }
        (None, Some((node, index))) => {
            let warning = node.warning(NO_HIGH_PRIORITY);
            Some(Error { path: below(&warning.path, &format!("rules[{index}].headroom")), ..warning })
        }
        _ => None,
    }
}

fn below(path: &str, key: &str) -> String {
    let dot = if path.is_empty() { "" } else { "." };
    [path, dot, key].concat()
}
