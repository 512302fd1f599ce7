//! Text of clients, documents, logs and file names, made safe for a terminal and for a page.

use std::fmt::Write;

/// The text on one line: every [hidden](is_hidden) character is written as its number, such as
/// `\u{1b}`. Quotes and backslashes stay as they are.
///
/// ```
/// use diana_replay::printable::printable;
///
/// assert_eq!(printable("\u{1b}[2J \"é\""), "\\u{1b}[2J \"é\"");
/// ```
#[must_use]
pub fn printable(text: &str) -> String {
    escaped(text, is_hidden)
}

/// The same for a text of several lines, such as an error. A caller that quotes foreign text must
/// make that text [`printable`] first, or the foreign text can add lines.
#[must_use]
pub fn printable_lines(text: &str) -> String {
    escaped(text, |character| character != '\n' && is_hidden(character))
}

/// Whether a character is invisible, or moves other characters: controls, formats, changes of the
/// writing direction, separators of lines, fillers, tags, private characters.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(u32::from(character),
            0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f
            | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164 | 0xe000..=0xf8ff
            | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb | 0xe0000..=0xe0fff
            | 0xf0000..)
}

fn escaped(text: &str, is_unsafe: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unsafe(character) {
            // A `String` takes any text.
            let _ = write!(safe, "{}", character.escape_unicode());
        } else {
            safe.push(character);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_and_changes_of_direction_are_written_out() {
        let hostile = "a\u{0}b\u{1b}[31m\u{7f}\u{9b}2J\u{202e}gpj.exe\u{2066}\u{200b}\u{feff}\u{2028}\r\n";
        let safe = "a\\u{0}b\\u{1b}[31m\\u{7f}\\u{9b}2J\\u{202e}gpj.exe\\u{2066}\\u{200b}\\u{feff}\\u{2028}\\u{d}\\u{a}";
        assert_eq!(printable(hostile), safe);
        for character in "\t\u{61c}\u{200c}\u{200d}\u{200e}\u{200f}\u{202a}\u{2029}\u{2060}\u{2069}".chars() {
            assert!(is_hidden(character), "{character:?}");
        }
    }

    #[test]
    fn ordinary_text_stays() {
        for text in ["192.0.2.7 – Zoë 東京 🦀", r#"a "quoted" 'path' with \ and `backticks`"#] {
            assert_eq!(printable(text), text);
        }
    }

    #[test]
    fn only_lines_keep_their_ends() {
        assert_eq!(printable_lines("a\nb\r\n\tc"), "a\nb\\u{d}\n\\u{9}c");
    }
}
