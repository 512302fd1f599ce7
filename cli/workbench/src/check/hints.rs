//! Hints for values that other programs or other habits suggest.

use super::urls;
use crate::source::value::{Kind, Value};
use diana_base::time::Span;
use diana_document::{Error, Errors, Node, fold, quoted};
use diana_limiter::algorithm::Allowance;
use std::ops::RangeInclusive;

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

/// The advice about a value that Diana refuses, or about one of its keys. `parent` contains the
/// value, and `is_bare` indicates that it has no quotes in the text.
#[must_use]
pub fn advice(error: &Error, value: &Value, parent: &Value, is_bare: bool) -> Option<Advice> {
    let hint = |hint: String| Some(Advice { message: None, hint });
    let name = error.path.rsplit(['.', ']']).next().unwrap_or_default();
    if let Some(key) = &error.key {
        if let Some(key) = key.strip_prefix(NO_BREAK) {
            return Some(Advice {
                message: Some(format!("a no-break space (U+00A0) stands before {}", quoted(key.trim()))),
                hint: "YAML indents by spaces: write spaces instead".into(),
            });
        }
        return match &**key {
            "trusted_proxies" | "trusted_cidrs" | "proxies" if name == "ip" => hint(PROXIES.into()),
            "xff_num_trusted_hops" | "num_trusted_hops" if name == "ip" => hint(HOPS.into()),
            "plans" if error.path.is_empty() => hint(PLANS.into()),
            // `{unit:second}` is a key without a value.
            _ => match key.split_once(':') {
                Some((key, rest)) if !rest.is_empty() => {
                    hint(format!("write a space after the colon of {}", quoted(key)))
                }
                _ => None,
            },
        };
    }
    if value.text().is_some_and(|text| text.contains("{{")) {
        return hint(TEMPLATE.into());
    }
    if let Some(advice) = too_large(&error.why, value) {
        return Some(advice);
    }
    if error.why.ends_with(", leave out its quotes") {
        let beyond = || hint(format!("write at most {}: Envoy reads larger numbers as text", i32::MAX));
        return if is_bare { beyond() } else { None };
    }
    match (name, &value.kind) {
        ("limits" | "rules", Kind::Object(entries)) if error.why == "expected a list, found an object" => {
            let first = entries.first().map_or("", |entry| entry.key.as_str());
            match first.strip_prefix('-') {
                Some(key) => hint(format!("write a space between `-` and {}", quoted(key))),
                None => hint(format!("missing `- `? write `- ` before {}", quoted(first))),
            }
        }
        ("unit", _) if error.why.contains(" has no unit") => hint(NO_UNIT.into()),
        ("unit", Kind::Text(text)) if let Some(hint) = letter(text) => Some(Advice { message: None, hint }),
        ("unit", Kind::Number(number)) => {
            let seconds = number.parse().ok().filter(|seconds| SECONDS.contains(seconds))?;
            hint(format!("write the unit as a span: `{seconds}s`"))
        }
        ("unit", _) if error.why.ends_with("which only `algo: W` counts") => hint("write `algo: W`".into()),
        ("unit", Kind::Text(text)) => hint(long_unit(text, parent.get("rpu"))?),
        ("rpu", Kind::Text(text)) if text.contains('/') => {
            let (rpu, per) = text.split_once('/')?;
            hint(format!("write `rpu: {}, unit: {}`", number(rpu)?, unit(per)?))
        }
        // Envoy reads fractions in YAML as text.
        ("rpu", Kind::Number(text) | Kind::Text(text)) if let Ok(number) = text.trim().parse() => {
            hint(fraction(number, parent.get("unit")?)?)
        }
        (_, Kind::Text(url))
            if is_url(&error.path) && FOREIGN_URL.iter().any(|why| error.why.contains(why)) =>
        {
            hint(urls::hint(url)?)
        }
        _ if error.why.starts_with("unknown actor ") && !error.why.contains(", did you mean ") => {
            hint(actor(value.text()?)?)
        }
        _ if error.why.starts_with("expected what is different for it") => hint(of_override(value)?),
        _ if error.why.ends_with("by which this actor counts") => hint(network(&error.why)?),
        (_, Kind::Text(text)) if error.why.contains("`64Ki`") => {
            let size = text.trim().strip_suffix(['B', 'b']).filter(|size| self::size(size).is_some())?;
            hint(format!("write `{size}`"))
        }
        _ => None,
    }
}

/// The hint about a text that is filled in before a gateway reads it.
pub const TEMPLATE: &str = "a template? render it first (`helm template`)";

const PROXIES: &str = "proxies are counted, not listed: behind Envoy's `use_remote_address: true`, write \
    `trusted_hops: 2` for one proxy of your own, 3 for two, or let the gateway find the client by their addresses";
