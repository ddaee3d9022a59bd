//! Positions in packed rings.

/// A position in a packed ring: 15-bit index and 1-bit wrap counter, as in the event fields (VIRTIO 1.2 section
/// 2.8.10). Stored as 32 bits: a 32-bit load after a 16-bit store to the same field fails store forwarding and stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(pub(super) u32);

pub(super) const WRAP: u32 = 1 << 15;

impl Place {
    /// First entry, first lap.
    pub(crate) const START: Self = Self(WRAP);

    /// Decodes 15 bits of index and one of wrap counter.
    pub(crate) fn decode(word: u16) -> Self {
        Self(word.into())
    }

    /// Encodes 15 bits of index and one of wrap counter.
    pub(crate) fn encode(self) -> u16 {
        self.0 as u16
    }

    /// Entry index.
    #[inline(always)]
    pub(crate) fn at(self) -> usize {
        (self.0 & !WRAP) as usize
    }

    /// Wrap counter.
    #[inline(always)]
    pub(crate) fn wrap(self) -> bool {
        self.0 & WRAP != 0
    }

    /// Position `n` entries later in a ring of `size`; `n <= size`.
    #[inline(always)]
    pub(crate) fn advance(self, n: u32, size: u32) -> Self {
        let next = (self.0 & !WRAP) + n;
        if next >= size {
            return Self((self.0 & WRAP ^ WRAP) | (next - size));
        }
        Self(self.0 + n)
    }

    /// The same entry on the lap before or after.
    pub(super) fn on_other_lap(self) -> Self {
        Self(self.0 ^ WRAP)
    }

    /// Entries from `self` to `to`, at most one lap, in a ring of `size`.
    #[inline(always)]
    pub(crate) fn distance(self, to: Place, size: u32) -> u32 {
        let lap = if to.wrap() == self.wrap() { 0 } else { size };
        (to.0 & !WRAP) + lap - (self.0 & !WRAP)
    }

    /// Position `n` entries earlier in a ring of `size`; `n <= size`.
    pub(super) fn retreat(self, n: u32, size: u32) -> Self {
        let at = self.0 & !WRAP;
        if n > at {
            return Self((self.0 & WRAP ^ WRAP) | (at + size - n));
        }
        Self(self.0 - n)
    }

    /// Whether moving from `old` to `self` passes the other side's `event` position, which requires a notification
    /// (VIRTIO 1.2 section 2.8.10.1: positions of an earlier lap count as one ring size less).
    pub(crate) fn crossed(self, event: Place, old: Place, size: u32) -> bool {
        let lap = |p: Place| if p.wrap() == self.wrap() { 0 } else { size };
        let relative = |p: Place| (p.0 & !WRAP).wrapping_sub(lap(p));
        let (new, event, old) = (relative(self), relative(event), relative(old));
        new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
    }
}
