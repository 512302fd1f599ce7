//! Copies bytes between Envoy and the module: those that the module lends for a call, and those
//! that Envoy lends for an event.

use super::world::with;
use diana_envoy_module::abi::{Bytes, Header};

/// A copy of what the module lends for a call.
///
/// # Safety
/// The module lends the bytes now.
pub unsafe fn copy(bytes: Bytes) -> Vec<u8> {
    // SAFETY: by the caller's promise.
    unsafe { bytes.get() }.to_vec()
}

/// Copies of the lines that the module lends for a call.
///
/// # Safety
/// The module lends this number of lines now.
pub unsafe fn lines(start: *const Header, count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    // SAFETY: the module lends this number of lines until the call returns.
    (0..count)
        .map(|index| unsafe { (copy((*start.add(index)).name), copy((*start.add(index)).value)) })
        .collect()
}

/// Writes a value that the event lends, if there is one. Returns whether there is one.
///
/// # Safety
/// The module has room for a value.
pub unsafe fn lend(value: *mut Bytes, found: Option<Vec<u8>>) -> bool {
    let lent = found.map(|found| with(|world| world.lender.lend(&found)));
    // SAFETY: the module has room for a value.
    lent.map(|lent| unsafe { *value = lent }).is_some()
}
