//! Reads the parts of a request from Envoy, when a policy asks for them and in place: Envoy lends
//! headers and attributes until the event ends.

mod property;

pub use property::{read as property, refusals};

use crate::abi::{attribute, header_map};
use crate::calls::Reader;
use diana_limiter::policy::Policy;
use diana_limiter::request::claims::ClaimValue;
use diana_limiter::request::pairs::{self, Pairs};
use diana_limiter::request::{HeaderLines, Part, PartId, Source};
use std::cell::OnceCell;

/// The request of a stream.
pub struct EnvoyRequest {
    /// `None` outside of streams; no policy decides there.
    reader: Option<Reader>,
    /// Copies by the index of their parts: headers with several lines, as pairs of an empty name
    /// and a line, and properties that Envoy does not lend.
    copies: OnceCell<Vec<OnceCell<Option<Vec<u8>>>>>,
    parts: usize,
    /// Whether the request ends with its headers.
    ends: bool,
}

impl EnvoyRequest {
    /// The request that `reader` reads.
    pub(crate) fn new(reader: Option<Reader>, policy: &Policy, ends: bool) -> EnvoyRequest {
        EnvoyRequest { reader, copies: OnceCell::new(), parts: policy.parts(), ends }
    }

    fn copy(&self, id: PartId, read: impl FnOnce() -> Option<Vec<u8>>) -> Option<&[u8]> {
        let copies = self.copies.get_or_init(|| vec![OnceCell::new(); self.parts]);
        copies.get(id.index()).and_then(|copy| copy.get_or_init(read).as_deref())
    }

    fn header(&self, reader: Reader, id: PartId, name: &str) -> HeaderLines<'_> {
        let line = |index| reader.header(header_map::REQUEST, name.as_bytes(), index);
        let (first, lines) = line(0);
        if lines <= 1 {
            return HeaderLines::One(first);
        }
        // Few clients repeat a header.
        let all = (0..lines).filter_map(|index| line(index).0).map(|line| (&b""[..], line));
        let copy = self.copy(id, || Some(pairs::encode_bytes(&all.collect::<Vec<_>>())));
        HeaderLines::Named(Pairs::of(copy.unwrap_or_default()), b"")
    }

    /// A request that ends with its headers has no body. Of one that does not, the client decides
    /// whether it becomes a tunnel. Envoy makes an upgrade of `CONNECT` with a protocol.
    fn body_size(&self, reader: Reader, id: PartId) -> HeaderLines<'_> {
        if self.ends {
            return HeaderLines::One(Some(b"0"));
        }
        let first = |name: &[u8]| reader.header(header_map::REQUEST, name, 0).0;
        let is_tunnel = first(b"upgrade").is_some() || first(b":method") == Some(b"CONNECT");
        if is_tunnel { HeaderLines::One(None) } else { self.header(reader, id, "content-length") }
    }

    fn property(&self, reader: Reader, id: PartId, path: &[Box<str>]) -> Option<&[u8]> {
        let property = property::find(path)?;
        match property.lent(reader) {
            Some(value) => value,
            None => self.copy(id, || property.copied(reader)),
        }
    }
}

impl Source for EnvoyRequest {
    fn lines<'s>(&'s self, id: PartId, part: &'s Part) -> HeaderLines<'s> {
        let Some(reader) = self.reader else {
            return HeaderLines::One(None);
        };
        #[cfg(feature = "test-panics")]
        diana_testing::panics::at(diana_testing::panics::Place::Read);
        match part {
            Part::Path => HeaderLines::One(reader.header(header_map::REQUEST, b":path", 0).0),
            Part::Method => HeaderLines::One(reader.header(header_map::REQUEST, b":method", 0).0),
            // Envoy keeps the line `host` of HTTP/1.1 under this name, too.
            Part::Host => HeaderLines::One(reader.header(header_map::REQUEST, b":authority", 0).0),
            Part::Header(name) => self.header(reader, id, name),
            Part::Address => HeaderLines::One(reader.text(attribute::SOURCE_ADDRESS)),
            Part::Property(path) => HeaderLines::One(self.property(reader, id, path)),
            Part::BodySize => self.body_size(reader, id),
            Part::RequestJson(_) => HeaderLines::Unread,
        }
    }

    fn claim(&self, token: &[u8], path: &str) -> Option<ClaimValue> {
        diana_config::claim(token, path)
    }
}
