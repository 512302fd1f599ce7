//! Compiles `mode` and `enforce`: the part of the actors that a document or a rule refuses.

use diana_document::{Node, Value};
use diana_limiter::policy::Enforce;

/// The `mode` and `enforce` of a document or a rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    is_shadow: bool,
    enforce: Option<Enforce>,
    at_most: Enforce,
}

impl Mode {
    /// Reads `mode` and `enforce`. A value with a mistake, which is reported, counts as absent.
    pub(super) fn compile(mode: Option<Node>, enforce: Option<Node>) -> Mode {
        const CHOICES: [(&str, bool); 2] = [("enforce", false), ("shadow", true)];
        let is_shadow = mode.and_then(|node| node.choice("mode", &CHOICES)).unwrap_or(false);
        let enforce = enforce.and_then(|node| part(&node));
        Mode { is_shadow, enforce, at_most: Enforce::EVERYBODY }
    }

    /// With at most this part for each rule of a document of this mode.
    pub(super) fn refusing_at_most(self, at_most: Enforce) -> Mode {
        Mode { at_most, ..self }
    }

    /// The part of its actors that a rule of this mode refuses in a document of the mode
    /// `document`. `shadow` wins, so that one word ends all refusals. A rule's own part wins over
    /// the document's.
    pub(super) fn within(self, document: Mode) -> Enforce {
        match self.is_shadow || document.is_shadow {
            true => Enforce::NOBODY,
            false => {
                self.enforce.or(document.enforce).map_or(document.at_most, |part| part.min(document.at_most))
            }
        }
    }

    /// The part of the clients that the lists of a document of this mode refuse.
    pub(super) fn of_lists(self) -> Enforce {
        self.within(self)
    }
}

fn part(node: &Node) -> Option<Enforce> {
    let part = match node.value() {
        Value::Text(text) => Enforce::parse(text),
        _ => None,
    };
    match part {
        None => node.expected("a percentage from `0%` to `100%` such as `5%`, with at most two decimals"),
        part => part,
    }
}
