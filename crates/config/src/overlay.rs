//! A document that is laid over another one: a remote document over the local one, or a route's
//! document over the listener's.

use super::keys::{REMOTE_KEYS, STORE_KEYS};
use super::top::{Take, Top, is_limit, is_wrapped};
use diana_document::{Error, Fields, Node, Value};

/// The kind of the upper document, and with it the name of the lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlay {
    /// A remote document over the local one.
    Remote,
    /// A route's document over the listener's.
    Route,
}

/// What a reader knows of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// A document that stands alone.
    Whole,
    /// A document that stands alone, and whose global rules count locally.
    Locally,
    /// One document over another one.
    Over(Overlay),
    /// The upper one of two documents, without the lower one.
    Upper,
}

const NOT_OVER_REMOTE: &str = "a route's document is laid over a listener's document, which `remote` would change: \
    leave `remote` out, or the documents of routes";

impl Overlay {
    fn lower(self) -> &'static str {
        match self {
            Overlay::Remote => "the local document's ",
            Overlay::Route => "the listener's document's ",
        }
    }

    /// A mistake in the lower document.
    pub(super) fn of_lower(self, error: Error) -> Error {
        Error { path: [self.lower(), &error.path].concat(), ..error }
    }

    /// The reason why a global rule needs another lower document.
    pub(super) fn no_store(self) -> &'static str {
        match self {
            Overlay::Remote => {
                "a global rule needs a store, and there is none: add `store` to the local document"
            }
            Overlay::Route => {
                "a global rule needs a store, and there is none: add `store` to the listener's document"
            }
        }
    }

    /// The top level of the upper document in any of the three forms.
    pub(super) fn top(self, node: Node) -> Option<Top> {
        let Value::Object(entries) = node.value() else {
            return Top::of(node);
        };
        if entries.is_empty() {
            node.fail(match self {
                Overlay::Remote => {
                    "it sets nothing: expected `limits`, or another key that replaces the local document's"
                }
                Overlay::Route => {
                    "it sets nothing: expected `limits`, or another key that replaces the listener's document's"
                }
            });
            return None;
        }
        if is_wrapped(entries) || is_limit(entries) {
            return Top::of(node);
        }
        let mut fields = node.fields()?;
        let [store, remote] = ["store", "remote"].map(|key| format!("to {}`{key}`", self.lower()));
        fields.belong(STORE_KEYS, store);
        fields.belong(REMOTE_KEYS, remote);
        let limits = fields.take("limits");
        let refuse = match self {
            Overlay::Remote => of_local as Take,
            Overlay::Route => of_listener as Take,
        };
        Some(Top::rest(fields, limits, refuse))
    }

    /// Refuses what the lower document must not have. The value is not read.
    pub(super) fn restrict(self, lower: &Top) {
        if let (Overlay::Route, Some(node)) = (self, &lower.remote) {
            node.fail(NOT_OVER_REMOTE);
        }
    }
}

/// Refuses a key that only the local document may have.
fn of_local<'a>(fields: &mut Fields<'a>, key: &'static str) -> Option<Node<'a>> {
    refuse(fields, key, ["a remote document cannot say ", ": leave that to the local one"])
}

/// Refuses a key that only the listener's document may have.
fn of_listener<'a>(fields: &mut Fields<'a>, key: &'static str) -> Option<Node<'a>> {
    refuse(fields, key, ["a route's document cannot say ", ": leave that to the listener's"])
}

/// Reports the key without reading its value.
fn refuse<'a>(fields: &mut Fields<'a>, key: &'static str, [who, lower]: [&str; 2]) -> Option<Node<'a>> {
    let node = fields.take_unoffered(key)?;
    let what = match key {
        "remote" => "where documents come from",
        "store" => "where counts are kept",
        "inspect" => "who may look at counts",
        "tickets" => "who may read refusal tickets",
        _ => "how much memory is used",
    };
    node.fail([who, what, lower].concat());
    None
}
