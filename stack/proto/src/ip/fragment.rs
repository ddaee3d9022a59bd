//! Fragmentation of packets to send (RFC 791 section 2.3, RFC 8200 section 4.5), and the identification of fragments.
//!
//! Payload is not copied: a fragment is a range of the transport header and ranges of the packet's slices.

use crate::{Address, Payload, Slice};
use core::hash::Hasher;
use core::ops::Range;
use siphasher::sip::SipHasher13;
use wire::FRAGMENT_HEADER;

/// A fragment of a packet to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Offset in the fragmented part in bytes, a multiple of eight.
    pub(crate) offset: u16,
    /// Whether fragments follow.
    pub(crate) more: bool,
    /// Bytes of the transport header, which come first.
    pub(crate) header: Range<usize>,
    /// Bytes of the payload.
    pub(crate) payload: Range<usize>,
}

impl Part {
    /// Bytes after the IP header, or after the fragment header of IPv6.
    pub(crate) fn len(&self) -> usize {
        self.header.len() + self.payload.len()
    }
}

/// The fragments of a packet with `header` bytes of transport header and `payload` bytes of payload, at most 65535
/// together. `room` is the space for a fragment in bytes: the path MTU without the IP header, and for IPv6 without the
/// fragment header. Returns `None` if there is no room for eight bytes.
pub(crate) fn parts(header: usize, payload: usize, room: usize) -> Option<impl Iterator<Item = Part>> {
    let (total, step) = (header + payload, room & !7);
    let part = move |start: usize| {
        let end = if total - start <= room { total } else { start + step };
        Part {
            offset: start as u16,
            more: end < total,
            header: start.min(header)..end.min(header),
            payload: start.max(header) - header..end.max(header) - header,
        }
    };
    // The last step is left out if the bytes after it fit into the fragment before it.
    let starts = (0..total.max(1))
        .step_by(step.max(1))
        .take_while(move |start| *start == 0 || total - (start - step) > room);
    (step > 0 && u16::try_from(total).is_ok()).then(|| starts.map(part))
}

/// The slices of a range of a payload.
pub(crate) fn slices<P: Payload>(all: &[Slice<P>], range: Range<usize>) -> impl Iterator<Item = Slice<P>> {
    let mut before = 0;
    all.iter().filter_map(move |slice| {
        let offset = before;
        before += slice.len();
        let (start, end) = (range.start.max(offset), range.end.min(before));
        (start < end).then(|| {
            let mut part = slice.clone();
            part.narrow(start - offset..end - offset);
            part
        })
    })
}

/// Makes the IPv4 header at the front of `header` that of a fragment with `len` bytes of payload. Does nothing if the
/// header is invalid.
pub(crate) fn set_ipv4_fragment(header: &mut [u8], part: &Part, identification: u16) {
    let Some(header_len) = wire::Ipv4::new(header).map(|view| view.header_len()) else { return };
    let field = part.offset >> 3 | u16::from(part.more) << 13;
    let Some(field_bytes) = header.get_mut(6..8) else { return };
    field_bytes.copy_from_slice(&field.to_be_bytes());
    wire::rewrite_ipv4(header, (header_len + part.len()) as u16, identification);
}

/// Makes the IPv6 header at the front of `header` that of a fragment, and returns the fragment header to be placed
/// behind it.
pub(crate) fn set_ipv6_fragment(
    header: &mut [u8; wire::IPV6_HEADER],
    part: &Part,
    identification: u32,
) -> [u8; FRAGMENT_HEADER] {
    const FRAGMENT: u8 = 44;
    let next = core::mem::replace(&mut header[6], FRAGMENT);
    header[4..6].copy_from_slice(&((FRAGMENT_HEADER + part.len()) as u16).to_be_bytes());
    wire::ipv6_fragment_header(next, part.offset, part.more, identification)
}

/// Counters of [`Identifications`].
const COUNTERS: usize = 256;

/// Identifications of fragmented packets: unique for a time between two addresses, and not predictable for others (RFC
/// 7739 section 5.3).
pub(crate) struct Identifications {
    keyed: SipHasher13,
    counters: [u32; COUNTERS],
}

impl Identifications {
    /// `secret` is that of the configuration.
    pub(crate) fn new(secret: &[u8; 16]) -> Self {
        let mut keyed = SipHasher13::new_with_key(secret);
        keyed.write(b"identification");
        Self { keyed, counters: [0; COUNTERS] }
    }

