//! How all kinds of actor treat values: empty ones, configured ones, and several for one actor.

/// Appends a value. Returns `false` for an empty one.
pub(super) fn append(value: &[u8], key: &mut Vec<u8>) -> bool {
    key.extend(value);
    !value.is_empty()
}

/// A configured value that is compared byte by byte.
pub(super) fn text(value: &[u8]) -> Result<Vec<u8>, String> {
    if value.is_empty() { Err("an empty value is never counted".into()) } else { Ok(value.to_vec()) }
}

/// The value, if there is at least one and all are equal.
pub(super) fn only<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
