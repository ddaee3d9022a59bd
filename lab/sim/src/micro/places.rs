//! Scattered places: walks over lines that no prefetcher follows and that need no memory of their own.

use crate::memory::{Address, LINE};

/// A pseudo-random walk over lines, none twice in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scatter {
    /// The first byte
    pub base: Address,
    /// Lines, a power of two
    pub lines: u64,
}

impl Scatter {
    /// The `n`-th place. Multiplied, folded and multiplied again: one multiplication alone is a walk of equal steps,
    /// which meets the same banks of memory again and again.
    #[inline(always)]
    pub fn place(self, n: u64) -> Address {
        let (mask, half) = (self.lines - 1, self.lines.trailing_zeros() / 2 + 1);
        let once = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
        let folded = once ^ (once >> half);
        self.base + (folded.wrapping_mul(0xd1b5_4a32_d192_ed03) & mask) * LINE
    }

    /// The `n`-th place of a walk of equal, wide steps: cheap enough not to hide a store to the first level.
    #[inline(always)]
    pub fn stride(self, n: u64) -> Address {
        self.base + (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (self.lines - 1)) * LINE
    }
}