const HOPS: &str = "write `trusted_hops`, which counts the gateway's own entry as well";
const PLANS: &str = "did you mean `plan`, which says where a request shows its plan? `plans` with the quotas belongs to a \
    rule in `rules`";
const UNLIMITED: &str =
    "write a large quota, as `{rpu: 1M}`, or list the actor in `allow` to exempt it from all rules";

/// What Diana says about the urls of other programs. Its other messages about urls contain hints.
const FOREIGN_URL: [&str; 4] =
    ["begins with `/`", "not a full url", "stands for a whole segment", "names a segment in other routers"];

/// Whether a url of a limit is at this place, alone or in a list.
fn is_url(path: &str) -> bool {
    let list = path.strip_suffix(']').and_then(|item| item.rsplit_once('['));
    let place = list.map_or(path, |(list, _)| list);
    ["url", "Url"].contains(&place.rsplit('.').next().unwrap_or_default())
}

/// The lengths that a unit may have, in whole seconds.
const SECONDS: RangeInclusive<u64> =
    Allowance::MIN_UNIT.as_ns().div_ceil(1_000_000_000)..=Allowance::MAX_UNIT.as_ns() / 1_000_000_000;

/// The hint about `unit` in a rule that limits requests in flight.
const NO_UNIT: &str = "leave `unit` out, or write another `algo` to limit requests per unit; `max_hold` is the longest \
    time that a request counts as in flight";

/// The advice about digits or a size that are text, if the number is too large.
fn too_large(why: &str, value: &Value) -> Option<Advice> {
    let (expected, _) = why.split_once(", found ")?;
    let text = value.text()?.trim();
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let largest = expected.split_once(" to ")?.1;
    let largest = largest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()?;
    let number = if digits { text.parse().ok() } else { Some(size(text)?) };
    number.is_none_or(|number| number > largest).then(|| Advice {
        message: Some(format!("`{text}` is larger than the largest value allowed, {largest}")),
        hint: format!("write at most {largest}"),
    })
}

/// The hint about a unit in a capital letter, alone or after a number.
fn letter(text: &str) -> Option<String> {
    let letter = text.trim().chars().next_back().filter(char::is_ascii_uppercase)?;
    let number = text.trim().strip_suffix(letter)?.trim();
    let small = letter.to_ascii_lowercase();
    let unit = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| unit(&small.to_string()))??;
    let more = if letter == 'M' {
        "; a month is `unit: month` of `algo: W`, and `M` is a million in sizes"
    } else {
        ""
    };
    Some(match number {
        "" => format!("write `unit: {unit}`{more}"),
        number => format!("write `unit: {number}{small}`{more}"),
    })
}

/// The word for the unit that a text names.
fn unit(text: &str) -> Option<&'static str> {
    let seconds = diana_document::unit(text)?.as_ns() / 1_000_000_000;
    [(1, "second"), (60, "minute"), (3_600, "hour"), (86_400, "day")]
        .into_iter()
        .find_map(|(length, word)| (length == seconds).then_some(word))
}

/// The value of a size such as `10k`.
fn size(text: &str) -> Option<u64> {
    let (value, errors) = (diana_document::Value::Text(text.into()), Errors::default());
    Node::root(&value, &errors).size(0..=u64::MAX).filter(|_| !text.ends_with(|c: char| c.is_ascii_digit()))
}

/// The hint about a rate such as 0.5 per second: the same rate as a whole number in a longer unit.
fn fraction(number: f64, unit: &Value) -> Option<String> {
    let unit = span(unit.text()?)?;
    // Rounding would change the rate of larger numbers.
    if !(0.0..1e6).contains(&number) {
        return None;
    }
    let (rpu, unit) = (2..=1_000u32).find_map(|times| {
        let units = number * f64::from(times);
        let is_whole = units >= 1.0 && (units - units.round()).abs() < 1e-6;
        let longer = Span::from_ns(unit.as_ns().checked_mul(times.into())?);
        (is_whole && longer <= Allowance::MAX_UNIT).then_some((units.round(), longer))
    })?;
    Some(format!("write `rpu: {rpu}, unit: {unit}`"))
}

/// Units that are longer than a day, in days.
const LONG_UNITS: [(&str, u64); 8] = [
    ("week", 7),
    ("fortnight", 14),
    ("month", 30),
    ("quarter", 91),
    ("year", 365),
    ("w", 7),
    ("mo", 30),
    ("y", 365),
];

