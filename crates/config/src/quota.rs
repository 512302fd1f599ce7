//! A quota, of a rule, an override or a plan: `algo`, `rpu`, `unit`, and the algorithm's own keys.

use super::algorithm::{AlgorithmKind, FASTEST, KINDS, LONGEST_FILL_NS, units};
use super::calendar::{long_unit, longest};
use super::global_rule;
use super::headroom::RuleHeadroom;
use super::limit_source::{is_brought, rpu, varying};
use super::penalty::penalty;
use diana_base::time::Span;
use diana_document::{Fields, Node, Value, fold, one_of, quoted};
use diana_limiter::algorithm::{self, Algorithm};
use diana_limiter::policy::{Cost, Quota};

/// Reads `algo`. Without it, the first algorithm of the list counts.
pub(super) fn algorithm(node: Option<Node>) -> Option<&'static AlgorithmKind> {
    let Some(node) = node else {
        return KINDS.first();
    };
    let text = node.text()?;
    let named =
        |kind: &&AlgorithmKind| [kind.name, kind.short].into_iter().any(|name| fold(name) == fold(text));
    let kind = KINDS.iter().find(named);
    if kind.is_none() {
        // Suggest long names only: any abbreviation is close to any other.
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        let hint = match node.meant(text, &names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => {
                let both = KINDS.iter().map(|kind| format!("{} ({})", kind.short, kind.name));
                let both: Vec<String> = both.collect();
                format!("expected {}", one_of(&both.iter().map(String::as_str).collect::<Vec<_>>()))
            }
        };
        node.fail(format!("unknown algorithm {}, {hint}", quoted(text)));
    }
    kind
}

/// What the quotas of a rule depend on: the cost of its requests, and the headroom.
#[derive(Clone, Copy)]
pub(super) struct Weight<'a> {
    /// The lowest cost of a request that the configuration guarantees.
    pub(super) least: u64,
    /// The least that a request is charged on arrival.
    pub(super) on_arrival: u64,
    /// Whether requests are settled at their end.
    pub(super) settles: bool,
    /// Whether settling may charge more than was charged on arrival.
    pub(super) borrows: bool,
    pub(super) headroom: Option<RuleHeadroom<'a>>,
}

