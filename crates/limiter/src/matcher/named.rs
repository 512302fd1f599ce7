//! Conditions on values that requests have under names: `headers`, `query`, `jwt`, `property`,
//! `request_json`.
//!
//! All conditions of a limit must hold. A name may have several values. One matching value is
//! enough, because the gateway cannot know which value the backend uses. `{present: false}` and
//! `{not: …}` hold if a line has no value. A condition is certain if it holds for every value. A
//! list is one value, for which the condition holds if it holds for one of its elements.

use super::{Condition, ConditionError, Matcher};
use crate::request::{Parts, Request};
use diana_base::sort;

/// Finds the values under one name.
pub trait Lookup: Send + Sync {
    /// Calls `test` with the values of each line, until `test` returns `true`. Returns whether it
    /// did. A line without the value has none, and one whose value is a list has its elements.
    fn any(&self, request: &Request, test: &mut dyn FnMut(&[&[u8]]) -> bool) -> bool;

    /// Whether white space around a value is no part of the value.
    fn trims(&self) -> bool {
        false
    }

    /// Whether there may be a value that the host could not read.
    fn is_unread(&self, _: &Request) -> bool {
        false
    }

    /// Whether there are too many values to examine, or one is unread.
    fn are_too_many(&self, _: &Request) -> bool {
        false
    }

    /// The name in canonical text.
    fn canonical_form(&self, parts: &Parts) -> String;
}

/// The conditions of one limit on names of one kind.
///
/// ```
/// use diana_limiter::matcher::{Condition, ConditionError, Lines, Lookup, Matcher, Named};
/// use diana_limiter::request::{Part, Parts, Request, Values};
///
/// let mut parts = Parts::default();
/// let plan: Box<dyn Lookup> = Box::new(Lines::header("X-Plan", &mut parts)?);
/// let is_free = Named::new(vec![(plan, Condition::Exact(b"free"[..].into()))])?;
/// let request = Values::default().with(Part::Header("x-plan".into()), "free");
/// assert!(is_free.matches(&Request::new(&request, &parts)));
/// # Ok::<(), ConditionError>(())
/// ```
pub struct Named(Vec<(Box<dyn Lookup>, Condition)>);

impl Named {
    /// All of these conditions.
    pub fn new(conditions: Vec<(Box<dyn Lookup>, Condition)>) -> Result<Named, ConditionError> {
        if conditions.is_empty() { Err(ConditionError::Anything) } else { Ok(Named(conditions)) }
    }
}

impl Matcher for Named {
    fn canonical_form(&self, parts: &Parts) -> String {
        let each = |(lookup, condition): &(Box<dyn Lookup>, Condition)| {
            [lookup.canonical_form(parts), condition.canonical_form()].concat()
        };
        let mut conditions: Vec<String> = self.0.iter().map(each).collect();
        sort::sort_by_key(&mut conditions, Clone::clone);
        conditions.join(" ")
    }

    fn matches(&self, request: &Request) -> bool {
        self.0.iter().all(|(lookup, condition)| holds(&**lookup, condition, request))
    }

    fn is_certain(&self, request: &Request) -> bool {
        self.0.iter().all(|(lookup, condition)| is_certain(&**lookup, condition, request))
    }
}

/// Whether the condition holds for at least one line.
fn holds(lookup: &dyn Lookup, condition: &Condition, request: &Request) -> bool {
    let any = |test: &mut dyn FnMut(&[&[u8]]) -> bool| lookup.any(request, test);
    match condition {
        Condition::Present(true) => any(&mut |values| !values.is_empty()) || lookup.is_unread(request),
        Condition::Present(false) => {
            !any(&mut |values| !values.is_empty()) || any(&mut |values| values.is_empty())
        }
        _ if lookup.are_too_many(request) => true,
        _ => {
            let by_absence = matches!(condition, Condition::NoneOf(_));
            let holds = |values: &[&[u8]]| match values {
                [] => by_absence,
                _ => condition.matches(request, values) != Some(false),
            };
            by_absence && !any(&mut |_| true) || any(&mut { holds })
        }
    }
}

/// Whether the condition holds for every line, and no line lacks a value.
fn is_certain(lookup: &dyn Lookup, condition: &Condition, request: &Request) -> bool {
    let any = |test: &mut dyn FnMut(&[&[u8]]) -> bool| lookup.any(request, test);
    match condition {
        Condition::Present(false) => !any(&mut |values| !values.is_empty()) && !lookup.is_unread(request),
        Condition::Present(true) => {
            any(&mut |values| !values.is_empty()) && !any(&mut |values| values.is_empty())
        }
        _ if lookup.are_too_many(request) => false,
        _ => {
            let fails =
                |values: &[&[u8]]| values.is_empty() || condition.matches(request, values) != Some(true);
            any(&mut |_| true) && !any(&mut { fails })
        }
    }
}
