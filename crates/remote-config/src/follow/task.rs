//! A worker's next task, and the result of a poll.

use crate::reply::FetchError;

/// A document with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Counts the documents of this source, from one.
    pub generation: u64,
    /// The document as the server sent it.
    pub document: Vec<u8>,
}

/// What a worker has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Lay this document over the local configuration and activate it.
    Activate(Snapshot),
    /// Fall back to the local configuration.
    Local {
        /// Whether this worker polls, and therefore logs the fallback.
        logs: bool,
    },
}

/// The result of a poll, for metrics and the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PollResult {
    /// The server has a new document. All workers activate the document under this number.
    NewDocument(u64),
    /// The server still has the same document. `true` if this reply ends a time without contact.
    Unchanged(bool),
    /// The server has the active document again, in place of a refused one.
    Withdrawn,
    /// The document is refused, and why; `None` if the reason has been logged before.
    Refused(Option<String>),
    /// No contact, and why; `None` if the reason has been logged since the last contact.
    Failed(Option<FetchError>),
    /// Another worker polls by now, or the shared data cannot be written.
    Late,
}
