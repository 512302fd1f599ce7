//! What only nginx with ngx_wasm_module needs: variables that hold the parts of a request, replies
//! without a gRPC status, and all callbacks.

use crate::calls::{self, REQUEST_HEADERS};
use diana_filter::Exports;
use diana_limiter::request::Part;
use diana_response::Refusal;
use log::warn;

/// The host's name in messages.
pub(crate) const NAME: &str = "nginx";

/// Whether these callbacks suffice for nginx, which calls all callbacks and crashes if one is
/// missing.
pub(crate) fn suffice(callbacks: Exports) -> Result<(), String> {
    match callbacks {
        Exports::All => Ok(()),
        _ => Err("nginx crashes when a callback is missing, load `diana-nginx.wasm`".into()),
    }
}

/// Logs that the client got a response with this status in place of a refusal.
pub(crate) fn log_lost_refusal(status: &str) {
    warn!(
        "a refusal was not sent, nginx responded otherwise (status {status}): the request left \
         the location (rewrite, `if`, try_files, error_page), or `return` or an access check \
         came first; see `diana check`"
    );
}

/// The refusal as nginx can send it: without a gRPC status, which nginx does not know, and without
/// details, which it would send to the client as the reason phrase.
pub(crate) fn sendable(refusal: Refusal) -> Refusal {
    Refusal { grpc_status: None, details: String::new(), ..refusal }
}

/// The path as the client sent it. Falls back to nginx' `:path` if nginx does not have it.
pub(crate) fn path() -> Option<Vec<u8>> {
    let sent = variable(&Part::Path).and_then(|variable| calls::property(variable.as_bytes()));
    sent.or_else(|| calls::header(REQUEST_HEADERS, b":path"))
}

/// The path of the property for a part, its words separated by zero bytes; `None` if another
/// property holds the part.
pub(crate) fn variable(part: &Part) -> Option<String> {
    match part {
        // `:path` is decoded and rewritten: an escaped `?` ends it, and `/a/..%2fb` becomes `/b`.
        Part::Path => Some("ngx\0request_uri".into()),
        Part::Method => Some("ngx\0request_method".into()),
        // The host by which nginx routes. If the request line names a host too, the `Host` header
        // may name another one.
        Part::Host => Some("ngx\0host".into()),
        Part::Header(name) => Some(["ngx\0http_", &name.replace('-', "_")].concat()),
        Part::BodySize => Some("ngx\0http_content_length".into()),
        Part::Address | Part::Property(_) | Part::RequestJson(_) => None,
    }
}

/// The declared size of the body. `read` reads a property by its path.
///
/// nginx does not tell the filter whether a request ends with its headers. Over HTTP/1, a request
/// without `Content-Length` and `Transfer-Encoding` has no body (RFC 9112 §6.3). Over HTTP/2 and
/// HTTP/3 the size is then unknown, like that of a tunnel.
pub(crate) fn body_size(read: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let is_connect = || read(b"ngx\0request_method").is_some_and(|method| method == b"CONNECT");
    if read(b"ngx\0http_upgrade").is_some() || is_connect() {
        return None;
    }
    let declared = variable(&Part::BodySize).and_then(|variable| read(variable.as_bytes()));
    let is_empty = || {
        let is_http_1 = read(b"ngx\0server_protocol").is_some_and(|version| version.starts_with(b"HTTP/1."));
        is_http_1 && read(b"ngx\0http_transfer_encoding").is_none()
    };
    declared.or_else(|| is_empty().then(|| b"0".to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_a_declared_size_or_none_or_an_unknown_one() {
        let size = |variables: &[(&str, &str)]| {
            let read = |path: &[u8]| {
                let name = path.strip_prefix(b"ngx\0").unwrap();
                let (_, value) = variables.iter().find(|(known, _)| known.as_bytes() == name)?;
                Some(value.as_bytes().to_vec())
            };
            body_size(read).map(|size| String::from_utf8(size).unwrap())
        };
        let (http_1, http_2) = (("server_protocol", "HTTP/1.1"), ("server_protocol", "HTTP/2.0"));
        let (length, chunked) = (("http_content_length", "7"), ("http_transfer_encoding", "chunked"));
        assert_eq!(size(&[http_1, length]).as_deref(), Some("7"));
        assert_eq!(size(&[http_2, length]).as_deref(), Some("7"));
        assert_eq!(size(&[http_1]).as_deref(), Some("0"));
        assert_eq!(size(&[("server_protocol", "HTTP/1.0")]).as_deref(), Some("0"));
        assert_eq!(size(&[http_1, chunked]), None);
        assert_eq!(size(&[http_2]), None);
        assert_eq!(size(&[]), None);
        for tunnel in [("http_upgrade", "websocket"), ("request_method", "CONNECT")] {
            assert_eq!(size(&[http_1, tunnel]), None);
            assert_eq!(size(&[http_1, ("http_content_length", "0"), tunnel]), None);
        }
        assert_eq!(size(&[http_1, length, ("request_method", "POST")]).as_deref(), Some("7"));
    }
}
