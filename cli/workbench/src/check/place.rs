//! The place of a mistake: from a path such as `limits[0].rules[1].unit` to a range of the text.

use crate::source::value::{Entry, Value};
use diana_document::{Error, quoted};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

/// Objects with more entries than this get an index, because each entry may have a mistake.
const MAX_SEARCHED: usize = 32;

/// Finds places in a document.
pub struct Places<'a> {
    root: &'a Value,
    /// Whether the reader takes the first of repeated keys, as Diana does, or the last one, as
    /// Envoy's conversion of YAML does.
    takes_first: bool,
    indexes: RefCell<HashMap<*const Value, HashMap<String, usize>>>,
}

impl<'a> Places<'a> {
    /// The places of a document.
    #[must_use]
    pub fn new(root: &'a Value, takes_first: bool) -> Places<'a> {
        Places { root, takes_first, indexes: RefCell::default() }
    }

    /// The document.
    #[must_use]
    pub fn root(&self) -> &'a Value {
        self.root
    }

    /// The bytes that a mistake is about. For a repeated key, these are the bytes of the second
    /// one.
    #[must_use]
    pub fn of(&self, error: &Error) -> Range<usize> {
        let (value, entry) = self.at(&error.path);
        let Some(key) = &error.key else {
            return shown(value, entry);
        };
        let mut named = value.entries().iter().filter(|entry| entry.key == *key);
        let first = named.next();
        // An unknown key that is repeated is both.
        let second = named.next().filter(|_| error.why.ends_with("is given twice"));
        second.or(first).map_or_else(|| shown(value, entry), |entry| entry.key_range.clone())
    }

    /// The value at a path, and its entry if it is the value of a key. If the path does not exist,
    /// the innermost value along the path.
    #[must_use]
    pub fn at(&self, path: &str) -> (&'a Value, Option<&'a Entry>) {
        let (mut value, mut entry, mut rest) = (self.root, None, path);
        while !rest.is_empty() {
            let Some((next, next_entry, after)) = self.step(value, rest) else {
                break;
            };
            (value, entry, rest) = (next, next_entry, after);
        }
        (value, entry)
    }

    fn step<'p>(&self, value: &'a Value, path: &'p str) -> Option<(&'a Value, Option<&'a Entry>, &'p str)> {
        if let Some(rest) = path.strip_prefix('[')
            && let Some((index, rest)) = rest.split_once(']')
            && let Ok(index) = index.parse::<usize>()
        {
            return Some((value.items().get(index)?, None, rest));
        }
        let (step, rest) = if path.starts_with('[') {
            // The key may contain `"]`.
            let steps = value.entries().iter().map(|entry| bracketed(&entry.key));
            let step = steps.filter(|step| path.starts_with(step)).max_by_key(String::len)?;
            let rest = path.get(step.len()..)?;
            (step, rest)
        } else {
            let path = path.strip_prefix('.').unwrap_or(path);
            let (step, rest) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
            (step.to_string(), rest)
        };
        let entry = self.entry(value, &step)?;
        Some((&entry.value, Some(entry), rest))
    }

    fn entry(&self, value: &'a Value, step: &str) -> Option<&'a Entry> {
        let entries = value.entries();
        let is_named =
            |entry: &&Entry| entry.key == step || step.starts_with('[') && bracketed(&entry.key) == step;
        if entries.len() <= MAX_SEARCHED {
            return match self.takes_first {
                true => entries.iter().find(is_named),
                false => entries.iter().rev().find(is_named),
            };
        }
        let mut indexes = self.indexes.borrow_mut();
        let index = indexes.entry(value).or_insert_with(|| {
            let mut index = HashMap::new();
            for (at, entry) in entries.iter().enumerate() {
                for step in [entry.key.clone(), bracketed(&entry.key)] {
                    match self.takes_first {
                        true => index.entry(step).or_insert(at),
                        false => index.entry(step).insert_entry(at).into_mut(),
                    };
                }
            }
            index
        });
        entries.get(*index.get(step)?)
    }
}

/// The step of a path to a key that is not a plain word.
fn bracketed(key: &str) -> String {
    format!("[{}]", quoted(key).replace('`', "\""))
}

/// A list or an object of several lines is shown by its key, or by its start.
fn shown(value: &Value, entry: Option<&Entry>) -> Range<usize> {
    let is_large = !value.entries().is_empty() || !value.items().is_empty();
    match entry {
        Some(entry) if is_large => entry.key_range.clone(),
        _ => head(value),
    }
}

/// The first key of an object, the first item of a list, or the whole of another value.
#[must_use]
pub fn head(value: &Value) -> Range<usize> {
    if let Some(entry) = value.entries().first() {
        // `{` precedes the first key.
        return value.range.start..entry.key_range.end.max(value.range.start);
    }
    match value.items().first() {
        Some(item) => value.range.start..head(item).end.max(value.range.start),
        None => value.range.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::json;

    fn place<'t>(text: &'t str, path: &str, key: Option<&str>, why: &str) -> &'t str {
        let root = json::value(text).unwrap();
        let error = Error { path: path.into(), why: why.into(), key: key.map(Into::into) };
        text.get(Places::new(&root, true).of(&error)).unwrap()
    }

    #[test]
    fn a_path_leads_to_the_value_or_the_key() {
        let text =
            r#"{"limits": [{"url": 7, "x": 1, "x": 2, "headers": {"a.b": 8, "c\"]": 9}}, 5], "x": []}"#;
        assert_eq!(place(text, "limits[0].url", None, ""), "7");
        assert_eq!(place(text, "limits[0].headers[\"a.b\"]", None, ""), "8");
        assert_eq!(place(text, "limits[0].headers[\"c\"]\"]", None, ""), "9");
        assert_eq!(place(text, "limits[1]", None, ""), "5");
        assert_eq!(place(text, "limits[0]", None, "`rules` is missing"), "{\"url\"");
        assert_eq!(place(text, "limits[0]", Some("x"), "unknown key `x`"), "\"x\"");
        assert_eq!(place(text, "limits", None, ""), "\"limits\"");
        assert_eq!(place(text, "x", None, ""), "[]");
        assert_eq!(place(text, "", None, ""), "{\"limits\"");
        let at = |why: &str| {
            let root = json::value(text).unwrap();
            let error = Error { path: "limits[0]".into(), why: why.into(), key: Some("x".into()) };
            Places::new(&root, true).of(&error).start
        };
        assert_eq!(at("`x` is given twice"), at("unknown key `x`") + "\"x\": 1, ".len());
    }

    #[test]
    fn a_large_object_is_searched_as_a_small_one_is() {
        let keys: Vec<String> = (0..100).map(|key| format!("\"k{}\": {key}", key % 50)).collect();
        let root = json::value(&format!("{{{}}}", keys.join(","))).unwrap();
        let at = |takes_first| Places::new(&root, takes_first).at("k7").0.whole();
        assert_eq!((at(true), at(false)), (Some(7), Some(57)));
    }
}
