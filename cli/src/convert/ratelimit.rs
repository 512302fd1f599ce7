//! From Envoy's `ratelimit` filter and the limits of envoyproxy/ratelimit.
//!
//! A route's actions make descriptors; the service has a tree of keys and values, in which each
//! descriptor finds at most one limit. Each path through the tree becomes a rule at the route.

use super::draft::{Draft, Object, Rule, object};
use super::envoy::{self, Descriptor, EntryValue, Route, counted, descriptors, message};
use super::finish;
use super::input::{Input, scalar, whole};
use super::notes::{Notes, Spot};
use super::places::{Counter, Place};
use crate::source::value::{Entry, Value, camel};
use miette::Result;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// What the filter says about all rules.
struct Filter {
    name: Option<String>,
    domain: Option<String>,
    keys: Object,
    response: serde_json::Value,
}

/// A limit at the end of a path through the tree.
struct Leaf<'a> {
    /// The value of each entry that the tree asks for; `None` is any.
    values: Vec<Option<String>>,
    /// For each entry, the values that siblings have.
    excluded: Vec<Vec<String>>,
    node: &'a Value,
}

/// Converts configurations of Envoy together with those of the service.
pub fn convert(inputs: &[Input], draft: &mut Draft, notes: &mut Notes) -> Result<()> {
    let mut envoys: Vec<(&Input, Value)> = Vec::new();
    let mut services: Vec<(&Input, Value)> = Vec::new();
    for input in inputs {
        for value in input.values()? {
            match value.get("domain").is_some() && value.get("descriptors").is_some() {
                true => services.push((input, value)),
                false => envoys.push((input, value)),
            }
        }
    }
    if let (Some(input), true) = (inputs.first(), services.is_empty()) {
        return Err(input.nothing(
            "no file has the limits of the service",
            "a file with `domain` and `descriptors` beside that of Envoy",
        ));
    }
    if let (Some(input), true) = (inputs.first(), envoys.is_empty()) {
        return Err(input.nothing(
            "no file has Envoy's configuration",
            "a file with routes and their `rate_limits` beside that of the service",
        ));
    }
    let mut conversion =
        Conversion { draft, notes, counters: Vec::new(), known: BTreeMap::new(), used: BTreeSet::new() };
    let (mut places, mut spots) = (Vec::new(), Vec::new());
    for (input, root) in &envoys {
        let filter = conversion.filter(root, input)?;
        let mut tables = Vec::new();
        envoy::with_field(root, "virtual_hosts", &mut tables);
        for table in tables {
            for route in envoy::routes(table, input, conversion.notes) {
                let mut rules = BTreeSet::new();
                for limits in limits_of(&route, &filter, input, conversion.notes) {
                    for descriptor in descriptors(limits, input, conversion.notes) {
                        rules.extend(conversion.rules(&descriptor, &filter, &services, input)?);
                    }
                }
                let Route { url, conditions, spot, .. } = route;
                places.push(Place { url, conditions, rules, from: spot.place() });
                spots.push(spot);
            }
        }
    }
    for (input, service) in &services {
        conversion.unused(service, input);
    }
    let Conversion { draft, notes, counters, .. } = conversion;
    if !counters.is_empty() {
        let why = super::store(draft);
        if let Some((input, service)) = services.first()
            && let Some(entry) = service.entry("domain")
        {
            notes.changed(&input.entry(entry), "store", why);
        }
    }
    finish(&places, &spots, counters, draft, notes);
    Ok(())
}

/// The `rate_limits` that hold at a route: those of `RateLimitPerRoute`, or else its own, those of
/// its virtual host, or both.
fn limits_of<'a>(route: &Route<'a>, filter: &Filter, input: &Input, notes: &mut Notes) -> Vec<&'a Value> {
    if let Some(limits) = of_filter(route, filter, input, notes) {
        return limits.into_iter().collect();
    }
    let of_route = route.route.and_then(|route| route.fields(&["route", "rate_limits"]));
    let of_route = of_route.filter(|limits| !limits.items().is_empty());
    let of_host = route.host.field("rate_limits");
    let includes = route.route.and_then(|route| route.fields(&["route", "include_vh_rate_limits"]));
    match of_route {
        Some(own) if includes.and_then(Value::flag) == Some(true) => {
            [Some(own), of_host].into_iter().flatten().collect()
        }
        Some(own) => vec![own],
        None => of_host.into_iter().collect(),
    }
}

