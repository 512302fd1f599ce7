//! Markdown files: prose is wrapped; tables, code and lines of one link may be wider.

use super::paragraph::{self, LineKind, columns};
use super::width::{TooLong, WIDTH};

/// The text with all paragraphs wrapped.
pub fn wrapped(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut wrapped = paragraph::wrapped(&lines, WIDTH).join("\n");
    if text.ends_with('\n') {
        wrapped.push('\n');
    }
    wrapped
}

/// Lines of prose that are too long.
pub fn too_long(text: &str) -> Vec<TooLong> {
    let lines: Vec<&str> = text.lines().collect();
    let prose = lines.iter().zip(paragraph::kinds(&lines)).enumerate();
    prose
        .filter(|(_, (line, kind))| {
            *kind == LineKind::Prose && columns(line) > WIDTH && !paragraph::is_unbreakable(line)
        })
        .map(|(at, (line, _))| TooLong { line: at + 1, columns: columns(line), what: "prose" })
        .collect()
}
