//! Warnings about rules that do less than they seem to: they never match, skip what they protect,
//! or count beside a rule that they were meant to replace.

use super::code;
use super::finding::Findings;
use super::model::{Condition, Limit, Model, NAMED, Rule};
use super::place::head;
use super::urls;
use crate::source::value::Value;
use diana_document::quoted;
use diana_limiter::matcher::pattern::{Pattern, Segment};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::ptr;

/// The most pairs of limits to compare. Beyond this number, the check is less thorough; otherwise a
/// large document would take minutes.
const MAX_PAIRS: usize = 2_000_000;

/// The most limits of the same url and conditions with which a tier is compared.
const MAX_BASES: usize = 16;

/// Adds the warnings. Returns the places of rules that form a tier, because Diana's own warnings
/// about these rules would repeat the finding. If the model is not whole, another rule may count
/// what no rule of the model counts.
pub fn warnings(model: &Model, is_whole: bool, findings: &mut Findings) -> HashSet<Range<usize>> {
    shadowed_limits(model, findings);
    rules_without_their_actor(model, findings);
    impossible_urls(model, findings);
    impossible_values(model, findings);
    typed_segments(model, findings);
    searches(model, findings);
    sent_methods(model, findings);
    if is_whole {
        skipped_protection(model, findings);
    }
    tiers(model, findings)
}

/// The urls of the first limits that both count the requests of the second one. In other programs
/// only the first or the longest one would apply.
#[must_use]
pub fn overlap(model: &Model) -> Option<[String; 2]> {
    let counting = || model.limits.iter().filter(|limit| !limit.rules.is_empty());
    let contains =
        |general: &Limit, limit: &Limit| general.contains(limit) && general.asks_no_more_than(limit);
    let exclusive: Vec<&Limit> = model.limits.iter().filter(|limit| limit.exclusive).collect();
    let is_off = |general: &Limit, limit: &Limit| {
        exclusive.iter().any(|other| {
            other.patterns != general.patterns && contains(general, other) && contains(other, limit)
        })
    };
    let mut pairs = 0usize;
    for limit in counting() {
        for general in counting().filter(|general| general.patterns != limit.patterns) {
            pairs = pairs.saturating_add(1);
            if pairs > MAX_PAIRS {
                return None;
            }
            if contains(general, limit) && !is_off(general, limit) {
                return Some([general, limit].map(Limit::patterns_text));
            }
        }
    }
    None
}

/// Limits that never apply, because more specific exclusive limits cover all their paths.
fn shadowed_limits(model: &Model, findings: &mut Findings) {
    let exclusive = || model.limits.iter().filter(|limit| limit.exclusive);
    // The paths that a limit without `=` matches are its own and those with one more segment.
    let mut own: HashMap<String, Vec<&Limit>> = HashMap::new();
    let mut below: HashMap<String, Vec<&Limit>> = HashMap::new();
    for (limit, pattern) in exclusive().flat_map(|limit| limit.patterns.iter().map(move |it| (limit, it))) {
        let text = pattern.to_string();
        match text.strip_prefix('=') {
            Some(path) => own.entry(path.into()).or_default().push(limit),
            None if pattern.segments().last() == Some(&Segment::Any) => {
                let parent = text.strip_suffix("/*").unwrap_or_default();
                let parent = if parent.is_empty() { "/" } else { parent };
                below.entry(parent.into()).or_default().push(limit);
            }
            None => {}
        }
    }
    for limit in model.limits.iter().filter(|limit| !limit.rules.is_empty()) {
        let is_covered = |pattern: &Pattern| {
            let path = pattern.to_string();
            let covering = |limits: &HashMap<String, Vec<&Limit>>| {
                let others = limits.get(&path).map_or(&[][..], Vec::as_slice);
                others.iter().any(|other| !ptr::eq(*other, limit) && other.asks_no_more_than(limit))
            };
            !pattern.is_exact() && covering(&own) && covering(&below)
        };
        if limit.patterns.iter().all(is_covered) {
            findings.add(
                code::NEVER_MATCHES,
                &limit.url.range,
                "the limit never applies: each of its paths has a more specific limit with `exclusive: true`",
                Some("remove the limit, or move its rules into the exclusive limits"),
            );
        }
    }
}

