//! From Envoy's `local_ratelimit`, in Envoy's configuration or in an `EnvoyFilter` of Istio.
//!
//! The filter's own configuration is that of all routes; a virtual host or a route may have another
//! one in its place. Each is a set of buckets, each bucket a rule.

use super::draft::{Draft, Object, Rule, object};
use super::envoy::{self, Descriptor, counted, descriptors, message};
use super::finish;
use super::input::{Input, scalar, whole};
use super::notes::{Notes, Spot};
use super::places::{Counter, Place};
use super::rate::{Rate, duration_ms};
use crate::source::value::{Entry, Value, camel};
use miette::Result;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// The message of the filter.
const MESSAGE: &str = "LocalRateLimit";

/// What the limiter configures for some requests.
struct Scope<'a> {
    /// The message; none where the filter is disabled.
    config: Option<&'a Value>,
    /// The descriptors of the route, for a configuration without its own.
    limits: Option<&'a Value>,
    url: String,
    conditions: Object,
    spot: Spot,
}

/// Converts configurations of Envoy and manifests of Istio.
pub fn convert(inputs: &[Input], draft: &mut Draft, notes: &mut Notes) -> Result<()> {
    let mut places: Vec<Place> = Vec::new();
    let mut spots: Vec<Spot> = Vec::new();
    let mut found_any = false;
    let mut buckets = Buckets {
        counters: Vec::new(),
        known: BTreeMap::new(),
        configured: BTreeMap::new(),
        used: BTreeSet::new(),
        draft,
        notes,
    };
    for input in inputs {
        let values = input.values()?;
        let mut scopes: Vec<Scope> = Vec::new();
        for value in &values {
            match value.get("kind").and_then(Value::text) {
                Some("EnvoyFilter") => patches(value, input, &mut scopes, buckets.notes),
                _ => routes(value, input, &mut scopes, buckets.notes),
            }
        }
        found_any |= scopes.iter().any(|scope| scope.config.is_some());
        for scope in &scopes {
            let rules = match scope.config {
                Some(config) => buckets.of(config, scope.limits, input)?,
                None => BTreeSet::new(),
            };
            let Scope { url, conditions, spot, .. } = scope;
            // Routes of the same match, such as two of weighted clusters, are one place.
            let same = places.iter_mut().find(|place| place.url == *url && place.conditions == *conditions);
            match same {
                Some(place) => place.rules.extend(rules),
                None => {
                    let (url, conditions) = (url.clone(), conditions.clone());
                    places.push(Place { url, conditions, rules, from: spot.place() });
                    spots.push(spot.clone());
                }
            }
        }
    }
    if let (Some(input), false) = (inputs.first(), found_any) {
        return Err(input.nothing(
            "the file has no `LocalRateLimit`",
            "a configuration of Envoy or an `EnvoyFilter` with the filter",
        ));
    }
    let Buckets { counters, configured, used, draft, notes, .. } = buckets;
    for (_, spot) in configured.iter().filter(|(place, _)| !used.contains(place)) {
        notes.kept(spot, "no rule: no action makes this descriptor");
    }
    finish(&places, &spots, counters, draft, notes);
    Ok(())
}

