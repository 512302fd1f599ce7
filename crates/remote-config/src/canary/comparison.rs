//! Compares the decisions of two documents about one request.

/// The result of comparing one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Both documents decide alike.
    Same,
    /// Only the new document refuses the request.
    NewlyRefused,
    /// Only the other document refuses the request.
    NewlyAdmitted,
}
