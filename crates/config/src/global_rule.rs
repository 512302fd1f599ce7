//! The keys of a rule that the global store counts: `scope`, `on_error`, `lease`.

use super::algorithm::AlgorithmKind;
use super::counter::{Weight, count};
use super::global_store::GlobalStore;
use super::headroom::{RuleHeadroom, apply_part};
use super::overlay::Reading;
use super::penalty::penalty;
use diana_base::map::KeyMap;
use diana_document::{Error, Errors, Fields, Node, Value};
use diana_limiter::algorithm::Quota;
use diana_limiter::policy::{Counter, Counters, GlobalDraft, Headroom, OnError, Replicas};
use std::sync::Arc;

const NO_STORE: &str = "a global rule needs a store, and there is none: write \
    `store: {redis: {cluster: …, secret: …}}` at the top, beside `limits`";
const NOTHING_FAILS: &str = "this document has no store that could fail or lend: leave it out, or write the full form \
    with `limits` and `store`";
const ALONE: &str = "there is no `store`: each gateway counts this rule, and every other global one, by itself; \
    to count them together write the full form with `limits` and `store`";

const TOO_LARGE: &str = "all gateways together lease more than half of the quota, and near its end one may hold what \
    others need: write a smaller `lease`, or leave it out";

const NOT_DURING_A_PENALTY: &str =
    "a gateway would spend leased quota during a penalty: leave `lease` or `penalty` out";
const NOT_WHILE_COLD: &str =
    "with `warm_up` the cost changes, and leased quota has a fixed cost: leave `lease` or `warm_up` out";
const NO_HEADROOM: &str = "leased quota serves requests of any priority: leave `lease` or `headroom` out";
const NOT_LEASED: &str = "only what `TB` without `max_wait`, `W` and `SW` count can be fetched ahead: leave it out, or \
    write another `algo`";
const NOT_AHEAD: &str = "leased quota cannot be charged or refunded when the request ends: leave `lease` out";

/// The tokens that a unit of a cold rule takes.
const COLD_TOKENS: u64 = 3;

/// The context in which a global rule is read.
pub(super) struct Reader<'a> {
    pub(super) store: Option<&'a GlobalStore>,
    no_store: NoStore,
    /// The warnings about each rule whose leases are too large, or one about the first rule that
    /// each gateway counts alone because there is no global store.
    pub(super) warnings: Vec<Error>,
}

/// The meaning of a global rule without a global store.
#[derive(Clone, Copy)]
enum NoStore {
    /// There is a global store, possibly with mistakes, or there may be one.
    Stored,
    /// The rule is a mistake, for this reason.
    Wrong(&'static str),
    /// Each gateway counts the rule alone, as if its global store were always down.
    Alone,
}

/// The keys of a global rule.
pub(super) struct Rule<'a> {
    on_error: OnError,
    lease: LeaseSize<'a>,
    replicas: Arc<Replicas>,
}

