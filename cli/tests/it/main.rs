//! The commands as a user runs them, file by file.

mod replay;
