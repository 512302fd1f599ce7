//! Bytes read as numbers, from the front. Missing bytes are zero.

/// The rest of the bytes.
#[derive(Clone, Copy)]
pub struct Input<'b>(pub &'b [u8]);

impl<'b> Input<'b> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    pub fn flag(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    /// A number below `bound`, from one byte.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    pub fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number of any order of magnitude, from three bytes: two bytes, shifted by the third.
    pub fn scaled(&mut self) -> u64 {
        let [low, high, shift] = self.array();
        u64::from(u16::from_le_bytes([low, high])) << (shift % 48)
    }

    /// At most `most` bytes.
    pub fn bytes(&mut self, most: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.bytes(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }
}
