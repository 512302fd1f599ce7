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

/// Collects mistakes while a document is read.
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
        let error = Error { path: self.places.path(place), why: why.into_owned(), key };
        self.collected.with(|collected| {
            if collected.known.add(error.to_string().as_bytes()) {
                collected.in_order.push(error);
            }
        });
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
