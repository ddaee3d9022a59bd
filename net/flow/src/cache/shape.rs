//! Shapes: the common layouts of the first bytes of a frame, each with the bytes that decide what happens to it.
//!
//! A frame has a shape if its headers lie at fixed offsets and are complete. Two frames of one shape that agree in the
//! bytes of its mask then have the same [`crate::Key`], except for the fields that the mask leaves out: time to live,
//! lengths, checksums and the control bits of TCP. All other frames have no shape and are looked up by their key.

use wire::checksum::protocol;

/// Layout of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// IPv4 without options or fragments, with TCP, UDP or SCTP.
    V4,
    /// IPv4 as above, with ICMP.
    V4Icmp,
    /// [`Shape::V4`] behind one VLAN tag.
    V4Tagged,
    /// IPv6 without extension headers, with TCP, UDP or SCTP.
    V6,
    /// [`Shape::V6`] behind one VLAN tag.
    V6Tagged,
}

/// Words that are compared, for each group of shapes.
pub(crate) const V4_WORDS: usize = 5;
/// See [`V4_WORDS`].
pub(crate) const V4_TAGGED_WORDS: usize = 6;
/// See [`V4_WORDS`].
pub(crate) const V6_WORDS: usize = 8;

const ETHERNET: usize = 14;
const TAG: usize = 4;
const V4: usize = 20;
const V6: usize = 40;

impl Shape {
    /// All shapes, in the order of their numbers.
    pub(crate) const ALL: [Self; 5] = [Self::V4, Self::V4Icmp, Self::V4Tagged, Self::V6, Self::V6Tagged];

    /// Shape of a frame of `len` bytes that starts with `head`. Returns `None` if it has none.
    #[inline(always)]
    pub(crate) fn of(head: &[u8], len: usize) -> Option<Self> {
        match be16(head, 12)? {
            0x0800 => v4(head, len, ETHERNET),
            0x86dd => v6(head, len, ETHERNET).then_some(Self::V6),
            0x8100 => tagged(head, len),
            _ => None,
        }
    }

    /// Offset of the IP header.
    pub(crate) const fn network(self) -> usize {
        match self {
            Self::V4 | Self::V4Icmp | Self::V6 => ETHERNET,
            Self::V4Tagged | Self::V6Tagged => ETHERNET + TAG,
        }
    }

    /// Offset of the time to live or hop limit.
    pub(crate) const fn ttl(self) -> usize {
        self.network()
            + match self {
                Self::V4 | Self::V4Icmp | Self::V4Tagged => 8,
                Self::V6 | Self::V6Tagged => 7,
            }
    }

    /// Mask over the first `N` words, with or without the time to live.
    pub(crate) const fn mask<const N: usize>(self, compares_ttl: bool) -> [u64; N] {
        let ttl = if compares_ttl { self.ttl() } else { 0 };
        match self {
            // Version to type of service, fragment bits, protocol, addresses, ports.
            Self::V4 => mask(&[(0, 16), (20, 22), (23, 24), (26, 38), (ttl, ttl + 1)]),
            Self::V4Icmp => mask(&[(0, 16), (20, 22), (23, 24), (26, 36), (ttl, ttl + 1)]),
            Self::V4Tagged => mask(&[(0, 20), (24, 26), (27, 28), (30, 42), (ttl, ttl + 1)]),
            // Version to flow label, next header, addresses, ports.
            Self::V6 => mask(&[(0, 18), (20, 21), (22, 58), (ttl, ttl + 1)]),
            Self::V6Tagged => mask(&[(0, 22), (24, 25), (26, 62), (ttl, ttl + 1)]),
        }
    }

    /// Mask over the bytes of the first `N` words that decide the shape, together with the [`Extent`].
    pub(crate) const fn outline<const N: usize>(self) -> [u64; N] {
        match self {
            // EtherTypes, version, length, fragment bits, protocol.
            Self::V4 | Self::V4Icmp => mask(&[(12, 15), (16, 18), (20, 22), (23, 24)]),
            Self::V4Tagged => mask(&[(12, 14), (16, 19), (20, 22), (24, 26), (27, 28)]),
            // EtherTypes, version, length, next header.
            Self::V6 => mask(&[(12, 15), (18, 21)]),
            Self::V6Tagged => mask(&[(12, 14), (16, 19), (22, 25)]),
        }
    }

    /// Offsets of the number of the transport protocol, and of TCP's data offset.
    const fn transport(self) -> (usize, usize) {
        match self {
            Self::V4 | Self::V4Icmp => (ETHERNET + 9, ETHERNET + V4 + 12),
            Self::V4Tagged => (ETHERNET + TAG + 9, ETHERNET + TAG + V4 + 12),
            Self::V6 => (ETHERNET + 6, ETHERNET + V6 + 12),
            Self::V6Tagged => (ETHERNET + TAG + 6, ETHERNET + TAG + V6 + 12),
        }
    }
}

