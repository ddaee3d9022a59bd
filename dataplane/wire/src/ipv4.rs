//! IPv4 header (RFC 791 section 3.1).

use crate::checksum::Sum;

/// Length of a header without options, in bytes.
pub const IPV4_HEADER: usize = 20;

/// A packet with a complete IPv4 header, including options.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a> {
    header: &'a [u8; IPV4_HEADER],
    header_len: usize,
}

impl<'a> Ipv4<'a> {
    /// Returns `None` if version or header length is invalid. The payload may be truncated.
    pub fn new(packet: &'a [u8]) -> Option<Self> {
        let header: &[u8; IPV4_HEADER] = packet.first_chunk()?;
        let header_len = usize::from(header[0] & 15) * 4;
        let fits = (IPV4_HEADER..=packet.len()).contains(&header_len);
        (header[0] >> 4 == 4 && fits).then_some(Self { header, header_len })
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }

    /// Header length including options, in bytes.
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// Total length field: header and payload, in bytes.
    pub fn total_len(&self) -> u16 {
        self.word(2)
    }

    /// Identification field, common to all fragments of a packet.
    pub fn identification(&self) -> u16 {
        self.word(4)
    }

    /// Whether the packet is a fragment, first or later.
    pub fn is_fragment(&self) -> bool {
        self.word(6) & 0x3fff != 0
    }

    /// Fragment offset in units of eight bytes; 0 for an unfragmented packet or the first fragment.
    pub fn fragment_offset(&self) -> u16 {
        self.word(6) & 0x1fff
    }

    /// Protocol number of the payload (IANA).
    pub fn protocol(&self) -> u8 {
        self.header[9]
    }

    /// Source and destination address, as in the header.
    pub fn addresses(&self) -> &'a [u8; 8] {
        // The header has 20 bytes, so its last eight exist.
        self.header.last_chunk().unwrap_or(&[0; 8])
    }

    /// Source and destination address.
    pub fn source_and_destination(&self) -> (core::net::Ipv4Addr, core::net::Ipv4Addr) {
        let half = |at: usize| self.addresses()[at..].first_chunk::<4>().copied().unwrap_or_default();
        (half(0).into(), half(4).into())
    }
}

/// Writes total length and identification to the header at the front of `packet`, then its checksum. Does nothing if
/// the header is invalid.
pub fn rewrite_ipv4(packet: &mut [u8], total_len: u16, identification: u16) {
    let Some(header_len) = Ipv4::new(packet).map(|view| view.header_len) else { return };
    packet[2..4].copy_from_slice(&total_len.to_be_bytes());
    packet[4..6].copy_from_slice(&identification.to_be_bytes());
    packet[10..12].fill(0);
    let sum = Sum::of(&packet[..header_len]).finish();
    packet[10..12].copy_from_slice(&sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;

    /// A widely published example header.
    const HEADER: [u8; 20] =
        [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];

    #[test]
    fn a_header_is_read() {
        let view = Ipv4::new(&HEADER).unwrap();
        assert_eq!((view.header_len(), view.total_len(), view.protocol()), (20, 0x73, 17));
        assert!(!view.is_fragment());
        let (source, destination) = view.source_and_destination();
        assert_eq!(
            (source.to_string(), destination.to_string()),
            ("192.168.0.1".into(), "192.168.0.199".into())
        );
    }

    #[test]
    fn rewritten_header_has_a_valid_checksum() {
        let mut header = HEADER;
        rewrite_ipv4(&mut header, 0x73, 0);
        assert_eq!(header, HEADER);
        rewrite_ipv4(&mut header, 0x74, 0);
        assert_eq!(header[10..12], [0xb8, 0x60]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(view) = Ipv4::new(&bytes) {
                prop_assert!((20..=60).contains(&view.header_len()) && view.header_len() <= bytes.len());
                let _ = (view.total_len(), view.is_fragment(), view.protocol(), view.source_and_destination());
            }
            let mut bytes = bytes;
            rewrite_ipv4(&mut bytes, 9, 9);
        }
    }
}
