//! The syntax of a request's texts, for actors and conditions: tokens, escapes, queries and hosts.

use diana_base::part;
use std::net::Ipv6Addr;

/// Whether `bytes` are a token: one or more letters, digits and some marks.
#[must_use]
pub fn is_token(bytes: &[u8]) -> bool {
    let is_mark = |byte: &u8| b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

/// The length of an escape in bytes.
pub const ESCAPE_LENGTH: usize = 3;

/// The byte that the escape at the start of `text` encodes, or `None` if `text` does not start with
/// an escape. A `%` without two hexadecimal digits after it is no escape.
#[must_use]
pub fn leading_escape(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else { return None };
    Some(digit(*high)? << 4 | digit(*low)?)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// The decoded values of the parameter `name` in a request target, in order. A parameter without
/// `=` has an empty value. Takes time linear in the length of `target`.
///
/// ```
/// use diana_limiter::request::syntax::query_values;
///
/// let found: Vec<Vec<u8>> = query_values(b"/search?q=a+b&debug&%71=c", b"q").collect();
/// assert_eq!(found, [b"a b".to_vec(), b"c".to_vec()]);
/// assert!(query_values(b"/search?debug", b"debug").eq([b""]));
/// ```
pub fn query_values<'a>(target: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = Vec<u8>> + 'a {
    let query = before(target, b"#").splitn(2, |byte| *byte == b'?').nth(1).unwrap_or_default();
    query.split(|byte| *byte == b'&').filter_map(move |pair| {
        let mut sides = pair.splitn(2, |byte| *byte == b'=');
        let named = decoded(sides.next()?).eq(name.iter().copied());
        named.then(|| decoded(sides.next().unwrap_or_default()).collect())
    })
}

/// The text before the first of `ends`, or all of it.
pub(super) fn before<'a>(text: &'a [u8], ends: &[u8]) -> &'a [u8] {
    let end = text.iter().position(|byte| ends.contains(byte));
    part(text, ..end.unwrap_or(text.len()))
}

/// `+` is a space and `%41` is `A`. A `%` without two hexadecimal digits after it stands for
/// itself.
fn decoded(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (length, byte) = match (leading_escape(rest), rest.first()?) {
            (Some(byte), _) => (ESCAPE_LENGTH, byte),
            (None, b'+') => (1, b' '),
            (None, byte) => (1, *byte),
        };
        rest = rest.get(length..)?;
        Some(byte)
    })
}

/// The host name in an authority (RFC 3986 §3.2): lower case, without the port and without the dot
/// of the DNS root. `API.example.com.:443` becomes `api.example.com`. An IPv6 address keeps its
/// brackets and is written as in RFC 5952. Text that is no host is only lower-cased.
///
/// ```
/// use diana_limiter::request::syntax::host_name;
///
/// assert_eq!(host_name(b"API.Example.com.:8443"), b"api.example.com");
/// assert_eq!(host_name(b"[2001:DB8::0:1]:443"), b"[2001:db8::1]");
/// ```
#[must_use]
pub fn host_name(authority: &[u8]) -> Vec<u8> {
    let host = without_port(authority.trim_ascii());
    let host = host.strip_suffix(b".").unwrap_or(host);
    match bracketed(host) {
        Some(address) => host_of_address(address).into_bytes(),
        None => host.to_ascii_lowercase(),
    }
}

/// The host name of an IPv6 address.
#[must_use]
pub(crate) fn host_of_address(address: Ipv6Addr) -> String {
    format!("[{address}]")
}

fn bracketed(host: &[u8]) -> Option<Ipv6Addr> {
    let inner = host.strip_prefix(b"[")?.strip_suffix(b"]")?;
    std::str::from_utf8(inner).ok()?.parse().ok()
}

/// Colons within brackets belong to an address, as do several colons without brackets.
fn without_port(authority: &[u8]) -> &[u8] {
    let mut sides = authority.rsplitn(2, |byte| *byte == b':');
    match (sides.next(), sides.next()) {
        (Some(port), Some(host))
            if port.iter().all(u8::is_ascii_digit) && (host.ends_with(b"]") || !host.contains(&b':')) =>
        {
            host
        }
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_no_gap_and_no_separator() {
        for token in ["GET", "x-plan", "a.b_c", "M-SEARCH", "1"] {
            assert!(is_token(token.as_bytes()), "{token}");
        }
        for other in ["", "a b", ":path", "a:", "é", "a/b", "a,b", "a\n"] {
            assert!(!is_token(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn an_escape_is_a_percent_sign_and_two_digits() {
        for (text, byte) in [
            ("%41", Some(0x41)),
            ("%4aB", Some(0x4a)),
            ("%fF", Some(0xff)),
            ("%00", Some(0)),
            ("%4", None),
            ("%", None),
            ("", None),
            ("41", None),
            ("a%41", None),
            ("%4g", None),
            ("%g4", None),
            ("%+4", None),
        ] {
            assert_eq!(leading_escape(text.as_bytes()), byte, "{text}");
        }
    }

    #[test]
    fn all_spellings_of_a_host_are_one_name() {
        for (authority, expected) in [
            ("example.com", "example.com"),
            ("Example.COM", "example.com"),
            (" example.com:8080 ", "example.com"),
            ("example.com:", "example.com"),
            ("example.com.", "example.com"),
            ("example.com..", "example.com."),
            ("EXAMPLE.com.:443", "example.com"),
            ("example.com:HTTP", "example.com:http"),
            ("192.0.2.7:80", "192.0.2.7"),
            ("[::1]", "[::1]"),
            ("[::1]:443", "[::1]"),
            ("[2001:DB8:0::1]:443", "[2001:db8::1]"),
            ("[2001:DB8:0::1].", "[2001:db8::1]"),
            ("[::X]:443", "[::x]"),
            ("[::1]x", "[::1]x"),
            ("[::1", "[::1"),
            ("::1", "::1"),
            ("", ""),
            (":80", ""),
            (".", ""),
        ] {
            assert_eq!(host_name(authority.as_bytes()), expected.as_bytes(), "{authority}");
            assert_eq!(host_name(expected.as_bytes()) == expected.as_bytes(), expected != "example.com.");
        }
    }
}
