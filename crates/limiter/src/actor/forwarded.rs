//! The header `Forwarded` (RFC 7239), read from the right, where trusted proxies have appended
//! their elements: a quotation mark that a client opens swallows no element behind it.
//!
//! ```text
//!   for="x, for=203.0.113.9;proto=https, for="[2001:db8::7]:80"
//!            └──────── element 1 ──────┘ └───── element 0 ────┘
//! ```

use crate::request::HeaderLines;
use crate::request::syntax::is_token;
use diana_base::part;
use std::net::{IpAddr, Ipv6Addr};

/// The element at this place from the right, over all lines.
pub(super) fn element<'r>(lines: HeaderLines<'r>, mut place: usize) -> Option<&'r [u8]> {
    let lines: Vec<&[u8]> = lines.collect();
    for line in lines.into_iter().rev() {
        let mut rest = Some(line);
        while let Some(text) = rest {
            let comma = last_comma(text);
            let start = comma.map_or(0, |comma| comma.saturating_add(1));
            if place == 0 {
                return text.get(start..);
            }
            place = place.saturating_sub(1);
            rest = comma.and_then(|comma| text.get(..comma));
        }
    }
    None
}

/// The last comma that is not within a quoted string.
fn last_comma(text: &[u8]) -> Option<usize> {
    let mut end = text.len();
    loop {
        let at = part(text, ..end).iter().rposition(|byte| matches!(byte, b',' | b'"'))?;
        if text.get(at) == Some(&b',') {
            return Some(at);
        }
        end = opening(part(text, ..at))?;
    }
}

/// Where the quoted string begins that ends behind `text`: at the last quotation mark without a
/// backslash before it, which is itself not escaped.
fn opening(text: &[u8]) -> Option<usize> {
    let mut end = text.len();
    loop {
        let at = part(text, ..end).iter().rposition(|byte| *byte == b'"')?;
        let escapes = part(text, ..at).iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes.is_multiple_of(2) {
            return Some(at);
        }
        end = at;
    }
}

/// The address in the parameter `for` of an element. `None` if the element is malformed, has no
/// such parameter or several, or hides the address (`unknown`, `_hidden`).
pub(super) fn address(element: &[u8]) -> Option<IpAddr> {
    let (mut rest, mut node) = (element.trim_ascii(), None);
    loop {
        let name_end = rest.iter().position(|byte| matches!(byte, b'=' | b';')).unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(name_end)?;
        // A pair may be empty.
        if let Some(value_on) = after.strip_prefix(b"=") {
            let (value, after) = value(value_on)?;
            if !is_token(name) || name.eq_ignore_ascii_case(b"for") && node.replace(value).is_some() {
                return None;
            }
            rest = after;
        } else if name.is_empty() {
            rest = after;
        } else {
            return None;
        }
        match rest.trim_ascii_start().split_first() {
            Some((b';', after)) => rest = after.trim_ascii_start(),
            Some(_) => return None,
            None => return of_node(&node?),
        }
    }
}

/// A token or a quoted string (RFC 9110, section 5.6.4) without its escapes, and the text behind
/// it.
fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(mut rest) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| b"; \t".contains(byte)).unwrap_or(text.len());
        let (token, after) = text.split_at_checked(end)?;
        return is_token(token).then(|| (token.to_vec(), after));
    };
    let mut value = Vec::new();
    loop {
        let (byte, after) = match rest {
            [b'"', after @ ..] => return Some((value, after)),
            [b'\\', byte, after @ ..] | [byte, after @ ..] => (byte, after),
            [] => return None,
        };
        value.push(*byte);
        rest = after;
    }
}

