//! From the annotations of ingress-nginx.
//!
//! The controller writes a zone for each Ingress and kind of limit, with the client's address as
//! the key, and uses it in all paths of the Ingress with a burst of the limit times a multiplier,
//! without delay.

use super::address::Network;
use super::draft::{Draft, Object, Rule};
use super::finish;
use super::input::{Input, scalar};
use super::notes::{Notes, Spot};
use super::places::{self, Counter, Place};
use super::shape::{Early, PERMITS, Requests, connections};
use crate::source::value::{Entry, Value};
use miette::Result;
use serde_json::json;
use std::collections::BTreeSet;

/// What all annotations begin with, unless the controller is told otherwise.
const PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// The burst is the limit, times this.
const MULTIPLIER: u64 = 5;

/// Converts manifests.
pub fn convert(inputs: &[Input], draft: &mut Draft, notes: &mut Notes) -> Result<()> {
    let mut ingresses: Vec<(&Input, Value)> = Vec::new();
    let mut status = Statuses { requests: 503, connections: 503 };
    for input in inputs {
        for value in input.values()? {
            let mut all = vec![value];
            while let Some(value) = all.pop() {
                match value.get("kind").and_then(Value::text) {
                    Some("Ingress") => ingresses.push((input, value)),
                    Some("ConfigMap") => config_map(&value, input, &mut status, notes)?,
                    Some("List") => {
                        all.extend(value.get("items").map_or(&[][..], Value::items).iter().rev().cloned())
                    }
                    _ => {}
                }
            }
        }
    }
    if let (Some(input), true) = (inputs.first(), ingresses.is_empty()) {
        return Err(
            input.nothing("the file has no `Ingress`", "manifests of Kubernetes with `kind: Ingress`")
        );
    }
    let (mut places, mut spots, mut counters) = (Vec::new(), Vec::new(), Vec::new());
    for (input, ingress) in &ingresses {
        let rules = rules(ingress, input, &status, &mut counters, draft, notes)?;
        paths(ingress, input, &rules, &mut places, &mut spots, notes);
    }
    all_paths_of_an_ingress(&mut places);
    finish(&places, &spots, counters, draft, notes);
    Ok(())
}

/// The statuses of refusals.
struct Statuses {
    requests: u64,
    connections: u64,
}

/// The settings of the controller.
fn config_map(value: &Value, input: &Input, status: &mut Statuses, notes: &mut Notes) -> Result<()> {
    for entry in value.get("data").map_or(&[][..], Value::entries) {
        let spot = input.entry(entry);
        let parsed = || {
            let code = scalar(&entry.value).and_then(|code| code.parse::<u64>().ok());
            let code = code.filter(|code| (400..=599).contains(code));
            code.ok_or_else(|| input.wrong(&entry.value.range, "this is not a status", "400 to 599"))
        };
        match entry.key.as_str() {
            "limit-req-status-code" => {
                status.requests = parsed()?;
                notes.kept(&spot, format!("response: {{status: {}}}", status.requests));
            }
            "limit-conn-status-code" => {
                status.connections = parsed()?;
                notes.kept(&spot, format!("response: {{status: {}}}", status.connections));
            }
            "limit-conn-zone-variable" => match scalar(&entry.value).as_deref() {
                Some("$binary_remote_addr" | "$remote_addr") => notes.kept(&spot, "actor: ip"),
                _ => notes.lost(&spot, "the rules count by address: write the `actor` of each rule by hand"),
            },
            "limit-rate" | "limit-rate-after" => notes.lost(&spot, "Diana does not slow responses down"),
            "use-forwarded-headers"
            | "use-proxy-protocol"
            | "forwarded-for-header"
            | "proxy-real-ip-cidr"
            | "compute-full-forwarded-for" => {
                notes.lost(&spot, "which address counts depends on the new gateway: set `ip.trusted_hops` to the number of proxies");
            }
            _ => {}
        }
    }
    Ok(())
}

fn annotation<'a>(ingress: &'a Value, name: &str) -> Option<&'a Entry> {
    ingress.get("metadata")?.get("annotations")?.entry(&format!("{PREFIX}{name}"))
}