/// Rules whose limit excludes all requests with the actor.
fn rules_without_their_actor(model: &Model, findings: &mut Findings) {
    for limit in &model.limits {
        let is_absent = |condition: &&Condition| condition.json == r#"{"present":false}"#;
        let absent: Vec<&Condition> = limit.conditions.iter().filter(is_absent).collect();
        if absent.is_empty() {
            continue;
        }
        for rule in limit.rules.iter().filter(|rule| rule.skips) {
            let excluded = rule.actors.iter().find(|actor| absent.iter().any(|it| names(model, actor, it)));
            if let Some(actor) = excluded {
                findings.add(
                    code::NEVER_MATCHES,
                    &head(rule.value),
                    format!(
                        "the rule{} never counts: its limit excludes requests with the actor `{actor}`, and `missing: skip` \
                         skips all others",
                        rule.named()
                    ),
                    Some("remove the condition, or write `missing: ip`, `missing: share` or `missing: deny`"),
                );
            }
        }
    }
}

/// Urls of other programs, which are valid patterns of Diana's.
fn impossible_urls(model: &Model, findings: &mut Findings) {
    for limit in &model.limits {
        for url in limit.urls() {
            if let Some((why, hint)) = url.text().and_then(urls::doubt) {
                findings.add(code::NEVER_MATCHES, &url.range, why, Some(&hint));
            }
        }
    }
}

/// Limits on integers or UUIDs whose other spellings no limit counts.
fn typed_segments(model: &Model, findings: &mut Findings) {
    let counting = || model.limits.iter().filter(|limit| !limit.rules.is_empty());
    let wide: Vec<(&Limit, &Pattern)> = counting()
        .flat_map(|limit| limit.patterns.iter().map(move |pattern| (limit, pattern)))
        .filter(|(_, pattern)| pattern.segments().contains(&Segment::Any))
        .collect();
    let mut pairs = 0usize;
    for (limit, url) in counting().flat_map(|limit| limit.urls().map(move |url| (limit, url))) {
        let Some(pattern) = url.text().and_then(|url| url.parse::<Pattern>().ok()) else { continue };
        let spellings = pattern.segments().iter().find_map(|segment| match segment {
            Segment::Int => Some("`+7`, `007` and `%207` are numbers"),
            Segment::Uuid => Some("32 digits without hyphens are a UUID"),
            _ => None,
        });
        let Some(spellings) = spellings else { continue };
        let any = pattern.widened(None);
        let counts = |(other, sibling): &(&Limit, &Pattern)| {
            let is_as_long = sibling.segments().len() == any.segments().len();
            is_as_long && sibling.contains(&any) && other.asks_no_more_than(limit)
        };
        pairs = pairs.saturating_add(wide.len());
        if pairs > MAX_PAIRS {
            return;
        }
        if !wide.iter().any(counts) {
            findings.add(
                code::SKIPS_PROTECTION,
                &url.range,
                format!("{spellings} to many backends, and evade the limit"),
                Some(&format!("add a limit on {}, which counts them", quoted(&any.to_string()))),
            );
        }
    }
}