/// The scopes of a configuration of Envoy.
fn routes<'a>(root: &'a Value, input: &Input, scopes: &mut Vec<Scope<'a>>, notes: &mut Notes) {
    let (mut managers, mut tables) = (Vec::new(), Vec::new());
    envoy::with_field(root, "http_filters", &mut managers);
    envoy::with_field(root, "virtual_hosts", &mut tables);
    let filters =
        managers.iter().flat_map(|manager| manager.field("http_filters").map_or(&[][..], Value::items));
    let mut own =
        filters.filter_map(|filter| Some((filter, message(filter.field("typed_config")?, MESSAGE)?)));
    // A file may be the filter alone.
    let alone = || root.field("typed_config").or(Some(root)).and_then(|any| message(any, MESSAGE));
    let first = own.next().map(|(_, config)| config).or_else(alone);
    for (filter, _) in own {
        notes.lost(
            &input.spot(&filter.range),
            "each listener has a document of its own: convert it from a file of its own",
        );
    }
    if let Some(config) = first {
        let spot = input.spot_as(&config.range, "the filter");
        scopes.push(Scope {
            config: Some(config),
            limits: None,
            url: "/".into(),
            conditions: Object::new(),
            spot,
        });
    }
    for table in tables {
        for route in envoy::routes(table, input, notes) {
            let own = [route.route, Some(route.host), Some(route.table)].into_iter().flatten();
            let overriding = own.filter_map(of_route).next();
            let config = overriding.unwrap_or(first);
            let limits = route.route.and_then(|route| route.fields(&["route", "rate_limits"]));
            let limits = limits.filter(|limits| !limits.items().is_empty());
            let limits = limits.or_else(|| route.host.field("rate_limits"));
            if let Some(weighted) =
                route.route.and_then(|route| route.fields(&["route", "weighted_clusters", "clusters"]))
            {
                for cluster in weighted.items().iter().filter(|cluster| of_route(cluster).is_some()) {
                    notes.lost(&input.spot(&cluster.range), "a limit cannot choose by a weighted cluster");
                }
            }
            let (url, conditions, spot) = (route.url, route.conditions, route.spot);
            scopes.push(Scope { config, limits, url, conditions, spot });
        }
    }
}

/// The filter's configuration of a route or a virtual host; `Some(None)` if it is disabled there.
fn of_route(value: &Value) -> Option<Option<&Value>> {
    let entries = value.field("typed_per_filter_config")?.entries();
    entries.iter().find_map(|entry| {
        if let Some(config) = message(&entry.value, MESSAGE) {
            return Some(Some(config));
        }
        let generic =
            message(&entry.value, "FilterConfig").filter(|_| entry.key.contains("local_ratelimit"))?;
        match generic.field("disabled").and_then(Value::flag) {
            Some(true) => Some(None),
            _ => generic.field("config").and_then(|config| message(config, MESSAGE)).map(Some),
        }
    })
}

/// The scopes of an `EnvoyFilter`.
fn patches<'a>(root: &'a Value, input: &Input, scopes: &mut Vec<Scope<'a>>, notes: &mut Notes) {
    let spec = root.get("spec");
    for selector in ["workloadSelector", "targetRefs"] {
        if let Some(entry) = spec.and_then(|spec| spec.entry(selector)) {
            let why = "a document has no selector: give the resource that loads Diana the same one";
            notes.changed(&input.spot_as(&entry.key_range, selector), "the whole document", why);
        }
    }
    let patches = spec.and_then(|spec| spec.get("configPatches")).map_or(&[][..], Value::items);
    for patch in patches {
        let kind = patch.get("applyTo").and_then(Value::text).unwrap_or_default();
        let Some(value) = patch.get("patch").and_then(|patch| patch.get("value")) else { continue };
        let own = value.field("typed_config").and_then(|config| message(config, MESSAGE));
        let overriding = of_route(value);
        let spot = input.spot_as(&patch.range, format!("applyTo: {kind}"));
        let matched = patch.get("match");
        let config = match (own, overriding) {
            (Some(config), _) => Some(config),
            (None, Some(config)) => config,
            // Patches of other filters, or of clusters.
            (None, None) => continue,
        };
        let mut conditions = Object::new();
        let routes = matched.and_then(|matched| matched.get("routeConfiguration"));
        if let Some(host) = routes.and_then(|routes| routes.get("vhost")) {
            let name = host.get("name").and_then(scalar);
            if let Some(name) = name {
                match name.rsplit_once(':') {
                    Some((host, port)) if port.parse::<u16>().is_ok() => {
                        drop(conditions.insert("hosts".into(), json!([host])));
                        notes.changed(&spot, format!("hosts: {host}"), "a condition on hosts has no port");
                    }
                    _ => notes.changed(
                        &spot,
                        "all virtual hosts",
                        format!(
                            "a limit cannot choose the virtual host `{name}`, which Istio names by the port"
                        ),
                    ),
                }
            }
            let route = host.get("route").and_then(|route| route.get("name")).and_then(scalar);
            if let Some(route) = route {
                notes.kept(&spot, format!("property: {{xds.route_name: {route}}}"));
                conditions.insert("property".into(), json!({"xds.route_name": route}));
            }
        }
        let limits = value.fields(&["route", "rate_limits"]).or_else(|| value.field("rate_limits"));
        let context = matched.and_then(|matched| matched.get("context")).and_then(Value::text);
        if let Some(context) = context {
            notes.kept(&spot, format!("where Diana is loaded: {context}"));
        }
        scopes.push(Scope { config, limits, url: "/".into(), conditions, spot });
    }
}

