//! Reads the parts of a request from the host, each at most once and only when a policy asks for
//! it. If rules use headers, the first access reads all of them in one call, the only way to see
//! all lines. In a restricted host, each part is a variable, see [`nginx`].

use super::calls::{self, REQUEST_HEADERS};
use super::host::nginx;
use diana_filter::HostKind;
use diana_limiter::policy::Policy;
use diana_limiter::request::claims::ClaimValue;
use diana_limiter::request::joined::{Joined, separator};
use diana_limiter::request::pairs::Pairs;
use diana_limiter::request::{HeaderLines, Part, PartId, Source};
use std::cell::OnceCell;

/// A value of the host; the inner `None` if the host has no such value.
type CachedValue = OnceCell<Option<Vec<u8>>>;

/// The request of the effective stream.
pub struct HostRequest {
    /// Whether one call reads all headers.
    at_once: bool,
    /// Whether each part is a variable.
    has_variables: bool,
    headers: OnceCell<Vec<u8>>,
    path: CachedValue,
    address: CachedValue,
    /// By index; with variables also the method, the host and headers, and without rules that use
    /// headers the single headers that distinguish protocols.
    properties: OnceCell<Vec<CachedValue>>,
    parts: usize,
    /// Whether the request ends with its headers; never set with variables.
    ends: bool,
}

impl HostRequest {
    pub(crate) fn new(policy: &Policy, kind: HostKind, ends: bool) -> HostRequest {
        HostRequest {
            at_once: policy.reads_headers() && kind.reads_all_headers(),
            has_variables: !kind.reads_all_headers(),
            headers: OnceCell::new(),
            path: OnceCell::new(),
            address: OnceCell::new(),
            properties: OnceCell::new(),
            parts: policy.parts(),
            ends,
        }
    }

    fn named<'s>(&'s self, name: &'s [u8]) -> HeaderLines<'s> {
        let headers = self.headers.get_or_init(|| calls::headers(REQUEST_HEADERS).unwrap_or_default());
        HeaderLines::Named(Pairs::of(headers), name)
    }

    fn cached(&self, id: PartId, read: impl FnOnce() -> Option<Vec<u8>>) -> Option<&[u8]> {
        let values = self.properties.get_or_init(|| vec![OnceCell::new(); self.parts]);
        values.get(id.index()).and_then(|value| value.get_or_init(read).as_deref())
    }

    fn property(&self, id: PartId, path: impl FnOnce() -> String) -> Option<&[u8]> {
        self.cached(id, || calls::property(path().as_bytes()))
    }

    /// A request that ends with its headers has no body. Of one that does not, the client decides
    /// whether it becomes a tunnel. Envoy makes an upgrade of `CONNECT` with a protocol.
    fn body_size(&self, id: PartId) -> HeaderLines<'_> {
        if self.has_variables {
            return HeaderLines::One(self.cached(id, || nginx::body_size(calls::property)));
        }
        if self.ends {
            return HeaderLines::One(Some(b"0"));
        }
        let mut methods = self.named(b":method");
        let is_tunnel = self.named(b"upgrade").next().is_some() || methods.any(|method| method == b"CONNECT");
        if is_tunnel { HeaderLines::One(None) } else { self.named(b"content-length") }
    }

    /// A part that is a variable.
    fn variable(&self, id: PartId, part: &Part) -> HeaderLines<'_> {
        let value = self.property(id, || nginx::variable(part).unwrap_or_default());
        match (part, value) {
            (Part::Header(name), Some(value)) => HeaderLines::Joined(Joined::new(value, separator(name))),
            (_, value) => HeaderLines::One(value),
        }
    }
}

impl Source for HostRequest {
    fn lines<'s>(&'s self, id: PartId, part: &'s Part) -> HeaderLines<'s> {
        match part {
            Part::Path if !self.at_once => {
                HeaderLines::One(self.path.get_or_init(|| path(self.has_variables)).as_deref())
            }
            Part::Method | Part::Host | Part::Header(_) if self.has_variables => self.variable(id, part),
            // Read for refusals only: the client's protocol.
            Part::Header(name) if !self.at_once => {
                HeaderLines::One(self.cached(id, || calls::header(REQUEST_HEADERS, name.as_bytes())))
            }
            Part::Path => self.named(b":path"),
            Part::Method => self.named(b":method"),
            Part::Host => match self.named(b"host") {
                none if none.clone().next().is_none() => self.named(b":authority"),
                hosts => hosts,
            },
            Part::Header(name) => self.named(name.as_bytes()),
            Part::Address => {
                HeaderLines::One(self.address.get_or_init(|| calls::property(b"source\0address")).as_deref())
            }
            Part::Property(path) => HeaderLines::One(self.property(id, || path.join("\0"))),
            Part::BodySize => self.body_size(id),
            Part::RequestJson(_) => HeaderLines::Unread,
        }
    }

    fn claim(&self, token: &[u8], path: &str) -> Option<ClaimValue> {
        diana_config::claim(token, path)
    }

    /// A query that is absent is an empty value, for which Envoy does not call back for memory, as
    /// it does for the path: the call takes a third of the instructions.
    fn query(&self) -> Option<Vec<u8>> {
        let is_cheaper = !self.at_once && !self.has_variables && self.path.get().is_none();
        is_cheaper.then(|| calls::property(b"request\0query")).flatten()
    }
}

/// Reads the path alone.
fn path(is_variable: bool) -> Option<Vec<u8>> {
    if is_variable { nginx::path() } else { calls::header(REQUEST_HEADERS, b":path") }
}