/// Properties of a frame that determine its shape, besides the bytes of [`Shape::outline`]: frames that agree in both
/// have one shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    len: usize,
    head: usize,
    /// Byte with TCP's data offset; 0 for other protocols.
    offset: u8,
}

impl Extent {
    /// Extent of a frame of this shape.
    #[inline(always)]
    pub(crate) fn of(shape: Shape, head: &[u8], len: usize) -> Self {
        let (number, offset) = shape.transport();
        let is_tcp = head.get(number) == Some(&protocol::TCP);
        let offset = head.get(offset).copied().filter(|_| is_tcp).unwrap_or_default();
        Self { len, head: head.len(), offset }
    }

    /// Whether a frame that agrees in the outline has this extent.
    #[inline(always)]
    pub(crate) fn is_of(&self, shape: Shape, head: &[u8], len: usize) -> bool {
        let is_same = || head.get(shape.transport().1) == Some(&self.offset);
        len == self.len && head.len() == self.head && (self.offset == 0 || is_same())
    }
}

#[inline(always)]
fn be16(head: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*head.get(at..)?.first_chunk()?))
}

#[inline(always)]
fn tagged(head: &[u8], len: usize) -> Option<Shape> {
    match be16(head, 16)? {
        0x0800 => v4(head, len, ETHERNET + TAG).filter(|shape| *shape == Shape::V4).map(|_| Shape::V4Tagged),
        0x86dd => v6(head, len, ETHERNET + TAG).then_some(Shape::V6Tagged),
        _ => None,
    }
}

/// Whether a transport header at `at`, in a packet with `size` bytes from there on, is complete and in the head.
#[inline(always)]
fn has_transport(head: &[u8], at: usize, size: usize, number: u8) -> bool {
    let least = match number {
        protocol::TCP => 20,
        protocol::UDP | protocol::ICMP => 8,
        protocol::SCTP => 12,
        _ => return false,
    };
    if size < least || head.len() < at + least {
        return false;
    }
    // The data offset, which counts words.
    number != protocol::TCP || (least..=size).contains(&(usize::from(head[at + 12] >> 4) * 4))
}

#[inline(always)]
fn v4(head: &[u8], len: usize, at: usize) -> Option<Shape> {
    let header: &[u8; V4] = head.get(at..)?.first_chunk()?;
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] != 0x45 || is_fragment || total < V4 || at + total > len {
        return None;
    }
    let is_complete = has_transport(head, at + V4, total - V4, header[9]);
    is_complete.then_some(if header[9] == protocol::ICMP { Shape::V4Icmp } else { Shape::V4 })
}

#[inline(always)]
fn v6(head: &[u8], len: usize, at: usize) -> bool {
    let Some(header) = head.get(at..).and_then(|packet| packet.first_chunk::<V6>()) else { return false };
    let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let is_usual = header[0] >> 4 == 6 && header[6] != protocol::ICMP;
    is_usual && at + V6 + payload <= len && has_transport(head, at + V6, payload, header[6])
}

/// Mask over the bytes of `ranges`, each from a first to the byte before a last one.
const fn mask<const N: usize>(ranges: &[(usize, usize)]) -> [u64; N] {
    let (mut words, mut r) = ([0; N], 0);
    while r < ranges.len() {
        let mut at = ranges[r].0;
        while at < ranges[r].1 {
            let mut bytes = [0; 8];
            bytes[at % 8] = 0xff;
            words[at / 8] |= u64::from_ne_bytes(bytes);
            at += 1;
        }
        r += 1;
    }
    words
}

/// The first `N` words of a frame.
pub(crate) type Words<const N: usize> = [[u8; 8]; N];

/// The first `N` words of a frame. Returns `None` if it is shorter.
#[inline(always)]
pub(crate) fn words<const N: usize>(head: &[u8]) -> Option<&Words<N>> {
    head.as_chunks().0.first_chunk()
}

/// The first `N` words of a frame that has less. It is extended by zeros.
pub(crate) fn padded<const N: usize>(head: &[u8]) -> Words<N> {
    let mut words = [[0; 8]; N];
    for (word, bytes) in words.iter_mut().zip(head.chunks(8)) {
        word[..bytes.len()].copy_from_slice(bytes);
    }
    words
}

/// Words under a mask.
#[inline(always)]
pub(crate) fn masked<const N: usize>(words: &Words<N>, mask: &[u64; N]) -> [u64; N] {
    std::array::from_fn(|i| u64::from_ne_bytes(words[i]) & mask[i])
}

