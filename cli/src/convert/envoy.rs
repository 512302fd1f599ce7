//! Envoy's configuration as the conversions of its rate limiters read it: filters, routes, and the
//! actions that make descriptors.

use super::address::Network;
use super::draft::{Draft, Object};
use super::input::{Input, scalar, whole};
use super::notes::{Notes, Spot};
use super::places;
use crate::source::value::Value;
use serde_json::json;

/// What differs for each rule on addresses.
pub const IPV6: &str = "IPv6 clients count by their /64 network, unless you set `ip: {v6_prefix: 128}`";

/// The message of this name in an `Any`, whose type may also stand in a `TypedStruct`.
#[must_use]
pub fn message<'a>(any: &'a Value, name: &str) -> Option<&'a Value> {
    let is_it = |value: &Value, key: &str| {
        value.get(key).and_then(Value::text).is_some_and(|url| url.rsplit(['/', '.']).next() == Some(name))
    };
    if is_it(any, "@type") {
        return Some(any);
    }
    match is_it(any, "type_url") || is_it(any, "typeUrl") {
        true => any.get("value"),
        false => None,
    }
}

/// All objects below a value, itself included, that have this field.
pub fn with_field<'a>(value: &'a Value, field: &str, found: &mut Vec<&'a Value>) {
    if value.field(field).is_some() {
        found.push(value);
    }
    value.entries().iter().for_each(|entry| with_field(&entry.value, field, found));
    value.items().iter().for_each(|item| with_field(item, field, found));
}

/// A route, with its virtual host.
pub struct Route<'a> {
    /// The route; none for a virtual host as a whole.
    pub route: Option<&'a Value>,
    /// The virtual host.
    pub host: &'a Value,
    /// The configuration of routes.
    pub table: &'a Value,
    /// The url of its limits.
    pub url: String,
    /// The conditions of its limits.
    pub conditions: Object,
    /// The place.
    pub spot: Spot,
}

impl Route<'_> {
    /// Whether this route takes all requests of a later one of its virtual host: the first that
    /// matches decides.
    fn hides(&self, url: &str, conditions: &Object) -> bool {
        let parse = |url: &str| url.parse::<diana_limiter::matcher::pattern::Pattern>();
        let covers = matches!((parse(&self.url), parse(url)), (Ok(one), Ok(other)) if one.contains(&other));
        // A path in another case is not this route's.
        let case = |conditions: &Object| conditions.get("case_sensitive").cloned();
        let has_case = self.url == "/" || case(&self.conditions) == case(conditions);
        covers && has_case && places::asks_no_more(&self.conditions, conditions)
    }
}

/// The routes of a configuration of routes.
pub fn routes<'a>(table: &'a Value, input: &Input, notes: &mut Notes) -> Vec<Route<'a>> {
    let hosts = table.field("virtual_hosts").map_or(&[][..], Value::items);
    let domains: Vec<Vec<String>> = hosts.iter().map(|host| domains(host, input, notes)).collect();
    let mut found: Vec<Route> = Vec::new();
    for (index, host) in hosts.iter().enumerate() {
        let own = domains.get(index).cloned().unwrap_or_default();
        let mut conditions = Object::new();
        if hosts.len() > 1 {
            let others: Vec<&String> = domains
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != index)
                .flat_map(|(_, names)| names)
                .filter(|name| *name != "*")
                .collect();
            match own.iter().any(|name| name == "*") {
                true if others.is_empty() => {}
                true => drop(conditions.insert("hosts".into(), json!({"not": others}))),
                false if own.is_empty() => continue,
                false => drop(conditions.insert("hosts".into(), json!(own))),
            }
        }
        for route in host.field("routes").map_or(&[][..], Value::items) {
            let matched = route.field("match");
            let range = matched.map_or(&route.range, |matched| &matched.range);
            let spot = input.spot(range);
            let mut conditions = conditions.clone();
            match self::url(matched, &mut conditions) {
                Ok((url, why)) => {
                    let hiding = found
                        .iter()
                        .find(|earlier| std::ptr::eq(earlier.host, host) && earlier.hides(&url, &conditions));
                    if let Some(earlier) = hiding {
                        let becomes = "no limit: an earlier route takes all requests of this one";
                        // The urls of Diana are whole segments, a prefix of Envoy is not.
                        let whole = |url: &str| url.trim_start_matches('=').to_owned();
                        let is_exact = earlier.url == "/" || whole(&url).starts_with(&whole(&earlier.url));
                        match (is_exact, why.filter(|_| earlier.url != "/")) {
                            (false, _) => notes
                                .lost(&spot, format!("the limits of `{}` count its requests", earlier.url)),
                            (true, Some(why)) => notes.changed(&spot, becomes, why),
                            (true, None) => notes.kept(&spot, becomes),
                        }
                        continue;
                    }
                    let becomes = format!("url: {url}");
                    match why {
                        Some(why) => notes.changed(&spot, becomes, why),
                        None => notes.kept(&spot, becomes),
                    }
                    found.push(Route { route: Some(route), host, table, url, conditions, spot });
                }
                Err(why) => notes.lost(&spot, why),
            }
        }
    }
    found
}

