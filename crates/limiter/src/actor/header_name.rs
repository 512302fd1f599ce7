//! The names of headers that an actor may read.

use crate::request::token;
use diana_document::Node;

/// Reads a header name and returns it in lower case. Headers that another kind of source reads are
/// mistakes.
pub(super) fn header_name(node: &Node) -> Option<Box<str>> {
    token::header_name(node.text()?, node, |name| match name {
        // The raw header keeps its port and its case, so one host would be many actors.
        ":authority" | "host" => Some("the actor `host` reads the host"),
        ":method" => Some("the actor `method` reads the method"),
        ":path" => Some("the actors `path` and `query` read the url"),
        _ => None,
    })
}