/// The rules of configurations, each of which is read once.
struct Buckets<'a> {
    counters: Vec<Counter>,
    /// The rules of a bucket, by its place and by the descriptor or the conditions of its requests.
    known: BTreeMap<(String, usize, String), Option<(usize, Object)>>,
    /// The places of configured descriptors, and of those that a request may have.
    configured: BTreeMap<(String, usize), Spot>,
    used: BTreeSet<(String, usize)>,
    draft: &'a mut Draft,
    notes: &'a mut Notes,
}

/// A configured descriptor.
struct Bucket<'a> {
    value: &'a Value,
    entries: Vec<(String, Option<String>)>,
}

/// What a configuration says about all of its rules.
struct Shared {
    response: serde_json::Value,
    keys: Object,
    actors: Vec<String>,
}

impl Buckets<'_> {
    /// The rules of a configuration, for routes with these descriptors.
    fn of(&mut self, config: &Value, limits: Option<&Value>, input: &Input) -> Result<BTreeSet<usize>> {
        let mut rules = BTreeSet::new();
        let Some(shared) = self.shared(config, input) else { return Ok(rules) };
        let own = config.field("rate_limits").filter(|limits| !limits.items().is_empty());
        let has_buckets = config.field("descriptors").is_some_and(|buckets| !buckets.items().is_empty());
        let limits = own.or(limits).filter(|_| has_buckets);
        let requests = limits.map(|limits| descriptors(limits, input, self.notes)).unwrap_or_default();
        let buckets = self.buckets(config, input);
        let mut matched: Vec<Object> = Vec::new();
        for bucket in &buckets {
            let place = (input.file.name.clone(), bucket.value.range.start);
            self.configured.insert(place, input.spot_as(&bucket.value.range, "descriptors"));
        }
        for request in &requests {
            for bucket in &buckets {
                let fits = bucket.entries.len() == request.entries.len()
                    && bucket.entries.iter().zip(&request.entries).all(|((key, _), entry)| *key == entry.key);
                if !fits {
                    continue;
                }
                self.used.insert((input.file.name.clone(), bucket.value.range.start));
                if let Some((rule, conditions)) =
                    self.descriptor(bucket, request, &buckets, &shared, input)?
                {
                    matched.push(conditions);
                    rules.insert(rule);
                }
            }
        }
        rules.extend(self.default(config, &shared, &matched, input)?);
        Ok(rules)
    }

    /// What holds for all buckets of a configuration; `None` if it limits nothing.
    fn shared(&mut self, config: &Value, input: &Input) -> Option<Shared> {
        let mut keys = Object::new();
        let mut response = json!({"status": 429});
        let mut headers = Object::new();
        let mut actors = Vec::new();
        let spot = input.spot_as(&config.range, MESSAGE);
        let mut enabled = None;
        let mut enforced = None;
        for entry in config.entries() {
            let spot = input.entry(entry);
            let flag = entry.value.flag();
            match camel(&entry.key).as_str() {
                "@type" | "tokenBucket" | "descriptors" | "rateLimits" => {}
                "statPrefix" => self.notes.changed(&spot, "the label `rule` of `diana_requests`", "metrics have the names of rules"),
                "filterEnabled" => enabled = Some((percent(&entry.value), entry)),
                "filterEnforced" => enforced = Some((percent(&entry.value), entry)),
                "status" => {
                    let code = entry.value.field("code").unwrap_or(&entry.value);
                    match scalar(code).and_then(|code| status(&code)) {
                        Some(code) => {
                            self.notes.kept(&spot, format!("response: {{status: {code}}}"));
                            response = json!({"status": code});
                        }
                        None => self.notes.lost(&spot, "a refusal has a status from 400 to 599"),
                    }
                }
                "responseHeadersToAdd" => self.headers(&entry.value, &mut headers, input),
                "requestHeadersToAddWhenNotEnforced" => {
                    self.notes.lost(&spot, "a rule in shadow does not mark requests: use the metric and the access log");
                }
                "localRateLimitPerDownstreamConnection" if flag == Some(true) => {
                    let name = self.draft.actor("connection", json!({"property": ["connection", "id"]}));
                    self.notes.kept(&spot, format!("actor: {name}"));
                    actors.push(name);
                }
                "localRateLimitPerDownstreamConnection" => self.notes.kept(&spot, "all workers count together"),
                "localClusterRateLimit" => self.notes.lost(
                    &spot,
                    "the rules count in each gateway alone: `scope: global` with a `store` counts exactly for all",
                ),
                "enableXRatelimitHeaders" => {
                    let is_off = scalar(&entry.value).is_some_and(|value| value == "OFF" || value == "0");
                    let form = if is_off { "off" } else { "x-ratelimit" };
                    self.draft.top.insert("headers".into(), json!(form));
                    self.notes.kept(&spot, format!("headers: {form}"));
                }
                "alwaysConsumeDefaultTokenBucket" => {}
                "maxDynamicDescriptors" => match whole(&entry.value) {
                    Some(most) if (1..=10_000_000).contains(&most) => {
                        let known = self.draft.top.get("local").and_then(|local| local.get("max_actors")?.as_u64());
                        let most = known.unwrap_or(0).max(most);
                        self.draft.top.insert("local".into(), json!({"max_actors": most}));
                        self.notes.changed(&spot, format!("local: {{max_actors: {most}}}"), "each limit has room for so many actors, and Diana evicts within a small part of its table");
                    }
                    _ => self.notes.lost(&spot, "`local.max_actors` is from 1 to 10000000"),
                },
                "rateLimitedAsResourceExhausted" if flag == Some(true) => self.notes.kept(&spot, "gRPC's RESOURCE_EXHAUSTED"),
                "rateLimitedAsResourceExhausted" => {
                    self.notes.changed(&spot, "gRPC's RESOURCE_EXHAUSTED", "Diana answers gRPC with RESOURCE_EXHAUSTED, not UNAVAILABLE");
                }
                "stage" | "vhRateLimits" => {
                    self.notes.changed(&spot, "no stage", "the conversion takes the descriptors of the route, or else those of its virtual host");
                }
                _ => self.notes.lost(&spot, "the conversion does not know this key"),
            }
        }
        self.fractions(&spot, enabled, enforced, input, &mut keys)?;
        if !headers.is_empty()
            && let Some(response) = response.as_object_mut()
        {
            response.insert("headers".into(), headers.into());
        }
        Some(Shared { response, keys, actors })
    }

    /// The parts of requests for which the filter counts and refuses, both 0 % unless set.
    fn fractions(
        &mut self,
        spot: &Spot,
        enabled: Option<(Option<f64>, &Entry)>,
        enforced: Option<(Option<f64>, &Entry)>,
        input: &Input,
        keys: &mut Object,
    ) -> Option<()> {
        let place = |found: &Option<(Option<f64>, &Entry)>, name: &str| match found {
            Some((_, entry)) => input.spot_as(&entry.key_range, name),
            None => input_spot(spot, name),
        };
        let enabled_at = place(&enabled, "filter_enabled");
        let is_set =
            |found: &Option<(Option<f64>, &Entry)>| found.as_ref().map_or(Some(0.0), |(part, _)| *part);
        let enabled = match is_set(&enabled) {
            Some(part) => part,
            None => {
                self.notes.lost(&enabled_at, "this is not a percentage: the rules count all of them");
                100.0
            }
        };
        if enabled <= 0.0 {
            self.notes.kept(&enabled_at, "no rule: at 0 %, the default, Envoy counts no request");
            return None;
        }
        let enforced_at = place(&enforced, "filter_enforced");
        let enforced = match is_set(&enforced) {
            Some(part) => part,
            None => {
                self.notes.lost(&enforced_at, "this is not a percentage: the rules refuse all of them");
                100.0
            }
        };
        if enabled < 100.0 {
            let why = "Envoy samples the requests that it counts; Diana counts all, and enforces for a part of the actors";
            self.notes.changed(&enabled_at, format!("enforce: {enabled}%"), why);
        } else {
            self.notes.kept(&enabled_at, "rules that count all requests");
        }
        let part = enabled * enforced / 100.0;
        if enforced <= 0.0 {
            self.notes.kept(&enforced_at, "mode: shadow");
            keys.insert("mode".into(), json!("shadow"));
        } else if part < 100.0 {
            let part = (part * 100.0).round() / 100.0;
            if enforced < 100.0 {
                let why = "Envoy samples the requests that it refuses, Diana the actors, which stay the same";
                self.notes.changed(&enforced_at, format!("enforce: {part}%"), why);
            }
            keys.insert("enforce".into(), json!(format!("{part}%")));
        } else {
            self.notes.kept(&enforced_at, "rules that refuse");
        }
        Some(())
    }

    fn headers(&mut self, value: &Value, headers: &mut Object, input: &Input) {
        for item in value.items() {
            let spot = input.spot(&item.range);
            let header = item.field("header");
            let text = |field: &str| header.and_then(|header| header.field(field)).and_then(scalar);
            match (text("key"), text("value")) {
                (Some(key), Some(value)) if !value.contains('%') => {
                    self.notes.kept(&spot, format!("response: {{headers: {{{key}: {value}}}}}"));
                    headers.insert(key.to_ascii_lowercase(), json!(value));
                }
                _ => self.notes.lost(&spot, "a header of a refusal is text without variables"),
            }
        }
    }

    fn buckets<'v>(&mut self, config: &'v Value, input: &Input) -> Vec<Bucket<'v>> {
        let mut buckets = Vec::new();
        for value in config.field("descriptors").map_or(&[][..], Value::items) {
            let mut entries = Vec::new();
            for entry in value.field("entries").map_or(&[][..], Value::items) {
                let text = |field: &str| entry.field(field).and_then(scalar);
                let value = text("value").filter(|value| !value.is_empty());
                entries.push((text("key").unwrap_or_default(), value));
            }
            for entry in value.entries() {
                let known = ["entries", "tokenBucket", "shadowMode"];
                if !known.contains(&camel(&entry.key).as_str()) {
                    self.notes.lost(&input.entry(entry), "the conversion does not know this key");
                }
            }
            buckets.push(Bucket { value, entries });
        }
        buckets
    }

    /// The rule of a descriptor's bucket, and which requests it counts.
    fn descriptor(
        &mut self,
        bucket: &Bucket,
        request: &Descriptor,
        all: &[Bucket],
        shared: &Shared,
        input: &Input,
    ) -> Result<Option<(usize, Object)>> {
        let entries: Vec<String> = request.entries.iter().map(|entry| format!("{:?}", entry.value)).collect();
        let identity = (input.file.name.clone(), bucket.value.range.start, entries.join(" "));
        if let Some(known) = self.known.get(&identity) {
            return Ok(known.clone());
        }
        let spot = input.spot_as(&bucket.value.range, "descriptors");
        let values: Vec<Option<String>> = bucket.entries.iter().map(|(_, value)| value.clone()).collect();
        // A descriptor with specific values wins over one with any value.
        let mut excluded: Vec<Vec<String>> = vec![Vec::new(); values.len()];
        for other in all {
            let mut differing = Vec::new();
            let has_keys = other.entries.len() == bucket.entries.len();
            for (index, ((key, own), (other_key, value))) in
                bucket.entries.iter().zip(&other.entries).enumerate()
            {
                match (own, value) {
                    _ if key != other_key => differing.push(None),
                    (None, Some(value)) => differing.push(Some((index, value.clone()))),
                    (own, value) if own == value => {}
                    _ => differing.push(None),
                }
            }
            if let ([Some((index, value))], true) = (differing.as_slice(), has_keys)
                && let Some(values) = excluded.get_mut(*index)
            {
                values.push(value.clone());
            }
        }
        let found = match counted(&request.entries, &values, &excluded, self.draft) {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.known.insert(identity, None);
                return Ok(None);
            }
            Err(why) => {
                self.notes.lost(&spot, why);
                self.known.insert(identity, None);
                return Ok(None);
            }
        };
        let mut keys = match self.bucket(bucket.value.field("token_bucket"), bucket.value, input)? {
            Some(keys) => keys,
            None => return Ok(None),
        };
        keys.extend(shared.keys.clone());
        keys.extend(found.keys);
        if bucket.value.field("shadow_mode").and_then(Value::flag) == Some(true) {
            keys.insert("mode".into(), json!("shadow"));
        }
        let wanted = bucket.entries.iter().map(|(_, value)| value.as_deref());
        let wish: Vec<String> =
            request.entries.iter().zip(wanted).map(|(entry, wanted)| entry.words(wanted)).collect();
        let rule = self.rule(keys, &wish.join("-"), shared, found.conditions, &spot);
        if let Some(counter) = self.counters.get(rule) {
            let numbers = counter.rule.numbers();
            match request.why.as_deref().or(found.why) {
                Some(why) => self.notes.changed(&spot, numbers, why),
                None => self.notes.kept(&spot, numbers),
            }
        }
        self.note_apart((&identity.0, identity.1), &spot);
        self.known.insert(identity, Some((rule, found.matches.clone())));
        Ok(Some((rule, found.matches)))
    }

    fn rule(
        &mut self,
        mut keys: Object,
        wish: &str,
        shared: &Shared,
        conditions: Object,
        spot: &Spot,
    ) -> usize {
        let name = self.draft.name(wish);
        keys.insert("name".into(), name.into());
        for actor in &shared.actors {
            let actor = match keys.remove("actor") {
                None => json!(actor),
                Some(serde_json::Value::Array(mut all)) => {
                    all.push(json!(actor));
                    json!(all)
                }
                Some(one) => json!([one, actor]),
            };
            keys.insert("actor".into(), actor);
        }
        let index = self.counters.len();
        let response = Some(shared.response.clone());
        self.counters.push(Counter { rule: Rule::new(keys, spot), conditions, response, spot: spot.clone() });
        index
    }

    /// Notes that a bucket at this place, which has a rule already, gets another one.
    fn note_apart(&mut self, (file, start): (&str, usize), spot: &Spot) {
        let has_rule = |((other, at, _), rule): (&(String, usize, String), &Option<_>)| {
            other == file && *at == start && rule.is_some()
        };
        if self.known.iter().any(has_rule) {
            let why = "Envoy takes all tokens from one bucket, but its requests need several rules, each of which counts apart";
            self.notes.lost(spot, why);
        }
    }

    /// The rule of the default bucket.
    fn default(
        &mut self,
        config: &Value,
        shared: &Shared,
        matched: &[Object],
        input: &Input,
    ) -> Result<Option<usize>> {
        let Some(entry) = config.field_entry("token_bucket") else { return Ok(None) };
        let always = config.field_entry("always_consume_default_token_bucket");
        let is_always = always.and_then(|entry| entry.value.flag()).unwrap_or(true);
        let key = |entry: &Entry| input.spot_as(&entry.key_range, entry.key.as_str());
        let conditions = match (is_always, matched) {
            (true, _) | (false, []) => Ok(Object::new()),
            (false, matched) => none_of(matched),
        };
        if !is_always && matched.iter().any(Object::is_empty) {
            self.notes.kept(&key(entry), "no rule: every request has a descriptor");
            return Ok(None);
        }
        let conditions = conditions.unwrap_or_else(|why| {
            if let Some(always) = always {
                self.notes.lost(&key(always), why);
            }
            Object::new()
        });
        let shown = serde_json::Value::from(conditions.clone()).to_string();
        let identity = (input.file.name.clone(), entry.key_range.start, shown);
        let known = self.known.get(&identity).and_then(|known| known.as_ref().map(|(rule, _)| *rule));
        if let Some(rule) = known {
            self.note_default(rule, matched, is_always, &key(entry));
            return Ok(Some(rule));
        }
        let Some(mut keys) = self.bucket(Some(&entry.value), config, input)? else { return Ok(None) };
        keys.extend(shared.keys.clone());
        let wish = config.field("stat_prefix").and_then(scalar).unwrap_or_else(|| "total".into());
        let spot = key(entry);
        let rule = self.rule(keys, &wish, shared, conditions.clone(), &spot);
        self.note_default(rule, matched, is_always, &spot);
        self.note_apart((&identity.0, identity.1), &spot);
        if let (Some(always), false) = (always, conditions.is_empty()) {
            self.notes.kept(&key(always), "conditions of a limit of its own");
        } else if let (Some(always), true) = (always, is_always) {
            self.notes.kept(&key(always), "several rules of a request");
        }
        self.known.insert(identity, Some((rule, Object::new())));
        Ok(Some(rule))
    }

    fn note_default(&mut self, rule: usize, matched: &[Object], is_always: bool, spot: &Spot) {
        let Some(counter) = self.counters.get(rule) else { return };
        let numbers = counter.rule.numbers();
        if matched.is_empty() || !is_always {
            self.notes.kept(spot, numbers);
        } else {
            let why =
                "Envoy takes tokens one bucket after the other, Diana charges a refused request to no rule";
            self.notes.changed(spot, numbers, why);
        }
    }

    /// The numbers of a bucket.
    fn bucket(&mut self, bucket: Option<&Value>, around: &Value, input: &Input) -> Result<Option<Object>> {
        let Some(bucket) = bucket else {
            return Err(input.wrong(
                &around.range,
                "the bucket is missing",
                "`token_bucket: {max_tokens: 10, tokens_per_fill: 10, fill_interval: 1s}`",
            ));
        };
        let number = |field: &str, default: Option<u64>| match bucket.field(field) {
            Some(value) => match whole(value).filter(|number| *number <= u32::MAX.into()) {
                Some(number) => Ok(number),
                None => Err(input.wrong(
                    &value.range,
                    &format!("`{field}` is not a number of tokens"),
                    "a whole number up to 4294967295",
                )),
            },
            None => default.ok_or_else(|| {
                input.wrong(
                    &bucket.range,
                    &format!("`{field}` is missing"),
                    "`max_tokens` and `fill_interval`",
                )
            }),
        };
        let most = number("max_tokens", None)?;
        let fill = number("tokens_per_fill", Some(1))?;
        let Some(interval) = bucket.field("fill_interval") else {
            return Err(input.wrong(
                &bucket.range,
                "`fill_interval` is missing",
                "a span in seconds, such as `60s`",
            ));
        };
        let ms = scalar(interval).and_then(|text| duration_ms(&text)).filter(|ms| *ms > 0);
        let Some(ms) = ms else {
            return Err(input.wrong(
                &interval.range,
                "this is not an interval",
                "a span in seconds, such as `60s` or `0.5s`",
            ));
        };
        let spot = input.spot(&bucket.range);
        for entry in bucket.entries() {
            let known = ["maxTokens", "tokensPerFill", "fillInterval"];
            if !known.contains(&camel(&entry.key).as_str()) {
                self.notes.lost(&input.entry(entry), "the conversion does not know this key");
            }
        }
        if most == 0 {
            return Ok(Some(object(json!({"rpu": 0, "unit": "second"}))));
        }
        let limit = 1_000_000_000;
        if most > limit || fill > limit {
            self.notes.changed(&spot, "1000000000 tokens", "a bucket counts up to 1000000000 tokens");
        }
        let (most, fill) = (most.min(limit), fill.min(limit));
        match Rate::new(fill, ms) {
            Some(rate) => {
                if !rate.is_exact {
                    self.notes.changed(&spot, format!("rpu: 1, unit: {}", super::rate::unit(rate.unit_ms)), "a unit has at most seven days, so the time between two tokens is rounded up to a millisecond");
                }
                Ok(Some(object(json!({"rpu": rate.rpu, "unit": rate.unit(), "burst": most}))))
            }
            None => {
                self.notes.lost(&spot, "a bucket needs at least one token in seven days");
                Ok(None)
            }
        }
    }
}

