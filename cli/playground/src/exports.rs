//! The functions that the page calls. A buffer belongs to the page from `allocate` or `answer` to
//! `release`.

use std::mem::forget;

/// Allocates this number of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn allocate(length: u32) -> *mut u8 {
    let mut buffer = vec![0u8; length as usize].into_boxed_slice();
    let address = buffer.as_mut_ptr();
    forget(buffer);
    address
}

/// Frees a buffer of this length.
///
/// # Safety
/// `address` and `length` are those of one call of [`allocate`], or of the result of [`answer`],
/// and are released once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn release(address: *mut u8, length: u32) {
    let buffer = std::ptr::slice_from_raw_parts_mut(address, length as usize);
    // SAFETY: the caller releases what `allocate` or `answer` made, a boxed slice of this length.
    drop(unsafe { Box::from_raw(buffer) });
}

/// Answers the question in these bytes. Returns the answer's address in the upper 32 bits, and its
/// length in the lower ones.
///
/// # Safety
/// `address` and `length` are those of one call of [`allocate`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn answer(address: *const u8, length: u32) -> u64 {
    // SAFETY: the caller has allocated these bytes, and changes none during the call.
    let question = unsafe { std::slice::from_raw_parts(address, length as usize) };
    let answer = crate::answer(&String::from_utf8_lossy(question));
    let buffer = answer.into_bytes().into_boxed_slice();
    let length = buffer.len() as u64;
    let address = Box::into_raw(buffer).cast::<u8>() as u64;
    address << 32 | length
}