/// The `rate_limits` of the filter's own configuration for a route: the most specific configuration
/// replaces all others. `Some(None)` if they are left out.
fn of_filter<'a>(
    route: &Route<'a>,
    filter: &Filter,
    input: &Input,
    notes: &mut Notes,
) -> Option<Option<&'a Value>> {
    const FIELD: &str = "typed_per_filter_config";
    let is_of_filter = |entry: &Entry| filter.name.as_ref().is_none_or(|name| *name == entry.key);
    let is_disabling = |entry: &Entry| {
        let is_named = match &filter.name {
            Some(name) => *name == entry.key,
            None => entry.key.ends_with(".ratelimit"),
        };
        is_named
            && (message(&entry.value, "FilterConfig").is_some() || entry.value.field("disabled").is_some())
    };
    let mut inside = Vec::new();
    if let Some(route) = route.route {
        envoy::with_field(route, FIELD, &mut inside);
    }
    let of_route = |value: &Value| route.route.is_some_and(|route| route.range == value.range);
    for part in inside.into_iter().filter(|part| !of_route(part)) {
        for entry in part.field(FIELD).map_or(&[][..], Value::entries) {
            if message(&entry.value, "RateLimitPerRoute").is_some() || is_disabling(entry) {
                let spot = input.spot_as(&entry.key_range, entry.key.as_str());
                notes.lost(&spot, "a limit cannot choose by a weighted cluster");
            }
        }
    }
    let mut found = None;
    for part in [route.route, Some(route.host), Some(route.table)].into_iter().flatten() {
        for entry in part.field(FIELD).map_or(&[][..], Value::entries) {
            let spot = input.spot_as(&entry.key_range, entry.key.as_str());
            if is_disabling(entry) {
                notes.lost(
                    &spot,
                    "a filter that a route switches or wraps is converted as that of all routes",
                );
            }
            let Some(config) = message(&entry.value, "RateLimitPerRoute") else { continue };
            if !is_of_filter(entry) {
                notes.lost(&spot, "this is the configuration of another filter than the converted one");
                continue;
            }
            if found.is_some() {
                continue;
            }
            let mut is_left_out = false;
            for entry in config.entries() {
                match camel(&entry.key).as_str() {
                    "@type" | "rateLimits" => {}
                    "domain" => {
                        is_left_out = true;
                        notes.lost(
                            &input.entry(entry),
                            "the rules of a domain of its own are left out at this route",
                        );
                    }
                    _ => notes.lost(&input.entry(entry), "the conversion does not know this key"),
                }
            }
            let limits = config.field("rate_limits").filter(|limits| !limits.items().is_empty());
            found = match (is_left_out, limits) {
                (true, _) => Some(None),
                (false, Some(limits)) => Some(Some(limits)),
                // Without limits the route's own hold, whatever less specific ones say.
                (false, None) => return None,
            };
        }
    }
    found
}

struct Conversion<'a> {
    draft: &'a mut Draft,
    notes: &'a mut Notes,
    counters: Vec<Counter>,
    /// The rule of a limit and a descriptor, which several routes may have.
    known: BTreeMap<(String, usize, String), usize>,
    /// The limits that a descriptor finds.
    used: BTreeSet<(String, usize)>,
}

