//! The protocol in which a client expects a refusal, recognised by the request as it is now,
//! because another filter may have rewritten it since the host received it.

use super::{Part, PartId, Parts, Request};

/// The protocol in which a client expects a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Any client that goes by the HTTP status.
    #[default]
    Http,
    /// gRPC over HTTP/2. A gateway may have translated gRPC-Web into it.
    Grpc,
    /// gRPC-Web, which no filter has translated into gRPC.
    GrpcWeb,
    /// A call of Connect with one request message and one response message.
    ConnectUnary,
    /// A call of Connect whose messages are framed.
    ConnectStream {
        /// Whether the messages are JSON rather than Protobuf; the response has to have the same
        /// codec.
        is_json: bool,
    },
}

/// The headers by which the protocol of a request is recognised. Unless a rule reads one, only the
/// form of a refusal depends on them.
pub const HEADERS: [&str; 3] = ["content-type", "x-envoy-original-method", "connect-protocol-version"];

/// The parts of a request by which its protocol is recognised.
#[derive(Debug)]
pub(crate) struct ProtocolParts {
    path: PartId,
    content_type: PartId,
    /// `grpc_json_transcoder` leaves the method of a request that it has turned into gRPC. A client
    /// may send the header too, so no request is trusted for it.
    original_method: PartId,
    connect_version: PartId,
}

impl ProtocolParts {
    pub(crate) fn intern(parts: &mut Parts) -> ProtocolParts {
        let [content_type, original_method, connect_version] =
            HEADERS.map(|name| parts.intern(Part::Header(name.into())));
        let path = parts.intern(Part::Path);
        ProtocolParts { path, content_type, original_method, connect_version }
    }

    /// The protocol of a request. Most requests are read for their content type alone.
    pub(crate) fn protocol(&self, request: &Request) -> Protocol {
        let has = |part| request.lines(part).next().is_some();
        let Some(content_type) = request.get(self.content_type) else {
            // Requests with a body have a content type, so this is a GET.
            let is_connect = is_connect_query(&request.query(self.path));
            return if is_connect { Protocol::ConnectUnary } else { Protocol::Http };
        };
        if is_grpc(content_type) {
            // The transcoder sets the plain type.
            let is_transcoded = content_type == GRPC && has(self.original_method);
            return if is_transcoded { Protocol::Http } else { Protocol::Grpc };
        }
        if content_type.starts_with(b"application/grpc-web") {
            return Protocol::GrpcWeb;
        }
        if let Some(codec) = content_type.strip_prefix(b"application/connect+") {
            return Protocol::ConnectStream { is_json: codec == b"json" };
        }
        // A unary call has the type of its message, `application/json` or `application/proto`.
        let is_connect = content_type.starts_with(b"application/") && has(self.connect_version);
        if is_connect { Protocol::ConnectUnary } else { Protocol::Http }
    }
}

const GRPC: &[u8] = b"application/grpc";

/// Whether the content type is that of gRPC: alone or with a suffix such as `+proto`. For any other
/// type, such as gRPC-Web's, a gateway does not answer in gRPC.
fn is_grpc(content_type: &[u8]) -> bool {
    let suffix = content_type.strip_prefix(GRPC);
    suffix.is_some_and(|suffix| matches!(suffix.first(), None | Some(b'+')))
}

/// Whether the query is that of a call by GET (Connect's "Unary-Get-Request").
fn is_connect_query(query: &[u8]) -> bool {
    let has = |wanted: fn(&[u8]) -> bool| query.split(|byte| *byte == b'&').any(wanted);
    has(|pair| pair == b"connect=v1") && has(|pair| pair.starts_with(b"encoding="))
}

#[cfg(test)]
mod tests {
    use super::super::{HeaderLines, Source, Values};
    use super::*;
    use crate::request::claims::ClaimValue;

    fn protocol(target: &str, headers: &[(&str, &str)]) -> Protocol {
        let mut parts = Parts::default();
        let protocol_parts = ProtocolParts::intern(&mut parts);
        let values = Values::default().with(Part::Path, target);
        let add =
            |values: Values, (name, line): &(&str, &str)| values.with(Part::Header((*name).into()), *line);
        let values = headers.iter().fold(values, add);
        protocol_parts.protocol(&Request::new(&values, &parts))
    }

    fn of(target: &str, content_type: Option<&str>, is_transcoded: bool, is_connect: bool) -> Protocol {
        let headers = [
            content_type.map(|content_type| ("content-type", content_type)),
            is_transcoded.then_some(("x-envoy-original-method", "GET")),
            is_connect.then_some(("connect-protocol-version", "1")),
        ];
        protocol(target, &headers.into_iter().flatten().collect::<Vec<_>>())
    }