/// The hint about a unit such as `month` or `2 weeks`: the part of the quota for the longest unit.
fn long_unit(text: &str, rpu: Option<&Value>) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let (number, name) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let name = name.trim();
    let days = match LONG_UNITS.iter().find(|(unit, _)| *unit == name.strip_suffix('s').unwrap_or(name)) {
        Some((_, days)) => *days,
        None if name == "d" => 1,
        None => return None,
    };
    let days = if number.is_empty() { days } else { number.parse::<u64>().ok()?.checked_mul(days)? };
    let (longest, long) = (Allowance::MAX_UNIT, u128::from(days) * 86_400_000_000_000);
    let part = |rpu: u64| (u128::from(rpu) * u128::from(longest.as_ns())).checked_div(long);
    if long <= longest.as_ns().into() {
        return Some(format!("write `unit: {longest}`"));
    }
    // A quota of less than 1 for the longest unit cannot be written.
    let rpu = part(rpu?.whole()?).filter(|rpu| *rpu > 0)?;
    Some(format!("write `rpu: {rpu}, unit: {longest}`"))
}

/// A unit or a span of any length.
fn span(text: &str) -> Option<Span> {
    let (value, errors) = (diana_document::Value::Text(text.into()), Errors::default());
    diana_document::unit(text)
        .or_else(|| Node::root(&value, &errors).span(Span::ZERO..=Span::from_ns(u64::MAX)))
}

/// The hint about an override that is no object.
fn of_override(value: &Value) -> Option<String> {
    match value.whole() {
        Some(rpu) => Some(format!("write `{{rpu: {rpu}}}`")),
        None => (fold(value.text()?) == "unlimited").then(|| UNLIMITED.into()),
    }
}

