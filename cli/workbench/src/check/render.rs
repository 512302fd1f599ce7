//! Shows findings: as text with an excerpt of the file, or as JSON.

use super::code::{self, Severity};
use super::finding::Finding;
use super::report::{Report, Summary};
use crate::source::content::File;
use crate::source::documents::Host;
use diana_document::quoted;
use diana_replay::printable::{is_hidden, printable, printable_lines};
use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, MietteError,
    MietteSpanContents, SourceCode, SourceSpan, SpanContents,
};
use serde_json::{Value, json};
use std::fmt;
use std::fmt::Write;
use std::ops::Range;

/// The columns of the text.
const WIDTH: usize = 100;

/// The excerpt cuts lines that are longer.
const MAX_LINE: usize = 160;

/// The bytes of a cut line that the excerpt shows on either side of a finding.
const AROUND: usize = 60;

/// All findings and documents of all files.
#[must_use]
pub fn text(reports: &[Report], is_terminal: bool) -> String {
    let handler = handler(is_terminal);
    let mut text = String::new();
    for report in reports {
        let excerpts =
            Excerpts { shown: report.secrets.masked(shown(&report.file.text)), file: &report.file };
        for finding in &report.findings {
            // Writing to text cannot fail.
            let _ = handler.render_report(&mut text, &Shown { finding, excerpts: &excerpts });
            text.push('\n');
        }
        for summary in &report.documents {
            text.push_str(&line(&report.file, summary));
        }
    }
    text
}

fn handler(is_terminal: bool) -> GraphicalReportHandler {
    let theme = if is_terminal { GraphicalTheme::default() } else { GraphicalTheme::none() };
    GraphicalReportHandler::new_themed(theme)
        .with_width(WIDTH)
        .with_links(false)
        .with_context_lines(1)
        .with_primary_span_start()
        .without_cause_chain()
}

/// A message about a range of a file without secrets, with the lines around it.
#[must_use]
pub fn excerpt(file: &File, range: &Range<usize>, message: &str, is_terminal: bool) -> String {
    let excerpts = Excerpts { shown: shown(&file.text), file };
    let labels = vec![excerpts.label(range)];
    let diagnostic = MietteDiagnostic::new(printable_lines(message)).with_labels(labels);
    let mut text = String::new();
    // Writing to text cannot fail.
    let _ = handler(is_terminal).render_report(&mut text, &Sourced { diagnostic, excerpts: &excerpts });
    text
}

/// A message in the form that `miette` shows.
#[derive(Debug)]
struct Sourced<'a> {
    diagnostic: MietteDiagnostic,
    excerpts: &'a Excerpts<'a>,
}

impl fmt::Display for Sourced<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostic.fmt(f)
    }
}

impl std::error::Error for Sourced<'_> {}

impl Diagnostic for Sourced<'_> {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(self.excerpts as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.diagnostic.labels()
    }
}

/// `2 errors, 1 warning`
#[must_use]
pub fn counts(errors: usize, warnings: usize) -> String {
    let number = |count: usize, name: &str| format!("{count} {name}{}", if count == 1 { "" } else { "s" });
    match (errors, warnings) {
        (0, 0) => "no mistakes\n".into(),
        _ => format!("{}, {}\n", number(errors, "error"), number(warnings, "warning")),
    }
}

fn line(file: &File, summary: &Summary) -> String {
    let Summary { line, host, rules, keys, bytes, filter, is_shadow, partial, overlap } = summary;
    let place = format!("{}:{line}: ", printable(&file.name));
    let mut text = place.clone();
    let size = match bytes >> 20 {
        0 => format!("{} KiB", bytes.div_ceil(1024)),
        mib => format!("{mib} MiB"),
    };
    let (rules, keys) = (plural(*rules as u64, "rule"), plural(*keys, "key"));
    let _ = write!(text, "{rules}; at most {keys} and {size} of shared data; for `{filter}`");
    text.push_str(match host {
        Host::Route => "; the document of a route",
        _ => "",
    });
    text.push_str(if *is_shadow { "; all rules are in shadow" } else { "" });
    if *partial > 0 {
        let _ = write!(text, "; {partial} of them enforced for a part of the actors");
    }
    text.push('\n');
    if let Some([general, specific]) = overlap.as_ref().map(|urls| urls.each_ref().map(|url| quoted(url))) {
        let _ = writeln!(
            text,
            "{place}requests for {specific} count in {general} as well: all limits that match apply, not the first or the \
             longest"
        );
    }
    text
}

