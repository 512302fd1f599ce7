//! Identifies a JSON value of any size in eight bytes: FNV-1a (Fowler, Noll, Vo) over its tokens.
//! It has no key, so that all gateways agree. A client that crafts two values with one fingerprint
//! gains nothing, because they only count together.

use crate::number::Number;

/// The fingerprint of the tokens so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of no tokens.
    pub(crate) const START: Fingerprint = Fingerprint(0xcbf2_9ce4_8422_2325);

    #[inline(never)]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// A number, whatever its spelling.
    pub(crate) fn number(&mut self, number: &Number) {
        let (is_negative, mantissa, exponent) = number.reduced();
        self.push(&[u8::from(is_negative)]);
        self.push(&mantissa.to_le_bytes());
        self.push(&exponent.to_le_bytes());
    }

    pub(crate) fn bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}
