//! Client text for a terminal: characters that could change what the terminal shows are escaped.

use diana_replay::printable::printable;

/// The most characters of a value that are shown.
const MOST: usize = 120;

/// The text, safe for a terminal and cut at 120 characters.
pub fn visible(text: &str) -> String {
    match text.char_indices().nth(MOST).and_then(|(end, _)| text.get(..end)) {
        Some(begin) => format!("{}…", printable(begin)),
        None => printable(text),
    }
}

/// The visible text in backticks.
pub fn quoted(text: &str) -> String {
    format!("`{}`", visible(text))
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
