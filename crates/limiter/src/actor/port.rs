//! Cuts the port off the text of an address, without reading the address.

/// The text of an address without its port. [`parse`](super::address::parse) reads the same address
/// from either text.
pub(super) fn without_port(bytes: &[u8]) -> &[u8] {
    let (mut port, mut unit, mut rest) = (0u32, 1u32, bytes);
    while let ([head @ .., digit @ b'0'..=b'9'], 1..=10_000) = (rest, unit) {
        port = port.saturating_add(unit.saturating_mul(u32::from(digit & 15)));
        (unit, rest) = (unit.saturating_mul(10), head);
    }
    let [address @ .., b':'] = rest else {
        return bytes;
    };
    let is_address = match address {
        [b'[', .., b']'] => true,
        // The last group of an IPv6 address is no port.
        [b'0'..=b'9', middle @ .., b'0'..=b'9'] => !middle.contains(&b':'),
        _ => false,
    };
    if is_address && unit > 1 && port <= u16::MAX.into() { address } else { bytes }
}

#[cfg(test)]
mod tests {
    use super::super::address::parse;
    use super::*;
    use proptest::prelude::*;

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