fn domains(host: &Value, input: &Input, notes: &mut Notes) -> Vec<String> {
    let mut names = Vec::new();
    for domain in host.field("domains").map_or(&[][..], Value::items) {
        let Some(text) = domain.text() else { continue };
        let text = text.to_ascii_lowercase();
        let name = text
            .rsplit_once(':')
            .filter(|(_, port)| port.parse::<u16>().is_ok() || *port == "*")
            .map_or(text.as_str(), |(name, _)| name);
        let is_plain = !name.contains('*')
            || name == "*"
            || name.starts_with("*.") && !name.get(1..).unwrap_or_default().contains('*');
        match is_plain {
            true if !names.iter().any(|known| known == name) => names.push(name.to_owned()),
            true => {}
            false => {
                notes.lost(&input.spot(&domain.range), "`hosts` has names, and `*.name` for all subdomains")
            }
        }
    }
    names
}

/// The url of a route's `match`, and what differs. The conditions are added to others.
fn url(matched: Option<&Value>, conditions: &mut Object) -> Result<(String, Option<String>), String> {
    let Some(matched) = matched else { return Ok(("/".into(), None)) };
    let text = |field: &str| matched.field(field).and_then(scalar);
    let literal = |path: &str| path.replace('*', "%2A").replace('{', "%7B").replace('}', "%7D");
    let (url, mut why) = if let Some(path) = text("path") {
        (format!("={}", literal(&path)), None)
    } else if let Some(path) = text("path_separated_prefix") {
        (literal(&path), None)
    } else if let Some(prefix) = text("prefix") {
        let why = match prefix.as_str() {
            "/" | "" => None,
            prefix if prefix.ends_with('/') => {
                Some(format!("Diana's url also matches `{}`", prefix.trim_end_matches('/')))
            }
            prefix => Some(format!("Envoy's prefix also matches paths such as `{prefix}x`")),
        };
        (literal(if prefix.is_empty() { "/" } else { &prefix }), why)
    } else {
        return Err(
            "a url is a path, not an expression or a template: its requests count as those of other routes"
                .into(),
        );
    };
    let url = places::url(url)?;
    for entry in matched.entries() {
        match entry.key.as_str() {
            "path" | "prefix" | "path_separated_prefix" | "pathSeparatedPrefix" => {}
            "case_sensitive" | "caseSensitive" => {
                if entry.value.flag() == Some(false) {
                    conditions.insert("case_sensitive".into(), json!(false));
                }
            }
            "headers" => {
                for matcher in entry.value.items() {
                    why = header(matcher, false)?.into(conditions)?.or(why);
                }
            }
            "query_parameters" | "queryParameters" => {
                for matcher in entry.value.items() {
                    let name = matcher.field("name").and_then(scalar).unwrap_or_default();
                    let condition = query(matcher)?;
                    Condition { kind: "query", name, condition, why: None }.into(conditions)?;
                }
            }
            other => {
                return Err(format!(
                    "a limit has no condition such as `{other}`: its requests count as those of other routes"
                ));
            }
        }
    }
    Ok((url, why))
}

