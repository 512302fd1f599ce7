//! The lines of the table. Each line is one entry of [`lines`].

use anyhow::{Result, bail};
use gateway::config::cluster;
use gateway::{Config, Redis, Shell, Webdis, filter, target};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The path of every request.
pub const PATH: &str = "/api/500/items";

/// The cluster in front of Redis.
const WEBDIS: &str = "webdis";

/// The two baselines of every line.
pub const COMPARED_WITH: [&str; 2] = ["none", "empty"];

/// A line and its reference line.
pub struct Pair {
    /// The line.
    pub line: &'static str,
    /// The reference line.
    pub beside: &'static str,
    /// The measure of comparison.
    pub by: By,
    /// The highest result that meets the goal.
    pub goal: f64,
}

/// How to compare a line with its reference line.
pub enum By {
    /// The line's cost over no filter, as a multiple of the reference line's cost over no filter.
    Times,
    /// The line's cost over its reference line, as a multiple of the empty filter's cost over no
    /// filter.
    More,
}

/// All pairs.
pub const PAIRS: [Pair; 3] = [
    Pair { line: "limits", beside: "url", by: By::Times, goal: 1.05 },
    Pair { line: "refused", beside: "ip", by: By::Times, goal: 1.0 },
    Pair { line: "ip-ietf", beside: "ip", by: By::More, goal: 0.5 },
];

/// One line.
pub struct Line {
    /// The name for `--only`.
    pub name: &'static str,
    /// The title in the table.
    pub title: &'static str,
    /// The filter in front of the router.
    pub filter: Filter,
    /// The expected status of every answer.
    pub status: u16,
    /// The highest cost that meets the goal, as a multiple of the empty filter's cost.
    pub goal: Option<f64>,
}

/// The filter in front of the router.
pub enum Filter {
    /// Nothing.
    None,
    /// One of Envoy's own filters.
    Envoy(Value),
    /// `benches/empty`.
    Empty,
    /// Diana with this configuration.
    Diana(Value),
    /// Diana as a native module, with this configuration.
    Native(Value),
}

/// A quota that no load exhausts, with a large remainder at any time.
fn high(name: &str, actor: &str, unit: &str) -> Value {
    json!({"name": name, "actor": actor, "rpu": 1_000_000_000, "unit": unit})
}

/// A quota that no load exhausts. At most one unit remains, so no worker reserves units and every
/// request does a compare-and-swap.
pub fn one_at_a_time(actor: &Value) -> Value {
    json!({"name": "one", "actor": actor, "rpu": 1_000_000_000, "unit": "second", "burst": 1})
}

fn used_up(actor: &str) -> Value {
    json!({"name": "used-up", "actor": actor, "rpu": 1, "unit": "7d", "burst": 1})
}

fn limit<'a>(url: &str, rules: impl IntoIterator<Item = &'a Value>) -> Value {
    json!({"url": url, "rules": rules.into_iter().collect::<Vec<_>>()})
}

/// A global rule: all gateways count it in one store.
fn shared(lease: &Value) -> Filter {
    let rule = json!({
        "name": "shared", "actor": "ip", "rpu": 1_000_000_000, "unit": "second", "scope": "global", "lease": lease,
    });
    let store = json!({"redis": {"cluster": WEBDIS, "secret": "measured-on-loopback", "timeout": "1s"}});
    Filter::Diana(json!({"headers": "off", "limits": [limit("/", [&rule])], "store": store}))
}

fn diana(headers: &str, limits: &[Value]) -> Filter {
    Filter::Diana(json!({"headers": headers, "limits": limits}))
}

/// Envoy's own limiter: one bucket of `tokens`, which refills every `seconds`.
fn local_ratelimit(tokens: u64, seconds: u64) -> Filter {
    let always = json!({"default_value": {"numerator": 100, "denominator": "HUNDRED"}});
    Filter::Envoy(json!({
        "name": "envoy.filters.http.local_ratelimit",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
            "stat_prefix": "local",
            "token_bucket": {
                "max_tokens": tokens, "tokens_per_fill": tokens, "fill_interval": format!("{seconds}s"),
            },
            "filter_enabled": always,
            "filter_enforced": always,
        },
    }))
}

