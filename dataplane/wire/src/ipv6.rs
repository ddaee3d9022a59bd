//! IPv6 header (RFC 8200 section 3) and extension headers.

/// Length of the fixed header, in bytes.
pub const IPV6_HEADER: usize = 40;

/// Maximum number of extension headers parsed; real packets have at most a few.
const MAX_EXTENSIONS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// A packet with a complete fixed IPv6 header.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<'a> {
    header: &'a [u8; IPV6_HEADER],
    after: &'a [u8],
}

/// Upper layer after the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// Protocol number (IANA).
    pub protocol: u8,
    /// Offset from the fixed header, in bytes.
    pub at: usize,
    /// Whether a fragment header precedes it.
    pub is_fragment: bool,
    /// Whether the packet is a fragment other than the first: `at` is then the offset of the fragment's payload, not of
    /// a header.
    pub continues: bool,
    /// Identification of the fragment header; 0 without one.
    pub identification: u32,
}

impl<'a> Ipv6<'a> {
    /// Returns `None` if the fixed header is incomplete or the version is not 6. The payload may be truncated.
    pub fn new(packet: &'a [u8]) -> Option<Self> {
        let (header, after) = packet.split_first_chunk::<IPV6_HEADER>()?;
        (header[0] >> 4 == 6).then_some(Self { header, after })
    }

    /// Payload length field: bytes after the fixed header.
    pub fn payload_len(&self) -> u16 {
        u16::from_be_bytes([self.header[4], self.header[5]])
    }

    /// Traffic class: DSCP (6 bits, RFC 2474) and ECN (2 bits).
    pub fn traffic_class(&self) -> u8 {
        self.header[0] << 4 | self.header[1] >> 4
    }

    /// Flow label (RFC 6437), 20 bits.
    pub fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.header[1] & 15, self.header[2], self.header[3]])
    }

    /// ECN field (RFC 3168): the low two bits of the traffic class.
    pub fn ecn(&self) -> u8 {
        self.header[1] >> 4 & 3
    }

    /// Protocol number of what follows: an extension header or the payload.
    pub fn next_header(&self) -> u8 {
        self.header[6]
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.header[7]
    }

    /// Source and destination address, as in the header.
    pub fn addresses(&self) -> &'a [u8; 32] {
        // The header has 40 bytes, so its last 32 exist.
        self.header.last_chunk().unwrap_or(&[0; 32])
    }

    /// Source and destination address.
    pub fn source_and_destination(&self) -> (core::net::Ipv6Addr, core::net::Ipv6Addr) {
        let half = |at: usize| self.addresses()[at..].first_chunk::<16>().copied().unwrap_or_default();
        (half(0).into(), half(16).into())
    }

    /// Parses the extension headers. Returns `None` if they are truncated or too many.
    pub fn upper_layer(&self) -> Option<UpperLayer> {
        let (mut protocol, mut at, mut is_fragment, mut continues) = (self.header[6], 0, false, false);
        let mut identification = 0;
        for _ in 0..MAX_EXTENSIONS {
            let len = match protocol {
                HOP_BY_HOP | ROUTING | DESTINATION if !continues => {
                    8 + usize::from(*self.after.get(at + 1)?) * 8
                }
                FRAGMENT if !continues => 8,
                _ => {
                    let at = IPV6_HEADER + at;
                    return Some(UpperLayer { protocol, at, is_fragment, continues, identification });
                }
            };
            if protocol == FRAGMENT {
                is_fragment = true;
                let header = crate::Ipv6Fragment::new(self.after.get(at..)?)?;
                (continues, identification) = (header.offset() != 0, header.identification());
            }
            protocol = *self.after.get(at)?;
            at += len;
        }
        None
    }

    /// Extension headers before a fragment header or the upper layer: protocol number, offset from the fixed header and
    /// bytes. Ends at the first truncated one.
    fn extensions(&self) -> impl Iterator<Item = (u8, usize, &'a [u8])> {
        let (after, mut protocol, mut at) = (self.after, self.header[6], 0);
        let next = move || {
            if !matches!(protocol, HOP_BY_HOP | ROUTING | DESTINATION) {
                return None;
            }
            let rest = after.get(at..)?;
            let header = rest.get(..8 + usize::from(*rest.get(1)?) * 8)?;
            let found = (protocol, IPV6_HEADER + at, header);
            (protocol, at) = (*header.first()?, at + header.len());
            Some(found)
        };
        core::iter::from_fn(next).take(MAX_EXTENSIONS)
    }

    /// Whether the destination must discard the packet because of an extension header: a route with segments left, or
    /// an option that it does not know and whose type says so (RFC 8200 sections 4.2 and 4.4).
    pub fn must_discard(&self) -> bool {
        self.extensions().any(|(protocol, _, header)| match protocol {
            ROUTING => header.get(3).is_none_or(|segments| *segments != 0),
            _ => has_critical_option(header.get(2..).unwrap_or_default()),
        })
    }

    /// Offset of the field that holds the protocol number of the upper layer, for a packet without fragment header.
    pub fn protocol_at(&self) -> usize {
        self.extensions().last().map_or(6, |(_, at, _)| at)
    }
}

