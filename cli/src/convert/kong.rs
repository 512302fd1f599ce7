//! From Kong's declarative file: `rate-limiting`, and `rate-limiting-advanced` as far as its
//! windows have a counterpart.
//!
//! Of all instances of a plugin that fit a request, the most specific one runs. Routes are places,
//! and so are routes for a consumer with plugins of its own.

use super::draft::{Draft, Object, Rule, object};
use super::envoy::{IPV6, add};
use super::finish;
use super::input::{Input, scalar, whole};
use super::notes::{Notes, Spot};
use super::places::{self, Counter, Place};
use crate::source::value::{Entry, Value};
use miette::Result;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// The plugins that limit requests.
const PLUGINS: [&str; 2] = ["rate-limiting", "rate-limiting-advanced"];

/// The header in which Kong passes on the consumer.
const CONSUMER: &str = "x-consumer-username";

/// The units of `rate-limiting`.
const UNITS: [&str; 6] = ["second", "minute", "hour", "day", "month", "year"];

/// An instance of a plugin, and where it runs.
struct Plugin<'a> {
    value: &'a Value,
    kind: &'static str,
    service: Option<String>,
    route: Option<String>,
    consumer: Option<String>,
    group: Option<String>,
    spot: Spot,
}

/// A route. Without a name, its place stands for one.
struct Route {
    service: Option<String>,
    name: String,
    urls: Vec<String>,
    conditions: Object,
    spot: Spot,
}

/// A consumer, and its groups.
struct Consumer {
    name: String,
    groups: Vec<String>,
}

/// Converts declarative files.
pub fn convert(inputs: &[Input], draft: &mut Draft, notes: &mut Notes) -> Result<()> {
    let mut conversion = Conversion {
        draft,
        notes,
        counters: Vec::new(),
        known: BTreeMap::new(),
        messages: Vec::new(),
        instances: 0,
        has_consumers: None,
    };
    let (mut places, mut spots) = (Vec::new(), Vec::new());
    let mut found_any = false;
    for input in inputs {
        for root in &input.values()? {
            let (mut plugins, mut routes) = (Vec::new(), Vec::new());
            let consumers = conversion.read(root, input, &mut plugins, &mut routes);
            conversion.others(root, input);
            found_any |= !plugins.is_empty();
            conversion.places(input, &plugins, &routes, &consumers, &mut places, &mut spots)?;
        }
    }
    if let (Some(input), false) = (inputs.first(), found_any) {
        return Err(input.nothing("the file has no `rate-limiting` plugin", "a declarative file of Kong"));
    }
    conversion.finish(&places, &spots);
    Ok(())
}

struct Conversion<'a> {
    draft: &'a mut Draft,
    notes: &'a mut Notes,
    counters: Vec<Counter>,
    /// The rules of a plugin, for each service if it counts by service.
    known: BTreeMap<(String, usize, String), BTreeSet<usize>>,
    /// Bodies of refusals.
    messages: Vec<(Spot, String)>,
    /// How many plugins have rules.
    instances: usize,
    /// The first place that needs to know the consumer.
    has_consumers: Option<Spot>,
}

/// The name of a service, a route or a consumer that another object refers to.
fn reference(value: &Value, key: &str) -> Option<String> {
    let value = value.get(key)?;
    scalar(value).or_else(|| ["name", "username", "id"].into_iter().find_map(|key| scalar(value.get(key)?)))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).map_or(&[][..], Value::items)
}

fn name(value: &Value) -> Option<String> {
    ["name", "username", "custom_id", "id"].into_iter().find_map(|key| scalar(value.get(key)?))
}

