//! Little-endian numbers and rows of bits in a cell. What lies outside reads as zero, and writes to
//! it are ignored.

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

/// Sets the bits `from..from + count` of a row of bits. Bit 0 is the lowest bit of the first byte.
pub(super) fn set_bits(bits: &mut [u8], from: u64, count: u64) {
    for bit in from..from.saturating_add(count).min(bit_count(bits)) {
        if let Some(byte) = byte_of(bit).and_then(|byte| bits.get_mut(byte)) {
            *byte |= mask(bit);
        }
    }
}

/// The number of consecutive set bits from bit 0.
pub(super) fn leading_bits(bits: &[u8]) -> u64 {
    let is_set =
        |bit: &u64| byte_of(*bit).and_then(|byte| bits.get(byte)).is_some_and(|byte| byte & mask(*bit) != 0);
    u64::try_from((0..bit_count(bits)).take_while(is_set).count()).unwrap_or(0)
}

/// Shifts all bits up by `by` places. The lowest bits become zero, the highest are lost.
pub(super) fn shift_up(bits: &mut [u8], by: u64) {
    let (bytes, rest) = split(by);
    let from = |at: usize| at.checked_sub(bytes).and_then(|at| bits.get(at)).copied().unwrap_or(0);
    let moved = |at: usize| {
        let below = at.checked_sub(1).map_or(0, from);
        from(at).checked_shl(rest).unwrap_or(0) | below.checked_shr(8u32.saturating_sub(rest)).unwrap_or(0)
    };
    let moved: Vec<u8> = (0..bits.len()).map(moved).collect();
    bits.copy_from_slice(&moved);
}

/// Shifts all bits down by `by` places. The lowest bits are lost, the highest become zero.
pub(super) fn shift_down(bits: &mut [u8], by: u64) {
    let (bytes, rest) = split(by);
    let from = |at: usize| bits.get(at.saturating_add(bytes)).copied().unwrap_or(0);
    let moved = |at: usize| {
        let above = from(at.saturating_add(1)).checked_shl(8u32.saturating_sub(rest)).unwrap_or(0);
        from(at).checked_shr(rest).unwrap_or(0) | above
    };
    let moved: Vec<u8> = (0..bits.len()).map(moved).collect();
    bits.copy_from_slice(&moved);
}

fn bit_count(bits: &[u8]) -> u64 {
    u64::try_from(bits.len()).unwrap_or(u64::MAX).saturating_mul(8)
}

fn byte_of(bit: u64) -> Option<usize> {
    usize::try_from(bit >> 3).ok()
}

fn mask(bit: u64) -> u8 {
    1u8.checked_shl(u32::try_from(bit & 7).unwrap_or(0)).unwrap_or(0)
}

/// Splits a number of bits into whole bytes and remaining bits.
fn split(by: u64) -> (usize, u32) {
    (usize::try_from(by >> 3).unwrap_or(usize::MAX), u32::try_from(by & 7).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(bits: &[u8]) -> u128 {
        bits.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte))
    }

    proptest! {
        #[test]
        fn bit_operations_match_integer_operations(bytes in prop::collection::vec(any::<u8>(), 0..9), by in 0u64..90, from in 0u64..90) {
            let (whole, all) = (number(&bytes), 8 * bytes.len() as u32);
            let kept = (1u128 << all) - 1;
            let (mut up, mut down, mut filled) = (bytes.clone(), bytes.clone(), bytes.clone());
            shift_up(&mut up, by);
            prop_assert_eq!(number(&up), (whole << by) & kept);
            shift_down(&mut down, by);
            prop_assert_eq!(number(&down), whole >> by);
            set_bits(&mut filled, from, by);
            let run = if by == 0 { 0 } else { (u128::MAX >> (128 - by.min(127)) as u32) << from.min(127) };
            if from + by < 127 {
                prop_assert_eq!(number(&filled), (whole | run) & kept);
            }
            prop_assert_eq!(leading_bits(&bytes), u64::from(whole.trailing_ones().min(all)));
        }
    }
}
