//! Finds the client address of a request behind `trusted_hops` proxies. Each proxy appends its
//! peer, on the same line or another (RFC 9110 §5.2), so entries are counted from the right, where
//! no client can choose its own.
//!
//! ```text
//!   x-forwarded-for: 203.0.113.9, 192.0.2.7, 10.0.0.5      trusted_hops: 2
//!                    └ untrusted  └── 2 ──┘  └─ 1 ──┘      the client is 192.0.2.7
//! ```

use super::address;
use crate::request::{Part, PartId, Parts, Request, syntax};
use diana_base::narrowed;
use diana_document::{Fields, Node};
use std::net::IpAddr;

/// How a policy finds a client's address, and how many of its bits distinguish clients.
///
/// ```
/// use diana_document::{Errors, Node, parse};
/// use diana_limiter::actor::ip::ClientIp;
/// use diana_limiter::request::{Part, Parts, Request, Values};
///
/// let (options, errors) = (parse(br#"{"trusted_hops": 1}"#)?, Errors::default());
/// let mut parts = Parts::default();
/// let ip = ClientIp::compile(Some(Node::root(&options, &errors)), &mut parts);
///
/// let values = Values::default()
///     .with(Part::Address, "10.0.0.5:41022")
///     .with(Part::Header("x-forwarded-for".into()), "203.0.113.9, 192.0.2.7");
/// let client = ip.client(&Request::new(&values, &parts));
/// assert_eq!(client, Some("192.0.2.7".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientIp {
    host_reports: PartId,
    /// `None`: the client is the address that the host reports.
    forwarded: Option<Forwarded>,
    pub(super) prefixes: Prefixes,
    canonical_form: String,
}

/// The trusted entry of a list header.
#[derive(Clone, Debug)]
struct Forwarded {
    header: PartId,
    /// The number of entries to skip, from the right.
    skip: usize,
}

/// The number of address bits that count. An IPv6 client usually owns a whole /64 (RFC 6177) and
/// may use a fresh address for each request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefixes {
    pub(super) v4: u8,
    pub(super) v6: u8,
}

impl ClientIp {
    /// Compiles the policy's `ip` object. By default, the client is the address that the host
    /// reports: v4 whole, v6 by /64.
    pub fn compile(node: Option<Node>, parts: &mut Parts) -> ClientIp {
        let host_reports = parts.intern(Part::Address);
        let prefixes = Prefixes { v4: 32, v6: 64 };
        let mut options = ClientIp { host_reports, forwarded: None, prefixes, canonical_form: String::new() };
        let Some(mut fields) = node.and_then(|node| node.fields()) else { return options };
        let hops = fields.take("trusted_hops").map_or(Some(0), |node| node.whole(0..=32));
        let header = fields.take("header").and_then(|node| Some((address_header(&node)?, node)));
        let skip = hops.and_then(|hops| usize::try_from(hops).ok()?.checked_sub(1));
        match (skip, header) {
            (Some(skip), header) => {
                let name = header.map_or_else(|| "x-forwarded-for".into(), |(name, _)| name);
                options.canonical_form = format!("{name} {skip}");
                options.forwarded = Some(Forwarded { header: parts.intern(Part::Header(name)), skip });
            }
            (None, Some((_, node))) if hops == Some(0) => node.fail(
                "no header is read without `trusted_hops`: say how many of its entries, from the right, \
                 proxies of your own have written, or leave `header` out",
            ),
            // No header is configured, or the wrong number has been reported.
            (None, _) => {}
        }
        options.prefixes.take(&mut fields);
        fields.finish();
        let Prefixes { v4, v6 } = options.prefixes;
        if (v4, v6) != (32, 64) {
            options.canonical_form.push_str(&format!(" {v4} {v6}"));
        }
        options
    }

    /// The options in canonical text, the same in every policy.
    #[must_use]
    pub fn canonical_form(&self) -> &str {
        &self.canonical_form
    }

    /// The client's address: the trusted entry of the header. If the header is absent or too short,
    /// or the entry is no address, the address that the host reports. `None` if the host reports no
    /// address.
    pub fn client(&self, request: &Request) -> Option<IpAddr> {
        let forwarded = self.forwarded.as_ref().and_then(|forwarded| forwarded.entry(request));
        let forwarded = forwarded.and_then(address::parse);
        forwarded.or_else(|| address::parse(request.get(self.host_reports)?))
    }