impl Conversion<'_> {
    /// Notes about other plugins that limit requests, such as `response-ratelimiting`.
    fn others(&mut self, value: &Value, input: &Input) {
        for plugin in list(value, "plugins") {
            let name = plugin.get("name").and_then(scalar).unwrap_or_default();
            let limits = name.contains("rate-limiting") || name.contains("ratelimiting");
            if limits && !PLUGINS.contains(&name.as_str()) {
                let spot = input.spot_as(&plugin.range, format!("plugin {name}"));
                self.notes.lost(&spot, "the conversion does not know this plugin");
            }
        }
        for key in ["services", "routes", "consumers", "consumer_groups"] {
            list(value, key).iter().for_each(|inner| self.others(inner, input));
        }
    }

    /// The plugins, routes and consumers of a file.
    fn read<'v>(
        &mut self,
        root: &'v Value,
        input: &Input,
        plugins: &mut Vec<Plugin<'v>>,
        routes: &mut Vec<Route>,
    ) -> Vec<Consumer> {
        let mut of = |value: &'v Value,
                      service: Option<&String>,
                      route: Option<&String>,
                      consumer: Option<&String>,
                      group: Option<&String>| {
            for plugin in list(value, "plugins") {
                let kind = plugin.get("name").and_then(scalar).unwrap_or_default();
                let Some(kind) = PLUGINS.into_iter().find(|known| *known == kind) else { continue };
                plugins.push(Plugin {
                    value: plugin,
                    kind,
                    service: service.cloned().or_else(|| reference(plugin, "service")),
                    route: route.cloned().or_else(|| reference(plugin, "route")),
                    consumer: consumer.cloned().or_else(|| reference(plugin, "consumer")),
                    group: group.cloned().or_else(|| reference(plugin, "consumer_group")),
                    spot: input.spot_as(&plugin.range, format!("plugin {kind}")),
                });
            }
        };
        of(root, None, None, None, None);
        let mut found: Vec<(&Value, Option<String>)> = Vec::new();
        for service in list(root, "services") {
            let own = name(service).unwrap_or_else(|| format!("service at {}", service.range.start));
            of(service, Some(&own), None, None, None);
            found.extend(list(service, "routes").iter().map(|route| (route, Some(own.clone()))));
        }
        found.extend(list(root, "routes").iter().map(|route| (route, reference(route, "service"))));
        for route in found.iter().map(|(route, _)| *route) {
            let own = name(route).unwrap_or_else(|| format!("route at {}", route.range.start));
            of(route, None, Some(&own), None, None);
        }
        let mut consumers = Vec::new();
        for consumer in list(root, "consumers") {
            let Some(own) = name(consumer) else { continue };
            of(consumer, None, None, Some(&own), None);
            let groups = list(consumer, "groups")
                .iter()
                .filter_map(|group| scalar(group).or_else(|| name(group)))
                .collect();
            consumers.push(Consumer { name: own, groups });
        }
        for group in list(root, "consumer_groups") {
            let Some(own) = name(group) else { continue };
            of(group, None, None, None, Some(&own));
            for member in
                list(group, "consumers").iter().filter_map(|member| scalar(member).or_else(|| name(member)))
            {
                if let Some(consumer) = consumers.iter_mut().find(|consumer| consumer.name == member) {
                    consumer.groups.push(own.clone());
                }
            }
        }
        for (route, service) in found {
            let own = name(route).unwrap_or_else(|| format!("route at {}", route.range.start));
            routes.extend(self.route(route, own, service, input));
        }
        consumers
    }

    fn route(
        &mut self,
        route: &Value,
        name: String,
        service: Option<String>,
        input: &Input,
    ) -> Option<Route> {
        let spot = input.spot_as(&route.range, format!("route {name}"));
        let mut conditions = Object::new();
        let texts = |key: &str| list(route, key).iter().filter_map(scalar).collect::<Vec<String>>();
        let hosts: Vec<String> = texts("hosts")
            .iter()
            .map(|host| host.split(':').next().unwrap_or_default().to_ascii_lowercase())
            .collect();
        if !hosts.is_empty() {
            conditions.insert("hosts".into(), json!(hosts));
        }
        let methods = texts("methods");
        if !methods.is_empty() {
            conditions.insert("methods".into(), json!(methods));
        }
        for entry in route.get("headers").map_or(&[][..], Value::entries) {
            let values: Vec<String> = entry.value.items().iter().filter_map(scalar).collect();
            let condition = match values.as_slice() {
                [only] => json!(only),
                several => {
                    json!({"regex": several.iter().map(|value| regex_lite::escape(value)).collect::<Vec<_>>().join("|")})
                }
            };
            if let Err(why) = add(&mut conditions, "headers", &entry.key.to_ascii_lowercase(), condition) {
                self.notes.lost(&input.entry(entry), why);
            }
        }
        for key in ["snis", "sources", "destinations", "expression"] {
            if let Some(entry) = route
                .entry(key)
                .filter(|entry| scalar(&entry.value).is_some() || !entry.value.items().is_empty())
            {
                self.notes.lost(
                    &input.spot_as(&entry.key_range, key),
                    "a limit has no such condition: it counts the requests of other routes, too",
                );
            }
        }
        let mut urls = Vec::new();
        for path in list(route, "paths") {
            let Some(text) = scalar(path) else { continue };
            let spot = input.spot(&path.range);
            if text.starts_with('~') {
                self.notes.lost(
                    &spot,
                    "a url is a path, not a regular expression: the limits of this path are left out",
                );
                continue;
            }
            let literal = text.replace('*', "%2A").replace('{', "%7B").replace('}', "%7D");
            match places::url(literal) {
                Ok(url) => {
                    match text.as_str() {
                        "/" => self.notes.kept(&spot, "url: /"),
                        text if text.ends_with('/') => self.notes.changed(
                            &spot,
                            format!("url: {url}"),
                            format!("Diana's url also matches `{}`", text.trim_end_matches('/')),
                        ),
                        text => self.notes.changed(
                            &spot,
                            format!("url: {url}"),
                            format!("Kong also matches paths such as `{text}x`"),
                        ),
                    }
                    urls.push(url);
                }
                Err(why) => self.notes.lost(&spot, why),
            }
        }
        if list(route, "paths").is_empty() {
            urls.push("/".into());
        }
        (!urls.is_empty()).then_some(Route { service, name, urls, conditions, spot })
    }

    /// The places of a file, with their rules.
    fn places(
        &mut self,
        input: &Input,
        plugins: &[Plugin],
        routes: &[Route],
        consumers: &[Consumer],
        places: &mut Vec<Place>,
        spots: &mut Vec<Spot>,
    ) -> Result<()> {
        let running: Vec<&Plugin> = plugins
            .iter()
            .filter(|plugin| {
                let is_on = plugin.value.get("enabled").and_then(Value::flag) != Some(false);
                if !is_on {
                    self.notes.kept(&plugin.spot, "no rule: the plugin is disabled");
                }
                is_on
            })
            .collect();
        let is_special = |consumer: &&Consumer| {
            running.iter().any(|plugin| {
                plugin.consumer.as_ref() == Some(&consumer.name)
                    || plugin.group.as_ref().is_some_and(|group| consumer.groups.contains(group))
            })
        };
        let special: Vec<&Consumer> = consumers.iter().filter(is_special).collect();
        // Requests that no route takes are refused by Kong, so a limit may count them.
        let is_global = |plugin: &&&Plugin| plugin.service.is_none() && plugin.route.is_none();
        // A route without conditions already is that place.
        let is_everywhere =
            |route: &Route| route.conditions.is_empty() && route.urls.iter().any(|url| url == "/");
        let global = running.iter().find(is_global).filter(|_| !routes.iter().any(is_everywhere));
        let everywhere = global.map(|plugin| Route {
            service: None,
            name: String::new(),
            urls: vec!["/".into()],
            conditions: Object::new(),
            spot: plugin.spot.clone(),
        });
        for route in everywhere.iter().chain(routes) {
            let mut rules = BTreeSet::new();
            for kind in PLUGINS {
                for (plugin, conditions) in chosen(kind, &running, route, &special) {
                    rules.extend(self.rules(plugin, route, &conditions, input)?);
                }
            }
            for url in &route.urls {
                let is_known = |place: &Place| place.url == *url && place.conditions == route.conditions;
                if let Some(known) = places.iter().find(|place| is_known(place)) {
                    if known.rules != rules {
                        self.notes.lost(
                            &route.spot,
                            format!("the route at {} has the same url and conditions: the rules here are left out", known.from),
                        );
                    }
                    continue;
                }
                let (conditions, from) = (route.conditions.clone(), route.spot.place());
                places.push(Place { url: url.clone(), conditions, rules: rules.clone(), from });
                spots.push(route.spot.clone());
            }
        }
        if let Some(plugin) =
            running.iter().find(|plugin| plugin.consumer.is_some() || plugin.group.is_some())
        {
            self.has_consumers.get_or_insert(plugin.spot.clone());
        }
        for plugin in &running {
            let is_used = self
                .known
                .keys()
                .any(|(file, start, _)| *file == input.file.name && *start == plugin.value.range.start);
            if !is_used {
                self.notes.kept(
                    &plugin.spot,
                    "no rule: no route runs this plugin, or each has a more specific one",
                );
            }
        }
        Ok(())
    }

    /// The rules of a plugin at a route.
    fn rules(
        &mut self,
        plugin: &Plugin,
        route: &Route,
        conditions: &Object,
        input: &Input,
    ) -> Result<BTreeSet<usize>> {
        let config = plugin.value.get("config");
        let text = |key: &str| config.and_then(|config| config.get(key)).and_then(scalar);
        let by = text("limit_by").or_else(|| text("identifier")).unwrap_or_else(|| "consumer".into());
        let service = match by.as_str() {
            "service" => route.service.clone().unwrap_or_default(),
            _ => String::new(),
        };
        let whom = format!("{service} {}", serde_json::Value::from(conditions.clone()));
        let identity = (input.file.name.clone(), plugin.value.range.start, whom);
        if let Some(known) = self.known.get(&identity) {
            return Ok(known.clone());
        }
        let first = self.counters.len();
        let Some(config) = config else {
            return Err(input.wrong(
                &plugin.value.range,
                "the plugin has no `config`",
                "`config: {minute: 10, policy: local}`",
            ));
        };
        self.instances = self.instances.saturating_add(1);
        let spot =
            |key: &str| config.entry(key).map_or_else(|| plugin.spot.clone(), |entry| input.entry(entry));
        let mut shared = Object::new();
        match (by.as_str(), &plugin.consumer) {
            ("consumer", Some(_)) => self.notes.kept(&spot("limit_by"), "the limit is that of the consumer"),
            ("consumer", None) => {
                let actor = self.draft.actor("consumer", json!({"header": CONSUMER}));
                shared.insert("actor".into(), json!(actor));
                self.has_consumers.get_or_insert(plugin.spot.clone());
                self.notes.kept(
                    &spot("limit_by"),
                    format!("actor: {actor}; without a consumer both count by address"),
                );
            }
            ("credential", _) => {
                let actor = self.draft.actor("credential", json!({"header": "x-credential-identifier"}));
                shared.insert("actor".into(), json!(actor));
                self.has_consumers.get_or_insert(plugin.spot.clone());
                self.notes.kept(
                    &spot("limit_by"),
                    format!("actor: {actor}; without a credential both count by address"),
                );
            }
            ("ip", _) => {
                shared.insert("actor".into(), json!("ip"));
                self.notes.changed(&spot("limit_by"), "actor: ip", IPV6);
            }
            ("header", _) => {
                let Some(header) = text("header_name") else {
                    return Err(input.wrong(
                        &config.range,
                        "`header_name` is missing",
                        "the header that `limit_by: header` counts",
                    ));
                };
                let actor = self.draft.header(&header);
                self.notes.kept(
                    &spot("header_name"),
                    format!("actor: {actor}; without the header both count by address"),
                );
                shared.insert("actor".into(), json!(actor));
            }
            ("service", _) => self.notes.kept(&spot("limit_by"), "actor: all, in the limit of the service"),
            (other, _) => {
                self.notes.lost(
                    &spot("limit_by"),
                    format!(
                        "no actor is `{other}`: write a limit with this `url` by hand; the rules are left out"
                    ),
                );
                self.known.insert(identity, BTreeSet::new());
                return Ok(BTreeSet::new());
            }
        }
        let response = self.shared(plugin, config, input, &mut shared);
        let base = plugin.base_name();
        for (spot, suffix, keys, why) in windows(plugin, config, input, self.notes)? {
            let mut keys = keys;
            keys.extend(shared.clone());
            keys.insert("name".into(), self.draft.name(&format!("{base}-{suffix}")).into());
            let rule = Rule::new(keys, &spot);
            match why {
                Some(why) => self.notes.changed(&spot, rule.numbers(), why),
                None => self.notes.kept(&spot, rule.numbers()),
            }
            self.counters.push(Counter {
                rule,
                conditions: conditions.clone(),
                response: Some(response.clone()),
                spot,
            });
        }
        let rules: BTreeSet<usize> = (first..self.counters.len()).collect();
        self.known.insert(identity, rules.clone());
        Ok(rules)
    }

    /// What a plugin says about all its rules. Returns the response of refusals.
    fn shared(
        &mut self,
        plugin: &Plugin,
        config: &Value,
        input: &Input,
        keys: &mut Object,
    ) -> serde_json::Value {
        let mut response = json!({"status": 429});
        let is_advanced = plugin.kind == "rate-limiting-advanced";
        let policy = if is_advanced { "strategy" } else { "policy" };
        let counts = config.get(policy).and_then(scalar).unwrap_or_else(|| "local".into());
        let is_global = counts != "local";
        let fault_tolerant = config.get("fault_tolerant").and_then(Value::flag).unwrap_or(true);
        if is_global {
            keys.insert("scope".into(), json!("global"));
            keys.insert("on_error".into(), json!(if fault_tolerant { "allow" } else { "deny" }));
        }
        for entry in config.entries() {
            let spot = input.entry(entry);
            let flag = entry.value.flag();
            if matches!(entry.value.kind, crate::source::value::Kind::Null) {
                continue;
            }
            match entry.key.as_str() {
                key if UNITS.contains(&key) && !is_advanced => {}
                "limit_by" | "identifier" | "header_name" => {}
                "limit" | "window_size" | "window_type" if is_advanced => {}
                key if key == policy => match (is_global, counts.as_str()) {
                    (false, _) => self.notes.kept(&spot, "scope: local"),
                    (true, "redis") => self.notes.changed(&spot, "scope: global", super::store(self.draft)),
                    (true, _) => self.notes.changed(
                        &spot,
                        "scope: global",
                        format!(
                            "Diana counts in Redis, not in Kong's database; {}",
                            super::store(self.draft)
                        ),
                    ),
                },
                key if key == "redis" || key.starts_with("redis_") => {
                    let spot = input.spot_as(&entry.key_range, key);
                    self.notes.changed(
                        &spot,
                        "the cluster of the store",
                        "Envoy's cluster has the address of Redis",
                    );
                }
                "sync_rate" => match scalar(&entry.value).as_deref() {
                    Some("-1" | "0") => self.notes.kept(&spot, "each request counts at once"),
                    _ => self.notes.changed(
                        &spot,
                        "each request counts at once",
                        "a `lease` saves calls, and is charged before it is spent",
                    ),
                },
                "fault_tolerant" if !is_global => {
                    self.notes.kept(&spot, "nothing: a local rule needs no store")
                }
                "fault_tolerant" if fault_tolerant => self.notes.kept(&spot, "on_error: allow"),
                "fault_tolerant" => {
                    self.notes.changed(&spot, "on_error: deny", "Diana answers 503 in place of 500")
                }
                "hide_client_headers" if flag == Some(true) => {
                    self.draft.top.insert("headers".into(), json!("off"));
                    self.notes.changed(
                        &spot,
                        "headers: off",
                        "the key is of the whole document; `Retry-After` stays",
                    );
                }
                "hide_client_headers" => self.notes.changed(
                    &spot,
                    "headers: ietf, the default",
                    "Kong has a header for each period",
                ),
                "error_code" => match whole(&entry.value).filter(|code| (400..=599).contains(code)) {
                    Some(code) => {
                        response = json!({"status": code});
                        self.notes.kept(&spot, format!("response: {{status: {code}}}"));
                    }
                    None => self.notes.lost(&spot, "a refusal has a status from 400 to 599"),
                },
                "error_message" => self.messages.push((spot, scalar(&entry.value).unwrap_or_default())),
                "retry_after_jitter_max" => self.notes.changed(
                    &spot,
                    "response: {jitter: 20%}, the default",
                    "a jitter is a percentage",
                ),
                "namespace" | "dictionary_name" | "lock_dictionary_name" => {
                    self.notes.changed(&spot, "the name of the rule", "each rule has counts of its own")
                }
                "disable_penalty" if flag == Some(true) => {
                    self.notes.kept(&spot, "a refused request is charged to no rule")
                }
                "disable_penalty" => self.notes.changed(
                    &spot,
                    "no charge",
                    "a refused request is charged to no rule, while Kong counts it in a sliding window",
                ),
                "path" => self.notes.kept(&spot, "nothing: only `limit_by: path` reads it"),
                _ => self.notes.lost(&spot, "the conversion does not know this key"),
            }
        }
        response
    }

    fn finish(mut self, places: &[Place], spots: &[Spot]) {
        if let Some(spot) = &self.has_consumers {
            let why = format!(
                "Kong's authentication finds the consumer: let yours set `{CONSUMER}`, and remove the client's own header"
            );
            self.notes.changed(spot, format!("header: {CONSUMER}"), why);
        }
        super::hoist_response(&mut self.counters, self.draft);
        let same = self.messages.first().map(|(_, message)| message.clone());
        let is_shared = self.messages.len() == self.instances
            && self.messages.iter().all(|(_, message)| Some(message) == same.as_ref());
        for (spot, message) in &self.messages {
            match is_shared {
                true => {
                    let entry = self.draft.top.entry("response").or_insert_with(|| json!({}));
                    if let Some(response) = entry.as_object_mut() {
                        let body = json!({"message": message}).to_string();
                        response.insert("body".into(), json!(body));
                        response.insert("content_type".into(), json!("application/json; charset=utf-8"));
                    }
                    self.notes.kept(spot, "response: {body: …}");
                }
                false => self
                    .notes
                    .lost(spot, "the body of refusals is of the whole document: write `response: {body: …}`"),
            }
        }
        finish(places, spots, self.counters, self.draft, self.notes);
    }
}

