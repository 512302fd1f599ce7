//! Findings about a document by itself.

use super::code::{self, Code};
use super::finding::Findings;
use super::forgeable;
use super::mistakes::{split, takes_first};
use super::model::{Model, Rule};
use super::place::{Places, head};
use super::report::Fleet;
use super::{calendars, rules};
use crate::source::documents::Document;
use crate::source::value::{Kind, Value};
use diana_config::Configuration;
use diana_document::quoted;
use std::collections::{HashMap, HashSet};

/// A document that takes more memory gets a warning. The demo's document takes 70 MiB.
const MANY_BYTES: u64 = 256 << 20;

/// Adds the warnings about a document without mistakes. `is_whole` is false if parts of the
/// document are left out, because these parts have mistakes. What a document lacks is unknown then.
pub fn warnings(
    document: &Document,
    value: &Value,
    configuration: &Configuration,
    fleet: Fleet,
    is_whole: bool,
    findings: &mut Findings,
) {
    let model = Model::of(value);
    let tiers = rules::warnings(&model, is_whole, findings);
    let places = Places::new(value, takes_first(document));
    for warning in &configuration.warnings {
        let (rule, _) = places.at(&warning.path);
        let code = code_of(&warning.why);
        let is_about_absence = matches!(code, code::PRIORITY_UNPAIRED | code::PLANS_UNUSED);
        if !tiers.contains(&rule.range) && (is_whole || !is_about_absence) {
            let (message, hint) = split(&warning.why);
            findings.add(code, &places.of(warning), message, hint);
        }
    }
    forgeable::sources(&model, findings);
    claim_lists(&model, findings);
    unnamed(&model, findings);
    bursts(&model, findings);
    lists(&model, findings);
    calendars::warnings(&model, fleet.evicting, findings);
    let replicas = fleet.replicas;
    if let Some(replicas) = replicas.filter(|replicas| *replicas > 1) {
        counts_of_replicas(&model, replicas, findings);
    } else {
        missing_replicas(&model, findings);
    }
    leases(&model, replicas, findings);
    memory(&model, configuration, findings);
}

/// Claims that standards define as lists (RFC 7643, RFC 8176, RFC 9068).
const LISTS: [&str; 4] = ["amr", "entitlements", "groups", "roles"];

/// Actors and plans that read a claim which is a list, and therefore count as absent.
fn claim_lists(model: &Model, findings: &mut Findings) {
    let plan = model.root.get("plan");
    let first = plan.filter(|plan| plan.get("first").is_some());
    let of_first = first.and_then(|plan| plan.get("jwt")).and_then(Value::text);
    let actors = model.root.get("actors").map_or(&[][..], Value::entries).iter().map(|entry| &entry.value);
    for claim in actors.chain(plan.filter(|_| first.is_none())).filter_map(|source| source.get("jwt")) {
        let path = claim.text().unwrap_or_default();
        let name = path.rsplit(['.', '/']).next().unwrap_or_default();
        if LISTS.contains(&name) || of_first == Some(path) {
            findings.add(
                code::LIST_ACTOR,
                &claim.range,
                format!("the claim {} is a list, which counts as absent here", quoted(path)),
                Some("a condition `jwt`, or `plan` with `first`, reads the elements"),
            );
        }
    }
}

/// Global rules without a name. The short forms have no store that could count them.
fn unnamed(model: &Model, findings: &mut Findings) {
    let rules = model.limits.iter().flat_map(|limit| &limit.rules);
    for rule in rules.filter(|rule| rule.is_global && store(model).is_some()) {
        if let (None, Some(scope)) = (rule.value.entry("name"), rule.value.entry("scope")) {
            findings.add(
                code::UNNAMED_GLOBAL,
                &scope.value.range,
                "a global rule without a name: a change of its quota starts all its counts anew",
                Some("give the rule a `name`"),
            );
        }
    }
}

