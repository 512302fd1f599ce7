//! Finds the mistake that a YAML parser notices only later: a tab, another character that looks
//! like a space, a template, a wrong indentation, or punctuation.
//!
//! A guess counts only if the text without the mistake is valid, or wrong only in a later line.

mod punctuation;
mod words;

use super::content::SyntaxError;
use super::yaml;
use std::collections::BTreeMap;
use std::ops::Range;

/// The lines around an error that may have the mistake.
const BEFORE: usize = 2;
const AFTER: usize = 2;

/// The widths that a tab may stand for.
const TABS: [usize; 3] = [2, 4, 8];

/// The error with the place and the reason of the mistake, if these are known.
#[must_use]
pub fn blame(text: &str, error: SyntaxError) -> SyntaxError {
    let found = Blame::new(text, &error);
    // The surest guesses come first.
    let blamed = found
        .template()
        .or_else(|| found.indentation())
        .or_else(|| found.colon())
        .or_else(|| found.escape())
        .or_else(|| found.dash())
        .or_else(|| found.missing_colon())
        .or_else(|| found.missing_comma())
        .or_else(|| found.quote())
        .or_else(|| found.needs_quotes())
        .or_else(|| found.bracket())
        .or_else(|| found.comma())
        .or_else(|| found.level());
    blamed.unwrap_or_else(|| SyntaxError { why: words::in_words(&error.why), ..error })
}

struct Blame<'a> {
    text: &'a str,
    why: &'a str,
    /// The byte of the error.
    at: usize,
    /// The line of the error, from 0.
    line: usize,
    /// The bytes of the lines that may have the mistake.
    near: Vec<Range<usize>>,
}

impl<'a> Blame<'a> {
    fn new(text: &'a str, error: &'a SyntaxError) -> Blame<'a> {
        let line = line(text, error.at);
        let mut near = Vec::new();
        let mut start = 0usize;
        for (index, content) in text.split_inclusive('\n').enumerate() {
            let end = start.saturating_add(content.len());
            if index.saturating_add(BEFORE) >= line && index <= line.saturating_add(AFTER) {
                near.push(start..start.saturating_add(content.trim_end().len()));
            }
            start = end;
        }
        Blame { text, why: &error.why, at: error.at, line, near }
    }

    /// Whether the text is better if other text replaces these bytes.
    fn is_better(&self, range: Range<usize>, with: &str) -> bool {
        let mut text = self.text.to_string();
        text.replace_range(range, with);
        self.is_later(&text)
    }

    fn is_later(&self, text: &str) -> bool {
        yaml::documents(text).map_or_else(|error| line(text, error.at) > self.line, |_| true)
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &'a str)> {
        self.near.iter().filter_map(|range| Some((range.start, self.text.get(range.clone())?)))
    }

    /// The line of the error, and the lines above, from the nearest one.
    fn above(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let mut lines: Vec<(usize, &str)> = self.lines().filter(|(start, _)| *start <= self.at).collect();
        lines.reverse();
        lines.into_iter()
    }

    fn line_of_error(&self) -> Option<(usize, &'a str)> {
        self.above().next()
    }

    /// A line whose indentation continues nothing above.
    fn level(&self) -> Option<SyntaxError> {
        self.above().find_map(|(start, line)| {
            let own = width(line);
            if own == 0 {
                return None;
            }
            let mut levels = BTreeMap::new();
            for (number, above) in self.text.get(..start)?.lines().enumerate() {
                let content = above.trim_start();
                if !content.is_empty() && !content.starts_with('#') {
                    levels.insert(width(above), number);
                    let entry = content.trim_start_matches(['-', ' ']);
                    levels.insert(above.len().saturating_sub(entry.len()), number);
                }
            }
            levels.remove(&own);
            let range = start..start.saturating_add(own);
            let mut fitting: Vec<(usize, usize)> = levels
                .into_iter()
                .filter(|(level, _)| self.is_better(range.clone(), &" ".repeat(*level)))
                .collect();
            let nearest = fitting.iter().map(|(level, _)| level.abs_diff(own)).min();
            fitting.retain(|(level, _)| Some(level.abs_diff(own)) == nearest);
            let spaces = |(level, number): &(usize, usize)| {
                format!("{level}, as in line {}", number.saturating_add(1))
            };
            let fitting: Vec<String> = fitting.iter().map(spaces).collect();
            let why = format!(
                "an indentation of {own} spaces continues no line above, write {}",
                fitting.join(", or ")
            );
            (!fitting.is_empty()).then(|| wrong(range.end, &why))
        })
    }

    fn template(&self) -> Option<SyntaxError> {
        let (start, column) = self.lines().find_map(|(start, line)| Some((start, line.find("{{")?)))?;
        let rendered: Vec<String> = self.text.split('\n').map(rendered).collect();
        let why = "`{{` begins no value; a template? render it first (`helm template`)";
        self.is_later(&rendered.join("\n")).then(|| wrong(start.saturating_add(column), why))
    }

    fn indentation(&self) -> Option<SyntaxError> {
        let is_about_tab = self.why.split(' ').any(|word| matches!(word, "tab" | "tabs"));
        self.lines().find_map(|(start, line)| {
            let is_blank = |c: char| c.is_whitespace() || matches!(c, '\u{200b}' | '\u{feff}');
            let indentation = line.get(..line.find(|c| !is_blank(c))?)?;
            let (at, character) = indentation.char_indices().find(|(_, c)| *c != ' ')?;
            let range = start..start.saturating_add(indentation.len());
            let is_wrong = match character {
                '\t' => {
                    let is_fixed = |width: &usize| {
                        self.is_better(range.clone(), &indentation.replace('\t', &" ".repeat(*width)))
                    };
                    is_about_tab || TABS.iter().any(is_fixed)
                }
                _ => self.is_better(range, &" ".repeat(indentation.chars().count())),
            };
            let name = name(character);
            let why = format!("{name} in the indentation: YAML indents by spaces, write spaces instead");
            is_wrong.then(|| wrong(start.saturating_add(at), &why))
        })
    }

    fn colon(&self) -> Option<SyntaxError> {
        self.lines().find_map(|(start, line)| {
            let entry = line.trim_start_matches([' ', '-']);
            let (key, value) = entry.split_once(':')?;
            let is_key =
                !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_key || value.is_empty() || value.starts_with([' ', '\t']) {
                return None;
            }
            let at = start.saturating_add(line.len().saturating_sub(entry.len()));
            let colon = at.saturating_add(key.len());
            let is_wrong = self.is_better(colon..colon.saturating_add(1), ": ");
            let why = format!("no space after the colon of `{key}`, write a space after the colon");
            is_wrong.then(|| wrong(at, &why))
        })
    }
}

