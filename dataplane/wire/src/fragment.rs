//! Fragment header of IPv6 (RFC 8200 section 4.5).

/// Length of the header, in bytes.
pub const FRAGMENT_HEADER: usize = 8;

/// A complete fragment header.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Fragment<'a>(&'a [u8; FRAGMENT_HEADER]);

impl<'a> Ipv6Fragment<'a> {
    /// Returns `None` if the header is incomplete. `header` starts at its next-header field.
    pub fn new(header: &'a [u8]) -> Option<Self> {
        header.first_chunk().map(Self)
    }

    fn offset_and_flags(self) -> u16 {
        u16::from_be_bytes([self.0[2], self.0[3]])
    }

    /// Protocol of the fragmented part (IANA); that of the first fragment is valid for the packet.
    pub fn next_header(self) -> u8 {
        self.0[0]
    }

    /// Offset of the fragment's payload in the fragmented part in bytes, a multiple of eight.
    pub fn offset(self) -> u16 {
        self.offset_and_flags() & 0xfff8
    }

    /// Whether fragments follow.
    pub fn more_fragments(self) -> bool {
        self.offset_and_flags() & 1 != 0
    }

    /// Identification, common to all fragments of a packet.
    pub fn identification(self) -> u32 {
        let [.., a, b, c, d] = *self.0;
        u32::from_be_bytes([a, b, c, d])
    }
}

/// A fragment header. `offset` in bytes; its low three bits are ignored.
pub fn ipv6_fragment_header(
    next_header: u8,
    offset: u16,
    more_fragments: bool,
    identification: u32,
) -> [u8; FRAGMENT_HEADER] {
    let [high, low] = (offset & 0xfff8 | u16::from(more_fragments)).to_be_bytes();
    let [a, b, c, d] = identification.to_be_bytes();
    [next_header, 0, high, low, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;

    proptest! {
        #[test]
        fn a_written_header_is_read_back(next: u8, units in 0u16..8192, more: bool, id: u32) {
            let bytes = ipv6_fragment_header(next, units * 8, more, id);
            let view = Ipv6Fragment::new(&bytes).unwrap();
            prop_assert_eq!((view.next_header(), view.offset()), (next, units * 8));
            prop_assert_eq!((view.more_fragments(), view.identification()), (more, id));
            prop_assert!(Ipv6Fragment::new(&bytes[..7]).is_none());
        }
    }
}