/// A condition of a limit.
struct Condition {
    kind: &'static str,
    name: String,
    condition: serde_json::Value,
    why: Option<String>,
}

impl Condition {
    /// Adds the condition to those of a limit. Returns what differs.
    fn into(self, conditions: &mut Object) -> Result<Option<String>, String> {
        let Condition { kind, name, condition, why } = self;
        add(conditions, kind, &name, condition)?;
        Ok(why)
    }
}

/// Adds a condition to those of a limit. Conditions without names have an empty one.
pub fn add(
    conditions: &mut Object,
    kind: &str,
    name: &str,
    condition: serde_json::Value,
) -> Result<(), String> {
    let twice = |name: &str| Err(format!("a limit can have only one condition on `{name}`"));
    if name.is_empty() {
        return match conditions.get(kind) {
            Some(known) if *known != condition => twice(kind),
            _ => {
                conditions.insert(kind.into(), condition);
                Ok(())
            }
        };
    }
    let entry = conditions.entry(kind).or_insert_with(|| json!({}));
    match entry.as_object_mut() {
        Some(named) if named.get(name).is_some_and(|known| *known != condition) => twice(name),
        Some(named) => {
            named.insert(name.into(), condition);
            Ok(())
        }
        None => twice(kind),
    }
}

/// Adds conditions to those of a limit.
fn add_all(conditions: &mut Object, others: &Object) -> Result<(), String> {
    for (kind, condition) in others {
        match condition.as_object().filter(|_| matches!(kind.as_str(), "headers" | "query")) {
            Some(named) => named
                .iter()
                .try_for_each(|(name, condition)| add(conditions, kind, name, condition.clone()))?,
            None => add(conditions, kind, "", condition.clone())?,
        }
    }
    Ok(())
}

/// The condition of a `HeaderMatcher`, or of its opposite.
fn header(matcher: &Value, is_opposite: bool) -> Result<Condition, String> {
    let name = matcher.field("name").and_then(scalar).unwrap_or_default().to_ascii_lowercase();
    let is_inverted = matcher.field("invert_match").and_then(Value::flag).unwrap_or(false) != is_opposite;
    let present = matcher.field("present_match").and_then(Value::flag);
    let old = [
        ("exact_match", "exact"),
        ("prefix_match", "prefix"),
        ("suffix_match", "suffix"),
        ("contains_match", "contains"),
        ("safe_regex_match", "safe_regex"),
    ];
    let old = old.into_iter().find_map(|(field, kind)| Some((kind, matcher.field(field)?)));
    let value = match (matcher.field("string_match"), old) {
        (Some(text), _) => Some(string(text)?),
        (None, Some((kind, value))) => Some(pattern(kind, value, false)?),
        (None, None) if matcher.field("range_match").is_some() => {
            return Err(format!("a condition on `{name}` cannot compare a range of numbers"));
        }
        (None, None) => None,
    };
    // An inverted match needs the header; the opposite of a match does not.
    let needs_header = is_inverted && !is_opposite && value.is_some();
    let why = needs_header.then(|| format!("Diana's `not` also holds without `{name}`"));
    let condition = match value {
        None => json!({"present": present.unwrap_or(true) != is_inverted}),
        Some(value) if is_inverted => json!({"not": value}),
        Some(value) => value,
    };
    let listed = |kind: &'static str, condition: serde_json::Value| {
        let condition = match condition {
            serde_json::Value::String(text) => json!([text]),
            serde_json::Value::Object(not) if not.get("not").is_some_and(serde_json::Value::is_string) => {
                let text = not.get("not").cloned().unwrap_or_default();
                json!({"not": [text]})
            }
            _ => return Err(format!("`{kind}` has whole names")),
        };
        Ok(Condition { kind, name: String::new(), condition, why: None })
    };
    match name.as_str() {
        ":method" => listed("methods", condition),
        ":authority" | "host" => listed("hosts", condition),
        ":path" => Err("a condition cannot read the path: it belongs in `url`".into()),
        name if name.starts_with(':') || name.is_empty() => Err(format!("a condition cannot read `{name}`")),
        _ => Ok(Condition { kind: "headers", name, condition, why }),
    }
}

