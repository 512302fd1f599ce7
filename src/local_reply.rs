//! The response for a refusal, in the form that proxy-wasm sends.

use diana_limiter::request::pairs;
use diana_response::Refusal;

/// A response in place of the upstream's, ready to be sent now or later.
#[derive(Debug)]
pub struct LocalReply {
    pub(crate) status: u32,
    pub(crate) details: String,
    pub(crate) headers: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) grpc_status: i32,
}

impl LocalReply {
    /// The response for a refusal. If Envoy judges the request to be gRPC, it sends the gRPC status
    /// of the headers or else this one.
    pub(crate) fn new(refusal: Refusal) -> LocalReply {
        let headers = pairs::encode(&refusal.headers);
        let Refusal { status, details, body, grpc_status, .. } = refusal;
        let grpc_status = grpc_status.and_then(|status| i32::try_from(status).ok()).unwrap_or(-1);
        LocalReply { status, details, headers, body: body.into_owned(), grpc_status }
    }
}
