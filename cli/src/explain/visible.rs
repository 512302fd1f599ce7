//! Client text for a terminal: characters that could change what the terminal shows are escaped.

use std::fmt::Write;

/// The most characters of a value that are shown.
const MOST: usize = 120;

/// The text with control characters, invisible ones and changes of direction escaped, cut at 120
/// characters.
pub fn visible(text: &str) -> String {
    match text.char_indices().nth(MOST).and_then(|(end, _)| text.get(..end)) {
        Some(begin) => format!("{}…", escaped(begin)),
        None => escaped(text),
    }
}

/// The text with the same characters escaped, in full.
pub fn escaped(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        if is_unsafe(character) {
            // A `String` takes any text.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// The visible text in backticks.
pub fn quoted(text: &str) -> String {
    format!("`{}`", visible(text))
}

fn is_unsafe(character: char) -> bool {
    let is_format = matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    character.is_control() || is_format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_move_the_cursor_or_turn_the_line() {
        assert_eq!(visible("a\x1b[2Jb\r\n"), "a\\u{1b}[2Jb\\u{d}\\u{a}");
        assert_eq!(visible("a\u{202e}b\u{9b}31m"), "a\\u{202e}b\\u{9b}31m");
        assert_eq!(visible("grün"), "grün");
        assert_eq!(visible(&"x".repeat(121)), format!("{}…", "x".repeat(120)));
        assert_eq!(quoted("a"), "`a`");
    }
}
