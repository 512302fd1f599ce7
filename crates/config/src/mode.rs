//! `mode`: of a document, or of one rule.

use diana_document::Node;

/// Whether a rule or a list refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Enforce,
    Shadow,
}

impl Mode {
    /// Reads `mode`. Without a valid value, the rule refuses.
    pub(super) fn compile(node: Option<Node>) -> Mode {
        const CHOICES: [(&str, Mode); 2] = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow)];
        node.and_then(|node| node.choice("mode", &CHOICES)).unwrap_or(Mode::Enforce)
    }
}
