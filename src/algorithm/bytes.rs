//! Numbers in a cell, little-endian. What lies outside reads as zero and is not written.
//!
//! It does not know: what they mean.

/// The `u64` at `at`.
pub(super) fn u64_at(cell: &[u8], at: usize) -> u64 {
    cell.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The `u32` at `at`.
pub(super) fn u32_at(cell: &[u8], at: usize) -> u32 {
    cell.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Writes `bytes` at `at`.
pub(super) fn write<const N: usize>(cell: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(to) = cell.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *to = bytes;
    }
}

/// Adds one to the `u32` at `at`, which wraps.
pub(super) fn add_one(cell: &mut [u8], at: usize) {
    let next = u32_at(cell, at).wrapping_add(1);
    write(cell, at, next.to_le_bytes());
}
