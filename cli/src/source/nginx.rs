//! Reads the directives of a configuration of nginx, as nginx does (`ngx_conf_read_token`).
//! Included files are not read.

use super::content::SyntaxError;
use super::origin::Origin;
use std::iter::Peekable;
use std::ops::Range;
use std::str::CharIndices;

/// A directive, in any block.
#[derive(Debug)]
pub struct Directive {
    /// The words, without quotes and escapes.
    pub words: Vec<Word>,
}

/// A word of a directive.
#[derive(Debug)]
pub struct Word {
    /// The word, as nginx passes it on.
    pub text: String,
    /// The bytes in the file, with the quotes.
    pub range: Range<usize>,
    /// Where the bytes of the word stand in the file.
    pub origin: Origin,
}

impl Directive {
    /// The texts of the words.
    #[must_use]
    pub fn texts(&self) -> Vec<&str> {
        self.words.iter().map(|word| word.text.as_str()).collect()
    }
}

/// All directives in order.
pub fn directives(text: &str) -> Result<Vec<Directive>, SyntaxError> {
    let mut directives = Vec::new();
    let mut words: Vec<Word> = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c.is_whitespace() => {}
            '#' => while chars.next_if(|(_, c)| *c != '\n').is_some() {},
            ';' | '{' | '}' => {
                if !words.is_empty() {
                    directives.push(Directive { words: std::mem::take(&mut words) });
                }
            }
            c => words.push(word(text, at, c, &mut chars)?),
        }
    }
    match words.first() {
        None => Ok(directives),
        Some(word) => {
            Err(SyntaxError { at: word.range.start, why: "a directive does not end with `;`".into() })
        }
    }
}

fn word(
    text: &str,
    start: usize,
    first: char,
    chars: &mut Peekable<CharIndices>,
) -> Result<Word, SyntaxError> {
    let quote = Some(first).filter(|first| matches!(first, '\'' | '"'));
    let mut word = Word { text: String::new(), range: start..start, origin: Origin::ending_at(text.len()) };
    if quote.is_none() {
        escaped((start, first), chars, &mut word);
    }
    let ends = |next: char| match quote {
        Some(quote) => next == quote,
        None => next.is_whitespace() || matches!(next, ';' | '{'),
    };
    while let Some(next) = chars.next_if(|(_, next)| !ends(*next)) {
        escaped(next, chars, &mut word);
    }
    if quote.is_some() && chars.next().is_none() {
        return Err(SyntaxError { at: start, why: "a quoted string does not end".into() });
    }
    word.range.end = chars.peek().map_or(text.len(), |(at, _)| *at);
    Ok(word)
}

/// Appends a character, or the character that an escape stands for.
fn escaped((at, c): (usize, char), chars: &mut Peekable<CharIndices>, word: &mut Word) {
    word.origin.add(word.text.len(), at);
    let next = if c == '\\' { chars.next() } else { None };
    match next {
        Some((_, quoted @ ('"' | '\'' | '\\'))) => word.text.push(quoted),
        Some((_, 't')) => word.text.push('\t'),
        Some((_, 'r')) => word.text.push('\r'),
        Some((_, 'n')) => word.text.push('\n'),
        other => {
            word.text.push(c);
            if let Some((at, other)) = other {
                word.origin.add(word.text.len(), at);
                word.text.push(other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_quotes_and_escapes_and_keep_their_place() {
        let text = "# it's\nhttp { a 'b\\'c' \"d\\n\n e\" f\\;g; }\n";
        let directives = directives(text).unwrap();
        assert_eq!(directives[0].texts(), ["http"]);
        assert_eq!(directives[1].texts(), ["a", "b'c", "d\n\n e", "f\\;g"]);
        let word = &directives[1].words[1];
        assert_eq!(&text[word.range.clone()], r"'b\'c'");
        assert_eq!(&text[word.origin.outer(2)..][..1], "c");
        let word = &directives[1].words[2];
        assert_eq!(&text[word.origin.outer(4)..][..1], "e");
    }

    #[test]
    fn what_does_not_end_has_its_place() {
        let error = directives("a b;\nc 'd").unwrap_err();
        assert_eq!((error.at, &*error.why), (7, "a quoted string does not end"));
        let error = directives("a b;\nc d").unwrap_err();
        assert_eq!((error.at, &*error.why), (5, "a directive does not end with `;`"));
    }
}
