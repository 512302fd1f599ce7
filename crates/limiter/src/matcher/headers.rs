//! `headers`: a limit's conditions on headers: `{x-plan: free, x-debug: {present: false}}`.
//!
//! Values are the client's bytes and need not be text. [`lookup`] has the rules for
//! a header with several lines. If the host joins lines, a condition holds if any run of pieces
//! that may be a line matches; the condition is certain if all runs match. A value with too many
//! runs matches every condition and is certain of none.

use super::lookup::{self, Lines, Lookup};
use super::{ConditionKind, Matcher};
use crate::request::token::header_name;
use crate::request::{Part, Parts};
use diana_document::Node;

/// The kind `headers`.
pub static KIND: ConditionKind = ConditionKind { key: "headers", compile };

fn compile(node: Node, parts: &mut Parts) -> Option<Box<dyn Matcher>> {
    lookup::compile(&node, parts, ("header", KIND.key), read)
}

fn read(name: &str, node: &Node, parts: &mut Parts) -> Option<Box<dyn Lookup>> {
    let name = header_name(name, node, reserved)?;
    Some(Box::new(Lines { part: parts.intern(Part::Header(name)), trims: true }))
}

fn reserved(name: &str) -> Option<&'static str> {
    match name {
        ":method" => Some("`methods` matches it"),
        ":authority" | "host" => Some("`hosts` matches it"),
        ":path" => Some("`url` matches it"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
