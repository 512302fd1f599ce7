//! A line as literal text between fields, as of Envoy's text formats and nginx's `log_format`.

use super::escape::unescape;
use super::field::Field;
use super::incoming::{Incoming, Rank};
use memchr::memmem::Finder;
use std::ops::Range;

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// This text.
    Literal(Vec<u8>),
    /// A field, with its rank among the fields of its meaning.
    Field(Field, Rank),
}

/// A pattern of lines.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The text before the first field.
    prefix: Vec<u8>,
    parts: Vec<Part>,
    /// Whether nginx writes the lines, and escapes their values.
    is_escaped: bool,
    /// The span of each field in the line. The memory is reused.
    spans: Vec<Range<usize>>,
    /// An unescaped value. The memory is reused.
    buffer: Vec<u8>,
}

/// A field with the text behind it.
#[derive(Clone, Debug)]
struct Part {
    field: Field,
    rank: Rank,
    behind: Finder<'static>,
    /// Whether the field is a time that may contain the text behind it: only what is a time may end
    /// there.
    is_split_time: bool,
}

/// Which texts a pattern accepts as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Only numbers.
    Strict,
    /// Any text without spaces: a number that cannot be read is an absent value.
    Any,
}

/// How often a pattern may try another end of a field, for one line. A client that sends the
/// pattern's own text in a header makes further tries necessary.
const MAX_TRIES: u32 = 10_000;

impl Pattern {
    /// A pattern of these tokens. The error says why the pattern can read no line.
    pub fn new(tokens: Vec<Token>, is_escaped: bool) -> Result<Pattern, String> {
        let (mut prefix, mut fields) = (Vec::new(), Vec::<(Field, Rank, Vec<u8>)>::new());
        for token in tokens {
            match (token, fields.last_mut()) {
                (Token::Literal(text), None) => prefix.extend(text),
                (Token::Literal(text), Some((_, _, behind))) => behind.extend(text),
                (Token::Field(..), Some((_, _, behind))) if behind.is_empty() => {
                    return Err("two fields need text between them".into());
                }
                (Token::Field(field, rank), _) => fields.push((field, rank, Vec::new())),
            }
        }
        let part = |(field, rank, behind): (Field, Rank, Vec<u8>)| {
            let contains = |text| field.time().is_some_and(|time| time.may_contain(text));
            let text = String::from_utf8_lossy(&behind);
            let is_split_time = !text.is_empty() && contains(&text);
            Part { is_split_time, behind: Finder::new(&behind).into_owned(), field, rank }
        };
        let parts = fields.into_iter().map(part).collect();
        Ok(Pattern { prefix, parts, is_escaped, spans: Vec::new(), buffer: Vec::new() })
    }

    /// The fields.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        self.parts.iter().map(|part| &part.field)
    }

    /// Reads a line. The error says what is wrong.
    pub fn read(&mut self, line: &[u8], numbers: Numbers, to: &mut Incoming) -> Result<(), &'static str> {
        let Pattern { prefix, parts, is_escaped, spans, buffer } = self;
        let rest = line.strip_prefix(&**prefix).ok_or("the line does not begin as the format does")?;
        // Numbers tell where fields end, so a line is first read as if all its numbers were right.
        let mut tries = MAX_TRIES;
        let mut fits = |numbers| {
            spans.clear();
            place(parts, numbers, rest, 0, spans, &mut tries)
        };
        let is_read = fits(Numbers::Strict) || numbers == Numbers::Any && fits(Numbers::Any);
        if !is_read {
            return Err("the line does not match the format");
        }
        to.is_nginx = *is_escaped;
        for (Part { field, rank, .. }, span) in parts.iter().zip(spans.iter()) {
            let text = rest.get(span.clone()).unwrap_or_default();
            if *field == Field::Unread {
                continue;
            }
            let text = match text {
                b"-" => None,
                text if *is_escaped && text.contains(&b'\\') => {
                    buffer.clear();
                    unescape(text, buffer);
                    Some(&**buffer)
                }
                text => Some(text),
            };
            field.put(*rank, text, to);
        }
        Ok(())
    }
}

impl Part {
    /// Whether the field may end after `text`.
    fn accepts(&self, text: &[u8], numbers: Numbers) -> bool {
        if self.is_split_time {
            return self.field.time().is_none_or(|time| time.parse(text).is_some());
        }
        self.field.accepts(text) || numbers == Numbers::Any && self.field.is_number() && !text.contains(&b' ')
    }
}

/// Finds the spans of `fields` in `line` from `start` on: each field ends at the first text behind
/// it from which the rest of the line fits.
fn place(
    parts: &[Part],
    numbers: Numbers,
    line: &[u8],
    start: usize,
    spans: &mut Vec<Range<usize>>,
    tries: &mut u32,
) -> bool {
    let Some((part, rest)) = parts.split_first() else {
        return start == line.len();
    };
    let Some(tail) = line.get(start..) else { return false };
    if rest.is_empty() {
        // The last field reaches to the end of the line.
        let text = tail.strip_suffix(part.behind.needle());
        let Some(text) = text.filter(|text| part.accepts(text, numbers)) else { return false };
        spans.push(start..start.saturating_add(text.len()));
        return true;
    }
    for at in part.behind.find_iter(tail) {
        let Some(left) = tries.checked_sub(1) else { return false };
        *tries = left;
        if !tail.get(..at).is_some_and(|text| part.accepts(text, numbers)) {
            continue;
        }
        let end = start.saturating_add(at);
        spans.push(start..end);
        if place(rest, numbers, line, end.saturating_add(part.behind.needle().len()), spans, tries) {
            return true;
        }
        spans.pop();
    }
    false
}
