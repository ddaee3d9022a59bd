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

    /// Whether a frame has this shape that agrees with another one of it in the bytes of the mask: whether its headers
    /// are complete.
    #[inline(always)]
    pub(crate) fn is_complete(self, head: &[u8], len: usize) -> bool {
        match self {
            Self::V4 | Self::V4Icmp => is_v4_complete(head, len, ETHERNET),
            Self::V4Tagged => is_v4_complete(head, len, ETHERNET + TAG),
            Self::V6 => is_v6_complete(head, len, ETHERNET),
            Self::V6Tagged => is_v6_complete(head, len, ETHERNET + TAG),
        }
    }

    /// What completeness depends on besides the bytes of the mask: lengths, and TCP's data offset. `None` if the head is
    /// too short to tell.
    #[inline(always)]
    pub(crate) fn extent(self, head: &[u8], len: usize) -> Option<(usize, usize, u16, u8)> {
        let (length, offset) = match self {
            Self::V4 | Self::V4Icmp => (ETHERNET + 2, ETHERNET + V4 + 12),
            Self::V4Tagged => (ETHERNET + TAG + 2, ETHERNET + TAG + V4 + 12),
            Self::V6 => (ETHERNET + 4, ETHERNET + V6 + 12),
            Self::V6Tagged => (ETHERNET + TAG + 4, ETHERNET + TAG + V6 + 12),
        };
        Some((len, head.len(), be16(head, length)?, *head.get(offset)?))
    }

    /// Offset of the time to live or hop limit.
    pub(crate) const fn ttl(self) -> usize {
        match self {
            Self::V4 | Self::V4Icmp => ETHERNET + 8,
            Self::V4Tagged => ETHERNET + TAG + 8,
            Self::V6 => ETHERNET + 7,
            Self::V6Tagged => ETHERNET + TAG + 7,
        }
    }

    /// Mask over the first `N` words, with or without the time to live.
    #[inline(always)]
    pub(crate) const fn mask<const N: usize>(self, compares_ttl: bool) -> [u64; N] {
        if compares_ttl { self.mask_with(true) } else { self.mask_with(false) }
    }

    #[inline(always)]
    const fn mask_with<const N: usize>(self, compares_ttl: bool) -> [u64; N] {
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
    if header[0] != 0x45 || is_fragment || !is_v4_complete(head, len, at) {
        return None;
    }
    Some(if header[9] == protocol::ICMP { Shape::V4Icmp } else { Shape::V4 })
}

/// Whether the frame contains the packet, and the head its transport header.
#[inline(always)]
fn is_v4_complete(head: &[u8], len: usize, at: usize) -> bool {
    let Some(header) = head.get(at..).and_then(|packet| packet.first_chunk::<V4>()) else { return false };
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    at + total <= len && total >= V4 && has_transport(head, at + V4, total - V4, header[9])
}

#[inline(always)]
fn v6(head: &[u8], len: usize, at: usize) -> bool {
    head.get(at).is_some_and(|byte| byte >> 4 == 6) && is_v6_complete(head, len, at)
}

/// See [`is_v4_complete`].
#[inline(always)]
fn is_v6_complete(head: &[u8], len: usize, at: usize) -> bool {
    let Some(header) = head.get(at..).and_then(|packet| packet.first_chunk::<V6>()) else { return false };
    let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let is_icmp = header[6] == protocol::ICMP;
    at + V6 + payload <= len && !is_icmp && has_transport(head, at + V6, payload, header[6])
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

/// Whether two lists of words are equal, without a branch for each.
#[inline(always)]
pub(crate) fn same<const N: usize>(one: &[u64; N], other: &[u64; N]) -> bool {
    one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

/// The first `N` words of a frame, under `mask`. A shorter frame is extended by zeros.
#[inline(always)]
pub(crate) fn masked<const N: usize>(head: &[u8], mask: &[u64; N]) -> [u64; N] {
    let mut words = [0; N];
    if let Some(whole) = head.get(..8 * N) {
        for ((word, bytes), mask) in words.iter_mut().zip(whole.chunks_exact(8)).zip(mask) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default()) & mask;
        }
        return words;
    }
    short(head, mask)
}

/// Whether the first `N` words of a frame, under `mask`, are `words`. A shorter frame has none.
#[inline(always)]
pub(crate) fn agrees<const N: usize>(head: &[u8], mask: &[u64; N], words: &[u64; N]) -> bool {
    let Some(whole) = head.get(..8 * N) else { return false };
    let mut differs = 0;
    for ((bytes, mask), word) in whole.chunks_exact(8).zip(mask).zip(words) {
        differs |= u64::from_ne_bytes(bytes.try_into().unwrap_or_default()) & mask ^ word;
    }
    differs == 0
}

#[inline(never)]
fn short<const N: usize>(head: &[u8], mask: &[u64; N]) -> [u64; N] {
    std::array::from_fn(|i| {
        let mut bytes = [0; 8];
        let have = head.get(8 * i..).unwrap_or_default();
        let n = have.len().min(8);
        bytes[..n].copy_from_slice(&have[..n]);
        u64::from_ne_bytes(bytes) & mask[i]
    })
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
    fn short_frames_are_extended_by_zeros() {
        let frame: Vec<u8> = (1..=62).collect();
        let mut long = frame.clone();
        long.extend([0, 0]);
        let mask = [u64::MAX; V6_WORDS];
        assert_eq!(masked(&frame, &mask), masked(&long, &mask));
    }
}
