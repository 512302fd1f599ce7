//! A reader for JSON documents that reports every mistake with its place in the document.
//!
//! `config` and each kind's `compile` take the keys they know from [`Fields`]. A key that no reader
//! took is reported with the nearest known key.
//!
//! ```text
//!   bytes ─ parse ─► Value ─ root ─► Node ─ fields ─► Fields ─ take("url") ─► Node ─ text ─► &str
//!                                     └────────── all mistakes ─► Errors ◄──────┘
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::arithmetic_side_effects
    )
)]

mod errors;
mod fields;
mod places;
mod structure;
mod value;
mod words;

pub use errors::{Error, Errors, quoted};
pub use fields::Fields;
pub use value::{Value, parse, parse_json};
pub use words::{fold, nearest, one_of};

use diana_base::time::Span;
use places::Place;
use std::borrow::Cow;
use std::ops::RangeInclusive;

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

/// A value and its place. Every reading method reports a mistake at that place and then returns
/// `None`.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    value: &'a Value,
    place: Place,
    errors: &'a Errors,
}

impl<'a> Node<'a> {
    /// The whole document.
    pub fn root(value: &'a Value, errors: &'a Errors) -> Node<'a> {
        Node { value, place: Place::default(), errors }
    }

    /// The raw value, for forms that depend on its type.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// Reports a mistake at this place.
    pub fn fail(&self, why: impl Into<Cow<'static, str>>) {
        self.errors.add(self.place, why);
    }

    /// A warning about this place. The caller collects warnings; the document is still accepted.
    pub fn warning(&self, why: impl Into<String>) -> Error {
        Error { path: self.errors.places.path(self.place), why: why.into() }
    }

    /// Reports that another value was expected here.
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
    pub fn flag(&self) -> Option<bool> {
        match self.value {
            Value::Bool(flag) => Some(*flag),
            _ => self.expected_unquoted("true or false", |text| matches!(text, "true" | "false")),
        }
    }

    /// A whole number within `range`.
    pub fn whole(&self, range: RangeInclusive<u64>) -> Option<u64> {
        match self.value {
            Value::Whole(number) if range.contains(number) => Some(*number),
            _ => {
                let what = format!("a whole number from {} to {}", range.start(), range.end());
                self.expected_unquoted(&what, |text| text.parse::<u64>().is_ok())
            }
        }
    }

    /// A time span such as `500ms`, `30s`, `5m`, `12h` or `7d`, within `range`.
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

    /// The index of the name that the value is.
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
    pub fn list(&self) -> Option<Vec<Node<'a>>> {
        match self.value {
            Value::List(items) => Some(self.items(items)),
            _ => self.expected("a list"),
        }
    }

    /// The items of a list; any other value stands for a list of one item.
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

    /// An object with known keys: see [`Fields`].
    pub fn fields(&self) -> Option<Fields<'a>> {
        match self.value {
            Value::Object(entries) => Some(Fields::new(entries, self.place, self.errors)),
            _ => self.expected("an object"),
        }
    }

    /// An object whose keys the user chooses. A duplicate key is reported, and its first value is
    /// returned.
    pub fn entries(&self) -> Option<Vec<(&'a str, Node<'a>)>> {
        let Value::Object(entries) = self.value else {
            return self.expected("an object");
        };
        let node = |(key, value): &'a (String, Value)| {
            (key.as_str(), Node { value, place: self.errors.places.key(self.place, key.clone()), ..*self })
        };
        Some(fields::first_of_each(entries, self.place, self.errors).into_iter().map(node).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(json: &str, read: impl Fn(&Node)) -> Vec<String> {
        let (value, errors) = (parse(json.as_bytes()).unwrap(), Errors::default());
        read(&Node::root(&value, &errors));
        errors.into_vec().iter().map(Error::to_string).collect()
    }

    #[test]
    fn a_number_without_a_fraction_is_whole_however_it_is_written() {
        for json in ["1000", "1e3", "1000.0"] {
            assert_eq!(parse(json.as_bytes()).unwrap(), Value::Whole(1000));
        }
        assert_eq!(parse(b"-1").unwrap(), Value::Number(-1.0));
        assert_eq!(parse(b"0.5").unwrap(), Value::Number(0.5));
        assert_eq!(parse(b"1e300").unwrap(), Value::Number(1e300));
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

    #[test]
    fn a_value_prints_as_the_json_it_was() {
        let json = r#"{"a":[1,-1.5,null,true],"b\"c":"d\ne","a":{}}"#;
        assert_eq!(parse(json.as_bytes()).unwrap().to_string(), json);
    }

    #[test]
    fn an_empty_document_says_so() {
        assert_eq!(parse(b" \n").unwrap_err().to_string(), "the configuration is empty");
        assert!(parse(b"{").unwrap_err().to_string().starts_with("not valid JSON: EOF"));
    }
}
