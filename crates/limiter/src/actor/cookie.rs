//! The actor is the value of a cookie: `{cookie: session}`. All lines are one list (RFC 9113
//! §8.2.3). If a cookie has two different values, it counts as missing, because a client could
//! otherwise get a fresh quota by a second one that its backend ignores.

use super::kind::{append, only, text};
use super::{Actor, ActorError};
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::netstring;

/// The value of a cookie.
#[derive(Debug)]
pub struct Cookie {
    header: PartId,
    /// Case-sensitive.
    name: Box<str>,
}

impl Cookie {
    /// The cookie of this name.
    pub fn new(name: &str, parts: &mut Parts) -> Result<Cookie, ActorError> {
        let delimits = |c: char| matches!(c, ';' | '=') || c.is_control() || c.is_whitespace();
        if name.is_empty() || name.contains(delimits) {
            return Err(ActorError::Cookie);
        }
        Ok(Cookie { header: parts.intern(Part::Header("cookie".into())), name: name.into() })
    }
}

impl Actor for Cookie {
    fn canonical_form(&self, _: &Parts) -> String {
        ["cookie ", &netstring(&self.name)].concat()
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        let lines = request.list(self.header);
        let values = lines.flat_map(|line| values(line, self.name.as_bytes()));
        only(values).is_some_and(|value| append(value, key))
    }

    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        text(unquoted(value.trim_ascii().as_bytes()))
    }
}

/// The values of `name` in a line of `cookie`: `a=1; b="2"` (RFC 6265, sections 4.2.1 and 5.4).
fn values<'a>(header: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    header.split(|byte| *byte == b';').filter_map(move |pair| {
        let value = pair.trim_ascii().strip_prefix(name)?;
        Some(unquoted(value.trim_ascii_start().strip_prefix(b"=")?.trim_ascii()))
    })
}

/// Most backends do not count the quotes around a cookie's value as part of the value.
fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}