    /// Next identification; IPv4 uses the low 16 bits.
    pub(crate) fn next(&mut self, source: Address, destination: Address, protocol: u8) -> u32 {
        let mut hasher = self.keyed;
        hasher.write(source.octets());
        hasher.write(destination.octets());
        hasher.write_u8(protocol);
        let hash = hasher.finish();
        let counter = &mut self.counters[(hash >> 32) as usize % COUNTERS];
        *counter = counter.wrapping_add(1);
        counter.wrapping_add(hash as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::InterfaceId;
    use crate::ip::reassembly::{Fragment, Reassembled, Reassembly};
    use crate::{Counters, Limits, Time};
    use proptest::prelude::*;
    use std::prelude::v1::*;
    use std::sync::Arc;
    use std::vec;

    type Bytes = Arc<[u8]>;

    fn ip_header(is_v4: bool) -> Vec<u8> {
        if is_v4 {
            return vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        }
        [&[0x60, 0, 0, 0, 0, 0, 17, 64][..], &[0xfd; 16], &[0xfe; 16]].concat()
    }

    /// A frame of a part, without Ethernet header.
    fn packet(is_v4: bool, part: &Part, header: &[u8], payload: &[Slice<Bytes>], id: u32) -> Vec<u8> {
        let mut packet = ip_header(is_v4);
        if is_v4 {
            set_ipv4_fragment(&mut packet, part, id as u16);
        } else {
            let fragment = set_ipv6_fragment(packet.first_chunk_mut().unwrap(), part, id);
            packet.extend(fragment);
        }
        packet.extend(&header[part.header.clone()]);
        for slice in slices(payload, part.payload.clone()) {
            packet.extend(slice.to_vec());
        }
        packet
    }

    #[test]
    fn packets_that_fit_are_one_part_and_small_rooms_have_none() {
        let one = |header, payload, room| parts(header, payload, room).unwrap().count();
        assert_eq!((one(8, 12, 20), one(8, 13, 20), one(8, 0, 20), one(0, 0, 20)), (1, 2, 1, 1));
        assert!(parts(8, 100, 7).is_none() && parts(8, 65_528, 100).is_none());
        let last = parts(8, 26, 20).unwrap().last();
        assert_eq!(last, Some(Part { offset: 16, more: false, header: 8..8, payload: 8..26 }));
    }

    #[test]
    fn identifications_of_one_pair_differ_and_pairs_are_independent() {
        let mut ids = Identifications::new(&[5; 16]);
        let (a, b) = (Address::v4([10, 0, 0, 1]), Address::v4([10, 0, 0, 2]));
        let first = ids.next(a, b, 17);
        assert!((0..1000).all(|_| ids.next(a, b, 17) != first));
        assert_ne!(ids.next(a, b, 17).wrapping_sub(first), ids.next(b, a, 17).wrapping_sub(first));
    }

    proptest! {
        #[test]
        fn parts_are_reassembled_to_the_packet(
            cuts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 0..8),
            header in prop::collection::vec(any::<u8>(), 20..64),
            room in 20usize..600,
            is_v4: bool,
        ) {
            let cut: Vec<_> = cuts.iter().map(|bytes| Slice::new(Bytes::copy_of(bytes))).collect();
            let payload = cuts.concat();
            let mut held = Reassembly::new(&Limits { fragments: 1000, ..Limits::default() });
            let mut result = None;
            for part in parts(header.len(), payload.len(), room).unwrap() {
                prop_assert!(result.is_none() && part.len() <= room);
                let bytes = packet(is_v4, &part, &header, &cut, 77);
                let Some(fragment) = Fragment::new(InterfaceId(0), &bytes, 0) else {
                    prop_assert!(is_v4 && header.len() + payload.len() <= room);
                    result = Some(bytes);
                    continue;
                };
                let copy = |to: &mut [u8]| to.copy_from_slice(&bytes[fragment.payload()]);
                match held.receive(&fragment, copy, Time(0), &mut Counters::default()) {
                    Reassembled::Complete(whole) => result = Some(whole),
                    other => prop_assert_eq!(other, Reassembled::Pending),
                }
            }
            let whole = result.expect("complete");
            prop_assert_eq!(&whole[if is_v4 { 20 } else { 40 }..], [&header[..], &payload].concat());
        }
    }
}
