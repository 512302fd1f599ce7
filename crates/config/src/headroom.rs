//! The key `headroom` of a rule, and the warnings about `headroom` and `priority: high`.

use super::algorithm::{AlgorithmKind, units};
use diana_document::{Error, Fields, Node, Value};
use diana_limiter::adapt::Adaptive;
use diana_limiter::policy::{Headroom, LimitDraft, Quota};

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
    let headroom = read(node, kind);
    if kind.is_some_and(|kind| kind.short == "LB") {
        node.fail(WAITS);
        return None;
    }
    headroom.map(Some)
}

fn read<'a>(node: Node<'a>, kind: Option<&AlgorithmKind>) -> Option<RuleHeadroom<'a>> {
    let percent = match node.value() {
        Value::Text(text) if text.contains('%') => diana_response::percent_of(text),
        Value::Text(text) if !text.trim_start().starts_with(|first: char| first.is_ascii_digit()) => None,
        Value::Text(_) | Value::Whole(_) => {
            return Some(RuleHeadroom { headroom: Headroom::Units(units(&node, 1, kind)?), node });
        }
        _ => None,
    };
    match percent {
        Some(percent @ 1..=99) => Some(RuleHeadroom { headroom: Headroom::Percent(percent), node }),
        _ => node.expected(EXPECTED),
    }
}

impl RuleHeadroom<'_> {
    /// `quota` with this headroom. A percentage is a part of what the quota admits at most, rounded
    /// up. `least` is the least cost of a request. `fields` describe the quota: a rule, an override
    /// or a plan. Reports a mistake at its place and then returns `None`.
    pub(super) fn apply(self, fields: &Fields, quota: Quota, least: u64) -> Option<Quota> {
        if quota.configured().rpu == 0 {
            // The rule refuses all requests anyway.
            return Some(quota);
        }
        if quota.algorithm().may_wait() {
            self.node.fail(WAITS);
            return None;
        }
        let quota = quota.with_headroom(self.headroom);
        let (most, least) = (most(&quota), least.max(1));
        if let Some(why) = lacks_room("", most, quota.headroom(), least) {
            // An override or a plan has too little room for the headroom of its rule.
            match fields.has("headroom") {
                true => self.node.fail(why),
                false => fields.fail(why),
            }
            return None;
        }
        Some(quota)
    }

    /// Whether the headroom of `quota` has room at the lowest limit, too. A part always has.
    /// Reports a mistake at its place.
    pub(super) fn fits_lowest(self, quota: &Quota, adaptive: &Adaptive, least: u64) -> bool {
        let Headroom::Units(units) = self.headroom else { return true };
        let (lowest, _) = adaptive.controller().range();
        let at_lowest = scaled(most(quota), lowest, quota.configured().rpu).max(least);
        let why = lacks_room(" at the lowest limit", at_lowest, units, least.max(1));
        why.iter().for_each(|why| self.node.fail(why.clone()));
        why.is_none()
    }
}

/// What `units` of a quota of `rpu` become at this limit.
fn scaled(units: u64, limit: u64, rpu: u64) -> u64 {
    let product = u128::from(units).saturating_mul(limit.into());
    u64::try_from(product.checked_div(rpu.into()).unwrap_or(0)).unwrap_or(u64::MAX)
}

/// The mistake of a quota that admits at most `most` units, if it cannot admit a request of
/// `least` units next to `headroom` units.
fn lacks_room(limit: &str, most: u64, headroom: u64, least: u64) -> Option<String> {
    (headroom.saturating_add(least) > most).then(|| {
        format!(
            "no request without `priority: high` could ever pass{limit}: `headroom` is {headroom}, a request costs at \
             least {least}, and the rule admits at most {most} at once"
        )
    })
}

/// How many units the quota certainly admits at once after a long time without requests. With
/// `warm_up`, the rule is then cold.
fn most(quota: &Quota) -> u64 {
    quota.algorithm().at_rest(0).remaining
}

/// The warning about a quota that has no room for the cheapest request, which is charged `least`
/// units on arrival. A quota of 0 refuses all requests on purpose. With `adaptive`, the limit
/// moves.
pub(super) fn never_admits(quota: &Quota, adaptive: Option<&Adaptive>, least: u64) -> Option<String> {
    let rpu = quota.configured().rpu;
    if rpu == 0 || least == 0 {
        return None;
    }
    let (most, headroom) = (most(quota), quota.headroom());
    let (most, headroom) = match adaptive {
        None => (most, headroom),
        // Both move with the limit, unless the headroom is a number of units.
        Some(adaptive) => {
            let (_, highest) = adaptive.controller().range();
            let is_fixed = matches!(quota.headroom_part(), Headroom::Units(_));
            (scaled(most, highest, rpu), if is_fixed { headroom } else { scaled(headroom, highest, rpu) })
        }
    };
    let room = most.saturating_sub(headroom);
    let priority = if least <= most { " without `priority: high`" } else { "" };
    let at_rest = quota.algorithm().at_rest(least.saturating_add(headroom));
    (least > room && !at_rest.admits()).then(|| {
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
            let plans = rule.plans.iter().filter_map(|(_, plan)| plan.as_ref());
            let quotas = rule.overrides.values().iter().chain([&rule.quota]);
            quotas.chain(plans).any(|quota| quota.headroom() > 0)
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
