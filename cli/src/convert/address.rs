//! Networks as a document writes them.

use std::net::IpAddr;

/// An address or a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Reads an address, or a network with any bits behind its prefix.
    #[must_use]
    pub fn parse(text: &str) -> Option<Network> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Some(most), |prefix| prefix.parse().ok())?;
        (prefix <= most).then(|| Network { address: masked(address, prefix), prefix })
    }

    /// The network as a document writes it: without bits behind the prefix.
    #[must_use]
    pub fn text(&self) -> String {
        match self.prefix == if self.address.is_ipv4() { 32 } else { 128 } {
            true => self.address.to_string(),
            false => format!("{}/{}", self.address, self.prefix),
        }
    }

    /// Whether the other network lies within this one.
    #[must_use]
    pub fn contains(&self, other: &Network) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.prefix <= other.prefix
            && masked(other.address, self.prefix) == self.address
    }

    /// Whether this is of IPv4.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Whether this is every address of its family.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.prefix == 0
    }
}

fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let rest = 32u32.saturating_sub(prefix.into());
            IpAddr::V4((u32::MAX.checked_shl(rest).unwrap_or(0) & u32::from(address)).into())
        }
        IpAddr::V6(address) => {
            let rest = 128u32.saturating_sub(prefix.into());
            IpAddr::V6((u128::MAX.checked_shl(rest).unwrap_or(0) & u128::from(address)).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_loses_the_bits_behind_its_prefix() {
        for (text, expected) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3"),
            ("10.1.2.3/32", "10.1.2.3"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:db8::1/64", "2001:db8::/64"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(Network::parse(text).unwrap().text(), expected, "{text}");
        }
        for text in ["10.0.0.0/33", "10.0.0", "x", "", "10.0.0.0/", "10.0.0.0/-1", "::/129"] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
        let [wide, narrow] = ["10.0.0.0/8", "10.1.0.0/16"].map(|text| Network::parse(text).unwrap());
        assert!(wide.contains(&narrow) && !narrow.contains(&wide));
    }
}