fn plural(count: u64, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

/// The findings of a file, as JSON.
pub fn findings(report: &Report) -> impl Iterator<Item = Value> {
    report.findings.iter().map(|finding| {
        let (start, end) =
            (report.file.position(finding.range.start), report.file.position(finding.range.end));
        json!({
            "file": report.file.name,
            "line": start.line,
            "column": start.column,
            "end": {"line": end.line, "column": end.column},
            "code": finding.code.full_name(),
            "severity": severity(finding),
            "message": finding.message,
            "hint": finding.hint,
            "page": finding.code.page(),
        })
    })
}

/// The documents of a file, as JSON.
pub fn documents(report: &Report) -> impl Iterator<Item = Value> {
    report.documents.iter().map(|summary| {
        json!({
            "file": report.file.name,
            "line": summary.line,
            "rules": summary.rules,
            "keys": summary.keys,
            "bytes": summary.bytes,
            "filter": summary.filter,
            "shadow": summary.is_shadow,
            "partly_enforced": summary.partial,
            "overlap": summary.overlap,
        })
    })
}

fn severity(finding: &Finding) -> &'static str {
    match finding.code.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

/// A finding in the form that `miette` shows.
#[derive(Debug)]
struct Shown<'a> {
    finding: &'a Finding,
    excerpts: &'a Excerpts<'a>,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable_lines(&self.finding.message))
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.finding.code.full_name()))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.finding.code.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let hint = self.finding.hint.as_deref()?;
        Some(Box::new(printable_lines(hint)))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        let is_shown = self.finding.code != code::UNREADABLE || !self.finding.range.is_empty();
        is_shown.then_some(self.excerpts as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new([self.excerpts.label(&self.finding.range)].into_iter()))
    }
}

/// The lines of a file. `miette` would read the file from its start for each finding.
#[derive(Debug)]
struct Excerpts<'a> {
    file: &'a File,
    shown: String,
}

impl SourceCode for Excerpts<'_> {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let (start, end) = (span.offset(), span.offset().saturating_add(span.len()));
        let place = self.file.position(start);
        let lines = place.line.saturating_sub(before).max(1)
            ..=place.line.saturating_add(after).min(self.file.lines());
        if before == 0 && after == 0 {
            // `miette` asks only for the place, to print it above the excerpt.
            let end = self.file.line(place.line).end.min(end).max(start);
            let data = self.shown.get(start..end).ok_or(MietteError::OutOfBounds)?;
            return Ok(self.contents(data, start, place.line, place.column.saturating_sub(1), 1));
        }
        let is_long = lines.clone().any(|line| self.file.line(line).len() > MAX_LINE);
        let (range, first) = if is_long {
            let line = self.file.line(place.line);
            (
                start.saturating_sub(AROUND).max(line.start)..end.saturating_add(AROUND).min(line.end),
                place.line,
            )
        } else {
            (self.file.line(*lines.start()).start..self.file.line(*lines.end()).end, *lines.start())
        };
        let range = self.boundary(range.start)..self.boundary(range.end.max(range.start));
        let data = self.shown.get(range.clone()).ok_or(MietteError::OutOfBounds)?;
        let column = if is_long { self.file.position(range.start).column.saturating_sub(1) } else { 0 };
        Ok(self.contents(data, range.start, first, column, lines.count()))
    }
}

impl Excerpts<'_> {
    /// The part of a range that is marked.
    fn label(&self, range: &Range<usize>) -> LabeledSpan {
        // A label of several lines, or of a long line, would bury its beginning.
        let end = self.file.line(self.file.position(range.start).line).end;
        let end = self.boundary(end.min(range.start.saturating_add(MAX_LINE)));
        let length = range.end.min(end).saturating_sub(range.start);
        LabeledSpan::new_primary_with_span(None, (range.start, length))
    }

    fn contents<'a>(
        &self,
        data: &'a str,
        start: usize,
        line: usize,
        column: usize,
        lines: usize,
    ) -> Box<dyn SpanContents<'a> + 'a> {
        let (name, span) = (printable(&self.file.name), (start, data.len()).into());
        let line = line.saturating_sub(1);
        Box::new(MietteSpanContents::new_named(name, data.as_bytes(), span, line, column, lines))
    }

    fn boundary(&self, mut at: usize) -> usize {
        while !self.shown.is_char_boundary(at) {
            at = at.saturating_sub(1);
        }
        at.min(self.shown.len())
    }
}

/// The text of a file without hidden characters. The length in bytes stays the same, so that places
/// stay true.
fn shown(text: &str) -> String {
    let is_hostile = |c: char| is_hidden(c) && c != '\n' && c != '\t';
    if !text.contains(is_hostile) {
        return text.into();
    }
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\r' => clean.push(' '),
            c if is_hostile(c) => clean.extend(std::iter::repeat_n('?', c.len_utf8())),
            c => clean.push(c),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::report::Fleet;

    #[test]
    fn hostile_characters_are_replaced_in_place() {
        let text = "a\u{1b}[31m\r\n\tb\u{202e}c\u{9b}";
        let clean = shown(text);
        assert_eq!(clean, "a?[31m \n\tb???c??");
        assert_eq!(clean.len(), text.len());
    }

    #[test]
    fn a_long_value_is_shown_in_part() {
        let report =
            Report::of(File::new("a.json", format!("\"{}\"", "é".repeat(100_000))), Fleet::default());
        let shown = self::text(&[report], false);
        assert!(shown.contains("expected an object") && shown.len() < 2_000, "{}", shown.len());
    }

    #[test]
    fn a_long_line_is_shown_in_part() {
        let text = format!(
            "{{\"limits\": [{}], \"limts\": []}}",
            "{\"url\": \"/\", \"exclusive\": true},".repeat(1_000)
        );
        let text = text.replace(",]", "]");
        let report = Report::of(File::new("a.json", text), Fleet::default());
        let shown = self::text(&[report], false);
        assert!(shown.contains("unknown key `limts`") && shown.len() < 2_000, "{shown}");
    }
}
