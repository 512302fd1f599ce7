//! IP addresses as hosts and proxies write them, and networks as configurations write them.
//!
//! [`super::ip`] decides which address to trust.

use diana_base::sort;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads an address: `192.0.2.7`, `192.0.2.7:80`, `2001:db8::7`, `[2001:db8::7]:443`. Each form may
/// be in double quotes (RFC 7239, section 6) and between spaces.
///
/// The port and an IPv6 zone (`fe80::1%eth0`, RFC 4007) are dropped. An IPv4-mapped IPv6 address
/// becomes the IPv4 address (RFC 4291, section 2.5.5.2), so that one client has one address.
///
/// ```
/// use diana_limiter::actor::address::parse;
///
/// assert_eq!(parse(b"192.0.2.7:443"), "192.0.2.7".parse().ok());
/// assert_eq!(parse(b"[2001:DB8::7]:443"), "2001:db8::7".parse().ok());
/// assert_eq!(parse(b"::ffff:192.0.2.7"), "192.0.2.7".parse().ok());
/// assert_eq!(parse(b"unknown"), None);
/// ```
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<IpAddr> {
    match plain_v4(bytes) {
        Some(address) => Some(IpAddr::V4(address)),
        None => any_form(bytes),
    }
}

/// Reads `192.0.2.7` and `192.0.2.7:80` in one pass. Most hosts write these forms.
fn plain_v4(bytes: &[u8]) -> Option<Ipv4Addr> {
    let (mut octets, mut rest) = ([0; 4], bytes);
    for (place, octet) in octets.iter_mut().enumerate() {
        if place > 0 {
            rest = rest.strip_prefix(b".")?;
        }
        let number;
        (number, rest) = leading_number(rest)?;
        *octet = u8::try_from(number).ok()?;
    }
    if let [b':', port @ ..] = rest {
        let number;
        (number, rest) = leading_number(port)?;
        u16::try_from(number).ok()?;
    }
    rest.is_empty().then(|| octets.into())
}

/// The leading number, written without leading zeros, and the bytes after it.
fn leading_number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (mut number, mut rest) = (0u32, bytes);
    while let [digit @ b'0'..=b'9', tail @ ..] = rest {
        number = number.checked_mul(10)?.checked_add(u32::from(digit & 15))?;
        rest = tail;
        if number == 0 {
            break;
        }
    }
    (rest.len() < bytes.len()).then_some((number, rest))
}

/// Reads all other forms.
fn any_form(bytes: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(bytes).ok()?.trim_ascii();
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let address = if let Some(bracketed) = text.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
            return None;
        }
        IpAddr::V6(v6(address)?)
    } else {
        match text.split_once(':') {
            None => IpAddr::V4(text.parse().ok()?),
            Some((address, port)) if is_port(port) => IpAddr::V4(address.parse().ok()?),
            Some(_) => IpAddr::V6(v6(text)?),
        }
    };
    Some(address.to_canonical())
}