/// The place of a key that is absent.
fn input_spot(spot: &Spot, name: &str) -> Spot {
    Spot { text: format!("{name} is absent"), ..spot.clone() }
}

/// The conditions under which none of these conditions holds. Each of them must be a single one.
pub fn none_of(matched: &[Object]) -> Result<Object, String> {
    const WHY: &str = "the limit for all other requests would need the opposite of several conditions: it counts all \
        requests";
    let mut opposite = Object::new();
    for conditions in matched {
        let mut entries = conditions.iter();
        let (Some((kind, condition)), None) = (entries.next(), entries.next()) else {
            return Err(WHY.into());
        };
        match (kind.as_str(), condition) {
            ("headers" | "query" | "property", serde_json::Value::Object(named)) => {
                let mut named = named.iter();
                let (Some((name, condition)), None) = (named.next(), named.next()) else {
                    return Err(WHY.into());
                };
                let entry = opposite.entry(kind.clone()).or_insert_with(|| json!({}));
                let Some(known) = entry.as_object_mut() else { return Err(WHY.into()) };
                let opposite = negated(condition, known.get(name)).ok_or(WHY)?;
                known.insert(name.clone(), opposite);
            }
            (kind @ ("ip" | "hosts" | "methods"), serde_json::Value::Array(items)) => {
                let entry = opposite.entry(kind).or_insert_with(|| json!({"not": []}));
                let not = entry.get_mut("not").and_then(serde_json::Value::as_array_mut).ok_or(WHY)?;
                not.extend(items.iter().cloned());
            }
            _ => return Err(WHY.into()),
        }
    }
    Ok(opposite)
}

