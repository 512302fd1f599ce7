//! Zones of nginx as a document of Diana, by the numbers of `docs/migrate/nginx.md`. A zone counts
//! all its locations together, so it is one limit with the names of their routes, and a location
//! with other numbers is a plan.

use crate::blocks::{Blocks, Location};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

/// A limit of a location by a zone.
struct Use<'a> {
    route: &'a str,
    status: u16,
    is_dry_run: bool,
    allowed: Allowed,
}

#[derive(Clone, Copy, PartialEq)]
enum Allowed {
    /// So many in flight.
    Connections(u64),
    /// `burst`, and how many of these do not wait.
    Requests { burst: u64, delay: u64 },
}

/// A rate in requests, and the milliseconds of its unit.
struct Rate {
    rpu: u64,
    unit: &'static str,
    unit_ms: u64,
}

/// The document for these locations.
pub fn document(blocks: &Blocks, locations: &[&Location]) -> Result<Value> {
    let mut limits = Vec::new();
    for (directive, zone_directive) in [("limit_req", "limit_req_zone"), ("limit_conn", "limit_conn_zone")] {
        for at in blocks.inside(Some(blocks.http()?), zone_directive) {
            let words = blocks.arguments(at);
            let name =
                parameter(&words, "zone").and_then(|zone| zone.split(':').next()).context("no zone")?;
            let key = words.first().copied().unwrap_or_default();
            let rate = parameter(&words, "rate").map(rate).transpose()?;
            let mut uses = Vec::new();
            for location in locations {
                uses.extend(uses_of(blocks, location, directive, name)?);
            }
            // A rule is in shadow or not, so a zone with both is two limits.
            let (dry, enforced): (Vec<&Use>, Vec<&Use>) = uses.iter().partition(|one| one.is_dry_run);
            for group in [enforced, dry].iter().filter(|group| !group.is_empty()) {
                limits.push(limit(name, key, rate.as_ref(), group)?);
            }
        }
    }
    let mut document = json!({"limits": limits});
    let actors = actors(blocks)?;
    if !actors.is_empty() {
        document["actors"] = actors.into();
    }
    if limits.iter().any(|limit| limit["rules"][0].get("plans").is_some()) {
        document["plan"] = json!({"property": ["xds", "route_name"]});
    }
    Ok(document)
}

fn parameter<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn rate(text: &str) -> Result<Rate> {
    let (number, unit) = text.split_once("r/").with_context(|| format!("no rate: `{text}`"))?;
    let (unit, unit_ms) = match unit {
        "s" => ("second", 1_000),
        "m" => ("minute", 60_000),
        other => bail!("a rate is per `s` or `m`, not `{other}`"),
    };
    Ok(Rate { rpu: number.parse()?, unit, unit_ms })
}

/// The uses of a zone by a location.
fn uses_of<'a>(blocks: &Blocks, location: &'a Location, name: &str, zone: &str) -> Result<Vec<Use<'a>>> {
    let mut uses = Vec::new();
    for words in blocks.inherited(location.block, name) {
        let allowed = match (name, &words[..]) {
            ("limit_conn", [of, most]) if *of == zone => Allowed::Connections(most.parse()?),
            ("limit_req", words) if parameter(words, "zone") == Some(zone) => {
                let number = |name| parameter(words, name).map_or(Ok(0), str::parse::<u64>);
                let burst = number("burst")?;
                let delay = if words.contains(&"nodelay") { burst } else { number("delay")? };
                Allowed::Requests { burst, delay }
            }
            _ => continue,
        };
        uses.push(Use {
            route: &location.route,
            status: blocks.value(location.block, &format!("{name}_status")).unwrap_or("503").parse()?,
            is_dry_run: blocks.value(location.block, &format!("{name}_dry_run")) == Some("on"),
            allowed,
        });
    }
    Ok(uses)
}

