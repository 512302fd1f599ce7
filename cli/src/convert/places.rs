//! Turns the places of a source, where the most specific one decides alone, into limits, where all
//! that match apply.
//!
//! A place that lacks a rule of a more general place is *cut*: a limit there is `exclusive`, and
//! all rules of the place name its url themselves.

use super::draft::{Limit, Object, Rule};
use super::notes::Spot;
use diana_limiter::matcher::pattern::{Pattern, Specificity};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A route, a location or the like.
#[derive(Clone, Debug)]
pub struct Place {
    /// The url of the limits at this place.
    pub url: String,
    /// The conditions: `hosts`, `methods`, `headers` and so on.
    pub conditions: Object,
    /// The rules that count here, as indices.
    pub rules: BTreeSet<usize>,
    /// The line of the source.
    pub from: String,
}

/// A rule that counts at places.
#[derive(Clone, Debug)]
pub struct Counter {
    /// The rule.
    pub rule: Rule,
    /// Further conditions of its requests.
    pub conditions: Object,
    /// The response of its refusals.
    pub response: Option<Value>,
    /// Where the source has it.
    pub spot: Spot,
}

/// The limits of places.
#[derive(Debug, Default)]
pub struct Limits {
    /// The limits.
    pub limits: Vec<Limit>,
    /// The rules that had to be written several times, so that they count apart.
    pub split: BTreeSet<usize>,
    /// The rules whose conditions contradict those of a place, or ask for two things of one name.
    pub contradictory: BTreeSet<usize>,
    /// Pairs of places that may match one request without one containing the other.
    pub overlapping: Vec<(usize, usize)>,
}

/// A place with its pattern.
struct Located<'a> {
    place: &'a Place,
    pattern: Pattern,
    is_cut: bool,
}

impl Located<'_> {
    fn contains(&self, other: &Located) -> bool {
        let is_same = std::ptr::eq(self.place, other.place);
        let has_all = || asks_no_more(&self.place.conditions, &other.place.conditions);
        !is_same && self.pattern.contains(&other.pattern) && has_all()
    }

    /// How specific a limit at this place with further conditions is: an exclusive limit switches
    /// off those of a lower rank.
    fn rank(&self, further: &Object) -> (Specificity, usize) {
        let own = &self.place.conditions;
        let kinds: BTreeSet<&String> = own.keys().chain(further.keys()).collect();
        let count = kinds.into_iter().filter(|kind| *kind != "case_sensitive").count();
        (self.pattern.specificity(), count)
    }
}

/// Whether every request with the conditions `inner` fulfils the conditions `outer`.
#[must_use]
pub fn asks_no_more(outer: &Object, inner: &Object) -> bool {
    outer.iter().all(|(key, outer)| match (inner.get(key), outer) {
        (None, _) => false,
        (Some(inner), _) if inner == outer => true,
        (Some(Value::Array(inner)), Value::Array(outer)) => inner.iter().all(|one| outer.contains(one)),
        // Conditions by name.
        (Some(Value::Object(inner)), Value::Object(outer)) if !outer.contains_key("not") => {
            let is_narrower = |(name, outer): (&String, &Value)| {
                inner.get(name).is_some_and(|inner| inner == outer || excludes_more(inner, outer))
            };
            outer.iter().all(is_narrower)
        }
        _ => false,
    })
}

/// The values that a condition `{not: …}` excludes.
fn excluded(condition: &Value) -> Option<&[Value]> {
    match condition.get("not")? {
        Value::Array(values) => Some(values),
        value => Some(std::slice::from_ref(value)),
    }
}

/// Whether `inner` is a value that `outer` does not exclude, or excludes all that `outer` excludes.
fn excludes_more(inner: &Value, outer: &Value) -> bool {
    let Some(outer) = excluded(outer) else { return false };
    match excluded(inner) {
        Some(inner) => outer.iter().all(|value| inner.contains(value)),
        None => inner.is_string() && outer.iter().all(Value::is_string) && !outer.contains(inner),
    }
}

