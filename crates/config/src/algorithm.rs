//! The kinds of algorithms, as `algo` names them, and the readers of their own keys. The engine
//! checks the numbers: [`QuotaError`] says which one an algorithm cannot have.

use super::calendar::calendar;
use diana_base::time::Span;
use diana_document::{Fields, Node, Value};
use diana_limiter::algorithm::{Algorithm, Allowance, BucketOptions, MAX_WAIT, QueueOptions, QuotaError};

/// A kind of algorithm.
///
/// ```
/// use diana_config::algorithm::KINDS;
/// use diana_document::{Errors, Node, parse};
///
/// let (keys, errors) = (parse(br#"{"slices": 90}"#)?, Errors::default());
/// if let (Some(kind), Some(mut keys)) =
///     (KINDS.iter().find(|kind| kind.short == "SW"), Node::root(&keys, &errors).fields())
/// {
///     assert!((kind.read)(&mut keys, None).is_none());
/// }
/// assert_eq!(errors.into_vec()[0].path, "slices");
/// # Ok::<(), diana_document::Error>(())
/// ```
pub struct AlgorithmKind {
    /// The long name, for example `token bucket`.
    pub name: &'static str,
    /// The abbreviation, for example `TB`.
    pub short: &'static str,
    /// The configuration keys of a rule that only this kind reads.
    pub keys: &'static [&'static str],
    /// The largest `rpu`, and the most units of a cost, of `borrow` and of `headroom`.
    pub most: u64,
    /// Whether the quota is per unit of time. Otherwise `rpu` is a number of requests in flight.
    pub per_unit: bool,
    /// The most requests that pass in any span of time, as the reference documentation prints it.
    pub bound: &'static str,
    /// Builds the algorithm from the kind's own keys of a rule. A mistake is reported at its place
    /// in the document and yields `None`. Without a quota, a stand-in is used, with which no valid
    /// key conflicts, so that mistakes in the keys are reported.
    pub read: fn(&mut Fields, Option<Allowance>) -> Option<Algorithm>,
}

/// All kinds of algorithms. The first one is the default.
pub static KINDS: &[AlgorithmKind] = &[
    AlgorithmKind {
        name: "token bucket",
        short: "TB",
        keys: &["burst", "start", "max_wait", "warm_up"],
        most: Allowance::MAX_RPU,
        per_unit: true,
        bound: "burst + t · rpu / unit in any span t",
        read: token_bucket,
    },
    AlgorithmKind {
        name: "window",
        short: "W",
        keys: &["anchor", "timezone"],
        most: Allowance::MAX_IN_WINDOW,
        per_unit: true,
        bound: "(⌈t / unit⌉ + 1) · rpu in any span t",
        read: window,
    },
    AlgorithmKind {
        name: "sliding window",
        short: "SW",
        keys: &["slices"],
        most: Allowance::MAX_IN_WINDOW,
        per_unit: true,
        bound: "rpu in any span of unit − unit / slices, 2 · rpu in a unit",
        read: sliding_window,
    },
    AlgorithmKind {
        name: "sliding log",
        short: "SL",
        keys: &[],
        most: Allowance::MAX_RPU,
        per_unit: true,
        bound: "rpu in any span of a unit",
        read: sliding_log,
    },
    AlgorithmKind {
        name: "leaky bucket",
        short: "LB",
        keys: &["queue", "max_wait"],
        most: Allowance::MAX_RPU,
        per_unit: true,
        bound: "1 + t · rpu / unit in any span t",
        read: leaky_bucket,
    },
    AlgorithmKind {
        name: "concurrency",
        short: "C",
        keys: &["max_hold"],
        most: Allowance::MAX_RPU,
        per_unit: false,
        bound: "rpu at any instant, of requests that last at most max_hold",
        read: concurrency,
    },
];

/// Reads a number of units, at least `least`. Without a `kind`, the algorithm is unknown.
#[inline(never)]
pub(super) fn units(node: &Node, least: u64, kind: Option<&AlgorithmKind>) -> Option<u64> {
    let (short, most) = kind.map_or(("", Allowance::MAX_IN_WINDOW), |kind| (kind.short, kind.most));
    if node.as_size().is_some_and(|units| units > most && units <= Allowance::MAX_IN_WINDOW) {
        node.fail(format!(
            "`{short}` counts up to {most} units, only `W` and `SW` up to {}",
            Allowance::MAX_IN_WINDOW
        ));
        return None;
    }
    node.size(least..=most)
}

/// Buckets take at most this long to fill, from their deepest debt.
pub(super) const LONGEST_FILL_NS: u128 = 100 * 365 * 86_400 * 1_000_000_000;

/// The fastest quota: every burst fills, and every queue empties, in no time.
pub(super) const FASTEST: Allowance = Allowance { rpu: Allowance::MAX_RPU, unit: Allowance::MIN_UNIT };

