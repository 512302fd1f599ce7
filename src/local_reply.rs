//! The response for a refusal, in the form that proxy-wasm sends.

use diana_limiter::request::pairs;
use diana_limiter::response::Refusal;

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
    /// The response for a refusal. Envoy turns a gRPC status into headers and takes the message
    /// from the body.
    pub(crate) fn new(refusal: Refusal) -> LocalReply {
        let headers = pairs::encode(&refusal.headers);
        let Refusal { status, details, body, grpc_status, .. } = refusal;
        let (body, grpc_status) = match grpc_status {
            Some(status) => (details.clone().into_bytes(), i32::try_from(status).unwrap_or(-1)),
            None => (body.into_owned(), -1),
        };
        LocalReply { status, details, headers, body, grpc_status }
    }
}