/// Buckets that are full in less than a second. In other programs `burst` comes on top of the rate.
/// `burst: 1` is a minimal distance, and a request that may wait needs no burst.
fn bursts(model: &Model, findings: &mut Findings) {
    for (_, rule) in model.enforced() {
        if ["max_wait", "warm_up", "cost", "adapt"].iter().any(|key| rule.value.entry(key).is_some()) {
            continue;
        }
        let mut known = HashSet::new();
        for quota in rule.quotas() {
            let (Some(rpu), Some(burst), Some(unit_ns)) =
                (quota.size("rpu"), quota.size("burst"), quota.unit_ns())
            else {
                continue;
            };
            let in_a_second = u128::from(rpu) * 1_000_000_000 / u128::from(unit_ns.max(1));
            let Some(place) = quota.own("burst").or(quota.own("rpu")) else { continue };
            let place = &place.value.range;
            if burst > 1 && u128::from(burst) < in_a_second && known.insert(place.start) {
                findings.add(
                    code::SMALL_BURST,
                    place,
                    format!(
                        "the rule{} admits {in_a_second} requests in a second, but of requests that come at once only \
                         {burst}",
                        rule.named()
                    ),
                    Some(&format!(
                        "leave `burst` out, or write at least {in_a_second}: it is all that passes at once, not what \
                         passes on top of `rpu`"
                    )),
                );
            }
        }
    }
}

/// The code of a warning that Diana itself logs.
fn code_of(why: &str) -> Code {
    if why.contains("can never refuse") {
        if why.contains("exclusive: true") { code::LOOSER_RULE } else { code::NEVER_REFUSES }
    } else if why.contains("`plan` changes nothing") {
        code::PLANS_UNUSED
    } else if why.contains("counts this rule") {
        code::COUNTED_ALONE
    } else if why.contains("gateways together lease") {
        code::LEASE_REPLICAS
    } else if why.contains("can ever pass") {
        code::NEVER_ADMITS
    } else if why.contains("only dialect") {
        code::STORE_DIALECT
    } else {
        code::PRIORITY_UNPAIRED
    }
}

fn lists(model: &Model, findings: &mut Findings) {
    let members = |key: &str| {
        let list = model.root.get(key);
        list.map(|list| list.get("members").unwrap_or(list)).map_or(&[][..], Value::items)
    };
    for (key, effect) in [("allow", "limits no such client"), ("deny", "denies every such client")] {
        for member in members(key) {
            let version = match member.text() {
                Some("0.0.0.0/0") => "IPv4",
                Some("::/0") => "IPv6",
                _ => continue,
            };
            findings.add(
                code::LIST_OF_ALL,
                &member.range,
                format!("`{key}` contains all {version} addresses: the gateway {effect}"),
                Some("list only the networks that you mean"),
            );
        }
    }
    let denied: HashMap<String, &Value> =
        members("deny").iter().map(|member| (member.to_json(), member)).collect();
    for member in members("allow") {
        if denied.contains_key(&member.to_json()) {
            findings.add(
                code::ALLOWED_AND_DENIED,
                &member.range,
                "`deny` has the same entry, and the gateway denies a client on both lists",
                Some("remove one of the two entries"),
            );
        }
    }
}

/// The options of the document's store.
fn store<'m>(model: &Model<'m>) -> Option<&'m Value> {
    model.root.get("store").and_then(|store| store.get("redis"))
}

/// Adds a finding if gateways would count alone and their number is unknown.
fn missing_replicas(model: &Model, findings: &mut Findings) {
    let counts_alone =
        |rule: &Value| rule.get("on_error").is_none_or(|on_error| on_error.text() == Some("local"));
    let needs = model.enforced().any(|(_, rule)| rule.is_global && counts_alone(rule.value));
    if let Some(store) = store(model).filter(|store| needs && store.entry("replicas").is_none()) {
        findings.add(
            code::STORE_REPLICAS,
            &head(store),
            "`replicas` is missing: if the store is down, each gateway admits the whole of each global quota",
            Some("write `replicas: auto`, or the number of gateways, even if there is only one"),
        );
    }
}

