//! Shapes as JSON Schema.

use diana_config::keys::{DefaultValue, Definition, Key, Object, SPAN, Shape, Unless};
use diana_document::fold;
use serde_json::{Map, Value, json};

/// The address of the committed schema.
const ID: &str = "https://github.com/diana-limiter/diana/blob/main/docs/schema/diana.schema.json";

/// Text with a unit, such as `10k` or `64Ki`.
const SIZE: &str = r"^\s*[0-9]+\s*(k|K|M|G|T|Ki|Mi|Gi|Ti)\s*$";
/// At most three decimals.
const POSITIVE: &str = r"^\s*[0-9]+(\.[0-9]{1,3}0*)?\s*$";
const DECIMAL: &str = r"^\s*-?[0-9]+(\.[0-9]{1,3}0*)?\s*$";
const PERCENT: &str = r"^\s*[0-9]+\s*%\s*$";

/// The schema with these definitions. The document is the definition `document`, one `limit`, or a
/// list of limits.
pub fn schema(definitions: impl Iterator<Item = Definition>) -> Value {
    let defs: Map<String, Value> =
        definitions.map(|known| (known.name.to_owned(), of(&known.shape))).collect();
    let one_of_three = json!({
        "if": {"type": "array"},
        "then": {"type": "array", "items": {"$ref": "#/$defs/limit"}},
        "else": {
            "if": {"type": "object", "anyOf": [{"required": ["url"]}, {"required": ["Url"]}], "not": {"required": ["limits"]}},
            "then": {"$ref": "#/$defs/limit"},
            "else": {"$ref": "#/$defs/document"}
        }
    });
    let about = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "Diana's document",
        "description": "Rate limits of a gateway: an object with `limits`, one limit, or a list of limits.",
        "$defs": defs
    });
    sorted(merged(about, one_of_three))
}

/// The keys in alphabetical order, whether or not `serde_json` keeps the order of insertion.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let mut entries: Vec<(String, Value)> =
                entries.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            entries.into_iter().collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect::<Vec<_>>().into(),
        other => other,
    }
}

fn merged(mut one: Value, other: Value) -> Value {
    if let (Value::Object(entries), Value::Object(more)) = (&mut one, other) {
        entries.extend(more);
    }
    one
}

