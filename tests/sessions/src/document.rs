//! A random document with all keys that decide about a request.

use crate::random::Random;
use serde_json::{Map, Value, json};

/// Whether a document is valid.
type Accepts<'a> = &'a dyn Fn(&Value) -> bool;

/// How often a rule or a limit is drawn until one is accepted.
const TRIES: usize = 12;

/// A document that `accepts` accepts.
pub(crate) fn random(random: &mut Random, accepts: Accepts) -> Value {
    loop {
        let top = top(random);
        let is_busy = random.one_in(3);
        let mut limits = Vec::new();
        for _ in 0..1 + random.below(if is_busy { 2 } else { 4 }) {
            let drawn = (0..TRIES).map(|_| limit(random, &top, limits.len(), is_busy, accepts));
            limits.extend(drawn.into_iter().flatten().next());
        }
        let document = with_limits(&top, limits);
        if accepts(&document) {
            return document;
        }
    }
}

fn with_limits(top: &Map<String, Value>, limits: Vec<Value>) -> Value {
    let mut document = top.clone();
    document.insert("limits".into(), limits.into());
    document.into()
}

/// All keys but `limits`.
fn top(random: &mut Random) -> Map<String, Value> {
    let mut keys = Map::new();
    let mut set = |key: &str, value: Value| _ = keys.insert(key.into(), value);
    set(
        "actors",
        json!({
            "key": {"header": "x-key"}, "net": {"ip": {"v4_prefix": 24}}, "route": {"property": "route"},
            "crumb": {"cookie": "id"}, "q": {"query": "q"}, "claim": {"jwt": "sub"}, "part": {"path": 2},
            "verb": {"method": true}, "site": {"host": true},
        }),
    );
    set("store", json!({"redis": {"cluster": "redis", "secret": "a secret of the tests only"}}));
    set(
        "plan",
        match random.below(4) {
            0 => json!({"actor": "user", "members": {"free": ["bob"], "gold": "ann"}}),
            _ => json!({"header": "x-plan"}),
        },
    );
    if random.one_in(4) {
        set("ip", json!({"trusted_hops": 1, "header": "x-forwarded-for", "v6_prefix": 56}));
    }
    if random.one_in(6) {
        set("allow", random.pick(&[r#"["10.0.0.9"]"#, r#"[{"user": "root"}]"#]).parse().unwrap_or_default());
    }
    if random.one_in(4) {
        let deny =
            [r#"["10.0.0.8/31"]"#, r#"{"members": [{"user": ["eve", "mal"]}], "response": {"status": 403}}"#];
        set("deny", random.pick(&deny).parse().unwrap_or_default());
    }
    if random.one_in(6) {
        set("enforce", random.pick(&["50%", "10%", "0%", "99.5%"]).into());
    }
    if random.one_in(20) {
        set("mode", "shadow".into());
    }
    if random.one_in(3) {
        set("headers", random.pick(&["x-ratelimit", "x-ratelimit-plain", "both", "off"]).into());
    }
    if random.one_in(4) {
        set("response", json!({"status": 503, "headers": {"x-why": "limit"}, "body": "no"}));
    }
    if random.one_in(10) {
        set("local", json!({"max_actors": random.pick(&[1, 2, 8])}));
    }
    if random.one_in(3) {
        set("inspect", json!({"path": "/inspect", "token": "a-token-of-the-tests-of-32-characters"}));
    }
    keys
}

/// A limit with rules that are accepted together.
fn limit(
    random: &mut Random,
    top: &Map<String, Value>,
    number: usize,
    is_busy: bool,
    accepts: Accepts,
) -> Option<Value> {
    let mut keys = Map::new();
    let mut set = |key: &str, value: Value| _ = keys.insert(key.into(), value);
    let url = random.pick(&["/", "/", "/", "/api", "=/api", "/api/*", "/users/{tenant}"]);
    set("url", url.into());
    if random.one_in(8) {
        set("methods", random.pick(&[r#"["GET"]"#, r#""POST""#]).parse().unwrap_or_default());
    }
    if random.one_in(8) {
        set("hosts", random.pick(&["a.example", "*.example"]).into());
    }
    if random.one_in(8) {
        let conditions =
            [r#"{"x-plan": "gold"}"#, r#"{"x-key": {"prefix": "k"}}"#, r#"{"x-debug": {"present": false}}"#];
        set("headers", random.pick(&conditions).parse().unwrap_or_default());
    }
    if random.one_in(12) {
        let conditions = [
            ("query", json!({"q": {"regex": "[a-z]+"}})),
            ("jwt", json!({"plan": "42"})),
            ("property", json!({"route": {"prefix": "r"}})),
            ("body_size", json!({"max": 1000})),
        ];
        let (key, condition) = conditions.into_iter().nth(random.below(4))?;
        set(key, condition);
    }
    let exclusive = random.one_in(8);
    if exclusive {
        set("exclusive", true.into());
    }
    let is_high = random.one_in(4);
    if is_high {
        set("priority", "high".into());
    }
    if random.one_in(8) {
        set("response", json!({"status": 420}));
    }
    let mut rules: Vec<Value> = Vec::new();
    let of = |rules: &[Value]| {
        let mut limit = keys.clone();
        limit.insert("rules".into(), rules.into());
        Value::from(limit)
    };
    let is_accepted = |rules: &[Value]| accepts(&with_limits(top, vec![of(rules)]));
    // Several rules on one actor share a cell.
    let common = random.one_in(2).then(|| actor(random, url));
    let least = usize::from(!exclusive && !is_high);
    for at in 0..least + random.below(4) {
        for _ in 0..TRIES {
            let name = (!random.one_in(8)).then(|| format!("r{number}-{at}"));
            let own = common.clone().filter(|_| !random.one_in(4));
            let actor = own.unwrap_or_else(|| actor(random, url));
            let with: Vec<Value> =
                rules.iter().cloned().chain([rule(random, name, actor, is_busy)]).collect();
            if is_accepted(&with) {
                rules = with;
                break;
            }
        }
    }
    is_accepted(&rules).then(|| of(&rules))
}

fn actor(random: &mut Random, url: &str) -> Value {
    if url.contains("tenant") && random.one_in(2) {
        return json!({"segment": "tenant"});
    }
    match random.below(14) {
        0 => "all".into(),
        1..4 => "ip".into(),
        4..8 => "user".into(),
        8 => json!(["user", "ip"]),
        9 => json!(["key", "user"]),
        10 => "net".into(),
        11 => "device".into(),
        _ => random.pick(&["key", "route", "crumb", "q", "claim", "part", "verb", "site"]).into(),
    }
}

/// The numbers of a quota: few units, or enough for reservations.
fn rpu(random: &mut Random) -> u64 {
    match random.below(10) {
        0 => 0,
        1..5 => random.pick(&[1, 2, 3, 5]),
        5..7 => random.pick(&[8, 20, 60]),
        7 => random.pick(&[130, 200, 400]),
        _ => random.pick(&[1_000, 5_000, 100_000]),
    }
}

const UNITS: [&str; 8] = ["500ms", "second", "second", "10s", "minute", "minute", "hour", "day"];

/// A rule, which may be invalid. With `is_busy`, the rule has quota for reservations, and most often
/// no key that prevents them.
fn rule(random: &mut Random, name: Option<String>, actor: Value, is_busy: bool) -> Value {
    let algos: &[&str] = match is_busy {
        true => &["TB", "W", "SW"],
        false => &["TB", "TB", "TB", "W", "W", "SW", "SW", "SL", "LB", "C"],
    };
    let algo = random.pick(algos);
    let mut keys = quota(random, algo, true);
    let mut set = |key: &str, value: Value| _ = keys.insert(key.into(), value);
    name.into_iter().for_each(|name| set("name", name.into()));
    set("algo", algo.into());
    if is_busy {
        set("rpu", random.pick(&[150, 200, 400, 1_000, 5_000, 100_000]).into());
        if !random.one_in(4) {
            ["burst", "start", "max_wait", "warm_up"].iter().for_each(|key| _ = keys.remove(*key));
            if random.one_in(3) {
                keys.insert("cost".into(), random.pick(&[2, 3, 5]).into());
            }
            keys.insert("actor".into(), actor);
            return keys.into();
        }
    }
    let mut set = |key: &str, value: Value| _ = keys.insert(key.into(), value);
    if actor != "all" {
        if random.one_in(2) {
            let missing = [
                r#""skip""#,
                r#""share""#,
                r#""deny""#,
                r#"{"action": "deny", "response": {"status": 401}}"#,
            ];
            set("missing", random.pick(&missing).parse().unwrap_or_default());
        }
        if random.one_in(5) {
            let value = match &actor {
                Value::String(name) if name == "ip" => "10.0.0.1",
                Value::String(name) if name == "net" => "10.0.0.0/24",
                Value::Array(_) => "ann, 10.0.0.1",
                _ => random.pick(&["ann", "bob", "k1", "r1"]),
            };
            let mut overrides = Map::new();
            overrides.insert(value.into(), quota(random, algo, false).into());
            set("overrides", overrides.into());
        }
    }
    if random.one_in(5) {
        let mut plans = Map::new();
        let free = if random.one_in(4) { "unlimited".into() } else { quota(random, algo, false).into() };
        plans.insert("free".into(), free);
        if random.one_in(2) {
            plans.insert("gold".into(), quota(random, algo, false).into());
        }
        set("plans", plans.into());
    }
    set("actor", actor);
    if random.one_in(3) {
        set("cost", cost(random));
    }
    if random.one_in(6) {
        let statuses = random.pick(&[r#"{"status": [401, 403]}"#, r#"{"status": "5xx"}"#]);
        set(random.pick(&["charge", "refund"]), statuses.parse().unwrap_or_default());
    }
    if random.one_in(6) {
        set("borrow", random.pick(&[0, 3, 100]).into());
    }
    if random.one_in(6) {
        set("penalty", penalty(random));
    }
    if random.one_in(if algo == "TB" || algo == "C" { 3 } else { 99 }) {
        let adapt = [
            r#"{"signal": "errors", "target": "5%", "every": "1s", "min": 1}"#,
            r#"{"signal": "latency_p50", "target": "50ms", "every": "2s"}"#,
            r#"{"signal": "traffic", "target": "150%", "every": "1s"}"#,
        ];
        set("adapt", random.pick(&adapt).parse().unwrap_or_default());
    }
    if random.one_in(5) {
        set("headroom", random.pick(&["30%", "1%", "60%"]).into());
    }
    match random.below(12) {
        0 => set("mode", "shadow".into()),
        1..3 => set("enforce", random.pick(&["37.5%", "50%", "5%", "95%"]).into()),
        _ => {}
    }
    if random.one_in(10) {
        set("reject_delay", random.pick(&["1s", "200ms"]).into());
    }
    if random.one_in(10) {
        // The driver has no global store, so each one is down.
        set("scope", "global".into());
        set("on_error", random.pick(&["local", "allow", "deny"]).into());
    }
    keys.into()
}

/// The keys that an override and a plan may also have. Those without `own` leave some out.
fn quota(random: &mut Random, algo: &str, own: bool) -> Map<String, Value> {
    let mut keys = Map::new();
    let mut set = |key: &str, value: Value| _ = keys.insert(key.into(), value);
    let rpu = rpu(random);
    set("rpu", if algo == "SL" { rpu.min(100) } else { rpu }.into());
    if algo != "C" && (own || random.one_in(6)) {
        set("unit", random.pick(&UNITS).into());
    }
    match algo {
        "TB" => {
            if random.one_in(3) {
                set("burst", (1 + rpu * random.pick(&[1, 2, 3]) / 2).into());
            }
            if random.one_in(12) {
                set("start", "empty".into());
            }
            if random.one_in(10) {
                set("max_wait", random.pick(&["1s", "300ms", "1m"]).into());
            }
            if random.one_in(12) {
                set("warm_up", random.pick(&["1s", "30s"]).into());
            }
        }
        "SW" if random.one_in(2) => set("slices", random.pick(&[2, 4, 60]).into()),
        "LB" => match random.below(3) {
            0 => set("queue", random.pick(&[0, 1, 5]).into()),
            1 => set("max_wait", random.pick(&["1s", "20s"]).into()),
            _ => {}
        },
        "C" if random.one_in(2) => set("max_hold", random.pick(&["1s", "2s", "60s"]).into()),
        _ => {}
    }
    if !own && random.one_in(6) {
        set("penalty", penalty(random));
    }
    keys
}

fn penalty(random: &mut Random) -> Value {
    json!({"after": random.pick(&[1, 2, 5]), "for": random.pick(&["1s", "10s", "1h"])})
}

fn cost(random: &mut Random) -> Value {
    match random.below(8) {
        0 | 1 => random.pick(&[1, 2, 5]).into(),
        2 | 3 => json!({"header": "x-cost", "min": random.below(2), "max": random.pick(&[3, 10])}),
        4 => "request_bytes".into(),
        5 => json!({"response_bytes": true, "estimate": random.below(3), "max": 50}),
        6 => json!({"response_header": "x-weight", "estimate": random.below(3), "default": 1}),
        _ => json!({"response_json": "/usage/total", "estimate": random.pick(&[1, 2, 10]), "max": 40}),
    }
}
