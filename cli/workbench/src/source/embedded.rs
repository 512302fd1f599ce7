//! The text that a string of YAML, JSON or a configuration of nginx holds, with the place of each
//! of its bytes.

use super::content::Content;
use super::origin::Origin;
use super::value::Value;

/// The text of a string of `content`; `None` if the value is no string.
#[must_use]
pub fn content(content: &Content, value: &Value) -> Option<Content> {
    let decoded = value.text()?;
    let raw = content.text.get(value.range.clone())?;
    Some(content.within(decoded, &aligned(raw, value.range.start, decoded, value.quote)))
}

/// Walks along the string and its text. Line breaks and spaces around them may differ.
fn aligned(raw: &str, start: usize, decoded: &str, quote: Option<char>) -> Origin {
    let (has_escapes, is_single_quoted) = (quote == Some('"'), quote == Some('\''));
    let mut origin = Origin::ending_at(start.saturating_add(raw.len()));
    let mut rest = quote.map_or(raw, |_| raw.get(1..).unwrap_or_default());
    let mut inner = 0usize;
    for character in decoded.chars() {
        let length = character.len_utf8();
        let take = |rest: &mut &str, length: usize| *rest = rest.get(length..).unwrap_or_default();
        while let Some(next) = rest.chars().next() {
            if next == character {
                break;
            }
            if has_escapes && next == '\\' && !continues(rest) {
                break;
            }
            let is_skipped = next.is_whitespace() || has_escapes && next == '\\';
            if !is_skipped || character.is_whitespace() {
                break;
            }
            take(&mut rest, next.len_utf8());
        }
        let at = start.saturating_add(raw.len().saturating_sub(rest.len()));
        origin.add(inner, at);
        inner = inner.saturating_add(length);
        match rest.chars().next() {
            Some('\\') if has_escapes => {
                let length = escape(rest);
                take(&mut rest, length);
            }
            Some('\'') if is_single_quoted && rest.starts_with("''") => take(&mut rest, 2),
            Some(next) if next == character => take(&mut rest, length),
            _ => {}
        }
    }
    origin
}

/// Whether a backslash continues the line.
fn continues(rest: &str) -> bool {
    rest.starts_with("\\\n") || rest.starts_with("\\\r")
}

/// The length of an escape of one character.
fn escape(rest: &str) -> usize {
    let length = |rest: &str| match rest.chars().nth(1) {
        Some('x') => 4,
        Some('u') => 6,
        Some('U') => 10,
        Some(other) => other.len_utf8().saturating_add(1),
        None => 1,
    };
    // JSON writes a character beyond 16 bits as two escapes.
    let first = length(rest);
    let is_high = rest.get(2..4).is_some_and(|digits| {
        rest.starts_with("\\u") && matches!(digits.to_ascii_lowercase().as_str(), "d8" | "d9" | "da" | "db")
    });
    match rest.get(first..).filter(|next| is_high && next.starts_with("\\u")) {
        Some(next) => first.saturating_add(length(next)),
        None => first,
    }
}

#[cfg(test)]
mod tests {
    use super::super::content::File;
    use super::super::{json, yaml};
    use super::*;

    /// The lines and columns of `marks` in the text that the value at `a` holds.
    fn places(text: &str, is_json: bool, marks: &[&str]) -> Vec<(usize, usize)> {
        let file = File::new("x", text);
        let outer = file.content();
        let root =
            if is_json { json::value(text).unwrap() } else { yaml::documents(text).unwrap().remove(0) };
        let inner = content(&outer, root.get("a").unwrap()).unwrap();
        let place = |mark: &&str| {
            let at = inner.text.find(mark).unwrap_or_else(|| panic!("{mark} in {:?}", inner.text));
            let place = file.position(inner.origin.outer(at));
            (place.line, place.column)
        };
        marks.iter().map(place).collect()
    }

    #[test]
    fn text_in_yaml_keeps_its_place() {
        assert_eq!(
            places("b: 1\na: |\n  one\n\n    two\n  three\n", false, &["one", "two", "three"]),
            [(3, 3), (5, 5), (6, 3)]
        );
        assert_eq!(places("a: |-\r\n  one\r\n  two\r\n", false, &["one", "two"]), [(2, 3), (3, 3)]);
        assert_eq!(places("a: |2  # why\n   one\n  two\n", false, &[" one", "two"]), [(2, 3), (3, 3)]);
        assert_eq!(places("- 1\n---\na: 1\n".get(8..).unwrap(), false, &["1"]), [(1, 4)]);
        assert_eq!(
            places("a: >-\n  one\n  two\n\n  three\n", false, &["one", "two", "three"]),
            [(2, 3), (3, 3), (5, 3)]
        );
        assert_eq!(places("a: 'it''s\n  so' ", false, &["it", "s ", "so"]), [(1, 5), (1, 9), (2, 3)]);
        assert_eq!(places("a: plain\n  text\n", false, &["plain", "text"]), [(1, 4), (2, 3)]);
        assert_eq!(
            places("a: \"x\\ty\\u00e9z\\\n  end\\\"q\"", false, &["y", "z", "end", "q"]),
            [(1, 8), (1, 15), (2, 3), (2, 8)]
        );
        assert_eq!(places("é: 1\na: |\n  ä b\n  c\n", false, &["b", "c"]), [(3, 5), (4, 3)]);
    }

    #[test]
    fn text_in_a_block_may_begin_with_a_quote() {
        assert_eq!(places("a: |\n  \"x\": \\y\n  'z'\n", false, &["x", "y", "z"]), [(2, 4), (2, 9), (3, 4)]);
        assert_eq!(places("a: |\n  | b\n  > c\n", false, &["b", "c"]), [(2, 5), (3, 5)]);
    }

    #[test]
    fn text_in_json_keeps_its_place() {
        assert_eq!(
            places(r#"{"a": "x\ny\"\ud83d\ude00z"}"#, true, &["x", "y", "\"", "😀", "z"]),
            [(1, 8), (1, 11), (1, 12), (1, 14), (1, 26)]
        );
    }
}
