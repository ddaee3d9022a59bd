//! Backbone service instance tag (I-TAG, IEEE 802.1Q clause 9.7), which precedes a customer's complete frame.

/// Length of tag control information and customer addresses, in bytes. The customer's EtherType follows.
pub const SERVICE_TAG: usize = 16;

/// Control information of an I-TAG: PCP (3 bits), DEI (1 bit), UCA (1 bit), reserved (3 bits), I-SID (24 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ServiceTag(pub u32);

impl ServiceTag {
    /// The control information of the complete tag at the front of `bytes`. Returns `None` if the tag is incomplete.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let tag: &[u8; SERVICE_TAG] = bytes.first_chunk()?;
        Some(Self(u32::from_be_bytes([tag[0], tag[1], tag[2], tag[3]])))
    }

    /// A tag with this priority (0 to 7) and backbone service instance identifier. Higher bits are ignored.
    #[must_use]
    pub const fn new(priority: u8, service: u32) -> Self {
        Self((priority as u32) << 29 | service & 0x00ff_ffff)
    }

    /// Priority code point, 0 to 7.
    pub const fn priority(self) -> u8 {
        (self.0 >> 29) as u8
    }

    /// Whether the customer addresses are used (UCA).
    pub const fn uses_customer_addresses(self) -> bool {
        self.0 >> 27 & 1 != 0
    }

    /// Backbone service instance identifier (I-SID).
    pub const fn service(self) -> u32 {
        self.0 & 0x00ff_ffff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_at_the_bits_of_the_standard() {
        let tag = ServiceTag(0xa812_3456);
        assert_eq!((tag.priority(), tag.service()), (5, 0x12_3456));
        assert!(tag.uses_customer_addresses() && !ServiceTag::new(7, u32::MAX).uses_customer_addresses());
        assert_eq!(ServiceTag::new(5, 0x12_3456).0, 0xa012_3456);
        assert_eq!(ServiceTag::parse(&[1; 15]), None);
        assert_eq!(ServiceTag::parse(&[1; 16]), Some(ServiceTag(0x0101_0101)));
    }
}
