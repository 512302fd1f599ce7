//! A file, and the texts within it: the file's own text, and strings that in turn hold a text.

use super::origin::Origin;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The byte order mark, which some editors write in front of a text.
const MARK: &str = "\u{feff}";

/// The text of a file.
#[derive(Debug)]
pub struct File {
    /// The name, as the user wrote it.
    pub name: String,
    /// The text.
    pub text: Arc<str>,
    /// The first byte of each line.
    lines: Vec<usize>,
    /// How many characters begin before each block of [`BLOCK`] bytes.
    blocks: Box<[usize]>,
}

/// The bytes between two entries of [`File::blocks`]. A document may be one line of megabytes,
/// which no finding reads from its start.
const BLOCK: usize = 1024;

/// A place in a file: the line and the column in characters, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// A file that cannot be read as text.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Unreadable {
    /// The file, with as much of its text as can be shown.
    pub file: File,
    /// The first bytes that are no text; empty if the file has none.
    pub range: Range<usize>,
    /// The reason.
    pub why: String,
}

impl File {
    /// The text of a file in these bytes.
    pub fn of_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<File, Unreadable> {
        let name = name.into();
        String::from_utf8(bytes).map(|text| File::new(name.clone(), text)).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let file = File::new(name, String::from_utf8_lossy(error.as_bytes()));
            let cut = error.as_bytes().starts_with(MARK.as_bytes());
            let start = if cut { at.saturating_sub(MARK.len()) } else { at };
            let range = start..start.saturating_add(char::REPLACEMENT_CHARACTER.len_utf8());
            Unreadable { file, range, why: format!("byte {at} is not UTF-8") }
        })
    }

    /// A file with this text. A byte order mark is no part of the text.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<Arc<str>>) -> File {
        let text: Arc<str> = text.into();
        let text = text.strip_prefix(MARK).map_or_else(|| text.clone(), Into::into);
        let starts = text.match_indices('\n').map(|(at, _)| at.saturating_add(1));
        let lines = [0].into_iter().chain(starts).collect();
        let mut count = 0usize;
        let blocks = text.as_bytes().chunks(BLOCK).map(|block| {
            let before = count;
            count = count.saturating_add(beginnings(block));
            before
        });
        let blocks = blocks.collect();
        File { name: name.into(), text, lines, blocks }
    }

    /// How many characters begin before a byte.
    fn characters(&self, at: usize) -> usize {
        let at = at.min(self.text.len());
        let block = (at / BLOCK).min(self.blocks.len().saturating_sub(1));
        let start = block.saturating_mul(BLOCK);
        let rest = self.text.as_bytes().get(start..at).unwrap_or_default();
        self.blocks.get(block).copied().unwrap_or(0).saturating_add(beginnings(rest))
    }

    /// The place of a byte.
    #[must_use]
    pub fn position(&self, at: usize) -> Position {
        let line = self.lines.partition_point(|start| *start <= at).max(1);
        let before = self.characters(at).saturating_sub(self.characters(self.line(line).start));
        Position { line, column: before.saturating_add(1) }
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

    /// The text of the file itself.
    #[must_use]
    pub fn content(&self) -> Content {
        Content { text: self.text.clone(), origin: Origin::plain(0, self.text.len()) }
    }
}

/// How many characters begin in these bytes of UTF-8.
fn beginnings(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0b1100_0000 != 0b1000_0000).count()
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

    /// This text without a byte order mark.
    #[must_use]
    pub fn without_mark(self) -> Content {
        match self.text.strip_prefix(MARK) {
            Some(text) => self.within(text, &Origin::plain(MARK.len(), self.text.len())),
            None => self,
        }
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
    fn a_column_in_a_long_line_counts_characters() {
        let text = format!("a\n{}:", "é".repeat(2 * BLOCK));
        let file = File::new("a", text);
        for characters in [0, BLOCK / 2, BLOCK / 2 + 1, BLOCK, 2 * BLOCK] {
            let place = file.position(2 + 2 * characters);
            assert_eq!((place.line, place.column), (2, characters + 1));
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        let file = File::new("a", "\u{feff}{}");
        assert_eq!((&*file.text, &*file.content().text), ("{}", "{}"));
        let place = file.position(1);
        assert_eq!((place.line, place.column), (1, 2));
    }
}
