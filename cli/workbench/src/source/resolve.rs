//! Gives YAML values the types that their reader gives them.

use super::scalar::{Dialect, typed};
use super::value::{Entry, Kind, Value};
use std::collections::HashSet;

/// Gives plain YAML scalars the types of a dialect.
pub fn resolve(value: &mut Value, dialect: Dialect) {
    match &mut value.kind {
        Kind::Plain(text) => value.kind = typed(text, dialect),
        Kind::List(items) => items.iter_mut().for_each(|item| resolve(item, dialect)),
        Kind::Object(entries) => {
            if dialect == Dialect::Kubernetes {
                merge(entries);
            }
            entries.iter_mut().for_each(|entry| resolve(&mut entry.value, dialect));
        }
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) => {}
    }
}

/// Replaces `<<` by the entries of its value that the object lacks.
fn merge(entries: &mut Vec<Entry>) {
    if !entries.iter().any(|entry| entry.key == "<<") {
        return;
    }
    let (merged, mut own): (Vec<Entry>, Vec<Entry>) =
        std::mem::take(entries).into_iter().partition(|entry| entry.key == "<<");
    let mut known: HashSet<String> = own.iter().map(|entry| entry.key.clone()).collect();
    for entry in merged {
        let sources = match entry.value.kind {
            Kind::List(items) => items,
            _ => vec![entry.value],
        };
        for mut source in sources {
            if let Kind::Object(entries) = &mut source.kind {
                merge(entries);
                own.extend(entries.drain(..).filter(|entry| known.insert(entry.key.clone())));
            }
        }
    }
    *entries = own;
}