/// Whether no request fulfils both.
fn excludes(one: &Object, other: &Object) -> bool {
    one.iter().any(|(key, one)| match (one, other.get(key)) {
        (Value::Array(one), Some(Value::Array(other))) => !one.iter().any(|item| other.contains(item)),
        (Value::Object(not), Some(Value::Array(other))) | (Value::Array(other), Some(Value::Object(not))) => {
            let not = not.get("not").and_then(Value::as_array);
            not.is_some_and(|not| other.iter().all(|item| not.contains(item)))
        }
        (Value::Object(one), Some(Value::Object(other))) => one.iter().any(|(name, one)| {
            let Some(other) = other.get(name) else { return false };
            let forbids = |not: &Value, value: &Value| excluded(not).is_some_and(|not| not.contains(value));
            one.is_string() && other.is_string() && one != other || forbids(one, other) || forbids(other, one)
        }),
        _ => false,
    })
}

/// The url, if it is one; otherwise what is wrong with it.
pub fn url(url: String) -> Result<String, String> {
    diana_config::pattern(&url).map(|_| url)
}

/// The limits that count at each place exactly its rules. Their urls are those that [`url`] admits.
#[must_use]
pub fn limits(places: &[Place], counters: &[Counter]) -> Limits {
    let mut spots: Vec<Located> = Vec::new();
    for place in places {
        let pattern = place.url.parse::<Pattern>();
        debug_assert!(pattern.is_ok(), "{}", place.url);
        if let Ok(pattern) = pattern {
            spots.push(Located { place, pattern, is_cut: false });
        }
    }
    let listed = listings(&mut spots, counters);
    let mut found = Limits::default();
    let mut shells: Vec<usize> = (0..spots.len()).collect();
    shells.retain(|index| spots.get(*index).is_some_and(|spot| spot.is_cut));
    let mut drafts: Vec<(Vec<usize>, Limit, bool)> = Vec::new();
    for (rule, (counter, listing)) in counters.iter().zip(&listed).enumerate() {
        let groups = grouped(&spots, listing, Some((rule, counter)));
        if groups.len() > 1 {
            found.split.insert(rule);
        }
        for (number, (places, conditions)) in groups.into_iter().enumerate() {
            let mut keys = Object::new();
            keys.insert("url".into(), urls(&spots, &places));
            keys.extend(conditions);
            if !merge(&mut keys, &counter.conditions) {
                found.contradictory.insert(rule);
                continue;
            }
            if let Some(response) = &counter.response {
                keys.insert("response".into(), response.clone());
            }
            let mut own = counter.rule.clone();
            if number > 0 {
                let name = format!("{}-{}", own.name(), number.saturating_add(1));
                own.keys.insert("name".into(), name.into());
            }
            match drafts.iter_mut().find(|(_, limit, _)| limit.keys == keys) {
                Some((_, limit, _)) => limit.rules.push(own),
                None => {
                    let from = froms(&spots, &places);
                    let is_plain = counter.conditions.is_empty();
                    drafts.push((places, Limit { keys, rules: vec![own], from }, is_plain));
                }
            }
        }
    }
    for (places, limit, is_plain) in &mut drafts {
        let all_cut = places.iter().all(|place| shells.contains(place));
        if *is_plain && all_cut {
            limit.keys.insert("exclusive".into(), json!(true));
            shells.retain(|place| !places.contains(place));
        }
    }
    found.limits = drafts.into_iter().map(|(_, limit, _)| limit).collect();
    for (places, conditions) in grouped(&spots, &shells, None) {
        let mut keys = Object::new();
        keys.insert("url".into(), urls(&spots, &places));
        keys.extend(conditions);
        keys.insert("exclusive".into(), json!(true));
        let from = froms(&spots, &places);
        found.limits.push(Limit { keys, rules: Vec::new(), from });
    }
    found.overlapping = overlapping(&spots);
    found
}

/// The places whose url each rule has to name. Also finds the places that are cut.
fn listings(spots: &mut [Located], counters: &[Counter]) -> Vec<Vec<usize>> {
    // The general places first.
    let around = |spot: &Located| spots.iter().filter(|other| other.contains(spot)).count();
    let mut order: Vec<(usize, usize)> = spots.iter().map(around).zip(0..).collect();
    order.sort_unstable();
    let mut listed: Vec<Vec<usize>> = vec![Vec::new(); counters.len()];
    for (_, index) in order {
        let cut = |spots: &[Located], listed: &[Vec<usize>]| {
            let rules = spots.get(index).map(|spot| &spot.place.rules);
            let reaches = |rule: &usize| visible(spots, counters, listed, *rule, index);
            (0..counters.len())
                .any(|rule| rules.is_some_and(|rules| !rules.contains(&rule)) && reaches(&rule))
        };
        let is_cut = cut(spots, &listed);
        if let Some(spot) = spots.get_mut(index) {
            spot.is_cut = is_cut;
        }
        let Some(spot) = spots.get(index) else { continue };
        for rule in &spot.place.rules {
            if !visible(spots, counters, &listed, *rule, index)
                && let Some(places) = listed.get_mut(*rule)
            {
                places.push(index);
            }
        }
    }
    listed
}

