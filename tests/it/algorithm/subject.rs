//! For each kind, a generator of rules with their reference models.

use super::models::{Bucket, Log, Penalized, Queue, Reference, Slices, Warming};
use diana_base::time::Span;
use diana_config::algorithm::{AlgorithmKind, KINDS};
use diana_document::{Errors, Node, parse};
use diana_limiter::algorithm::{Algorithm, Allowance, MAX_WAIT, Penalty};
use diana_limiter::policy::{self, PlacedQuota};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use proptest::test_runner::RngSeed;

/// A kind and its generator of rules.
pub struct Subject {
    pub short: &'static str,
    pub rules: fn() -> BoxedStrategy<Rule>,
}

/// One row per kind.
pub const SUBJECTS: &[Subject] = &[
    Subject { short: "TB", rules: token_buckets },
    Subject { short: "W", rules: windows },
    Subject { short: "SW", rules: sliding_windows },
    Subject { short: "SL", rules: sliding_logs },
    Subject { short: "LB", rules: leaky_buckets },
    Subject { short: "C", rules: concurrencies },
];

/// A rule and what the tests expect of it.
#[derive(Debug)]
pub struct Rule {
    pub kind: &'static str,
    pub quota: Allowance,
    pub json: String,
    /// The largest cost that is ever admitted.
    pub capacity: u64,
    /// The time scale of the rule.
    pub scale_ns: u64,
    /// After this time without requests a request of cost 1 is admitted, whatever came before.
    pub longest_lockout_ns: u64,
    pub reference: Box<dyn Reference>,
    /// `after` and `for` of a penalty.
    pub penalty: Option<(u64, Span)>,
}

impl Rule {
    /// The quota of the rule, with its penalty, and a cell of its own.
    pub fn placed(&self) -> PlacedQuota {
        let penalty = self.penalty.map(|(after, lasts)| Penalty::new(self.quota.unit, after, lasts));
        policy::Quota::new(self.quota, self.compile()).with_penalty(penalty).alone()
    }

    /// The algorithm alone.
    pub fn compile(&self) -> Algorithm {
        compile(self.kind, &self.json, self.quota).unwrap_or_else(|why| panic!("{why:?}"))
    }

    /// The same rule with a penalty.
    pub fn with_penalty(self, after: u64, lasts: Span) -> Rule {
        let Rule { longest_lockout_ns, reference, quota, capacity, .. } = self;
        Rule {
            longest_lockout_ns: longest_lockout_ns.max(lasts.as_ns() + MAX_SKEW_NS),
            reference: Box::new(Penalized::new(reference, capacity, quota.unit, after, lasts)),
            penalty: Some((after, lasts)),
            ..self
        }
    }
}

/// The algorithm that `json` describes, or the mistakes in it.
pub fn compile(short: &str, json: &str, quota: Allowance) -> Result<Algorithm, Vec<String>> {
    let (value, errors) = (parse(json.as_bytes()).unwrap(), Errors::default());
    let mut fields = Node::root(&value, &errors).fields().unwrap();
    let algorithm = (kind(short).read)(&mut fields, Some(quota));
    fields.finish();
    match algorithm {
        Some(algorithm) if errors.is_empty() => Ok(algorithm),
        _ => Err(errors.into_vec().iter().map(ToString::to_string).collect()),
    }
}

fn kind(short: &str) -> &'static AlgorithmKind {
    KINDS.iter().find(|kind| kind.short == short).unwrap()
}

/// Rules of all kinds with equal probability.
pub fn rules() -> impl Strategy<Value = Rule> {
    rules_of(|_| true)
}

/// Rules of the kinds whose short names `is_meant` accepts, with equal probability.
pub fn rules_of(is_meant: fn(&str) -> bool) -> impl Strategy<Value = Rule> {
    Union::new(KINDS.iter().filter(|kind| is_meant(kind.short)).map(|kind| {
        let subject = SUBJECTS.iter().find(|subject| subject.short == kind.short);
        (subject.unwrap_or_else(|| panic!("no subject for {}", kind.name)).rules)()
    }))
}