/// The instances of a plugin that run at a route, each with the consumers for which it runs.
fn chosen<'p, 'v>(
    kind: &str,
    running: &[&'p Plugin<'v>],
    route: &Route,
    special: &[&Consumer],
) -> Vec<(&'p Plugin<'v>, Object)> {
    let most_specific = |consumer: Option<&Consumer>| {
        let fitting = running.iter().filter(|plugin| plugin.kind == kind && plugin.fits(route, consumer));
        fitting.copied().max_by_key(|plugin| plugin.rank())
    };
    let is_same = |one: Option<&Plugin>, other: Option<&Plugin>| match (one, other) {
        (Some(one), Some(other)) => std::ptr::eq(one, other),
        (None, None) => true,
        _ => false,
    };
    let of_all = most_specific(None);
    let mut found: Vec<(&Plugin, Vec<&str>)> = Vec::new();
    let mut others: Vec<&str> = Vec::new();
    for consumer in special {
        let own = most_specific(Some(consumer));
        if is_same(own, of_all) {
            continue;
        }
        others.push(&consumer.name);
        let Some(own) = own else { continue };
        match found.iter_mut().find(|(known, _)| std::ptr::eq(*known, own)) {
            Some((_, names)) => names.push(&consumer.name),
            None => found.push((own, vec![&consumer.name])),
        }
    }
    let condition = |condition: serde_json::Value| {
        Object::from_iter([("headers".to_owned(), json!({CONSUMER: condition}))])
    };
    let mut chosen = Vec::new();
    if let Some(plugin) = of_all {
        let conditions = match others.as_slice() {
            [] => Object::new(),
            [only] => condition(json!({"not": only})),
            several => condition(json!({"not": several})),
        };
        chosen.push((plugin, conditions));
    }
    for (plugin, names) in found {
        chosen.push((
            plugin,
            match names.as_slice() {
                [only] => condition(json!(only)),
                several => {
                    let any: Vec<String> = several.iter().map(|name| regex_lite::escape(name)).collect();
                    condition(json!({"regex": any.join("|")}))
                }
            },
        ));
    }
    chosen
}

