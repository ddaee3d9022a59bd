//! Sequence numbers modulo 2^32 (RFC 9293 section 3.4).

use core::ops::{Add, AddAssign, Sub};

/// A sequence number. Comparisons hold for distances below 2^31.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Seq(pub(crate) u32);

impl Seq {
    /// Whether this number is before `other`.
    #[inline(always)]
    pub(crate) const fn is_before(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() < 0
    }

    /// Whether this number is before `other` or equal to it.
    #[inline(always)]
    pub(crate) const fn is_at_most(self, other: Self) -> bool {
        !other.is_before(self)
    }

    /// The later of both.
    #[inline(always)]
    pub(crate) const fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// The earlier of both.
    #[inline(always)]
    pub(crate) const fn min(self, other: Self) -> Self {
        if self.is_before(other) { self } else { other }
    }

    /// Distance from `earlier` to this number; 0 if `earlier` is later.
    #[inline(always)]
    pub(crate) const fn since(self, earlier: Self) -> u32 {
        let distance = self.0.wrapping_sub(earlier.0);
        if distance.cast_signed() < 0 { 0 } else { distance }
    }
}

impl Add<u32> for Seq {
    type Output = Self;
    #[inline(always)]
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for Seq {
    #[inline(always)]
    fn add_assign(&mut self, bytes: u32) {
        self.0 = self.0.wrapping_add(bytes);
    }
}

impl Sub<u32> for Seq {
    type Output = Self;
    #[inline(always)]
    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_order_wraps_at_32_bits() {
        let (before, after) = (Seq(u32::MAX - 1), Seq(3));
        assert!(before.is_before(after) && !after.is_before(before) && after.is_at_most(after));
        assert_eq!((after.since(before), before.since(after), before.max(after)), (5, 0, after));
    }
}