/// Whether a rule counts at a place because it names a more general one, which no cut place between
/// the two, nor this one if it is cut, switches off.
fn visible(
    spots: &[Located],
    counters: &[Counter],
    listed: &[Vec<usize>],
    rule: usize,
    place: usize,
) -> bool {
    let (Some(spot), Some(counter), Some(listed)) = (spots.get(place), counters.get(rule), listed.get(rule))
    else {
        return false;
    };
    listed.iter().filter_map(|index| spots.get(*index)).any(|general| {
        let rank = general.rank(&counter.conditions);
        let stops = |cut: &Located| {
            let is_here = std::ptr::eq(cut.place, spot.place) || cut.contains(spot);
            cut.is_cut && is_here && cut.rank(&Object::new()) > rank
        };
        general.contains(spot) && !spots.iter().any(stops)
    })
}

/// Adds conditions to those of a limit. Returns whether both can hold.
fn merge(keys: &mut Object, further: &Object) -> bool {
    for (kind, condition) in further {
        match (keys.get_mut(kind), condition) {
            (None, _) => drop(keys.insert(kind.clone(), condition.clone())),
            (Some(known), condition) if known == condition => {}
            (Some(Value::Object(known)), Value::Object(further))
                if !known.contains_key("not") && !further.contains_key("not") =>
            {
                for (name, condition) in further {
                    match known.get(name) {
                        Some(other) if other != condition => return false,
                        _ => drop(known.insert(name.clone(), condition.clone())),
                    }
                }
            }
            _ => return false,
        }
    }
    true
}

/// Places by their conditions. Places that differ only in one list, with the same urls, are one
/// group with all items. A place whose rule counts all around it joins the group around it.
fn grouped(
    spots: &[Located],
    places: &[usize],
    rule: Option<(usize, &Counter)>,
) -> Vec<(Vec<usize>, Object)> {
    let mut places = places.to_vec();
    places.sort_by_key(|index| (spots.get(*index).map_or(0, |spot| spot.place.conditions.len()), *index));
    let mut groups: Vec<(Vec<usize>, Object)> = Vec::new();
    for index in places {
        let Some(spot) = spots.get(index) else { continue };
        let joins = |conditions: &Object| {
            let Some((rule, counter)) = rule else { return false };
            let counts_around = |around: &Located| {
                around.contains(spot)
                    && around.place.conditions == *conditions
                    && around.place.rules.contains(&rule)
            };
            // An exclusive limit at the place must not outrank the limit of the group.
            let kinds: BTreeSet<&String> = conditions.keys().chain(counter.conditions.keys()).collect();
            kinds.len() >= spot.rank(&Object::new()).1 && spots.iter().any(counts_around)
        };
        let group = groups
            .iter_mut()
            .find(|(_, conditions)| *conditions == spot.place.conditions || joins(conditions));
        match group {
            Some((places, _)) => places.push(index),
            None => groups.push((vec![index], spot.place.conditions.clone())),
        }
    }
    let mut merged: Vec<(Vec<usize>, Object)> = Vec::new();
    for (places, conditions) in groups {
        let own = urls(spots, &places);
        let joined = merged.iter_mut().find_map(|(known, others)| {
            let united = united(others, &conditions)?;
            (urls(spots, known) == own).then_some((known, others, united))
        });
        match joined {
            Some((known, others, united)) => {
                known.extend(places);
                *others = united;
            }
            None => merged.push((places, conditions)),
        }
    }
    merged
}

/// The conditions that hold if one of two does, if these differ only in one list of items, or in
/// such a list and all but its items.
fn united(one: &Object, other: &Object) -> Option<Object> {
    let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let mut differing = keys.into_iter().filter(|key| one.get(*key) != other.get(*key));
    let (key, None) = (differing.next()?, differing.next()) else { return None };
    let mut united = one.clone();
    match (one.get(key)?, other.get(key)?) {
        (Value::Array(a), Value::Array(b)) => {
            let mut items = a.clone();
            items.extend(b.iter().filter(|item| !a.contains(item)).cloned());
            united.insert(key.clone(), items.into());
        }
        (Value::Object(not), Value::Array(items)) | (Value::Array(items), Value::Object(not)) => {
            let not = not.get("not")?.as_array()?;
            let rest: Vec<Value> = not.iter().filter(|item| !items.contains(item)).cloned().collect();
            match rest.is_empty() {
                true => united.remove(key),
                false => united.insert(key.clone(), json!({"not": rest})),
            };
        }
        _ => return None,
    }
    Some(united)
}

