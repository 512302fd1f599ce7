//! A file, and the texts within it: the file's own text, and strings that in turn hold a text.

use super::origin::Origin;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The name of the standard input.
const STDIN: &str = "-";

/// The text of a file.
#[derive(Debug)]
pub struct File {
    /// The name, as the user wrote it.
    pub name: String,
    /// The text.
    pub text: Arc<str>,
    /// The first byte of each line.
    lines: Vec<usize>,
}

/// A place in a file: the line and the column in characters, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl File {
    /// Reads a file, or standard input if the name is `-`.
    pub fn read(path: &Path) -> io::Result<File> {
        let name = path.to_string_lossy().into_owned();
        let bytes = if name == STDIN {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes)?;
            bytes
        } else {
            fs::read(path)?
        };
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            io::Error::new(io::ErrorKind::InvalidData, format!("byte {at} is not UTF-8"))
        })?;
        Ok(File::new(if name == STDIN { "<stdin>".into() } else { name }, text))
    }

    /// A file with this text.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<Arc<str>>) -> File {
        let text: Arc<str> = text.into();
        let starts = text.match_indices('\n').map(|(at, _)| at.saturating_add(1));
        let lines = [0].into_iter().chain(starts).collect();
        File { name: name.into(), text, lines }
    }

    /// The place of a byte.
    #[must_use]
    pub fn position(&self, at: usize) -> Position {
        let line = self.lines.partition_point(|start| *start <= at).max(1);
        let start = self.line(line).start;
        let before = self.text.get(start..at.clamp(start, self.text.len())).unwrap_or_default();
        Position { line, column: before.chars().count().saturating_add(1) }
    }

    /// The bytes of a line, counted from 1, without its line feed. Empty if there is no such line.
    #[must_use]
    pub fn line(&self, line: usize) -> Range<usize> {
        let end = self.text.len();
        let start = line.checked_sub(1).and_then(|index| self.lines.get(index)).copied().unwrap_or(end);
        let next = self.lines.get(line).map_or(end, |next| next.saturating_sub(1));
        start..next.max(start)
    }

    /// The number of lines.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// The text of the file itself, without a byte order mark.
    #[must_use]
    pub fn content(&self) -> Content {
        let mark = '\u{feff}';
        match self.text.strip_prefix(mark) {
            Some(text) => {
                Content { text: text.into(), origin: Origin::plain(mark.len_utf8(), self.text.len()) }
            }
            None => Content { text: self.text.clone(), origin: Origin::plain(0, self.text.len()) },
        }
    }
}

/// A text within a file.
#[derive(Clone, Debug)]
pub struct Content {
    /// The text.
    pub text: Arc<str>,
    /// Where the file has the text.
    pub origin: Origin,
}

impl Content {
    /// The bytes of the file for bytes of this text.
    #[must_use]
    pub fn outer(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.origin.outer(range.start.min(self.text.len()));
        // The byte after the last one may belong to another line of the file.
        let inside = self.text.get(range.start..range.end.min(self.text.len())).unwrap_or_default();
        let last = inside.char_indices().next_back();
        let end = last.map_or(start, |(at, last)| {
            self.origin.outer(range.start.saturating_add(at)).saturating_add(last.len_utf8())
        });
        start..end.max(start)
    }

    /// A text within this one.
    #[must_use]
    pub fn within(&self, text: impl Into<Arc<str>>, origin: &Origin) -> Content {
        Content { text: text.into(), origin: self.origin.through(origin) }
    }
}

/// A text that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The byte of the text.
    pub at: usize,
    /// The mistake.
    pub why: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for SyntaxError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_has_a_line_and_a_column() {
        let file = File::new("a", "ab\né:x\n");
        let place = |at| (file.position(at).line, file.position(at).column);
        assert_eq!(
            [place(0), place(2), place(3), place(5), place(7)],
            [(1, 1), (1, 3), (2, 1), (2, 2), (2, 4)]
        );
        assert_eq!((place(8), place(99)), ((3, 1), (3, 1)));
        assert_eq!((&file.text[file.line(2)], file.line(9).is_empty()), ("é:x", true));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        let content = File::new("a", "\u{feff}{}").content();
        assert_eq!((&*content.text, content.outer(&(0..2))), ("{}", 3..5));
    }
}