impl Conversion<'_> {
    fn filter(&mut self, root: &Value, input: &Input) -> Result<Filter> {
        let mut managers = Vec::new();
        envoy::with_field(root, "http_filters", &mut managers);
        let filters =
            managers.iter().flat_map(|manager| manager.field("http_filters").map_or(&[][..], Value::items));
        let mut filters =
            filters.filter_map(|filter| Some((filter, message(filter.field("typed_config")?, "RateLimit")?)));
        let first = filters.next();
        for (other, _) in filters {
            let why =
                "only the first `RateLimit` filter is converted: convert this one from a file of its own";
            self.notes.lost(&input.spot(&other.range), why);
        }
        let config = first.map(|(_, config)| config);
        let mut found = Filter {
            name: first.and_then(|(filter, _)| filter.field("name").and_then(scalar)),
            domain: None,
            keys: object(json!({"on_error": "allow"})),
            response: json!({"status": 429}),
        };
        for entry in config.map_or(&[][..], Value::entries) {
            let spot = input.entry(entry);
            let flag = entry.value.flag();
            match camel(&entry.key).as_str() {
                "@type" => {}
                "domain" => {
                    found.domain = scalar(&entry.value);
                    self.notes.kept(&spot, "the limits of this domain");
                }
                "failureModeDeny" if flag == Some(true) => {
                    found.keys.insert("on_error".into(), json!("deny"));
                    self.notes.changed(&spot, "on_error: deny", "Diana answers 503 in place of 500");
                }
                "failureModeDeny" => self.notes.kept(&spot, "on_error: allow"),
                "timeout" => self.notes.changed(
                    &spot,
                    "timeout of the store",
                    "Diana asks Redis, by default for at most 50ms",
                ),
                "rateLimitService" => self.notes.changed(&spot, "store", "Diana asks Redis, not the service"),
                "rateLimitedStatus" => {
                    let code = entry.value.field("code").unwrap_or(&entry.value);
                    match whole(code).filter(|code| (400..=599).contains(code)) {
                        Some(code) => {
                            found.response = json!({"status": code});
                            self.notes.kept(&spot, format!("response: {{status: {code}}}"));
                        }
                        None => self.notes.lost(&spot, "a refusal has a status from 400 to 599"),
                    }
                }
                "enableXRatelimitHeaders" => {
                    let is_off = scalar(&entry.value).is_some_and(|value| value == "OFF" || value == "0");
                    let form = if is_off { "off" } else { "x-ratelimit" };
                    self.draft.top.insert("headers".into(), json!(form));
                    self.notes.kept(&spot, format!("headers: {form}"));
                }
                "statPrefix" => self.notes.changed(
                    &spot,
                    "the label `rule` of `diana_requests`",
                    "metrics have the names of rules",
                ),
                "stage" if whole(&entry.value) == Some(0) => {}
                "stage" => self.notes.changed(&spot, "no stage", "Diana counts all descriptors at once"),
                "disableXEnvoyRatelimitedHeader" => {
                    self.notes.changed(&spot, "problem details", "Diana sends no `x-envoy-ratelimited`")
                }
                "rateLimitedAsResourceExhausted" => self.notes.kept(&spot, "gRPC's RESOURCE_EXHAUSTED"),
                "requestType" if scalar(&entry.value).is_some_and(|kind| kind == "both") => {}
                _ => self.notes.lost(&spot, "the conversion does not know this key"),
            }
        }
        Ok(found)
    }

    /// The rules of a descriptor.
    fn rules(
        &mut self,
        descriptor: &Descriptor,
        filter: &Filter,
        services: &[(&Input, Value)],
        envoy: &Input,
    ) -> Result<Vec<usize>> {
        let mut rules = Vec::new();
        for (input, service) in services {
            let domain = service.get("domain").and_then(scalar);
            if filter.domain.is_some() && domain != filter.domain {
                continue;
            }
            let mut leaves = Vec::new();
            let mut path = Leaf { values: Vec::new(), excluded: Vec::new(), node: service };
            walk(service, descriptor, &mut path, &mut leaves);
            for leaf in leaves {
                rules.extend(self.rule(&leaf, descriptor, filter, input)?);
            }
        }
        if rules.is_empty() {
            self.notes.kept(
                &envoy.spot(&descriptor.value.range),
                "no rule: the service has no limit for this descriptor",
            );
        }
        Ok(rules)
    }

    fn rule(
        &mut self,
        leaf: &Leaf,
        descriptor: &Descriptor,
        filter: &Filter,
        input: &Input,
    ) -> Result<Option<usize>> {
        let Some(limit) = leaf.node.entry("rate_limit") else { return Ok(None) };
        self.used.insert((input.file.name.clone(), limit.key_range.start));
        let shown = |key: &str| leaf.node.get(key).and_then(scalar).unwrap_or_default();
        let text = match shown("value").as_str() {
            "" => shown("key"),
            value => format!("{}={value}", shown("key")),
        };
        let spot = input.spot_as(&leaf.node.range, text);
        for entry in leaf.node.entries() {
            match entry.key.as_str() {
                "key" | "value" | "rate_limit" | "descriptors" | "shadow_mode" => {}
                "detailed_metric" | "value_to_metric" => {
                    self.notes.changed(
                        &input.entry(entry),
                        "the label `rule` of `diana_requests`",
                        "metrics have no values of actors",
                    );
                }
                _ => self.notes.lost(&input.entry(entry), "the conversion does not know this key"),
            }
        }
        for entry in limit.value.entries() {
            match entry.key.as_str() {
                "unit" | "requests_per_unit" | "unlimited" | "name" => {}
                "replaces" => self
                    .notes
                    .lost(&input.entry(entry), "rules do not replace each other by name: both count"),
                _ => self.notes.lost(&input.entry(entry), "the conversion does not know this key"),
            }
        }
        if limit.value.get("unlimited").and_then(Value::flag) == Some(true) {
            self.notes.kept(&spot, "no rule: unlimited");
            return Ok(None);
        }
        let entries: Vec<String> =
            descriptor.entries.iter().map(|entry| format!("{:?}", entry.value)).collect();
        let identity = (input.file.name.clone(), limit.key_range.start, entries.join(" "));
        if let Some(known) = self.known.get(&identity) {
            return Ok(Some(*known));
        }
        let mut texts = leaf.values.iter().flatten().chain(leaf.excluded.iter().flatten());
        if texts.any(|value| value.ends_with('*')) {
            self.notes.lost(
                &spot,
                "a value that ends with `*` is a prefix: write a limit with `{prefix: …}` by hand",
            );
            return Ok(None);
        }
        let found = match counted(&descriptor.entries, &leaf.values, &leaf.excluded, self.draft) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(why) => {
                self.notes.lost(&spot, why);
                return Ok(None);
            }
        };
        let (mut keys, mut why) = self.numbers(&limit.value, input)?;
        keys.extend(filter.keys.clone());
        keys.extend(found.keys);
        if leaf.node.get("shadow_mode").and_then(Value::flag) == Some(true) {
            keys.insert("mode".into(), json!("shadow"));
        }
        let wanted = leaf.values.iter().map(Option::as_deref);
        let wish: Vec<String> =
            descriptor.entries.iter().zip(wanted).map(|(entry, wanted)| entry.words(wanted)).collect();
        keys.insert("name".into(), self.draft.name(&wish.join("-")).into());
        let rule = Rule::new(keys, &spot);
        why.extend(descriptor.why.clone());
        why.extend(found.why.map(str::to_owned));
        match why.is_empty() {
            true => self.notes.kept(&spot, rule.numbers()),
            false => self.notes.changed(&spot, rule.numbers(), why.join("; ")),
        }
        let index = self.counters.len();
        self.counters.push(Counter {
            rule,
            conditions: found.conditions,
            response: Some(filter.response.clone()),
            spot,
        });
        self.known.insert(identity, index);
        Ok(Some(index))
    }

    fn numbers(&mut self, limit: &Value, input: &Input) -> Result<(Object, Vec<String>)> {
        let unit = limit.get("unit");
        let mut why = Vec::new();
        let word = match unit.and_then(scalar).unwrap_or_default().to_ascii_lowercase().as_str() {
            known @ ("second" | "minute" | "hour" | "day") => known.to_owned(),
            // A window of seven days from 1970 is the same in both.
            "week" => "7d".into(),
            known @ ("month" | "year") => {
                let days = if known == "month" { 30 } else { 365 };
                why.push(format!(
                    "a {known} of the service has {days} days, from 1970; that of Diana is of the calendar"
                ));
                known.to_owned()
            }
            _ => {
                let range = unit.map_or(&limit.range, |unit| &unit.range);
                return Err(input.wrong(
                    range,
                    "unknown `unit`",
                    "second, minute, hour, day, week, month or year",
                ));
            }
        };
        let requests = limit.get("requests_per_unit");
        let number = requests.map_or(Some(0), whole).filter(|number| *number <= u32::MAX.into());
        let Some(number) = number else {
            let range = requests.map_or(&limit.range, |requests| &requests.range);
            return Err(input.wrong(
                range,
                "this is not a number of requests",
                "a whole number up to 4294967295",
            ));
        };
        Ok((object(json!({"algo": "W", "rpu": number, "unit": word, "scope": "global"})), why))
    }

    /// Notes about limits that no route asks for.
    fn unused(&mut self, node: &Value, input: &Input) {
        if let Some(limit) = node.entry("rate_limit")
            && !self.used.contains(&(input.file.name.clone(), limit.key_range.start))
        {
            let spot: Spot = input.spot_as(&node.range, node.get("key").and_then(scalar).unwrap_or_default());
            self.notes.kept(&spot, "no rule: no route makes this descriptor");
        }
        for inner in node.get("descriptors").map_or(&[][..], Value::items) {
            self.unused(inner, input);
        }
    }
}