impl Plugin<'_> {
    /// Whether the plugin may run for requests of this route and this consumer.
    fn fits(&self, route: &Route, consumer: Option<&Consumer>) -> bool {
        let of_consumer = |name: &String| consumer.is_some_and(|consumer| consumer.name == *name);
        let of_group = |name: &String| consumer.is_some_and(|consumer| consumer.groups.contains(name));
        self.service.as_ref().is_none_or(|service| route.service.as_ref() == Some(service))
            && self.route.as_ref().is_none_or(|name| route.name == *name)
            && self.consumer.as_ref().is_none_or(of_consumer)
            && self.group.as_ref().is_none_or(of_group)
    }

    /// How specific it is, by Kong's order of precedence.
    fn rank(&self) -> usize {
        let has =
            [self.consumer.is_some(), self.group.is_some(), self.route.is_some(), self.service.is_some()];
        let order = [
            [false, false, false, false],
            [false, false, false, true],
            [false, false, true, false],
            [false, true, false, false],
            [true, false, false, false],
            [false, false, true, true],
            [false, true, false, true],
            [false, true, true, false],
            [true, false, false, true],
            [true, false, true, false],
            [false, true, true, true],
            [true, false, true, true],
        ];
        order.iter().position(|known| *known == has).unwrap_or(order.len())
    }

    fn base_name(&self) -> String {
        let parts = [&self.consumer, &self.group, &self.route, &self.service];
        let named: Vec<&str> =
            parts.into_iter().flatten().map(String::as_str).filter(|name| !name.contains(" at ")).collect();
        if named.is_empty() { "global".into() } else { named.join("-") }
    }
}

