//! `headers`: a limit's conditions on headers: `{x-plan: free, x-debug: {present: false}}`.
//!
//! Values are the client's bytes and need not be text. [`lookup`] has the rules for
//! a header with several lines. If the host joins lines, a condition holds if any run of pieces
//! that may be a line matches; the condition is certain if all runs match. A value with too many
//! runs matches every condition and is certain of none.

use super::lookup::{self, Lines, Lookup};
use super::{ConditionKind, Matcher};
use crate::request::token::header_name;
use crate::request::{Part, Parts, Request};
use diana_document::Node;

/// The kind `headers`.
pub static KIND: ConditionKind = ConditionKind { key: "headers", compile };

/// The lines of a header. White space around a line is not part of its value (RFC 9110, section
/// 5.5), but hosts keep some of it.
struct Header(Lines);

impl Lookup for Header {
    fn any(&self, request: &Request, test: &mut dyn FnMut(Option<&[u8]>) -> bool) -> bool {
        self.0.any(request, &mut |line| test(line.map(<[u8]>::trim_ascii)))
    }

    fn trims(&self) -> bool {
        true
    }

    fn are_too_many(&self, request: &Request) -> bool {
        self.0.are_too_many(request)
    }

    fn meaning(&self, parts: &Parts) -> String {
        self.0.meaning(parts)
    }
}

fn compile(node: Node, parts: &mut Parts) -> Option<Box<dyn Matcher>> {
    lookup::compile(&node, parts, ("header", KIND.key), read)
}

fn read(name: &str, node: &Node, parts: &mut Parts) -> Option<Box<dyn Lookup>> {
    let name = header_name(name, node, reserved)?;
    Some(Box::new(Header(Lines(parts.intern(Part::Header(name))))))
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
