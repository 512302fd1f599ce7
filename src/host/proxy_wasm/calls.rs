//! Safe wrappers of the host calls. Each returns the host's status as a value. Source: the
//! proxy-wasm ABI, version 0.2.1.

use super::abi::{self, *};
use super::memory;
use diana_base::format;
use diana_base::time::Time;
use diana_limiter::cells::store::{Fault, Portable, SharedData, Watched, Written};
use diana_limiter::global::MAX_REPLY_BYTES;
use diana_limiter::request::pairs;
use diana_limiter::response::Refusal;
use log::Level;
use std::ptr::null_mut;

const OK: u32 = 0;
const NOT_FOUND: u32 = 1;
const CAS_MISMATCH: u32 = 8;

const REQUEST_HEADERS: u32 = 0;
const RESPONSE_HEADERS: u32 = 2;
const CALL_HEADERS: u32 = 6;
const RESPONSE_BODY: u32 = 1;
const CALL_BODY: u32 = 4;
const GRPC_MESSAGE: u32 = 5;
const PLUGIN_CONFIGURATION: u32 = 7;
const REQUEST: u32 = 0;

/// WASI's monotonic clock.
const MONOTONIC: u32 = 1;

/// The host's level for a panic.
#[cfg(target_arch = "wasm32")]
const CRITICAL: u32 = 5;

/// Writes a line to the host's log. Errors are ignored, because there is no other place to report
/// them.
pub(super) fn log(level: Level, line: &str) {
    write_log(level_number(level), line);
}

/// Writes a panic to the host's log.
#[cfg(target_arch = "wasm32")]
pub(super) fn log_panic(line: &str) {
    write_log(CRITICAL, line);
}

fn level_number(level: Level) -> u32 {
    match level {
        Level::Trace => 0,
        Level::Debug => 1,
        Level::Info => 2,
        Level::Warn => 3,
        Level::Error => 4,
    }
}

fn write_log(level: u32, line: &str) {
    // SAFETY: the pointer and the size are those of a live string.
    unsafe { proxy_log(level, line.as_ptr(), line.len()) };
}

/// The host's clock, which may step.
pub(super) fn now() -> Result<Time, Fault> {
    let mut ns = 0;
    // SAFETY: the host writes eight bytes.
    match unsafe { proxy_get_current_time_nanoseconds(&mut ns) } {
        OK => Ok(Time::from_ns(ns)),
        status => Err(Fault(status)),
    }
}

/// The monotonic clock; its origin is arbitrary.
pub(super) fn monotonic() -> Option<Time> {
    let mut ns = 0;
    // SAFETY: the host writes eight bytes.
    (unsafe { clock_time_get(MONOTONIC, 1, &mut ns) } == OK).then_some(Time::from_ns(ns))
}

pub(super) fn random() -> u64 {
    abi::random()
}

/// The result of a call that returns only a status.
fn check(status: u32) -> Result<(), Fault> {
    if status == OK { Ok(()) } else { Err(Fault(status)) }
}

