//! Finds the client address of a request behind `trusted_hops` proxies. Each proxy appends its
//! peer, on the same line or another (RFC 9110 §5.2), so entries are counted from the right, where
//! no client can choose its own. The header `Forwarded` has a form of its own, see [`forwarded`].
//!
//! ```text
//!   x-forwarded-for: 203.0.113.9, 192.0.2.7, 10.0.0.5      trusted_hops: 2
//!                    └ untrusted  └── 2 ──┘  └─ 1 ──┘      the client is 192.0.2.7
//! ```

use super::address::Network;
use super::{ActorError, address, forwarded};
use crate::request::{Part, PartId, Parts, Request};
use diana_base::narrowed;
use std::net::IpAddr;

/// The options of [`ClientIp`]. By default, the client is the address that the host reports: v4
/// whole, v6 by /64, because a v6 client usually owns a whole /64 (RFC 6177) and may use a fresh
/// address for each request.
#[derive(Clone, Debug)]
pub struct ClientIpOptions<'a> {
    /// How many entries of the header, from the right, proxies of the operator have written: 0 to
    /// 32. 0: the client is the address that the host reports.
    pub trusted_hops: usize,
    /// The header with the entries. `None`: `x-forwarded-for`. `forwarded` is read as RFC 7239
    /// says.
    pub header: Option<&'a str>,
    /// The number of bits of an IPv4 address that count.
    pub v4_prefix: u8,
    /// The number of bits of an IPv6 address that count.
    pub v6_prefix: u8,
}

impl Default for ClientIpOptions<'_> {
    fn default() -> Self {
        ClientIpOptions { trusted_hops: 0, header: None, v4_prefix: 32, v6_prefix: 64 }
    }
}

/// The most proxies that options may trust.
const MAX_HOPS: usize = 32;

/// How a policy finds a client's address, and how many of its bits distinguish clients.
///
/// ```
/// use diana_limiter::actor::ip::{ClientIp, ClientIpOptions};
/// use diana_limiter::request::{Part, Parts, Request, Values};
///
/// let mut parts = Parts::default();
/// let options = ClientIpOptions { trusted_hops: 1, ..ClientIpOptions::default() };
/// let ip = ClientIp::new(&options, &mut parts)?;
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
    /// Whether the entries are elements of RFC 7239.
    has_elements: bool,
}

/// The number of address bits that count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefixes {
    pub(super) v4: u8,
    pub(super) v6: u8,
}

impl ClientIp {
    /// Finds clients by these options.
    pub fn new(options: &ClientIpOptions, parts: &mut Parts) -> Result<ClientIp, ActorError> {
        let ClientIpOptions { trusted_hops, header, .. } = *options;
        if trusted_hops > MAX_HOPS || header.is_some() && trusted_hops == 0 {
            return Err(ActorError::TrustedHops);
        }
        let mut whole = ClientIp::reported(parts);
        if let Some(skip) = trusted_hops.checked_sub(1) {
            let name = header.unwrap_or("x-forwarded-for").to_ascii_lowercase();
            whole.canonical_form = format!("{name} {skip}");
            let has_elements = name == "forwarded";
            let header = parts.intern(Part::header(&name).ok_or(ActorError::Header)?);
            whole.forwarded = Some(Forwarded { header, skip, has_elements });
        }
        let mut by_prefix = whole.by_prefix(options.v4_prefix, options.v6_prefix)?;
        let Prefixes { v4, v6 } = by_prefix.prefixes;
        if (v4, v6) != (32, 64) {
            by_prefix.canonical_form.push_str(&format!(" {v4} {v6}"));
        }
        Ok(by_prefix)
    }

    /// The client is the address that the host reports: v4 whole, v6 by /64.
    pub fn reported(parts: &mut Parts) -> ClientIp {
        ClientIp {
            host_reports: parts.intern(Part::Address),
            forwarded: None,
            prefixes: Prefixes { v4: 32, v6: 64 },
            canonical_form: String::new(),
        }
    }

    /// The same options with other prefixes: for an actor that counts networks.
    pub fn by_prefix(&self, v4: u8, v6: u8) -> Result<ClientIp, ActorError> {
        if v4 > 32 || v6 > 128 {
            return Err(ActorError::Prefix);
        }
        Ok(ClientIp { prefixes: Prefixes { v4, v6 }, ..self.clone() })
    }

    /// The number of bits that count of an IPv4 and of an IPv6 address.
    #[must_use]
    pub fn prefixes(&self) -> (u8, u8) {
        (self.prefixes.v4, self.prefixes.v6)
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
        let forwarded = self.forwarded.as_ref().and_then(|forwarded| forwarded.address(request));
        forwarded.map(|(_, address)| address).or_else(|| address::parse(request.get(self.host_reports)?))
    }

    /// The text from which [`ClientIp::client`] reads the address, without a port.
    pub(super) fn raw<'r>(&self, request: &Request<'r>) -> Option<&'r [u8]> {
        match self.forwarded.as_ref().and_then(|forwarded| forwarded.address(request)) {
            // No host reports an address in this form.
            Some((element, _)) if self.forwarded.as_ref().is_some_and(|it| it.has_elements) => Some(element),
            Some((entry, _)) => Some(without_port(entry)),
            None => request.get(self.host_reports).map(without_port),
        }
    }
}