/// Rules of all kinds that count per unit, with a penalty.
pub fn penalized() -> impl Strategy<Value = Rule> {
    let (shortest, longest) = (Penalty::MIN_SPAN.as_ns(), Penalty::MAX_SPAN.as_ns());
    let lasts = prop_oneof![
        3 => log(longest / 1_000_000).prop_map(move |ms| (ms * 1_000_000).max(shortest)),
        1 => select(vec![shortest, longest]),
    ];
    let after = prop_oneof![4 => 1..=4_u64, 1 => log(Penalty::MAX_AFTER)];
    let parts = (rules_of(|short| short != "C"), after, lasts);
    parts.prop_map(|(rule, after, lasts)| rule.with_penalty(after, Span::from_ns(lasts)))
}

/// Rules of all kinds, some with a penalty.
pub fn any_rules() -> impl Strategy<Value = Rule> {
    prop_oneof![3 => rules().boxed(), 2 => penalized().boxed()]
}

/// This many cases per kind, always the same ones; `$PROPTEST_RNG_SEED` selects others.
pub fn cases(each: u32) -> ProptestConfig {
    let config = ProptestConfig { cases: each * KINDS.len() as u32, ..ProptestConfig::default() };
    match config.rng_seed {
        RngSeed::Random => ProptestConfig { rng_seed: RngSeed::Fixed(6), ..config },
        RngSeed::Fixed(_) => config,
    }
}

/// Numbers from 1 to `most` on a logarithmic scale.
pub fn log(most: u64) -> impl Strategy<Value = u64> {
    (0.0..=1.0).prop_map(move |x| power(most, x))
}

/// The point at `x` (0 to 1) of the way from 1 to `most`, on a logarithmic scale.
pub fn power(most: u64, x: f64) -> u64 {
    ((most as f64).powf(x) as u64).clamp(1, most.max(1))
}

pub fn quotas() -> impl Strategy<Value = Allowance> {
    let (shortest, longest) = (Allowance::MIN_UNIT.as_ns(), Allowance::MAX_UNIT.as_ns());
    let ms = |ms: u64| ms * 1_000_000;
    let rpu = prop_oneof![
        3 => log(Allowance::MAX_RPU),
        2 => 1..=12_u64,
        1 => select(vec![1, 333, 1_000, 65_537, 999_999_937, Allowance::MAX_RPU]),
    ];
    let unit = prop_oneof![
        2 => log(longest / shortest).prop_map(ms),
        1 => log(longest).prop_map(move |ns| ns.max(shortest)),
        2 => select(vec![ms(1), ms(7), ms(1_001), ms(1_000), ms(60_000), ms(86_400_000), longest]),
    ];
    (rpu, unit).prop_map(|(rpu, ns)| Allowance { rpu, unit: Span::from_ns(ns) })
}

/// Quotas of a window, a third of them larger than those of other kinds.
fn large_quotas() -> impl Strategy<Value = Allowance> {
    let rpu = prop_oneof![
        6 => Just(0),
        2 => log(Allowance::MAX_IN_WINDOW / Allowance::MAX_RPU).prop_map(|times| times * Allowance::MAX_RPU),
        1 => select(vec![1 << 31, 1 << 32, (1 << 32) + 1, 999_999_999_989, Allowance::MAX_IN_WINDOW]),
    ];
    (quotas(), rpu).prop_map(|(quota, rpu)| Allowance { rpu: if rpu > 0 { rpu } else { quota.rpu }, ..quota })
}

/// The largest `rpu` and `borrow` of a kind.
pub fn most_of(short: &str) -> u64 {
    kind(short).most
}

/// The configuration refuses buckets that take longer to fill.
pub const LONGEST_FILL_NS: u128 = 100 * 365 * 86_400 * 1_000_000_000;

/// The largest difference between the clocks of two workers, in ns.
const MAX_SKEW_NS: u64 = 1_000_000_000;

fn token_buckets() -> BoxedStrategy<Rule> {
    let parts = quotas().prop_flat_map(|quota| (Just(quota), bursts(quota), any::<bool>(), waits(quota)));
    parts.prop_map(|(quota, burst, full, wait)| waiting_bucket(quota, burst, full, wait)).boxed()
}

/// `None`: the default.
fn waits(quota: Allowance) -> impl Strategy<Value = Option<Span>> {
    let token = quota.unit.as_ns() / quota.rpu;
    prop_oneof![
        3 => Just(None),
        3 => log(MAX_WAIT.as_ns() / 1_000_000).prop_map(Some),
        3 => (0..=9 * token / 1_000_000 + 2).prop_map(Some),
        1 => Just(Some(0)),
    ]
    .prop_map(|wait| wait.map(|ms| Span::from_ms(ms).min(MAX_WAIT)))
}

