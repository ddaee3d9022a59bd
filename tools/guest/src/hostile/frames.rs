//! Frames of attacks: a virtio-net header followed by a frame, as one byte string.

use super::super::frames::{Mac, frame};
use wire::checksum::Sum;

/// Bytes of the virtio-net header (`VERSION_1`).
pub(super) const HEADER: usize = 12;
/// Bytes of the Ethernet, IPv4 and TCP headers.
pub(super) const TCP4: usize = 14 + 20 + 20;
/// Bytes of the Ethernet, IPv6 and TCP headers.
pub(super) const TCP6: usize = 14 + 40 + 20;
/// Bytes of the Ethernet, IPv4 and UDP headers.
pub(super) const UDP4: usize = 14 + 20 + 8;

/// A virtio-net header (VIRTIO 1.2 section 5.1.6).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Header {
    pub(super) flags: u8,
    pub(super) gso_type: u8,
    pub(super) hdr_len: u16,
    pub(super) gso_size: u16,
    pub(super) csum_start: u16,
    pub(super) csum_offset: u16,
}

impl Header {
    pub(super) const NEEDS_CSUM: u8 = 1;
    pub(super) const TCP4: u8 = 1;
    pub(super) const TCP6: u8 = 4;
    pub(super) const UDP: u8 = 5;

    fn bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        (bytes[0], bytes[1]) = (self.flags, self.gso_type);
        let words = [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset];
        for (at, word) in (2..).step_by(2).zip(words) {
            bytes[at..at + 2].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// This header followed by `frame`.
    pub(super) fn before(self, frame: &[u8]) -> Vec<u8> {
        [&self.bytes(), frame].concat()
    }
}

/// A plain frame of `len` bytes: UDP over IPv4.
pub(super) fn plain(to: Mac, from: Mac, len: usize, flow: u16) -> Vec<u8> {
    Header::default().before(&frame(len, to, from, flow))
}

/// The header of a TSO frame over IPv4 with segments of `mss` bytes.
pub(super) fn tso4(mss: u16) -> Header {
    Header {
        flags: Header::NEEDS_CSUM,
        gso_type: Header::TCP4,
        hdr_len: TCP4 as u16,
        gso_size: mss,
        csum_start: 34,
        csum_offset: 16,
    }
}

/// The header of a TSO frame over IPv6.
pub(super) fn tso6(mss: u16) -> Header {
    Header { gso_type: Header::TCP6, hdr_len: TCP6 as u16, csum_start: 54, ..tso4(mss) }
}

/// The header of a USO frame over IPv4.
pub(super) fn uso(size: u16) -> Header {
    Header { gso_type: Header::UDP, hdr_len: UDP4 as u16, csum_offset: 6, ..tso4(size) }
}

/// A TCP frame of `len` bytes over IPv4, with the checksum of its pseudo-header.
pub(super) fn tcp4(to: Mac, from: Mac, len: usize) -> Vec<u8> {
    let mut f = frame(len, to, from, 0);
    f[23] = 6;
    f[24..26].fill(0);
    let sum = Sum::of(&f[14..34]).finish();
    f[24..26].copy_from_slice(&sum);
    let segment = (len - 34) as u16;
    let pseudo = [&f[26..34], &[0, 6], &segment.to_be_bytes()].concat();
    tcp(&mut f[34..], &pseudo);
    f
}

/// A TCP frame of `len` bytes over IPv6, with the checksum of its pseudo-header.
pub(super) fn tcp6(to: Mac, from: Mac, len: usize) -> Vec<u8> {
    let mut f = vec![0; len];
    f[..6].copy_from_slice(&to);
    f[6..12].copy_from_slice(&from);
    f[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
    let segment = (len - 54) as u16;
    f[18..20].copy_from_slice(&segment.to_be_bytes());
    (f[20], f[21]) = (6, 64);
    (f[22], f[37], f[38], f[53]) = (0xfd, 1, 0xfd, 2);
    let pseudo = [&f[22..54], &[0, 0], &segment.to_be_bytes(), &[0, 0, 0, 6]].concat();
    tcp(&mut f[54..], &pseudo);
    f
}

fn tcp(segment: &mut [u8], pseudo: &[u8]) {
    segment[..20].fill(0);
    segment[..4].copy_from_slice(&[0x80, 0, 0, 9]);
    // Data offset of 20 bytes; ACK.
    (segment[12], segment[13]) = (0x50, 0x10);
    segment[16..18].copy_from_slice(&Sum::of(pseudo).partial());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_offsets_match_the_specification() {
        let bytes = tso6(0x0102).before(&[7]);
        assert_eq!(bytes[..10], [1, 4, TCP6 as u8, 0, 2, 1, 54, 0, 16, 0]);
        assert_eq!((bytes.len(), bytes[HEADER]), (HEADER + 1, 7));
    }

    #[test]
    fn tcp_frames_have_the_requested_length() {
        let f = tcp4([2; 6], [4; 6], 65_000);
        assert_eq!((f.len(), f[23]), (65_000, 6));
        assert_eq!(Sum::of(&f[14..34]).partial(), [0xff, 0xff]);
        let f = tcp6([2; 6], [4; 6], 65_550);
        assert_eq!((f.len(), u16::from_be_bytes([f[18], f[19]])), (65_550, 65_496));
    }
}
