//! The keys of a rule that the global store counts: `scope`, `on_error`, `lease`.

use super::algorithm::AlgorithmKind;
use super::global_store::GlobalStore;
use super::limit_source::rpu;
use super::overlay::Reading;
use super::quota::Weight;
use diana_document::{Error, Fields, Node, Value};
use diana_limiter::algorithm;
use diana_limiter::policy::{OnError, Quota};

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
const NOT_FOR_A_PERIOD: &str = "each gateway would hold leased quota until the calendar's period ends, and lose it in a restart: leave \
    `lease` out";
const NO_ONE_SIZE: &str =
    "each request brings its own `rpu`, and leased quota has one size: leave `lease` out";
const NOT_AHEAD: &str = "leased quota cannot be charged or refunded when the request ends: leave `lease` out";

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
    pub(super) on_error: OnError,
    lease: LeaseSize<'a>,
}

/// The quota to fetch ahead, and the node that sets it.
enum LeaseSize<'a> {
    Nothing,
    Units(u64, Node<'a>),
    Percent(u64, Node<'a>),
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
    pub(super) fn rule<'a>(
        &mut self,
        fields: &mut Fields<'a>,
        kind: Option<&AlgorithmKind>,
    ) -> Option<Rule<'a>> {
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
        let rpu = fields.take("rpu").and_then(|node| rpu(node, kind));
        let (part, whole, node) = match (&lease, rpu) {
            (LeaseSize::Units(units, node), Some(rpu)) => (*units, rpu, Some(node)),
            (LeaseSize::Percent(percent, node), _) => (*percent, 100, Some(node)),
            _ => (0, 0, None),
        };
        let number = self.store.map_or(1, |store| store.replicas.number());
        // A burst may be larger than `rpu`.
        let is_too_large =
            part > whole && !fields.has("burst") || number > 1 && part.saturating_mul(number) > whole / 2;
        self.warnings.extend(node.filter(|_| is_too_large).map(|node| node.warning(TOO_LARGE)));
        Some(Rule { on_error: on_error.unwrap_or(OnError::Local), lease })
    }
}

const MAX_UNITS: u64 = algorithm::Allowance::MAX_RPU;

fn lease_size(node: Node) -> Option<LeaseSize> {
    let percent = match node.value() {
        Value::Whole(0) => return Some(LeaseSize::Nothing),
        Value::Whole(units @ 1..=MAX_UNITS) => return Some(LeaseSize::Units(*units, node)),
        // `whole` reports the superfluous quotes.
        Value::Text(text) if text.parse::<u64>().is_ok() => return node.whole(0..=MAX_UNITS).and(None),
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

impl Rule<'_> {
    /// Adds the rule's lease to `quota`. Reports a mistake at its place and then returns `None`.
    pub(super) fn apply_lease(&self, fields: &mut Fields, quota: Quota, weight: Weight) -> Option<Quota> {
        let rpu = quota.configured().rpu;
        let (size, node) = match &self.lease {
            LeaseSize::Nothing => return Some(quota),
            LeaseSize::Units(units, node) => (*units, node),
            LeaseSize::Percent(percent, node) => (rpu.saturating_mul(*percent).div_ceil(100), node),
        };
        let why = if weight.settles {
            NOT_AHEAD
        } else if weight.headroom.is_some() {
            NO_HEADROOM
        } else if quota.varies() {
            NO_ONE_SIZE
        } else if quota.algorithm().of_calendar().is_some() {
            NOT_FOR_A_PERIOD
        } else if fields.take("penalty").is_some() {
            NOT_DURING_A_PENALTY
        } else if fields.take("warm_up").is_some() {
            NOT_WHILE_COLD
        } else if !quota.algorithm().can_reserve() {
            NOT_LEASED
        } else {
            let units = size.clamp(1, rpu.max(1)).min(MAX_UNITS);
            return Some(quota.with_lease(u32::try_from(units).unwrap_or(u32::MAX)));
        };
        node.fail(why);
        None
    }
}
