//! The response for a refusal, in the form that Envoy sends.

use crate::abi::{Bytes, Exports, Header, StreamPtr};
use diana_base::format::decimal;
use diana_response::Refusal;

/// A response in place of the upstream's, ready to be sent now or later.
#[derive(Debug)]
pub struct LocalReply {
    status: u32,
    headers: Vec<(Box<str>, Box<str>)>,
    body: Box<[u8]>,
    details: Box<str>,
}

impl LocalReply {
    pub(crate) fn new(refusal: Refusal) -> LocalReply {
        let Refusal { status, headers, body, details, .. } = refusal;
        let own = |(name, value): (&str, std::borrow::Cow<str>)| (name.into(), value.into_owned().into());
        LocalReply {
            status,
            headers: headers.into_iter().map(own).collect(),
            body: body.into(),
            details: details.into(),
        }
    }

    /// Whether the response would read as success if Envoy made it one of gRPC. Envoy does so if
    /// the request was gRPC when it arrived, and sends 0 without a gRPC status.
    pub(crate) fn lacks_grpc_status(&self) -> bool {
        !self.headers.iter().any(|(name, _)| &**name == "grpc-status")
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
    /// Sends the response as it is, without details. Envoy may call back before this returns.
    ///
    /// # Safety
    /// The stream lives, and this is its thread.
    pub(crate) unsafe fn send_unconverted(&self, envoy: &Exports, stream: StreamPtr) {
        let LocalReply { status, headers, body, .. } = self;
        let status = decimal(u64::from(*status));
        let own = headers.iter().map(|(name, value)| Header::of(name.as_bytes(), value.as_bytes()));
        let headers: Vec<Header> =
            std::iter::once(Header::of(b":status", status.as_bytes())).chain(own).collect();
        // SAFETY: the stream lives by the caller's promise, and all bytes live through the call.
        unsafe {
            (envoy.http_send_response_headers)(stream, headers.as_ptr(), headers.len(), body.is_empty());
        }
        if !body.is_empty() {
            // SAFETY: as above; a response whose end has not been sent does not end the stream.
            unsafe { (envoy.http_send_response_data)(stream, Bytes::of(body), true) };
        }
    }
}
