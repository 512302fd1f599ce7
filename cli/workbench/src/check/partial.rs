//! A document without the parts that have mistakes, so that one mistake does not hide the warnings
//! about everything else.

use crate::source::value::{Kind, Value};
use diana_document::{Error, nearest};
use std::collections::{BTreeMap, HashSet};

/// Keys at the top of a document that do not decide which rules apply to a request.
const INDEPENDENT: [&str; 9] =
    ["access_log", "allow", "deny", "headers", "ip", "local", "remote", "response", "store"];

/// A limit without its mistakes.
#[derive(Default)]
struct Cut {
    is_whole: bool,
    rules: HashSet<usize>,
}

/// The document without the rules, the limits and the keys at the top that have mistakes; `None`
/// if a mistake leaves open which rules apply to a request.
pub fn without_mistakes(root: &Value, errors: &[Error]) -> Option<Value> {
    let limits = root.get("limits").unwrap_or(root);
    let (mut cuts, mut lacks) = (BTreeMap::<usize, Cut>::new(), HashSet::new());
    for error in errors {
        let path = error.path.as_str();
        let of_limits = if root.get("limits").is_some() { path.strip_prefix("limits") } else { Some(path) };
        if let Some((index, rest)) = of_limits.and_then(indexed) {
            let cut = cuts.entry(index).or_default();
            if let Some((rule, _)) = rest.strip_prefix(".rules").and_then(indexed) {
                cut.rules.insert(rule);
            } else if error.key.is_some() || limits.items().get(index)?.get("exclusive").is_some() {
                // The limit may replace others.
                return None;
            } else {
                cut.is_whole = true;
            }
        } else {
            lacks.insert(independent(root, error)?);
        }
    }
    let mut value = root.clone();
    if let Kind::Object(entries) = &mut value.kind {
        entries.retain(|entry| !nearest(&entry.key, &INDEPENDENT).is_some_and(|key| lacks.contains(key)));
    }
    let items = match &mut value.kind {
        Kind::List(items) => Some(items),
        Kind::Object(entries) => entries.iter_mut().find(|entry| entry.key == "limits").and_then(|entry| {
            let Kind::List(items) = &mut entry.value.kind else { return None };
            Some(items)
        }),
        _ => None,
    };
    let items = items?;
    let limits = std::mem::take(items).into_iter().enumerate();
    items.extend(limits.filter_map(|(index, limit)| match cuts.get(&index) {
        Some(cut) => rest(limit, cut),
        None => Some(limit),
    }));
    Some(value)
}

/// A limit without the rules that have mistakes; `None` if nothing is left.
fn rest(mut limit: Value, cut: &Cut) -> Option<Value> {
    let Kind::Object(entries) = &mut limit.kind else {
        return None;
    };
    let is_exclusive = entries.iter().any(|entry| entry.key == "exclusive");
    for entry in entries.iter_mut().filter(|entry| entry.key == "rules") {
        if let Kind::List(rules) = &mut entry.value.kind {
            let all = std::mem::take(rules).into_iter().enumerate();
            rules.extend(all.filter(|(index, _)| !cut.rules.contains(index)).map(|(_, rule)| rule));
        }
    }
    entries.retain(|entry| entry.key != "rules" || !entry.value.items().is_empty());
    let has_rules = entries.iter().any(|entry| entry.key == "rules");
    (!cut.is_whole && (has_rules || is_exclusive)).then_some(limit)
}

/// The index at the start of a path, and the rest of the path.
fn indexed(path: &str) -> Option<(usize, &str)> {
    let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, rest))
}

/// The key at the top of the document that has a mistake, if rules do not depend on the key.
fn independent(root: &Value, error: &Error) -> Option<&'static str> {
    let key = match error.path.split(['.', '[']).next().unwrap_or_default() {
        "" => error.key.as_deref()?,
        key => key,
    };
    root.entry(key)?;
    nearest(key, &INDEPENDENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::json;

    /// The document without its mistakes, as JSON.
    fn partial(text: &str) -> Option<String> {
        let errors = diana_config::compile(text.as_bytes()).err().unwrap();
        let partial = without_mistakes(&json::value(text).unwrap(), &errors)?;
        let json = partial.to_json();
        assert!(diana_config::compile(json.as_bytes()).is_ok(), "{json}");
        Some(json)
    }

    #[test]
    fn what_has_no_mistake_is_kept() {
        let right = r#"{"url":"/","rules":[{"rpu":1,"unit":"day"}]}"#;
        let both = r#"{"limits":[{"url":"/","rules":[{"rpu":1},{"rpu":1,"unit":"day"}]}]}"#;
        assert_eq!(partial(both), Some(format!(r#"{{"limits":[{right}]}}"#)));
        let first = format!(r#"{{"limits":[{{"url":7,"rules":[{{"rpu":1,"unit":"day"}}]}},{right}]}}"#);
        assert_eq!(partial(&first), Some(format!(r#"{{"limits":[{right}]}}"#)));
        let list = format!(r#"[{{"url":"/a","rules":[{{"rpu":1}}]}},{right}]"#);
        assert_eq!(partial(&list), Some(format!("[{right}]")));
        let exclusive = r#"{"limits":[{"url":"/","exclusive":true,"rules":[{"rpu":1}]}]}"#;
        assert_eq!(partial(exclusive), Some(r#"{"limits":[{"url":"/","exclusive":true}]}"#.into()));
        let top = format!(r#"{{"limits":[{right}],"accesslog":"all","ip":{{"trusted_hops":99}}}}"#);
        assert_eq!(partial(&top), Some(format!(r#"{{"limits":[{right}]}}"#)));
    }

    #[test]
    fn nothing_is_judged_if_a_mistake_may_change_which_rules_apply() {
        for text in [
            r#"{"limits": [{"url": "/", "exclusve": true}, {"url": 7}]}"#,
            r#"{"limits": [{"url": 7, "exclusive": true}]}"#,
            r#"{"limits": [], "modus": "shadow"}"#,
            r#"{"limits": [], "mode": "shadw"}"#,
            r#"{"limits": [], "plan": 7}"#,
            r#"{"url": "/", "rules": [{"rpu": 1}]}"#,
        ] {
            assert_eq!(partial(text), None, "{text}");
        }
    }
}
