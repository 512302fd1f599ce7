//! The response for a refusal, in the form that Envoy sends.

use crate::abi::{Bytes, Exports, Header, StreamPtr};
use diana_base::format;
use diana_limiter::response::Refusal;

/// A response in place of the upstream's, ready to be sent now or later.
#[derive(Debug)]
pub struct LocalReply {
    status: u32,
    headers: Vec<(Box<str>, Box<str>)>,
    body: Box<[u8]>,
    details: Box<str>,
}

impl LocalReply {
    /// The response for a refusal. If the client speaks gRPC, Envoy converts the response to gRPC:
    /// it keeps a gRPC status in the headers, and takes the message from the body.
    pub(crate) fn new(refusal: Refusal) -> LocalReply {
        let Refusal { status, headers, body, grpc_status, details } = refusal;
        let own = |(name, value): (&str, std::borrow::Cow<str>)| (name.into(), value.into_owned().into());
        let mut headers: Vec<(Box<str>, Box<str>)> = headers.into_iter().map(own).collect();
        let body = match grpc_status {
            None => body.into_owned(),
            Some(status) => {
                headers.push(("grpc-status".into(), format::decimal(status.into()).into()));
                details.clone().into_bytes()
            }
        };
        LocalReply { status, headers, body: body.into(), details: details.into() }
    }

    /// Sends the response. Envoy may call back before this returns.
    ///
    /// # Safety
    /// The stream lives, and this is its thread.
    pub(crate) unsafe fn send(&self, envoy: &Exports, stream: StreamPtr) {
        let LocalReply { status, headers, body, details } = self;
        let line = |(name, value): &(Box<str>, Box<str>)| Header::of(name.as_bytes(), value.as_bytes());
        let headers: Vec<Header> = headers.iter().map(line).collect();
        let (list, count) = (headers.as_ptr(), headers.len());
        let (body, details) = (Bytes::of(body), Bytes::of(details.as_bytes()));
        // SAFETY: the stream lives by the caller's promise, and all bytes live through the call.
        unsafe { (envoy.http_send_response)(stream, *status, list, count, body, details) };
    }
}
