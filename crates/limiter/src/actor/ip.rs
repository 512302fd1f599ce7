//! Finds the client address of a request, and the actor `ip` that counts by address.
//!
//! `trusted_hops` says how many proxies before the gateway are trusted.
//!
//! ```text
//!   x-forwarded-for: 203.0.113.9, 192.0.2.7, 10.0.0.5      trusted_hops: 2
//!                    └ untrusted  └── 2 ──┘  └─ 1 ──┘      the client is 192.0.2.7
//! ```
//!
//! Each proxy appends the address of its peer. The rightmost entries therefore come from the
//! nearest proxies, and the entries that the client wrote are on the left. Because entries are
//! counted from the right, no client chooses its own entry. A proxy may also append a line of its
//! own: all lines in order are one list (RFC 9110 §5.2).

use super::address::{self, Network};
use super::{Actor, Kind, Scope, header};
use crate::request::{Part, PartId, Parts, Request};
use diana_document::{Fields, Node, Value, quoted};
use std::net::IpAddr;

/// The kind `ip`.
pub static KIND: Kind = Kind { key: "ip", compile, bare: Some(by_client) };

/// How a policy finds a client's address, and how many of its bits distinguish clients.
#[derive(Clone, Debug)]
pub struct ClientIp {
    host_reports: PartId,
    /// `None`: the client is the address that the host reports.
    forwarded: Option<Forwarded>,
    prefixes: Prefixes,
    meaning: String,
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
struct Prefixes {
    v4: u8,
    v6: u8,
}

impl ClientIp {
    /// Compiles the policy's `ip` object. By default, the client is the address that the host
    /// reports: v4 whole, v6 by /64.
    pub fn compile(node: Option<Node>, parts: &mut Parts) -> ClientIp {
        let host_reports = parts.intern(Part::Address);
        let prefixes = Prefixes { v4: 32, v6: 64 };
        let mut options = ClientIp { host_reports, forwarded: None, prefixes, meaning: String::new() };
        let Some(mut fields) = node.and_then(|node| node.fields()) else { return options };
        let hops = fields.take("trusted_hops").map_or(Some(0), |node| node.whole(0..=32));
        let header = fields.take("header").and_then(|node| Some((header::name(&node)?, node)));
        let skip = hops.and_then(|hops| usize::try_from(hops).ok()?.checked_sub(1));
        match (skip, header) {
            (Some(skip), header) => {
                let name = header.map_or_else(|| "x-forwarded-for".into(), |(name, _)| name);
                options.meaning = format!("{name} {skip}");
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
            options.meaning.push_str(&format!(" {v4} {v6}"));
        }
        options
    }

    /// The options in canonical text, the same in every policy.
    pub fn meaning(&self) -> &str {
        &self.meaning
    }

    /// The client's address: the trusted entry of the header. If the header is absent or too short,
    /// or the entry is no address, the address that the host reports. `None` if the host reports no
    /// address.
    pub fn client(&self, request: &Request) -> Option<IpAddr> {
        let forwarded = self.forwarded.as_ref().and_then(|forwarded| {
            let lines = request.list(forwarded.header);
            let mut entries = lines.flat_map(|line| line.split(|byte| *byte == b','));
            let place = entries.clone().count().checked_sub(forwarded.skip)?.checked_sub(1)?;
            address::parse(entries.nth(place)?)
        });
        forwarded.or_else(|| address::parse(request.get(self.host_reports)?))
    }
}

impl Prefixes {
    /// Takes the optional keys `v4_prefix` and `v6_prefix`.
    fn take(&mut self, fields: &mut Fields) {
        let v4 = fields.take("v4_prefix").and_then(|node| node.whole(0..=32));
        let v6 = fields.take("v6_prefix").and_then(|node| node.whole(0..=128));
        self.v4 = v4.and_then(|bits| bits.try_into().ok()).unwrap_or(self.v4);
        self.v6 = v6.and_then(|bits| bits.try_into().ok()).unwrap_or(self.v6);
    }

    fn of(self, address: IpAddr) -> u8 {
        if address.is_ipv4() { self.v4 } else { self.v6 }
    }