fn token_bucket(fields: &mut Fields, quota: Option<Allowance>) -> Option<Algorithm> {
    let quota = quota.unwrap_or(FASTEST);
    let node = fields.take("warm_up");
    let burst = optional(fields.take("burst"), |node| burst(&node, quota.rpu));
    let starts_empty =
        optional(fields.take("start"), |node| node.choice("start", &[("full", false), ("empty", true)]));
    let max_wait = optional(fields.take("max_wait"), |node| node.span(Span::ZERO..=MAX_WAIT));
    let warm_up = optional(node, |node| node.span(Algorithm::WARM_UP));
    let options = BucketOptions {
        burst: burst?,
        starts_empty: starts_empty?.unwrap_or(false),
        max_wait: max_wait?.unwrap_or(Span::ZERO),
        warm_up: warm_up?,
    };
    let error = match Algorithm::token_bucket(quota, options) {
        Ok(algorithm) => return Some(algorithm),
        Err(error) => error,
    };
    match (error, node) {
        // Any of the three keys may come from the rule that an override changes, so the error
        // points at both together.
        (QuotaError::FillTime { burst }, _) => fields.fail(format!(
            "at {} per {} a `burst` of {burst} takes longer to fill than the 100 years that are allowed",
            quota.rpu, quota.unit
        )),
        (QuotaError::WarmUpWaits, Some(node)) => node.fail(
            "requests that wait would warm the rule up before they go on: leave `warm_up` or `max_wait` out",
        ),
        (QuotaError::WarmUpBurst, Some(node)) => {
            node.fail("a request of a cold rule takes 3 tokens: `burst` has to be at least 3");
        }
        (error, _) => unforeseen(fields, error),
    }
    None
}

/// Reads a number, or a multiple of `rpu` such as `2x`.
fn burst(node: &Node, rpu: u64) -> Option<u64> {
    let Some(times) = multiple(node) else {
        return node.size(1..=Allowance::MAX_RPU);
    };
    let burst = rpu.saturating_mul(times);
    if burst > Allowance::MAX_RPU {
        node.fail(format!(
            "a `burst` of {times} times {rpu} is more than the {} that are allowed",
            Allowance::MAX_RPU
        ));
        return None;
    }
    Some(burst)
}

/// The number of a multiple such as `2x`.
pub(super) fn multiple(node: &Node) -> Option<u64> {
    let Value::Text(text) = node.value() else { return None };
    let times = text.strip_suffix('x')?.parse().ok()?;
    (1..=MAX_TIMES).contains(&times).then_some(times)
}

/// The largest multiple of `rpu`.
const MAX_TIMES: u64 = 999;

fn window(fields: &mut Fields, quota: Option<Allowance>) -> Option<Algorithm> {
    let quota = quota.unwrap_or(FASTEST);
    match calendar(fields)? {
        Some(calendar) => or_report(fields, Algorithm::calendar(quota.rpu, calendar)),
        None => or_report(fields, Algorithm::window(quota)),
    }
}

fn sliding_window(fields: &mut Fields, quota: Option<Allowance>) -> Option<Algorithm> {
    let slices = optional(fields.take("slices"), |node| node.whole(Algorithm::SLICES))?;
    let slices = slices.unwrap_or(Algorithm::DEFAULT_SLICES);
    or_report(fields, Algorithm::sliding_window(quota.unwrap_or(FASTEST), slices))
}

fn sliding_log(fields: &mut Fields, quota: Option<Allowance>) -> Option<Algorithm> {
    let quota = quota.unwrap_or(Allowance { rpu: 1, unit: Allowance::MIN_UNIT });
    if quota.rpu > Algorithm::MAX_LOGGED {
        fields.fail(format!(
            "a sliding log remembers each of the last `rpu` requests, at most {}: use SW, or TB",
            Algorithm::MAX_LOGGED
        ));
        return None;
    }
    or_report(fields, Algorithm::sliding_log(quota))
}

fn leaky_bucket(fields: &mut Fields, quota: Option<Allowance>) -> Option<Algorithm> {
    let quota = quota.unwrap_or(FASTEST);
    let queue = optional(fields.take("queue"), |node| node.whole(0..=Allowance::MAX_RPU));
    let max_wait = optional(fields.take("max_wait"), |node| node.span(Span::ZERO..=MAX_WAIT));
    let built = Algorithm::leaky_bucket(quota, QueueOptions { queue: queue?, max_wait: max_wait? });
    if let Err(QuotaError::QueueTime { queue }) = built {
        fields.fail(format!(
            "the last of a `queue` of {queue} at {} per {} waits longer than the {MAX_WAIT} that are allowed: give a `max_wait`",
            quota.rpu, quota.unit
        ));
        return None;
    }
    or_report(fields, built)
}

fn concurrency(fields: &mut Fields, quota: Option<Allowance>) -> Option<Algorithm> {
    let max_hold = optional(fields.take("max_hold"), |node| node.span(Algorithm::MAX_HOLD))?;
    let max_hold = max_hold.unwrap_or(Algorithm::DEFAULT_MAX_HOLD);
    or_report(fields, Algorithm::concurrency(quota.unwrap_or(FASTEST).rpu, max_hold))
}

/// The value of a key that may be absent. `None` if it is wrong, and reported.
fn optional<'a, T>(node: Option<Node<'a>>, read: impl FnOnce(Node<'a>) -> Option<T>) -> Option<Option<T>> {
    match node {
        Some(node) => read(node).map(Some),
        None => Some(None),
    }
}

fn or_report(fields: &Fields, built: Result<Algorithm, QuotaError>) -> Option<Algorithm> {
    built.map_err(|error| unforeseen(fields, error)).ok()
}

/// Reports a number that its reader should have refused.
fn unforeseen(fields: &Fields, error: QuotaError) {
    debug_assert!(false, "a reader lets {error:?} pass");
    fields.fail(error.to_string());
}