fn wrong(at: usize, why: &str) -> SyntaxError {
    SyntaxError { at, why: format!("not valid YAML: {why}") }
}

/// The spaces before the content of a line.
fn width(line: &str) -> usize {
    line.len().saturating_sub(line.trim_start_matches(' ').len())
}

/// The line of a byte, from 0.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// A line as a template may produce it.
fn rendered(line: &str) -> String {
    if line.trim_start().starts_with("{{") {
        return String::new();
    }
    let (mut result, mut rest) = (String::new(), line);
    while let Some((before, after)) = rest.split_once("{{") {
        result.push_str(before);
        result.push('1');
        rest = after.split_once("}}").map_or("", |(_, rest)| rest);
    }
    result + rest
}

/// The name of a character that looks like a space.
fn name(character: char) -> String {
    match character {
        '\t' => "a tab".into(),
        '\u{a0}' => "a no-break space (U+00A0)".into(),
        other => format!("the character U+{:04X}", u32::from(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line, the column in bytes and the reason.
    fn blamed(text: &str) -> (usize, usize, String) {
        let error = blame(text, yaml::documents(text).unwrap_err());
        let before = text.get(..error.at).unwrap();
        let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
        let why = error.why.trim_start_matches("not valid YAML: ");
        (before.matches('\n').count() + 1, column + 1, why.split([':', ';', ',']).next().unwrap().into())
    }

    #[test]
    fn indentation_is_blamed_at_its_character() {
        for (text, line, column, why) in [
            ("a:\n  - b: /\n\t  c:\n      - d\n", 3, 1, "a tab in the indentation"),
            ("a:\n  - b: /\n  \tc:\n      - d\n", 3, 3, "a tab in the indentation"),
            ("a:\n  - b: /\n    c:\n\t\t- d\n", 4, 1, "a tab in the indentation"),
            ("a:\n\t- b: /\n", 2, 1, "a tab in the indentation"),
            ("a:\n  - b: x\n\u{a0}   c: 1\n    d: 2\n", 3, 1, "a no-break space (U+00A0) in the indentation"),
        ] {
            assert_eq!(blamed(text), (line, column, why.into()), "{text:?}");
        }
    }

    #[test]
    fn a_colon_without_a_space_is_blamed_at_its_key() {
        let why = "no space after the colon of `b`";
        assert_eq!(blamed("a:\n  - b:x\n    c: 1\n"), (2, 5, why.into()));
        assert_eq!(blamed("a:\n  - d: 1\n    b:x\n    c: 1\n"), (3, 5, why.into()));
    }

    #[test]
    fn a_template_is_blamed() {
        let why = "`{{` begins no value";
        assert_eq!(blamed("a:\n  b: {{ .Values.b }}\n"), (2, 6, why.into()));
        assert_eq!(blamed("a:\n{{- range .Values.b }}\n  - c: 1\n{{- end }}\n"), (2, 1, why.into()));
    }

    #[test]
    fn punctuation_is_blamed_at_its_place() {
        for (text, line, column, why) in [
            ("a:\n  -b: 1\n    c: 2\n", 2, 3, "no space after `-`"),
            ("a:\n  -b: 1\n   c: 2\n", 2, 3, "no space after `-`"),
            ("a:\n  b\n    - c: 1\n", 2, 3, "no colon after `b`"),
            ("a:\n  - b: 1\n    c 1\n    d: 1\n", 3, 5, "no colon after `c`"),
            ("a:\n  - {b: 1, c: 2\n  - {b: 1}\n", 2, 5, "`{` is not closed in this line"),
            ("a: [{b: 1}  # [\nc: 1\n", 1, 4, "`[` is not closed in this line"),
            ("a: [b\nc: d\n", 1, 4, "`[` is not closed in this line"),
            ("a: [{b: 1]\nc: d\n", 1, 5, "`{` is not closed before `]`"),
            ("a: \"b # c\nd: 1\n", 1, 4, "the quote is not closed"),
            ("a: 'x\n", 1, 4, "the quote is not closed"),
            ("a: @b\nc: 1\n", 1, 4, "no plain text begins with `@`"),
            ("a: `b`\nc: 1\n", 1, 4, "no plain text begins with a backtick"),
            ("a: [b, *]\nc: 1\n", 1, 8, "no plain text begins with `*`"),
            ("a: b: c\n", 1, 4, "a value with a colon and a space"),
            ("a: {b: {c: d: e}, f: g}\n", 1, 12, "a value with a colon and a space"),
            ("u: http://x: y\n", 1, 4, "a value with a colon and a space"),
            ("a: {b: c d: 1}\n", 1, 10, "no comma before `d`"),
            ("a:\n  - b: 1\n  - {c: 1},\n", 3, 11, "a comma after a value"),
            ("a: \"\\\\ \\d\"\n", 1, 8, "`\\d` is no escape in double quotes"),
        ] {
            assert_eq!(blamed(text), (line, column, why.into()), "{text:?}");
        }
    }

    #[test]
    fn an_indentation_is_compared_with_the_lines_above() {
        for (text, line, column, expected) in [
            ("a:\n  - b: 1\n   c: 2\n", 3, 4, "3 spaces continues no line above, write 4, as in line 2"),
            ("a:\n  - b: 1\n     c: 2\n", 3, 6, "5 spaces continues no line above, write 4, as in line 2"),
            ("a: 1\n  b: 2\n", 2, 3, "2 spaces continues no line above, write 0, as in line 1"),
            ("a:\n  - 1\n b: 2\n", 3, 2, "1 spaces continues no line above, write 0, as in line 1"),
            ("a:\n  - b: 1\n  c: 2\n", 3, 3, "write 0, as in line 1, or 4, as in line 2"),
        ] {
            let error = blame(text, yaml::documents(text).unwrap_err());
            assert_eq!(blamed(text).0, line, "{text:?}");
            assert_eq!(blamed(text).1, column, "{text:?}");
            assert!(error.why.ends_with(expected), "{text:?}: {}", error.why);
        }
    }

    #[test]
    fn what_the_parser_says_is_said_in_words() {
        for (text, why) in [
            ("a: [1]]\nb: 1\n", "a bracket closes nothing"),
            ("a: \"b\" c\n", "text follows the closing quote"),
            ("a:\n  b: 1\n  - c: 1\n", "expected a key with a colon"),
            ("a: {b: 1]\n", "expected `"),
        ] {
            let found = blamed(text).2;
            assert!(found.starts_with(why), "{text:?}: {found}");
        }
    }

    #[test]
    fn other_mistakes_keep_their_place() {
        for text in ["a: \"{{ x }}\"\nb: ]\n", "a: |\n \tx\nb: ]\n"] {
            let error = yaml::documents(text).unwrap_err();
            assert_eq!(blame(text, error.clone()).at, error.at, "{text:?}");
        }
    }
}
