//! Text of the log and of file names, which may be hostile. Invisible characters are written out,
//! and changes of the writing direction end with the text.

use crate::printable::is_hidden;
use maud::{Markup, html};

/// Longer texts are cut: a line of a log may be a megabyte long.
const LONGEST: usize = 300;

/// A text for an attribute or a title. Templates escape the characters of HTML.
pub fn plain(text: &str) -> String {
    let mut visible = String::with_capacity(text.len().min(LONGEST));
    for (index, character) in text.chars().enumerate() {
        if index == LONGEST {
            visible.push('…');
            break;
        }
        if is_hidden(character) {
            visible.extend(character.escape_unicode());
        } else {
            visible.push(character);
        }
    }
    visible
}

/// A text for an element: isolated from the direction of writing around it.
pub fn isolated(text: &str) -> Markup {
    html! { bdi { (plain(text)) } }
}

/// A text as code, such as an address or a path.
pub fn code(text: &str) -> Markup {
    html! { code { (isolated(text)) } }
}

/// A sentence in which words between backticks are code.
pub fn prose(sentence: &str) -> Markup {
    let parts: Vec<_> = sentence.split('`').collect();
    // A backtick without its partner is a character like any other.
    if parts.len().is_multiple_of(2) {
        return isolated(sentence);
    }
    html! {
        @for (index, part) in parts.iter().enumerate() {
            @if index % 2 == 0 { (isolated(part)) } @else { (code(part)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_and_changes_of_direction_are_written_out() {
        let hostile = "a\u{0}b\u{1b}[31m\u{202e}gpj.exe\u{2066}\u{200b}\u{feff}\n";
        let visible = "a\\u{0}b\\u{1b}[31m\\u{202e}gpj.exe\\u{2066}\\u{200b}\\u{feff}\\u{a}";
        assert_eq!(plain(hostile), visible);
        assert_eq!(plain("192.0.2.7 – Zoë 東京"), "192.0.2.7 – Zoë 東京");
    }

    #[test]
    fn html_is_escaped_and_the_direction_isolated() {
        let markup = code("<script>\"'&").into_string();
        assert_eq!(markup, "<code><bdi>&lt;script&gt;&quot;'&amp;</bdi></code>");
    }

    #[test]
    fn words_between_backticks_are_code() {
        let markup = prose("no `<x>` here").into_string();
        assert_eq!(markup, "<bdi>no </bdi><code><bdi>&lt;x&gt;</bdi></code><bdi> here</bdi>");
        assert_eq!(prose("one ` alone").into_string(), "<bdi>one ` alone</bdi>");
    }

    #[test]
    fn long_texts_are_cut() {
        let text = plain(&"é".repeat(LONGEST + 1));
        assert_eq!(text.chars().count(), LONGEST + 1);
        assert!(text.ends_with('…'));
        assert!(!plain(&"é".repeat(LONGEST)).contains('…'));
    }
}
