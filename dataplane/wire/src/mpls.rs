//! MPLS label stack entry (RFC 3032 section 2.1, RFC 5462).

/// Length of an entry, in bytes.
pub const MPLS_ENTRY: usize = 4;

/// Label (20 bits), traffic class (3 bits), bottom of stack (1 bit), time to live (8 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LabelEntry(pub u32);

impl LabelEntry {
    const BOTTOM: u32 = 0x100;

    /// The bottom of a stack, with label 0 and traffic class 0.
    #[must_use]
    pub const fn bottom(ttl: u8) -> Self {
        Self(Self::BOTTOM | ttl as u32)
    }

    /// The entry at the front of `bytes`. Returns `None` if it is incomplete.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().map(|bytes| Self(u32::from_be_bytes(*bytes)))
    }

    /// Label.
    pub const fn label(self) -> u32 {
        self.0 >> 12
    }

    /// Traffic class, 0 to 7.
    pub const fn traffic_class(self) -> u8 {
        (self.0 >> 9 & 7) as u8
    }

    /// Whether this is the last entry.
    pub const fn is_bottom(self) -> bool {
        self.0 & Self::BOTTOM != 0
    }

    /// Time to live, in hops.
    pub const fn ttl(self) -> u8 {
        self.0 as u8
    }

    /// The same entry, not the last one.
    #[must_use]
    pub const fn above(self) -> Self {
        Self(self.0 & !Self::BOTTOM)
    }

    /// The bytes of the entry.
    pub const fn header(self) -> [u8; MPLS_ENTRY] {
        self.0.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_at_the_bits_of_the_rfc() {
        let entry = LabelEntry::parse(&[0x12, 0x34, 0x5b, 64, 9]).unwrap();
        assert_eq!((entry.label(), entry.traffic_class(), entry.ttl()), (0x12345, 5, 64));
        assert!(entry.is_bottom() && !entry.above().is_bottom());
        assert_eq!(entry.above().header(), [0x12, 0x34, 0x5a, 64]);
        assert_eq!(LabelEntry::bottom(7).header(), [0, 0, 1, 7]);
        assert_eq!(LabelEntry::parse(&[0; 3]), None);
    }
}
