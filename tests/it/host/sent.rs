//! A request as a host shows it to a filter: Envoy in one way, nginx in another.
//!
//! It does not know: what becomes of it. nginx decodes a path before it shows it, and shows what was sent as well; that it
//! resolves dot segments and merges slashes is left out here.

use diana::request::{Part, escape};
use diana::store::Rules;

/// What nginx has in `:authority`, whatever the client asks for.
const MACHINE: &str = "machine";

/// All headers with their lines, in their order.
pub fn headers(rules: Rules, parts: &[(Part, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
    let named = |(part, line): &(Part, Vec<u8>)| {
        let name = match (part, rules) {
            (Part::Method, _) => ":method".into(),
            (Part::Path, _) => ":path".into(),
            (Part::Host, Rules::Lenient) => ":authority".into(),
            (Part::Host, Rules::Strict) => "Host".into(),
            (Part::Header(name), Rules::Lenient) => name.to_string(),
            (Part::Header(name), Rules::Strict) => as_sent(name),
            (Part::Address | Part::Property(_), _) => return None,
        };
        let line = match (part, rules) {
            (Part::Path, Rules::Strict) => decoded(line),
            _ => line.clone(),
        };
        Some((name, line))
    };
    let machine = (rules == Rules::Strict).then(|| (":authority".into(), MACHINE.into()));
    parts.iter().filter_map(named).chain(machine).collect()
}

/// `X-User-Id`: nginx keeps what the client wrote.
fn as_sent(name: &str) -> String {
    let words = name.split('-').map(|word| match word.split_at_checked(1) {
        Some((first, rest)) => first.to_ascii_uppercase() + rest,
        None => String::new(),
    });
    words.collect::<Vec<_>>().join("-")
}

/// The path decoded once, and the query as it was sent.
fn decoded(target: &[u8]) -> Vec<u8> {
    let end = target.iter().position(|byte| b"?#".contains(byte)).unwrap_or(target.len());
    let (mut rest, query) = target.split_at(end);
    let mut path = Vec::new();
    while let [first, tail @ ..] = rest {
        let escaped = escape::leading(rest);
        path.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &rest[escape::LENGTH..] } else { tail };
    }
    path.extend(query);
    path
}

/// An attribute by its path. nginx tells an address without a port.
pub fn property(rules: Rules, parts: &[(Part, Vec<u8>)], path: &[u8]) -> Option<Vec<u8>> {
    let is = |part: &Part| match part {
        Part::Path => path == b"ngx\0request_uri" && rules == Rules::Strict,
        Part::Address => path == b"source\0address",
        Part::Property(steps) => steps.join("\0").as_bytes() == path,
        _ => false,
    };
    let (part, line) = parts.iter().find(|(part, _)| is(part))?;
    let line = match (part, rules) {
        (Part::Address, Rules::Strict) => line.strip_suffix(b":0").unwrap_or(line),
        _ => line,
    };
    Some(line.to_vec())
}

/// Serialised as the ABI has it.
pub fn pairs(headers: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = (headers.len() as u32).to_le_bytes().to_vec();
    for (name, value) in headers {
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend((value.len() as u32).to_le_bytes());
    }
    for text in headers.iter().flat_map(|(name, value)| [name.as_bytes(), value]) {
        bytes.extend(text);
        bytes.push(0);
    }
    bytes
}
