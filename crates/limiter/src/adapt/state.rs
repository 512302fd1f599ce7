//! What a controller remembers from one interval to the next.

/// The number of bits behind the point of a limit in a state.
pub(super) const POINT: u32 = 16;

/// The state of one adaptive limit. All workers share it as [`State::BYTES`] bytes.
///
/// Any bytes are a state: a [`Controller`](super::Controller) reads a limit outside of its range
/// as the nearest end of the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The limit, in 1/65536.
    pub(super) limit: u64,
    /// The capacity that the last reduction found, or the limit before it, in 1/65536. Growth slows
    /// down on its way there.
    pub(super) ceiling: u64,
    /// Intervals in a row in which the limit has grown above the ceiling.
    pub(super) streak: u32,
}

impl State {
    /// The length of a state's bytes.
    pub const BYTES: usize = 20;

    /// The state as bytes: limit, ceiling and streak, little-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let fields = self.limit.to_le_bytes().into_iter().chain(self.ceiling.to_le_bytes());
        for (to, from) in bytes.iter_mut().zip(fields.chain(self.streak.to_le_bytes())) {
            *to = from;
        }
        bytes
    }

    /// The state that has these bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> State {
        let number = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk());
        let streak = bytes.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        State {
            limit: number(0).map_or(0, |bytes| u64::from_le_bytes(*bytes)),
            ceiling: number(8).map_or(0, |bytes| u64::from_le_bytes(*bytes)),
            streak,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_state(bytes: [u8; State::BYTES]) {
            prop_assert_eq!(State::from_bytes(&bytes).to_bytes(), bytes);
        }
    }
}
