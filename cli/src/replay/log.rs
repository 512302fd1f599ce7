//! Reads access logs: formats of lines, files, and the order of requests.
//!
//! ```text
//!   file ─ input: decompress ─► lines ─ Format: Pattern or Keys ─► Record ─ reader: sort, merge ─►
//! ```

pub mod envoy;
mod escape;
pub mod field;
pub mod input;
mod json;
pub mod nginx;
mod pattern;
pub mod reader;
pub mod record;
#[cfg(test)]
mod tests;
mod time;

use field::{Incoming, Known};
use json::Keys;
use pattern::Pattern;
use record::{Record, Slot, Slots};
use std::borrow::Cow;

/// How the lines of a log are read.
#[derive(Clone, Debug)]
pub struct Format {
    /// The format, as `--format` takes it.
    pub name: String,
    kind: Kind,
    known: Known,
    target: Option<usize>,
}

#[derive(Clone, Debug)]
enum Kind {
    Text(Box<Pattern>),
    Json(Keys),
}

/// The formats with a name.
const NAMES: [&str; 4] = ["envoy", "istio", "nginx", "json"];

impl Format {
    /// The format of this name, or this pattern: Envoy's command operators or nginx' variables. The
    /// error says what is wrong.
    pub fn new(text: &str, slots: &Slots) -> Result<Format, String> {
        let nginx = |format| Pattern::new(nginx::tokens(format, slots)?, true);
        let envoy = |format| Pattern::new(envoy::tokens(format, slots)?, false);
        let kind = match text {
            "json" => return Ok(Format::of(text, Kind::Json(Keys::new(slots)), slots)),
            "envoy" => envoy(envoy::DEFAULT),
            "istio" => envoy(envoy::ISTIO),
            "nginx" => nginx(nginx::COMBINED),
            // Envoy's own `%` is in no format of nginx; a `$` may be text in Envoy's.
            pattern if pattern.contains('%') => envoy(pattern.trim_end_matches(['\n', '\r'])),
            pattern if pattern.contains('$') => nginx(pattern),
            _ => Err(format!(
                "unknown format `{text}`, expected {}, Envoy's command operators such as `%START_TIME%`, or nginx' variables such as `$remote_addr`",
                NAMES.join(", ")
            )),
        };
        kind.map(|pattern| Format::of(text, Kind::Text(Box::new(pattern)), slots))
    }

    fn of(name: &str, kind: Kind, slots: &Slots) -> Format {
        let known = match &kind {
            Kind::Text(pattern) => pattern.known(),
            Kind::Json(_) => Known::default(),
        };
        Format { name: name.into(), kind, known, target: slots.find(&Slot::Target) }
    }

    /// The format that reads the most of these lines, the first lines of a log.
    #[must_use]
    pub fn detect<'l>(lines: impl Iterator<Item = &'l [u8]> + Clone, slots: &Slots) -> Option<Format> {
        let formats = NAMES.iter().filter_map(|name| Format::new(name, slots).ok());
        let read = formats.map(|mut format| {
            let mut record = Record::default();
            let fits = lines.clone().filter(|line| format.read(line, &mut record).is_ok());
            (fits.count(), format)
        });
        // If several formats read equally many, the first wins.
        let best = read.reduce(|best, other| if other.0 > best.0 { other } else { best });
        best.filter(|(count, _)| *count > 0).map(|(_, format)| format)
    }

    /// Detects from the first lines of a log which values the lines have. A pattern states its
    /// values.
    pub fn learn<'l>(&mut self, lines: impl Iterator<Item = &'l [u8]>) {
        if let Kind::Json(keys) = &self.kind {
            lines.for_each(|line| keys.note(line, &mut self.known));
        }
    }

    /// Which values the lines have.
    #[must_use]
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// Reads a line into the record, which is empty. The error says what is wrong.
    pub fn read(&mut self, line: &[u8], record: &mut Record) -> Result<(), Cow<'static, str>> {
        record.clear();
        let mut to = Incoming { record, start: None, end: None };
        match &mut self.kind {
            Kind::Text(pattern) => pattern.read(line, &mut to)?,
            Kind::Json(keys) => keys.read(line, &mut to)?,
        }
        Ok(to.finish(self.target)?)
    }
}
