//! The types of the ABI. Enumerations of C are numbers here: Envoy may send values that a later
//! version of the ABI adds.

use std::ffi::c_void;
use std::ptr::null;
use std::slice;

/// Envoy's filter of one stream.
pub type StreamPtr = *mut c_void;
/// A span of a trace, as long as its stream lives.
pub type SpanPtr = *mut c_void;
/// Envoy's configuration of the filter.
pub type ConfigPtr = *mut c_void;
/// Envoy's side of a call that a module carries over a TCP connection.
pub type BridgePtr = *mut c_void;
/// A handle that lets any thread call back on the worker of a stream.
pub type StreamScheduler = *mut c_void;
/// A handle that lets any thread call back on the main thread.
pub type ConfigScheduler = *mut c_void;

/// Bytes of Envoy or of the module, with the same layout.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// The first byte; may be null if `size` is 0.
    pub start: *const u8,
    /// The number of bytes.
    pub size: usize,
}

impl Bytes {
    /// No bytes.
    pub const NONE: Bytes = Bytes { start: null(), size: 0 };

    /// Bytes of the module for the time of a call.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Bytes {
        Bytes { start: bytes.as_ptr(), size: bytes.len() }
    }

    /// The bytes as a slice.
    ///
    /// # Safety
    /// `start` points to `size` bytes, which no thread changes and which live for `'a`.
    #[must_use]
    pub unsafe fn get<'a>(self) -> &'a [u8] {
        if self.start.is_null() || self.size == 0 {
            return &[];
        }
        // SAFETY: by the caller's promise.
        unsafe { slice::from_raw_parts(self.start, self.size) }
    }
}

/// A header line of Envoy or of the module.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// The name, in lower case.
    pub name: Bytes,
    /// The value.
    pub value: Bytes,
}

impl Header {
    /// A line of the module for the time of a call.
    #[must_use]
    pub fn of(name: &[u8], value: &[u8]) -> Header {
        Header { name: Bytes::of(name), value: Bytes::of(value) }
    }
}

/// The maps of headers.
pub mod header_map {
    /// The request's headers.
    pub const REQUEST: u32 = 0;
    /// The request's trailers.
    pub const REQUEST_TRAILERS: u32 = 1;
    /// The response's headers.
    pub const RESPONSE: u32 = 2;
}

/// The bodies.
pub mod body {
    /// The part of the request's body that has just arrived; only in its event.
    pub const RECEIVED_REQUEST: u32 = 0;
    /// The part of the response's body that has just arrived; only in its event.
    pub const RECEIVED_RESPONSE: u32 = 2;
}

/// The levels of Envoy's log.
pub mod log_level {
    /// For the developers of Envoy.
    pub const TRACE: u32 = 0;
    /// For those who look for a mistake.
    pub const DEBUG: u32 = 1;
    /// For operators.
    pub const INFO: u32 = 2;
    /// Something needs attention.
    pub const WARN: u32 = 3;
    /// Something failed.
    pub const ERROR: u32 = 4;
    /// The module has a bug.
    pub const CRITICAL: u32 = 5;
}

/// What Envoy does with headers after an event.
pub mod headers_status {
    /// Passes them on.
    pub const CONTINUE: u32 = 0;
    /// Keeps them, as after a local response.
    pub const STOP: u32 = 1;
    /// Keeps them and all that follows, without more events and with back-pressure, until the
    /// module continues.
    pub const STOP_ALL_AND_WATERMARK: u32 = 4;
}

/// What Envoy does with a part of a body after an event.
pub mod body_status {
    /// Passes it on.
    pub const CONTINUE: u32 = 0;
    /// Keeps it, with back-pressure.
    pub const STOP_AND_WATERMARK: u32 = 2;
}

/// What Envoy does with trailers after an event.
pub mod trailers_status {
    /// Passes them on.
    pub const CONTINUE: u32 = 0;
    /// Keeps them.
    pub const STOP: u32 = 1;
}

/// The result of a successful call about metrics, or of a call-out that starts. All else is a
/// failure.
pub const SUCCESS: u32 = 0;

/// The numbers of attributes, which Envoy's documentation describes.
pub mod attribute {
    /// `request.path`.
    pub const REQUEST_PATH: u32 = 0;
    /// `request.host`.
    pub const REQUEST_HOST: u32 = 2;
    /// `request.scheme`.
    pub const REQUEST_SCHEME: u32 = 3;
    /// `request.method`.
    pub const REQUEST_METHOD: u32 = 4;
    /// `request.referer`.
    pub const REQUEST_REFERER: u32 = 6;
    /// `request.useragent`.
    pub const REQUEST_USER_AGENT: u32 = 7;
    /// `request.id`.
    pub const REQUEST_ID: u32 = 9;
    /// `request.protocol`.
    pub const REQUEST_PROTOCOL: u32 = 10;
    /// `source.address`, with the port.
    pub const SOURCE_ADDRESS: u32 = 24;
    /// `source.port`.
    pub const SOURCE_PORT: u32 = 25;
    /// `destination.address`, with the port.
    pub const DESTINATION_ADDRESS: u32 = 26;
    /// `destination.port`.
    pub const DESTINATION_PORT: u32 = 27;
    /// `connection.id`.
    pub const CONNECTION_ID: u32 = 28;
    /// `connection.mtls`.
    pub const CONNECTION_MTLS: u32 = 29;
    /// `connection.requested_server_name`.
    pub const CONNECTION_SERVER_NAME: u32 = 30;
    /// `connection.tls_version`.
    pub const CONNECTION_TLS_VERSION: u32 = 31;
    /// `connection.subject_peer_certificate`.
    pub const CONNECTION_SUBJECT_PEER: u32 = 33;
    /// `connection.dns_san_peer_certificate`.
    pub const CONNECTION_DNS_SAN_PEER: u32 = 35;
    /// `connection.uri_san_peer_certificate`.
    pub const CONNECTION_URI_SAN_PEER: u32 = 37;
    /// `connection.sha256_peer_certificate_digest`.
    pub const CONNECTION_SHA256_PEER: u32 = 38;
    /// `xds.route_name`.
    pub const XDS_ROUTE_NAME: u32 = 61;
}

/// Where metadata come from.
pub mod metadata {
    /// The stream's dynamic metadata.
    pub const DYNAMIC: u32 = 0;
    /// The route's metadata.
    pub const ROUTE: u32 = 1;
    /// The cluster's metadata.
    pub const CLUSTER: u32 = 2;
}
