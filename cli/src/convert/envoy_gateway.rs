//! From `BackendTrafficPolicy` of Envoy Gateway.
//!
//! A policy targets routes of Envoy, one for each match of an `HTTPRoute` and host, with
//! buckets of their own. The route's name is an attribute, so a rule counts it as an actor.

use super::address::Network;
use super::draft::{Draft, Limit, Object, Rule, object};
use super::envoy::{IPV6, add};
use super::input::{Input, scalar, whole};
use super::local_ratelimit::none_of;
use super::notes::{Notes, Spot};
use super::places;
use super::rate::Rate;
use crate::source::value::{Entry, Value};
use miette::Result;
use serde_json::json;

/// The name of Envoy's route, in a condition.
const ROUTE: &str = "xds.route_name";

/// A policy, and the file that has it.
struct Policy<'a> {
    input: &'a Input,
    value: Value,
}

/// A target of a policy.
enum Target {
    /// All routes of a gateway.
    Gateway,
    /// The routes whose names begin so.
    Route(String),
}

/// Converts manifests.
pub fn convert(inputs: &[Input], draft: &mut Draft, notes: &mut Notes) -> Result<()> {
    let mut policies: Vec<Policy> = Vec::new();
    for input in inputs {
        for value in input.values()? {
            let mut all = vec![value];
            while let Some(value) = all.pop() {
                match value.get("kind").and_then(Value::text) {
                    Some("BackendTrafficPolicy") => policies.push(Policy { input, value }),
                    Some("List") => {
                        all.extend(value.get("items").map_or(&[][..], Value::items).iter().rev().cloned())
                    }
                    _ => {}
                }
            }
        }
    }
    let limits =
        |policy: &&Policy| policy.value.get("spec").is_some_and(|spec| spec.get("rateLimit").is_some());
    if let (Some(input), None) = (inputs.first(), policies.iter().find(limits)) {
        return Err(input.nothing(
            "the file has no `BackendTrafficPolicy` with `rateLimit`",
            "manifests of Envoy Gateway",
        ));
    }
    let targets: Vec<Vec<Target>> = policies.iter().map(|policy| policy.targets(notes)).collect();
    // A policy of a route replaces that of its gateway, whether or not it has limits.
    let own: Vec<&String> = targets
        .iter()
        .flatten()
        .filter_map(|target| match target {
            Target::Route(prefix) => Some(prefix),
            Target::Gateway => None,
        })
        .collect();
    for (policy, targets) in policies.iter().zip(&targets) {
        let Some(route) = route(targets, &own) else { continue };
        policy.rules(route, draft, notes)?;
    }
    Ok(())
}

/// The condition on the name of the route; `None` if a policy has no target.
fn route(targets: &[Target], own: &[&String]) -> Option<Object> {
    let mut conditions = Object::new();
    let prefixes: Vec<&String> = targets
        .iter()
        .filter_map(|target| match target {
            Target::Route(prefix) => Some(prefix),
            Target::Gateway => None,
        })
        .collect();
    let condition = if targets.iter().any(|target| matches!(target, Target::Gateway)) {
        match own {
            [] => return Some(conditions),
            [only] => json!({"not": {"prefix": only}}),
            several => {
                json!({"not": several.iter().map(|prefix| json!({"prefix": prefix})).collect::<Vec<_>>()})
            }
        }
    } else {
        match prefixes.as_slice() {
            [] => return None,
            [only] => json!({"prefix": only}),
            several => {
                let any: Vec<String> =
                    several.iter().map(|prefix| format!("{}.*", regex_lite::escape(prefix))).collect();
                json!({"regex": any.join("|")})
            }
        }
    };
    conditions.insert("property".into(), json!({ROUTE: condition}));
    Some(conditions)
}

/// A rule of a policy.
struct Selected {
    url: String,
    conditions: Object,
    /// The conditions, and that the request has the actors.
    matches: Object,
    actors: Vec<String>,
    skips: bool,
    is_shadow: bool,
    why: Vec<String>,
}

