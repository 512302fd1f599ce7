//! The lines of the table. Each line is one entry of [`lines`].

use crate::filter::{Exports, Filter, local_ratelimit, local_ratelimit_by_address, lua};
use gateway::{Carrier, Shell};
use serde_json::{Value, json};

/// The path of every request.
pub const PATH: &str = "/api/500/items";

/// The two baselines of every line.
pub const COMPARED_WITH: [&str; 2] = ["none", "empty"];

/// The start of the names of Diana's lines as a dynamic module.
const NATIVE: &str = "native-";

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
    Pair { line: "ip-ietf", beside: "ip", by: By::More, goal: 0.4 },
    Pair { line: "native-ip", beside: "local-ip", by: By::Times, goal: 1.3 },
];

/// Lines that only the JSON files have: no goal and no reader depends on them. Another section of
/// the page has the global rules.
const LEFT_OUT: [&str; 24] = [
    "local",
    "local-refused",
    "lua",
    "floor-delete",
    "floor-create",
    "floor",
    "floor-all",
    "floor-user",
    "floor-headers",
    "unmatched",
    "three",
    "swap-url",
    "leased",
    "asked",
    "native-unmatched",
    "native-all",
    "native-user",
    "native-url",
    "native-limits",
    "native-three",
    "native-swap",
    "native-swap-url",
    "native-leased",
    "native-asked",
];

/// Whether the page of measurements has this line.
pub fn is_on_page(name: &str) -> bool {
    !LEFT_OUT.contains(&name)
}

/// One line.
pub struct Line {
    /// The name for `--only`.
    pub name: String,
    /// The title in the table.
    pub title: String,
    /// The filter in front of the router.
    pub filter: Filter,
    /// The expected status of every answer.
    pub status: u16,
    /// The highest cost that meets the goal, as a multiple of the empty filter's cost.
    pub goal: Option<f64>,
}

impl Line {
    fn new(name: &str, title: &str, filter: Filter) -> Self {
        Self { name: name.to_owned(), title: title.to_owned(), filter, status: 200, goal: None }
    }

    /// The same line, whose requests are all refused.
    fn refused(self) -> Self {
        Self { status: 429, ..self }
    }

    /// The line's shell, if the filter is Diana.
    pub fn shell(&self) -> Option<Shell> {
        match self.filter {
            Filter::Diana(shell, _) => Some(shell),
            Filter::AllCallbacks(_) => Some(Shell::Wasm),
            _ => None,
        }
    }

    /// Whether the line needs a global store.
    pub fn asks(&self) -> bool {
        matches!(&self.filter, Filter::Diana(_, plugin) if !plugin["store"].is_null())
    }
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

/// One rule for this actor, which no load exhausts.
pub fn one_rule(actor: &str) -> Value {
    off(&[limit("/", &[high("second", actor, "second")])])
}

fn used_up(actor: &str) -> Value {
    json!({"name": "used-up", "actor": actor, "rpu": 1, "unit": "7d", "burst": 1})
}

fn limit<'a>(url: &str, rules: impl IntoIterator<Item = &'a Value>) -> Value {
    json!({"url": url, "rules": rules.into_iter().collect::<Vec<_>>()})
}

fn off(limits: &[Value]) -> Value {
    json!({"headers": "off", "limits": limits})
}

/// A global rule: all gateways count it in one store.
fn shared(lease: &Value) -> Value {
    let rule = json!({
        "name": "shared", "actor": "ip", "rpu": 1_000_000_000, "unit": "second", "scope": "global", "lease": lease,
    });
    let mut store = Carrier::keys();
    store["secret"] = json!("measured-on-loopback");
    store["timeout"] = json!("1s");
    json!({"headers": "off", "limits": [limit("/", [&rule])], "store": {"redis": store}})
}

/// All lines, in the order of the table.
pub fn lines() -> Vec<Line> {
    let floor = |name, title, calls| Line::new(name, title, Filter::Floor(Exports::Headers, calls));
    let exports = |name, title, exports| Line::new(name, title, Filter::Floor(exports, ""));
    let mut lines = vec![
        Line::new("none", "no filter", Filter::None),
        Line::new("local", "Envoy's `local_ratelimit`", local_ratelimit(1_000_000_000, 1)),
        Line::new("local-ip", "`local_ratelimit`, a bucket for each address", local_ratelimit_by_address()),
        Line::new("local-refused", "`local_ratelimit`, all refused", local_ratelimit(1, 86_400)).refused(),
        Line::new("lua", "Envoy's Lua filter, an empty function", lua()),
        Line::new("empty", "an empty filter on the Rust SDK", Filter::Empty),
        exports("floor-delete", "floor: creation, headers and end", Exports::Delete),
        exports("floor-create", "floor: creation and headers", Exports::Create),
        exports("floor", "floor: headers only", Exports::Headers),
        floor("floor-all", "floor, clock, counter", "clock counter"),
        floor("floor-ip", "floor, address, clock, counter", "address clock counter"),
        floor("floor-user", "floor, one header, clock, counter", "header clock counter"),
        floor("floor-headers", "floor, all headers, clock, counter", "headers clock counter"),
        floor("floor-swap", "floor, address, clock, counter, shared data", "address clock counter shared"),
        floor("floor-refused", "floor, address, clock, counter, attribute, reply", REFUSAL).refused(),
    ];
    lines.extend(of(Shell::Wasm));
    let all = Filter::AllCallbacks(one_rule("ip"));
    lines.push(Line::new("ip-callbacks", "one rule, `actor: ip`, all callbacks", all));
    lines.extend(of(Shell::Native));
    lines
}