fn v6(text: &str) -> Option<Ipv6Addr> {
    text.split('%').next()?.parse().ok()
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// The network of `address`: all bits beyond the prefix of its family are zero. A prefix longer
/// than the address keeps the whole address.
#[must_use]
pub(crate) fn mask(address: IpAddr, v4_prefix: u8, v6_prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let host_bits = u32::from(v4_prefix.min(32)).abs_diff(32);
            let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let host_bits = u32::from(v6_prefix.min(128)).abs_diff(128);
            let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

/// A block of addresses with a common prefix (CIDR, RFC 4632 and RFC 4291, section 2.3). Printed as
/// `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// The first address: the bits beyond the prefix are zero.
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Reads `10.0.0.0/8` or a single address. A network with bits set beyond its prefix is a
    /// mistake, because either the address or the prefix is wrong. The error is a message for the
    /// author of the configuration.
    pub fn parse(text: &str) -> Result<Network, String> {
        let (network, is_exact) = Network::read(text)?;
        if is_exact { Ok(network) } else { Err(network.meant_by(text)) }
    }

    /// As [`Network::parse`], and whether the text has no bits set beyond its prefix.
    pub(super) fn read(text: &str) -> Result<(Network, bool), String> {
        let word = diana_base::format::quoted(text);
        let (address, prefix) = match text.trim().split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text.trim(), None),
        };
        let Ok(written) = address.parse::<IpAddr>() else {
            return Err(format!(
                "{word} is not an address such as `192.0.2.7` or a network such as `10.0.0.0/8` or `2001:db8::/32`"
            ));
        };
        let longest = longest_prefix(written);
        let prefix = match prefix {
            None => longest,
            Some(prefix) => decimal(prefix).filter(|bits| *bits <= longest).ok_or_else(|| {
                format!("the prefix length of {word} is not a whole number from 0 to {longest}")
            })?,
        };
        let first = mask(written, prefix, prefix);
        // Requests come with canonical addresses. A mapped address has bits set up to the 96th, so
        // a network that starts with one lies entirely in the mapped range.
        let address = first.to_canonical();
        let mapped_bits = longest.abs_diff(longest_prefix(address));
        Ok((Network { address, prefix: prefix.saturating_sub(mapped_bits) }, first == written))
    }

    /// The message about a text with bits set beyond its prefix.
    pub(super) fn meant_by(&self, text: &str) -> String {
        let word = diana_base::format::quoted(text);
        format!("{word} has bits set beyond its prefix, did you mean `{self}`?")
    }

    /// The network of `address` with a prefix of `prefix` bits.
    #[must_use]
    pub fn of(address: IpAddr, prefix: u8) -> Network {
        Network { address: mask(address, prefix, prefix), prefix }
    }

    /// The network that an actor `ip` has written to a key: the family, the prefix length, then the
    /// first address. `None` for other bytes.
    #[must_use]
    pub fn of_key(key: &[u8]) -> Option<Network> {
        let (address, prefix) = match key {
            [4, prefix, octets @ ..] => (IpAddr::from(<[u8; 4]>::try_from(octets).ok()?), *prefix),
            [6, prefix, octets @ ..] => (IpAddr::from(<[u8; 16]>::try_from(octets).ok()?), *prefix),
            _ => return None,
        };
        (prefix <= longest_prefix(address)).then(|| Network::of(address, prefix))
    }

    /// Appends the key of the network: see [`Network::of_key`]. Two networks never have the same
    /// bytes.
    pub fn write_key(&self, key: &mut Vec<u8>) {
        match self.address {
            IpAddr::V4(first) => {
                key.extend([4, self.prefix]);
                key.extend(first.octets());
            }
            IpAddr::V6(first) => {
                key.extend([6, self.prefix]);
                key.extend(first.octets());
            }
        }
    }

    fn order(&self) -> (IpAddr, u8) {
        (self.address, self.prefix)
    }

    /// The network with a prefix that is shorter by one bit.
    fn parent(&self) -> Option<Network> {
        Some(Network::of(self.address, self.prefix.checked_sub(1)?))
    }

    /// Whether the network contains `address`, which [`parse`] returned. IPv4 and IPv6 never match
    /// each other.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        mask(address, self.prefix, self.prefix) == self.address
    }

    /// The first address of the network.
    #[must_use]
    pub fn first(&self) -> IpAddr {
        self.address
    }

    /// The length of the prefix in bits; 32 or 128 for a single address.
    #[must_use]
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether the network is a single address.
    #[must_use]
    pub(crate) fn is_single(&self) -> bool {
        self.prefix == longest_prefix(self.address)
    }
}

/// Networks as a prefix tree, in which each network is a child of the smallest one that contains
/// it.
///
/// ```
/// use diana_limiter::actor::address::{Network, Networks};
///
/// let networks = Networks::new([Network::parse("10.0.0.0/8")?, Network::parse("10.1.0.0/16")?]);
/// assert_eq!(networks.place("10.1.2.3".parse().expect("an address")), Some(1), "the longest prefix");
/// assert_eq!(networks.place("10.2.0.0".parse().expect("an address")), Some(0));
/// assert_eq!(networks.place("::1".parse().expect("an address")), None);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Default)]
pub struct Networks {
    /// By first address and prefix length, so that parents stand before their children.
    nodes: Vec<NetworkNode>,
}

