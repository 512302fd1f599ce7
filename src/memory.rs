//! Memory for values that a host returns. Hosts allocate in the middle of their own calls, so this
//! module must not do anything else.

use std::alloc::{Layout, alloc};
use std::ptr::{NonNull, null_mut};

/// Allocates `size` bytes that [`take`] can own. Returns null if there is no memory; hosts report
/// that as a failed call.
#[cfg_attr(not(any(target_arch = "wasm32", test)), expect(dead_code, reason = "only a host allocates"))]
pub(super) fn allocate(size: usize) -> *mut u8 {
    match Layout::array::<u8>(size) {
        // Hosts take null for a failure, and an allocator need not support empty allocations.
        Ok(_) if size == 0 => NonNull::dangling().as_ptr(),
        // SAFETY: the layout is not empty.
        Ok(layout) => unsafe { alloc(layout) },
        Err(_) => null_mut(),
    }
}

/// The bytes at `data`; `None` for a null pointer, which some hosts return for an empty value.
///
/// # Safety
/// `data` is null, or comes from [`allocate`] with exactly this `size`, is fully written, and has
/// no other owner.
pub(super) unsafe fn take(data: *mut u8, size: usize) -> Option<Vec<u8>> {
    if data.is_null() {
        return None;
    }
    // SAFETY: a vector of bytes is allocated with the layout that `allocate` uses.
    Some(unsafe { Vec::from_raw_parts(data, size, size) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocated_memory_can_be_owned() {
        for size in [0, 1, 64, 100_000] {
            let data = allocate(size);
            // SAFETY: `allocate` returned `size` bytes, which nothing else owns.
            let bytes = unsafe {
                data.write_bytes(7, size);
                take(data, size)
            };
            assert_eq!(bytes, Some(vec![7; size]));
        }
        // SAFETY: null is allowed.
        assert_eq!(unsafe { take(null_mut(), 0) }, None);
    }

    #[test]
    fn an_allocation_without_room_is_null() {
        assert!(allocate(usize::MAX).is_null());
    }
}
