//! A value in a document, with its place, and the methods that read scalars and lists.

use super::errors::{Error, Errors};
use super::places::Place;
use super::value::{self, Value};
use super::words::{self, fold, nearest, one_of};
use diana_base::format::quoted;
use diana_base::time::Span;
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// A value and its place. Every reading method reports a mistake at that place and then returns
/// `None`.
///
/// ```
/// use diana_document::{Errors, Node, parse};
///
/// let (document, errors) = (parse(br#"[1, 2, "3"]"#)?, Errors::default());
/// let items = Node::root(&document, &errors).list().unwrap_or_default();
/// let numbers: Vec<Option<u64>> = items.iter().map(|item| item.whole(0..=9)).collect();
/// assert_eq!(numbers, [Some(1), Some(2), None]);
/// assert_eq!(errors.into_vec()[0].path, "[2]");
/// # Ok::<(), diana_document::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Node<'a> {
    pub(super) value: &'a Value,
    pub(super) place: Place,
    pub(super) errors: &'a Errors,
}

impl<'a> Node<'a> {
    /// The whole document.
    pub fn root(value: &'a Value, errors: &'a Errors) -> Node<'a> {
        Node { value, place: Place::default(), errors }
    }

    /// The raw value, for forms that depend on its type.
    #[must_use]
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// Reports a mistake at this place.
    pub fn fail(&self, why: impl Into<Cow<'static, str>>) {
        self.errors.add(self.place, why);
    }

    /// The word among `known` that was probably meant here, for a mistake: see [`nearest`]. `None`
    /// once no more mistakes are collected.
    #[must_use]
    pub fn meant<'w>(&self, word: &str, known: &[&'w str]) -> Option<&'w str> {
        if self.errors.is_full() { None } else { nearest(word, known) }
    }

    /// A warning about this place. The caller collects warnings; the document is still accepted.
    pub fn warning(&self, why: impl Into<String>) -> Error {
        Error { path: self.errors.places.path(self.place), why: why.into(), key: None }
    }

    /// Reports that another value was expected here.
    #[allow(clippy::must_use_candidate)] // the report is what counts
    pub fn expected<T>(&self, what: &str) -> Option<T> {
        self.fail_expected(what);
        None
    }

    fn fail_expected(&self, what: &str) {
        self.fail(format!("expected {what}, found {}", describe(self.value)));
    }

    /// Like [`Node::expected`], but mentions superfluous quotes, because `42` and `"42"` would look
    /// alike.
    fn expected_unquoted<T>(&self, what: &str, looks_right: impl Fn(&str) -> bool) -> Option<T> {
        match self.value {
            Value::Text(text) if looks_right(text.trim()) => {
                self.fail(format!("expected {what}, found the text {}, leave out its quotes", quoted(text)));
                None
            }
            _ => self.expected(what),
        }
    }

    /// Text.
    #[must_use]
    pub fn text(&self) -> Option<&'a str> {
        match self.value {
            Value::Text(text) => Some(text),
            Value::Bool(_) | Value::Whole(_) | Value::Number(_) => {
                self.fail(format!("expected text, found {}, put it in quotes", describe(self.value)));
                None
            }
            _ => self.expected("text"),
        }
    }

    /// Text, or the text form of a number or flag: YAML turns an unquoted `42` into a number.
    pub fn scalar(&self) -> Option<String> {
        match self.value {
            Value::Text(text) => Some(text.clone()),
            Value::Whole(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            _ => self.text().map(str::to_owned),
        }
    }

    /// `true` or `false`.
    #[must_use]
    pub fn flag(&self) -> Option<bool> {
        match self.value {
            Value::Bool(flag) => Some(*flag),
            _ => self.expected_unquoted("true or false", |text| matches!(text, "true" | "false")),
        }
    }

    /// A whole number within `range`.
    #[must_use]
    pub fn whole(&self, range: RangeInclusive<u64>) -> Option<u64> {
        match self.value {
            Value::Whole(number) if range.contains(number) => Some(*number),
            _ => {
                let what = format!("a whole number from {} to {}", range.start(), range.end());
                self.expected_unquoted(&what, |text| text.parse::<u64>().is_ok())
            }
        }
    }

    /// A whole number within `range`, or text with a unit such as `10k`, `1M` or `64Ki`.
    #[must_use]
    pub fn size(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let Value::Text(text) = self.value else {
            return self.whole(range);
        };
        match words::size(text) {
            Some(units) if range.contains(&units) => Some(units),
            None if begins_with_digit(text) && text.trim().parse::<u64>().is_err() => {
                let (from, to) = (range.start(), range.end());
                self.expected(&format!(
                    "a whole number from {from} to {to}, or one with a unit such as `10k`, `1M` or `64Ki`"
                ))
            }
            _ => self.whole(range),
        }
    }

    /// A number as [`Node::size`] reads it. Reports nothing.
    #[must_use]
    pub fn as_size(&self) -> Option<u64> {
        match self.value {
            Value::Text(text) => words::size(text),
            Value::Whole(number) => Some(*number),
            _ => None,
        }
    }

    /// A time span such as `500ms`, `30s`, `5m`, `12h` or `7d`, within `range`.
    #[must_use]
    pub fn span(&self, range: RangeInclusive<Span>) -> Option<Span> {
        let found = match self.value {
            Value::Text(text) => words::span(text),
            _ => None,
        };
        match found {
            Some(span) if range.contains(&span) => Some(span),
            Some(_) => self.expected(&format!("a span from {} to {}", range.start(), range.end())),
            None => self.expected("a span such as `500ms`, `30s`, `5m`, `12h` or `7d`"),
        }
    }

    /// One of `choices`. Case is ignored; space, `_` and `-` are equal.
    pub fn choice<T: Copy>(&self, what: &str, choices: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        choices.get(self.choice_index(what, &names)?).map(|(_, choice)| *choice)
    }

    /// The index in `names` of the name that this value spells. `what` names the choice in the
    /// error.
    fn choice_index(&self, what: &str, names: &[&str]) -> Option<usize> {
        let Value::Text(text) = self.value else {
            return self.expected(&one_of(names));
        };
        let word = fold(text);
        let index = names.iter().position(|name| fold(name) == word);
        if index.is_none() {
            self.fail(format!("unknown {what} {}, expected {}", quoted(text), one_of(names)));
        }
        index
    }

    /// The items of a list.
    #[must_use]
    pub fn list(&self) -> Option<Vec<Node<'a>>> {
        match self.value {
            Value::List(items) => Some(self.items(items)),
            _ => self.expected("a list"),
        }
    }

    /// The items of a list; any other value stands for a list of one item.
    #[must_use]
    pub fn one_or_many(&self) -> Vec<Node<'a>> {
        match self.value {
            Value::List(items) => self.items(items),
            _ => vec![*self],
        }
    }

    fn items(&self, items: &'a [Value]) -> Vec<Node<'a>> {
        let node =
            |(index, value)| Node { value, place: self.errors.places.item(self.place, index), ..*self };
        items.iter().enumerate().map(node).collect()
    }
}

