//! Reads the directives of a configuration of nginx, as nginx does (`ngx_conf_read_token`).
//! Included files and blocks of Lua are not read.

use super::content::SyntaxError;
use super::origin::Origin;
use std::iter::Peekable;
use std::ops::Range;
use std::str::CharIndices;

/// The most bytes of an argument in quotes (nginx's `NGX_CONF_BUFFER`, without the quotes).
pub const LONGEST_ARGUMENT: usize = 4_094;

/// A directive, in any block.
#[derive(Clone, Debug)]
pub struct Directive {
    /// The words, without quotes and escapes.
    pub words: Vec<Word>,
    /// The name of the block that has the directive; empty outside of all blocks.
    pub block: String,
    /// The index of the directive that opens this block.
    pub parent: Option<usize>,
    /// Whether the `;` behind the last word is missing. Known only for directives that concern
    /// Diana, and for a directive in front of one.
    pub lacks_end: bool,
    /// The file and line, if this directive comes from a file that another one includes.
    pub included: Option<String>,
}

/// A word of a directive.
#[derive(Clone, Debug)]
pub struct Word {
    /// The word, as nginx passes it on.
    pub text: String,
    /// The bytes in the file, with the quotes.
    pub range: Range<usize>,
    /// The origin of the bytes of the word in the file.
    pub origin: Origin,
}

impl Directive {
    /// The texts of the words.
    #[must_use]
    pub fn texts(&self) -> Vec<&str> {
        texts(&self.words)
    }
}

fn texts(words: &[Word]) -> Vec<&str> {
    words.iter().map(|word| word.text.as_str()).collect()
}

/// All directives in order.
pub fn directives(text: &str) -> Result<Vec<Directive>, SyntaxError> {
    let mut reader = Reader { text, directives: Vec::new(), words: Vec::new(), blocks: Vec::new() };
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c.is_whitespace() => {}
            '#' => while chars.next_if(|(_, c)| *c != '\n').is_some() {},
            ';' => reader.end(true),
            '{' => {
                let is_named = !reader.words.is_empty();
                reader.end(true);
                let last = reader.directives.last().filter(|_| is_named);
                let name = last.and_then(|directive| directive.words.first());
                let name = name.map(|word| word.text.clone()).unwrap_or_default();
                if name.ends_with("_by_lua_block") {
                    skip_lua(text, &mut chars);
                    continue;
                }
                let parent = match is_named {
                    true => reader.directives.len().checked_sub(1),
                    false => reader.blocks.last().and_then(|(_, parent)| *parent),
                };
                reader.blocks.push((name, parent));
            }
            '}' => {
                reader.end(false);
                reader.blocks.pop();
            }
            c => reader.words.push(word(text, at, c, &mut chars)?),
        }
    }
    match reader.words.first() {
        Some(word) if most_words(&texts(&reader.words)).is_none() => {
            Err(SyntaxError { at: word.range.start, why: "a directive does not end with `;`".into() })
        }
        _ => {
            reader.end(false);
            Ok(reader.directives)
        }
    }
}

/// Skips the rest of a block of Lua, with the brace that ends it. Braces in strings and comments do
/// not count.
fn skip_lua(text: &str, chars: &mut Peekable<CharIndices>) {
    let skip = |chars: &mut Peekable<CharIndices>, bytes: usize| {
        let end = chars.peek().map_or(text.len(), |(at, _)| at.saturating_add(bytes));
        while chars.next_if(|(at, _)| *at < end).is_some() {}
    };
    // The bytes of the text in long brackets, such as `[==[ … ]==]`, at the start of a text.
    let long = |rest: &str| {
        let inner = rest.strip_prefix('[')?;
        let level: String = inner.chars().take_while(|c| *c == '=').collect();
        inner.get(level.len()..)?.strip_prefix('[')?;
        let end = format!("]{level}]");
        Some(rest.find(&end).map_or(rest.len(), |at| at.saturating_add(end.len())))
    };
    let mut depth = 1usize;
    while let Some((at, c)) = chars.next() {
        let next = at.saturating_add(c.len_utf8());
        let rest = text.get(next..).unwrap_or_default();
        match c {
            '{' => depth = depth.saturating_add(1),
            '}' if depth == 1 => return,
            '}' => depth = depth.saturating_sub(1),
            '"' | '\'' => {
                while let Some((_, inner)) = chars.next_if(|(_, inner)| *inner != c) {
                    if inner == '\\' {
                        chars.next();
                    }
                }
                chars.next();
            }
            '-' if rest.starts_with('-') => {
                let comment = rest.get(1..).unwrap_or_default();
                let line = || comment.find('\n').unwrap_or(comment.len());
                skip(chars, long(comment).unwrap_or_else(line).saturating_add(1));
            }
            '[' => {
                let bytes = text.get(at..).and_then(long).map_or(0, |bytes| bytes.saturating_sub(1));
                skip(chars, bytes);
            }
            _ => {}
        }
    }
}

