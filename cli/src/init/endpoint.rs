//! An address of a service: a host and a port.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Endpoint, String> {
        let wrong = || "expected HOST:PORT such as `10.0.0.7:8080` or `orders.internal:80`".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let is_name = !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let is_address = host.parse::<IpAddr>().is_ok();
        if is_name || is_address { Ok(Endpoint { host: host.into(), port }) } else { Err(wrong()) }
    }
}

impl Endpoint {
    /// The address of a listener. Envoy does not resolve names there.
    pub fn listening(text: &str) -> Result<Endpoint, String> {
        let endpoint = text.parse::<Endpoint>().ok().filter(Endpoint::is_address);
        let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()).unwrap_or(10_000);
        endpoint.ok_or_else(|| {
            format!(
                "expected an IP address and a port: `127.0.0.1:{port}` serves this machine, and `0.0.0.0:{port}` all \
                 machines"
            )
        })
    }

    /// Whether the host is an address, not a name.
    pub fn is_address(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok()
    }
}

/// As in a URL: an IPv6 address is in brackets.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}
