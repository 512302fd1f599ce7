//! Quotes, brackets, commas and colons that are missing or too many. A message names keys and
//! marks, but no value, which may be a secret.

use super::{Blame, wrong};
use crate::source::content::SyntaxError;

/// The marks that begin no plain text.
const MARKS: [char; 7] = ['*', '&', '@', '`', '%', '!', '|'];

/// The escapes in double quotes.
const ESCAPES: &str = "0abt\tnvfre \"/\\N_LPxuU";

impl Blame<'_> {
    /// `-url: /`
    pub(super) fn dash(&self) -> Option<SyntaxError> {
        self.lines().find_map(|(start, line)| {
            let entry = line.trim_start();
            let rest = entry.strip_prefix('-')?;
            if rest.is_empty() || rest.starts_with([' ', '-']) {
                return None;
            }
            let at = end_of(start, line, entry);
            let end = at.saturating_add(1);
            // The lines below may be aligned with the text after the dash.
            let is_indented = line.starts_with(' ');
            let is_wrong = self.is_better(at..end, "- ")
                || is_indented && self.is_better(at.saturating_sub(1)..end, "- ");
            is_wrong.then(|| wrong(at, "no space after `-`, write a space after `-`"))
        })
    }

    /// `rules` or `rpu 1`, in the line of the error or above.
    pub(super) fn missing_colon(&self) -> Option<SyntaxError> {
        self.above().find_map(|(start, line)| {
            let entry = line.trim_start_matches([' ', '-']);
            let (key, rest) = entry.split_at(entry.find([' ', '#']).unwrap_or(entry.len()));
            let is_alone = rest.is_empty() || self.why.contains("simple key expect");
            if !is_key(key) || !is_alone {
                return None;
            }
            let at = end_of(start, line, entry);
            let end = at.saturating_add(key.len());
            let is_wrong = self.is_better(end..end, ":");
            is_wrong.then(|| wrong(at, &format!("no colon after `{key}`, write `{key}:`")))
        })
    }

    /// `{a: 1` or `[a`, which the line does not close, or not before `]`, as in `[{a: 1]`.
    pub(super) fn bracket(&self) -> Option<SyntaxError> {
        self.above().find_map(|(start, line)| {
            let (mut open, mut crossed) = (Vec::new(), None);
            let content = Scan::of(line, |at, c| match c {
                '{' | '[' => open.push((at, c)),
                '}' | ']' => {
                    let pair = open.pop().filter(|(_, first)| closing(*first) != c);
                    crossed = crossed.or(pair.map(|pair| (pair, at, c)));
                }
                _ => {}
            });
            if let Some(((at, first), end, last)) = crossed {
                let (end, closing) = (start.saturating_add(end), closing(first).to_string());
                let why = format!("`{first}` is not closed before `{last}`, write `{closing}` there");
                return self.is_better(end..end, &closing).then(|| wrong(start.saturating_add(at), &why));
            }
            let (at, first) = *open.first()?;
            let closing: String = open.iter().rev().map(|(_, c)| closing(*c)).collect();
            let end = start.saturating_add(content.end);
            let why =
                format!("`{first}` is not closed in this line, write `{closing}` at the end of the line");
            self.is_better(end..end, &closing).then(|| wrong(start.saturating_add(at), &why))
        })
    }

    /// `"a` without the second quote.
    pub(super) fn quote(&self) -> Option<SyntaxError> {
        self.above().find_map(|(start, line)| {
            let (at, quote) = Scan::of(line, |_, _| {}).open?;
            let end = start.saturating_add(line.len());
            let why = format!("the quote is not closed, write {quote} at the end of the value");
            self.is_better(end..end, &quote.to_string()).then(|| wrong(start.saturating_add(at), &why))
        })
    }

    /// A comma behind an item of a list, as in JSON.
    pub(super) fn comma(&self) -> Option<SyntaxError> {
        self.above().find_map(|(start, line)| {
            let end = start.saturating_add(line.strip_suffix(',')?.len());
            let is_wrong = self.is_better(end..end.saturating_add(1), "");
            is_wrong.then(|| wrong(end, "a comma after a value; remove the comma"))
        })
    }

    /// `{a: 1 b: 2}`
    pub(super) fn missing_comma(&self) -> Option<SyntaxError> {
        let (start, line) = self.line_of_error()?;
        let before = line.get(..self.at.checked_sub(start)?)?;
        let (values, key) = before.rsplit_once(' ').filter(|(_, key)| is_key(key))?;
        let at = start.saturating_add(values.len());
        let is_flow = values.contains(['{', '[']) && !values.ends_with([',', '{', '[', ':']);
        let why = format!("no comma before `{key}`, write a comma");
        (is_flow && self.is_better(at..at, ",")).then(|| wrong(at.saturating_add(1), &why))
    }

    /// A value that is text only in quotes: `*`, `@x`, or one with a colon and a space.
    pub(super) fn needs_quotes(&self) -> Option<SyntaxError> {
        let (start, line) = self.line_of_error()?;
        let mark = line.char_indices().zip(line.char_indices().skip(1)).find_map(|((_, before), (at, c))| {
            (matches!(before, ' ' | '[') && MARKS.contains(&c)).then_some((at, c))
        });
        let after_key = line.get(..self.at.checked_sub(start)?)?.rfind(": ").map(|at| at.saturating_add(2));
        let marked = mark.map(|(at, c)| {
            let c = if c == '`' { "a backtick".into() } else { format!("`{c}`") };
            (at, format!("no plain text begins with {c}, put it in quotes"))
        });
        let after_key = after_key.filter(|at| value(line, *at).is_some_and(|value| value.contains(": ")));
        let colon = after_key.map(|at| (at, "a value with a colon and a space, put it in quotes".into()));
        [marked, colon].into_iter().flatten().find_map(|(from, why)| {
            let value = value(line, from)?;
            let range = start.saturating_add(from)..start.saturating_add(from).saturating_add(value.len());
            let quoted = format!("'{}'", value.replace('\'', "''"));
            self.is_better(range.clone(), &quoted).then(|| wrong(range.start, &why))
        })
    }

    /// `"\d"`
    pub(super) fn escape(&self) -> Option<SyntaxError> {
        let (start, line) = self.line_of_error().filter(|_| self.why.contains("unknown escape"))?;
        let mut chars = line.char_indices().skip_while(|(at, _)| start.saturating_add(*at) < self.at);
        while let Some((at, c)) = chars.next() {
            if c == '\\' {
                let (_, escaped) = chars.next()?;
                if !ESCAPES.contains(escaped) {
                    let why = format!("`\\{escaped}` is no escape in double quotes, write single quotes");
                    return Some(wrong(start.saturating_add(at), &why));
                }
            }
        }
        None
    }
}