/// The condition of a `QueryParameterMatcher`.
fn query(matcher: &Value) -> Result<serde_json::Value, String> {
    match matcher.field("string_match") {
        Some(text) => string(text),
        None => Ok(json!({"present": matcher.field("present_match").and_then(Value::flag).unwrap_or(true)})),
    }
}

/// The condition of a `StringMatcher`.
fn string(matcher: &Value) -> Result<serde_json::Value, String> {
    let ignores_case = matcher.field("ignore_case").and_then(Value::flag).unwrap_or(false);
    let kinds = ["exact", "prefix", "suffix", "contains", "safe_regex"];
    let found = kinds.into_iter().find_map(|kind| Some((kind, matcher.field(kind)?)));
    let (kind, value) = found
        .ok_or("a condition compares text by `exact`, `prefix`, `suffix`, `contains` or `safe_regex`")?;
    pattern(kind, value, ignores_case)
}

fn pattern(kind: &str, value: &Value, ignores_case: bool) -> Result<serde_json::Value, String> {
    let value = if kind == "safe_regex" { value.field("regex").unwrap_or(value) } else { value };
    let text = scalar(value).ok_or("a condition compares text")?;
    let escaped = regex_lite::escape(&text);
    let flags = if ignores_case { "(?i)" } else { "" };
    Ok(match kind {
        "exact" if !ignores_case => json!(text),
        "prefix" if !ignores_case => json!({"prefix": text}),
        "exact" => json!({"regex": format!("{flags}{escaped}")}),
        "prefix" => json!({"regex": format!("{flags}{escaped}.*")}),
        "suffix" => json!({"regex": format!("{flags}.*{escaped}")}),
        "contains" => json!({"regex": format!("{flags}.*{escaped}.*")}),
        _ => {
            if let Err(error) = regex_lite::Regex::new(&text) {
                return Err(format!("this expression has no counterpart: {error}"));
            }
            json!({"regex": text})
        }
    })
}

/// A value that an action reads from a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    /// The client's address.
    Address,
    /// The client's network, by the lengths of its prefixes.
    Network(u64, u64),
    /// A header.
    Header(String),
    /// A query parameter.
    Query(String),
    /// An attribute of the gateway.
    Property(Vec<String>),
}

impl Read {
    /// The actor with this value.
    pub fn actor(&self, draft: &mut Draft) -> String {
        match self {
            Read::Address => "ip".into(),
            Read::Network(v4, v6) => {
                draft.actor("network", json!({"ip": {"v4_prefix": v4, "v6_prefix": v6}}))
            }
            Read::Header(name) if name == ":method" => draft.actor("method", json!("method")),
            Read::Header(name) if name == ":authority" => draft.actor("host", json!("host")),
            Read::Header(name) => draft.header(name),
            Read::Query(name) => draft.actor(name, json!({"query": name})),
            Read::Property(path) => {
                let wish = path.last().cloned().unwrap_or_default();
                draft.actor(&wish, json!({"property": path}))
            }
        }
    }

    /// Whether every request has it.
    #[must_use]
    pub fn is_always_there(&self) -> bool {
        match self {
            Read::Address | Read::Network(..) => true,
            Read::Header(name) => name.starts_with(':'),
            Read::Query(_) | Read::Property(_) => false,
        }
    }