/// The address of a node: IPv4, or IPv6 in brackets, with or without a port, which may be
/// obfuscated (section 6).
fn of_node(node: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(node).ok()?;
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']')?;
            (IpAddr::V6(name.parse::<Ipv6Addr>().ok()?), port)
        }
        None => {
            let end = text.find(':').unwrap_or(text.len());
            let (name, port) = text.split_at_checked(end)?;
            (IpAddr::V4(name.parse().ok()?), port)
        }
    };
    let is_port = match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(port) => match port.strip_prefix('_') {
            Some(name) => {
                let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
                !name.is_empty() && name.bytes().all(allowed)
            }
            None => (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit()),
        },
    };
    is_port.then(|| name.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(element: &str) -> Option<IpAddr> {
        address(element.as_bytes())
    }

    #[test]
    fn an_element_is_read_to_the_letter() {
        for (element, expected) in [
            ("for=192.0.2.7", Some("192.0.2.7")),
            (" \tFor=192.0.2.7 ", Some("192.0.2.7")),
            ("FOR=\"192.0.2.7\"", Some("192.0.2.7")),
            ("for=\"192.0.2.7:80\"", Some("192.0.2.7")),
            ("for=\"192.0.2.7:_p-1.x\"", Some("192.0.2.7")),
            ("for=\"192\\.0.2.\\7\"", Some("192.0.2.7")),
            ("for=\"[2001:db8::7]\"", Some("2001:db8::7")),
            ("for=\"[2001:DB8::7]:4711\";by=x", Some("2001:db8::7")),
            ("for=\"[::ffff:192.0.2.7]\"", Some("192.0.2.7")),
            ("for=192.0.2.7;proto=http;by=203.0.113.43", Some("192.0.2.7")),
            ("by=\"_x\";;host=\"a\\\";for=1.1.1.1;b\"; for=192.0.2.7;", Some("192.0.2.7")),
            ("secret=\"for=1.1.1.1\";for=192.0.2.7", Some("192.0.2.7")),
            ("", None),
            (";", None),
            ("by=192.0.2.7", None),
            ("192.0.2.7", None),
            ("for=unknown", None),
            ("for=_hidden", None),
            ("for=\"_hidden:80\"", None),
            ("for=", None),
            ("for=\"\"", None),
            ("for =192.0.2.7", None),
            ("for= 192.0.2.7", None),
            ("for=192.0.2.7;for=192.0.2.8", None),
            ("for=192.0.2.7;For=192.0.2.7", None),
            ("for=192.0.2.7;by", None),
            ("for=192.0.2.7;by=a b", None),
            ("for=192.0.2.7 x", None),
            ("for=192.0.2.7:80", None),
            ("for=[2001:db8::7]", None),
            ("for=2001:db8::7", None),
            ("for=\"2001:db8::7\"", None),
            ("for=\"[192.0.2.7]\"", None),
            ("for=\"[fe80::1%25eth0]\"", None),
            ("for=\"192.0.2.7:\"", None),
            ("for=\"192.0.2.7:123456\"", None),
            ("for=\"192.0.2.7:_\"", None),
            ("for=\"192.0.2.7:_a b\"", None),
            ("for=\"010.0.0.1\"", None),
            ("for=\"192.0.2.7", None),
            ("for=\"192.0.2.7\\\"", None),
            ("for=\"192.0.2.7\"x", None),
            ("for=192.0.2.7\"", None),
        ] {
            assert_eq!(read(element), expected.map(|address| address.parse().unwrap()), "{element}");
        }
        assert_eq!(address(b"for=\"\xff\""), None);
    }

    #[test]
    fn elements_are_counted_from_the_right() {
        let at = |line: &'static str, place| {
            element(HeaderLines::One(Some(line.as_bytes())), place)
                .map(|it| str::from_utf8(it).unwrap().trim())
        };
        let line = "for=a, by=\"x, \\\", y\\\\\";for=b,for=\"c,d\" ,";
        let expected =
            [Some(""), Some("for=\"c,d\""), Some("by=\"x, \\\", y\\\\\";for=b"), Some("for=a"), None];
        assert_eq!([0, 1, 2, 3, 4].map(|place| at(line, place)), expected);
        // Whatever a client writes first.
        for junk in ["for=\"x", "\"", "for=\"\\", "\\\"", "for=\"x\\\\\\", "\"\"\"", ",\",", "for=\"x\";\""] {
            let line: &'static str = format!("{junk}, for=b;by=\"y,\\\"\", for=a").leak();
            assert_eq!((at(line, 0), at(line, 1)), (Some("for=a"), Some("for=b;by=\"y,\\\"\"")), "{junk}");
        }
    }
}
