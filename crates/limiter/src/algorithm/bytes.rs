//! Little-endian numbers in a cell. Offsets outside the cell read as zero, and writes to them are
//! ignored.

/// Reads the `u64` at offset `at`.
pub(super) fn u64_at(cell: &[u8], at: usize) -> u64 {
    cell.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Reads the `u32` at offset `at`.
pub(super) fn u32_at(cell: &[u8], at: usize) -> u32 {
    cell.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Reads the `u128` at offset `at`.
pub(super) fn u128_at(cell: &[u8], at: usize) -> u128 {
    cell.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u128::from_le_bytes(*bytes))
}

/// Writes `bytes` at offset `at`.
pub(super) fn write<const N: usize>(cell: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(to) = cell.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *to = bytes;
    }
}

/// Increments the `u32` at offset `at`; it wraps.
pub(super) fn add_one(cell: &mut [u8], at: usize) {
    let next = u32_at(cell, at).wrapping_add(1);
    write(cell, at, next.to_le_bytes());
}

/// The cell as an array, whose numbers are read and written without checks. A cell that is too
/// short is copied to `short`, and nothing is written to the cell.
pub(super) fn whole<'c, const N: usize>(cell: &'c mut [u8], short: &'c mut [u8; N]) -> &'c mut [u8; N] {
    if cell.len() < N {
        short.iter_mut().zip(&*cell).for_each(|(to, from)| *to = *from);
        return short;
    }
    cell.first_chunk_mut().unwrap_or(short)
}