fn begins_with_digit(text: &str) -> bool {
    text.trim_start().starts_with(|first: char| first.is_ascii_digit())
}

/// A description of a value for an error message.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Bool(flag) => format!("`{flag}`"),
        Value::Whole(number) => format!("`{number}`"),
        Value::Number(number) => format!("`{}`", value::digits(*number)),
        Value::Text(text) => quoted(text),
        Value::List(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn mistakes(json: &str, read: impl Fn(&Node)) -> Vec<String> {
        let (value, errors) = (parse(json.as_bytes()).unwrap(), Errors::default());
        read(&Node::root(&value, &errors));
        errors.into_vec().iter().map(Error::to_string).collect()
    }

    #[test]
    fn a_mistake_names_its_place_and_what_was_found() {
        let read = |node: &Node| {
            let mut fields = node.fields().unwrap();
            let list = fields.take("list").unwrap().list().unwrap();
            assert_eq!(list[0].whole(1..=10), None);
            assert_eq!(list[1].text(), None);
            assert_eq!(list[2].span(Span::from_secs(1)..=Span::from_secs(60)), None);
            fields.finish();
        };
        assert_eq!(
            mistakes(r#"{"list": [11, null, "1h", 4], "lisst": 1, "list": []}"#, read),
            [
                "`list` is given twice",
                "list[0]: expected a whole number from 1 to 10, found `11`",
                "list[1]: expected text, found nothing",
                "list[2]: expected a span from 1s to 1m, found `1h`",
                "unknown key `lisst`, did you mean `list`?",
            ]
        );
    }

    #[test]
    fn superfluous_and_missing_quotes_are_reported() {
        let read = |node: &Node| {
            let list = node.list().unwrap();
            assert_eq!(list[0].whole(1..=10), None);
            assert_eq!(list[1].flag(), None);
            assert_eq!(list[2].text(), None);
            assert_eq!(list[3].whole(1..=10), None);
            assert_eq!(list[4].choice("mode", &[("on", ()), ("off", ())]), None);
        };
        assert_eq!(
            mistakes(r#"["5", "true", 7, 1e300, false]"#, read),
            [
                "[0]: expected a whole number from 1 to 10, found the text `5`, leave out its quotes",
                "[1]: expected true or false, found the text `true`, leave out its quotes",
                "[2]: expected text, found `7`, put it in quotes",
                "[3]: expected a whole number from 1 to 10, found `1e300`",
                "[4]: expected on or off, found `false`",
            ]
        );
    }
}