fn of(shape: &Shape) -> Value {
    match shape {
        Shape::Flag => json!({"type": "boolean"}),
        Shape::Only(flag) => json!({"const": flag}),
        Shape::Text => json!({"type": "string"}),
        Shape::Exact(word) => json!({"type": "string", "pattern": format!("^{word}$")}),
        Shape::Matching(pattern, _) => json!({"type": "string", "pattern": pattern}),
        Shape::Scalar => json!({"type": ["string", "integer", "boolean"]}),
        Shape::Whole(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
        Shape::Size(min, max) => json!({"anyOf": [
            {"type": "integer", "minimum": min, "maximum": max},
            {"type": "string", "pattern": SIZE}
        ]}),
        Shape::Span(min, max) => {
            json!({"type": "string", "pattern": SPAN, "description": format!("{min} to {max}")})
        }
        Shape::Percent(min, max) => {
            json!({"type": "string", "pattern": PERCENT, "description": format!("{min}% to {max}%")})
        }
        Shape::Decimal(min, max) => json!({"anyOf": [
            {"type": "number", "minimum": min, "maximum": max, "not": {"const": 0}},
            {"type": "string", "pattern": if *min < 0 { DECIMAL } else { POSITIVE }}
        ]}),
        Shape::Choice(words) => choice(words),
        Shape::OneOrMany(item, min) => {
            let item = of(item);
            json!({"anyOf": [item, {"type": "array", "items": item, "minItems": min}]})
        }
        Shape::List(item, min, max) => {
            let mut list = json!({"type": "array", "items": of(item)});
            if let Value::Object(entries) = &mut list {
                entries.extend((*min > 0).then(|| ("minItems".to_owned(), json!(min))));
                entries.extend(max.map(|max| ("maxItems".to_owned(), json!(max))));
            }
            list
        }
        Shape::Map(value) => json!({"type": "object", "additionalProperties": of(value)}),
        Shape::Object(shape) => object(shape),
        Shape::Variable => json!({
            "type": "object",
            "properties": {"env": {"type": "string", "pattern": "^[A-Za-z0-9_]+$"}},
            "required": ["env"],
            "additionalProperties": false
        }),
        Shape::AnyObject => json!({"type": "object"}),
        Shape::AnyList => json!({"type": "array"}),
        Shape::Any(shapes) => json!({"anyOf": shapes.iter().map(of).collect::<Vec<_>>()}),
        Shape::Def(name) => json!({"$ref": format!("#/$defs/{name}")}),
    }
}

/// The words for completion, and their other spellings.
fn choice(words: &[&str]) -> Value {
    let spellings: Vec<String> = words.iter().map(|word| any_spelling(word)).collect();
    json!({"anyOf": [{"enum": words}, {"type": "string", "pattern": format!(r"^\s*({})\s*$", spellings.join("|"))}]})
}

/// The word in any case, with space, `_` or `-`.
fn any_spelling(word: &str) -> String {
    let letter = |letter: char| match letter {
        ' ' => "[ _-]".to_owned(),
        letter if letter.is_ascii_alphabetic() => format!("[{letter}{}]", letter.to_ascii_uppercase()),
        // The words are made of letters, digits, spaces, `_` and `-`.
        letter => letter.to_string(),
    };
    fold(word).chars().map(letter).collect()
}

fn object(shape: &Object) -> Value {
    let properties: Map<String, Value> = shape.keys().map(property).collect();
    let mut entries = Map::new();
    entries.insert("type".into(), json!("object"));
    entries.insert("properties".into(), Value::Object(properties));
    entries.insert("additionalProperties".into(), json!(false));
    let required: Vec<&str> = shape.keys().filter(|key| key.is_required).map(|key| key.name).collect();
    if !required.is_empty() {
        entries.insert("required".into(), json!(required));
    }
    let groups: Vec<Value> = shape
        .one_of
        .iter()
        .map(|keys| json!({"oneOf": keys.iter().map(|key| json!({"required": [key]})).collect::<Vec<_>>()}))
        .collect();
    if !groups.is_empty() {
        entries.insert("allOf".into(), groups.into());
    }
    if !shape.not_all_zero.is_empty() {
        let is_above = |key: &&str| json!({"required": [key], "properties": {*key: {"not": {"const": 0}}}});
        entries.insert("anyOf".into(), shape.not_all_zero.iter().map(is_above).collect());
    }
    if let Some(Unless { required, key, words }) = &shape.required_unless {
        entries.insert("if".into(), json!({"required": [key], "properties": {*key: choice(words)}}));
        entries.insert("else".into(), json!({"required": [required]}));
    }
    if shape.is_single {
        entries.extend([("minProperties".to_owned(), json!(1)), ("maxProperties".to_owned(), json!(1))]);
    }
    entries.into()
}

fn property(key: Key) -> (String, Value) {
    let Value::Object(mut entries) = of(&key.shape) else { return (key.name.into(), Value::Bool(true)) };
    // A range in words stays behind the sentence.
    let range = match entries.get("description") {
        Some(Value::String(range)) => format!(" {range}."),
        _ => String::new(),
    };
    entries.insert("description".into(), format!("{}{range}", key.about).into());
    entries.extend(key.default.map(|default| ("default".to_owned(), value(default))));
    (key.name.into(), entries.into())
}

fn value(default: DefaultValue) -> Value {
    match default {
        DefaultValue::Flag(flag) => flag.into(),
        DefaultValue::Whole(number) => number.into(),
        DefaultValue::Text(text) => text.into(),
    }
}
