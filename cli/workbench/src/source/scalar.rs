//! The type that a gateway gives a plain YAML scalar. Text in quotes and block scalars stay text.
//!
//! The types are those of Envoy 1.40, tried with a `node.metadata` that `/server_info` shows, and
//! those of Kubernetes' `sigs.k8s.io/yaml`, which follows YAML 1.1.

use super::value::Kind;

/// The program that converts the YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Envoy: no fractions, no merge keys, and whole numbers beyond 32 bits become text.
    Envoy,
    /// Kubernetes' tools: numbers of YAML 1.1, and merge keys.
    Kubernetes,
}

/// The value of a plain scalar.
#[must_use]
pub fn typed(text: &str, dialect: Dialect) -> Kind {
    if matches!(text, "" | "~" | "null" | "Null" | "NULL") {
        return Kind::Null;
    }
    if let Some(flag) = flag(text) {
        return Kind::Bool(flag);
    }
    let number = match dialect {
        Dialect::Envoy => whole(text).map(|number| {
            let is_small = i32::try_from(number).is_ok();
            if is_small { Kind::Number(number.to_string()) } else { Kind::Text(number.to_string()) }
        }),
        Dialect::Kubernetes => number(text),
    };
    number.unwrap_or_else(|| Kind::Text(text.into()))
}

/// `y`, `yes`, `true`, `on` and their opposites, in lower case, in upper case or capitalized.
fn flag(text: &str) -> Option<bool> {
    let lower = text.to_ascii_lowercase();
    let mut rest = text.chars();
    let first = rest.next()?;
    let rest = rest.as_str();
    let no_upper = |text: &str| !text.chars().any(|c| c.is_ascii_uppercase());
    let all_upper = !text.chars().any(|c| c.is_ascii_lowercase());
    if !(all_upper || no_upper(text) || first.is_ascii_uppercase() && no_upper(rest)) {
        return None;
    }
    match lower.as_str() {
        "y" | "yes" | "true" | "on" => Some(true),
        "n" | "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

/// A whole number with an optional sign: `17`, octal after `0`, hexadecimal after `0x`.
fn whole(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = if let Some(digits) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        (16, digits)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (8, digits)
    } else {
        (10, digits)
    };
    // `from_str_radix` would accept a second sign.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    i64::from_str_radix(&[sign, digits].concat(), radix).ok()
}

/// A number of YAML 1.1 as JSON text, or the text that stands for one without a finite value.
fn number(text: &str) -> Option<Kind> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    let plain = text.replace('_', "");
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let of_radix = |prefix: &str, radix: u32| {
        let digits = digits.strip_prefix(prefix).filter(|digits| !digits.starts_with(['+', '-']))?;
        i64::from_str_radix(&[sign, digits].concat(), radix).ok()
    };
    let whole = whole(&plain).or_else(|| of_radix("0b", 2)).or_else(|| of_radix("0o", 8));
    if let Some(number) = whole {
        return Some(Kind::Number(number.to_string()));
    }
    let is_float = plain.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
        && plain.bytes().any(|byte| byte.is_ascii_digit());
    let float = is_float.then(|| plain.parse::<f64>().ok()).flatten().filter(|float| float.is_finite())?;
    Some(Kind::Number(serde_json::Number::from_f64(float)?.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Kind {
        Kind::Number(text.into())
    }

    fn text(text: &str) -> Kind {
        Kind::Text(text.into())
    }

    /// What Envoy 1.40.0 shows in `/server_info` for these values of `node.metadata`.
    #[test]
    fn scalars_have_the_types_that_envoy_gives_them() {
        for (yaml, expected) in [
            ("y", Kind::Bool(true)),
            ("Yes", Kind::Bool(true)),
            ("ON", Kind::Bool(true)),
            ("N", Kind::Bool(false)),
            ("tRue", text("tRue")),
            ("010", number("8")),
            ("007", number("7")),
            ("08", text("08")),
            ("0o10", text("0o10")),
            ("0x10", number("16")),
            ("-0x10", number("-16")),
            ("0x", text("0x")),
            ("+5", number("5")),
            ("--5", text("--5")),
            ("0", number("0")),
            ("-1", number("-1")),
            ("1_000", text("1_000")),
            ("2147483647", number("2147483647")),
            ("3000000000", text("3000000000")),
            ("0xB2D05E00", text("3000000000")),
            ("-2147483649", text("-2147483649")),
            ("30000000000000000000000", text("30000000000000000000000")),
            ("1.50", text("1.50")),
            (".5", text(".5")),
            ("1e3", text("1e3")),
            (".inf", text(".inf")),
            ("~", Kind::Null),
            ("", Kind::Null),
            ("NULL", Kind::Null),
            ("12:30", text("12:30")),
            ("2020-01-01", text("2020-01-01")),
        ] {
            assert_eq!(typed(yaml, Dialect::Envoy), expected, "{yaml}");
        }
    }

    #[test]
    fn scalars_have_the_types_of_yaml_1_1_in_kubernetes() {
        for (yaml, expected) in [
            ("y", Kind::Bool(true)),
            ("off", Kind::Bool(false)),
            ("010", number("8")),
            ("0o10", number("8")),
            ("0b11", number("3")),
            ("-0b11", number("-3")),
            ("1_000", number("1000")),
            ("3000000000", number("3000000000")),
            ("1.50", number("1.5")),
            ("1e3", number("1000.0")),
            ("08", number("8.0")),
            ("1.2.3", text("1.2.3")),
            ("10.0.0.1", text("10.0.0.1")),
            ("-", text("-")),
            ("2020-01-01", text("2020-01-01")),
        ] {
            assert_eq!(typed(yaml, Dialect::Kubernetes), expected, "{yaml}");
        }
    }
}