/// The hint about the override of a network, whose addresses are counted one by one.
fn network(why: &str) -> Option<String> {
    let (network, _) = why.strip_prefix('`')?.split_once('`')?;
    let (address, prefix) = network.split_once('/')?;
    let version = if address.contains(':') { "v6" } else { "v4" };
    Some(format!("define `actors: {{net: {{ip: {{{version}_prefix: {prefix}}}}}}}` to give a network a plan"))
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
    if ["forwarded", "x-forwarded-for", "x-real-ip"].contains(&&*name) {
        return Some("write `actor: ip`, and `ip: {trusted_hops: N}` behind proxies of your own".into());
    }
    let user = if name == "x-user-id" { "write `actor: user`, or " } else { "" };
    is_header
        .then(|| format!("{user}write `actor: {name}` and declare `actors: {{{name}: {{header: {name}}}}}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::json;
    use proptest::prelude::*;

    fn hint(path: &str, why: &str, value: &str) -> Option<String> {
        beside(path, why, value, "{}")
    }

    /// The hint about a value of an object.
    fn beside(path: &str, why: &str, value: &str, parent: &str) -> Option<String> {
        let error = Error { path: path.into(), why: why.into(), key: None };
        let [value, parent] = [value, parent].map(|text| json::value(text).unwrap());
        advice(&error, &value, &parent, true).map(|advice| advice.hint)
    }

    /// The hint about each mistake in the quota of a rule.
    fn quota(rpu: &str, unit: &str) -> Vec<Option<String>> {
        let rule = format!(r#"{{"rpu": {rpu}, "unit": "{unit}"}}"#);
        let document = format!(r#"{{"url": "/", "rules": [{rule}]}}"#);
        let hint = |error: &Error| {
            let value = json::value(&rule).unwrap();
            let key = error.path.rsplit('.').next()?;
            let value = value.get(key)?.to_json();
            beside(&error.path, &error.why, &value, &rule)
        };
        match diana_config::compile(document.as_bytes()) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.iter().map(hint).collect(),
        }
    }

    /// The quota that a hint names; `rpu` is that of the document.
    fn named(hint: &str, rpu: u64) -> (u64, String) {
        let text = hint.strip_prefix("write `").and_then(|text| text.strip_suffix('`')).unwrap();
        match text.strip_prefix("rpu: ") {
            Some(text) => {
                let (rpu, unit) = text.split_once(", unit: ").unwrap();
                (rpu.parse().unwrap(), unit.into())
            }
            None => (rpu, text.strip_prefix("unit: ").unwrap().into()),
        }
    }

    fn per_day(rpu: f64, unit: &str) -> f64 {
        rpu * 86_400e9 / span(unit).unwrap().as_ns() as f64
    }

    proptest! {
        #[test]
        fn a_fraction_has_the_hint_of_the_same_rate(tenths in 1u32..5_000, unit in "second|minute|hour|day") {
            prop_assume!(tenths % 10 != 0);
            let number = f64::from(tenths) / 10.0;
            let found = quota(&number.to_string(), &unit);
            prop_assert_eq!(found.len(), 1);
            let Some(hint) = &found[0] else {
                prop_assert_eq!(unit, "day");
                return Ok(());
            };
            let (rpu, longer) = named(hint, 0);
            prop_assert_eq!(quota(&rpu.to_string(), &longer), []);
            let (rate, meant) = (per_day(rpu as f64, &longer), per_day(number, &unit));
            prop_assert!((rate / meant - 1.0).abs() < 1e-9, "{}", hint);
        }

        #[test]
        fn a_long_unit_has_the_hint_of_no_larger_rate(rpu in 1u64..1_000_000_000, unit in "[2-9] ?(week|month|year)s?|(week|month|year)s") {
            let found = quota(&rpu.to_string(), &unit);
            prop_assert_eq!(found.len(), 1);
            let Some(hint) = found[0].as_ref() else {
                prop_assert!(rpu < 500, "a quota that may be less than 1 in seven days");
                return Ok(());
            };
            let (less, longest) = named(hint, rpu);
            let spans = (span(&longest).unwrap().as_ns(), u64::from(longest != unit) * 6 * 86_400_000_000_000);
            prop_assert!(less <= rpu && spans.0 >= spans.1);
            prop_assert_eq!(quota(&less.to_string(), &longest), [], "{}", hint);
        }
    }

    #[test]
    fn what_other_programs_write_has_hints() {
        let shown = |rpu: &str, unit: &str| match &quota(rpu, unit)[..] {
            [hint] => hint.clone(),
            hints => panic!("{hints:?}"),
        };
        for (rpu, unit, hint) in [
            ("0.5", "second", "write `rpu: 1, unit: 2s`"),
            ("2.5", "minute", "write `rpu: 5, unit: 2m`"),
            ("1000", "months", "write `rpu: 233, unit: 7d`"),
            ("4", "month", "write `algo: W`"),
            ("70", "2 weeks", "write `rpu: 35, unit: 7d`"),
            ("9", "30d", "write `rpu: 2, unit: 7d`"),
            ("\"0.5\"", "second", "write `rpu: 1, unit: 2s`"),
            ("9", "w", "write `unit: 7d`"),
            ("\"10MB\"", "day", "write `10M`"),
            ("\"64KiB\"", "day", "write `64Ki`"),
        ] {
            assert_eq!(shown(rpu, unit).as_deref(), Some(hint), "{rpu} {unit}");
        }
        for (rpu, unit) in [
            ("0.0001", "day"),
            ("-0.5", "day"),
            ("0.5", "x"),
            ("9", "secnd"),
            ("4", "months"),
            // The message names the algorithms that count so far.
            ("\"10G\"", "day"),
            ("\"10Q\"", "day"),
        ] {
            assert!(quota(rpu, unit).iter().all(Option::is_none), "{rpu} {unit}");
        }
        let different = "expected what is different for it, such as `{rpu: 100}`, found `1000`";
        assert_eq!(hint("a.overrides.vip", different, "1000").as_deref(), Some("write `{rpu: 1000}`"));
        assert_eq!(hint("a.overrides.vip", different, "\"Unlimited\"").as_deref(), Some(UNLIMITED));
        assert_eq!(hint("a.overrides.vip", different, "null"), None);
        let counts = "`2001:db8::/32` is not a /64, by which this actor counts";
        assert_eq!(
            hint("a.overrides[\"2001:db8::/32\"]", counts, "{}").as_deref(),
            Some("define `actors: {net: {ip: {v6_prefix: 32}}}` to give a network a plan")
        );
        for path in ["limits[0].url", "limits[0].url[1]"] {
            let foreign = hint(path, "a pattern begins with `/` or `=/`, found `^/api`", "\"^/api\"");
            assert!(foreign.unwrap().starts_with("write `/api`, "), "{path}");
        }
        for (key, shown) in [("trusted_proxies", PROXIES), ("num_trusted_hops", HOPS)] {
            let error = Error { path: "ip".into(), why: String::new(), key: Some(key.into()) };
            let [value, parent] = ["{}", "{}"].map(|text| json::value(text).unwrap());
            assert_eq!(
                advice(&error, &value, &parent, true).map(|advice| advice.hint).as_deref(),
                Some(shown)
            );
        }
    }

    #[test]
    fn a_unit_in_the_wrong_place_has_a_hint() {
        let none = "concurrency has no unit: `rpu` is how many may be in flight at once";
        for unit in ["\"second\"", "\"30s\"", "60"] {
            assert_eq!(hint("limits[0].rules[0].unit", none, unit).as_deref(), Some(NO_UNIT));
        }
        assert_eq!(hint("a.unit", "", "60").as_deref(), Some("write the unit as a span: `60s`"));
        assert_eq!(hint("a.unit", "", "0"), None);
        assert_eq!(hint("a.unit", "", "604801"), None);
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
        assert!(shown("header x-forwarded-for").unwrap().starts_with("write `actor: ip`"));
        assert_eq!(shown("tenant"), None);
    }

    #[test]
    fn a_list_without_dashes_has_a_hint() {
        let list = "expected a list, found an object";
        assert_eq!(
            hint("limits", list, r#"{"url": "/"}"#).as_deref(),
            Some("missing `- `? write `- ` before `url`")
        );
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