impl Forwarded {
    /// The trusted entry of the header, if the header is long enough, and the address there.
    fn address<'r>(&self, request: &Request<'r>) -> Option<(&'r [u8], IpAddr)> {
        let lines = request.list(self.header);
        if self.has_elements {
            let element = forwarded::element(lines, self.skip)?;
            return Some((element, forwarded::address(element)?));
        }
        let mut entries = lines.flat_map(|line| line.split(|byte| *byte == b','));
        let place = entries.clone().count().checked_sub(self.skip)?.checked_sub(1)?;
        let entry = entries.nth(place)?;
        Some((entry, address::parse(entry)?))
    }
}

impl Prefixes {
    pub(super) fn of(self, address: IpAddr) -> u8 {
        if address.is_ipv4() { self.v4 } else { self.v6 }
    }

    /// Appends the key of the address's network: see [`Network::of_key`].
    pub(super) fn write(self, address: IpAddr, key: &mut Vec<u8>) {
        Network::of(address, self.of(address)).write_key(key);
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

#[cfg(test)]
mod tests {
    use super::super::address::parse;
    use super::*;
    use crate::request::Values;
    use proptest::prelude::*;

    /// The client address for these lines of a header.
    fn client_of(
        options: &ClientIpOptions,
        reported: &str,
        header: &str,
        lines: &[String],
    ) -> Option<IpAddr> {
        let mut parts = Parts::default();
        let options = ClientIp::new(options, &mut parts).unwrap();
        let mut values = Values::default().with(Part::Address, reported);
        for line in lines {
            values = values.with(Part::Header(header.into()), &**line);
        }
        options.client(&Request::new(&values, &parts))
    }

    /// Lines of addresses as elements of `Forwarded`: an address becomes a node of RFC 7239, and
    /// what is none stays malformed.
    fn as_elements(lines: &[&str]) -> Vec<String> {
        let element = |entry: &str| match entry.trim() {
            "" => String::new(),
            entry
                if entry.contains(['[', ':'])
                    && !entry.starts_with('[')
                    && parse(entry.as_bytes()).is_some_and(|it| it.is_ipv6()) =>
            {
                format!("for=\"[{entry}]\"")
            }
            entry => format!("for=\"{entry}\";proto=\"a,b;\\\"\""),
        };
        let line = |line: &&str| line.split(',').map(element).collect::<Vec<_>>().join(", ");
        lines.iter().map(line).collect()
    }

    /// The client address for these lines of `x-forwarded-for`, which is the same for the same
    /// lines of `forwarded`.
    fn client(
        (trusted_hops, header): (usize, Option<&str>),
        reported: &str,
        lines: &[&str],
    ) -> Option<IpAddr> {
        let options = ClientIpOptions { trusted_hops, header, ..ClientIpOptions::default() };
        let sent: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let client = client_of(&options, reported, "x-forwarded-for", &sent);
        if header.is_none() {
            let header = Some("Forwarded").filter(|_| trusted_hops > 0);
            let options = ClientIpOptions { header, ..options };
            assert_eq!(client_of(&options, reported, "forwarded", &as_elements(lines)), client, "{lines:?}");
        }
        client
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
            assert_eq!(
                client((hops, None), HOST, lines),
                Some(expected.parse().unwrap()),
                "{hops} {lines:?}"
            );
        }
        assert_eq!(client((0, None), "pipe", &[]), None);
        assert_eq!(client((1, None), "pipe", &["::1"]), Some("::1".parse().unwrap()));
        assert_eq!(client((1, Some("X-Real-IP")), HOST, &["::1"]).unwrap(), {
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
            let elements = as_elements(line.as_deref().as_slice());
            let sent = line.iter().cloned().collect();
            for (header, lines) in [("x-forwarded-for", sent), ("forwarded", elements)] {
                let mut parts = Parts::default();
                let named = Some(header).filter(|_| hops > 0);
                let options =
                    ClientIpOptions { trusted_hops: hops, header: named, ..ClientIpOptions::default() };
                let options = ClientIp::new(&options, &mut parts).unwrap();
                let values = Values::default().with(Part::Address, *reported);
                let add = |values: Values, line: String| values.with(Part::Header(header.into()), line);
                let values = lines.into_iter().fold(values, add);
                let request = Request::new(&values, &parts);
                let (raw, client) = (options.raw(&request).map(<[u8]>::to_vec), options.client(&request));
                let known = *clients.entry((hops, raw)).or_insert(client);
                assert_eq!(known, client, "{hops} {line:?} {reported}");
            }
        }
    }

    #[test]
    fn options_that_cannot_be_are_refused() {
        let error = |options| ClientIp::new(&options, &mut Parts::default()).map(drop);
        let any = ClientIpOptions::default();
        for (options, expected) in [
            (ClientIpOptions { trusted_hops: 33, ..any.clone() }, ActorError::TrustedHops),
            (ClientIpOptions { header: Some("x-real-ip"), ..any.clone() }, ActorError::TrustedHops),
            (ClientIpOptions { header: Some("a b"), trusted_hops: 1, ..any.clone() }, ActorError::Header),
            (ClientIpOptions { v4_prefix: 33, ..any.clone() }, ActorError::Prefix),
            (ClientIpOptions { v6_prefix: 129, ..any.clone() }, ActorError::Prefix),
        ] {
            assert_eq!(error(options), Err(expected));
        }
        assert_eq!(error(any), Ok(()));
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
        /// Texts that are equal without their ports are therefore one address.
        #[test]
        fn an_address_is_the_same_without_its_port(
            text in "[\"\\[ ]{0,2}(192\\.0\\.2\\.7|1?[.:1a]{0,4}|::1)[\"\\] ]{0,2}(:[0-9 +]{0,7})?[\" ]?",
        ) {
            prop_assert_eq!(parse(without_port(text.as_bytes())), parse(text.as_bytes()));
        }
    }
}