/// The most words of a directive that concerns Diana.
fn most_words(words: &[&str]) -> Option<usize> {
    match words {
        ["proxy_wasm", "diana", ..] => Some(3),
        ["module", "diana", ..] | ["shm_kv", "diana" | "*", ..] => Some(4),
        _ => None,
    }
}

struct Reader<'a> {
    text: &'a str,
    directives: Vec<Directive>,
    words: Vec<Word>,
    /// The name of each open block, and the directive that opens it.
    blocks: Vec<(String, Option<usize>)>,
}

impl Reader<'_> {
    /// Ends the directive. Words beyond its last one belong to the next directive.
    fn end(&mut self, has_end: bool) {
        let mut words = std::mem::take(&mut self.words);
        while let Some(next) = self.next_directive(&words) {
            let rest = words.split_off(next);
            self.push(words, true);
            words = rest;
        }
        if !words.is_empty() {
            let lacks_end = !has_end && most_words(&texts(&words)).is_some();
            self.push(words, lacks_end);
        }
    }

    fn push(&mut self, words: Vec<Word>, lacks_end: bool) {
        let (block, parent) = self.blocks.last().cloned().unwrap_or_default();
        self.directives.push(Directive { words, block, parent, lacks_end, included: None });
    }

    /// The index of the word that begins another directive, because a `;` is missing.
    fn next_directive(&self, words: &[Word]) -> Option<usize> {
        let all = texts(words);
        if let Some(most) = most_words(&all).filter(|most| words.len() > *most) {
            let ends_line = |index: &usize| {
                let end = words.get(index.saturating_sub(1)).map_or(0, |word| word.range.end);
                let next = words.get(*index).map_or(end, |word| word.range.start);
                self.text.get(end..next).is_some_and(|between| between.contains('\n'))
            };
            return Some((2..most).find(ends_line).unwrap_or(most));
        }
        let begins =
            |index: &usize| all.get(*index..).is_some_and(|rest| rest.starts_with(&["proxy_wasm", "diana"]));
        (1..all.len()).find(begins)
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

/// Appends a character, or the character that an escape denotes.
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
    fn a_block_of_lua_is_skipped() {
        for lua in [
            "return 1",
            "local t = {a = {}} -- it's } here\n",
            "--[[ } ]] --[==[ ]] } ]==]",
            r#"x = "}\"}" y = '}' z = [[ }" ]] t[1] = 2"#,
        ] {
            let text = format!("location / {{ access_by_lua_block {{ {lua} }} a b; }} c;");
            let directives = directives(&text).unwrap();
            let texts: Vec<_> = directives.iter().map(Directive::texts).collect();
            let expected = [&["location", "/"][..], &["access_by_lua_block"], &["a", "b"], &["c"]];
            assert_eq!(texts, expected, "{lua}");
            assert_eq!((directives[2].parent, directives[3].parent), (Some(0), None), "{lua}");
        }
    }

    #[test]
    fn what_does_not_end_has_its_place() {
        let error = directives("a b;\nc 'd").unwrap_err();
        assert_eq!((error.at, &*error.why), (7, "a quoted string does not end"));
        let error = directives("a b;\nc d").unwrap_err();
        assert_eq!((error.at, &*error.why), (5, "a directive does not end with `;`"));
    }
}