/// Makes a call that returns bytes. `None` for any status except OK: the value does not exist.
fn bytes(call: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Option<Vec<u8>> {
    let (mut data, mut size) = (null_mut(), 0);
    match call(&mut data, &mut size) {
        // SAFETY: a host returns what it has just allocated and written.
        OK => Some(unsafe { memory::take(data, size) }.unwrap_or_default()),
        _ => None,
    }
}

/// The plugin's configuration; available only during `proxy_on_configure`.
pub(super) fn plugin_configuration(size: usize) -> Vec<u8> {
    // SAFETY: the host writes a pointer and a size.
    bytes(|data, len| unsafe { proxy_get_buffer_bytes(PLUGIN_CONFIGURATION, 0, size, data, len) })
        .unwrap_or_default()
}

/// All request headers, in the format of [`pairs`].
pub(super) fn request_headers() -> Option<Vec<u8>> {
    // SAFETY: the host writes a pointer and a size.
    bytes(|data, size| unsafe { proxy_get_header_map_pairs(REQUEST_HEADERS, data, size) })
}

/// The value of a response header; several lines as the host joins them.
pub(super) fn response_header(name: &[u8]) -> Option<Vec<u8>> {
    let (key, key_size) = (name.as_ptr(), name.len());
    // SAFETY: the name lives through the call; the host writes a pointer and a size.
    bytes(|data, size| unsafe { proxy_get_header_map_value(RESPONSE_HEADERS, key, key_size, data, size) })
}

/// Up to `size` bytes of the response's body that the host has now, from `start`.
pub(super) fn response_body(start: usize, size: usize) -> Option<Vec<u8>> {
    // SAFETY: the host writes a pointer and a size.
    bytes(|data, len| unsafe { proxy_get_buffer_bytes(RESPONSE_BODY, start, size, data, len) })
}

/// The value of a request header that has one line.
pub(super) fn request_header(name: &[u8]) -> Option<Vec<u8>> {
    let (key, key_size) = (name.as_ptr(), name.len());
    // SAFETY: the name lives through the call; the host writes a pointer and a size.
    bytes(|data, size| unsafe { proxy_get_header_map_value(REQUEST_HEADERS, key, key_size, data, size) })
}

pub(super) fn add_response_header(name: &str, value: &str) {
    let (key, key_size, value, size) = (name.as_ptr(), name.len(), value.as_ptr(), value.len());
    // SAFETY: both strings live through the call.
    unsafe { proxy_add_header_map_value(RESPONSE_HEADERS, key, key_size, value, size) };
}

/// Sets a response header and removes all other lines of that name.
pub(super) fn replace_response_header(name: &str, value: &str) {
    let (key, key_size, value, size) = (name.as_ptr(), name.len(), value.as_ptr(), value.len());
    // SAFETY: both strings live through the call.
    unsafe { proxy_replace_header_map_value(RESPONSE_HEADERS, key, key_size, value, size) };
}

/// An attribute of the host by its path, the words separated by zero bytes.
pub(super) fn property(path: &[u8]) -> Option<Vec<u8>> {
    let (key, key_size) = (path.as_ptr(), path.len());
    // SAFETY: the path lives through the call; the host writes a pointer and a size.
    bytes(|data, size| unsafe { proxy_get_property(key, key_size, data, size) })
}

/// Sets an attribute for the host's access log.
pub(super) fn set_property(path: &str, value: &str) {
    // SAFETY: both strings live through the call.
    unsafe { proxy_set_property(path.as_ptr(), path.len(), value.as_ptr(), value.len()) };
}

/// A response in place of the upstream's, ready to be sent now or later.
#[derive(Debug)]
pub(super) struct LocalReply {
    status: u32,
    details: String,
    headers: Vec<u8>,
    body: Vec<u8>,
    grpc_status: i32,
}

impl LocalReply {
    /// The response for a refusal. Envoy turns a gRPC status into headers and takes the message
    /// from the body. nginx does neither. There the filter sets the headers, and an empty body
    /// makes them the only frame of the response.
    pub(super) fn new(mut refusal: Refusal, is_nginx: bool) -> LocalReply {
        if is_nginx && let Some(status) = refusal.grpc_status.take() {
            refusal.status = 200;
            refusal.headers.push(("content-type", "application/grpc".into()));
            refusal.headers.push(("grpc-status", format::alone(status.into()).into()));
            refusal.headers.push(("grpc-message", refusal.details.clone().into()));
        }
        let headers = pairs::encode(&refusal.headers);
        let Refusal { status, details, body, grpc_status, .. } = refusal;
        let (body, grpc_status) = match grpc_status {
            Some(status) => (details.clone().into_bytes(), i32::try_from(status).unwrap_or(-1)),
            None => (body.into_owned(), -1),
        };
        LocalReply { status, details, headers, body, grpc_status }
    }
}

/// Sends a response to the client of the effective stream.
pub(super) fn send_local_response(reply: &LocalReply) -> Result<(), Fault> {
    let LocalReply { status, details, headers, body, grpc_status } = reply;
    // SAFETY: all pointers are to live bytes of the given sizes.
    check(unsafe {
        proxy_send_local_response(
            *status,
            details.as_ptr(),
            details.len(),
            body.as_ptr(),
            body.len(),
            headers.as_ptr(),
            headers.len(),
            *grpc_status,
        )
    })
}

/// An empty header map, in the format of [`pairs`].
const NO_PAIRS: [u8; 4] = [0; 4];

/// Sends an HTTP request to a cluster and returns the number of the call. The host reports the
/// reply or the timeout in a callback.
pub(super) fn http_call(cluster: &str, headers: &[u8], body: &[u8], timeout_ms: u32) -> Result<u32, Fault> {
    let mut token = 0;
    // SAFETY: all pointers are to live bytes of the given sizes; the host writes four bytes.
    check(unsafe {
        proxy_http_call(
            cluster.as_ptr(),
            cluster.len(),
            headers.as_ptr(),
            headers.len(),
            body.as_ptr(),
            body.len(),
            NO_PAIRS.as_ptr(),
            NO_PAIRS.len(),
            timeout_ms,
            &mut token,
        )
    })
    .map(|()| token)
}

/// Sends a gRPC message to a service of a cluster and returns the number of the call. `cluster` is
/// a serialised `GrpcService`. The host reports the reply in a callback, as for [`http_call`].
pub(super) fn grpc_call(
    cluster: &[u8],
    service: &str,
    method: &str,
    message: &[u8],
    timeout_ms: u32,
) -> Result<u32, Fault> {
    let mut token = 0;
    // SAFETY: all pointers are to live bytes of the given sizes; the host writes four bytes.
    check(unsafe {
        proxy_grpc_call(
            cluster.as_ptr(),
            cluster.len(),
            service.as_ptr(),
            service.len(),
            method.as_ptr(),
            method.len(),
            NO_PAIRS.as_ptr(),
            NO_PAIRS.len(),
            message.as_ptr(),
            message.len(),
            timeout_ms,
            &mut token,
        )
    })
    .map(|()| token)
}

/// A header of the reply to an HTTP call; available only in its callback.
pub(super) fn call_header(name: &[u8]) -> Option<Vec<u8>> {
    let (key, key_size) = (name.as_ptr(), name.len());
    // SAFETY: the name lives through the call; the host writes a pointer and a size.
    bytes(|data, size| unsafe { proxy_get_header_map_value(CALL_HEADERS, key, key_size, data, size) })
}

/// The status of the reply to an HTTP call, 0 if there is no reply; available only in its callback.
pub(super) fn call_status() -> u32 {
    call_header(b":status").and_then(|status| str::from_utf8(&status).ok()?.parse().ok()).unwrap_or(0)
}

/// The body of the reply to an HTTP call, `size` bytes long; available only in its callback. See
/// [`reply_bytes`].
pub(super) fn call_body(size: usize) -> Vec<u8> {
    reply_bytes(CALL_BODY, size)
}

/// A received gRPC message, `size` bytes long; available only in its callback. See [`reply_bytes`].
pub(super) fn grpc_message(size: usize) -> Vec<u8> {
    reply_bytes(GRPC_MESSAGE, size)
}

/// The bytes that a server sent, cut one byte beyond [`MAX_REPLY_BYTES`]. So a reply of any length
/// costs little memory, and a longer reply is recognised as too long.
fn reply_bytes(buffer: u32, size: usize) -> Vec<u8> {
    let size = size.min(MAX_REPLY_BYTES.saturating_add(1));
    // SAFETY: the host writes a pointer and a size.
    bytes(|data, len| unsafe { proxy_get_buffer_bytes(buffer, 0, size, data, len) }).unwrap_or_default()
}

/// Sets the root context's timer to fire every `ms` milliseconds; 0 stops the timer.
pub(super) fn set_tick_period(ms: u32) -> Result<(), Fault> {
    // SAFETY: a plain number.
    check(unsafe { proxy_set_tick_period_milliseconds(ms) })
}

/// Makes host calls apply to this context until the callback ends.
pub(super) fn set_effective_context(id: u32) -> Result<(), Fault> {
    // SAFETY: a plain number.
    check(unsafe { proxy_set_effective_context(id) })
}

/// Resumes the held request of the effective stream.
pub(super) fn resume_request() -> Result<(), Fault> {
    // SAFETY: a plain number.
    check(unsafe { proxy_continue_stream(REQUEST) })
}

/// Defines a metric and returns its id. Envoy makes a new id for each call, so each metric is
/// defined once a VM.
pub(super) fn define_metric(kind: u32, name: &str) -> Option<u32> {
    let mut id = 0;
    // SAFETY: the name lives through the call; the host writes four bytes.
    let status = unsafe { proxy_define_metric(kind, name.as_ptr(), name.len(), &mut id) };
    (status == OK).then_some(id)
}

/// Sets a gauge, or adds a value to a histogram.
pub(super) fn record(id: u32, value: u64) {
    // SAFETY: plain numbers.
    unsafe { proxy_record_metric(id, value) };
}

/// Adds to a counter or a gauge. Errors are ignored: no request fails because of a metric.
pub(super) fn increment(id: u32, by: i64) {
    // SAFETY: plain numbers.
    unsafe { proxy_increment_metric(id, by) };
}

/// The host's shared data.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostData;

/// The store over the host's shared data.
pub(super) type HostStore = Watched<Portable<HostData>>;

impl SharedData for HostData {
    fn get(&self, key: &[u8]) -> Result<(Option<Vec<u8>>, Option<u32>), Fault> {
        let (mut data, mut size, mut cas) = (null_mut(), 0, 0);
        // SAFETY: the key lives through the call; the host writes a pointer, a size and four bytes.
        match unsafe { proxy_get_shared_data(key.as_ptr(), key.len(), &mut data, &mut size, &mut cas) } {
            // SAFETY: a host returns what it has just allocated and written.
            OK => Ok((unsafe { memory::take(data, size) }, (cas != 0).then_some(cas))),
            NOT_FOUND => Ok((None, None)),
            status => Err(Fault(status)),
        }
    }

    fn set(&self, key: &[u8], value: &[u8], cas: Option<u32>) -> Result<Written, Fault> {
        let cas = cas.unwrap_or(0);
        // SAFETY: key and value live through the call.
        match unsafe { proxy_set_shared_data(key.as_ptr(), key.len(), value.as_ptr(), value.len(), cas) } {
            OK => Ok(Written::Ok),
            CAS_MISMATCH => Ok(Written::CasMismatch),
            status => Err(Fault(status)),
        }
    }
}