    /// The text from which [`ClientIp::client`] reads the address, without a port.
    pub(super) fn raw<'r>(&self, request: &Request<'r>) -> Option<&'r [u8]> {
        let forwarded = self.forwarded.as_ref().and_then(|forwarded| forwarded.entry(request));
        let forwarded = forwarded.filter(|entry| address::parse(entry).is_some());
        forwarded.or_else(|| request.get(self.host_reports)).map(without_port)
    }
}

impl Forwarded {
    /// The trusted entry of the header, if the header is long enough.
    fn entry<'r>(&self, request: &Request<'r>) -> Option<&'r [u8]> {
        let lines = request.list(self.header);
        let mut entries = lines.flat_map(|line| line.split(|byte| *byte == b','));
        let place = entries.clone().count().checked_sub(self.skip)?.checked_sub(1)?;
        entries.nth(place)
    }
}

impl Prefixes {
    /// Takes the optional keys `v4_prefix` and `v6_prefix`.
    pub(super) fn take(&mut self, fields: &mut Fields) {
        let v4 = fields.take("v4_prefix").and_then(|node| node.whole(0..=32));
        let v6 = fields.take("v6_prefix").and_then(|node| node.whole(0..=128));
        self.v4 = v4.and_then(|bits| bits.try_into().ok()).unwrap_or(self.v4);
        self.v6 = v6.and_then(|bits| bits.try_into().ok()).unwrap_or(self.v6);
    }

    pub(super) fn of(self, address: IpAddr) -> u8 {
        if address.is_ipv4() { self.v4 } else { self.v6 }
    }

    /// Appends the family and the prefix length, one byte each, then the masked address. Two
    /// networks never have the same bytes.
    pub(super) fn write(self, address: IpAddr, key: &mut Vec<u8>) {
        match address::mask(address, self.v4, self.v6) {
            IpAddr::V4(network) => {
                key.extend([4, self.v4]);
                key.extend(network.octets());
            }
            IpAddr::V6(network) => {
                key.extend([6, self.v6]);
                key.extend(network.octets());
            }
        }
    }
}

/// Eight bytes of 1.
const ONES: u64 = 0x0101_0101_0101_0101;
/// The low seven bits of eight bytes.
const LOW_BITS: u64 = ONES.wrapping_mul(127);
/// What takes a number above 9 to 128 and more.
const ABOVE_NINE: u64 = ONES.wrapping_mul(128 - 10);
/// The longest text of an IPv4 address.
const LONGEST_V4: usize = 15;

/// The text of an address without its port. [`address::parse`] reads the same address from either
/// text. Eight bytes are examined at once: byte by byte, this takes as long as all else that the
/// fast path does with an address.
fn without_port(bytes: &[u8]) -> &[u8] {
    // An address with a port has at least nine bytes.
    let Some(tail) = bytes.last_chunk().map(|tail| u64::from_le_bytes(*tail)) else {
        return bytes;
    };
    // The port is what follows the last colon: one to five digits.
    let bits = colons(tail).leading_zeros();
    let size = narrowed(u64::from(bits >> 3));
    let parts = bytes.split_at_checked(bytes.len().saturating_sub(size));
    debug_assert!(parts.is_some(), "at most as many bytes as there are");
    let (address, port) = parts.unwrap_or_default();
    let digits = tail.checked_shr(u64::BITS.saturating_sub(bits)).unwrap_or(0);
    if !(1..=5).contains(&size) || !are_digits(digits, bits) || size == 5 && port > &b"65535"[..] {
        return bytes;
    }
    match address {
        [address @ .., b':'] if is_bracketed(address) || may_be_v4(address) => address,
        _ => bytes,
    }
}

/// The colons among eight bytes: the highest bit of each.
fn colons(bytes: u64) -> u64 {
    let rest = bytes ^ ONES.wrapping_mul(u64::from(b':'));
    !((rest & LOW_BITS).wrapping_add(LOW_BITS) | rest | LOW_BITS)
}

/// Whether these lowest `bits` are digits. The others are zero.
fn are_digits(bytes: u64, bits: u32) -> bool {
    let mask = 1u64.wrapping_shl(bits).wrapping_sub(1);
    let numbers = bytes ^ (ONES.wrapping_mul(u64::from(b'0')) & mask);
    (numbers.wrapping_add(ABOVE_NINE) | numbers) & !LOW_BITS & mask == 0
}

fn is_bracketed(address: &[u8]) -> bool {
    matches!(address, [b'[', .., b']'])
}

/// Whether the text may be an IPv4 address: the last group of an IPv6 address is no port.
fn may_be_v4(address: &[u8]) -> bool {
    let has_colon = match (address.first_chunk(), address.last_chunk()) {
        (Some(first), Some(last)) => {
            colons(u64::from_le_bytes(*first)) | colons(u64::from_le_bytes(*last)) != 0
        }
        _ => address.contains(&b':'),
    };
    matches!(address, [b'0'..=b'9', .., b'0'..=b'9']) && !has_colon && address.len() <= LONGEST_V4
}

