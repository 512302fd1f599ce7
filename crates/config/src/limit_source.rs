//! A limit that comes with the request: `rpu: {jwt: limits.rpm, default: 60, max: 10k}`.

use super::actor::{SET_FOR_CLIENTS, Scope, source};
use super::algorithm::{AlgorithmKind, LONGEST_FILL_NS, multiple, units};
use diana_document::{Fields, Node, Value};
use diana_limiter::actor::NamedActor;
use diana_limiter::algorithm::Allowance;
use diana_limiter::policy::{LimitSource, Quota};

const NO_SOURCE: &str = "no source is given, expected jwt, property or header";
const OF_THE_RULE: &str =
    "requests bring one number, which the rule's own `rpu` names: leave it out, or write a number";
const WAITS: &str = "requests that wait count by one rate, and each of these brings its own: write `algo: TB`, `W`, `SW`, \
    `SL` or `C`";
const WAITS_OR_WARMS_UP: &str = "requests that wait or warm up a rule count by one rate, and each of these brings its own: \
    leave `max_wait` and `warm_up` out";
const TOO_SLOW: &str =
    "a request that brings an `rpu` of 1 and has this `cost` takes longer than 100 years to pay for";
const FIXED_BURST: &str =
    "a number does not follow the `rpu` of the request: leave it out, or write a multiple such as `2x`";

/// Reads `rpu`: a number, or the `default` of requests that bring none.
pub(super) fn rpu(node: Node, kind: Option<&AlgorithmKind>) -> Option<u64> {
    match node.value() {
        Value::Object(_) => units(&node.fields()?.take("default")?, 1, kind),
        _ => units(&node, 0, kind),
    }
}

/// Whether requests bring their own `rpu`.
pub(super) fn is_brought(node: &Node) -> bool {
    matches!(node.value(), Value::Object(_))
}

/// Reads where the requests of a rule show their `rpu`; `None` if the document states it.
pub(super) fn limit_source(
    fields: &mut Fields,
    kind: Option<&AlgorithmKind>,
    scope: &mut Scope,
) -> Option<LimitSource> {
    let mut keys = fields.take("rpu").filter(is_brought)?.fields()?;
    let actor = number_source(&mut keys, scope);
    let default = keys.require("default").and_then(|node| units(&node, 1, kind));
    let max = keys.require("max").and_then(|node| units(&node, default.unwrap_or(1), kind));
    keys.finish();
    Some(LimitSource { actor: actor?, max: max? })
}

/// Reads the source of a number.
pub(super) fn number_source(keys: &mut Fields, scope: &mut Scope) -> Option<NamedActor> {
    let actor = source(keys, SET_FOR_CLIENTS, scope);
    if SET_FOR_CLIENTS.iter().all(|kind| !keys.has(kind.key) && !keys.misspells(kind.key)) {
        keys.fail(NO_SOURCE);
    }
    Some(NamedActor::new("rpu", actor?.into(), scope.parts))
}

/// `quota`, which judges requests without a number, for those that bring one from 1 to `max`.
pub(super) fn varying(fields: &mut Fields, kind: &AlgorithmKind, quota: Quota, least: u64) -> Option<Quota> {
    let Allowance { rpu, unit } = quota.configured();
    let max = fields.take("rpu").and_then(|node| units(&node.fields()?.take("max")?, rpu, Some(kind)))?;
    if let Some(node) = fields.take("burst")
        && multiple(&node).is_none()
    {
        node.fail(FIXED_BURST);
        return None;
    }
    // The algorithm has to have room for the largest number as well.
    (kind.read)(fields, Some(Allowance { rpu: max, unit }))?;
    if u128::from(least).saturating_mul(unit.as_ns().into()) > LONGEST_FILL_NS {
        fields.fail_as_rule(TOO_SLOW);
        return None;
    }
    let varying = quota.varying();
    if varying.is_none() {
        fields.fail_as_rule(if kind.keys.contains(&"queue") { WAITS } else { WAITS_OR_WARMS_UP });
    }
    varying
}

/// Reports an override or a plan that names a source of its own.
pub(super) fn refuse_in_change(node: &Node) {
    let rpu = node.fields().and_then(|mut fields| fields.take("rpu"));
    rpu.filter(is_brought).into_iter().for_each(|node| node.fail(OF_THE_RULE));
}