    /// Appends the family and the prefix length, one byte each, then the masked address. Two
    /// networks never have the same bytes.
    fn write(self, address: IpAddr, key: &mut Vec<u8>) {
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

/// Counts by client address, or by network.
#[derive(Debug)]
struct Ip(ClientIp);

impl Actor for Ip {
    /// How the policy finds the address is left out, so gateways behind different proxies count one
    /// client together.
    fn meaning(&self, _: &Parts) -> String {
        let Prefixes { v4, v6 } = self.0.prefixes;
        format!("ip {v4} {v6}")
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        let client = self.0.client(request);
        client.inspect(|address| self.0.prefixes.write(*address, key)).is_some()
    }

    /// An address stands for the network that counts it. A network must have the prefix by which
    /// the actor counts.
    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        let network = Network::parse(value)?;
        let counted = self.0.prefixes.of(network.first());
        if !network.is_single() && network.prefix() != counted {
            return Err(format!("{} is not a /{counted}, by which this actor counts", quoted(value)));
        }
        let mut key = Vec::new();
        self.0.prefixes.write(network.first(), &mut key);
        Ok(key)
    }
}

fn compile(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    if *node.value() == Value::Bool(true) {
        return Some(by_client(scope));
    }
    let mut fields = node.fields()?;
    let mut options = scope.ip.clone();
    options.prefixes.take(&mut fields);
    fields.belong(&["trusted_hops", "header"], "to `ip` at the top");
    fields.finish();
    Some(Box::new(Ip(options)))
}

/// The actor that the policy's own options describe.
pub(super) fn by_client(scope: &mut Scope) -> Box<dyn Actor> {
    Box::new(Ip(scope.ip.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::testing;
    use crate::request::Values;
    use diana_document::{Error, Errors};

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

    #[test]
    fn mistakes_in_the_options_are_reported() {
        let json = r#"{"trusted_hop": 1, "header": "x forwarded", "v4_prefix": 33, "v6_prefix": 129}"#;
        assert_eq!(
            options(json, &mut Parts::default()).1,
            [
                "header: `x forwarded` is no name of a header, expected letters, digits and marks such as `-` and `_`",
                "v4_prefix: expected a whole number from 0 to 32, found `33`",
                "v6_prefix: expected a whole number from 0 to 128, found `129`",
                "unknown key `trusted_hop`, did you mean `trusted_hops`?",
            ]
        );
        let why = "header: no header is read without `trusted_hops`: say how many of its entries, from the right, \
                   proxies of your own have written, or leave `header` out";
        let hops = "trusted_hops: expected a whole number from 0 to 32, found `33`";
        for (json, mistakes) in [
            (r#"{"header": "x-real-ip"}"#, &[why][..]),
            (r#"{"header": "x-real-ip", "trusted_hops": 0}"#, &[why]),
            (r#"{"header": "x-real-ip", "trusted_hops": 33}"#, &[hops]),
            (r#"{"header": "x-real-ip", "trusted_hops": 1}"#, &[]),
            (r#"{"header": 1}"#, &["header: expected text, found `1`, put it in quotes"]),
        ] {
            assert_eq!(options(json, &mut Parts::default()).1, mistakes, "{json}");
        }
        assert_eq!(
            testing::mistakes(r#"{"ip": {"trusted_hops": 1}}"#),
            ["ip: unknown key `trusted_hops`, it belongs to `ip` at the top"]
        );
    }

    fn key(definition: &str, address: &str) -> Option<Vec<u8>> {
        testing::value(definition, Values::default().with(Part::Address, address))
    }

    #[test]
    fn addresses_of_one_network_are_one_actor() {
        let v6_64 = [&[6, 64][..], &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 1], &[0; 8]].concat();
        for definition in [r#""ip""#, r#"{"ip": {}}"#, r#"{"ip": true}"#] {
            assert_eq!(key(definition, "192.0.2.7:80"), Some(vec![4, 32, 192, 0, 2, 7]));
            assert_eq!(key(definition, "::ffff:192.0.2.7"), Some(vec![4, 32, 192, 0, 2, 7]));
            assert_eq!(key(definition, "[2001:db8:0:1::7]:80"), Some(v6_64.clone()));
            assert_eq!(key(definition, "2001:db8:0:1:ffff::"), Some(v6_64.clone()));
            assert_eq!(key(definition, "nobody"), None);
        }
        let net = r#"{"ip": {"v4_prefix": 24, "v6_prefix": 48}}"#;
        assert_eq!(key(net, "192.0.2.7"), Some(vec![4, 24, 192, 0, 2, 0]));
        assert_ne!(key(net, "192.0.2.0"), key(r#""ip""#, "192.0.2.0"), "a network is not its first address");
        assert_eq!(key(net, "2001:db8:0:1::7"), key(net, "2001:db8:0:2::7"));
        assert_ne!(key(net, "2001:db8:1:1::7"), key(net, "2001:db8:0:1::7"));
    }

    #[test]
    fn a_configured_address_is_the_actor_of_its_requests() {
        for (definition, configured, address) in [
            (r#""ip""#, "192.0.2.7", "192.0.2.7:80"),
            (r#""ip""#, "192.0.2.7/32", "192.0.2.7"),
            (r#""ip""#, "::ffff:192.0.2.7", "192.0.2.7"),
            (r#""ip""#, "2001:db8::/64", "2001:db8::7"),
            (r#""ip""#, "2001:db8::9", "2001:db8::7"),
            (r#"{"ip": {"v4_prefix": 24}}"#, "192.0.2.0/24", "192.0.2.7"),
        ] {
            let parsed = testing::parse(definition, configured);
            assert_eq!(parsed.ok(), key(definition, address), "{definition} {configured}");
        }
        for (configured, why) in [
            ("192.0.2.0/24", "`192.0.2.0/24` is not a /32, by which this actor counts"),
            ("2001:db8::/48", "`2001:db8::/48` is not a /64, by which this actor counts"),
            ("10.0.0.1/8", "`10.0.0.1/8` has bits set beyond its prefix, did you mean `10.0.0.0/8`?"),
        ] {
            assert_eq!(testing::parse(r#""ip""#, configured).unwrap_err(), why);
        }
    }
}
