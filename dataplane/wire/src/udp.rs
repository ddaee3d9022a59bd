//! UDP header (RFC 768).

/// Length of the header, in bytes.
pub const UDP_HEADER: usize = 8;

/// A complete UDP header.
#[derive(Clone, Copy, Debug)]
pub struct Udp<'a> {
    header: &'a [u8; UDP_HEADER],
}

impl<'a> Udp<'a> {
    /// Returns `None` if the header is incomplete or its length field is below the length of the header. The payload
    /// may be truncated.
    pub fn new(datagram: &'a [u8]) -> Option<Self> {
        let view = Self { header: datagram.first_chunk()? };
        (usize::from(view.len()) >= UDP_HEADER).then_some(view)
    }

    fn word(self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }

    /// Source port.
    pub fn source_port(self) -> u16 {
        self.word(0)
    }

    /// Destination port.
    pub fn destination_port(self) -> u16 {
        self.word(2)
    }

    /// Length of header and payload in bytes, at least [`UDP_HEADER`].
    #[expect(clippy::len_without_is_empty, reason = "the header is part of the length")]
    pub fn len(self) -> u16 {
        self.word(4)
    }

    /// Whether the sender computed a checksum (not zero).
    pub fn has_checksum(self) -> bool {
        self.word(6) != 0
    }
}

/// A header with these ports, length of header and payload, and checksum in network byte order.
pub const fn udp_header(source: u16, destination: u16, len: u16, checksum: [u8; 2]) -> [u8; UDP_HEADER] {
    let (s, d, l) = (source.to_be_bytes(), destination.to_be_bytes(), len.to_be_bytes());
    [s[0], s[1], d[0], d[1], l[0], l[1], checksum[0], checksum[1]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;

    #[test]
    fn short_headers_are_rejected() {
        assert!(Udp::new(&udp_header(1, 2, 7, [0, 0])).is_none());
        assert!(Udp::new(&udp_header(1, 2, 8, [0, 0])[..7]).is_none());
    }

    proptest! {
        #[test]
        fn a_written_header_is_read_back(source: u16, destination: u16, len in 8u16.., sum: [u8; 2]) {
            let bytes = udp_header(source, destination, len, sum);
            let view = Udp::new(&bytes).unwrap();
            prop_assert_eq!((view.source_port(), view.destination_port()), (source, destination));
            prop_assert_eq!((view.len(), view.has_checksum()), (len, sum != [0, 0]));
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Some(view) = Udp::new(&bytes) {
                prop_assert!(view.len() >= 8);
            }
        }
    }
}
