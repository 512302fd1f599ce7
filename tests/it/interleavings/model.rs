//! A slow model of a few rules at one instant, without algorithms, cells or workers.

use diana_limiter::decide::RuleResult;
use diana_limiter::request::{Part, Values};
use std::collections::BTreeMap;

/// One rule: `burst` per unit.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Whether the rule belongs to `/api`, otherwise to `/`.
    pub api: bool,
    /// The actor: 0 all requests, 1 the user, 2 the address.
    pub actor: usize,
    pub burst: u64,
    pub shadow: bool,
}

/// The user, address and path of a request.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub user: usize,
    pub ip: usize,
    pub api: bool,
}

impl Client {
    /// All possible clients.
    pub fn all() -> impl Iterator<Item = Client> {
        (0..8).map(|bits| Client { user: bits & 1, ip: bits >> 1 & 1, api: bits >> 2 & 1 == 1 })
    }

    pub fn request(self) -> Values {
        Values::default()
            .with(Part::Path, if self.api { "/api/x" } else { "/" })
            .with(Part::Address, format!("10.0.0.{}", self.ip))
            .with(Part::Header("x-user-id".into()), format!("user-{}", self.user))
    }
}

impl Spec {
    fn applies(&self, client: Client) -> bool {
        client.api || !self.api
    }

    /// The actor of this client's requests.
    pub fn key(&self, client: Client) -> usize {
        [0, client.user, client.ip][self.actor]
    }

    /// Whether the rule counts both clients as the same actor.
    pub fn counts_alike(&self, a: Client, b: Client) -> bool {
        self.applies(a) && self.applies(b) && self.key(a) == self.key(b)
    }
}

/// Rules, and the charges of each.
pub struct Model {
    /// In the order of the policy.
    pub specs: Vec<Spec>,
    charged: BTreeMap<(usize, usize), u64>,
}

impl Model {
    /// Sorts the rules like a policy: by url, then by the first rule of each group.
    pub fn new(mut specs: Vec<Spec>) -> Model {
        let order: Vec<(bool, usize)> = specs.iter().map(|spec| (spec.api, spec.actor)).collect();
        let first = |spec: &Spec| order.iter().position(|other| *other == (spec.api, spec.actor));
        specs.sort_by_key(|spec| (spec.api, first(spec)));
        Model { specs, charged: BTreeMap::new() }
    }

    /// A configuration with these rules.
    pub fn json(&self, unit: &str) -> String {
        let rule = |spec: &Spec| {
            let (actor, mode) =
                (["all", "user", "ip"][spec.actor], ["enforce", "shadow"][spec.shadow as usize]);
            let burst = spec.burst;
            format!(r#"{{"actor": "{actor}", "rpu": {burst}, "unit": "{unit}", "mode": "{mode}"}}"#)
        };
        let limit = |api: bool| {
            let rules: Vec<String> = self.specs.iter().filter(|spec| spec.api == api).map(rule).collect();
            let url = if api { "/api" } else { "/" };
            (!rules.is_empty()).then(|| format!(r#"{{"url": "{url}", "rules": [{}]}}"#, rules.join(", ")))
        };
        let limits: Vec<String> = [false, true].into_iter().filter_map(limit).collect();
        format!(r#"{{"local": {{"max_actors": 1000}}, "limits": [{}]}}"#, limits.join(", "))
    }

    pub fn charge(&mut self, rule: usize, client: Client) {
        *self.charged.entry((rule, self.specs[rule].key(client))).or_default() += 1;
    }

    fn left(&self, rule: usize, client: Client) -> u64 {
        let key = (rule, self.specs[rule].key(client));
        self.specs[rule].burst - self.charged.get(&key).copied().unwrap_or(0)
    }

    pub fn assert_within_burst(&self) {
        for ((rule, key), charged) in &self.charged {
            let spec = &self.specs[*rule];
            assert!(*charged <= spec.burst, "{charged} were admitted by {spec:?} of {key}");
        }
    }

    /// Whether a single request is refused, and the report of each rule.
    pub fn decide(&mut self, client: Client) -> (bool, Vec<(usize, RuleResult, u64)>) {
        let rules: Vec<usize> =
            (0..self.specs.len()).filter(|rule| self.specs[*rule].applies(client)).collect();
        let refuses = |rule: &usize| !self.specs[*rule].shadow && self.left(*rule, client) == 0;
        let refused = rules.iter().any(refuses);
        let mut reports = Vec::new();
        for rule in rules {
            let result = match (self.left(rule, client), self.specs[rule].shadow) {
                (0, true) => RuleResult::Shadowed,
                (0, false) => RuleResult::Refused,
                _ => RuleResult::Admitted,
            };
            if !refused && result == RuleResult::Admitted {
                self.charge(rule, client);
            }
            reports.push((rule, result, self.left(rule, client)));
        }
        (refused, reports)
    }
}