/// All lines, in the order of the table.
pub fn lines() -> Vec<Line> {
    let second = high("second", "ip", "second");
    let url = "/api/500";
    let three = [second.clone(), high("minute", "ip", "minute"), high("hour", "ip", "hour")];
    let two_actors = [second.clone(), high("minute", "user", "minute"), high("hour", "user", "hour")];
    let thousand: Vec<Value> = (0..1000)
        .map(|n| limit(&format!("/api/{n}"), &[high(&format!("limit-{n}"), "ip", "second")]))
        .collect();
    let one = one_at_a_time(&json!("ip"));
    let line = |name, title, filter| Line { name, title, filter, status: 200, goal: None };
    let goal = |goal, line| Line { goal: Some(goal), ..line };
    let refused = |line| Line { status: 429, ..line };
    let off = |limits: &[Value]| diana("off", limits);
    let native = |limits: &[Value]| Filter::Native(json!({"headers": "off", "limits": limits}));
    vec![
        line("none", "no filter", Filter::None),
        line("local", "Envoy's `local_ratelimit`", local_ratelimit(1_000_000_000, 1)),
        line("empty", "an empty filter on the Rust SDK", Filter::Empty),
        line("unmatched", "no limit matches", off(&[limit("/other", [&second])])),
        goal(1.1, line("ip", "one rule, `actor: ip`", off(&[limit("/", [&second])]))),
        line("ip-ietf", "one rule, `headers: ietf`", diana("ietf", &[limit("/", [&second])])),
        line("url", "one rule with a url", off(&[limit(url, [&second])])),
        line("limits", "1,000 limits, one matches", off(&thousand)),
        line("three", "three rules on one actor", off(&[limit("/", &three)])),
        goal(1.3, line("actors", "three rules on two actors", off(&[limit("/", &two_actors)]))),
        goal(1.7, line("swap", "one rule, each request swapped", off(&[limit("/", [&one])]))),
        goal(1.9, line("swap-url", "with a url, each request swapped", off(&[limit(url, [&one])]))),
        line("leased", "one global rule, `lease: 5%`", shared(&json!("5%"))),
        line("asked", "one global rule, `lease: 0`", shared(&json!(0))),
        refused(goal(1.1, line("refused", "all refused", off(&[limit("/", &[used_up("ip")])])))),
        goal(0.5, line("native-ip", "native, one rule, `actor: ip`", native(&[limit("/", [&second])]))),
        goal(
            0.8,
            line("native-actors", "native, three rules on two actors", native(&[limit("/", &two_actors)])),
        ),
        line("native-swap", "native, each request swapped", native(&[limit("/", [&one])])),
        refused(goal(
            0.6,
            line("native-refused", "native, all refused", native(&[limit("/", &[used_up("ip")])])),
        )),
        refused(line("local-refused", "all refused, `local_ratelimit`", local_ratelimit(1, 86_400))),
    ]
}

/// The filters as files.
pub struct Filters {
    /// `target/diana.wasm`
    pub diana: PathBuf,
    /// `target/diana-lean.wasm`, for `headers: off`
    pub lean: PathBuf,
    /// `benches/empty`
    pub empty: PathBuf,
    /// The HTTP front of Redis, for global rules.
    webdis: Webdis,
    _redis: Redis,
}

impl Filters {
    /// Builds Diana and the empty filter with the same profile.
    pub fn build() -> Result<Self> {
        let diana = filter::build()?;
        let folder = target();
        let status = filter::cargo()
            .args(["build", "--quiet", "--release", "--package", "empty", "--target", filter::TARGET])
            .arg("--target-dir")
            .arg(&folder)
            .status()?;
        if !status.success() {
            bail!("the build of the empty filter failed");
        }
        let lean = diana.with_file_name("diana-lean.wasm");
        let redis = Redis::start()?;
        let webdis = Webdis::start(&redis)?;
        Ok(Self {
            diana,
            lean,
            webdis,
            _redis: redis,
            empty: folder.join(filter::TARGET).join("release/empty.wasm"),
        })
    }

    /// Returns a gateway with this filter. The gateway answers without an upstream.
    pub fn gateway(&self, filter: &Filter) -> Config {
        let (plugin, file, instead) = match filter {
            Filter::None => (json!({}), &self.diana, Some(Vec::new())),
            Filter::Envoy(filter) => (json!({}), &self.diana, Some(vec![filter.clone()])),
            Filter::Empty => (json!({}), &self.empty, None),
            Filter::Diana(plugin) if plugin["headers"] == "off" => (plugin.clone(), &self.lean, None),
            Filter::Diana(plugin) | Filter::Native(plugin) => (plugin.clone(), &self.diana, None),
        };
        let shell = if matches!(filter, Filter::Native(_)) { Shell::Native } else { Shell::Wasm };
        let clusters = vec![cluster(WEBDIS, self.webdis.address(), false)];
        let filter = Some(file.clone());
        Config { concurrency: 1, direct: true, instead, filter, clusters, shell, ..Config::new(plugin) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_configurations_are_accepted() {
        let lines = lines();
        for (index, line) in lines.iter().enumerate() {
            assert!(lines[..index].iter().all(|other| other.name != line.name), "{}", line.name);
            if let Filter::Diana(plugin) | Filter::Native(plugin) = &line.filter {
                let taken = diana_config::compile(plugin.to_string().as_bytes());
                assert!(taken.is_ok(), "{}: {:?}", line.name, taken.err());
            }
        }
        let named = |name: &str| lines.iter().any(|line| line.name == name);
        let paired = PAIRS.iter().flat_map(|pair| [pair.line, pair.beside]);
        assert!(COMPARED_WITH.into_iter().chain(paired).all(named));
    }
}