/// The rules of an Ingress.
fn rules(
    ingress: &Value,
    input: &Input,
    status: &Statuses,
    counters: &mut Vec<Counter>,
    draft: &mut Draft,
    notes: &mut Notes,
) -> Result<BTreeSet<usize>> {
    let number = |entry: &Entry| {
        let number = scalar(&entry.value).and_then(|text| text.trim().parse::<u64>().ok());
        let number = number.filter(|number| *number <= 1_000_000);
        number.ok_or_else(|| {
            input.wrong(&entry.value.range, "this is not a whole number", "a number up to 1000000, in quotes")
        })
    };
    let mut burst = MULTIPLIER;
    if let Some(entry) = annotation(ingress, "limit-burst-multiplier") {
        let multiplier = number(entry)?;
        // The controller takes a multiplier below one for none.
        burst = if multiplier == 0 { MULTIPLIER } else { multiplier };
        notes.kept(&input.entry(entry), format!("burst: {burst} times the limit, and one"));
    }
    let lists =
        ["limit-allowlist", "limit-whitelist"].into_iter().filter_map(|name| annotation(ingress, name));
    let (mut networks, mut listed) = (Vec::new(), None);
    // `limit-allowlist` is the newer name.
    if let Some(entry) = lists.into_iter().next() {
        for part in
            scalar(&entry.value).unwrap_or_default().split(',').map(str::trim).filter(|part| !part.is_empty())
        {
            match Network::parse(part) {
                Some(network) => networks.push(network.text()),
                None => {
                    return Err(input.wrong(
                        &entry.value.range,
                        &format!("`{part}` is not a network"),
                        "networks such as `10.0.0.0/8`, with commas between them",
                    ));
                }
            }
        }
        listed = Some(entry);
    }
    let conditions = match networks.is_empty() {
        true => Object::new(),
        false => Object::from_iter([("ip".to_owned(), json!({"not": networks}))]),
    };
    let name = ingress.get("metadata").and_then(|data| data.get("name")).and_then(scalar).unwrap_or_default();
    let mut own = BTreeSet::new();
    for (kind, suffix, unit_ms) in
        [("limit-connections", "conn", 0), ("limit-rpm", "rpm", 60_000), ("limit-rps", "rps", 1_000)]
    {
        let Some(entry) = annotation(ingress, kind) else { continue };
        let spot = input.entry(entry);
        let limit = number(entry)?;
        if limit == 0 {
            notes.kept(&spot, "no rule: 0 is no limit");
            continue;
        }
        let (mut keys, why) = match unit_ms {
            0 => (connections(limit), PERMITS.to_owned()),
            _ => {
                let requests = Requests {
                    rpu: limit,
                    unit_ms,
                    burst: limit.saturating_mul(burst),
                    early: Early::Passes,
                };
                let (keys, _) = requests.rule();
                let mut why = "each replica of the gateway counts alone, as each replica of the controller did; IPv6 clients count by their /64 \
                    network"
                    .to_owned();
                let thousandths = limit.saturating_mul(1_000);
                if unit_ms == 60_000 && thousandths.checked_rem(60) != Some(0) {
                    why.push_str("; nginx truncates the rate to thousandths of a request a second");
                }
                (keys, why)
            }
        };
        keys.insert("actor".into(), json!("ip"));
        keys.insert("name".into(), draft.name(&format!("{name}-{suffix}")).into());
        let rule = Rule::new(keys, &spot);
        notes.changed(&spot, rule.numbers(), why);
        own.insert(counters.len());
        let code = if unit_ms == 0 { status.connections } else { status.requests };
        counters.push(Counter {
            rule,
            conditions: conditions.clone(),
            response: Some(json!({"status": code})),
            spot,
        });
    }
    if let Some(entry) = listed {
        match (own.is_empty(), networks.is_empty()) {
            (false, false) => notes.kept(&input.entry(entry), "ip: {not: …}"),
            _ => notes.kept(&input.entry(entry), "nothing: there is no limit, or no network"),
        }
    }
    if own.is_empty()
        && let Some(entry) = annotation(ingress, "limit-burst-multiplier")
    {
        notes.kept(&input.entry(entry), "nothing: there is no limit");
    }
    let annotations =
        ingress.get("metadata").and_then(|data| data.get("annotations")).map_or(&[][..], Value::entries);
    for entry in annotations {
        let Some(name) = entry.key.strip_prefix(PREFIX) else { continue };
        let spot = input.entry(entry);
        match name {
            "limit-connections"
            | "limit-rpm"
            | "limit-rps"
            | "limit-burst-multiplier"
            | "limit-allowlist"
            | "limit-whitelist" => {}
            "limit-rate" | "limit-rate-after" => notes.lost(&spot, "Diana does not slow responses down"),
            name if name.starts_with("global-rate-limit") => {
                notes.lost(
                    &spot,
                    "write a rule with `scope: global` and a `store`: the controller counted it in memcached",
                );
            }
            "configuration-snippet" | "server-snippet"
                if scalar(&entry.value).is_some_and(|text| text.contains("limit_")) =>
            {
                notes.lost(&spot, "directives in a snippet are converted by `diana convert nginx`");
            }
            name if name.starts_with("limit-") => {
                notes.lost(&spot, "the conversion does not know this annotation")
            }
            _ => {}
        }
    }
    Ok(own)
}

