//! Memory for what a host returns.
//!
//! It does not know: what it will hold. Hosts ask for it in the middle of their own calls, so nothing else
//! happens here.

use std::alloc::{Layout, alloc};
use std::ptr::{NonNull, null_mut};

/// So many bytes that [`take`] can own; null if there are none left, which hosts report as a failed call.
pub(super) fn allocate(size: usize) -> *mut u8 {
    match Layout::array::<u8>(size) {
        // nginx takes null for a failure, and no allocator has to give what is empty.
        Ok(_) if size == 0 => NonNull::dangling().as_ptr(),
        // SAFETY: the layout is not empty.
        Ok(layout) => unsafe { alloc(layout) },
        Err(_) => null_mut(),
    }
}

/// The bytes at `data`; `None` for a null pointer, which is how some hosts return what is empty.
///
/// # Safety
/// `data` is null or from [`allocate`] with just this `size`, is written in full, and is nobody else's.
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
    fn what_is_allocated_can_be_owned() {
        for size in [0, 1, 64, 100_000] {
            let data = allocate(size);
            // SAFETY: the bytes are ours, and so many.
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
    fn what_there_is_no_room_for_is_null() {
        assert!(allocate(usize::MAX).is_null());
    }
}
