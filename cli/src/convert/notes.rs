//! What becomes of each line of a source: kept, changed or lost, and why.

use diana_replay::printable::printable;
use serde::Serialize;
use std::fmt::Write as _;

/// A place of a source, with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The text on this line, as far as it is shown.
    pub text: String,
}

impl Spot {
    /// The file and the line, as in `nginx.conf:12`.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", printable(&self.file), self.line)
    }
}

/// What becomes of a part of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// The document decides the same.
    Kept,
    /// The document has it, but decides some requests otherwise, or shows them otherwise.
    Changed,
    /// The document does not have it.
    Lost,
}

/// A note about a part of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The text of the source.
    pub source: String,
    /// What becomes of it.
    pub fate: Fate,
    /// What the document has in its place; empty if nothing.
    pub becomes: String,
    /// The reason; empty if the meaning is the same.
    pub why: String,
}

/// All notes about a source.
#[derive(Debug, Default)]
pub struct Notes {
    notes: Vec<Note>,
}

impl Notes {
    /// The document has this part with the same meaning.
    pub fn kept(&mut self, spot: &Spot, becomes: impl Into<String>) {
        self.add(spot, Fate::Kept, becomes.into(), String::new());
    }

    /// The document has this part, but with a difference.
    pub fn changed(&mut self, spot: &Spot, becomes: impl Into<String>, why: impl Into<String>) {
        self.add(spot, Fate::Changed, becomes.into(), why.into());
    }

    /// The document does not have this part.
    pub fn lost(&mut self, spot: &Spot, why: impl Into<String>) {
        self.add(spot, Fate::Lost, String::new(), why.into());
    }

    fn add(&mut self, spot: &Spot, fate: Fate, becomes: String, why: String) {
        let Spot { file, line, text } = spot.clone();
        let note = Note { file, line, source: text, fate, becomes, why };
        // An anchor of YAML, or a directive that several places inherit, is read more than once.
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The notes in the order of the files and of their lines.
    #[must_use]
    pub fn sorted(mut self, files: &[String]) -> Vec<Note> {
        let index = |note: &Note| files.iter().position(|file| *file == note.file);
        self.notes.sort_by_key(|note| (index(note), note.line));
        self.notes
    }
}

/// The number of notes of a fate.
#[must_use]
pub fn count(notes: &[Note], fate: Fate) -> usize {
    notes.iter().filter(|note| note.fate == fate).count()
}

/// The notes as text: a line each, and a line with their numbers.
#[must_use]
pub fn text(notes: &[Note]) -> String {
    let mut text = String::new();
    for note in notes {
        let Note { file, line, source, becomes, why, .. } = note;
        let fate = match note.fate {
            Fate::Kept => "kept",
            Fate::Changed => "changed",
            Fate::Lost => "lost",
        };
        // Writing to text cannot fail.
        let _ = write!(text, "{}:{line}: {fate}: {}", printable(file), printable(source));
        if !becomes.is_empty() {
            let _ = write!(text, " -> {}", printable(becomes));
        }
        if !why.is_empty() {
            let _ = write!(text, ": {}", printable(why));
        }
        text.push('\n');
    }
    let numbers = [Fate::Kept, Fate::Changed, Fate::Lost].map(|fate| count(notes, fate));
    let [kept, changed, lost] = numbers;
    let _ = writeln!(text, "{kept} kept, {changed} changed, {lost} lost");
    text
}