fn counts_of_replicas(model: &Model, replicas: u64, findings: &mut Findings) {
    let store = store(model);
    let has_global = model.enforced().any(|(_, rule)| rule.is_global);
    let entry = store.and_then(|store| store.entry("replicas"));
    let stated = entry.and_then(|entry| entry.value.whole()).unwrap_or(1);
    let is_counted = entry.is_some_and(|entry| entry.value.text() == Some("auto"));
    if let Some(store) = store
        && has_global
        && !is_counted
        && stated != replicas
    {
        let place = entry.map_or_else(|| head(store), |entry| entry.value.range.clone());
        findings.add(
            code::STORE_REPLICAS,
            &place,
            format!(
                "the store expects {stated} of {replicas} gateways: if the store is down, all gateways together \
                 admit {replicas}/{stated} of each global quota"
            ),
            Some(&format!("write `replicas: {replicas}`")),
        );
    }
    for (_, rule) in model.enforced() {
        let place =
            rule.value.entry("rpu").map_or_else(|| head(rule.value), |entry| entry.value.range.clone());
        if !rule.is_global && (1..replicas).contains(&rule.rpu) {
            let all = rule.rpu.saturating_mul(replicas);
            findings.add(
                code::REPLICAS,
                &place,
                format!(
                    "each of {replicas} gateways counts the rule{} alone: all gateways together admit {all}, not {}",
                    rule.named(),
                    rule.rpu
                ),
                Some("count in a store with `scope: global`, or divide the quota by the number of gateways"),
            );
        }
        let lease = lease(rule);
        let is_too_large = |gateways: u64| gateways > 1 && lease.saturating_mul(gateways) > rule.rpu / 2;
        // Diana itself warns about the number of gateways that the document states.
        if rule.is_global && lease > 0 && is_too_large(replicas) && !is_too_large(stated) {
            let place = rule.value.entry("lease").map_or(place, |entry| entry.value.range.clone());
            let fits = rule.rpu.checked_div(replicas.saturating_mul(2)).unwrap_or(0);
            findings.add(
                code::LEASE_REPLICAS,
                &place,
                format!(
                    "{replicas} gateways together lease more than half of the quota, and near its end one may hold what \
                     others need"
                ),
                Some(&match fits {
                    0 => "leave `lease` out".to_string(),
                    fits => format!("lease at most {fits} units; a few per cent of `rpu` are better"),
                }),
            );
        }
    }
}

/// Adds a finding for each override and plan whose quota is too small for the units that its rule
/// leases. Diana itself compares the rule's own quota.
fn leases(model: &Model, replicas: Option<u64>, findings: &mut Findings) {
    let stated = store(model).and_then(|store| store.get("replicas")).and_then(Value::whole);
    let gateways = replicas.or(stated).unwrap_or(1);
    for (_, rule) in model.enforced().filter(|(_, rule)| rule.is_global) {
        let Some(units) = rule.value.get("lease").and_then(Value::whole) else { continue };
        let named = ["overrides", "plans"].into_iter().filter_map(|key| rule.value.get(key));
        for entry in named.flat_map(Value::entries) {
            let Some(rpu) = entry.value.entry("rpu") else { continue };
            let Some(quota) = rpu.value.whole().filter(|quota| *quota > 0) else { continue };
            // A burst may be larger than `rpu`.
            let has_burst = rule.value.get("burst").or(entry.value.get("burst")).is_some();
            let is_too_large =
                units > quota && !has_burst || gateways > 1 && units.saturating_mul(gateways) > quota / 2;
            if is_too_large {
                findings.add(
                    code::LEASE_REPLICAS,
                    &rpu.value.range,
                    format!(
                        "the rule{} leases {units} units, too many for this quota of {quota}",
                        rule.named()
                    ),
                    Some("write `lease` as a part of each quota, such as `5%`"),
                );
            }
        }
    }
}

/// The units that a gateway fetches ahead.
fn lease(rule: &Rule) -> u64 {
    let Some(lease) = rule.value.get("lease") else {
        return 0;
    };
    let percent = |text: &str| text.trim().strip_suffix('%')?.trim().parse::<u64>().ok();
    let units = match &lease.kind {
        Kind::Text(text) => percent(text).map(|percent| rule.rpu.saturating_mul(percent).div_ceil(100)),
        _ => lease.whole(),
    };
    units.unwrap_or(0).min(rule.rpu)
}

fn memory(model: &Model, configuration: &Configuration, findings: &mut Findings) {
    let (keys, bytes) = configuration.policy.footprint();
    if bytes > MANY_BYTES {
        let max_actors = model.root.get("local").and_then(|local| local.entry("max_actors"));
        let place = max_actors.map_or_else(|| head(model.root), |entry| entry.value.range.clone());
        findings.add(
            code::MEMORY,
            &place,
            format!("the tables may take {} MiB, in {keys} keys of the shared data", bytes >> 20),
            Some("write a smaller `local.max_actors`, the number of actors in each table"),
        );
    }
}