    #[test]
    fn grpc_is_recognised_by_the_whole_type_and_its_suffix() {
        for (content_type, expected) in [
            ("application/grpc", Protocol::Grpc),
            ("application/grpc+proto", Protocol::Grpc),
            ("application/grpc+json", Protocol::Grpc),
            ("application/grpc+", Protocol::Grpc),
            ("application/grpc-web", Protocol::GrpcWeb),
            ("application/grpc-web+proto", Protocol::GrpcWeb),
            ("application/grpc-web-text", Protocol::GrpcWeb),
            // Envoy does not treat this type as gRPC: it would send the message as a body.
            ("application/grpc;charset=utf-8", Protocol::Http),
            ("application/grpc ", Protocol::Http),
            ("application/grpcs", Protocol::Http),
            ("Application/gRPC", Protocol::Http),
            ("text/application/grpc", Protocol::Http),
            ("", Protocol::Http),
        ] {
            assert_eq!(of("/", Some(content_type), false, false), expected, "{content_type}");
        }
        assert_eq!(of("/", None, false, false), Protocol::Http);
    }

    #[test]
    fn a_transcoded_request_is_none_of_grpc() {
        assert_eq!(of("/", Some("application/grpc"), true, false), Protocol::Http);
        // The transcoder sets the plain type.
        assert_eq!(of("/", Some("application/grpc+proto"), true, false), Protocol::Grpc);
    }

    #[test]
    fn connect_is_recognised_by_its_type_header_or_query() {
        let stream = |is_json| Protocol::ConnectStream { is_json };
        for (target, content_type, has_version, expected) in [
            ("/", Some("application/connect+json"), false, stream(true)),
            ("/", Some("application/connect+proto"), true, stream(false)),
            ("/", Some("application/json"), true, Protocol::ConnectUnary),
            ("/", Some("application/proto"), true, Protocol::ConnectUnary),
            ("/", Some("application/json"), false, Protocol::Http),
            ("/", Some("text/html"), true, Protocol::Http),
            ("/", None, true, Protocol::Http),
            ("/a?connect=v1&encoding=json&message=%7B%7D", None, false, Protocol::ConnectUnary),
            ("/a?message=&encoding=proto&connect=v1", None, false, Protocol::ConnectUnary),
            ("/a?connect=v1", None, false, Protocol::Http),
            ("/a?encoding=json&connect=v2", None, false, Protocol::Http),
            ("/a?x=1", None, false, Protocol::Http),
        ] {
            assert_eq!(of(target, content_type, false, has_version), expected, "{target} {content_type:?}");
        }
    }

    /// A host that reads a query more cheaply than a path.
    struct CheapQuery(&'static str);
    impl Source for CheapQuery {
        fn lines<'s>(&'s self, _: PartId, part: &'s Part) -> HeaderLines<'s> {
            assert_ne!(*part, Part::Path, "the path is read");
            HeaderLines::One(None)
        }

        fn claim(&self, _: &[u8], _: &str) -> Option<ClaimValue> {
            None
        }

        fn query(&self) -> Option<Vec<u8>> {
            Some(self.0.into())
        }
    }

    #[test]
    fn the_path_is_not_read_if_the_query_alone_is_cheaper() {
        let mut parts = Parts::default();
        let protocol_parts = ProtocolParts::intern(&mut parts);
        for (query, expected) in [
            ("", Protocol::Http),
            ("a=1", Protocol::Http),
            ("encoding=json&connect=v1", Protocol::ConnectUnary),
        ] {
            assert_eq!(
                protocol_parts.protocol(&Request::new(&CheapQuery(query), &parts)),
                expected,
                "{query}"
            );
        }
    }

    /// Reads the path and the content type, and fails for everything else.
    struct Ordinary(Option<&'static str>);
    impl Source for Ordinary {
        fn lines<'s>(&'s self, _: PartId, part: &'s Part) -> HeaderLines<'s> {
            match part {
                Part::Path => HeaderLines::One(Some(b"/")),
                Part::Header(name) if &**name == "content-type" => {
                    HeaderLines::One(self.0.map(str::as_bytes))
                }
                part => panic!("{part:?} is read"),
            }
        }

        fn claim(&self, _: &[u8], _: &str) -> Option<ClaimValue> {
            None
        }
    }

    #[test]
    fn an_ordinary_request_is_read_for_its_content_type_alone() {
        let mut parts = Parts::default();
        let protocol_parts = ProtocolParts::intern(&mut parts);
        for content_type in [None, Some("text/plain"), Some("application/connect+proto")] {
            _ = protocol_parts.protocol(&Request::new(&Ordinary(content_type), &parts));
        }
    }
}