/// Limits on the methods of a search that do not count `QUERY`: one limit, or several ones that
/// differ in their methods only.
fn searches(model: &Model, findings: &mut Findings) {
    let is_methods = |condition: &&Condition| condition.kind == "methods";
    let mut alike: BTreeMap<_, Vec<Option<&Condition>>> = BTreeMap::new();
    for limit in model.limits.iter().filter(|limit| !limit.exclusive && !limit.rules.is_empty()) {
        let others = limit.conditions.iter().filter(|condition| !is_methods(condition));
        let others: Vec<_> = others.map(Condition::canonical_form).collect();
        let methods = limit.conditions.iter().find(is_methods);
        alike.entry((limit.patterns_text(), others)).or_default().push(methods);
    }
    let lacks = |methods: &[&Condition]| {
        let json: String = methods.iter().map(|methods| methods.json.to_ascii_uppercase()).collect();
        let names = |method: &str| json.contains(&format!("\"{method}\""));
        names("GET") && names("POST") && !names("QUERY")
    };
    // Without `methods`, or with `QUERY`, a limit of the same requests counts the searches.
    alike.retain(|_, limits| {
        !limits
            .iter()
            .any(|methods| methods.is_none_or(|it| it.json.to_ascii_uppercase().contains("\"QUERY\"")))
    });
    for methods in alike.values() {
        let methods: Vec<&Condition> = methods.iter().copied().flatten().collect();
        let mut lacking: Vec<&Condition> = methods.iter().copied().filter(|it| lacks(&[it])).collect();
        if lacking.is_empty() && lacks(&methods) {
            lacking.extend(methods.first());
        }
        for methods in lacking {
            findings.add(
                code::QUERY_METHOD,
                &methods.range,
                "the limit does not count `QUERY`, a `GET` with a body (RFC 10008)",
                Some("write `QUERY` as well, or leave `methods` out"),
            );
        }
    }
}

/// Conditions on the method as it was sent, and actors of it. Over HTTP/2, Envoy passes on `post`,
/// which many backends take for `POST`.
fn sent_methods(model: &Model, findings: &mut Findings) {
    for condition in model.limits.iter().flat_map(|limit| &limit.conditions) {
        if condition.kind == "property" && condition.name == "request.method" {
            findings.add(
                code::QUERY_METHOD,
                &condition.range,
                "`request.method` is compared as it was sent: `post` over HTTP/2 is no `POST` here",
                Some("write `methods`, which match in any case"),
            );
        }
    }
    let actors = model.root.get("actors").map_or(&[][..], Value::entries);
    for property in actors.iter().filter_map(|actor| actor.value.entry("property")) {
        let steps: Vec<&str> = property.value.items().iter().filter_map(Value::text).collect();
        if steps == ["request", "method"] {
            findings.add(
                code::QUERY_METHOD,
                &property.value.range,
                "`request.method` counts as it was sent: `post` over HTTP/2 is another actor than `POST`",
                Some("write `method` as the actor, which is the same in any case"),
            );
        }
    }
}

/// Values that no header has: gateways remove spaces around a value, and refuse line breaks in it.
fn impossible_values(model: &Model, findings: &mut Findings) {
    let is_impossible =
        |value: &str| value.trim_matches([' ', '\t']) != value || value.contains(['\r', '\n', '\0']);
    for limit in &model.limits {
        let headers = limit.conditions.iter().filter(|condition| condition.kind == "headers");
        for condition in headers.filter(|condition| condition.value.is_some_and(is_impossible)) {
            findings.add(
                code::NEVER_MATCHES,
                &condition.range,
                format!("no header `{}` can have this value: the limit never applies", condition.name),
                Some("remove line breaks, and spaces around the value"),
            );
        }
        for rule in &limit.rules {
            let is_of_header = matches!(&rule.actors[..], [actor] if model.actor_header(actor).is_some());
            let overrides = rule.value.get("overrides").map_or(&[][..], Value::entries);
            for entry in overrides.iter().filter(|entry| is_of_header && is_impossible(&entry.key)) {
                findings.add(
                    code::NEVER_MATCHES,
                    &entry.key_range,
                    "no header can have this value: the override never applies",
                    Some("remove line breaks, and spaces around the value"),
                );
            }
        }
    }
}

/// Whether a condition is about the part of the request that gives an actor its value.
fn names(model: &Model, actor: &str, condition: &Condition) -> bool {
    let source = |kind: &str| model.actor(actor).and_then(|source| source.get(kind)?.text());
    match condition.kind {
        "headers" => model.actor_header(actor).as_deref() == Some(condition.name.as_str()),
        "query" | "jwt" => source(condition.kind) == Some(condition.name.as_str()),
        _ => false,
    }
}

