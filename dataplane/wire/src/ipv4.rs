//! IPv4 header (RFC 791 section 3.1).

use crate::checksum::Sum;

/// Length of a header without options, in bytes.
pub const IPV4_HEADER: usize = 20;

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const LOOSE_ROUTE: u8 = 131;
const STRICT_ROUTE: u8 = 137;

/// A packet with a complete IPv4 header, including options.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a> {
    header: &'a [u8; IPV4_HEADER],
    options: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// Returns `None` if version or header length is invalid. The payload may be truncated.
    pub fn new(packet: &'a [u8]) -> Option<Self> {
        let header: &[u8; IPV4_HEADER] = packet.first_chunk()?;
        let header_len = usize::from(header[0] & 15) * 4;
        let options = packet.get(IPV4_HEADER..header_len)?;
        (header[0] >> 4 == 4).then_some(Self { header, options })
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }

    /// Header length including options, in bytes.
    pub fn header_len(&self) -> usize {
        IPV4_HEADER + self.options.len()
    }

    /// Whether the checksum of the header is valid.
    pub fn is_checksum_valid(&self) -> bool {
        let mut sum = Sum::of(self.header);
        sum.add(self.options);
        sum.finish() == [0, 0]
    }

    /// Traffic class: DSCP (6 bits, RFC 2474) and ECN (2 bits).
    pub fn traffic_class(&self) -> u8 {
        self.header[1]
    }

    /// ECN field (RFC 3168): the low two bits of the second byte.
    pub fn ecn(&self) -> u8 {
        self.header[1] & 3
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

    /// Whether the packet must not be fragmented.
    pub fn dont_fragment(&self) -> bool {
        self.word(6) & 0x4000 != 0
    }

    /// Whether more fragments follow this one.
    pub fn more_fragments(&self) -> bool {
        self.word(6) & 0x2000 != 0
    }

    /// Time to live, in hops.
    pub fn ttl(&self) -> u8 {
        self.header[8]
    }

    /// Whether an option asks for a source route, loose or strict, or the options are malformed. Hosts do not forward
    /// along such routes, and replies must not follow them (RFC 7126).
    pub fn has_source_route(&self) -> bool {
        let mut rest = self.options;
        while let [kind, after @ ..] = rest {
            rest = match (*kind, after) {
                (END, _) => return false,
                (NO_OPERATION, _) => after,
                (LOOSE_ROUTE | STRICT_ROUTE, _) | (_, []) => return true,
                (_, [len, ..]) => match rest.get(usize::from(*len)..) {
                    Some(next) if *len >= 2 => next,
                    _ => return true,
                },
            };
        }
        false
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

/// Fields of an IPv4 header without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Fields {
    /// Header and payload, in bytes.
    pub total_len: u16,
    /// Identification.
    pub identification: u16,
    /// Whether routers must not fragment the packet.
    pub dont_fragment: bool,
    /// Time to live, in hops.
    pub ttl: u8,
    /// Protocol number of the payload (IANA).
    pub protocol: u8,
    /// Source address.
    pub source: core::net::Ipv4Addr,
    /// Destination address.
    pub destination: core::net::Ipv4Addr,
}

impl Ipv4Fields {
    /// The header, with its checksum and traffic class 0.
    #[must_use]
    pub fn header(&self) -> [u8; IPV4_HEADER] {
        let mut header = [0; IPV4_HEADER];
        header[0] = 0x45;
        header[2..4].copy_from_slice(&self.total_len.to_be_bytes());
        header[4..6].copy_from_slice(&self.identification.to_be_bytes());
        header[6] = if self.dont_fragment { 0x40 } else { 0 };
        (header[8], header[9]) = (self.ttl, self.protocol);
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..].copy_from_slice(&self.destination.octets());
        let sum = Sum::of(&header).finish();
        header[10..12].copy_from_slice(&sum);
        header
    }
}

/// Writes total length and identification to the header at the front of `packet`, then its checksum. Does nothing if
/// the header is invalid.
pub fn rewrite_ipv4(packet: &mut [u8], total_len: u16, identification: u16) {
    let Some(header_len) = Ipv4::new(packet).map(|view| view.header_len()) else { return };
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
        assert!(!view.is_fragment() && view.dont_fragment() && !view.more_fragments());
        assert_eq!((view.ttl(), view.ecn(), view.is_checksum_valid()), (64, 0, true));
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

    #[test]
    fn built_header_is_the_example() {
        let fields = Ipv4Fields {
            total_len: 0x73,
            identification: 0,
            dont_fragment: true,
            ttl: 64,
            protocol: 17,
            source: [192, 168, 0, 1].into(),
            destination: [192, 168, 0, 199].into(),
        };
        assert_eq!(fields.header(), HEADER);
        assert!(!Ipv4::new(&[&[0x45, 1], &HEADER[2..]].concat()).unwrap().is_checksum_valid());
    }

    #[test]
    fn source_routes_and_malformed_options_are_found() {
        let with = |options: [u8; 4]| {
            let packet = [&[0x46], &HEADER[1..], &options].concat();
            Ipv4::new(&packet).unwrap().has_source_route()
        };
        assert!(!with([1, 1, 1, 1]) && !with([0, 131, 0, 0]) && !with([148, 4, 0, 0]));
        assert!(with([1, 131, 3, 4]) && with([137, 3, 4, 0]));
        assert!(with([7, 5, 4, 0]) && with([7, 1, 4, 0]) && with([1, 1, 1, 7]), "malformed");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(view) = Ipv4::new(&bytes) {
                prop_assert!((20..=60).contains(&view.header_len()) && view.header_len() <= bytes.len());
                let _ = (view.total_len(), view.is_fragment(), view.protocol(), view.source_and_destination());
                let _ = (view.has_source_route(), view.is_checksum_valid());
            }
            let mut bytes = bytes;
            rewrite_ipv4(&mut bytes, 9, 9);
        }
    }
}