impl Policy<'_> {
    fn text(&self, path: &[&str]) -> Option<String> {
        scalar(path.iter().try_fold(&self.value, |value, key| value.get(key))?)
    }

    fn targets(&self, notes: &mut Notes) -> Vec<Target> {
        let Some(spec) = self.value.get("spec") else { return Vec::new() };
        let namespace = self.text(&["metadata", "namespace"]).unwrap_or_else(|| "default".into());
        let mut targets = Vec::new();
        let one = spec.get("targetRef").into_iter();
        for target in spec.get("targetRefs").map_or(&[][..], Value::items).iter().chain(one) {
            let text = |key: &str| target.get(key).and_then(scalar);
            let spot =
                self.input.spot_as(&target.range, format!("target: {}", text("name").unwrap_or_default()));
            let kind = text("kind").unwrap_or_default();
            if text("sectionName").is_some() {
                notes
                    .lost(&spot, "a limit chooses a whole gateway or a whole route, not one of its sections");
            }
            match kind.as_str() {
                "Gateway" => {
                    notes.kept(&spot, "all routes of the gateway that loads Diana");
                    targets.push(Target::Gateway);
                }
                "HTTPRoute" | "GRPCRoute" => {
                    let prefix = format!(
                        "{}/{namespace}/{}/",
                        kind.to_ascii_lowercase(),
                        text("name").unwrap_or_default()
                    );
                    notes.kept(&spot, format!("property: {{{ROUTE}: {{prefix: {prefix}}}}}"));
                    targets.push(Target::Route(prefix));
                }
                other => notes.lost(&spot, format!("Diana limits HTTP requests, not those of `{other}`")),
            }
        }
        if let Some(entry) = spec.entry("targetSelectors") {
            let spot = self.input.spot_as(&entry.key_range, "targetSelectors");
            notes.lost(&spot, "a limit does not see labels: name the targets in `targetRefs`");
        }
        if let Some(entry) = spec.entry("mergeType").filter(|_| spec.get("rateLimit").is_some()) {
            notes.lost(
                &self.input.entry(entry),
                "a policy of a route replaces that of its gateway: the two are not merged",
            );
        }
        targets
    }

    fn rules(&self, route: Object, draft: &mut Draft, notes: &mut Notes) -> Result<()> {
        let Some(entry) = self.value.get("spec").and_then(|spec| spec.entry("rateLimit")) else {
            return Ok(());
        };
        let kind = entry.value.get("type").and_then(scalar);
        for part in entry.value.entries() {
            let spot = self.input.spot_as(&part.key_range, part.key.as_str());
            match (part.key.as_str(), kind.as_deref()) {
                ("type", _) => notes.kept(&self.input.entry(part), "scope"),
                ("local", Some("Global")) | ("global", Some("Local")) => {
                    notes.kept(&spot, "no rule: `type` chooses the other one");
                }
                ("local", _) => self.local(&part.value, &route, draft, notes)?,
                ("global", _) => {
                    notes.changed(&spot, "store", super::store(draft));
                    self.global(&part.value, &route, draft, notes)?;
                }
                _ => notes.lost(&spot, "the conversion does not know this key"),
            }
        }
        // Envoy Gateway sends them unless a ClientTrafficPolicy switches them off.
        draft.top.insert("headers".into(), json!("x-ratelimit"));
        notes.kept(&self.input.spot_as(&entry.key_range, "rateLimit"), "headers: x-ratelimit");
        Ok(())
    }

    fn local(&self, local: &Value, route: &Object, draft: &mut Draft, notes: &mut Notes) -> Result<()> {
        let mut matched = Vec::new();
        let mut default = None;
        for (index, rule) in local.get("rules").map_or(&[][..], Value::items).iter().enumerate() {
            let spot = self.input.spot_as(&rule.range, format!("local.rules[{index}]"));
            self.unknown(rule, notes);
            let Some(selected) = self.selected(rule, draft, notes)? else { continue };
            if selectors(rule).is_empty() {
                match default {
                    None => default = Some((rule, selected, spot, index)),
                    Some(_) => notes.lost(
                        &spot,
                        "only one rule may be without `clientSelectors`: Envoy Gateway refuses the policy",
                    ),
                }
                continue;
            }
            let mut all = selected.matches.clone();
            if selected.url != "/" {
                all.insert("url".into(), json!(selected.url));
            }
            matched.push(all);
            self.bucket(rule, selected, route, &spot, index, draft, notes)?;
        }
        let Some((rule, mut selected, spot, index)) = default else { return Ok(()) };
        // The rule for all others is Envoy's default bucket, which descriptors spare.
        if matched.iter().any(Object::is_empty) {
            notes.kept(&spot, "no rule: another rule counts every request");
            return Ok(());
        }
        match none_of(&matched) {
            Ok(conditions) => selected.conditions = conditions,
            Err(why) => {
                notes.lost(&spot, format!("Envoy counts only requests that no other rule selects; {why}"))
            }
        }
        self.bucket(rule, selected, route, &spot, index, draft, notes)
    }

    #[expect(clippy::too_many_arguments, reason = "a rule, where it counts, and where it is written")]
    fn bucket(
        &self,
        rule: &Value,
        selected: Selected,
        route: &Object,
        spot: &Spot,
        index: usize,
        draft: &mut Draft,
        notes: &mut Notes,
    ) -> Result<()> {
        let (requests, days, ms) = self.limit(rule)?;
        let mut why = selected.why.clone();
        let keys = match requests {
            0 => json!({"rpu": 0, "unit": "second"}),
            _ => {
                match Rate::new(requests, ms) {
                    Some(rate) => {
                        if !rate.is_exact {
                            why.push("a unit has at most seven days: the time between two tokens is rounded up to a millisecond".into());
                        }
                        json!({"rpu": rate.rpu, "unit": rate.unit(), "burst": requests})
                    }
                    None => {
                        notes.lost(spot, format!("a bucket needs at least one token in seven days, not {requests} in {days} days"));
                        return Ok(());
                    }
                }
            }
        };
        if rule.get("shared").and_then(Value::flag) == Some(true) {
            why.push("Envoy Gateway shares only global rules: each route has a bucket of its own".into());
        }
        if self.rule_count("local") > 1 {
            why.push(
                "Envoy takes tokens one bucket after the other, Diana charges a refused request to no rule"
                    .into(),
            );
        }
        self.push(object(keys), selected, route, true, (spot, index, why), (draft, notes));
        Ok(())
    }

    fn rule_count(&self, scope: &str) -> usize {
        let path = ["spec", "rateLimit", scope, "rules"];
        path.iter().try_fold(&self.value, |value, key| value.get(key)).map_or(0, |rules| rules.items().len())
    }

    fn global(&self, global: &Value, route: &Object, draft: &mut Draft, notes: &mut Notes) -> Result<()> {
        for (index, rule) in global.get("rules").map_or(&[][..], Value::items).iter().enumerate() {
            let spot = self.input.spot_as(&rule.range, format!("global.rules[{index}]"));
            self.unknown(rule, notes);
            let Some(selected) = self.selected(rule, draft, notes)? else { continue };
            let (requests, days, ms) = self.limit(rule)?;
            let mut why = selected.why.clone();
            let unit = match days {
                30 => "month".into(),
                365 => "year".into(),
                _ => super::rate::unit(ms),
            };
            if days > 1 {
                why.push(format!(
                    "a window of Envoy Gateway has {days} days, from 1970; `{unit}` is that of the calendar"
                ));
            }
            let shared = rule.get("shared").and_then(Value::flag) == Some(true);
            let keys =
                json!({"algo": "W", "rpu": requests, "unit": unit, "scope": "global", "on_error": "allow"});
            self.push(object(keys), selected, route, !shared, (&spot, index, why), (draft, notes));
        }
        Ok(())
    }

    fn push(
        &self,
        mut keys: Object,
        selected: Selected,
        route: &Object,
        by_route: bool,
        (spot, index, why): (&Spot, usize, Vec<String>),
        (draft, notes): (&mut Draft, &mut Notes),
    ) {
        let mut actors = selected.actors;
        let mut skips = selected.skips;
        if by_route {
            actors.push(draft.actor("route", json!({"property": ["xds", "route_name"]})));
            // The name is there whenever a route is.
            skips = true;
        }
        match actors.as_slice() {
            [] => {}
            [only] => drop(keys.insert("actor".into(), json!(only))),
            several => drop(keys.insert("actor".into(), json!(several))),
        }
        if skips {
            keys.insert("missing".into(), json!("skip"));
        }
        let policy = self.text(&["metadata", "name"]).unwrap_or_default();
        keys.insert("name".into(), draft.name(&format!("{policy}-{index}")).into());
        if selected.is_shadow {
            keys.insert("mode".into(), json!("shadow"));
        }
        let rule = Rule::new(keys, spot);
        match why.is_empty() {
            true => notes.kept(spot, rule.numbers()),
            false => notes.changed(spot, rule.numbers(), why.join("; ")),
        }
        let mut limit = Object::new();
        limit.insert("url".into(), json!(selected.url));
        limit.extend(route.clone());
        limit.extend(selected.conditions);
        match draft.limits.iter_mut().find(|known| known.keys == limit) {
            Some(known) => known.rules.push(rule),
            None => draft.limits.push(Limit { keys: limit, rules: vec![rule], from: Vec::new() }),
        }
    }

    /// Requests, and the length of the unit in days and in milliseconds.
    fn limit(&self, rule: &Value) -> Result<(u64, u64, u64)> {
        let Some(limit) = rule.get("limit") else {
            return Err(self.input.wrong(
                &rule.range,
                "the rule has no `limit`",
                "`limit: {requests: 10, unit: Second}`",
            ));
        };
        let requests = limit.get("requests");
        let number = requests.and_then(whole).filter(|number| *number <= 1_000_000_000);
        let Some(number) = number else {
            let range = requests.map_or(&limit.range, |requests| &requests.range);
            return Err(self.input.wrong(
                range,
                "`requests` is not a number of requests",
                "a whole number up to 1000000000",
            ));
        };
        let unit = limit.get("unit");
        let (days, ms) = match unit.and_then(scalar).unwrap_or_default().as_str() {
            "Second" => (0, 1_000),
            "Minute" => (0, 60_000),
            "Hour" => (0, 3_600_000),
            "Day" => (1, 86_400_000),
            "Month" => (30, 2_592_000_000),
            "Year" => (365, 31_536_000_000),
            _ => {
                let range = unit.map_or(&limit.range, |unit| &unit.range);
                return Err(self.input.wrong(
                    range,
                    "unknown `unit`",
                    "Second, Minute, Hour, Day, Month or Year",
                ));
            }
        };
        Ok((number, days, ms))
    }

    /// Notes about keys of a rule that the document does not have.
    fn unknown(&self, rule: &Value, notes: &mut Notes) {
        for entry in rule.entries() {
            let spot = || self.input.spot_as(&entry.key_range, entry.key.as_str());
            match entry.key.as_str() {
                "clientSelectors" | "limit" | "shared" | "shadowMode" => {}
                "cost" => {
                    let is_one = |part: &Entry| {
                        part.key == "request" && part.value.get("number").and_then(whole) == Some(1)
                    };
                    match entry.value.entries().iter().all(is_one) {
                        true => notes.kept(&spot(), "each request costs 1"),
                        false => {
                            notes.lost(&spot(), "write a `cost` for the rule: docs/configuration/cost.md")
                        }
                    }
                }
                _ => notes.lost(&spot(), "the conversion does not know this key"),
            }
        }
        if let Some(entry) = rule.entry("shadowMode").filter(|entry| entry.value.flag() == Some(true)) {
            notes.kept(&self.input.entry(entry), "mode: shadow");
        }
    }

    /// What the selectors of a rule ask for; `None` if a limit cannot.
    fn selected(&self, rule: &Value, draft: &mut Draft, notes: &mut Notes) -> Result<Option<Selected>> {
        let mut selected = Selected {
            url: "/".into(),
            conditions: Object::new(),
            matches: Object::new(),
            actors: Vec::new(),
            skips: false,
            is_shadow: rule.get("shadowMode").and_then(Value::flag) == Some(true),
            why: Vec::new(),
        };
        for selector in selectors(rule) {
            for entry in selector.entries() {
                if let Err(why) = selected.add(entry, draft) {
                    notes.lost(
                        &self.input.spot_as(&entry.key_range, entry.key.as_str()),
                        format!("{why}: the rule is left out"),
                    );
                    return Ok(None);
                }
            }
        }
        Ok(Some(selected))
    }
}

