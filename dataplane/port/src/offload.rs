//! Offloads that a packet still needs: checksum and segmentation.
//!
//! The terms are those of the virtio-net header (VIRTIO 1.2 section 5.1.6), shared by virtual machines and the
//! kernel's `IFF_VNET_HDR` and `PACKET_VNET_HDR`. A header is read once into private memory and validated here. A
//! destination that supports the offload receives an equivalent header; for others the switch completes it in
//! software.

mod splice;

/// Offloads of one packet: a virtio-net header without its hints.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Offload(u64);

/// Size of the offload fields of a virtio-net header; the number of buffers follows them.
pub const OFFLOAD_HEADER: usize = 10;

/// Minimum segment size (MSS) accepted from a source; 64 KiB become at most 1,024 segments. Linux sends at least 48,
/// by default at least 536.
pub const MIN_SEGMENT: u16 = 64;

/// Offsets of the checksum in the headers.
const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`
const NEEDS_CSUM: u8 = 1;
/// `VIRTIO_NET_HDR_F_DATA_VALID`
const DATA_VALID: u8 = 2;
/// `VIRTIO_NET_HDR_GSO_ECN`
const ECN: u8 = 0x80;
/// Flag of this crate: outer headers of a tunnel precede the headers of the segments. The offset of the checksum
/// follows from the segmentation then, and its bits have the offset of the inner network header.
const TUNNEL: u8 = 0x80;

/// Segmentation type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segmentation {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv4 or IPv6: each segment is a separate datagram (`VIRTIO_NET_HDR_GSO_UDP_L4`).
    Udp,
}

/// A header that contradicts itself, its packet or the negotiated features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the packet's offload header is invalid or not supported, so the packet is dropped")]
pub struct BadOffload;

impl std::fmt::Debug for Offload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offload")
            .field("checksum", &self.checksum())
            .field("segmentation", &self.segmentation())
            .field("segment", &self.segment())
            .field("ecn", &self.has_ecn())
            .field("valid", &self.is_valid())
            .finish()
    }
}

impl Offload {
    /// No offload.
    pub const NONE: Self = Self(0);

    const fn pack(flags: u8, gso: u8, segment: u16, start: u16, offset: u16) -> Self {
        Self(
            flags as u64
                | (gso as u64) << 8
                | (offset as u64) << 16
                | (segment as u64) << 32
                | (start as u64) << 48,
        )
    }

    /// Checksum at `start + offset` over everything from `start`; the field contains the pseudo-header sum.
    pub const fn with_checksum(start: u16, offset: u16) -> Self {
        Self::pack(NEEDS_CSUM, 0, 0, start, offset)
    }

    /// Adds segmentation of the payload into `segment` bytes each.
    #[must_use]
    pub const fn with_segments(self, kind: Segmentation, segment: u16, ecn: bool) -> Self {
        let kind = match kind {
            Segmentation::Tcp4 => 1,
            Segmentation::Tcp6 => 4,
            Segmentation::Udp => 5,
        };
        let gso = if ecn { kind | ECN } else { kind };
        let (start, offset) = (self.word(48), self.word(16));
        Self::pack(self.0 as u8, gso, segment, start, offset)
    }

    /// The checksum was verified, or the packet never left memory.
    pub const VALID: Self = Self::pack(DATA_VALID, 0, 0, 0, 0);

    const fn word(self, shift: u32) -> u16 {
        (self.0 >> shift) as u16
    }

    const fn flags(self) -> u8 {
        self.0 as u8
    }

    const fn gso(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Validates a header in private memory, of a packet of `len` bytes.
    ///
    /// # Errors
    /// [`BadOffload`] for a checksum beyond the packet, for segments below [`MIN_SEGMENT`] or without a checksum, and
    /// for unknown segmentation types.
    #[inline(always)]
    pub fn validate(header: [u8; OFFLOAD_HEADER], len: usize) -> Result<Self, BadOffload> {
        // Without offloads only the first two bytes are defined; the others may have any value.
        if header[0] & NEEDS_CSUM == 0 && header[1] == 0 {
            return Ok(if header[0] & DATA_VALID == 0 { Self::NONE } else { Self::VALID });
        }
        Self::validate_work(header, len)
    }

    #[inline(never)]
    fn validate_work(header: [u8; OFFLOAD_HEADER], len: usize) -> Result<Self, BadOffload> {
        let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let (flags, gso, segment, start, offset) = (header[0], header[1], word(4), word(6), word(8));
        let end = usize::from(start) + usize::from(offset) + 2;
        let kind = gso & !ECN;
        let known = matches!(kind, 0 | 1 | 4 | 5);
        if flags & NEEDS_CSUM == 0 || end > len || start == 0 || !known || kind != 0 && segment < MIN_SEGMENT
        {
            return Err(BadOffload);
        }
        let (gso, segment) = if kind == 0 { (0, 0) } else { (gso, segment) };
        Ok(Self::pack(flags & NEEDS_CSUM, gso, segment, start, offset))
    }

    /// Whether any offload is needed.
    #[inline(always)]
    pub const fn is_work(self) -> bool {
        self.flags() & NEEDS_CSUM != 0
    }

    /// The offloads to report to a destination with these capabilities: without checksum offload it must not receive
    /// checksum flags. Unsupported offloads must have been completed before.
    #[inline(always)]
    #[must_use]
    pub const fn for_receiver(self, capabilities: Capabilities) -> Self {
        if capabilities.cover(Capabilities(Capabilities::CHECKSUM)) { self } else { Self::NONE }
    }

    /// Whether the source declares the checksum valid.
    pub const fn is_valid(self) -> bool {
        self.flags() & DATA_VALID != 0
    }

    /// Start of the checksummed part, and offset of the checksum in it.
    pub const fn checksum(self) -> Option<(usize, usize)> {
        if self.is_work() { Some((self.word(48) as usize, self.offset() as usize)) } else { None }
    }

    /// Offset of the checksum in the checksummed part.
    const fn offset(self) -> u16 {
        match self.segmentation() {
            Some(Segmentation::Udp) if self.flags() & TUNNEL != 0 => UDP_CHECKSUM,
            Some(_) if self.flags() & TUNNEL != 0 => TCP_CHECKSUM,
            _ => self.word(16),
        }
    }

    /// Offset of the network header of the segments, if outer headers of a tunnel precede it.
    pub const fn inner_network(self) -> Option<usize> {
        if self.flags() & TUNNEL == 0 { None } else { Some(self.word(16) as usize) }
    }

    /// Segmentation type, if any.
    pub const fn segmentation(self) -> Option<Segmentation> {
        match self.gso() & !ECN {
            1 => Some(Segmentation::Tcp4),
            4 => Some(Segmentation::Tcp6),
            5 => Some(Segmentation::Udp),
            _ => None,
        }
    }

    /// Payload bytes per segment.
    pub const fn segment(self) -> usize {
        self.word(32) as usize
    }

    /// Whether the packet has TCP's CWR flag, which only the first segment may have.
    pub const fn has_ecn(self) -> bool {
        self.gso() & ECN != 0
    }

    /// The virtio-net header for a packet that starts with `head`.
    #[inline(always)]
    pub fn header(self, head: &[u8]) -> [u8; OFFLOAD_HEADER] {
        let (w, mut header) = (|shift| self.word(shift).to_le_bytes(), [0; OFFLOAD_HEADER]);
        (header[0], header[1]) = (self.flags(), self.gso());
        if self.is_work() {
            [header[2], header[3]] = self.headers(head).to_le_bytes();
            [header[4], header[5]] = w(32);
            [header[6], header[7]] = w(48);
            [header[8], header[9]] = self.offset().to_le_bytes();
        }
        header
    }

    /// Length of all headers of a packet that starts with `head`, for the `hdr_len` hint; 0 without segmentation.
    pub fn headers(self, head: &[u8]) -> u16 {
        let start = usize::from(self.word(48));
        let transport = match self.segmentation() {
            None => return 0,
            Some(Segmentation::Udp) => 8,
            Some(_) => head.get(start + 12).map_or(20, |offset| usize::from(offset >> 4) * 4),
        };
        (start + transport) as u16
    }

    /// Capabilities that a destination needs to accept these offloads.
    #[inline(always)]
    pub const fn needs(self) -> Capabilities {
        let mut needs = if self.is_work() { Capabilities::CHECKSUM } else { 0 };
        needs |= match self.segmentation() {
            None => 0,
            Some(Segmentation::Tcp4) => Capabilities::TCP4,
            Some(Segmentation::Tcp6) => Capabilities::TCP6,
            Some(Segmentation::Udp) => Capabilities::UDP,
        };
        needs |= if self.inner_network().is_some() { Capabilities::TUNNEL } else { 0 };
        Capabilities(if self.has_ecn() { needs | Capabilities::ECN } else { needs })
    }
}

/// Offloads supported by a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u8);

impl Capabilities {
    /// Computes checksums.
    pub const CHECKSUM: u8 = 1;
    /// Segments TCP over IPv4.
    pub const TCP4: u8 = 2;
    /// Segments TCP over IPv6.
    pub const TCP6: u8 = 4;
    /// Segments packets with CWR.
    pub const ECN: u8 = 8;
    /// Segments UDP.
    pub const UDP: u8 = 16;
    /// Segments the payload of tunnels. No port kind does.
    pub const TUNNEL: u8 = 32;
    /// All kinds of segmentation.
    const SEGMENTATION: u8 = Self::TCP4 | Self::TCP6 | Self::UDP;
    /// Supports no offload: all must be completed before.
    pub const NONE: Self = Self(0);
    /// Supports all offloads.
    pub const ALL: Self = Self(31);

    /// Whether all of `needs` is supported.
    #[inline(always)]
    pub const fn cover(self, needs: Self) -> bool {
        self.0 & needs.0 == needs.0
    }

    /// Offloads that packets which need these need after an encapsulation, possibly with a checksum.
    #[must_use]
    pub(crate) const fn encapsulated(self, has_checksum: bool) -> Self {
        let tunnel = if self.0 & Self::SEGMENTATION == 0 { 0 } else { Self::TUNNEL };
        Self(self.0 | tunnel | if has_checksum { Self::CHECKSUM } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(flags: u8, gso: u8, segment: u16, start: u16, offset: u16) -> [u8; OFFLOAD_HEADER] {
        let mut header = [0; OFFLOAD_HEADER];
        (header[0], header[1]) = (flags, gso);
        header[4..6].copy_from_slice(&segment.to_le_bytes());
        header[6..8].copy_from_slice(&start.to_le_bytes());
        header[8..10].copy_from_slice(&offset.to_le_bytes());
        header
    }

    #[test]
    fn header_without_flags_needs_no_offload() {
        assert_eq!(Offload::validate(header(0, 0, 7, 9999, 7), 60), Ok(Offload::NONE));
        assert_eq!(Offload::validate(header(2, 0, 0, 0, 0), 60), Ok(Offload::VALID));
        assert_eq!(Offload::NONE.header(&[]), [0; OFFLOAD_HEADER]);
    }

    #[test]
    fn unsupported_offload_is_rejected() {
        for (case, bad) in [
            ("a checksum that starts beyond the packet", header(1, 0, 0, 60, 0)),
            ("a checksum whose field ends beyond it", header(1, 0, 0, 34, 25)),
            ("segments of no bytes", header(1, 1, 0, 34, 16)),
            ("segments below the least", header(1, 1, MIN_SEGMENT - 1, 34, 16)),
            ("segments without a checksum", header(0, 1, 1448, 34, 16)),
            ("a kind that does not exist", header(1, 2, 1448, 34, 16)),
            ("fragments, which were never offered", header(1, 3, 1448, 34, 6)),
        ] {
            assert_eq!(Offload::validate(bad, 60), Err(BadOffload), "{case}");
        }
        assert!(Offload::validate(header(1, 0, 0, 34, 24), 60).is_ok(), "the last two bytes");
    }

    #[test]
    fn written_header_has_the_total_header_length() {
        let offload = Offload::with_checksum(34, 16).with_segments(Segmentation::Tcp4, 1448, true);
        let mut head = [0; 66];
        head[34 + 12] = 8 << 4;
        let written = offload.header(&head);
        assert_eq!(written, [1, 0x81, 66, 0, 0xa8, 5, 34, 0, 16, 0]);
        assert_eq!(Offload::validate(written, 60_000), Ok(offload));
        assert_eq!(offload.needs(), Capabilities(1 | 2 | 8));
    }

    #[test]
    fn edit_moves_the_checksum_and_invalid_offsets_are_rejected() {
        let offload = Offload::with_checksum(34, 16);
        let moved = |at, strip, inserted, len| offload.spliced((at, strip, inserted), len);
        assert_eq!(moved(12, 0, 4, 64), Ok(Offload::with_checksum(38, 16)));
        assert_eq!(moved(12, 4, 0, 60), Ok(Offload::with_checksum(30, 16)));
        assert_eq!((moved(0, 6, 6, 52), moved(0, 6, 6, 51)), (Ok(offload), Err(BadOffload)));
        assert_eq!(moved(34, 0, 8, 68), Ok(Offload::with_checksum(42, 16)), "in front of the summed part");
        assert_eq!(moved(54, 0, 4, 64), Ok(offload), "behind the checksum");
        assert_eq!(moved(40, 0, 4, 64), Err(BadOffload), "within the summed part");
        assert_eq!(moved(0, 34, 0, 26), Err(BadOffload), "a checksum from byte 0 on is no work for a header");
        assert_eq!(moved(0, 50, 0, 60), Err(BadOffload), "the checksum covers removed bytes");
        assert_eq!(moved(0, 52, 0, 60), Ok(Offload::NONE), "the outer header is removed with its checksum");
        assert_eq!(moved(0, 54, 54, 100), Ok(Offload::NONE), "so is one that was replaced");
        let far = Offload::with_checksum(65_500, 16);
        assert_eq!(far.spliced((0, 0, 50), 65_568), Err(BadOffload), "no number for it");
    }

    #[test]
    fn encapsulation_clears_validity_and_rejects_segments() {
        assert_eq!(Offload::VALID.spliced((12, 0, 4), 64), Ok(Offload::VALID), "a VLAN tag");
        assert_eq!(Offload::VALID.spliced((0, 50, 0), 64), Ok(Offload::NONE));
        assert_eq!(Offload::VALID.spliced((0, 0, 50), 114), Ok(Offload::NONE));
        let cut = Offload::with_checksum(34, 16).with_segments(Segmentation::Tcp4, 1448, false);
        assert!(cut.spliced((12, 0, 4), 3004).is_ok_and(|cut| cut.segmentation().is_some()));
        assert_eq!(cut.spliced((0, 0, 50), 3050), Err(BadOffload));
        assert_eq!(cut.spliced((0, 52, 0), 3000), Err(BadOffload));
    }

    proptest! {
        #[test]
        fn valid_headers_round_trip(bytes: [u8; OFFLOAD_HEADER], len in 14_usize..70_000) {
            if let Ok(offload) = Offload::validate(bytes, len) {
                let again = offload.header(&[0x50; 128]);
                prop_assert_eq!(Offload::validate(again, len), Ok(offload));
                if let Some((start, offset)) = offload.checksum() {
                    prop_assert!(start + offset + 2 <= len);
                }
                prop_assert!(offload.segmentation().is_none() || offload.segment() >= MIN_SEGMENT.into());
            }
        }
    }
}
