//! A unary gRPC call over an HTTP/2 stream: Envoy has no gRPC calls for modules. Source: the
//! description of gRPC over HTTP/2.
//!
//! ```text
//!   compressed u8 (0) │ size u32, big-endian │ message
//! ```

use super::reply_bytes::append;
use crate::mailbox::Content;
use diana_limiter::request::pairs;

/// The size of the bytes in front of a message.
const HEAD: usize = 5;

/// The gRPC status of a call that did not reach the service.
pub const UNAVAILABLE: u32 = 14;
/// The gRPC status of a malformed reply.
const INTERNAL: u32 = 13;
const OK: u32 = 0;

/// What has arrived of a call.
#[derive(Default)]
pub struct Grpc {
    http_status: Option<u32>,
    status: Option<u32>,
    bytes: Vec<u8>,
}

impl Grpc {
    /// The headers and the body of a request with this message.
    pub fn request(cluster: &str, service: &str, method: &str, message: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let path = ["/", service, "/", method].concat();
        let headers = pairs::encode(&[
            (":method", "POST".into()),
            (":path", path.into()),
            (":authority", cluster.into()),
            (":scheme", "http".into()),
            ("te", "trailers".into()),
            ("content-type", "application/grpc".into()),
        ]);
        let size = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
        (headers, [&[0][..], &size, message].concat())
    }

    /// Headers or trailers have arrived.
    pub fn headers<'a>(&mut self, headers: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
        let number = |value: &[u8]| str::from_utf8(value).ok()?.parse().ok();
        for (name, value) in headers {
            match name {
                b":status" => self.http_status = number(value),
                b"grpc-status" => self.status = number(value),
                _ => {}
            }
        }
    }

    /// A part of the body has arrived.
    pub fn data(&mut self, chunk: &[u8]) {
        append(&mut self.bytes, chunk);
    }

    /// The result, when all has arrived.
    pub fn end(self) -> Content {
        match (self.status, self.http_status) {
            (Some(OK), Some(200)) => self.message().map_or(Content::Status(INTERNAL), Content::Message),
            (Some(status), _) if status != OK => Content::Status(status),
            // A proxy on the way has answered.
            _ => Content::Status(UNAVAILABLE),
        }
    }

    /// The message, if it is whole, not compressed, and the only one.
    fn message(self) -> Option<Vec<u8>> {
        let (head, message) = self.bytes.split_at_checked(HEAD)?;
        let (compressed, size) = head.split_first()?;
        let size = u32::from_be_bytes(size.try_into().ok()?);
        let is_whole = *compressed == 0 && usize::try_from(size) == Ok(message.len());
        is_whole.then(|| message.to_vec())
    }
}

/// The cluster in a serialised `envoy.config.core.v3.GrpcService`: field 1 of field 1, both
/// length-delimited.
pub fn cluster_of(service: &[u8]) -> Option<&[u8]> {
    fn first(message: &[u8]) -> Option<&[u8]> {
        let [0x0a, rest @ ..] = message else {
            return None;
        };
        let (mut size, mut shift) = (0_usize, 0_u32);
        for (place, byte) in rest.iter().enumerate().take(5) {
            size |= usize::from(byte & 0x7f).checked_shl(shift)?;
            shift = shift.saturating_add(7);
            if byte & 0x80 == 0 {
                return rest.get(place.checked_add(1)?..)?.get(..size);
            }
        }
        None
    }
    first(first(service)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(headers: &[(&str, &str)], body: &[&[u8]], trailers: &[(&str, &str)]) -> Content {
        let mut grpc = Grpc::default();
        grpc.headers(headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        body.iter().for_each(|chunk| grpc.data(chunk));
        grpc.headers(trailers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        grpc.end()
    }

    #[test]
    fn a_message_has_five_bytes_before_it() {
        let (headers, body) = Grpc::request("rls", "a.Service", "Should", b"\x01\x02");
        assert_eq!(body, b"\0\0\0\0\x02\x01\x02");
        let mut pairs = pairs::Pairs::of(&headers);
        assert!(pairs.any(|pair| pair == (b":path", b"/a.Service/Should")));
    }

    #[test]
    fn a_reply_is_one_whole_message_and_status_0() {
        let (ok, end) = ([(":status", "200")], [("grpc-status", "0")]);
        let is = |content, expected: &[u8]| matches!(content, Content::Message(bytes) if bytes == expected);
        assert!(is(reply(&ok, &[b"\0\0\0\0\x03ab", b"c"], &end), b"abc"));
        assert!(is(reply(&ok, &[b"\0\0\0\0\0"], &end), b""));
        let fails = |content, expected| matches!(content, Content::Status(status) if status == expected);
        assert!(fails(reply(&ok, &[b"\0\0\0\0\x03ab"], &end), INTERNAL), "too short");
        assert!(fails(reply(&ok, &[b"\x01\0\0\0\x01a"], &end), INTERNAL), "compressed");
        assert!(fails(reply(&ok, &[b"\0\0\0\0\x01a\0\0\0\0\x01a"], &end), INTERNAL), "two messages");
        assert!(fails(reply(&ok, &[], &end), INTERNAL), "no message");
        assert!(fails(reply(&[(":status", "200"), ("grpc-status", "8")], &[], &[]), 8), "only headers");
        assert!(fails(reply(&[(":status", "503")], &[b"no healthy upstream"], &[]), UNAVAILABLE));
        assert!(fails(reply(&ok, &[b"\0\0\0\0\x01a"], &[]), UNAVAILABLE), "no status");
    }

    #[test]
    fn the_cluster_is_the_first_field_of_the_first() {
        assert_eq!(cluster_of(b"\x0a\x05\x0a\x03rls\x1a\x00"), Some(&b"rls"[..]));
        let long = [&b"\x0a\x83\x01\x0a\x80\x01"[..], &[b'c'; 128]].concat();
        assert_eq!(cluster_of(&long), Some(&[b'c'; 128][..]));
        for other in [
            &b""[..],
            b"\x12\x05\x0a\x03rls",
            b"\x0a\x05\x0a\x04rls",
            b"\x0a\xff\xff\xff\xff\xff\x01",
            b"\x0a",
        ] {
            assert_eq!(cluster_of(other), None, "{other:?}");
        }
    }
}