#[derive(Debug)]
struct NetworkNode {
    network: Network,
    /// The place among the networks that the tree was made of.
    place: usize,
    /// The index of the parent.
    parent: Option<usize>,
}

impl Networks {
    /// The tree of these networks.
    pub fn new(networks: impl IntoIterator<Item = Network>) -> Networks {
        let node = |(place, network)| NetworkNode { network, place, parent: None };
        let nodes = networks.into_iter().enumerate().map(node).collect();
        let mut tree = Networks { nodes };
        sort::sort_by_key(&mut tree.nodes, |node| (node.network.order(), node.place));
        tree.nodes.dedup_by_key(|node| node.network);
        for at in 0..tree.nodes.len() {
            let first = tree.nodes.get(at).map(|node| node.network.address);
            let parent = first.and_then(|first| tree.search(at.checked_sub(1), first));
            if let Some(node) = tree.nodes.get_mut(at) {
                node.parent = parent;
            }
        }
        tree
    }

    /// The place of the longest network that contains `address`, among those that the tree was made
    /// of.
    #[must_use]
    pub fn place(&self, address: IpAddr) -> Option<usize> {
        let after = self.nodes.partition_point(|node| node.network.order() <= (address, u8::MAX));
        let found = self.search(after.checked_sub(1), address)?;
        self.nodes.get(found).map(|node| node.place)
    }

    /// The first node that contains `address`, from the node `at` upwards.
    fn search(&self, mut at: Option<usize>, address: IpAddr) -> Option<usize> {
        while let Some(node) = self.nodes.get(at?)
            && !node.network.contains(address)
        {
            at = node.parent;
        }
        at
    }

    /// Whether there are no networks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The networks, by first address and prefix length.
    pub fn iter(&self) -> impl Iterator<Item = Network> {
        self.nodes.iter().map(|node| node.network)
    }

