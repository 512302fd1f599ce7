//! Reads the remaining quota in `response_headers_to_add`, where services without `statuses`, such
//! as Limitador, report it. The headers are those of draft-polli-ratelimit-headers-03.

use super::messages::{Header, Headers};
use diana_base::time::Span;
use diana_limiter::algorithm::Quota;
use prost::Message;

/// If a message has more headers, none is read.
pub const MAX_HEADERS: usize = 64;

/// The limit with the least remaining.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tightest {
    /// The limit's name in the service; empty if the service does not say.
    pub name: Vec<u8>,
    pub remaining: Option<u64>,
    /// The time until more is available, at most [`Quota::MAX_UNIT`]; zero if the service does not
    /// say.
    pub reset: Span,
}

/// Reads the headers of a message. A malformed value counts as absent, because no rule depends on
/// these numbers.
///
/// The headers describe the limit with the least remaining:
/// `x-ratelimit-limit: 10, 10;w=60;name="login"`, `x-ratelimit-remaining: 4`,
/// `x-ratelimit-reset: 30`.
pub fn tightest(message: &[u8]) -> Tightest {
    let Headers { headers } = Headers::decode(message).unwrap_or_default();
    let value = |name: &str| {
        let found = headers.iter().find(|header| header.key.eq_ignore_ascii_case(name.as_bytes()))?;
        let Header { value, raw_value, .. } = found;
        Some(if value.is_empty() { raw_value } else { value }.trim_ascii())
    };
    let secs = value("x-ratelimit-reset").and_then(whole).unwrap_or(0);
    Tightest {
        name: value("x-ratelimit-limit").and_then(first_name).unwrap_or_default().into(),
        remaining: value("x-ratelimit-remaining").and_then(whole),
        reset: Span::from_ns(secs.saturating_mul(1_000_000_000)).min(Quota::MAX_UNIT),
    }
}

/// A number of up to 18 digits, without a sign.
fn whole(value: &[u8]) -> Option<u64> {
    let is_number = (1..=18).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    str::from_utf8(value).ok().filter(|_| is_number)?.parse().ok()
}

/// The name of the first policy in the list, which is the tightest. The list begins with a number
/// without a name.
fn first_name(value: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"name=\"";
    let policy = value.split(|byte| *byte == b',').nth(1)?;
    let parameters = policy.split(|byte| *byte == b';');
    let name = parameters.filter_map(|parameter| parameter.trim_ascii().strip_prefix(NAME)).next()?;
    name.strip_suffix(b"\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn read(headers: &[(&str, &[u8])]) -> Tightest {
        let header = |(key, value): &(&str, &[u8])| Header {
            key: key.as_bytes().into(),
            value: (*value).into(),
            raw_value: Vec::new(),
        };
        tightest(&Headers { headers: headers.iter().map(header).collect() }.encode_to_vec())
    }

    fn name(text: &str) -> String {
        String::from_utf8(read(&[("x-ratelimit-limit", text.as_bytes())]).name).unwrap()
    }

    #[test]
    fn limitador_names_the_tightest_limit_first() {
        let text = br#"10, 10;w=60;name="login", 1000;w=60;name="everybody""#;
        let read = read(&[
            ("X-RateLimit-Limit", text),
            ("X-RateLimit-Remaining", b"4"),
            ("X-RateLimit-Reset", b" 30 "),
        ]);
        let expected = Tightest { name: b"login".into(), remaining: Some(4), reset: Span::from_secs(30) };
        assert_eq!(read, expected);
    }

    #[test]
    fn a_raw_value_stands_for_an_empty_one() {
        let header =
            Header { key: b"x-ratelimit-remaining".into(), value: Vec::new(), raw_value: b"7".into() };
        assert_eq!(tightest(&Headers { headers: vec![header] }.encode_to_vec()).remaining, Some(7));
    }

    #[test]
    fn only_the_first_policy_has_the_name() {
        for (text, expected) in [
            (r#"10, 10;w=60;name="login""#, "login"),
            (r#"10, 10; name="login" ;w=60"#, "login"),
            (r#"10, 10;w=60, 5;w=60;name="other""#, ""),
            ("10, 10;w=60", ""),
            ("10", ""),
            ("", ""),
            (r#"10;name="a", 10"#, ""),
            (r#"10, 10;name="a"#, ""),
            (r#"10, 10;name=""#, ""),
            (r#"10, 10;name="""#, ""),
        ] {
            assert_eq!(name(text), expected, "{text}");
        }
    }

    #[test]
    fn a_value_that_is_no_number_is_absent() {
        for value in ["", "-1", "+1", "1.5", "0x1", "1 2", "1234567890123456789", "one", "4, 4"] {
            let read =
                read(&[("x-ratelimit-remaining", value.as_bytes()), ("x-ratelimit-reset", value.as_bytes())]);
            assert_eq!(read, Tightest::default(), "{value}");
        }
        let not_text = read(&[("\u{fffd}", b"1"), ("x-ratelimit-remaining", b"\xff")]);
        assert_eq!(not_text, Tightest::default());
        assert_eq!(read(&[("x-ratelimit-reset", b"999999999999999999")]).reset, Quota::MAX_UNIT);
    }

    proptest! {
        #[test]
        fn any_values_are_read_without_harm(values in vec((0..4usize, vec(any::<u8>(), 0..40)), 0..6)) {
            const KEYS: [&str; 4] =
                ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "other"];
            let headers: Vec<(&str, &[u8])> = values.iter().map(|(key, value)| (KEYS[*key], &**value)).collect();
            prop_assert!(read(&headers).reset <= Quota::MAX_UNIT);
        }
    }
}