/// Whether an option has a type whose high bits ask for the packet to be discarded, or the options are malformed. No
/// such option is supported.
fn has_critical_option(mut options: &[u8]) -> bool {
    while let [kind, after @ ..] = options {
        options = match (kind, after) {
            (0, _) => after,
            (1..0x40, [len, data @ ..]) if usize::from(*len) <= data.len() => &data[usize::from(*len)..],
            _ => return true,
        };
    }
    false
}

/// An IPv6 header with traffic class and flow label 0.
#[must_use]
pub fn ipv6_header(
    payload_len: u16,
    next_header: u8,
    hop_limit: u8,
    source: core::net::Ipv6Addr,
    destination: core::net::Ipv6Addr,
) -> [u8; IPV6_HEADER] {
    let mut header = [0; IPV6_HEADER];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&payload_len.to_be_bytes());
    (header[6], header[7]) = (next_header, hop_limit);
    header[8..24].copy_from_slice(&source.octets());
    header[24..].copy_from_slice(&destination.octets());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;
    use std::vec;

    fn packet(next: u8, after: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, after.len() as u8, next, 64];
        packet.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        packet.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        packet.extend(after);
        packet
    }

    #[test]
    fn payload_follows_a_header_without_extensions() {
        let bytes = packet(6, &[0; 20]);
        let view = Ipv6::new(&bytes).unwrap();
        assert_eq!(
            view.upper_layer(),
            Some(UpperLayer { protocol: 6, at: 40, is_fragment: false, continues: false, identification: 0 })
        );
        assert_eq!(view.payload_len(), 20);
        assert_eq!(view.source_and_destination().1.to_string(), "fe80::2");
    }

    #[test]
    fn extension_headers_are_skipped() {
        let mut after = vec![FRAGMENT, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        after.extend([17, 0, 0, 0, 0, 0, 0, 0]);
        let bytes = packet(HOP_BY_HOP, &after);
        let upper = Ipv6::new(&bytes).unwrap().upper_layer();
        let expected =
            UpperLayer { protocol: 17, at: 64, is_fragment: true, continues: false, identification: 0 };
        assert_eq!(upper, Some(expected));
        assert_eq!(Ipv6::new(&bytes[..41]).unwrap().upper_layer(), None, "cut off");
    }

    #[test]
    fn a_later_fragment_has_no_header_of_its_upper_layer() {
        let bytes = packet(FRAGMENT, &[DESTINATION, 0, 0, 8, 0, 0, 1, 7, 17, 0, 0, 0, 0, 0, 0, 0]);
        let upper = Ipv6::new(&bytes).unwrap().upper_layer();
        let (at, identification) = (48, 0x107);
        let expected =
            UpperLayer { protocol: DESTINATION, at, is_fragment: true, continues: true, identification };
        assert_eq!(upper, Some(expected));
    }

    #[test]
    fn built_header_is_parsed() {
        let ends = ["fe80::1", "fe80::2"].map(|text| text.parse().unwrap());
        let bytes = ipv6_header(9, 17, 255, ends[0], ends[1]);
        let view = Ipv6::new(&bytes).unwrap();
        assert_eq!((view.payload_len(), view.next_header(), view.hop_limit()), (9, 17, 255));
        assert_eq!((view.source_and_destination(), view.ecn()), ((ends[0], ends[1]), 0));
    }

    #[test]
    fn routes_with_segments_and_unknown_critical_options_are_refused() {
        let refused = |next, after: [u8; 8]| Ipv6::new(&packet(next, &after)).unwrap().must_discard();
        assert!(!refused(ROUTING, [6, 0, 0, 0, 0, 0, 0, 0]) && refused(ROUTING, [6, 0, 0, 1, 0, 0, 0, 0]));
        assert!(!refused(DESTINATION, [6, 0, 0x1e, 2, 0, 0, 0, 0]), "skip and continue");
        assert!(!refused(HOP_BY_HOP, [6, 0, 5, 2, 0, 0, 1, 0]), "router alert");
        assert!(refused(HOP_BY_HOP, [6, 0, 0xc2, 4, 0, 1, 0, 0]), "jumbo payload");
        assert!(refused(DESTINATION, [6, 0, 1, 5, 0, 0, 0, 0]), "too long");
        assert!(!refused(6, [0xff; 8]));
        let bytes = packet(DESTINATION, &[99, 0, 1, 4, 0, 0, 0, 0]);
        assert_eq!(Ipv6::new(&bytes).unwrap().protocol_at(), 40);
        assert_eq!(Ipv6::new(&packet(99, &[])).unwrap().protocol_at(), 6);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(prop_oneof![Just(0x60_u8), Just(0), Just(60), any::<u8>()], 0..120)) {
            if let Some(view) = Ipv6::new(&bytes) {
                let _ = (view.payload_len(), view.source_and_destination());
                let _ = (view.must_discard(), view.protocol_at());
                if let Some(upper) = view.upper_layer() {
                    prop_assert!(upper.at >= IPV6_HEADER);
                }
            }
        }
    }
}