    /// The kind and the name of its condition, if a request may lack it.
    fn name(&self) -> Option<(&'static str, String)> {
        match self {
            Read::Address | Read::Network(..) => None,
            Read::Header(name) if name.starts_with(':') => None,
            Read::Header(name) => Some(("headers", name.clone())),
            Read::Query(name) => Some(("query", name.clone())),
            Read::Property(path) => {
                let steps: Vec<String> = path.iter().map(|step| step.replace('.', "\\.")).collect();
                Some(("property", steps.join(".")))
            }
        }
    }

    /// Requests that have one of these values are those, or all but those, that a limit counts.
    pub fn condition(&self, values: &[&str], is_not: bool, conditions: &mut Object) -> Result<(), String> {
        let networks = |values: &[&str]| -> Result<Vec<String>, String> {
            let network = |value: &&str| Network::parse(value).map(|network| network.text());
            let networks: Option<Vec<String>> = values.iter().map(network).collect();
            networks.ok_or_else(|| "the value is neither an address nor a network".into())
        };
        let listed = |items: serde_json::Value| if is_not { json!({"not": items}) } else { items };
        let named = || match (values, is_not) {
            ([only], false) => json!(only),
            (several, false) => {
                let any: Vec<String> = several.iter().map(|value| regex_lite::escape(value)).collect();
                json!({"regex": any.join("|")})
            }
            ([only], true) => json!({"not": only}),
            (several, true) => json!({"not": several}),
        };
        match self {
            Read::Address | Read::Network(..) => add(conditions, "ip", "", listed(json!(networks(values)?))),
            Read::Header(name) if name == ":method" => add(conditions, "methods", "", listed(json!(values))),
            Read::Header(name) if name == ":authority" => add(conditions, "hosts", "", listed(json!(values))),
            Read::Header(_) | Read::Query(_) | Read::Property(_) => match self.name() {
                Some((kind, name)) => add(conditions, kind, &name, named()),
                None => Err("a condition cannot read this value".into()),
            },
        }
    }
}

/// An entry of a request's descriptor.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: EntryValue,
}

/// The value of an entry.
#[derive(Clone, Debug)]
pub enum EntryValue {
    /// Always the same, if these conditions hold; without them there is no descriptor.
    Fixed(String, Object),
    /// Read from the request; if it lacks the value, there is no descriptor.
    Read(Read),
}

impl Entry {
    /// The words for the name of a rule that asks for this value, or for any.
    #[must_use]
    pub fn words(&self, wanted: Option<&str>) -> String {
        let is_default = ["generic_key", "header_match", "query_match"].contains(&self.key.as_str());
        match (&self.value, wanted) {
            (EntryValue::Fixed(value, _), _) if is_default => value.clone(),
            (EntryValue::Fixed(value, _), _) => format!("{}-{value}", self.key),
            (EntryValue::Read(_), Some(value)) => format!("{}-{value}", self.key),
            (EntryValue::Read(_), None) => self.key.clone(),
        }
    }
}

/// A descriptor that requests have.
pub struct Descriptor<'a> {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Where the configuration has it.
    pub value: &'a Value,
    /// What differs.
    pub why: Option<String>,
}

/// The descriptors of `rate_limits`. What cannot be read is noted.
pub fn descriptors<'a>(limits: &'a Value, input: &Input, notes: &mut Notes) -> Vec<Descriptor<'a>> {
    let mut found = Vec::new();
    for limit in limits.items() {
        let (mut entries, mut why, mut is_whole) = (Vec::new(), None, true);
        for entry in limit.entries() {
            match entry.key.as_str() {
                "actions" => {}
                "stage" if whole(&entry.value) == Some(0) => {}
                "stage" => {
                    notes.changed(&input.entry(entry), "no stage", "Diana counts all descriptors at once")
                }
                "disable_key" | "disableKey" => {
                    notes.lost(&input.entry(entry), "no runtime key disables a rule: use `mode: shadow`")
                }
                "hits_addend" | "hitsAddend" => {
                    notes.lost(&input.entry(entry), "write a `cost` for the rule: docs/configuration/cost.md")
                }
                "limit" => notes.lost(
                    &input.entry(entry),
                    "write `rpu: {property: …}` for the rule: a number that comes with the request",
                ),
                _ => notes.lost(&input.entry(entry), "the conversion does not know this key"),
            }
        }
        for action in limit.field("actions").map_or(&[][..], Value::items) {
            match self::action(action) {
                Ok((entry, differs)) => {
                    entries.push(entry);
                    why = differs.or(why);
                }
                Err(reason) => {
                    notes.lost(&input.spot(&action.range), reason);
                    is_whole = false;
                }
            }
        }
        if is_whole && !entries.is_empty() {
            found.push(Descriptor { entries, value: limit, why });
        }
    }
    found
}

