//! SplitMix64 (Steele, Lea and Flood 2014), a pseudorandom generator whose seed determines all
//! numbers, so it is no source of secrets. The crate `rand_xoshiro` takes the same time, but brings
//! two crates and lacks `mix` (measured 2026-11).

/// The finaliser: each bit of the result depends on every bit of `number`.
///
/// ```
/// use diana_base::prng::mix;
///
/// let differing = (mix(1) ^ mix(2)).count_ones();
/// assert!((20..44).contains(&differing), "about half of the bits");
/// ```
#[must_use]
pub fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Advances `state` and returns the upper half of the next number.
///
/// ```
/// use diana_base::prng::next;
///
/// let (mut state, mut same) = (7, 7);
/// let dice: Vec<u32> = (0..3).map(|_| next(&mut state) % 6 + 1).collect();
/// assert!(dice.iter().all(|points| (1..=6).contains(points)));
/// assert_eq!(dice[0], next(&mut same) % 6 + 1, "the seed determines all numbers");
/// ```
pub fn next(state: &mut u64) -> u32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    u32::try_from(mix(*state) >> 32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the reference implementation (<https://prng.di.unimi.it/splitmix64.c>)
    /// from the seed 1234567.
    #[test]
    fn it_is_splitmix64() {
        let mut state = 1_234_567;
        let expected: [u64; 3] =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        for number in expected {
            assert_eq!(u64::from(next(&mut state)), number >> 32);
            assert_eq!(mix(state), number);
        }
    }
}