fn urls(spots: &[Located], places: &[usize]) -> Value {
    let mut urls: Vec<&str> = Vec::new();
    for place in places.iter().filter_map(|index| spots.get(*index)) {
        if !urls.contains(&place.place.url.as_str()) {
            urls.push(&place.place.url);
        }
    }
    urls.sort_unstable();
    match urls.as_slice() {
        [only] => json!(only),
        _ => json!(urls),
    }
}

fn froms(spots: &[Located], places: &[usize]) -> Vec<String> {
    let mut from: Vec<String> = Vec::new();
    for place in places.iter().filter_map(|index| spots.get(*index)) {
        if !place.place.from.is_empty() && !from.contains(&place.place.from) {
            from.push(place.place.from.clone());
        }
    }
    from
}

/// Pairs of places with different rules that one request may match, where neither place is more
/// specific.
fn overlapping(spots: &[Located]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for (first, one) in spots.iter().enumerate() {
        for (second, other) in spots.iter().enumerate().skip(first.saturating_add(1)) {
            let is_nested = one.contains(other) || other.contains(one);
            let may_match = one.pattern.overlaps(&other.pattern)
                && !excludes(&one.place.conditions, &other.place.conditions);
            if !is_nested && may_match && one.place.rules != other.place.rules {
                pairs.push((first, second));
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn place(url: &str, hosts: &[&str], rules: &[usize]) -> Place {
        let mut conditions = Object::new();
        if !hosts.is_empty() {
            conditions.insert("hosts".into(), json!(hosts));
        }
        Place { url: url.into(), conditions, rules: rules.iter().copied().collect(), from: String::new() }
    }

    fn shown(places: &[Place], rules: usize) -> Vec<String> {
        let counter = |number: usize| {
            let mut keys = Object::new();
            keys.insert("name".into(), json!(format!("r{number}")));
            let spot = Spot { file: String::new(), line: 1, text: String::new() };
            Counter { rule: Rule { keys, from: Vec::new() }, conditions: Object::new(), response: None, spot }
        };
        let counters: Vec<Counter> = (0..rules).map(counter).collect();
        let line = |limit: &Limit| {
            let names: Vec<&str> = limit.rules.iter().map(Rule::name).collect();
            // By name: whether a map keeps its order depends on the features of the whole build.
            let keys: BTreeMap<&String, &Value> = limit.keys.iter().collect();
            format!("{} {}", json!(keys), names.join(" "))
        };
        limits(places, &counters).limits.iter().map(line).collect()
    }

    #[test]
    fn a_place_that_lacks_a_rule_is_exclusive() {
        let places = [place("/", &[], &[0]), place("/api", &[], &[1]), place("/static", &[], &[])];
        assert_eq!(
            shown(&places, 2),
            [
                r#"{"url":"/"} r0"#,
                r#"{"exclusive":true,"url":"/api"} r1"#,
                r#"{"exclusive":true,"url":"/static"} "#
            ]
        );
    }

    #[test]
    fn a_place_with_a_further_rule_adds_it() {
        let places = [place("/", &[], &[0]), place("/api", &[], &[0, 1])];
        assert_eq!(shown(&places, 2), [r#"{"url":"/"} r0"#, r#"{"url":"/api"} r1"#]);
    }

    #[test]
    fn a_rule_behind_a_cut_names_the_place_again() {
        let places = [place("/", &[], &[0]), place("/a", &[], &[1]), place("/a/b", &[], &[0])];
        assert_eq!(
            shown(&places, 2),
            [
                r#"{"url":["/","/a/b"]} r0"#,
                r#"{"exclusive":true,"url":"/a"} r1"#,
                r#"{"exclusive":true,"url":"/a/b"} "#
            ]
        );
    }

    #[test]
    fn hosts_with_the_same_urls_are_one_limit() {
        let places = [place("/", &["a"], &[0]), place("/", &["b"], &[0]), place("/", &["c"], &[])];
        assert_eq!(shown(&places, 1), [r#"{"hosts":["a","b"],"url":"/"} r0"#]);
    }
}
