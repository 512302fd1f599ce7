//! The form of a refusal in the client's protocol, so that the client's library sees a rate limit
//! rather than a broken server.
//!
//! | protocol | status | body |
//! | --- | --- | --- |
//! | HTTP | as configured | as configured |
//! | gRPC | 200 | none; the error is in headers |
//! | gRPC-Web | 200 | the error as trailers, and in headers |
//! | Connect, unary | as configured | the error as JSON |
//! | Connect, stream | 200 | the error as the stream's last message |

use super::json::json_string;
use super::{PERMISSION_DENIED, UNAUTHENTICATED, UNAVAILABLE};
use diana_base::format::{decimal, hex};
use diana_limiter::request::protocol::Protocol;

/// The HTTP status of a refusal whose configured status this is.
pub(super) fn status(protocol: Protocol, configured: u32) -> u32 {
    match protocol {
        Protocol::Http | Protocol::ConnectUnary => configured,
        Protocol::Grpc | Protocol::GrpcWeb | Protocol::ConnectStream { .. } => 200,
    }
}

/// The content type and the body that the protocol prescribes for an error; `None` for HTTP.
pub(super) fn error(protocol: Protocol, grpc_status: u32, message: &str) -> Option<(&'static str, Vec<u8>)> {
    Some(match protocol {
        Protocol::Http => return None,
        Protocol::Grpc => ("application/grpc", Vec::new()),
        Protocol::GrpcWeb => ("application/grpc-web+proto", trailers(grpc_status, message)),
        Protocol::ConnectUnary => ("application/json", connect_error(grpc_status, message).into_bytes()),
        Protocol::ConnectStream { is_json } => {
            let content_type = if is_json { "application/connect+json" } else { "application/connect+proto" };
            (content_type, end_of_stream(&connect_error(grpc_status, message)))
        }
    })
}

/// Connect's name of a gRPC status (Connect's "Error Codes").
fn connect_code(grpc_status: u32) -> &'static str {
    match grpc_status {
        PERMISSION_DENIED => "permission_denied",
        UNAUTHENTICATED => "unauthenticated",
        UNAVAILABLE => "unavailable",
        _ => "resource_exhausted",
    }
}

fn connect_error(grpc_status: u32, message: &str) -> String {
    let mut error = [r#"{"code":""#, connect_code(grpc_status), r#"","message":"#].concat();
    json_string(&mut error, message);
    error.push('}');
    error
}

/// The last message of a stream of Connect.
fn end_of_stream(error: &str) -> Vec<u8> {
    framed(2, &[r#"{"error":"#, error, "}"].concat())
}

fn framed(flags: u8, message: &str) -> Vec<u8> {
    let size = u32::try_from(message.len());
    debug_assert!(size.is_ok(), "the message has the name of a rule");
    [&[flags], &size.unwrap_or(0).to_be_bytes()[..], message.as_bytes()].concat()
}

/// The last message of a response of gRPC-Web. The headers have the same status, but Envoy would
/// remove the content type from a response without a body.
fn trailers(grpc_status: u32, message: &str) -> Vec<u8> {
    let (status, message) = (decimal(grpc_status.into()), percent_encoded(message));
    framed(0x80, &["grpc-status:", &status, "\r\ngrpc-message:", &message, "\r\n"].concat())
}

/// gRPC's encoding of a message: `%` and bytes that a header cannot have, percent-encoded.
pub(super) fn percent_encoded(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            hex(&mut encoded, byte);
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_form_of_connect() {
        let unary = error(Protocol::ConnectUnary, 8, "diana_refused:a\"b");
        let json = r#"{"code":"resource_exhausted","message":"diana_refused:a\"b"}"#;
        assert_eq!(unary, Some(("application/json", json.into())));
        let (content_type, body) = error(Protocol::ConnectStream { is_json: false }, 14, "m").unwrap();
        assert_eq!(content_type, "application/connect+proto");
        let (head, message) = body.split_at(5);
        assert_eq!(head, [&[2, 0, 0, 0], &[u8::try_from(message.len()).unwrap()][..]].concat());
        assert_eq!(message, br#"{"error":{"code":"unavailable","message":"m"}}"#);
    }

    #[test]
    fn a_message_is_encoded_for_a_header() {
        assert_eq!(percent_encoded("a:b|c d"), "a:b|c d");
        assert_eq!(percent_encoded("5%é\n").to_ascii_uppercase(), "5%25%C3%A9%0A");
    }
}