    /// The fewest networks with the same addresses, so that each set of addresses has one form.
    #[must_use]
    #[inline]
    pub fn merged(&self) -> Networks {
        let mut merged: Vec<Network> = Vec::new();
        for mut network in self.iter() {
            if merged.last().is_some_and(|last| last.contains(network.address)) {
                continue;
            }
            while let Some(both) = network.parent()
                && merged
                    .pop_if(|last| last.prefix == network.prefix && both.contains(last.address))
                    .is_some()
            {
                network = both;
            }
            merged.push(network);
        }
        Networks::new(merged)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn longest_prefix(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Digits only: `u8::from_str` would accept `+8`.
fn decimal(text: &str) -> Option<u8> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_read_as_hosts_and_proxies_write_them() {
        for (text, address) in [
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7:0", "192.0.2.7"),
            (" 192.0.2.7:65535\t", "192.0.2.7"),
            ("\"192.0.2.7:80\"", "192.0.2.7"),
            ("::1", "::1"),
            ("[::1]", "::1"),
            ("[::1]:443", "::1"),
            ("\"[2001:DB8::1]:443\"", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%25eth0]:443", "fe80::1"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("[::ffff:192.0.2.7]:80", "192.0.2.7"),
            ("::ffff:c000:207", "192.0.2.7"),
            ("::192.0.2.7", "::192.0.2.7"),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(address.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for text in [
            "",
            " ",
            "\"",
            "unknown",
            "_hidden",
            "192.0.2",
            "192.0.2.256",
            "010.0.0.1",
            "192.0.2.7:",
            "192.0.2.7:+1",
            "192.0.2.7:65536",
            "192.0.2.7%eth0",
            "[192.0.2.7]",
            "[::1",
            "[::1]443",
            "[::1]:http",
            "::1]",
            "192.0.2.7, 192.0.2.8",
            "/var/run/client.sock",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"\xff"), None);
    }

    #[test]
    fn a_mask_keeps_the_prefix_of_the_addresss_family() {
        for (address, v4, v6, masked) in [
            ("192.0.2.255", 32, 0, "192.0.2.255"),
            ("192.0.2.255", 24, 0, "192.0.2.0"),
            ("192.0.2.255", 31, 0, "192.0.2.254"),
            ("192.0.2.255", 0, 128, "0.0.0.0"),
            ("192.0.2.255", 255, 0, "192.0.2.255"),
            ("2001:db8:1:2:3:4:5:6", 0, 64, "2001:db8:1:2::"),
            ("2001:db8:1:2:3:4:5:6", 0, 128, "2001:db8:1:2:3:4:5:6"),
            ("2001:db8:1:2:3:4:5:6", 32, 0, "::"),
        ] {
            assert_eq!(
                mask(address.parse().unwrap(), v4, v6),
                masked.parse::<IpAddr>().unwrap(),
                "{address}"
            );
        }
    }

    #[test]
    fn a_network_holds_its_addresses() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "2001:db8::1", "0.0.0.0"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::"),
            ("::ffff:10.0.0.0/104", "10.1.2.3", "11.0.0.0"),
            (" ::1 ", "::1", "::"),
        ] {
            let network = Network::parse(network).unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{network} {outside}");
        }
        assert_eq!(Network::parse("::ffff:10.0.0.0/104").unwrap().to_string(), "10.0.0.0/8");
        assert!(Network::parse("10.0.0.0").unwrap().is_single());
        assert!(!Network::parse("10.0.0.0/31").unwrap().is_single());
    }

    #[test]
    fn a_wrong_network_is_refused_with_a_hint() {
        for (text, why) in [
            ("10.1.0.0/8", "`10.1.0.0/8` has bits set beyond its prefix, did you mean `10.0.0.0/8`?"),
            (
                "2001:db8::1/64",
                "`2001:db8::1/64` has bits set beyond its prefix, did you mean `2001:db8::/64`?",
            ),
            ("10.0.0.0/33", "the prefix length of `10.0.0.0/33` is not a whole number from 0 to 32"),
            ("10.0.0.0/+8", "the prefix length of `10.0.0.0/+8` is not a whole number from 0 to 32"),
            ("::/", "the prefix length of `::/` is not a whole number from 0 to 128"),
        ] {
            assert_eq!(Network::parse(text).unwrap_err(), why);
        }
        for text in ["", "localhost", "[::1]", "10.0.0.0:80"] {
            assert!(Network::parse(text).unwrap_err().contains("is not an address such as"), "{text}");
        }
    }

    fn networks(texts: &[&str]) -> Networks {
        Networks::new(texts.iter().map(|text| Network::parse(text).unwrap()))
    }

    #[test]
    fn the_longest_prefix_wins() {
        let tree = networks(&[
            "10.0.0.0/8",
            "::/0",
            "10.1.2.3",
            "10.1.0.0/16",
            "2001:db8::/32",
            "10.1.2.0/24",
            "192.168.7.0/24",
            "2001:db8::7",
            "10.0.0.0/8",
            "::ffff:172.16.0.0/108",
        ]);
        for (address, place) in [
            ("10.1.2.3", Some(2)),
            ("10.1.2.4", Some(5)),
            ("10.1.3.0", Some(3)),
            ("10.2.0.0", Some(0)),
            ("10.255.255.255", Some(0)),
            ("11.0.0.0", None),
            ("9.255.255.255", None),
            ("192.168.7.255", Some(6)),
            ("192.168.8.0", None),
            ("172.31.0.1", Some(9)),
            ("2001:db8::7", Some(7)),
            ("2001:db8::8", Some(4)),
            ("2001:db9::", Some(1)),
            ("::ffff:0:1", Some(1)),
        ] {
            assert_eq!(tree.place(address.parse().unwrap()), place, "{address}");
        }
    }

    #[test]
    fn one_set_of_addresses_has_one_form() {
        let merged = |texts: &[&str]| -> Vec<String> {
            networks(texts).merged().iter().map(|network| network.to_string()).collect()
        };
        assert_eq!(merged(&["10.1.0.0/16", "10.0.0.0/8", "10.0.0.0/8"]), ["10.0.0.0/8"]);
        assert_eq!(merged(&["10.128.0.0/9", "10.0.0.0/10", "10.64.0.0/10"]), ["10.0.0.0/8"]);
        assert_eq!(merged(&["10.64.0.0/10", "10.128.0.0/9"]), ["10.64.0.0/10", "10.128.0.0/9"]);
        assert_eq!(merged(&["::1", "::", "192.0.2.7"]), ["192.0.2.7/32", "::/127"]);
        assert_eq!(merged(&["0.0.0.0/1", "::/1", "128.0.0.0/1", "8000::/1"]), ["0.0.0.0/0", "::/0"]);
    }

    fn any_address() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
            any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
            any::<u32>().prop_map(|bits| IpAddr::V6(Ipv4Addr::from_bits(bits).to_ipv6_mapped())),
        ]
    }

    /// Networks and addresses among few bits, so that they often contain each other.
    fn few_bits() -> impl Strategy<Value = (bool, u8)> {
        (any::<bool>(), any::<u8>())
    }

    fn spread((is_v4, bits): (bool, u8)) -> IpAddr {
        match is_v4 {
            true => IpAddr::V4(Ipv4Addr::from_bits(u32::from(bits) << 24)),
            false => IpAddr::V6(Ipv6Addr::from_bits(u128::from(bits) << 120)),
        }
    }

    proptest! {
        #[test]
        fn the_tree_agrees_with_a_loop_over_the_networks(
            networks in prop::collection::vec((few_bits(), 0u8..10), 0..12),
            addresses in prop::collection::vec(few_bits(), 20),
        ) {
            let networks: Vec<Network> =
                networks.into_iter().map(|(bits, prefix)| Network::of(spread(bits), prefix)).collect();
            let tree = Networks::new(networks.iter().copied());
            let merged = tree.merged();
            prop_assert!(merged.iter().eq(merged.merged().iter()));
            for address in addresses.into_iter().map(spread) {
                let found = tree.place(address).map(|place| networks[place]);
                let longest =
                    networks.iter().filter(|network| network.contains(address)).max_by_key(|it| it.prefix);
                prop_assert_eq!(found, longest.copied());
                prop_assert_eq!(merged.place(address).is_some(), longest.is_some());
            }
        }

        #[test]
        fn an_address_is_read_back_in_every_form(address in any_address(), port: u16) {
            let (bare, with_port) = match address {
                IpAddr::V4(v4) => (v4.to_string(), format!("{v4}:{port}")),
                IpAddr::V6(v6) => (format!("{v6}%zone"), format!("[{v6}]:{port}")),
            };
            for text in [address.to_string(), bare, format!(" {with_port} "), format!("\"{with_port}\"")] {
                prop_assert_eq!(parse(text.as_bytes()), Some(address.to_canonical()), "{}", text);
            }
        }

        #[test]
        fn both_parsers_agree(shaped in "[0-9.:]{0,22}|([0-9]{1,3}\\.){3}[0-9]{1,3}(:[0-9]{0,6})?") {
            if let Some(address) = plain_v4(shaped.as_bytes()) {
                prop_assert_eq!(any_form(shaped.as_bytes()), Some(IpAddr::V4(address)));
            }
        }

        #[test]
        fn a_plain_address_is_read_in_one_pass(bits: u32, port: u16) {
            let address = Ipv4Addr::from_bits(bits);
            prop_assert_eq!(plain_v4(address.to_string().as_bytes()), Some(address));
            prop_assert_eq!(plain_v4(format!("{address}:{port}").as_bytes()), Some(address));
        }

        #[test]
        fn nothing_makes_it_panic(shaped in "[0-9a-f:.%\\[\\]\" /]{0,40}", bytes: Vec<u8>) {
            let _ = (parse(shaped.as_bytes()), Network::parse(&shaped), parse(&bytes));
        }

        #[test]
        fn a_network_contains_the_addresses_with_its_prefix(a in any_address(), b in any_address(), prefix in 0u8..=32) {
            let (a, b) = (a.to_canonical(), b.to_canonical());
            let network = Network::parse(&format!("{}/{prefix}", mask(a, prefix, prefix))).unwrap();
            prop_assert!(network.contains(a));
            prop_assert_eq!(network.contains(b), mask(a, prefix, prefix) == mask(b, prefix, prefix));
        }
    }
}
