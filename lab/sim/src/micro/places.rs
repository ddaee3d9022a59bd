//! Scattered addresses: walks over lines that no prefetcher predicts and that need no table in memory.

use crate::memory::{Address, LINE};

/// A pseudo-random walk over lines without repetition within a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scatter {
    /// Address of the first byte
    pub base: Address,
    /// Number of lines, a power of two
    pub lines: u64,
}

impl Scatter {
    /// Returns the `n`-th address: multiplied, folded and multiplied again. A single multiplication gives a walk of
    /// equal steps, which hits the same memory banks repeatedly.
    #[inline(always)]
    pub fn place(self, n: u64) -> Address {
        let (mask, half) = (self.lines - 1, self.lines.trailing_zeros() / 2 + 1);
        let once = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
        let folded = once ^ (once >> half);
        self.base + (folded.wrapping_mul(0xd1b5_4a32_d192_ed03) & mask) * LINE
    }

    /// Returns the `n`-th address of a walk of equal, wide steps: cheap enough not to hide a store to the first level.
    #[inline(always)]
    pub fn stride(self, n: u64) -> Address {
        self.base + (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (self.lines - 1)) * LINE
    }
}
