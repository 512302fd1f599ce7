//! Cuts the port off the text of an address, without reading the address. Eight bytes are examined
//! at once: byte by byte, this takes as long as all else that the fast path does with an address.

/// Eight bytes of 1.
const ONES: u64 = 0x0101_0101_0101_0101;
/// The low seven bits of eight bytes.
const LOW_BITS: u64 = ONES.wrapping_mul(127);
/// What takes a number above 9 to 128 and more.
const ABOVE_NINE: u64 = ONES.wrapping_mul(128 - 10);
/// The longest text of an IPv4 address.
const LONGEST_V4: usize = 15;

/// The text of an address without its port. [`parse`](super::address::parse) reads the same address
/// from either text.
pub(super) fn without_port(bytes: &[u8]) -> &[u8] {
    // An address with a port has at least nine bytes.
    let Some(tail) = bytes.last_chunk().map(|tail| u64::from_le_bytes(*tail)) else {
        return bytes;
    };
    // The port is what follows the last colon: one to five digits.
    let bits = colons(tail).leading_zeros();
    let size = usize::try_from(bits >> 3).unwrap_or(0);
    let (address, port) = bytes.split_at_checked(bytes.len().saturating_sub(size)).unwrap_or_default();
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
