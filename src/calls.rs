//! Host calls that return bytes, and their statuses. Source: the proxy-wasm ABI, version 0.2.1.

use super::abi::*;
use super::memory;
use diana_limiter::cells::store::Fault;
use std::ptr::null_mut;

pub(crate) const OK: u32 = 0;
pub(crate) const NOT_FOUND: u32 = 1;
pub(crate) const CAS_MISMATCH: u32 = 8;

pub(crate) const REQUEST_HEADERS: u32 = 0;
pub(crate) const REQUEST_TRAILERS: u32 = 1;
pub(crate) const RESPONSE_HEADERS: u32 = 2;
pub(crate) const CALL_HEADERS: u32 = 6;

/// The result of a call that returns only a status.
pub(crate) fn check(status: u32) -> Result<(), Fault> {
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

/// All headers of a map, in the format of [`pairs`](diana_limiter::request::pairs).
pub(crate) fn headers(map: u32) -> Option<Vec<u8>> {
    // SAFETY: the host writes a pointer and a size.
    bytes(|data, size| unsafe { proxy_get_header_map_pairs(map, data, size) })
}

/// The value of a header, or of the first of its lines.
pub(crate) fn header(map: u32, name: &[u8]) -> Option<Vec<u8>> {
    let (key, key_size) = (name.as_ptr(), name.len());
    // SAFETY: the name lives through the call; the host writes a pointer and a size.
    bytes(|data, size| unsafe { proxy_get_header_map_value(map, key, key_size, data, size) })
}

/// Sets a header in place of all its lines.
pub(crate) fn replace_header(map: u32, name: &str, value: &str) {
    let (key, key_size, value, size) = (name.as_ptr(), name.len(), value.as_ptr(), value.len());
    // SAFETY: both strings live through the call.
    unsafe { proxy_replace_header_map_value(map, key, key_size, value, size) };
}

/// Removes all lines of a header. An operator may allow the filter fewer calls than this one needs;
/// the header is then empty.
pub(crate) fn remove_header(map: u32, name: &str) {
    // SAFETY: the name lives through the call.
    if unsafe { proxy_remove_header_map_value(map, name.as_ptr(), name.len()) } != OK {
        replace_header(map, name, "");
    }
}

/// An attribute of the host by its path, the words separated by zero bytes.
#[inline]
pub(crate) fn property(path: &[u8]) -> Option<Vec<u8>> {
    let (key, key_size) = (path.as_ptr(), path.len());
    // SAFETY: the path lives through the call; the host writes a pointer and a size.
    bytes(|data, size| unsafe { proxy_get_property(key, key_size, data, size) })
}

/// Up to `size` bytes of a buffer, from `start`.
pub(crate) fn buffer(buffer: u32, start: usize, size: usize) -> Option<Vec<u8>> {
    // SAFETY: the host writes a pointer and a size.
    bytes(|data, len| unsafe { proxy_get_buffer_bytes(buffer, start, size, data, len) })
}

/// The result of a function that the ABI does not know.
pub(crate) fn foreign(name: &str, argument: &[u8]) -> Option<Vec<u8>> {
    let (name, name_size, argument, argument_size) =
        (name.as_ptr(), name.len(), argument.as_ptr(), argument.len());
    // SAFETY: name and argument live through the call; the host writes a pointer and a size.
    bytes(|data, size| unsafe {
        proxy_call_foreign_function(name, name_size, argument, argument_size, data, size)
    })
}

/// Writes a line to the host's log. Errors are ignored, because there is no other place to report
/// them.
pub(crate) fn log(level: u32, line: &str) {
    // SAFETY: the pointer and the size are those of a live string.
    unsafe { proxy_log(level, line.as_ptr(), line.len()) };
}