/// The limit of a zone.
fn limit(name: &str, key: &str, rate: Option<&Rate>, uses: &[&Use]) -> Result<Value> {
    let first = uses.first().context("no location uses the zone")?;
    // Without delay, a queue is a bucket without burst whose requests wait.
    let waits = |one: &&&Use| matches!(one.allowed, Allowed::Requests { burst, delay: 0 } if burst > 0);
    let passes = |one: &&&Use| !matches!(one.allowed, Allowed::Requests { delay: 0, .. });
    let is_queue = uses.iter().any(|one| waits(&one)) && !uses.iter().any(|one| passes(&one));
    let quota = |allowed| match (allowed, rate) {
        (Allowed::Connections(most), _) => Ok(json!({"rpu": most})),
        (Allowed::Requests { .. }, None) => bail!("the zone `{name}` has no rate"),
        (Allowed::Requests { burst, .. }, Some(_)) if is_queue => Ok(json!({"queue": burst})),
        (Allowed::Requests { burst, delay }, Some(rate)) => {
            let wait = (burst.saturating_sub(delay) * rate.unit_ms) / rate.rpu;
            Ok(json!({"burst": delay + 1, "max_wait": format!("{wait}ms")}))
        }
    };
    let mut rule = json!({"name": name});
    rule["algo"] = match (first.allowed, is_queue) {
        (Allowed::Connections(_), _) => "C".into(),
        (_, true) => "LB".into(),
        (_, false) => "TB".into(),
    };
    match rate {
        Some(Rate { rpu, unit, .. }) => add(&mut rule, json!({"rpu": rpu, "unit": unit})),
        None => rule["max_hold"] = "1h".into(),
    }
    let missing = actor(key)?;
    add(&mut rule, missing);
    add(&mut rule, quota(first.allowed)?);
    for one in uses.iter().filter(|one| one.allowed != first.allowed) {
        rule["plans"][one.route] = quota(one.allowed)?;
    }
    if first.is_dry_run {
        add(&mut rule, json!({"name": format!("{name}-dry-run"), "mode": "shadow"}));
    }
    let routes: Vec<&str> = uses.iter().map(|one| one.route).collect();
    Ok(json!({
        "url": "/",
        "property": {"xds.route_name": {"regex": routes.join("|")}},
        // The statuses of other locations of the zone are among the differences.
        "response": {"status": first.status},
        "rules": [rule],
    }))
}

fn add(object: &mut Value, more: Value) {
    for (key, value) in more.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
}

/// The actor of a key, and what happens without it.
fn actor(key: &str) -> Result<Value> {
    let names: Vec<&str> = key.split('$').skip(1).collect();
    let of = |name: &str| if name == "binary_remote_addr" { "ip".to_owned() } else { name.to_owned() };
    match &names[..] {
        ["binary_remote_addr"] => Ok(json!({"actor": "ip"})),
        [one] => Ok(json!({"actor": of(one), "missing": "skip"})),
        // A key without its second part is still one: that of the address.
        ["binary_remote_addr", second] => Ok(json!({"actor": ["ip", of(second)], "missing": "ip"})),
        _ => bail!("no actor is known for the key `{key}`"),
    }
}

/// The actors of all keys but the address.
fn actors(blocks: &Blocks) -> Result<Map<String, Value>> {
    let mut actors = Map::new();
    let zones = ["limit_req_zone", "limit_conn_zone"];
    let http = blocks.http()?;
    for at in zones.iter().flat_map(|zone| blocks.inside(Some(http), zone)) {
        let words = blocks.arguments(at);
        let key = words.first().copied().unwrap_or_default();
        for name in key.split('$').skip(1).filter(|name| *name != "binary_remote_addr") {
            let parameter = name.strip_prefix("arg_");
            ensure!(parameter.is_some(), "no actor is known for the variable `${name}`");
            actors.insert(name.to_owned(), json!({"query": parameter}));
        }
    }
    Ok(actors)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule for a zone of 30 requests a minute with these parameters in two locations.
    fn rule(first: &str, second: &str) -> Value {
        let text = format!(
            "http {{ limit_req_zone $binary_remote_addr zone=z:1m rate=30r/m; \
             server {{ location /a {{ limit_req zone=z {first}; }} location /b {{ limit_req zone=z {second}; }} }} }}"
        );
        let blocks = Blocks::read(&text).unwrap();
        let server = blocks.inside(Some(blocks.http().unwrap()), "server")[0];
        let of =
            |(block, name): (usize, &str)| Location { block, prefix: format!("/{name}"), route: name.into() };
        let locations: Vec<Location> =
            blocks.inside(Some(server), "location").into_iter().zip(["a", "b"]).map(of).collect();
        document(&blocks, &locations.iter().collect::<Vec<_>>()).unwrap()["limits"][0]["rules"][0].take()
    }

    #[test]
    fn numbers_are_those_of_the_migration_guide() {
        let base = json!({"name": "z", "actor": "ip", "rpu": 30, "unit": "minute"});
        for (parameters, expected) in [
            ("", json!({"algo": "TB", "burst": 1, "max_wait": "0ms"})),
            ("burst=4 nodelay", json!({"algo": "TB", "burst": 5, "max_wait": "0ms"})),
            ("burst=4 delay=1", json!({"algo": "TB", "burst": 2, "max_wait": "6000ms"})),
            ("burst=4", json!({"algo": "LB", "queue": 4})),
        ] {
            let mut whole = base.clone();
            add(&mut whole, expected);
            assert_eq!(rule(parameters, parameters), whole, "{parameters}");
        }
        assert_eq!(rule("burst=2", "")["plans"], json!({"b": {"queue": 0}}));
        let mixed = rule("burst=2", "burst=1 nodelay");
        assert_eq!(mixed["algo"], "TB");
        assert_eq!(mixed["plans"], json!({"b": {"burst": 2, "max_wait": "0ms"}}));
    }
}