/// Finds the limits of a descriptor in the tree, below a node. The last entry decides: a limit
/// above it is not asked.
fn walk<'a>(node: &'a Value, descriptor: &Descriptor, path: &mut Leaf<'a>, leaves: &mut Vec<Leaf<'a>>) {
    let Some(entry) = descriptor.entries.get(path.values.len()) else {
        if node.entry("rate_limit").is_some() {
            let (values, excluded) = (path.values.clone(), path.excluded.clone());
            leaves.push(Leaf { values, excluded, node });
        }
        return;
    };
    let value = |child: &Value| child.get("value").and_then(scalar).filter(|value| !value.is_empty());
    let children: Vec<&Value> = node
        .get("descriptors")
        .map_or(&[][..], Value::items)
        .iter()
        .filter(|child| child.get("key").and_then(scalar).as_deref() == Some(&entry.key))
        .collect();
    let values: Vec<String> = children.iter().filter_map(|child| value(child)).collect();
    for child in children {
        let own = value(child);
        let (is_taken, excluded) = match (&entry.value, &own) {
            (EntryValue::Fixed(fixed, _), Some(own)) => (own == fixed, Vec::new()),
            // A specific value wins over any value.
            (EntryValue::Fixed(fixed, _), None) => (!values.contains(fixed), Vec::new()),
            (EntryValue::Read(_), Some(_)) => (true, Vec::new()),
            (EntryValue::Read(_), None) => (true, values.clone()),
        };
        if is_taken {
            path.values.push(own);
            path.excluded.push(excluded);
            walk(child, descriptor, path, leaves);
            path.values.pop();
            path.excluded.pop();
        }
    }
}
