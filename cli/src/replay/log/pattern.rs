//! A line as literal text between fields, as of Envoy's text formats and nginx' `log_format`.

use super::escape::unescape;
use super::field::{Field, Incoming, Known};
use memchr::memmem::Finder;
use std::ops::Range;

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// This text.
    Literal(Vec<u8>),
    /// A field.
    Field(Field),
}

/// A pattern of lines.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The text before the first field.
    prefix: Vec<u8>,
    /// Each field with the text behind it.
    fields: Vec<(Field, Finder<'static>)>,
    /// Whether values are escaped as nginx does.
    is_escaped: bool,
    /// Where each field stands in the line. The memory is reused.
    spans: Vec<Range<usize>>,
    /// An unescaped value. The memory is reused.
    buffer: Vec<u8>,
}

/// How often a pattern may try another end of a field, for one line. A client that sends the
/// pattern's own text in a header makes further tries necessary.
const MAX_TRIES: u32 = 10_000;

impl Pattern {
    /// A pattern of these tokens. The error says why no line can be read by it.
    pub fn new(tokens: Vec<Token>, is_escaped: bool) -> Result<Pattern, String> {
        let (mut prefix, mut fields) = (Vec::new(), Vec::<(Field, Vec<u8>)>::new());
        for token in tokens {
            match (token, fields.last_mut()) {
                (Token::Literal(text), None) => prefix.extend(text),
                (Token::Literal(text), Some((_, behind))) => behind.extend(text),
                (Token::Field(_), Some((_, behind))) if behind.is_empty() => {
                    return Err("two fields without text between them cannot be told apart".into());
                }
                (Token::Field(field), _) => fields.push((field, Vec::new())),
            }
        }
        let has = |wanted: fn(&Field) -> bool| fields.iter().any(|(field, _)| wanted(field));
        if !has(|field| matches!(field, Field::Start(_) | Field::End(_))) {
            return Err(
                "the format has no time: expected `%START_TIME%`, `$time_local`, `$time_iso8601` or `$msec`"
                    .into(),
            );
        }
        let finder = |(field, behind): (Field, Vec<u8>)| (field, Finder::new(&behind).into_owned());
        let fields = fields.into_iter().map(finder).collect();
        Ok(Pattern { prefix, fields, is_escaped, spans: Vec::new(), buffer: Vec::new() })
    }

    /// Which values the lines have.
    #[must_use]
    pub fn known(&self) -> Known {
        let mut known = Known::default();
        self.fields.iter().for_each(|(field, _)| known.add(field));
        known
    }

    /// Reads a line. The error says what is wrong.
    pub fn read(&mut self, line: &[u8], to: &mut Incoming) -> Result<(), &'static str> {
        let Pattern { prefix, fields, is_escaped, spans, buffer } = self;
        let rest = line.strip_prefix(&**prefix).ok_or("the line does not start like the format")?;
        spans.clear();
        let mut tries = MAX_TRIES;
        if !place(fields, rest, 0, spans, &mut tries) {
            return Err("the line does not match the format");
        }
        for ((field, _), span) in fields.iter().zip(spans.iter()) {
            let text = rest.get(span.clone()).unwrap_or_default();
            if *field == Field::Unread || text == b"-" {
                continue;
            }
            match *is_escaped && text.contains(&b'\\') {
                true => {
                    buffer.clear();
                    unescape(text, buffer);
                    field.put(buffer, to)?;
                }
                false => field.put(text, to)?,
            }
        }
        Ok(())
    }
}

/// Finds the spans of `fields` in `line` from `start` on: each field ends at the first text behind
/// it from which the rest of the line fits.
fn place(
    fields: &[(Field, Finder)],
    line: &[u8],
    start: usize,
    spans: &mut Vec<Range<usize>>,
    tries: &mut u32,
) -> bool {
    let Some(((field, behind), rest)) = fields.split_first() else {
        return start == line.len();
    };
    let Some(tail) = line.get(start..) else { return false };
    if rest.is_empty() {
        // The last field reaches to the end of the line.
        let Some(text) = tail.strip_suffix(behind.needle()).filter(|text| field.accepts(text)) else {
            return false;
        };
        spans.push(start..start.saturating_add(text.len()));
        return true;
    }
    for at in behind.find_iter(tail) {
        let Some(left) = tries.checked_sub(1) else { return false };
        *tries = left;
        if !tail.get(..at).is_some_and(|text| field.accepts(text)) {
            continue;
        }
        let end = start.saturating_add(at);
        spans.push(start..end);
        if place(rest, line, end.saturating_add(behind.needle().len()), spans, tries) {
            return true;
        }
        spans.pop();
    }
    false
}
