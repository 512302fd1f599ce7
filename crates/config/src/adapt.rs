//! The key `adapt` of a rule: `{signal, target, min, max, every}`.

use super::algorithm::AlgorithmKind;
use super::quota::Weight;
use diana_base::time::Span;
use diana_document::{Fields, Node, Value, quoted};
use diana_limiter::actor::NamedActor;
use diana_limiter::adapt::{Adaptive, Controller, Limits, Resource, Signal};
use diana_limiter::algorithm;
use diana_limiter::policy::Quota;
use diana_response::percent_of;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The highest limit. Up to here, a request takes at most 0.1 % more of a bucket than it should.
const HIGHEST: u64 = 1_000_000;
/// The length of an interval.
const EVERY: RangeInclusive<Span> = Span::from_secs(1)..=Span::from_secs(600);
/// The range of a latency target.
const TARGET: RangeInclusive<Span> = Span::from_ms(1)..=Span::from_secs(60);

/// Buckets take at most this long to fill.
const LONGEST_FILL: Span = Span::from_secs(100 * 365 * 86_400);

const FILLS_TOO_SLOWLY: &str = "at the limit `min`, the bucket takes longer than 100 years to refill the cost of one request: raise \
    `min`, or lower `cost`";
const GLOBAL: &str = "each gateway measures its own upstream and has its own limit, so a store cannot count for all \
    gateways: leave `adapt` out, or write `scope: local`";
const SETTLES: &str = "the limit may move before the response tells the cost: leave out either `adapt`, or `charge`, \
    `refund` and any cost that depends on the response";
const KINDS: &str =
    "only `algo: C` and `algo: TB` without `max_wait` can adapt: leave `adapt` out, or write one of these";
const TRAFFIC_OF_ALL: &str = "the traffic of all actors together tells nothing about one of them: leave `actor` out, \
    or follow a latency or `errors`";
const ONE_LIMIT: &str =
    "`adapt` moves one limit for all actors: leave `adapt` out, or give these actors a rule of their own";

/// Reports `overrides` or `plans`, at `node`, of a rule with `adapt`.
pub(super) fn refuse_others(node: &Node) {
    node.fail(ONE_LIMIT);
}

/// The keys of `adapt`.
pub(super) struct AdaptKeys<'a> {
    node: Node<'a>,
    signal: Signal,
    min: Option<u64>,
    max: Option<u64>,
    every: Span,
}

/// Takes `adapt`. A mistake yields `None`; without the key, `Some(None)`.
pub(super) fn adapt<'a>(
    fields: &mut Fields<'a>,
    weight: Weight,
    is_global: bool,
) -> Option<Option<AdaptKeys<'a>>> {
    let Some(node) = fields.take("adapt") else {
        return Some(None);
    };
    if is_global || weight.settles {
        node.fail(if is_global { GLOBAL } else { SETTLES });
        return None;
    }
    let Value::Object(_) = node.value() else {
        return node.expected("an object such as `{signal: latency_p90, target: 200ms, min: 20, max: 400}`");
    };
    let mut keys = node.fields()?;
    let (signal, target) = (keys.require("signal"), keys.require("target"));
    let signal =
        signal.and_then(|node| signal_of(&node)).map(|kind| target.and_then(|node| kind.signal(&node)));
    let bound = |node: Option<Node>| match node {
        Some(node) => node.size(1..=HIGHEST).map(Some),
        None => Some(None),
    };
    let (min, max) = (bound(keys.take("min")), bound(keys.take("max")));
    let every = keys.take("every").map_or(Some(Span::from_secs(10)), |node| node.span(EVERY));
    keys.finish();
    if let (Some(Some(Signal::Latency { target, .. })), Some(every)) = (signal, every)
        && target > every
    {
        node.fail("an interval must be at least as long as the target: raise `every`, or lower `target`");
        return None;
    }
    Some(Some(AdaptKeys { node, signal: signal??, min: min?, max: max?, every: every? }))
}

/// What the limit follows, without its target.
enum Kind {
    Latency { permille: u32 },
    Errors,
    Traffic,
}

