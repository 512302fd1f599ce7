//! Responses that override the document's own: `response` of a limit, of `deny` and of a rule's
//! `missing`.

use super::own_headers::{own_headers, reserved};
use crate::cells::table::Hasher;
use diana_document::Node;
use std::sync::Arc;

/// A configured status and headers. Absent parts come from the enclosing `response`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseOverride {
    /// From 400 to 599.
    pub(super) status: Option<u32>,
    pub(super) headers: Vec<(Box<str>, Box<str>)>,
}

/// The responses of one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleResponses {
    /// The response of the rule's limit.
    pub limit: Option<Arc<ResponseOverride>>,
    /// The response to a request without the actor.
    pub missing: Option<ResponseOverride>,
}

impl ResponseOverride {
    /// A hash of the response, whatever the order of its headers.
    pub(super) fn canonical_hash(&self) -> u64 {
        Hasher::of(&(self.status, Hasher::of_all(&self.headers)))
    }

    /// Reads `{status, headers}`. Each mistake is reported at its place.
    #[must_use]
    pub fn compile(node: &Node) -> Option<ResponseOverride> {
        let mut fields = node.fields()?;
        let status = fields.take("status").and_then(|node| node.whole(400..=599));
        let headers = fields.take("headers").map(|node| own_headers(&node, reserved)).unwrap_or_default();
        fields.belong(&["body", "content_type", "jitter"], "to the `response` at the top, beside `limits`");
        fields.finish();
        let status = status.and_then(|status| u32::try_from(status).ok());
        Some(ResponseOverride { status, headers })
    }
}