/// `None`: the default, `rpu`.
fn bursts(quota: Allowance) -> impl Strategy<Value = Option<u64>> {
    let most = LONGEST_FILL_NS * u128::from(quota.rpu) / u128::from(quota.unit.as_ns());
    let most = u64::try_from(most).unwrap_or(u64::MAX).min(Allowance::MAX_RPU);
    prop_oneof![
        3 => (1..=most.min(9)).prop_map(Some),
        4 => log(most).prop_map(Some),
        2 => Just(None),
        1 => Just(Some(most)),
    ]
}

pub fn token_bucket((quota, burst, full): (Allowance, Option<u64>, bool)) -> Rule {
    waiting_bucket(quota, burst, full, None)
}

pub fn waiting_bucket(quota: Allowance, burst: Option<u64>, full: bool, max_wait: Option<Span>) -> Rule {
    let keys = [
        burst.map(|burst| format!(r#""burst": {burst}"#)),
        (!full).then(|| r#""start": "empty""#.into()),
        max_wait.map(|wait| format!(r#""max_wait": "{wait}""#)),
    ];
    let burst = burst.unwrap_or(quota.rpu);
    let bucket = Bucket::new(quota, burst, full, max_wait.unwrap_or(Span::ZERO));
    let unit_ns = quota.unit.as_ns();
    Rule {
        kind: "TB",
        quota,
        json: object(keys),
        capacity: bucket.capacity(),
        scale_ns: unit_ns,
        longest_lockout_ns: unit_ns,
        reference: Box::new(bucket),
        penalty: None,
    }
}

/// Token buckets with `warm_up`, which keep laws of their own: idleness takes away what remains.
pub fn warming_buckets() -> BoxedStrategy<Rule> {
    let spans = prop_oneof![
        2 => (1_000..=86_400_000_u64).prop_map(Span::from_ms),
        2 => log(86_400).prop_map(Span::from_secs),
        1 => select(vec![Span::from_secs(1), Span::from_secs(30), Span::from_secs(86_400)]),
    ];
    let parts = quotas().prop_flat_map(|quota| (Just(quota), bursts(quota), any::<bool>()));
    (parts, spans)
        .prop_filter("a fill time that is allowed", |((quota, burst, _), _)| {
            let fill = u128::from(burst.unwrap_or(quota.rpu).max(3)) * u128::from(quota.unit.as_ns());
            fill <= LONGEST_FILL_NS * u128::from(quota.rpu)
        })
        .prop_map(|((quota, burst, full), warm_up)| warming_bucket(quota, burst, full, warm_up))
        .boxed()
}

pub fn warming_bucket(quota: Allowance, burst: Option<u64>, full: bool, warm_up: Span) -> Rule {
    let burst = burst.map(|burst| burst.max(3));
    let json = object([
        burst.map(|burst| format!(r#""burst": {burst}"#)),
        (!full).then(|| r#""start": "empty""#.into()),
        Some(format!(r#""warm_up": "{warm_up}""#)),
    ]);
    let burst = burst.unwrap_or(quota.rpu.max(3));
    let unit_ns = quota.unit.as_ns();
    Rule {
        kind: "TB",
        quota,
        json,
        capacity: burst,
        scale_ns: unit_ns,
        longest_lockout_ns: unit_ns + 2 * unit_ns.div_ceil(quota.rpu),
        penalty: None,
        reference: Box::new(Warming::new(quota, burst, full, warm_up)),
    }
}

fn object(keys: impl IntoIterator<Item = Option<String>>) -> String {
    format!("{{{}}}", keys.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn windows() -> BoxedStrategy<Rule> {
    large_quotas().prop_map(window).boxed()
}

pub fn window(quota: Allowance) -> Rule {
    let reference = Box::new(Slices::new(quota.rpu, quota.unit, 1, 1));
    per_unit("W", quota, "{}".into(), reference)
}

/// A rule that admits `rpu` at most and forgets them after a unit.
fn per_unit(kind: &'static str, quota: Allowance, json: String, reference: Box<dyn Reference>) -> Rule {
    let scale_ns = quota.unit.as_ns();
    Rule {
        kind,
        quota,
        json,
        capacity: quota.rpu,
        scale_ns,
        longest_lockout_ns: scale_ns + MAX_SKEW_NS,
        reference,
        penalty: None,
    }
}

fn sliding_windows() -> BoxedStrategy<Rule> {
    let slices =
        prop_oneof![1 => Just(None), 2 => (2..=60_u64).prop_map(Some), 1 => (2..=4_u64).prop_map(Some)];
    (large_quotas(), slices).prop_map(|(quota, slices)| sliding_window(quota, slices)).boxed()
}

pub fn sliding_window(quota: Allowance, slices: Option<u64>) -> Rule {
    let json = object([slices.map(|slices| format!(r#""slices": {slices}"#))]);
    let slices = slices.unwrap_or(10);
    let reference = Box::new(Slices::new(quota.rpu, quota.unit, slices, slices));
    per_unit("SW", quota, json, reference)
}

fn sliding_logs() -> BoxedStrategy<Rule> {
    let few = prop_oneof![2 => 1..=12_u64, 1 => 1..=128_u64, 1 => Just(128)];
    (quotas(), few).prop_map(|(quota, rpu)| sliding_log(Allowance { rpu, ..quota })).boxed()
}

pub fn sliding_log(quota: Allowance) -> Rule {
    per_unit("SL", quota, "{}".into(), Box::new(Log::new(quota)))
}

fn leaky_buckets() -> BoxedStrategy<Rule> {
    let parts = quotas().prop_flat_map(|quota| {
        let queue = prop_oneof![
            1 => Just(None),
            2 => (0..=9_u64).prop_map(Some),
            2 => log(Allowance::MAX_RPU).prop_map(Some),
        ];
        (Just(quota), queue, waits(quota))
    });
    parts.prop_map(|(quota, queue, wait)| leaky_bucket(quota, queue, wait)).boxed()
}

/// If the queue would be longer than the longest wait, `max_wait` limits it. Without `queue` and
/// `max_wait`, requests wait for ten seconds at most.
pub fn leaky_bucket(quota: Allowance, queue: Option<u64>, max_wait: Option<Span>) -> Rule {
    let longest =
        u128::from(queue.unwrap_or(quota.rpu)) * u128::from(quota.unit.as_ns()) / u128::from(quota.rpu);
    let is_too_long = queue.is_some() && longest >= MAX_WAIT.as_ns().into();
    let max_wait = max_wait.or(is_too_long.then_some(MAX_WAIT));
    let json = object([
        queue.map(|queue| format!(r#""queue": {queue}"#)),
        max_wait.map(|wait| format!(r#""max_wait": "{wait}""#)),
    ]);
    let longest = max_wait.or(queue.is_none().then_some(Span::from_secs(10)));
    let reference = Queue::new(quota, queue.unwrap_or(quota.rpu), longest);
    let scale_ns = quota.unit.as_ns();
    Rule {
        kind: "LB",
        quota,
        json,
        capacity: reference.capacity(),
        scale_ns,
        longest_lockout_ns: scale_ns.div_ceil(quota.rpu) + MAX_SKEW_NS,
        reference: Box::new(reference),
        penalty: None,
    }
}

fn concurrencies() -> BoxedStrategy<Rule> {
    let (shortest, longest) = (1_000, 86_400_000_u64);
    let hold = prop_oneof![
        1 => Just(None),
        2 => (shortest..=longest).prop_map(Some),
        2 => select(vec![shortest, shortest + 1, 60 * shortest, longest]).prop_map(Some),
    ];
    let limit = prop_oneof![1 => 1..=12_u64, 1 => log(Allowance::MAX_RPU)];
    (limit, hold).prop_map(|(rpu, hold)| concurrency(rpu, hold.map(Span::from_ms))).boxed()
}

pub fn concurrency(rpu: u64, max_hold: Option<Span>) -> Rule {
    let json = object([max_hold.map(|hold| format!(r#""max_hold": "{hold}""#))]);
    let hold = max_hold.unwrap_or(Span::from_secs(60));
    let hold_ns = hold.as_ns();
    Rule {
        kind: "C",
        quota: Allowance { rpu, unit: Span::ZERO },
        json,
        capacity: rpu,
        scale_ns: hold_ns,
        longest_lockout_ns: hold_ns + hold_ns.div_ceil(8) + MAX_SKEW_NS,
        reference: Box::new(Slices::new(rpu, hold, 8, 9)),
        penalty: None,
    }
}