/// The host calls of a refusal.
const REFUSAL: &str = "address clock counter attribute reply";

/// The title of one of Diana's lines in a shell.
pub fn shell_title(shell: Shell, title: &str) -> String {
    match shell {
        Shell::Wasm => title.to_owned(),
        Shell::Native => format!("native: {title}"),
    }
}

/// Diana's lines in one shell.
fn of(shell: Shell) -> Vec<Line> {
    let second = high("second", "ip", "second");
    let url = "/api/500";
    let three = [second.clone(), high("minute", "ip", "minute"), high("hour", "ip", "hour")];
    let two_actors = [second.clone(), high("minute", "user", "minute"), high("hour", "user", "hour")];
    let thousand: Vec<Value> = (0..1000)
        .map(|n| limit(&format!("/api/{n}"), &[high(&format!("limit-{n}"), "ip", "second")]))
        .collect();
    let one = one_at_a_time(&json!("ip"));
    let prefix = if shell == Shell::Native { NATIVE } else { "" };
    let line = |name: &str, title: &str, plugin| {
        Line::new(&format!("{prefix}{name}"), &shell_title(shell, title), Filter::Diana(shell, plugin))
    };
    let goal = |wasm: f64, native: Option<f64>, line| Line {
        goal: if shell == Shell::Wasm { Some(wasm) } else { native },
        ..line
    };
    vec![
        line("unmatched", "no limit matches", off(&[limit("/other", [&second])])),
        goal(0.75, None, line("all", "one rule, `actor: all`", one_rule("all"))),
        goal(1.15, Some(0.5), line("ip", "one rule, `actor: ip`", one_rule("ip"))),
        goal(1.15, None, line("user", "one rule, `actor: user`", one_rule("user"))),
        line(
            "ip-ietf",
            "one rule, `headers: ietf`",
            json!({"headers": "ietf", "limits": [limit("/", [&second])]}),
        ),
        line("url", "one rule with a url", off(&[limit(url, [&second])])),
        line("limits", "1,000 limits, one matches", off(&thousand)),
        line("three", "three rules on one actor", off(&[limit("/", &three)])),
        goal(1.5, Some(0.8), line("actors", "three rules on two actors", off(&[limit("/", &two_actors)]))),
        goal(2.0, None, line("swap", "one rule, each request swapped", off(&[limit("/", [&one])]))),
        line("swap-url", "with a url, each request swapped", off(&[limit(url, [&one])])),
        line("leased", "one global rule, `lease: 5%`", shared(&json!("5%"))),
        line("asked", "one global rule, `lease: 0`", shared(&json!(0))),
        goal(1.5, Some(0.6), line("refused", "all refused", off(&[limit("/", &[used_up("ip")])]))).refused(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_configurations_are_accepted() {
        let lines = lines();
        for (index, line) in lines.iter().enumerate() {
            assert!(lines[..index].iter().all(|other| other.name != line.name), "{}", line.name);
            if let Filter::Diana(_, plugin) = &line.filter {
                let taken = diana_config::compile(plugin.to_string().as_bytes());
                assert!(taken.is_ok(), "{}: {:?}", line.name, taken.err());
            }
        }
        let named = |name: &str| lines.iter().any(|line| line.name == name);
        let paired = PAIRS.iter().flat_map(|pair| [pair.line, pair.beside]);
        assert!(COMPARED_WITH.into_iter().chain(paired.clone()).chain(LEFT_OUT).all(named));
        assert!(COMPARED_WITH.into_iter().chain(paired).all(is_on_page));
        assert!(lines.iter().all(|line| line.goal.is_none() || is_on_page(&line.name)));
    }

    #[test]
    fn both_shells_measure_the_same_lines() {
        let names = |shell| {
            let names = of(shell).into_iter().map(|line| line.name.trim_start_matches(NATIVE).to_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(Shell::Wasm), names(Shell::Native));
    }
}
