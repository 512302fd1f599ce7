//! Conditions on values that requests have under names: `headers`, `query`, `jwt`, `property`.
//! All conditions of a limit must hold.
//!
//! A name may have several values. One matching value is enough, because the gateway cannot know
//! which value the backend uses. `{present: false}` holds if a line has no value. A condition is
//! certain if it holds for every value.

use super::Matcher;
use super::condition::{self, Condition};
use crate::request::{HeaderLines, PartId, Parts, Request};
use diana_base::sort;
use diana_document::Node;

/// Finds the values under one name.
pub(super) trait Lookup: Send + Sync {
    /// Calls `test` with each value, or with `None` for a line without the value, until `test`
    /// returns `true`. Returns whether it did.
    fn any(&self, request: &Request, test: &mut dyn FnMut(Option<&[u8]>) -> bool) -> bool;

    /// Whether white space around a value is no part of the value.
    fn trims(&self) -> bool {
        false
    }

    /// Whether there are too many values to examine.
    fn are_too_many(&self, _: &Request) -> bool {
        false
    }

    /// The name in canonical text.
    fn canonical_form(&self, parts: &Parts) -> String;
}

/// The values are the lines of a part.
pub(super) struct Lines {
    pub(super) part: PartId,
    /// Whether white space around a line is no part of the value, as in a header (RFC 9110, section
    /// 5.5); hosts keep some of it.
    pub(super) trims: bool,
}

impl Lookup for Lines {
    fn any(&self, request: &Request, test: &mut dyn FnMut(Option<&[u8]>) -> bool) -> bool {
        let mut lines = request.lines(self.part);
        lines.any(|line| test(Some(if self.trims { line.trim_ascii() } else { line })))
    }

    fn trims(&self) -> bool {
        self.trims
    }

    fn are_too_many(&self, request: &Request) -> bool {
        HeaderLines::are_too_many(&request.lines(self.part))
    }

    fn canonical_form(&self, parts: &Parts) -> String {
        parts.canonical_form(self.part)
    }
}

/// Reads a name. A mistake is reported at the node of the condition.
pub(super) type ReadName = fn(&str, &Node, &mut Parts) -> Option<Box<dyn Lookup>>;

/// The conditions of one limit on names of one kind.
struct Lookups(Vec<(Box<dyn Lookup>, Condition)>);

impl Matcher for Lookups {
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

/// Whether the condition holds for at least one value.
fn holds(lookup: &dyn Lookup, condition: &Condition, request: &Request) -> bool {
    let any = |test: &mut dyn FnMut(Option<&[u8]>) -> bool| lookup.any(request, test);
    match condition {
        Condition::Present(true) => any(&mut |value| value.is_some()),
        Condition::Present(false) => !any(&mut |value| value.is_some()) || any(&mut |value| value.is_none()),
        _ if lookup.are_too_many(request) => true,
        _ => any(&mut |value| value.is_some_and(|value| condition.matches(request, value) != Some(false))),
    }
}

/// Whether the condition holds for every value, and no line lacks one.
fn is_certain(lookup: &dyn Lookup, condition: &Condition, request: &Request) -> bool {
    let any = |test: &mut dyn FnMut(Option<&[u8]>) -> bool| lookup.any(request, test);
    match condition {
        Condition::Present(false) => !any(&mut |value| value.is_some()),
        Condition::Present(true) => any(&mut |value| value.is_some()) && !any(&mut |value| value.is_none()),
        _ if lookup.are_too_many(request) => false,
        _ => {
            let fails = |value: Option<&[u8]>| {
                value.and_then(|value| condition.matches(request, value)) != Some(true)
            };
            any(&mut |_| true) && !any(&mut { fails })
        }
    }
}

/// Reads an object of names and conditions. `what` and `key` name it in messages.
pub(super) fn compile(
    node: &Node,
    parts: &mut Parts,
    (what, key): (&str, &str),
    read: ReadName,
) -> Option<Box<dyn Matcher>> {
    let entries = node.entries()?;
    if entries.is_empty() {
        node.fail(format!("no {what} is listed, leave `{key}` out to match every request"));
    }
    let listed = entries.len();
    let (mut conditions, mut known) = (Vec::new(), Vec::<String>::new());
    for (name, node) in entries {
        // Read both before returning, so that the mistakes in each are reported.
        let lookup = read(name, &node, parts);
        let condition = condition::compile(&node, lookup.as_ref().is_some_and(|lookup| lookup.trims()));
        let (Some(lookup), Some(condition)) = (lookup, condition) else { continue };
        let canonical_form = lookup.canonical_form(parts);
        if known.contains(&canonical_form) {
            // Only a header has a name of several spellings.
            node.fail("this header is given twice, names of headers ignore case");
        } else {
            known.push(canonical_form);
            conditions.push((lookup, condition));
        }
    }
    let complete = listed > 0 && conditions.len() == listed;
    complete.then(|| Box::new(Lookups(conditions)) as Box<dyn Matcher>)
}

#[cfg(test)]
mod tests;