/// The places of an Ingress.
fn paths(
    ingress: &Value,
    input: &Input,
    rules: &BTreeSet<usize>,
    places: &mut Vec<Place>,
    spots: &mut Vec<Spot>,
    notes: &mut Notes,
) {
    let truth = |name: &str| {
        annotation(ingress, name).and_then(|entry| scalar(&entry.value)).is_some_and(|flag| flag == "true")
    };
    let rewrites = annotation(ingress, "rewrite-target")
        .and_then(|entry| scalar(&entry.value))
        .is_some_and(|target| target.contains('$'));
    let is_regex = truth("use-regex") || rewrites;
    let spec = ingress.get("spec");
    let default = spec.and_then(|spec| spec.get("defaultBackend").or_else(|| spec.get("backend")));
    let mut add = |url: String, host: Option<&str>, spot: &Spot| {
        let mut conditions = Object::new();
        if let Some(host) = host {
            conditions.insert("hosts".into(), json!([host]));
        }
        places.push(Place { url, conditions, rules: rules.clone(), from: spot.place() });
        spots.push(spot.clone());
    };
    if let Some(default) = default {
        add("/".into(), None, &input.spot_as(&default.range, "defaultBackend"));
    }
    for rule in spec.and_then(|spec| spec.get("rules")).map_or(&[][..], Value::items) {
        let host = rule.get("host").and_then(scalar).filter(|host| !host.is_empty());
        let http = rule.get("http").and_then(|http| http.get("paths"));
        for path in http.map_or(&[][..], Value::items) {
            let text = path.get("path").and_then(scalar).unwrap_or_else(|| "/".into());
            let kind = path.get("pathType").and_then(scalar).unwrap_or_default();
            let spot = input.spot_as(&path.range, format!("path: {text}"));
            let literal = text.replace('*', "%2A").replace('{', "%7B").replace('}', "%7D");
            let (url, why) = match kind.as_str() {
                _ if is_regex && text.contains(['(', '[', '\\', '.', '+', '*', '?', '$', '|']) => {
                    notes.lost(
                        &spot,
                        "a url is a path, not a regular expression: the limits of this path are left out",
                    );
                    continue;
                }
                "Exact" => (format!("={literal}"), None),
                // The controller writes two locations, `= /x` and `/x/`.
                "Prefix" if !is_regex => (literal, None),
                _ if text == "/" => (literal, None),
                _ => (literal, Some(format!("nginx also matches paths such as `{text}x`"))),
            };
            match places::url(url) {
                Ok(url) => {
                    let becomes = format!("url: {url}");
                    match why {
                        Some(why) => notes.changed(&spot, becomes, why),
                        None => notes.kept(&spot, becomes),
                    }
                    add(url, host.as_deref(), &spot);
                }
                Err(why) => notes.lost(&spot, why),
            }
        }
    }
}

/// An Ingress counts all its paths together, whatever their hosts. If some of its hosts lack a path
/// of the others, nobody else limits it there.
fn all_paths_of_an_ingress(places: &mut Vec<Place>) {
    let mut more = Vec::new();
    for place in places.iter() {
        let has_rules = !place.rules.is_empty();
        let of_ingress = || places.iter().filter(|other| has_rules && other.rules == place.rules);
        let mut hosts: Vec<&Object> = Vec::new();
        of_ingress().for_each(|other| {
            if !hosts.contains(&&other.conditions) {
                hosts.push(&other.conditions)
            }
        });
        for conditions in hosts {
            let is_known = |known: &Place| known.url == place.url && known.conditions == *conditions;
            if !places.iter().any(is_known) && !more.iter().any(is_known) {
                more.push(Place { conditions: conditions.clone(), from: String::new(), ..place.clone() });
            }
        }
    }
    places.extend(more);
}