/// The opposite of a condition by name, together with another opposite.
fn negated(condition: &serde_json::Value, known: Option<&serde_json::Value>) -> Option<serde_json::Value> {
    let opposite = match condition {
        serde_json::Value::String(_) => json!({"not": condition}),
        serde_json::Value::Object(kind) => match (kind.get("present"), kind.get("not")) {
            (Some(present), _) => json!({"present": !present.as_bool()?}),
            (_, Some(not)) if not.is_string() => not.clone(),
            (_, Some(_)) => return None,
            _ => json!({"not": condition}),
        },
        _ => return None,
    };
    let Some(known) = known else { return Some(opposite) };
    // Without a value there is no other one either.
    let absent = json!({"present": false});
    if *known == opposite || opposite == absent {
        return Some(opposite);
    }
    if *known == absent {
        return Some(absent);
    }
    let (mut values, more) = (known.get("not")?.clone(), opposite.get("not")?.clone());
    if let serde_json::Value::Array(values) = &mut values {
        values.push(more);
        return Some(json!({"not": values}));
    }
    Some(json!({"not": [values, more]}))
}

/// The percentage of a `RuntimeFractionalPercent`.
fn percent(value: &Value) -> Option<f64> {
    let part = value.field("default_value").unwrap_or(value);
    let numerator = match part.field("numerator") {
        Some(value) => whole(value).filter(|number| *number <= 1_000_000)? as f64,
        None => 0.0,
    };
    let whole = match part.field("denominator").and_then(scalar).as_deref() {
        None | Some("HUNDRED" | "0") => 100.0,
        Some("TEN_THOUSAND" | "1") => 10_000.0,
        Some("MILLION" | "2") => 1_000_000.0,
        Some(_) => return None,
    };
    Some((numerator * 100.0 / whole).min(100.0))
}

/// A status by its number, or by its name in Envoy.
fn status(code: &str) -> Option<u64> {
    let number = match code {
        "TooManyRequests" => 429,
        "ServiceUnavailable" => 503,
        "Forbidden" => 403,
        "BadRequest" => 400,
        "Unauthorized" => 401,
        "NotFound" => 404,
        "InternalServerError" => 500,
        "BadGateway" => 502,
        "GatewayTimeout" => 504,
        code => code.parse().ok()?,
    };
    (400..=599).contains(&number).then_some(number)
}