fn selectors(rule: &Value) -> &[Value] {
    rule.get("clientSelectors").map_or(&[][..], Value::items)
}

impl Selected {
    fn add(&mut self, entry: &Entry, draft: &mut Draft) -> Result<(), String> {
        match entry.key.as_str() {
            "headers" | "queryParams" => {
                let kind = if entry.key == "headers" { "headers" } else { "query" };
                entry.value.items().iter().try_for_each(|item| self.named(kind, item, draft))
            }
            "methods" => self.methods(&entry.value),
            "path" => self.path(&entry.value),
            "sourceCIDR" => self.source(&entry.value),
            other => Err(format!("a limit has no condition such as `{other}`")),
        }
    }

    fn both(&mut self, kind: &str, name: &str, condition: serde_json::Value) -> Result<(), String> {
        add(&mut self.matches, kind, name, condition.clone())?;
        add(&mut self.conditions, kind, name, condition)
    }

    fn named(&mut self, kind: &str, item: &Value, draft: &mut Draft) -> Result<(), String> {
        let text = |key: &str| item.get(key).and_then(scalar);
        let name = text("name").ok_or("a condition has a `name`")?;
        let name = if kind == "headers" { name.to_ascii_lowercase() } else { name };
        let inverted = item.get("invert").and_then(Value::flag).unwrap_or(false);
        let condition = match (text("type").as_deref(), text("value")) {
            (Some("Distinct"), _) => {
                let actor = match kind {
                    "headers" => draft.header(&name),
                    _ => draft.actor(&name, json!({"query": name})),
                };
                self.actors.push(actor);
                self.skips = true;
                return add(&mut self.matches, kind, &name, json!({"present": true}));
            }
            (None | Some("Exact"), Some(value)) => json!(value),
            (Some("RegularExpression"), Some(value)) => {
                if let Err(error) = regex_lite::Regex::new(&value) {
                    return Err(format!("`{value}` has no counterpart: {error}"));
                }
                json!({"regex": value})
            }
            _ => return Err(format!("the condition on `{name}` has no value")),
        };
        self.both(kind, &name, if inverted { json!({"not": condition}) } else { condition })
    }