fn signal_of(node: &Node) -> Option<Kind> {
    let text = node.text()?.trim();
    let percentile = text.strip_prefix("latency_p").filter(|digits| {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
        // Of three digits, the last one is behind the point.
        is_number && (digits.len() == 2 || digits.len() == 3 && digits.starts_with("99"))
    });
    let permille = percentile.and_then(|digits| {
        let number: u32 = digits.parse().ok()?;
        Some(if digits.len() == 2 { number.saturating_mul(10) } else { number })
    });
    match (text, permille) {
        ("errors", _) => Some(Kind::Errors),
        ("traffic", _) => Some(Kind::Traffic),
        (_, Some(permille)) => Some(Kind::Latency { permille }),
        _ => {
            node.fail(format!(
                "unknown signal {}, expected errors, traffic, or a latency from latency_p10 to latency_p99 or latency_p999",
                quoted(text)
            ));
            None
        }
    }
}

impl Kind {
    /// The signal with the target at `node`.
    fn signal(&self, node: &Node) -> Option<Signal> {
        let percent = |range: RangeInclusive<u32>| match node.value() {
            Value::Text(text) => percent_of(text).filter(|percent| range.contains(percent)),
            _ => None,
        };
        match self {
            Kind::Latency { permille } => {
                Some(Signal::Latency { target: node.span(TARGET)?, permille: *permille })
            }
            Kind::Errors => match percent(1..=99) {
                Some(percent) => Some(Signal::Errors { target_ppm: percent.saturating_mul(10_000) }),
                None => node.expected("the highest share of errors, from `1%` to `99%`"),
            },
            Kind::Traffic => match percent(101..=1_000) {
                Some(percent) => Some(Signal::Traffic { percent }),
                None => node.expected("a percentage of the last interval's traffic, from `101%` to `1000%`"),
            },
        }
    }
}

impl AdaptKeys<'_> {
    /// Reports that the limit follows the traffic of all actors, although the rule counts each.
    pub(super) fn refuse_actors(&self, actors: &[NamedActor]) {
        if matches!(self.signal, Signal::Traffic { .. }) && !actors.is_empty() {
            self.node.fail(TRAFFIC_OF_ALL);
        }
    }

    /// `quota` for an adaptive limit, and the limit. A rule that refuses all requests has none.
    pub(super) fn around(
        self,
        quota: Quota,
        kind: &AlgorithmKind,
        weight: Weight,
    ) -> Option<(Quota, Option<Arc<Adaptive>>)> {
        let AdaptKeys { node, signal, min, max, every } = self;
        let algorithm::Allowance { rpu, unit } = quota.configured();
        if rpu == 0 {
            return Some((quota, None));
        }
        // A bucket always has room for one request, but permits have to suffice for one.
        let least = if kind.per_unit { 1 } else { weight.least.min(rpu) };
        if min.is_some_and(|min| min < least) {
            node.fail(format!("a request costs {least} permits: `min` has to be at least {least}"));
            return None;
        }
        let min = min.unwrap_or(rpu.div_ceil(10).max(least));
        let max = max.unwrap_or(rpu);
        if !(min..=max).contains(&rpu) || max > HIGHEST {
            node.fail(format!(
                "expected `min` <= `rpu` <= `max` <= {HIGHEST}, found `min` {min}, `rpu` {rpu} and `max` {max}"
            ));
            return None;
        }
        let limits = Limits { min, max, start: rpu };
        let resource = if kind.per_unit { Resource::Rate { unit } } else { Resource::Permits };
        let tokens = quota.parameters().tokens_per_unit().saturating_mul(weight.least.max(1));
        let fill_ns = u128::from(tokens).saturating_mul(unit.as_ns().into()).checked_div(min.into());
        let Some(quota) = quota.adapting(min, weight.least) else {
            node.fail(KINDS);
            return None;
        };
        if fill_ns.is_some_and(|ns| ns > LONGEST_FILL.as_ns().into()) {
            node.fail(FILLS_TOO_SLOWLY);
            return None;
        }
        let adaptive = Adaptive::new(Controller::new(signal, resource, limits, every));
        Some((quota, Some(Arc::new(adaptive))))
    }
}
