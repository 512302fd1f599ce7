//! The files of a source: their values with places, and errors that show a place.

use super::notes::Spot;
use crate::check::code::{self, Code};
use crate::check::finding::Finding;
use crate::source::content::{File, SyntaxError};
use crate::source::resolve::resolve;
use crate::source::scalar::Dialect;
use crate::source::value::{Entry, Value};
use crate::source::{json, yaml};
use crate::valid::Mistakes;
use miette::{Result, miette};
use std::ops::Range;
use std::path::Path;

/// The most characters of a source that a note shows.
const SHOWN: usize = 64;

/// A file of a source.
#[derive(Debug)]
pub struct Input {
    /// The file.
    pub file: File,
}

impl Input {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Input> {
        match crate::files::read(path) {
            Ok(file) => Ok(Input { file }),
            Err(error) => Err(miette!("cannot read `{}`: {error}", path.display())),
        }
    }

    /// The values of a file in YAML or JSON: those of a manifest have the types that Kubernetes
    /// gives them, others those of Envoy. Empty documents are left out.
    pub fn values(&self) -> Result<Vec<Value>> {
        let text = &self.file.text;
        let is_json = text.trim_start().starts_with(['{', '[']);
        // Envoy's flow style may begin a file, too.
        let values = match is_json {
            true => json::value(text)
                .map(|value| vec![value])
                .or_else(|error| yaml::documents(text).map_err(|_| error)),
            false => yaml::documents(text),
        };
        let mut values = values.map_err(|error| self.syntax(&error))?;
        values.retain(|value| value.text() != Some(""));
        for value in &mut values {
            let is_manifest = value.get("apiVersion").is_some() && value.get("kind").is_some();
            resolve(value, if is_manifest { Dialect::Kubernetes } else { Dialect::Envoy });
        }
        if values.is_empty() {
            return Err(self.error(&(0..0), code::NO_CONFIGURATION, "the file is empty", None));
        }
        Ok(values)
    }

    /// An error about the syntax of the file.
    pub fn syntax(&self, error: &SyntaxError) -> miette::Report {
        self.error(&(error.at..error.at.saturating_add(1)), code::SYNTAX, &error.why, None)
    }

    /// An error about a value: what is wrong, and what is expected.
    pub fn wrong(&self, range: &Range<usize>, why: &str, expected: &str) -> miette::Report {
        self.error(range, code::WRONG_VALUE, why, Some(expected))
    }

    /// An error about the whole file.
    pub fn nothing(&self, why: &str, expected: &str) -> miette::Report {
        self.error(&(0..1), code::NO_CONFIGURATION, why, Some(expected))
    }

    fn error(&self, range: &Range<usize>, code: Code, why: &str, hint: Option<&str>) -> miette::Report {
        let length = self.file.text.len();
        let range = range.start.min(length)..range.end.min(length);
        let finding = Finding { code, message: why.into(), hint: hint.map(Into::into), range };
        Mistakes::at(File::new(self.file.name.as_str(), self.file.text.clone()), finding).into()
    }

    /// The place of a range, with its first line.
    #[must_use]
    pub fn spot(&self, range: &Range<usize>) -> Spot {
        let text = self.file.text.get(range.clone()).unwrap_or_default();
        let line = text.lines().next().unwrap_or_default().trim_end();
        let mut text: String = line.chars().take(SHOWN).collect();
        if line.chars().count() > SHOWN {
            text.push('…');
        }
        self.spot_as(range, text)
    }

    /// The place of a range, with another text.
    #[must_use]
    pub fn spot_as(&self, range: &Range<usize>, text: impl Into<String>) -> Spot {
        let line = self.file.position(range.start).line;
        Spot { file: self.file.name.clone(), line, text: text.into() }
    }

    /// The place of an entry: its key and its value, or the key alone if the value is long.
    #[must_use]
    pub fn entry(&self, entry: &Entry) -> Spot {
        // The value of an alias stands elsewhere.
        let is_beside = entry.value.range.start >= entry.key_range.end;
        let range = entry.key_range.start..entry.value.range.end;
        let text = self.file.text.get(range.clone()).unwrap_or_default();
        match is_beside && !text.contains('\n') {
            true => self.spot(&range),
            false => self.spot_as(&entry.key_range, entry.key.as_str()),
        }
    }
}

/// The text of a scalar, whatever its type.
#[must_use]
pub fn scalar(value: &Value) -> Option<String> {
    use crate::source::value::Kind;
    match &value.kind {
        Kind::Text(text) | Kind::Plain(text) | Kind::Number(text) => Some(text.clone()),
        Kind::Bool(flag) => Some(flag.to_string()),
        Kind::Null | Kind::List(_) | Kind::Object(_) => None,
    }
}

/// A whole number, also if it is written as text, as Envoy reads a large one.
#[must_use]
pub fn whole(value: &Value) -> Option<u64> {
    let text = scalar(value)?;
    let text = text.strip_suffix(".0").unwrap_or(&text);
    text.parse().ok()
}