/// Reads a header name and returns it in lower case. Headers that another kind of source reads are
/// mistakes.
pub(super) fn header_name(node: &Node) -> Option<Box<str>> {
    syntax::header_name(node.text()?, node, |name| match name {
        // The raw header keeps its port and its case, so one host would be many actors.
        ":authority" | "host" => Some("the actor `host` reads the host"),
        ":method" => Some("the actor `method` reads the method"),
        ":path" => Some("the actors `path` and `query` read the url"),
        _ => None,
    })
}

/// Like [`header_name`], for a header with addresses. Headers in which no address could be read are
/// mistakes, because every client would be counted by the address that the host reports.
fn address_header(node: &Node) -> Option<Box<str>> {
    let name = header_name(node)?;
    match &*name {
        "forwarded" => node.fail(
            "the form of `forwarded`, such as `for=192.0.2.7`, is not read: write `x-forwarded-for`, or leave \
             `trusted_hops` and `header` out to count by the address that the gateway finds",
        ),
        "via"
        | "x-forwarded-client-cert"
        | "x-forwarded-host"
        | "x-forwarded-port"
        | "x-forwarded-proto" => {
            node.fail(format!("`{name}` has no client address: write `x-forwarded-for`"));
        }
        _ => return Some(name),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::address::parse;
    use super::*;
    use crate::request::Values;
    use diana_document::{Error, Errors};
    use proptest::prelude::*;

    fn options(json: &str, parts: &mut Parts) -> (ClientIp, Vec<String>) {
        let (value, errors) = (diana_document::parse(json.as_bytes()).unwrap(), Errors::default());
        let options = ClientIp::compile(Some(Node::root(&value, &errors)), parts);
        (options, errors.into_vec().iter().map(Error::to_string).collect())
    }

    /// The client address for these lines of `x-forwarded-for`.
    fn client(json: &str, reported: &str, lines: &[&str]) -> Option<IpAddr> {
        let mut parts = Parts::default();
        let (options, mistakes) = options(json, &mut parts);
        assert_eq!(mistakes, [""; 0]);
        let mut values = Values::default().with(Part::Address, reported);
        for line in lines {
            values = values.with(Part::Header("x-forwarded-for".into()), *line);
        }
        options.client(&Request::new(&values, &parts))
    }

    #[test]
    fn the_client_is_the_trusted_entry_from_the_right() {
        const HOST: &str = "10.0.0.1:0";
        let host = "10.0.0.1";
        for (hops, lines, expected) in [
            (0, &["192.0.2.7"][..], host),
            (1, &["192.0.2.7"], "192.0.2.7"),
            (1, &["203.0.113.9,192.0.2.7"], "192.0.2.7"),
            (1, &["203.0.113.9 , 192.0.2.7:8080 "], "192.0.2.7"),
            (2, &["203.0.113.9, 192.0.2.7"], "203.0.113.9"),
            (2, &["[2001:db8::1]:80, 192.0.2.7"], "2001:db8::1"),
            (3, &["203.0.113.9, 192.0.2.7"], host),
            (32, &["203.0.113.9, 192.0.2.7"], host),
            (1, &["203.0.113.9, unknown"], host),
            (1, &["203.0.113.9,"], host),
            (2, &["203.0.113.9,"], "203.0.113.9"),
            (1, &[""], host),
            (1, &[], host),
            (1, &["6.6.6.6", "192.0.2.7"], "192.0.2.7"),
            (1, &["6.6.6.6", "203.0.113.9, 192.0.2.7"], "192.0.2.7"),
            (2, &["6.6.6.6, 203.0.113.9", "192.0.2.7"], "203.0.113.9"),
            (3, &["6.6.6.6, 203.0.113.9", "192.0.2.7"], "6.6.6.6"),
            (4, &["6.6.6.6, 203.0.113.9", "192.0.2.7"], host),
            (1, &["6.6.6.6", ""], host),
        ] {
            let json = format!(r#"{{"trusted_hops": {hops}}}"#);
            assert_eq!(client(&json, HOST, lines), Some(expected.parse().unwrap()), "{hops} {lines:?}");
        }
        assert_eq!(client("{}", "pipe", &[]), None);
        assert_eq!(client(r#"{"trusted_hops": 1}"#, "pipe", &["::1"]), Some("::1".parse().unwrap()));
        assert_eq!(client(r#"{"trusted_hops": 1, "header": "X-Real-IP"}"#, HOST, &["::1"]).unwrap(), {
            host.parse::<IpAddr>().unwrap()
        });
    }

    /// Whichever entry is trusted, and whether or not it is an address.
    #[test]
    fn equal_raw_values_are_equal_clients() {
        let entries = ["192.0.2.7", "192.0.2.7:80", "192.0.2.8", "x", "", "[::1]:80", "pipe"];
        let lines = entries.iter().flat_map(|one| entries.map(|other| format!("{one}, {other}")));
        let lines: Vec<Option<String>> = lines.map(Some).chain([None]).collect();
        let mut clients = std::collections::HashMap::new();
        for (hops, line, reported) in lines.iter().flat_map(|line| {
            entries.iter().flat_map(move |reported| (0..3).map(move |hops| (hops, line, reported)))
        }) {
            let mut parts = Parts::default();
            let (options, _) = options(&format!(r#"{{"trusted_hops": {hops}}}"#), &mut parts);
            let values = Values::default().with(Part::Address, *reported);
            let values = match line {
                Some(line) => values.with(Part::Header("x-forwarded-for".into()), line.as_bytes()),
                None => values,
            };
            let request = Request::new(&values, &parts);
            let (raw, client) = (options.raw(&request).map(<[u8]>::to_vec), options.client(&request));
            let known = *clients.entry((hops, raw)).or_insert(client);
            assert_eq!(known, client, "{hops} {line:?} {reported}");
        }
    }

    #[test]
    fn mistakes_in_the_options_are_reported() {
        let json = r#"{"trusted_hop": 1, "header": "x forwarded", "v4_prefix": 33, "v6_prefix": 129}"#;
        assert_eq!(
            options(json, &mut Parts::default()).1,
            [
                "header: `x forwarded` is not a header name, expected letters, digits and marks such as `-` and `_`",
                "v4_prefix: expected a whole number from 0 to 32, found `33`",
                "v6_prefix: expected a whole number from 0 to 128, found `129`",
                "unknown key `trusted_hop`, did you mean `trusted_hops`?",
            ]
        );
        let why = "header: no header is read without `trusted_hops`: say how many of its entries, from the right, \
                   proxies of your own have written, or leave `header` out";
        let forwarded = "header: the form of `forwarded`, such as `for=192.0.2.7`, is not read: write `x-forwarded-for`, \
                         or leave `trusted_hops` and `header` out to count by the address that the gateway finds";
        let hops = "trusted_hops: expected a whole number from 0 to 32, found `33`";
        for (json, mistakes) in [
            (r#"{"header": "x-real-ip"}"#, &[why][..]),
            (r#"{"header": "x-real-ip", "trusted_hops": 0}"#, &[why]),
            (r#"{"header": "x-real-ip", "trusted_hops": 33}"#, &[hops]),
            (r#"{"header": "x-real-ip", "trusted_hops": 1}"#, &[]),
            (r#"{"header": "Forwarded", "trusted_hops": 1}"#, &[forwarded]),
            (
                r#"{"header": "via", "trusted_hops": 1}"#,
                &["header: `via` has no client address: write `x-forwarded-for`"],
            ),
            (r#"{"header": 1}"#, &["header: expected text, found `1`, put it in quotes"]),
        ] {
            assert_eq!(options(json, &mut Parts::default()).1, mistakes, "{json}");
        }
    }

    #[test]
    fn a_port_is_cut_off() {
        for (text, expected) in [
            ("192.0.2.7:80", "192.0.2.7"),
            ("192.0.2.7:0", "192.0.2.7"),
            ("192.0.2.7:65535", "192.0.2.7"),
            ("[2001:db8::7]:443", "[2001:db8::7]"),
            ("192.0.2.7", "192.0.2.7"),
            ("2001:db8::7", "2001:db8::7"),
            ("::1:443", "::1:443"),
            ("192.0.2.7:65536", "192.0.2.7:65536"),
            ("192.0.2.7:", "192.0.2.7:"),
            ("", ""),
        ] {
            assert_eq!(without_port(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }

    proptest! {
        /// So texts that are equal without their ports are one address.
        #[test]
        fn an_address_is_the_same_without_its_port(
            text in "[\"\\[ ]{0,2}(192\\.0\\.2\\.7|1?[.:1a]{0,4}|::1)[\"\\] ]{0,2}(:[0-9 +]{0,7})?[\" ]?",
        ) {
            prop_assert_eq!(parse(without_port(text.as_bytes())), parse(text.as_bytes()));
        }
    }
}