impl<'a> Weight<'a> {
    pub(super) fn of(cost: Option<&Cost>, headroom: Option<RuleHeadroom<'a>>) -> Weight<'a> {
        let least = cost.and_then(Cost::fixed).unwrap_or(1);
        let (settles, borrows) = (cost.is_some_and(Cost::settles), cost.is_some_and(Cost::borrows));
        let on_arrival = cost.map_or(1, Cost::least_on_arrival);
        Weight { least, on_arrival, settles, borrows, headroom }
    }
}

/// The algorithm of a rule that settles. Reads `borrow`.
fn settling(
    fields: &mut Fields,
    kind: &AlgorithmKind,
    algorithm: Algorithm,
    quota: algorithm::Allowance,
    weight: Weight,
) -> Option<Algorithm> {
    let borrow = match fields.take("borrow") {
        Some(node) if !weight.borrows => {
            node.fail("this rule charges nothing after the response: leave `borrow` out");
            return None;
        }
        Some(node) => units(&node, 0, Some(kind))?,
        None if weight.borrows => quota.rpu,
        None => 0,
    };
    let units = u128::from(algorithm.shown(quota).rpu).saturating_add(borrow.into());
    let fill_ns = units.saturating_mul(quota.unit.as_ns().into()).checked_div(quota.rpu.into());
    if fill_ns.is_some_and(|fill_ns| fill_ns > LONGEST_FILL_NS) {
        fields.fail(format!("a debt of {borrow} units takes longer than 100 years to repay: lower `borrow`"));
        return None;
    }
    let settling = algorithm.borrowing(borrow);
    if settling.is_none() {
        fields.fail_as_rule(format!(
            "the cost is known only when the request ends, and this {} cannot correct the charge then: write `algo: W`, \
             `SW`, or `TB` without `max_wait` and `warm_up`",
            kind.short
        ));
    }
    settling
}

const NO_PENALTY: &str = "refusals are counted within the rule's unit, and periods of the calendar have no fixed length: leave \
    `penalty` out, or give it to a rule with a shorter unit";

/// Reads the quota of a rule, an override or a plan.
pub(super) fn quota(
    fields: &mut Fields,
    kind: Option<&'static AlgorithmKind>,
    global: Option<&global_rule::Rule>,
    weight: Weight,
) -> Option<Quota> {
    let penalty = penalty(fields, kind);
    let quota = count(fields, kind, weight)?;
    let quota = match penalty? {
        Some(_) if quota.algorithm().of_calendar().is_some() => {
            fields.take("penalty")?.fail(NO_PENALTY);
            return None;
        }
        Some(penalty) => penalty.apply(quota),
        None => quota,
    };
    let quota = match weight.headroom {
        Some(headroom) => headroom.apply(fields, quota, weight.least)?,
        None => quota,
    };
    match global {
        Some(global) => global.apply_lease(fields, quota, weight),
        None => Some(quota),
    }
}

/// Compiles `rpu`, `unit` and the algorithm's keys.
fn count(fields: &mut Fields, kind: Option<&AlgorithmKind>, weight: Weight) -> Option<Quota> {
    let node = fields.require("rpu");
    let number = node.and_then(|node| match node.value() {
        Value::Number(number) => Some(*number),
        _ => None,
    });
    let rpu = node.filter(|_| number.is_none()).and_then(|node| rpu(node, kind));
    let unit = match kind {
        Some(AlgorithmKind { per_unit: false, name, .. }) => {
            if let Some(node) = fields.take("unit") {
                node.fail(format!("{name} has no unit: `rpu` is how many may be in flight at once"));
            }
            Some(Span::ZERO)
        }
        Some(kind) => fields.require("unit").and_then(|node| unit(node, kind.keys.contains(&"anchor"))),
        // The algorithm is unknown and may need no unit.
        None => fields.take("unit").and_then(|node| unit(node, true)),
    };
    if let (Some(node), Some(number)) = (node, number) {
        fraction(&node, number, kind, unit);
    }
    // Mistakes in the algorithm's own keys are reported even without a quota.
    let quota = match (rpu, unit) {
        (Some(rpu @ 1..), Some(unit)) => Some(algorithm::Allowance { rpu, unit }),
        _ => None,
    };
    let Some(kind) = kind else {
        // The algorithm is unknown, so the keys of every algorithm count as known.
        for key in KINDS.iter().flat_map(|kind| kind.keys) {
            fields.take(key);
        }
        fields.take("borrow");
        return None;
    };
    let algorithm = (kind.read)(fields, quota);
    others_keys(fields, kind);
    let is_valid = rpu.is_some() && unit.is_some();
    let algorithm = match algorithm {
        Some(algorithm) if weight.settles && is_valid => {
            settling(fields, kind, algorithm, quota.unwrap_or(FASTEST), weight)
        }
        _ if weight.settles => {
            fields.take("borrow");
            None
        }
        algorithm => {
            fields.belong(&["borrow"], "to a rule whose `cost` or `charge` depends on the response");
            algorithm
        }
    };
    let (rpu, unit) = (rpu?, unit?);
    let algorithm = if rpu == 0 { Algorithm::RefuseAll } else { algorithm? };
    let quota = Quota::new(algorithm::Allowance { rpu, unit }, algorithm);
    match node.filter(is_brought) {
        Some(_) => varying(fields, kind, quota, weight.least),
        None => Some(quota),
    }
}

/// Reports an `rpu` with a fraction, and the whole one of the same rate, if a unit fits.
fn fraction(node: &Node, number: f64, kind: Option<&AlgorithmKind>, unit: Option<Span>) {
    let whole = |times: u64| {
        let rpu = number * times as f64;
        let unit = unit?.as_ns().checked_mul(times).map(Span::from_ns)?;
        let nearest = (rpu + 0.5) as u64;
        let is_whole = (0.5..1e9).contains(&rpu) && (rpu - nearest as f64).abs() < 1e-9;
        let fits = (algorithm::Allowance::MIN_UNIT..=algorithm::Allowance::MAX_UNIT).contains(&unit);
        (is_whole && fits).then_some((nearest, unit))
    };
    let _: Option<u64> = match (2..=1_000).find_map(whole) {
        Some((rpu, unit)) => node.expected(&format!("a whole number, as in `rpu: {rpu}, unit: {unit}`")),
        None => units(node, 0, kind),
    };
}
const UNITS: &str = "second, minute, hour, day, week, month, year or a span such as `30s`";

/// The time base of a rule: that of its first quota that does not refuse all.
pub(super) struct TimeBase {
    kind: Option<&'static AlgorithmKind>,
    base: Option<u64>,
}

impl TimeBase {
    pub(super) fn of(kind: Option<&'static AlgorithmKind>, own: Option<&Quota>) -> TimeBase {
        TimeBase { kind, base: own.and_then(Quota::time_base) }
    }

    /// Reports the override or the plan at `node` if its quota cannot judge what the rule counts.
    pub(super) fn check(&mut self, node: &Node, quota: &Quota) -> bool {
        let Some(other) = quota.time_base() else { return true };
        let fits = *self.base.get_or_insert(other) == other;
        if !fits {
            let same = match self.kind.map_or("", |kind| kind.short) {
                "TB" => "`start`, and with `warm_up` the same numbers",
                "SW" => "`unit` and `slices`",
                "C" => "`max_hold`",
                _ => "`unit`",
            };
            node.fail(format!(
                "all quotas of a rule have the same {same}, because they judge one count: leave the key out, or write a \
                 rule of its own"
            ));
        }
        fits
    }
}

/// Records the keys that only other algorithms have, with the names of these algorithms.
fn others_keys(fields: &mut Fields, own: &AlgorithmKind) {
    for key in KINDS.iter().flat_map(|kind| kind.keys).filter(|key| !own.keys.contains(key)) {
        let having = KINDS.iter().filter(|kind| kind.keys.contains(key));
        let having: Vec<&str> = having.map(|kind| kind.short).collect();
        let place = format!("to the algorithm {}, and `algo` is {} here", one_of(&having), own.short);
        fields.belong(&[*key], place);
    }
}

fn unit(node: Node, has_calendar: bool) -> Option<Span> {
    let Value::Text(text) = node.value() else {
        return node.expected(UNITS);
    };
    if let Some(unit) = long_unit(text) {
        if !has_calendar {
            node.fail("weeks, months and years are periods of the calendar, which only `algo: W` counts");
        }
        return has_calendar.then(|| longest(unit));
    }
    if let Some(unit) = diana_document::unit(text) {
        return Some(unit);
    }
    if !text.trim_start().starts_with(|first: char| first.is_ascii_digit()) {
        node.fail(["unknown unit ", &quoted(text), ", expected ", UNITS].concat());
        return None;
    }
    node.span(algorithm::Allowance::MIN_UNIT..=algorithm::Allowance::MAX_UNIT)
}
