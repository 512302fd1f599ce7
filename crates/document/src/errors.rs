//! Collects all mistakes in a document, each with its place.

use super::places::{Place, Places};
use diana_base::exclusive::Exclusive;
use diana_base::map::KeySet;
use std::borrow::Cow;
use std::fmt;

/// One mistake. Printed as `limits[0].rules[1].unit: unknown unit …`.
///
/// ```
/// use diana_document::Error;
///
/// let (path, why) = ("limits[0].url".into(), "expected text, found nothing".into());
/// let error = Error { path, why, key: None };
/// assert_eq!(error.to_string(), "limits[0].url: expected text, found nothing");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The place, for example `limits[0].rules[1].unit`; empty for the document itself.
    pub path: String,
    /// The mistake and what is allowed: lower case, no full stop, the user's words in backticks.
    pub why: String,
    /// The key of the object at `path` that is wrong: an unknown or a repeated one.
    pub key: Option<String>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.why) } else { write!(f, "{}: {}", self.path, self.why) }
    }
}

impl std::error::Error for Error {}

/// The most mistakes that are collected; behind them, one says that there are more. A hint costs
/// far more than what it is about, and a server may send any number of mistakes.
pub const MAX_ERRORS: usize = 1_000;

/// Collects mistakes while a document is read: the first thousand, and whether there are more.
///
/// ```
/// use diana_document::{Errors, Node, Value};
///
/// let (value, errors) = (Value::Bool(true), Errors::default());
/// let node = Node::root(&value, &errors);
/// assert_eq!(node.list().map(|list| list.len()), None);
/// assert!(!errors.is_empty());
/// assert_eq!(errors.into_vec()[0].why, "expected a list, found `true`");
/// ```
#[derive(Debug, Default)]
pub struct Errors {
    collected: Exclusive<Collected>,
    pub(super) places: Places,
}

#[derive(Debug, Default)]
struct Collected {
    in_order: Vec<Error>,
    /// The printed form of each mistake, so that the check for duplicates takes constant time.
    known: KeySet,
}

impl Errors {
    /// Adds a mistake. A duplicate at the same place is dropped.
    pub(super) fn add(&self, place: Place, why: impl Into<Cow<'static, str>>) {
        self.keep(place, why.into(), None);
    }

    /// Adds a mistake about a key of the object at this place.
    pub(super) fn add_key(&self, place: Place, key: &str, why: String) {
        self.keep(place, why.into(), Some(key.into()));
    }

    fn keep(&self, place: Place, why: Cow<'static, str>, key: Option<String>) {
        let mut error = Error { path: self.places.path(place), why: why.into_owned(), key };
        self.collected.with(|collected| {
            if collected.in_order.len() > MAX_ERRORS || !collected.known.add(error.to_string().as_bytes()) {
                return;
            }
            if collected.in_order.len() == MAX_ERRORS {
                error = Error { path: String::new(), why: "there are more mistakes".into(), key: None };
            }
            collected.in_order.push(error);
        });
    }

    /// Whether no further mistake is collected, so that none needs a hint.
    pub(super) fn is_full(&self) -> bool {
        self.collected.with(|collected| collected.in_order.len() > MAX_ERRORS) == Some(true)
    }

    /// Whether there is no mistake.
    pub fn is_empty(&self) -> bool {
        self.collected.with(|collected| collected.in_order.is_empty()) == Some(true)
    }

    /// All mistakes, in the order in which they were found.
    pub fn into_vec(self) -> Vec<Error> {
        self.collected.into_inner().in_order
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Node, parse};
    use super::*;

    /// A hint for each of these would take minutes.
    #[test]
    fn mistakes_are_collected_up_to_a_bound() {
        let keys: Vec<String> = (0..100_000).map(|number| format!(r#""limit{number}": 1"#)).collect();
        let document = parse(["{", &*keys.join(","), "}"].concat().as_bytes()).unwrap();
        let errors = Errors::default();
        let mut fields = Node::root(&document, &errors).fields().unwrap();
        fields.require("limits");
        fields.finish();
        let found = errors.into_vec();
        assert_eq!(found.len(), MAX_ERRORS + 1);
        assert_eq!(found[0].why, "unknown key `limit0`, did you mean `limits`?");
        assert_eq!(found[MAX_ERRORS].to_string(), "there are more mistakes");
    }
}