/// The quota to fetch ahead, and the node that sets it.
enum LeaseSize<'a> {
    Nothing,
    Units(u64, Node<'a>),
    Percent(u64, Node<'a>),
}

/// How a rule counts one actor. `primary` counts in the global store or locally, `fallback` locally
/// while the global store is down, and `leased` from quota fetched ahead.
pub(super) struct Roles {
    pub(super) primary: Counter,
    pub(super) fallback: Option<Counter>,
    pub(super) leased: Option<Counter>,
}

impl Roles {
    /// Reports a fixed cost of `least` units that the rule can never admit. A quota of 0 refuses
    /// all requests anyway.
    pub(super) fn fits(&self, cost: &Node, least: u64) {
        let Counter { quota, algorithm, .. } = &self.primary;
        let most = algorithm.shown(*quota).rpu;
        // A rule that is cold has to admit a request as well.
        let most = most.checked_div(algorithm.parameters().tokens_per_unit()).unwrap_or(most);
        if quota.rpu > 0 && least > most {
            cost.fail(format!("no request could ever pass: the rule admits a cost of at most {most}"));
        }
    }
}

impl Reader<'_> {
    /// `is_short`: whether the document has one of the short forms, which cannot have a global
    /// store. Neither can the upper one of two documents.
    pub(super) fn new(
        store: Option<&GlobalStore>,
        has_store: bool,
        reading: Reading,
        is_short: bool,
    ) -> Reader<'_> {
        let no_store = match (has_store, reading, is_short) {
            (true, ..) | (_, Reading::Upper, _) => NoStore::Stored,
            (_, Reading::Over(overlay), _) => NoStore::Wrong(overlay.no_store()),
            (_, _, true) => NoStore::Alone,
            _ => NoStore::Wrong(NO_STORE),
        };
        Reader { store, no_store, warnings: Vec::new() }
    }

    /// Takes the keys of a global rule; `None` for a local one.
    pub(super) fn rule<'a>(&mut self, fields: &mut Fields<'a>) -> Option<Rule<'a>> {
        let scope = fields.take("scope");
        let is_global = |node: &Node| node.choice("scope", &[("local", false), ("global", true)]);
        let Some(scope) = scope.filter(|scope| is_global(scope) == Some(true)) else {
            fields.belong(&["on_error", "lease"], "to a rule with `scope: global`");
            return None;
        };
        match self.no_store {
            NoStore::Stored => {}
            NoStore::Wrong(why) => scope.fail(why),
            NoStore::Alone => {
                for key in ["on_error", "lease"] {
                    fields.take(key).into_iter().for_each(|node| node.fail(NOTHING_FAILS));
                }
                if self.warnings.is_empty() {
                    self.warnings.push(scope.warning(ALONE));
                }
            }
        }
        let choices = [("local", OnError::Local), ("allow", OnError::Allow), ("deny", OnError::Deny)];
        let on_error = fields.take("on_error").and_then(|node| node.choice("value", &choices));
        let lease = fields.take("lease").and_then(lease_size).unwrap_or(LeaseSize::Nothing);
        let replicas =
            self.store.map_or_else(|| Arc::new(Replicas::fixed(1)), |store| Arc::clone(&store.replicas));
        let rpu = fields.take("rpu").and_then(|node| node.size(0..=Quota::MAX_RPU));
        let (part, whole, node) = match (&lease, rpu) {
            (LeaseSize::Units(units, node), Some(rpu)) => (*units, rpu, Some(node)),
            (LeaseSize::Percent(percent, node), _) => (*percent, 100, Some(node)),
            _ => (0, 0, None),
        };
        let number = replicas.number();
        // A burst may be larger than `rpu`.
        let is_too_large =
            part > whole && !fields.has("burst") || number > 1 && part.saturating_mul(number) > whole / 2;
        self.warnings.extend(node.filter(|_| is_too_large).map(|node| node.warning(TOO_LARGE)));
        Some(Rule { on_error: on_error.unwrap_or(OnError::Local), lease, replicas })
    }
}

fn lease_size(node: Node) -> Option<LeaseSize> {
    let percent = match node.value() {
        Value::Whole(0) => return Some(LeaseSize::Nothing),
        Value::Whole(units @ 1..=Quota::MAX_RPU) => return Some(LeaseSize::Units(*units, node)),
        // `whole` reports the superfluous quotes.
        Value::Text(text) if text.parse::<u64>().is_ok() => return node.whole(0..=Quota::MAX_RPU).and(None),
        Value::Text(text) => diana_response::percent_of(text),
        _ => None,
    };
    match percent {
        Some(percent @ 1..=100) => Some(LeaseSize::Percent(percent.into(), node)),
        _ => node.expected(
            "a whole number of requests from 0 to 1000000000, or a part of `rpu` from `1%` to `100%`",
        ),
    }
}

/// Compiles the quota of a rule, or of an override, for each of its roles.
pub(super) fn roles(
    fields: &mut Fields,
    kind: Option<&'static AlgorithmKind>,
    global: Option<&Rule>,
    weight: Weight,
) -> Option<Roles> {
    let penalty = penalty(fields, kind);
    let mut primary = count(fields, kind, weight)?;
    let penalty = penalty?;
    let penalized = |counter| match penalty {
        Some(penalty) => penalty.apply(counter),
        None => counter,
    };
    primary = penalized(primary);
    if let Some(headroom) = weight.headroom {
        primary = headroom.apply(fields, primary, weight.least)?;
    }
    let Some(global) = global else {
        return Some(Roles { primary, fallback: None, leased: None });
    };
    let fallback = match global.on_error {
        OnError::Local => Some(penalized(WholeQuota::read(fields, kind?, weight).share(&global.replicas)?)),
        OnError::Allow | OnError::Deny => None,
    };
    let (size, node) = match &global.lease {
        LeaseSize::Nothing => return Some(Roles { primary, fallback, leased: None }),
        LeaseSize::Units(units, node) => (*units, node),
        LeaseSize::Percent(percent, node) => (primary.quota.rpu.saturating_mul(*percent).div_ceil(100), node),
    };
    if weight.settles {
        node.fail(NOT_AHEAD);
        return None;
    }
    if weight.headroom.is_some() {
        node.fail(NO_HEADROOM);
        return None;
    }
    if penalty.is_some() || fields.take("warm_up").is_some() {
        node.fail(if penalty.is_some() { NOT_DURING_A_PENALTY } else { NOT_WHILE_COLD });
        return None;
    }
    if !primary.algorithm.can_reserve() {
        node.fail(NOT_LEASED);
        return None;
    }
    let units = size.clamp(1, primary.quota.rpu.max(1));
    let leased = Counter::new(primary.quota, primary.algorithm.leased(units, primary.quota));
    primary.lease = units;
    Some(Roles { primary, fallback, leased: Some(leased) })
}

