//! Who may ask the console. Every web page that the operator's browser shows can send requests to
//! this machine, so the address alone protects nothing:
//!
//! - **The key** is random, new at each start, and part of the link after `#`, which browsers keep
//!   to themselves. The page sends it in a header of its own, which no other page may send here. It
//!   is no cookie, because all ports of a host share their cookies.
//! - **`Host`** must be an address or `localhost`: a foreign name that resolves to this machine
//!   (DNS rebinding) would make a foreign page one of the same origin.
//! - **`Origin`** and `Sec-Fetch-Site`, if a browser sends them, must name the page itself.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use std::fmt::Write;
use std::net::IpAddr;

/// The header with the key.
pub const KEY_HEADER: &str = "x-diana-key";

/// The secret of one start.
pub struct Key(String);

impl Key {
    /// A new key of 128 bits.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes.iter().fold(String::new(), |mut text, byte| {
            // A `String` takes any text.
            let _ = write!(text, "{byte:02x}");
            text
        })))
    }

    /// The key as text, for the link.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether this is the key. The time of the comparison depends on the lengths alone.
    fn is(&self, given: &[u8]) -> bool {
        let differences = given.iter().zip(self.0.as_bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        given.len() == self.0.len() && std::hint::black_box(differences) == 0
    }
}

/// Why a request is refused.
pub type Refusal = (StatusCode, &'static str);

/// Whether a request may have the page, which holds no secret.
pub fn page(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).filter(|_| hosts.next().is_none());
    let Some(host) = host.filter(|host| is_of_this_machine(host)) else {
        return Err((StatusCode::MISDIRECTED_REQUEST, "open the console by its address or `localhost`"));
    };
    let is_own = |origin: &HeaderValue| origin.as_bytes() == format!("http://{host}").as_bytes();
    match headers.get_all(header::ORIGIN).iter().all(is_own) {
        true => Ok(()),
        false => Err((StatusCode::FORBIDDEN, "another page may not ask the console")),
    }
}

/// Whether a request may ask and change what gateways count.
pub fn question(headers: &HeaderMap, key: &Key) -> Result<(), Refusal> {
    page(headers)?;
    let is_own = |site: &HeaderValue| [&b"same-origin"[..], b"none"].contains(&site.as_bytes());
    if !headers.get_all("sec-fetch-site").iter().all(is_own) {
        return Err((StatusCode::FORBIDDEN, "another page may not ask the console"));
    }
    match headers.get(KEY_HEADER).is_some_and(|given| key.is(given.as_bytes())) {
        true => Ok(()),
        false => Err((StatusCode::UNAUTHORIZED, "open the link that `diana console` has printed")),
    }
}

/// Whether the name before the port is an address or `localhost`.
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_foreign_name_of_this_machine_gets_nothing() {
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:80", "10.0.0.7"] {
            assert_eq!(page(&headers(&[("host", host)])), Ok(()), "{host}");
        }
        for host in
            ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.nip.io", "", "a:1:2"]
        {
            assert_eq!(
                page(&headers(&[("host", host)])).unwrap_err().0,
                StatusCode::MISDIRECTED_REQUEST,
                "{host}"
            );
        }
        assert!(page(&headers(&[])).is_err());
        let mut two = headers(&[("host", "localhost")]);
        two.append("host", "evil.example".parse().unwrap());
        assert!(page(&two).is_err());
    }

    #[test]
    fn another_page_may_not_ask_even_with_the_key() {
        let key = Key::random().unwrap();
        let ask = |more: &[(&'static str, &str)]| {
            question(
                &headers(&[&[("host", "127.0.0.1:8080"), ("x-diana-key", key.text())], more].concat()),
                &key,
            )
        };
        assert_eq!(ask(&[]), Ok(()));
        assert_eq!(ask(&[("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")]), Ok(()));
        for wrong in [
            ("origin", "http://evil.example"),
            ("origin", "http://127.0.0.1:8081"),
            ("origin", "https://127.0.0.1:8080"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(ask(&[wrong]).unwrap_err().0, StatusCode::FORBIDDEN, "{wrong:?}");
        }
    }

    #[test]
    fn a_key_is_needed_and_new_at_each_start() {
        let (key, other) = (Key::random().unwrap(), Key::random().unwrap());
        assert!(key.text().len() == 32 && key.text() != other.text());
        let (longer, mut shorter) = (format!("{}0", key.text()), key.text().to_owned());
        shorter.pop();
        for wrong in ["", other.text(), &shorter, &longer] {
            let asked = question(&headers(&[("host", "localhost"), ("x-diana-key", wrong)]), &key);
            assert_eq!(asked.unwrap_err().0, StatusCode::UNAUTHORIZED, "{wrong}");
        }
        assert!(question(&headers(&[("host", "localhost")]), &key).is_err());
    }
}
