//! The rules of generated streams, and a slow model of their counts.

use std::collections::BTreeMap;

/// The rules by user, and two that count all requests. The unit is longer than any run.
pub const RULES: &str = r#"
    {"name": "in", "actor": "user", "algo": "W", "rpu": 2000, "unit": "7d", "cost": "request_bytes", "borrow": 300},
    {"name": "out", "actor": "user", "algo": "W", "rpu": 900, "unit": "7d",
     "cost": {"response_bytes": true, "estimate": 20, "max": 200}},
    {"name": "json", "actor": "user", "algo": "W", "rpu": 1500, "unit": "7d", "borrow": 100,
     "cost": {"response_json": "/usage/total_tokens", "estimate": 50, "max": 400}},
    {"name": "header", "actor": "user", "algo": "W", "rpu": 150, "unit": "7d",
     "cost": {"response_header": "x-tokens", "estimate": 7, "default": 3}},
    {"name": "failed", "algo": "W", "rpu": 12, "unit": "7d", "charge": {"status": [401, "5xx"]}},
    {"name": "kept", "algo": "W", "rpu": 90, "unit": "7d", "cost": 3, "refund": {"status": "5xx"}}"#;

/// The name, the quota, how much may be borrowed, and whether the rule counts by user.
const QUOTAS: [(&str, u64, u64, bool); 6] = [
    ("in", 2_000, 300, true),
    ("out", 900, 900, true),
    ("json", 1_500, 100, true),
    ("header", 150, 150, true),
    ("failed", 12, 12, false),
    ("kept", 90, 0, false),
];

pub fn names() -> impl Iterator<Item = &'static str> {
    QUOTAS.iter().map(|(name, ..)| *name)
}

/// What a stream used.
#[derive(Debug, Default)]
pub struct Used {
    pub request_bytes: u64,
    pub response_bytes: u64,
    pub status: Option<u32>,
    /// The numbers in the response's header and body, and whether the response has no others.
    pub named: (Option<u64>, bool),
    pub number: (Option<u64>, bool),
}

/// How often the generator has met what is rare.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub refused: u64,
    /// Requests that left while they waited.
    pub refunded: u64,
    /// Corrections up, down, and up to less than was used.
    pub charged: u64,
    pub reduced: u64,
    pub forgiven: u64,
    /// Numbers that could not be read.
    pub unread: u64,
}

/// What each rule has charged, by user.
#[derive(Debug, Default)]
pub struct Model {
    charged: BTreeMap<(&'static str, usize), u64>,
    pub seen: Seen,
}

impl Model {
    fn count(&mut self, rule: usize, user: usize) -> &mut u64 {
        let (name, _, _, is_by_user) = QUOTAS[rule];
        self.charged.entry((name, if is_by_user { user } else { 0 })).or_default()
    }

    /// What each rule charges a request, and has left then; `None` if one refuses.
    pub fn arrive(&mut self, user: usize, declared: u64) -> Option<(Vec<u64>, Vec<u64>)> {
        let costs = [declared, 20, 50, 7, 0, 3];
        let mut admits =
            |(rule, cost): (usize, &u64)| *self.count(rule, user) + cost.max(&1) <= QUOTAS[rule].1;
        if !costs.iter().enumerate().all(&mut admits) {
            self.seen.refused += 1;
            return None;
        }
        let charge = |(rule, cost): (usize, &u64)| {
            let count = self.count(rule, user);
            *count += cost;
            QUOTAS[rule].1 - *count
        };
        let left = costs.iter().enumerate().map(charge).collect();
        Some((costs.into(), left))
    }

    /// A request that leaves while it waits costs nothing.
    pub fn refund(&mut self, user: usize, charged: &[u64]) {
        self.seen.refunded += 1;
        charged.iter().enumerate().for_each(|(rule, cost)| *self.count(rule, user) -= cost);
    }

    /// Corrects what a request was charged to what it used, as far as the quota may be borrowed.
    pub fn settle(&mut self, user: usize, charged: &[u64], used: &Used) {
        let fails = used.status.is_some_and(|status| status == 401 || status >= 500);
        let mut cost = |(number, is_final): (Option<u64>, bool), estimate: u64, default: u64| {
            let is_final = is_final && (number.is_some() || used.status != Some(504));
            self.seen.unread += u64::from(!is_final);
            if is_final { number.unwrap_or(default) } else { number.unwrap_or(0).max(estimate).max(default) }
        };
        let costs = [
            Some(used.request_bytes),
            Some(used.response_bytes.min(200)),
            Some(cost(used.number, 50, 50).min(400)),
            Some(cost(used.named, 7, 3)),
            fails.then_some(1),
            used.status.is_some_and(|status| status >= 500).then_some(0),
        ];
        for (rule, (cost, charged)) in costs.into_iter().zip(charged).enumerate() {
            let (_, quota, borrow, _) = QUOTAS[rule];
            let count = self.count(rule, user);
            let cost = cost.unwrap_or(*charged);
            let (more, less) = (cost.saturating_sub(*charged), charged.saturating_sub(cost));
            let lent = more.min((quota + borrow).saturating_sub(*count));
            *count = *count + lent - less;
            self.seen.charged += u64::from(lent > 0);
            self.seen.reduced += u64::from(less > 0);
            self.seen.forgiven += u64::from(lent < more);
        }
    }
}
