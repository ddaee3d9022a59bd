//! A seeded generator of pseudo-random numbers (`SplitMix64`, Steele et al., 2014): equal seeds give equal runs.

use std::ops::Range;
use std::time::Duration;

/// Finaliser of `SplitMix64`: spreads a counter over all 64 bits.
pub(crate) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A generator.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// A generator of its own, so that the use of one does not change the numbers of the other.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number of the range, which must not be empty.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// A length of the range, evenly spread over magnitudes: short ones are as frequent as long ones.
    pub(crate) fn magnitude(&mut self, range: Range<u64>) -> u64 {
        let bits = |value: u64| u64::from(64 - value.leading_zeros());
        let shift = self.within(bits(range.start)..bits(range.end) + 1);
        let top = (1u64 << shift.min(62)).clamp(range.start + 1, range.end);
        self.within(range.start..top)
    }

    /// Whether an event of this probability, in parts of 1000, occurs.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.next() % 1000 < per_mille
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.within(0..choices.len() as u64) as usize]
    }

    pub(crate) fn micros(&mut self, range: Range<u64>) -> Duration {
        Duration::from_micros(self.within(range))
    }
}