/// The keys of a quota, from which the share of one of several gateways is compiled.
struct WholeQuota {
    /// The keys as an object.
    keys: Value,
    kind: &'static AlgorithmKind,
    /// The weight of a request, without the headroom.
    least: u64,
    settles: bool,
    borrows: bool,
    headroom: Option<Headroom>,
    /// The tokens of the cheapest request.
    least_tokens: u64,
}

impl WholeQuota {
    fn read(fields: &mut Fields, kind: &'static AlgorithmKind, weight: Weight) -> WholeQuota {
        let Weight { least, on_arrival, settles, borrows, headroom } = weight;
        let least = least.max(on_arrival);
        let mut entries: Vec<(String, Value)> = Vec::new();
        for key in ["rpu", "unit", "borrow"].iter().chain(kind.keys) {
            let Some(node) = fields.take(key) else {
                continue;
            };
            let number = match *key {
                "rpu" | "burst" | "borrow" => node.size(0..=Quota::MAX_RPU),
                "queue" => node.whole(0..=Quota::MAX_RPU),
                _ => None,
            };
            entries.push(((*key).into(), number.map_or_else(|| node.value().clone(), Value::Whole)));
        }
        let tokens = if fields.take("warm_up").is_some() { COLD_TOKENS } else { 0 };
        WholeQuota {
            keys: Value::Object(entries),
            kind,
            least,
            settles,
            borrows,
            headroom: headroom.map(RuleHeadroom::headroom),
            least_tokens: tokens.saturating_mul(least),
        }
    }

    /// The share of one of `replicas`: each quantity is divided, but stays at least the cost of a
    /// request. If `rpu` is rounded down, a burst or a queue takes up to twice as long. If that is
    /// too long, the burst or the queue is halved.
    fn part(&self, replicas: u64) -> Option<Counter> {
        let WholeQuota { least, settles, borrows, .. } = *self;
        let weight = Weight { least, on_arrival: least, settles, borrows, headroom: None };
        let part = |number: u64| number.checked_div(replicas).unwrap_or(number).max(least.min(number));
        let counter = [1u64, 2].into_iter().find_map(|divisor| {
            let (mut keys, errors) = (self.keys.clone(), Errors::default());
            let Value::Object(entries) = &mut keys else { return None };
            for (key, value) in entries {
                match (key.as_str(), value) {
                    ("rpu" | "borrow", Value::Whole(number)) => *number = part(*number),
                    ("burst" | "queue", Value::Whole(number)) => {
                        let least = self.least_tokens.min(*number);
                        *number = part(*number).checked_div(divisor).unwrap_or(0).max(least);
                    }
                    _ => {}
                }
            }
            count(&mut Node::root(&keys, &errors).fields()?, Some(self.kind), weight)
        })?;
        Some(match self.headroom {
            Some(headroom) => apply_part(headroom, counter, replicas, least),
            None => counter,
        })
    }

    /// The share of one of `replicas`. If the store counts the gateways, the share follows.
    fn share(self, replicas: &Arc<Replicas>) -> Option<Counter> {
        match replicas.stores() {
            None => self.part(replicas.number()),
            Some(_) => Counter::of_share(replicas, move |number| self.part(number)),
        }
    }
}

/// Groups the counters of a rule and of its overrides by role.
pub(super) fn draft(
    roles: Roles,
    overrides: Vec<(Vec<u8>, Roles)>,
    global: Option<Rule>,
) -> (Counters, Option<GlobalDraft>) {
    let counts = |count| Counters::new(count, KeyMap::default());
    let (mut primary, mut fallback, mut leased) =
        (counts(roles.primary), roles.fallback.map(counts), roles.leased.map(counts));
    for (key, roles) in overrides {
        primary.overrides.insert(&key, roles.primary);
        let others = [(&mut fallback, roles.fallback), (&mut leased, roles.leased)];
        for (counts, count) in others {
            debug_assert_eq!(counts.is_some(), count.is_some(), "an override of other roles");
            if let (Some(counts), Some(count)) = (counts, count) {
                counts.overrides.insert(&key, count);
            }
        }
    }
    (primary, global.map(|global| GlobalDraft { on_error: global.on_error, fallback, leased }))
}