/// A rule of a plugin: its place, the end of its name, its keys, and what differs.
type Window = (Spot, String, Object, Option<String>);

/// The windows of a plugin.
fn windows(plugin: &Plugin, config: &Value, input: &Input, notes: &mut Notes) -> Result<Vec<Window>> {
    let number = |value: &Value| {
        let number = whole(value).filter(|number| (1..=999_999_999_999_999).contains(number));
        number.ok_or_else(|| {
            input.wrong(&value.range, "this is not a number of requests", "a whole number of at least 1")
        })
    };
    let mut windows = Vec::new();
    if plugin.kind == "rate-limiting" {
        for unit in UNITS {
            let is_set = |entry: &&Entry| !matches!(entry.value.kind, crate::source::value::Kind::Null);
            let Some(entry) = config.entry(unit).filter(is_set) else { continue };
            let keys = object(json!({"algo": "W", "rpu": number(&entry.value)?, "unit": unit}));
            let why = match unit {
                "month" => {
                    Some("a count of Kong ends 30 days after its first request, at the latest".to_owned())
                }
                "year" => {
                    Some("a count of Kong ends 365 days after its first request, at the latest".to_owned())
                }
                _ => None,
            };
            windows.push((input.entry(entry), unit.to_owned(), keys, why));
        }
        if windows.is_empty() {
            return Err(input.wrong(
                &config.range,
                "the plugin has no limit",
                "`second`, `minute`, `hour`, `day`, `month` or `year`",
            ));
        }
        return Ok(windows);
    }
    let items = |key: &str| match config.get(key) {
        Some(value) if value.items().is_empty() => vec![value],
        Some(value) => value.items().iter().collect(),
        None => Vec::new(),
    };
    let (limits, sizes) = (items("limit"), items("window_size"));
    if limits.is_empty() || limits.len() != sizes.len() {
        return Err(input.wrong(
            &config.range,
            "each `limit` needs a `window_size`",
            "`limit: [10], window_size: [60]`",
        ));
    }
    let is_fixed = config.get("window_type").and_then(scalar).as_deref() == Some("fixed");
    for (limit, size) in limits.into_iter().zip(sizes) {
        let rpu = number(limit)?;
        let seconds = number(size)?;
        let spot = input.spot_as(&limit.range, format!("limit: {rpu}, window_size: {seconds}"));
        let unit = match seconds {
            seconds if seconds <= 604_800 => super::rate::unit(seconds.saturating_mul(1_000)),
            2_592_000 if is_fixed => "month".into(),
            31_536_000 if is_fixed => "year".into(),
            _ => {
                notes.lost(&spot, "a window has at most seven days, or is a month or a year of the calendar");
                continue;
            }
        };
        let (algo, why) = match is_fixed {
            true if seconds > 604_800 => (
                "W",
                Some(format!(
                    "a window of Kong has {seconds} seconds, from 1970; `{unit}` is that of the calendar"
                )),
            ),
            true => ("W", None),
            false => (
                "SW",
                Some(
                    "Kong weights the previous window by its overlap; Diana counts in slices of the window"
                        .to_owned(),
                ),
            ),
        };
        let keys = object(json!({"algo": algo, "rpu": rpu, "unit": unit}));
        windows.push((spot, unit, keys, why));
    }
    Ok(windows)
}
