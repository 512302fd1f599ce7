//! Reads access logs: formats of lines, files, and the order of requests.
//!
//! ```text
//!   file ─ input: decompress ─► lines ─ Format: Pattern or Keys ─► Record ─ reader: sort, merge ─►
//! ```

mod begin;
pub mod envoy;
mod escape;
pub mod field;
pub mod incoming;
pub mod input;
mod json;
pub mod known;
pub mod nginx;
mod pattern;
pub mod reader;
pub mod record;
#[cfg(test)]
mod tests;
mod time;

use incoming::{Incoming, Rank};
use json::Keys;
use known::Known;
use pattern::{Numbers, Pattern};
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
    /// The ranks of the values of a line. The memory is reused.
    ranks: Vec<Rank>,
}

#[derive(Clone, Debug)]
enum Kind {
    Text(Box<Pattern>),
    Json(Keys),
}

/// The formats with a name.
const NAMES: [&str; 4] = ["envoy", "istio", "nginx", "json"];

impl Format {
    /// The format of this name, or this pattern: Envoy's command operators or nginx's variables.
    /// The error says what is wrong.
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
                "unknown format `{text}`, expected {}, Envoy's command operators such as `%START_TIME%`, or nginx's variables such as `$remote_addr`",
                NAMES.join(", ")
            )),
        };
        let pattern = kind?;
        has_time_and_path(&pattern, slots)?;
        Ok(Format::of(text, Kind::Text(Box::new(pattern)), slots))
    }

    fn of(name: &str, kind: Kind, slots: &Slots) -> Format {
        let known = Known::new(slots.iter().count());
        Format { name: name.into(), kind, known, target: slots.find(&Slot::Target), ranks: Vec::new() }
    }

    /// The format that reads the most of these lines, the first lines of a log.
    #[must_use]
    pub fn detect<'l>(lines: impl Iterator<Item = &'l [u8]> + Clone, slots: &Slots) -> Option<Format> {
        let formats = NAMES.iter().filter_map(|name| Format::new(name, slots).ok());
        let read = formats.map(|mut format| {
            let mut record = Record::default();
            let fits = lines.clone().filter(|line| format.fill(line, Numbers::Strict, &mut record).is_ok());
            (fits.count(), format)
        });
        // If several formats read equally many, the first wins.
        let best = read.reduce(|best, other| if other.0 > best.0 { other } else { best });
        best.filter(|(count, _)| *count > 0).map(|(_, format)| format)
    }

    /// Which values the lines have that were read so far.
    #[must_use]
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// Reads a line into the record. The error says what is wrong.
    pub fn read(&mut self, line: &[u8], record: &mut Record) -> Result<(), Cow<'static, str>> {
        self.fill(line, Numbers::Any, record)
    }

    fn fill(&mut self, line: &[u8], numbers: Numbers, record: &mut Record) -> Result<(), Cow<'static, str>> {
        let mut to = Incoming::new(record, &mut self.ranks);
        match &mut self.kind {
            Kind::Text(pattern) => pattern.read(line, numbers, &mut to)?,
            Kind::Json(keys) => keys.read(line, &mut to)?,
        }
        to.finish(self.target)?;
        self.known.add(&to);
        Ok(())
    }
}

/// A pattern without a time or a path reads no request: each limit has a path.
fn has_time_and_path(pattern: &Pattern, slots: &Slots) -> Result<(), String> {
    let target = slots.find(&Slot::Target);
    let has_path = pattern.fields().any(|field| target.is_some_and(|target| field.gives(target)));
    let has_time = pattern.fields().any(|field| field.time().is_some());
    let missing: Vec<&str> = [
        (has_time, "no time: expected `%START_TIME%`, `$msec`, `$time_iso8601` or `$time_local`"),
        (has_path, "no path: expected `%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%`, `$request_uri` or `$request`"),
    ]
    .into_iter()
    .filter_map(|(has, why)| (!has).then_some(why))
    .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("the format has {}", missing.join("; it has "))),
    }
}