fn action(action: &Value) -> Result<(Entry, Option<String>), String> {
    let Some(kind) = action.entries().first() else {
        return Err("the action is empty".into());
    };
    let body = &kind.value;
    let text = |field: &str| body.field(field).and_then(scalar);
    let key = |default: &str| text("descriptor_key").unwrap_or_else(|| default.into());
    let read = |key: String, read: Read| Ok((Entry { key, value: EntryValue::Read(read) }, None));
    match kind.key.as_str() {
        "generic_key" | "genericKey" => {
            let value = text("descriptor_value").ok_or("`generic_key` has no `descriptor_value`")?;
            Ok((Entry { key: key("generic_key"), value: EntryValue::Fixed(value, Object::new()) }, None))
        }
        "remote_address" | "remoteAddress" => read("remote_address".into(), Read::Address),
        "masked_remote_address" | "maskedRemoteAddress" => {
            let length = |field: &str, most: u64| {
                body.field(field)
                    .map_or(Some(most), whole)
                    .filter(|length| *length <= most)
                    .ok_or_else(|| format!("`{field}` is not a prefix length"))
            };
            let lengths = (length("v4_prefix_mask_len", 32)?, length("v6_prefix_mask_len", 128)?);
            read("masked_remote_address".into(), Read::Network(lengths.0, lengths.1))
        }
        "request_headers" | "requestHeaders" => {
            let name =
                text("header_name").ok_or("`request_headers` has no `header_name`")?.to_ascii_lowercase();
            if name == ":path" {
                return Err(
                    "no actor has the value of the whole path: count by a segment, with `path` or `segment`"
                        .into(),
                );
            }
            if body.field("skip_if_absent").and_then(Value::flag) == Some(true) {
                return Err("`skip_if_absent` makes two descriptors, with and without the header: write a rule for each".into());
            }
            read(key(&name), Read::Header(name))
        }
        "query_parameters" | "queryParameters" => {
            let name =
                text("query_parameter_name").ok_or("`query_parameters` has no `query_parameter_name`")?;
            read(key(&name), Read::Query(name))
        }
        "destination_cluster" | "destinationCluster" => {
            read("destination_cluster".into(), Read::Property(vec!["xds".into(), "cluster_name".into()]))
        }
        "metadata" | "dynamic_metadata" | "dynamicMetadata" => {
            let is_of_route = text("source").is_some_and(|source| source == "ROUTE_ENTRY");
            if is_of_route || body.field("default_value").is_some() {
                return Err(
                    "only dynamic metadata without a default has a counterpart, as a `property`".into()
                );
            }
            let space = body
                .fields(&["metadata_key", "key"])
                .and_then(scalar)
                .ok_or("`metadata` has no `metadata_key`")?;
            let mut path: Vec<String> = vec!["metadata".into(), "filter_metadata".into(), space];
            for step in body.fields(&["metadata_key", "path"]).map_or(&[][..], Value::items) {
                path.extend(step.field("key").and_then(scalar));
            }
            read(text("descriptor_key").ok_or("`metadata` has no `descriptor_key`")?, Read::Property(path))
        }
        "header_value_match" | "headerValueMatch" => {
            let value = text("descriptor_value").ok_or("`header_value_match` has no `descriptor_value`")?;
            let expects = body.field("expect_match").and_then(Value::flag).unwrap_or(true);
            let matchers = body.field("headers").map_or(&[][..], Value::items);
            if !expects && matchers.len() > 1 {
                return Err("a limit cannot negate several conditions together".into());
            }
            let (mut conditions, mut why) = (Object::new(), None);
            for matcher in matchers {
                why = header(matcher, !expects)?.into(&mut conditions)?.or(why);
            }
            Ok((Entry { key: key("header_match"), value: EntryValue::Fixed(value, conditions) }, why))
        }
        "query_parameter_value_match" | "queryParameterValueMatch" => {
            let value =
                text("descriptor_value").ok_or("`query_parameter_value_match` has no `descriptor_value`")?;
            let matchers = body.field("query_parameters").map_or(&[][..], Value::items);
            if body.field("expect_match").and_then(Value::flag) == Some(false) {
                return Err("a negated condition on the query has no counterpart here".into());
            }
            let mut conditions = Object::new();
            for matcher in matchers {
                let name = matcher.field("name").and_then(scalar).unwrap_or_default();
                add(&mut conditions, "query", &name, query(matcher)?)?;
            }
            Ok((Entry { key: key("query_match"), value: EntryValue::Fixed(value, conditions) }, None))
        }
        other => Err(format!("`{other}` has no counterpart")),
    }
}

