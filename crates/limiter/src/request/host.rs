//! The requested host in canonical form, for comparing and counting.

use std::net::Ipv6Addr;

/// The host name in an authority (RFC 3986 §3.2): lower case, without the port and without the dot
/// of the DNS root. `API.example.com.:443` becomes `api.example.com`. An IPv6 address keeps its
/// brackets and is written as in RFC 5952. Text that is no host is only lower-cased.
///
/// ```
/// use diana_limiter::request::host::name;
///
/// assert_eq!(name(b"API.Example.com.:8443"), b"api.example.com");
/// assert_eq!(name(b"[2001:DB8::0:1]:443"), b"[2001:db8::1]");
/// ```
#[must_use]
pub fn name(authority: &[u8]) -> Vec<u8> {
    let host = without_port(authority.trim_ascii());
    let host = host.strip_suffix(b".").unwrap_or(host);
    match bracketed(host) {
        Some(address) => of_address(address).into_bytes(),
        None => host.to_ascii_lowercase(),
    }
}

/// The host name of an IPv6 address.
#[must_use]
pub(crate) fn of_address(address: Ipv6Addr) -> String {
    format!("[{address}]")
}

fn bracketed(host: &[u8]) -> Option<Ipv6Addr> {
    let inner = host.strip_prefix(b"[")?.strip_suffix(b"]")?;
    std::str::from_utf8(inner).ok()?.parse().ok()
}

/// Colons within brackets belong to an address, as do several colons without brackets.
fn without_port(authority: &[u8]) -> &[u8] {
    let mut sides = authority.rsplitn(2, |byte| *byte == b':');
    match (sides.next(), sides.next()) {
        (Some(port), Some(host))
            if port.iter().all(u8::is_ascii_digit) && (host.ends_with(b"]") || !host.contains(&b':')) =>
        {
            host
        }
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_a_host_are_one_name() {
        for (authority, expected) in [
            ("example.com", "example.com"),
            ("Example.COM", "example.com"),
            (" example.com:8080 ", "example.com"),
            ("example.com:", "example.com"),
            ("example.com.", "example.com"),
            ("example.com..", "example.com."),
            ("EXAMPLE.com.:443", "example.com"),
            ("example.com:HTTP", "example.com:http"),
            ("192.0.2.7:80", "192.0.2.7"),
            ("[::1]", "[::1]"),
            ("[::1]:443", "[::1]"),
            ("[2001:DB8:0::1]:443", "[2001:db8::1]"),
            ("[2001:DB8:0::1].", "[2001:db8::1]"),
            ("[::X]:443", "[::x]"),
            ("[::1]x", "[::1]x"),
            ("[::1", "[::1"),
            ("::1", "::1"),
            ("", ""),
            (":80", ""),
            (".", ""),
        ] {
            assert_eq!(name(authority.as_bytes()), expected.as_bytes(), "{authority}");
            assert_eq!(name(expected.as_bytes()) == expected.as_bytes(), expected != "example.com.");
        }
    }
}
