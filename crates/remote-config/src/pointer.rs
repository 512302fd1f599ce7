//! JSON pointers (RFC 6901), which lead to a document within a reply.

use diana_document::Value;

/// Parses a JSON pointer into its names (RFC 6901 §3, §4).
///
/// ```
/// use diana_remote_config::pointer;
///
/// assert_eq!(pointer("/data/0/a~1b"), Some(vec!["data".into(), "0".into(), "a/b".into()]));
/// assert_eq!(pointer(""), Some(Vec::new()), "the whole reply");
/// assert_eq!(pointer("data"), None);
/// ```
#[must_use]
pub fn pointer(text: &str) -> Option<Vec<String>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let name = |part: &str| {
        let is_escaped = |at: &str| at.starts_with(['0', '1']);
        part.split('~').skip(1).all(is_escaped).then(|| part.replace("~1", "/").replace("~0", "~"))
    };
    text.strip_prefix('/')?.split('/').map(name).collect()
}

/// The value at this pointer (RFC 6901 §4). A key that occurs twice is ambiguous and has no value.
pub(crate) fn value_at(value: Value, names: &[String]) -> Option<Value> {
    let Some((name, rest)) = names.split_first() else {
        return Some(value);
    };
    let inner = match value {
        Value::Object(entries) => {
            let mut found = entries.into_iter().filter(|(key, _)| key == name);
            let (_, inner) = found.next()?;
            if found.next().is_some() {
                return None;
            }
            inner
        }
        Value::List(items) => {
            let is_index = name == "0" || !name.starts_with(['0', '+']);
            let index = name.parse::<usize>().ok().filter(|_| is_index)?;
            items.into_iter().nth(index)?
        }
        _ => return None,
    };
    value_at(inner, rest)
}
