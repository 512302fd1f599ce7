//! Reads JSON with the place of each value. `serde_json` decides what is valid.

use super::content::SyntaxError;
use super::value::{Entry, Kind, Value};
use jsonc_parser::ast;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The value of a JSON text.
pub fn value(text: &str) -> Result<Value, SyntaxError> {
    // This also bounds the depth: the other parser recurses.
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        let words = error.to_string();
        let why = words.split(" at line ").next().unwrap_or_default();
        let at = offset(text, error.line(), error.column());
        return Err(SyntaxError { at, why: format!("not valid JSON: {why}") });
    }
    let failed = |why: String| SyntaxError { at: 0, why: format!("not valid JSON: {why}") };
    match parse_to_ast(text, &CollectOptions::default(), &STRICT) {
        Ok(parsed) => parsed.value.map(located).ok_or_else(|| failed("the text is empty".into())),
        Err(error) => Err(SyntaxError { at: error.range().start, ..failed(error.kind().to_string()) }),
    }
}

/// The byte at this line and column, both from 1. `serde_json` counts columns in bytes.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let mut at = before.saturating_add(column.saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(at) {
        at = at.saturating_sub(1);
    }
    at
}

fn located(value: ast::Value) -> Value {
    let quote = matches!(value, ast::Value::StringLit(_)).then_some('"');
    let (range, kind) = match value {
        ast::Value::NullKeyword(null) => (null.range, Kind::Null),
        ast::Value::BooleanLit(flag) => (flag.range, Kind::Bool(flag.value)),
        ast::Value::NumberLit(number) => (number.range, Kind::Number(number.value.into())),
        ast::Value::StringLit(text) => (text.range, Kind::Text(text.value.into_owned())),
        ast::Value::Array(list) => (list.range, Kind::List(list.elements.into_iter().map(located).collect())),
        ast::Value::Object(object) => {
            let entry = |property: ast::ObjectProp| {
                let key_range = match &property.name {
                    ast::ObjectPropName::String(name) => name.range,
                    ast::ObjectPropName::Word(name) => name.range,
                };
                Entry {
                    key_range: key_range.start..key_range.end,
                    key: property.name.into_string(),
                    value: located(property.value),
                }
            };
            (object.range, Kind::Object(object.properties.into_iter().map(entry).collect()))
        }
    };
    Value { range: range.start..range.end, kind, quote }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_its_place() {
        let text = r#"{"a": [1, "é\n"], "a": null}"#;
        let value = value(text).unwrap();
        let entries = value.entries();
        assert_eq!(&text[entries[1].key_range.clone()], "\"a\"");
        let items = entries[0].value.items();
        assert_eq!((&text[items[0].range.clone()], &text[items[1].range.clone()]), ("1", "\"é\\n\""));
        assert_eq!(items[1].text(), Some("é\n"));
    }

    #[test]
    fn a_syntax_error_has_its_place() {
        for (text, at, why) in [
            ("{\"é\" 1}", 6, "expected `:`"),
            ("{\n \"a\": 1,\n}", 11, "trailing comma"),
            ("{\"a\": 01}", 7, "invalid number"),
            ("[1, 2", 4, "EOF while parsing a list"),
            ("// a\n{}", 0, "expected value"),
        ] {
            let error = value(text).unwrap_err();
            assert_eq!((error.at, &*error.why), (at, &*format!("not valid JSON: {why}")), "{text}");
        }
        assert!(value(&"[".repeat(100_000)).is_err());
    }
}