/// Rules that a client evades by leaving out the actor, if no other rule then counts the request.
fn skipped_protection(model: &Model, findings: &mut Findings) {
    let counts_always = |rule: &Rule| {
        let has_actor = rule.actors.iter().all(|actor| model.always_has(actor));
        rule.enforced && (has_actor || !rule.skips)
    };
    // The least specific limits come first: they apply to most others.
    let mut general: Vec<&Limit> =
        model.limits.iter().filter(|limit| limit.rules.iter().any(counts_always)).collect();
    general.sort_by_key(|limit| {
        (limit.patterns.first().map_or(0, |least| least.segments().len()), limit.conditions.len())
    });
    let mut pairs = 0usize;
    for (limit, rule) in model.enforced().filter(|(_, rule)| rule.skips) {
        let requires = |condition: &Condition| {
            condition.json != r#"{"present":false}"#
                && rule.actors.iter().all(|actor| model.always_has(actor) || names(model, actor, condition))
        };
        if limit.rules.iter().any(counts_always) || limit.conditions.iter().any(requires) {
            continue;
        }
        let mut counts = |other: &&Limit| {
            pairs = pairs.saturating_add(1);
            other.contains(limit) && other.asks_no_more_than(limit)
        };
        if general.iter().any(&mut counts) {
            continue;
        }
        if pairs > MAX_PAIRS {
            return;
        }
        let place = rule.value.entry("missing").map_or(head(rule.value), |entry| entry.value.range.clone());
        findings.add(
            code::SKIPS_PROTECTION,
            &place,
            format!("a request without the actor evades the rule{}, and no other rule counts the request", rule.named()),
            Some("leave `missing` out to count such requests by client address, write `missing: deny`, or add a rule for all requests"),
        );
    }
}

/// Limits that require a value, such as a header's, and allow more than another limit. Both limits
/// count such requests.
fn tiers(model: &Model, findings: &mut Findings) -> HashSet<Range<usize>> {
    let key = |limit: &Limit, conditions: &[&Condition]| {
        let conditions: Vec<String> =
            conditions.iter().map(|it| format!("{} {:?} {}", it.kind, it.name, it.json)).collect();
        format!("{} | {}", limit.patterns_text(), conditions.join(" | "))
    };
    let mut limits: HashMap<String, Vec<&Limit>> = HashMap::new();
    for limit in &model.limits {
        let conditions: Vec<&Condition> = limit.conditions.iter().collect();
        limits.entry(key(limit, &conditions)).or_default().push(limit);
    }
    let mut found = HashSet::new();
    for tier in model.limits.iter().filter(|limit| !limit.exclusive) {
        for tested in tier.conditions.iter().filter(|it| NAMED.contains(&it.kind) && it.value.is_some()) {
            let others: Vec<&Condition> =
                tier.conditions.iter().filter(|it| it.canonical_form() != tested.canonical_form()).collect();
            let bases = limits.get(&key(tier, &others)).map_or(&[][..], Vec::as_slice);
            // Limits that are the same in all conditions are rare.
            let bases = bases.get(..MAX_BASES).unwrap_or(bases);
            let Some((rule, base)) = looser(tier, bases) else {
                continue;
            };
            if !found.insert(rule.value.range.clone()) {
                continue;
            }
            findings.add(
                code::TIER,
                &head(rule.value),
                format!(
                    "the rule{} allows more than{} for requests with `{}`, but both count such requests",
                    rule.named(),
                    if base.named().is_empty() { " another rule".into() } else { base.named() },
                    tested.name
                ),
                Some("move the larger quota into `plans` of the other rule, or write `exclusive: true` in this limit"),
            );
        }
    }
    found
}

/// A rule of the tier that is looser than one of a base limit for the same actor.
fn looser<'m, 'a>(tier: &'m Limit<'a>, bases: &[&'m Limit<'a>]) -> Option<(&'m Rule<'a>, &'m Rule<'a>)> {
    let rules = || bases.iter().flat_map(|base| &base.rules).filter(|base| base.enforced);
    let plain = |rule: &Rule| rule.value.get("cost").map(|cost| cost.to_json());
    tier.rules.iter().filter(|rule| rule.enforced).find_map(|rule| {
        let base = rules().find(|base| {
            rule.actors == base.actors && plain(rule) == plain(base) && rule.is_looser_than(base)
        })?;
        Some((rule, base))
    })
}
