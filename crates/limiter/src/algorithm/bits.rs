//! A row of bits in a cell. Bit 0 is the lowest bit of the first byte. Bits outside the row read as
//! zero, and writes to them are ignored.

/// Sets the bits `from..from + count`.
pub(super) fn set(bits: &mut [u8], from: u64, count: u64) {
    for bit in from..from.saturating_add(count).min(len(bits)) {
        if let Some(byte) = byte_of(bit).and_then(|byte| bits.get_mut(byte)) {
            *byte |= mask(bit);
        }
    }
}

/// The number of consecutive set bits from bit 0.
pub(super) fn leading(bits: &[u8]) -> u64 {
    let is_set =
        |bit: &u64| byte_of(*bit).and_then(|byte| bits.get(byte)).is_some_and(|byte| byte & mask(*bit) != 0);
    u64::try_from((0..len(bits)).take_while(is_set).count()).unwrap_or(0)
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

fn len(bits: &[u8]) -> u64 {
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
            set(&mut filled, from, by);
            let run = if by == 0 { 0 } else { (u128::MAX >> (128 - by.min(127)) as u32) << from.min(127) };
            if from + by < 127 {
                prop_assert_eq!(number(&filled), (whole | run) & kept);
            }
            prop_assert_eq!(leading(&bytes), u64::from(whole.trailing_ones().min(all)));
        }
    }
}