    fn methods(&mut self, value: &Value) -> Result<(), String> {
        let is_inverted = |item: &Value| item.get("invert").and_then(Value::flag).unwrap_or(false);
        let names: Vec<String> = value.items().iter().filter_map(|item| scalar(item.get("value")?)).collect();
        let inverted = value.items().iter().filter(|item| is_inverted(item)).count();
        match (inverted, names.as_slice()) {
            (_, []) => Ok(()),
            (0, names) => {
                if names.iter().any(|name| name == "GET") && !names.iter().any(|name| name == "HEAD") {
                    self.why.push("Diana's `GET` includes `HEAD`".into());
                }
                self.both("methods", "", json!(names))
            }
            (1, [only]) => self.both("methods", "", json!({"not": [only]})),
            _ => Err("several inverted methods match every request".into()),
        }
    }

    fn path(&mut self, value: &Value) -> Result<(), String> {
        let text = value.get("value").and_then(scalar).unwrap_or_else(|| "/".into());
        if value.get("invert").and_then(Value::flag) == Some(true) {
            return Err("a url cannot match all paths but one".into());
        }
        let literal = text.replace('*', "%2A").replace('{', "%7B").replace('}', "%7D");
        self.url = places::url(match value.get("type").and_then(scalar).as_deref() {
            None | Some("PathPrefix") => literal,
            Some("Exact") => {
                self.why.push("Envoy Gateway compares the path with its query".into());
                format!("={literal}")
            }
            _ => return Err("a url is a path, not a regular expression".into()),
        })?;
        Ok(())
    }

    fn source(&mut self, value: &Value) -> Result<(), String> {
        let text = value.get("value").and_then(scalar).unwrap_or_default();
        let network = Network::parse(&text).ok_or_else(|| format!("`{text}` is not a network"))?;
        if value.get("type").and_then(scalar).as_deref() == Some("Distinct") {
            self.actors.push("ip".into());
            if text.contains(':') {
                self.why.push(IPV6.into());
            }
        }
        self.both("ip", "", json!([network.text()]))
    }
}
