//! Hints for values that other programs or other habits suggest.

use crate::source::value::{Kind, Value};
use diana_document::{Error, quoted};

/// YAML takes this character as a part of a key.
const NO_BREAK: char = '\u{a0}';

/// A better message and a hint for a mistake about a value. The message is `None` if Diana's own
/// message suits.
pub struct Advice {
    /// The message.
    pub message: Option<String>,
    /// The hint.
    pub hint: String,
}

/// The advice about a value that Diana refuses. `is_bare` says whether the text has the value
/// without quotes.
#[must_use]
pub fn advice(error: &Error, value: &Value, is_bare: bool) -> Option<Advice> {
    if let Some(key) = &error.key {
        return key.starts_with(NO_BREAK).then(|| Advice {
            message: Some(format!("a no-break space (U+00A0) stands before {}", quoted(key.trim()))),
            hint: "YAML indents by spaces: write spaces instead".into(),
        });
    }
    let hint = |hint: String| Some(Advice { message: None, hint });
    if value.text().is_some_and(|text| text.contains("{{")) {
        return hint(TEMPLATE.into());
    }
    if error.why.ends_with(", leave out its quotes") {
        let beyond = || hint(format!("write at most {}: Envoy reads larger numbers as text", i32::MAX));
        return too_large(&error.why, value).or_else(|| if is_bare { beyond() } else { None });
    }
    let name = error.path.rsplit(['.', ']']).next().unwrap_or_default();
    match (name, &value.kind) {
        ("limits" | "rules", Kind::Object(entries)) if error.why == "expected a list, found an object" => {
            let first = entries.first().map_or("", |entry| entry.key.as_str());
            hint(format!("missing `- `? write `- ` before {}", quoted(first)))
        }
        ("url", Kind::List(_)) => hint("write one limit for each url".into()),
        ("unit", _) if error.why.contains(" has no unit") => hint(NO_UNIT.into()),
        ("unit", Kind::Number(number)) => hint(format!("write the unit as a span: `{number}s`")),
        ("rpu", Kind::Text(text)) => {
            let (rpu, per) = text.split_once('/')?;
            hint(format!("write `rpu: {}, unit: {}`", number(rpu)?, unit(per)?))
        }
        _ if error.why.starts_with("unknown actor ") => hint(actor(value.text()?)?),
        _ => None,
    }
}

/// The hint about a text that is filled in before a gateway reads it.
pub const TEMPLATE: &str = "a template? render it first (`helm template`)";

/// The hint about `unit` in a rule that limits requests in flight.
const NO_UNIT: &str = "leave `unit` out, or write another `algo` to limit requests per unit; `max_hold` is the longest \
    time that a request counts as in flight";

/// The advice about digits that are text, if the number is too large.
fn too_large(why: &str, value: &Value) -> Option<Advice> {
    let (expected, _) = why.split_once(", found the text ")?;
    let text = value.text()?.trim();
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let largest = expected.split_once(" to ")?.1;
    let largest = largest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()?;
    let is_larger = digits && text.parse::<u64>().ok().is_none_or(|number| number > largest);
    is_larger.then(|| Advice {
        message: Some(format!("`{text}` is larger than the largest value allowed, {largest}")),
        hint: format!("write at most {largest}"),
    })
}

/// The word for the unit that a text names.
fn unit(text: &str) -> Option<&'static str> {
    let seconds = diana_document::unit(text)?.as_ns() / 1_000_000_000;
    [(1, "second"), (60, "minute"), (3_600, "hour"), (86_400, "day")]
        .into_iter()
        .find_map(|(length, word)| (length == seconds).then_some(word))
}

/// The text, if it looks like a number such as `100` or `10k`.
fn number(text: &str) -> Option<&str> {
    let text = text.trim();
    let is_number = text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(char::is_alphanumeric);
    is_number.then_some(text)
}

/// How to declare an actor that is a header.
fn actor(text: &str) -> Option<String> {
    let name = text.strip_prefix("header").map_or(text, |rest| rest.trim_start_matches([':', '.', '=', ' ']));
    let is_header =
        name.contains('-') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let name = name.to_ascii_lowercase();
    let user = if name == "x-user-id" { "write `actor: user`, or " } else { "" };
    is_header
        .then(|| format!("{user}write `actor: {name}` and declare `actors: {{{name}: {{header: {name}}}}}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::json;

    fn hint(path: &str, why: &str, value: &str) -> Option<String> {
        let error = Error { path: path.into(), why: why.into(), key: None };
        advice(&error, &json::value(value).unwrap(), true).map(|advice| advice.hint)
    }

    #[test]
    fn a_unit_in_the_wrong_place_has_a_hint() {
        let none = "concurrency has no unit: `rpu` is how many may be in flight at once";
        for unit in ["\"second\"", "\"30s\"", "60"] {
            assert_eq!(hint("limits[0].rules[0].unit", none, unit).as_deref(), Some(NO_UNIT));
        }
        assert_eq!(hint("a.unit", "", "\"month\""), None);
        assert_eq!(hint("a.unit", "", "60").as_deref(), Some("write the unit as a span: `60s`"));
        assert_eq!(hint("a.rpu", "", "\"100/min\"").as_deref(), Some("write `rpu: 100, unit: minute`"));
        assert_eq!(hint("a.rpu", "", "\"100/x\""), None);
    }

    #[test]
    fn a_header_as_an_actor_has_a_hint() {
        let shown = |text: &str| hint("a.actor", "unknown actor `x`", &format!("\"{text}\""));
        let declare = "write `actor: x-api-key` and declare `actors: {x-api-key: {header: x-api-key}}`";
        assert_eq!(shown("x-api-key").as_deref(), Some(declare));
        assert_eq!(shown("header X-Api-Key").as_deref(), Some(declare));
        assert!(shown("x-user-id").unwrap().starts_with("write `actor: user`, or "));
        assert_eq!(shown("tenant"), None);
    }

    #[test]
    fn a_list_without_dashes_has_a_hint() {
        let list = "expected a list, found an object";
        assert_eq!(
            hint("limits", list, r#"{"url": "/"}"#).as_deref(),
            Some("missing `- `? write `- ` before `url`")
        );
        assert_eq!(hint("limits[0].url", "", r#"["/a"]"#).as_deref(), Some("write one limit for each url"));
    }

    #[test]
    fn a_number_beyond_the_range_is_called_too_large() {
        let why =
            "expected a whole number from 0 to 1000000000, found the text `5000000000`, leave out its quotes";
        let large = hint("a.rpu", why, "\"5000000000\"");
        assert_eq!(large.as_deref(), Some("write at most 1000000000"));
        let shown = hint("a.rpu", why, "\"500\"");
        assert_eq!(shown.as_deref(), Some("write at most 2147483647: Envoy reads larger numbers as text"));
    }

    #[test]
    fn a_template_has_a_hint() {
        assert_eq!(hint("a.rpu", "", "\"{{ .Values.rpu }}\"").as_deref(), Some(TEMPLATE));
    }
}