/// Who a descriptor counts, and which requests: the keys of a rule, and the conditions of a limit.
pub struct Counted {
    /// `actor` and `missing`.
    pub keys: Object,
    /// The conditions.
    pub conditions: Object,
    /// The conditions, and that the request has the actors.
    pub matches: Object,
    /// What differs.
    pub why: Option<&'static str>,
}

/// What the entries of a descriptor count if the configuration asks for these values; `None`, any
/// value, makes an actor. `excluded` has for each entry values that others count. Returns `None` if
/// no request has such a descriptor.
pub fn counted(
    entries: &[Entry],
    values: &[Option<String>],
    excluded: &[Vec<String>],
    draft: &mut Draft,
) -> Result<Option<Counted>, String> {
    let (mut conditions, mut matches) = (Object::new(), Object::new());
    let (mut actors, mut always) = (Vec::new(), true);
    for (index, entry) in entries.iter().enumerate() {
        let wanted = values.get(index).and_then(Option::as_deref);
        match (&entry.value, wanted) {
            (EntryValue::Fixed(value, _), Some(wanted)) if wanted != value => return Ok(None),
            (EntryValue::Fixed(_, own), _) => {
                for conditions in [&mut conditions, &mut matches] {
                    add_all(conditions, own)?;
                }
            }
            (EntryValue::Read(read), Some(wanted)) => {
                for conditions in [&mut conditions, &mut matches] {
                    read.condition(&[wanted], false, conditions)?;
                }
            }
            (EntryValue::Read(read), None) => {
                let others: Vec<&str> =
                    excluded.get(index).into_iter().flatten().map(String::as_str).collect();
                if !others.is_empty() {
                    read.condition(&others, true, &mut conditions)?;
                }
                // Requests with the other values have those descriptors.
                if let Some((kind, name)) = read.name() {
                    add(&mut matches, kind, &name, json!({"present": true}))?;
                }
                always &= read.is_always_there();
                let actor = read.actor(draft);
                if !actors.contains(&actor) {
                    actors.push(actor);
                }
            }
        }
    }
    let mut keys = Object::new();
    match actors.as_slice() {
        [] => {}
        [only] => drop(keys.insert("actor".into(), json!(only))),
        all => drop(keys.insert("actor".into(), json!(all))),
    }
    if !actors.is_empty() && !always {
        keys.insert("missing".into(), json!("skip"));
    }
    let why = actors.iter().any(|actor| actor == "ip").then_some(IPV6);
    Ok(Some(Counted { keys, conditions, matches, why }))
}