/// The place of `rest`, which ends a line that begins at `start`.
fn end_of(start: usize, line: &str, rest: &str) -> usize {
    start.saturating_add(line.len().saturating_sub(rest.len()))
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn closing(open: char) -> char {
    if open == '{' { '}' } else { ']' }
}

/// The text of a line from this byte: up to the comment, or to the end of the item within brackets.
fn value(line: &str, from: usize) -> Option<&str> {
    let mut depth = 0usize;
    let content = Scan::of(line, |at, c| match c {
        '{' | '[' if at < from => depth = depth.saturating_add(1),
        '}' | ']' if at < from => depth = depth.saturating_sub(1),
        _ => {}
    });
    let rest = line.get(from..content.end)?;
    let end = if depth > 0 { rest.find([',', '}', ']']) } else { None };
    rest.get(..end.unwrap_or(rest.len())).map(str::trim_end).filter(|value| !value.is_empty())
}

/// A line without its comment.
struct Scan {
    /// Where the content ends.
    end: usize,
    /// The quote that the line does not close.
    open: Option<(usize, char)>,
}

impl Scan {
    /// Calls `visit` for each character outside of quotes.
    fn of(line: &str, mut visit: impl FnMut(usize, char)) -> Scan {
        let (mut open, mut previous) = (None, ' ');
        let mut chars = line.char_indices();
        while let Some((at, c)) = chars.next() {
            match open {
                Some((_, '"')) if c == '\\' => drop(chars.next()),
                Some((_, quote)) if c == quote => open = None,
                Some(_) => {}
                None if c == '#' && previous == ' ' => {
                    let content = line.get(..at).unwrap_or_default();
                    return Scan { end: content.trim_end().len(), open: None };
                }
                None if matches!(c, '"' | '\'') && " [{,".contains(previous) => open = Some((at, c)),
                None => visit(at, c),
            }
            previous = c;
        }
        Scan { end: line.trim_end().len(), open }
    }
}
