//! The width that lines must keep, and lines that do not.

/// Columns of a comment or of a line of prose.
pub const WIDTH: usize = 100;

/// A line that is too long.
pub struct TooLong {
    pub line: usize,
    pub columns: usize,
    pub what: &'static str,
}
