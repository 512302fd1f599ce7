//! What the laws are about: for each kind a generator of rules and the slow model that says what is right.

use super::reference::Bucket;
use diana::algorithm::{Algorithm, KINDS, Kind, Quota, Verdict};
use diana::document::{Errors, Node, parse};
use diana::time::{Span, Time};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use std::fmt::Debug;
use std::rc::Rc;

/// A kind and how its rules are made up.
pub struct Subject {
    pub short: &'static str,
    pub rules: fn() -> BoxedStrategy<Rule>,
}

/// One row a kind.
pub const SUBJECTS: &[Subject] = &[Subject { short: "TB", rules: token_buckets }];

/// A slow model of one cell, written from the definition of the kind and not from its code.
pub trait Reference: Debug {
    /// The verdict of a cell that is prepared and then asked. Its charge is not looked at.
    fn step(&mut self, now: Time, cost: u64) -> Verdict;

    /// How many units may pass in a span of so many nanoseconds, both ends included.
    fn most(&self, elapsed_ns: u128) -> u128;
}

/// A rule and what is to be expected of it.
#[derive(Debug)]
pub struct Rule {
    pub kind: &'static str,
    pub quota: Quota,
    pub json: String,
    /// The largest cost that is ever admitted.
    pub capacity: u64,
    pub reference: Box<dyn Reference>,
}

impl Rule {
    pub fn compile(&self) -> Rc<dyn Algorithm> {
        compile(self.kind, &self.json, self.quota).unwrap_or_else(|why| panic!("{why:?}")).into()
    }
}

/// The algorithm that `json` describes, or the mistakes in it.
pub fn compile(short: &str, json: &str, quota: Quota) -> Result<Box<dyn Algorithm>, Vec<String>> {
    let (value, errors) = (parse(json.as_bytes()).unwrap(), Errors::default());
    let mut fields = Node::root(&value, &errors).fields().unwrap();
    let algorithm = (kind(short).compile)(&mut fields, quota);
    fields.finish();
    match algorithm {
        Some(algorithm) if errors.is_empty() => Ok(algorithm),
        _ => Err(errors.into_vec().iter().map(ToString::to_string).collect()),
    }
}

fn kind(short: &str) -> &'static Kind {
    KINDS.iter().find(|kind| kind.short == short).unwrap()
}

/// Rules of all kinds alike.
pub fn rules() -> impl Strategy<Value = Rule> {
    Union::new(KINDS.iter().map(|kind| {
        let subject = SUBJECTS.iter().find(|subject| subject.short == kind.short);
        (subject.unwrap_or_else(|| panic!("no subject for {}", kind.name)).rules)()
    }))
}

/// So many cases for each kind.
pub fn cases(each: u32) -> ProptestConfig {
    ProptestConfig { cases: each * KINDS.len() as u32, ..ProptestConfig::default() }
}

/// From 1 to `most`, each order of magnitude as often as the other.
pub fn log(most: u64) -> impl Strategy<Value = u64> {
    (0.0..=1.0).prop_map(move |x| power(most, x))
}

/// The `x`-th part of the way from 1 to `most`, on a logarithmic scale.
pub fn power(most: u64, x: f64) -> u64 {
    ((most as f64).powf(x) as u64).clamp(1, most.max(1))
}

pub fn quotas() -> impl Strategy<Value = Quota> {
    let (shortest, longest) = (Quota::MIN_UNIT.as_ns(), Quota::MAX_UNIT.as_ns());
    let ms = |ms: u64| ms * 1_000_000;
    let rpu = prop_oneof![
        3 => log(Quota::MAX_RPU),
        2 => 1..=12_u64,
        1 => select(vec![1, 333, 1_000, 65_537, 999_999_937, Quota::MAX_RPU]),
    ];
    let unit = prop_oneof![
        2 => log(longest / shortest).prop_map(ms),
        1 => log(longest).prop_map(move |ns| ns.max(shortest)),
        2 => select(vec![ms(1), ms(7), ms(1_001), ms(1_000), ms(60_000), ms(86_400_000), longest]),
    ];
    (rpu, unit).prop_map(|(rpu, ns)| Quota { rpu, unit: Span::from_ns(ns) })
}

/// A bucket that takes longer to fill is refused.
pub const LONGEST_FILL_NS: u128 = 100 * 365 * 86_400 * 1_000_000_000;

fn token_buckets() -> BoxedStrategy<Rule> {
    quotas().prop_flat_map(|quota| (Just(quota), bursts(quota), any::<bool>())).prop_map(token_bucket).boxed()
}

/// `None`: as much as `rpu`.
fn bursts(quota: Quota) -> impl Strategy<Value = Option<u64>> {
    let most = LONGEST_FILL_NS * u128::from(quota.rpu) / u128::from(quota.unit.as_ns());
    let most = u64::try_from(most).unwrap_or(u64::MAX).min(Quota::MAX_RPU);
    prop_oneof![
        3 => (1..=most.min(9)).prop_map(Some),
        4 => log(most).prop_map(Some),
        2 => Just(None),
        1 => Just(Some(most)),
    ]
}

pub fn token_bucket((quota, burst, full): (Quota, Option<u64>, bool)) -> Rule {
    let start = if full { "" } else { r#""start": "empty""# };
    let json = match burst {
        Some(burst) if full => format!(r#"{{"burst": {burst}}}"#),
        Some(burst) => format!(r#"{{"burst": {burst}, {start}}}"#),
        None => format!("{{{start}}}"),
    };
    let capacity = burst.unwrap_or(quota.rpu);
    Rule { kind: "TB", quota, json, capacity, reference: Box::new(Bucket::new(quota, capacity, full)) }
}
