//! A random document, and its different spellings. All generated documents are valid.

use super::spelling::{list, number, object, quoted, shuffled, size};
use crate::harness::Random;

/// Patterns, each with its other spellings.
const URLS: [&[&str]; 5] = [
    &["/", "/**", "//"],
    &["/api", "/api/", "/api/**", "/%61pi", "//api/."],
    &["=/api", "=/api/", "=//api"],
    &["/users/*", "/users/*/**", "/%75sers/*/", "/users/{id}", "/users/{x-1}/**"],
    &["/api/x", "/api/%78"],
];
const METHODS: [&str; 4] = ["GET", "HEAD", "POST", "PURGE"];
const HOSTS: [&[&str]; 3] = [
    &["api.example.com", "API.Example.com", "api.example.com."],
    &["*.example.com", "*.EXAMPLE.com"],
    &["[::1]", "::1", "[0:0::1]"],
];
/// Header names, and conditions on them in all spellings.
const HEADERS: [(&str, &[&str]); 4] = [
    ("X-Plan", &[r#""free""#]),
    ("X-Version", &["42", r#""42""#, "4.2e1"]),
    ("X-Trace", &[r#"{"prefix": "a"}"#]),
    ("X-Debug", &[r#"{"present": false}"#]),
];
/// Further conditions, each with its other spellings. All requests of the tests fulfil all of them.
const CONDITIONS: [(&str, &[&str]); 4] = [
    ("query", &[r#"{"k": "v", "x": {"present": false}}"#, r#"{"x": {"present": false}, "k": "v"}"#]),
    ("jwt", &[r#"{"plan": "42"}"#, r#"{"plan": 42}"#, r#"{"plan": 4.2e1}"#]),
    ("property", &[r#"{"xds.route_name": {"prefix": "r"}}"#]),
    (
        "body_size",
        &[r#"{"min": 1, "max": "64Ki"}"#, r#"{"max": 65536, "min": 1.0}"#, r#"{"min": 1, "max": "64 Ki"}"#],
    ),
];
/// Actors, each with its other spellings; `me`, `phone`, `net` and `addr` are defined. The last one
/// is a tuple.
const ACTORS: [&[&str]; 5] = [
    &[r#""user""#, r#""account""#, r#"["user"]"#, r#""me""#],
    &[r#""device""#, r#""phone""#],
    &[r#""ip""#, r#""addr""#, r#"["ip"]"#],
    &[r#""all""#, r#"["all"]"#, ""],
    &[r#"["user", "ip"]"#, r#"["addr", "me"]"#, r#"["account", "addr"]"#, r#"["ip", "user"]"#],
];
/// A value of each actor for an override, in all spellings; a tuple's value follows the order of
/// its list.
const VALUES: [&[&str]; 5] =
    [&["u0", " u0 "], &["d0"], &["10.0.0.1", "10.0.0.1/32", "::ffff:10.0.0.1"], &[], &["u0"]];
const ALL: usize = 3;
const TUPLE: usize = 4;
const UNITS_MS: [(u64, &[&str]); 5] = [
    (1_000, &["second", "1s", "1000ms", "Second", "sec", "Seconds"]),
    (30_000, &["30s", "30000ms", "30 s", "30secs"]),
    (60_000, &["minute", "60s", "1m", "1 MIN", "min", "60 seconds", "m"]),
    (3_600_000, &["hour", "60m", "1h", "3600s", "hrs", "60 min"]),
    (86_400_000, &["day", "24h", "1d", "days", "24 hours"]),
];
const ALGORITHMS: [&[&str]; 6] = [
    &["TB", "token bucket", "Token_Bucket", "tb", ""],
    &["W", "window", "WINDOW"],
    &["SW", "sliding window", "sliding-window"],
    &["SL", "sliding log"],
    &["LB", "leaky bucket", "Leaky-Bucket"],
    &["C", "concurrency"],
];
/// Costs of one unit, of two, and of what a header says.
const COSTS: [&[&str]; 3] = [
    &["", "1", "1.0"],
    &["2", "2e0"],
    &[r#"{"header": "X-Cost", "max": 5}"#, r#"{"max": 5.0, "default": 1, "min": 1, "header": "x-cost"}"#],
];
const TB: usize = 0;
const W: usize = 1;
const SW: usize = 2;
const LB: usize = 4;
const C: usize = 5;
const MISSING: [&str; 4] = ["ip", "skip", "share", "deny"];

#[derive(Debug)]
pub struct Document {
    limits: Vec<Limit>,
}

#[derive(Debug)]
struct Limit {
    urls: Vec<usize>,
    methods: Vec<usize>,
    hosts: Vec<usize>,
    headers: Vec<usize>,
    conditions: Vec<usize>,
    exclusive: bool,
    high_priority: bool,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    actor: usize,
    missing: usize,
    algorithm: usize,
    rpu: u64,
    unit: usize,
    cost: usize,
    /// `burst`, `slices` or `max_hold` in seconds, unless default; `queue`.
    own: Option<u64>,
    global: bool,
    on_error: bool,
    shadow: bool,
    /// `rpu` of an override.
    override_rpu: Option<u64>,
    /// `rpu` of the plan `free`; unlimited.
    plans: Option<(u64, bool)>,
    /// `after`, and `for` in seconds.
    penalty: Option<(u64, u64)>,
    /// Whether the limit adapts.
    adapts: bool,
    /// In percent.
    headroom: Option<u64>,
}

fn random_subset(random: &mut Random, of: usize) -> Vec<usize> {
    match random.below(3) {
        0 => (0..of).filter(|_| random.below(2) == 0).collect(),
        _ => Vec::new(),
    }
}

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len())]
}

/// Two clusters in any order.
fn store(random: &mut Random) -> String {
    let clusters = ["redis", "other"].map(quoted).to_vec();
    let clusters = format!("[{}]", shuffled(random, clusters).join(", "));
    let secret = quoted("a secret of the tests only");
    let redis = object(random, vec![("clusters".into(), clusters), ("secret".into(), secret)]);
    object(random, vec![("redis".into(), redis)])
}

/// The keys of the body in any order, at each level.
fn remote(random: &mut Random) -> String {
    let last = object(random, vec![("c".into(), "1".into()), ("d".into(), "2".into())]);
    let inner = object(random, vec![("x".into(), "[1, 2]".into()), ("a".into(), format!("[{last}]"))]);
    let body = object(random, vec![("key".into(), quoted("limits")), ("in".into(), inner)]);
    let keys = [("cluster", quoted("documents")), ("path", quoted("/")), ("body", body)];
    object(random, keys.map(|(key, value)| (key.into(), value)).to_vec())
}

impl Document {
    pub fn random(random: &mut Random) -> Document {
        let limits = (0..1 + random.below(4)).map(|_| Limit::random(random)).collect();
        Document { limits }
    }

    /// The document in one of its spellings.
    pub fn write(&self, random: &mut Random) -> String {
        let mut limits: Vec<String> = Vec::new();
        for limit in &self.limits {
            // Rules may be in two limits on the same requests.
            let cut = if random.below(4) == 0 { random.below(limit.rules.len().max(1)) } else { 0 };
            let rules = limit.rules.iter().map(|rule| rule.write(random)).collect();
            let mut rules: Vec<String> = shuffled(random, rules);
            let rest = rules.split_off(cut);
            limits.push(limit.write(random, rest));
            if cut > 0 {
                limits.push(limit.write(random, rules));
            }
        }
        let limits = shuffled(random, limits).join(", ");
        let actors = [
            ("me", pick(random, &[r#"{"header": "x-user-id"}"#, r#"{"header": "X-User-Id"}"#]).into()),
            ("phone", r#"{"header": "X-DEVICE-ID"}"#.into()),
            ("net", r#"{"ip": {"v6_prefix": 48, "v4_prefix": 24}}"#.into()),
            ("addr", pick(random, &[r#""ip""#, r#"{"ip": true}"#, r#"{"ip": {"v6_prefix": 64}}"#]).into()),
        ];
        let mut keys = vec![
            ("limits", format!("[{limits}]")),
            (
                "actors",
                object(random, actors.map(|(name, value): (&str, String)| (name.into(), value)).into()),
            ),
            ("store", store(random)),
            ("remote", remote(random)),
        ];
        let plans = [r#"{"header": "x-plan"}"#, r#"{"header": "X-Plan"}"#];
        keys.push(("plan", pick(random, &plans).into()));
        let defaults =
            [("ip", r#"{"v4_prefix": 32, "trusted_hops": 0}"#), ("mode", r#""enforce""#), ("local", "{}")];
        keys.extend(
            defaults.into_iter().filter(|_| random.below(2) == 0).map(|(key, value)| (key, value.into())),
        );
        object(random, keys.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
}

impl Limit {
    fn random(random: &mut Random) -> Limit {
        let (mut urls, methods, hosts) = (
            random_subset(random, URLS.len()),
            random_subset(random, METHODS.len()),
            random_subset(random, HOSTS.len()),
        );
        if urls.is_empty() {
            urls.push(random.below(URLS.len()));
        }
        let headers = random_subset(random, HEADERS.len());
        let conditions = random_subset(random, CONDITIONS.len());
        let (exclusive, high_priority) = (random.below(6) == 0, random.below(3) == 0);
        let least = usize::from(!exclusive && !high_priority);
        let rules = (0..least + random.below(4)).map(|_| Rule::random(random)).collect();
        Limit { urls, methods, hosts, headers, conditions, exclusive, high_priority, rules }
    }

    fn write(&self, random: &mut Random, rules: Vec<String>) -> String {
        let urls = self.urls.iter().map(|url| quoted(pick(random, URLS[*url]))).collect();
        let urls = match shuffled(random, urls).as_slice() {
            [only] if random.below(2) == 0 => only.clone(),
            urls => format!("[{}]", urls.join(", ")),
        };
        let mut keys = vec![(pick(random, &["url", "Url"]).to_string(), urls)];
        let mut methods: Vec<&str> = self.methods.iter().map(|method| METHODS[*method]).collect();
        if methods.contains(&"GET") && !methods.contains(&"HEAD") && random.below(2) == 0 {
            methods.push("HEAD");
        }
        if !methods.is_empty() {
            let spell = |method: &&str| {
                quoted(&if random.below(2) == 0 { method.to_lowercase() } else { method.to_string() })
            };
            let methods = methods.iter().map(spell).collect();
            keys.push(("methods".into(), list(random, methods)));
        }
        if !self.hosts.is_empty() {
            let hosts = self.hosts.iter().map(|host| quoted(pick(random, HOSTS[*host]))).collect();
            keys.push(("hosts".into(), list(random, hosts)));
        }
        if !self.headers.is_empty() {
            let spell = |header: &usize| {
                let (name, conditions) = HEADERS[*header];
                let name = if random.below(2) == 0 { name.to_lowercase() } else { name.into() };
                (name, pick(random, conditions).to_string())
            };
            let headers = self.headers.iter().map(spell).collect();
            keys.push(("headers".into(), object(random, headers)));
        }
        for condition in &self.conditions {
            let (key, spellings) = CONDITIONS[*condition];
            keys.push((key.into(), pick(random, spellings).into()));
        }
        if self.exclusive || random.below(2) == 0 {
            keys.push(("exclusive".into(), self.exclusive.to_string()));
        }
        if self.high_priority || random.below(2) == 0 {
            let spellings = if self.high_priority { ["high", "High"] } else { ["normal", "NORMAL"] };
            keys.push(("priority".into(), quoted(pick(random, &spellings))));
        }
        keys.push(("rules".into(), format!("[{}]", rules.join(", "))));
        object(random, keys)
    }
}

impl Rule {
    fn random(random: &mut Random) -> Rule {
        let algorithm = random.below(ALGORITHMS.len());
        let actor = random.below(ACTORS.len());
        // A rule that refuses all requests leaves nothing to compare.
        let rpu = if random.below(20) == 0 { 0 } else { pick(random, &[1, 5, 100]) };
        let rpu = if algorithm == TB && random.below(8) == 0 { 2_000 } else { rpu };
        let own = match algorithm {
            LB => Some(pick(random, &[0, 3])),
            TB | SW | C if random.below(2) == 0 => Some(pick(random, &[2, 7, 30])),
            _ => None,
        };
        let has_others = actor != ALL && random.below(2) == 0;
        let override_rpu = has_others.then(|| pick(random, &[0, 9, 100]));
        let (missing, unit, global) =
            (random.below(MISSING.len()), random.below(UNITS_MS.len()), random.below(2) == 0);
        // A queue with a longer unit would wait for more than an hour.
        let unit = if algorithm == LB { unit.min(2) } else { unit };
        let (on_error, shadow) = (random.below(10) == 0, random.below(4) == 0);
        let plans = (random.below(3) == 0).then(|| (pick(random, &[0, 9, 100]), random.below(4) == 0));
        // A queue or a burst may be too short for a cost of two.
        let most = if algorithm == LB || rpu < 2 { 1 } else { COSTS.len() };
        let cost = if random.below(3) == 0 { random.below(most) } else { 0 };
        let has_penalty = algorithm != C && random.below(4) == 0;
        let penalty = has_penalty.then(|| (pick(random, &[1, 2, 9]), pick(random, &[1, 60, 7_200])));
        let can_adapt = !global && [TB, C].contains(&algorithm) && override_rpu.is_none() && plans.is_none();
        let adapts = can_adapt && random.below(3) == 0;
        // A quota of two or less has no room for a request of two units beside the headroom.
        let has_room = [rpu, own.filter(|_| algorithm == TB).unwrap_or(rpu)].iter().all(|most| *most > 2);
        let has_headroom = !global && algorithm != LB && has_room && random.below(4) == 0;
        let headroom = has_headroom.then(|| pick(random, &[1, 20]));
        Rule {
            actor,
            missing,
            algorithm,
            rpu,
            unit,
            cost,
            own,
            global,
            on_error,
            shadow,
            override_rpu,
            plans,
            penalty,
            adapts,
            headroom,
        }
    }

    fn write(&self, random: &mut Random) -> String {
        let text = |key: &str, value: &str| (key.to_string(), quoted(value));
        let mut keys = vec![("rpu".to_string(), size(random, self.rpu))];
        let actor = pick(random, ACTORS[self.actor]);
        if !actor.is_empty() {
            keys.push(("actor".into(), actor.into()));
        }
        if self.actor != ALL && (self.missing > 0 || random.below(2) == 0) {
            keys.push(text("missing", MISSING[self.missing]));
        }
        let algorithm = pick(random, ALGORITHMS[self.algorithm]);
        if !algorithm.is_empty() {
            keys.push(text("algo", algorithm));
        }
        if self.algorithm != C {
            keys.push(text("unit", pick(random, UNITS_MS[self.unit].1)));
        }
        let cost = pick(random, COSTS[self.cost]);
        if !cost.is_empty() {
            keys.push(("cost".into(), cost.into()));
        }
        let is_filled = self.own.is_some() || random.below(2) == 0;
        keys.extend(self.own_key(random, self.rpu).filter(|_| is_filled));
        if self.algorithm == TB && random.below(2) == 0 {
            keys.push(text("start", "Full"));
            keys.push(text("max_wait", pick(random, &["0", "0s", "0ms"])));
        }
        if self.global {
            keys.push(text("scope", pick(random, &["global", "Global"])));
            if self.on_error || random.below(2) == 0 {
                keys.push(text("on_error", if self.on_error { "deny" } else { "local" }));
            }
            if [TB, W, SW].contains(&self.algorithm) && random.below(2) == 0 {
                keys.push(("lease".into(), "0".into()));
            }
        } else if random.below(2) == 0 {
            keys.push(text("scope", "local"));
        }
        match (self.shadow, random.below(3)) {
            (true, 0) => keys.push(text("enforce", pick(random, &["0%", " 0.00 %"]))),
            (true, _) => keys.push(text("mode", "shadow")),
            (false, 0) => keys.push(text("mode", "enforce")),
            (false, 1) => keys.push(text("enforce", pick(random, &["100%", "100.0%"]))),
            (false, _) => {}
        }
        let penalty = self.penalty.map(|(after, secs)| {
            let spellings = [format!("{secs}s"), format!("{}ms", secs * 1_000)];
            let lasts = quoted(&spellings[random.below(2)]);
            vec![("after".into(), number(random, after)), ("for".into(), lasts)]
        });
        let penalty = penalty.map(|entries| object(random, entries));
        keys.extend(penalty.clone().map(|penalty| ("penalty".into(), penalty)));
        if self.adapts {
            let mut adapt = vec![
                ("signal".into(), quoted("errors")),
                ("target".into(), quoted(pick(random, &["5%", " 5 %"]))),
            ];
            if self.rpu > 0 && random.below(2) == 0 {
                // Permits have to suffice for one request. A cost of two is the second one.
                let least = if self.algorithm == C && self.cost == 1 { 2 } else { 1 };
                adapt.push(("min".into(), size(random, self.rpu.div_ceil(10).max(least))));
                adapt.push(("max".into(), size(random, self.rpu)));
            }
            if random.below(2) == 0 {
                adapt.push(("every".into(), quoted(pick(random, &["10s", "10000ms"]))));
            }
            keys.push(("adapt".into(), object(random, adapt)));
        }
        keys.extend(self.headroom.map(|percent| {
            let spellings = [format!("{percent}%"), format!(" {percent} %")];
            ("headroom".into(), quoted(&spellings[random.below(2)]))
        }));
        let mut overrides = Vec::new();
        let value = |random: &mut Random| match (
            self.actor,
            actor.contains("me\"]") || actor.starts_with("[\"ip\", "),
        ) {
            (TUPLE, true) => "10.0.0.1,u0".into(),
            (TUPLE, false) => "u0 , 10.0.0.1".into(),
            (actor, _) => pick(random, VALUES[actor]).to_string(),
        };
        if let Some(rpu) = self.override_rpu {
            let mut other = vec![("rpu".into(), number(random, rpu))];
            // The override inherits a default that the rule spells out, so the override spells out
            // its own.
            other.extend(self.own_key(random, rpu).filter(|_| is_filled));
            let is_repeated = random.below(2) == 0;
            other.extend(penalty.filter(|_| is_repeated).map(|penalty| ("penalty".into(), penalty)));
            overrides.push((value(random), object(random, other)));
        }
        // An override that changes nothing. It would win over a plan.
        if self.actor == 0 && self.plans.is_none() && !self.adapts && random.below(2) == 0 {
            let same = vec![("rpu".into(), number(random, self.rpu))];
            overrides.push(("u2".into(), object(random, same)));
        }
        if !overrides.is_empty() {
            keys.push(("overrides".into(), object(random, overrides)));
        }
        if let Some((rpu, is_unlimited)) = self.plans {
            let mut plans = Vec::new();
            for (plan, rpu) in [("free", rpu), ("gold", 77), ("same", self.rpu)] {
                let mut other = vec![("rpu".into(), number(random, rpu))];
                other.extend(self.own_key(random, rpu).filter(|_| is_filled));
                let quota =
                    if is_unlimited && plan == "free" { quoted("unlimited") } else { object(random, other) };
                // A plan that changes nothing, and is left out.
                if plan != "same" || random.below(2) == 0 {
                    plans.push((plan.into(), quota));
                }
            }
            keys.push(("plans".into(), object(random, plans)));
        }
        object(random, keys)
    }

    /// The algorithm's own key, for a quota of `rpu`.
    fn own_key(&self, random: &mut Random, rpu: u64) -> Option<(String, String)> {
        Some(match self.algorithm {
            TB => ("burst".into(), size(random, self.own.unwrap_or(rpu.max(1)))),
            SW => ("slices".into(), number(random, self.own.unwrap_or(10))),
            LB => ("queue".into(), number(random, self.own?)),
            C => {
                let seconds = self.own.unwrap_or(60);
                let spellings = [format!("{seconds}s"), format!("{}ms", seconds * 1_000)];
                ("max_hold".into(), quoted(&spellings[random.below(2)]))
            }
            _ => return None,
        })
    }
}