/// The bits of `mask` in which two lists of words differ, combined without a branch for each.
#[inline(always)]
pub(crate) fn difference<const N: usize>(one: &Words<N>, other: &Words<N>, mask: &[u64; N]) -> u64 {
    let differs = |i: usize| u64::from_ne_bytes(one[i]) ^ u64::from_ne_bytes(other[i]);
    (0..N).fold(0, |all, i| all | differs(i) & mask[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![0; ETHERNET + V4 + payload];
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        if let (6, Some(offset)) = (protocol, frame.get_mut(ETHERNET + V4 + 12)) {
            *offset = 0x50;
        }
        frame[16..18].copy_from_slice(&((V4 + payload) as u16).to_be_bytes());
        frame[23] = protocol;
        frame
    }

    fn ipv6(next: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![0; ETHERNET + V6 + payload];
        frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        if let (6, Some(offset)) = (next, frame.get_mut(ETHERNET + V6 + 12)) {
            *offset = 0x50;
        }
        frame[18..20].copy_from_slice(&(payload as u16).to_be_bytes());
        frame[20] = next;
        frame
    }

    fn tag(mut frame: Vec<u8>) -> Vec<u8> {
        frame.splice(12..12, [0x81, 0, 0, 5]);
        frame
    }

    fn shape(frame: &[u8]) -> Option<Shape> {
        Shape::of(&frame[..frame.len().min(128)], frame.len())
    }

    #[test]
    fn complete_headers_have_a_shape() {
        for (frame, expected) in [
            (ipv4(6, 20), Shape::V4),
            (ipv4(17, 8), Shape::V4),
            (ipv4(1, 8), Shape::V4Icmp),
            (tag(ipv4(132, 1000)), Shape::V4Tagged),
            (ipv6(17, 8), Shape::V6),
            (tag(ipv6(6, 20)), Shape::V6Tagged),
        ] {
            assert_eq!(shape(&frame), Some(expected));
            assert_eq!(shape(&frame[..frame.len() - 1]), None, "cut");
        }
    }

    #[test]
    fn unusual_headers_have_none() {
        let changed = |mut frame: Vec<u8>, at: usize, byte: u8| {
            frame[at] = byte;
            shape(&frame)
        };
        assert_eq!(changed(ipv4(17, 8), 14, 0x46), None, "options");
        assert_eq!(changed(ipv4(17, 8), 20, 0x20), None, "first fragment");
        assert_eq!(changed(ipv4(17, 8), 21, 1), None, "later fragment");
        assert_eq!(changed(ipv4(17, 8), 20, 0x40), Some(Shape::V4), "don't fragment");
        assert_eq!(changed(ipv4(17, 8), 17, 27), None, "the transport header is cut by the length");
        assert_eq!(changed(ipv6(17, 8), 20, 44), None, "fragment header");
        assert_eq!(changed(ipv4(6, 20), 46, 0x40), None, "data offset below the header");
        assert_eq!(changed(ipv6(6, 20), 66, 0x60), None, "data offset beyond the packet");
        assert_eq!(shape(&tag(tag(ipv4(17, 8)))), None);
        assert_eq!(shape(&tag(ipv4(1, 8))), None);
        assert_eq!(shape(&[0; 13]), None);
    }

    #[test]
    fn masks_leave_out_what_changes_from_packet_to_packet() {
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
        let left_out = |mask: &[u64]| {
            let at = bytes(mask).into_iter().enumerate().filter(|(_, byte)| *byte == 0);
            at.map(|(at, _)| at).collect::<Vec<_>>()
        };
        // Length and identifier; time to live; checksum; bytes behind the ports.
        assert_eq!(left_out(&Shape::V4.mask::<V4_WORDS>(false)), [16, 17, 18, 19, 22, 24, 25, 38, 39]);
        assert_eq!(left_out(&Shape::V6.mask::<V6_WORDS>(false)), [18, 19, 21, 58, 59, 60, 61, 62, 63]);
        assert_eq!(left_out(&Shape::V6Tagged.mask::<V6_WORDS>(false)), [22, 23, 25, 62, 63]);
        assert_eq!(
            left_out(&Shape::V4Tagged.mask::<V4_TAGGED_WORDS>(false)),
            [20, 21, 22, 23, 26, 28, 29, 42, 43, 44, 45, 46, 47]
        );
    }

    #[test]
    fn frames_of_one_outline_and_extent_have_one_shape() {
        let frames = [ipv4(6, 20), ipv4(17, 20), ipv6(6, 20), tag(ipv4(6, 20)), tag(ipv6(17, 20))];
        for frame in frames {
            let own = shape(&frame).unwrap();
            let (outline, extent) = (own.outline::<V6_WORDS>(), Extent::of(own, &frame, frame.len()));
            for (at, byte) in (0..frame.len()).flat_map(|at| [0, 1, 0x40, 0x60, 0x87].map(|byte| (at, byte)))
            {
                let mut other = frame.clone();
                other[at] = byte;
                let differs = difference(&padded(&other), &padded(&frame), &outline) != 0;
                let is_like = !differs && extent.is_of(own, &other, other.len());
                assert!(!is_like || shape(&other) == Some(own), "byte {at} of {own:?}");
            }
            assert!(!extent.is_of(own, &frame, frame.len() + 1));
        }
    }

    #[test]
    fn short_frames_are_extended_by_zeros() {
        let frame: Vec<u8> = (1..=62).collect();
        let mut long = frame.clone();
        long.extend([0, 0]);
        assert_eq!(padded::<V6_WORDS>(&frame), *words(&long).unwrap());
        assert_eq!(words::<V6_WORDS>(&frame), None);
    }
}
