//! The response for a refusal, in the form that proxy-wasm sends.

use diana_base::format;
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
    /// from the body. nginx does neither. There the filter sets the headers, and an empty body
    /// makes them the only frame of the response. nginx also has no access log for the details: it
    /// would send them to the client as the reason phrase.
    pub(crate) fn new(mut refusal: Refusal, is_nginx: bool) -> LocalReply {
        if is_nginx && let Some(status) = refusal.grpc_status.take() {
            refusal.status = 200;
            refusal.headers.push(("content-type", "application/grpc".into()));
            refusal.headers.push(("grpc-status", format::decimal(status.into()).into()));
            refusal.headers.push(("grpc-message", refusal.details.clone().into()));
        }
        let headers = pairs::encode(&refusal.headers);
        let Refusal { status, mut details, body, grpc_status, .. } = refusal;
        if is_nginx {
            details.clear();
        }
        let (body, grpc_status) = match grpc_status {
            Some(status) => (details.clone().into_bytes(), i32::try_from(status).unwrap_or(-1)),
            None => (body.into_owned(), -1),
        };
        LocalReply { status, details, headers, body, grpc_status }
    }
}
