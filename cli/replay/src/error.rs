//! Why a log cannot be replayed.

use std::io;

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The document has mistakes, or is no JSON.
    #[error("{0}")]
    Document(String),
    /// A log cannot be opened.
    #[error("cannot read `{file}`")]
    Open {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The format that the caller has named is wrong.
    #[error("{0}")]
    Format(String),
    /// No known format reads the log.
    #[error("cannot detect the format of the log, which begins with `{line}`: {advice}")]
    UnknownFormat {
        /// The first line, safe for a terminal.
        line: String,
        /// What to pass as the format.
        advice: String,
    },
    /// The thread that reads the log cannot start.
    #[error("{0}")]
    Thread(io::Error),
    /// The thread that reads the log has panicked.
    #[error("the reader of the log has failed: this is a bug")]
    Reader,
}
