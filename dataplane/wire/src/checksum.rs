//! Internet checksum (RFC 1071): the complement of the ones' complement sum of all 16-bit words.
//!
//! A [`Sum`] accumulates a packet in pieces of any length. Byte order does not matter until the end (RFC 1071 section
//! 2, B), so sums are in native byte order. They have 64 bits with end-around carry (section 2, C), because 65535
//! divides 2^64 - 1: four words are added at once.

/// IP protocol numbers (IANA) with a checksum over their payload.
pub mod protocol {
    /// Internet Control Message Protocol.
    pub const ICMP: u8 = 1;
    /// Transmission Control Protocol.
    pub const TCP: u8 = 6;
    /// User Datagram Protocol.
    pub const UDP: u8 = 17;
    /// Internet Control Message Protocol for IPv6.
    pub const ICMPV6: u8 = 58;
    /// Stream Control Transmission Protocol.
    pub const SCTP: u8 = 132;
}

/// A running checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    total: u64,
    /// Whether an odd number of bytes has been added; the next piece then starts in the middle of a word.
    odd: bool,
}

/// Folds a sum of words to 16 bits, with end-around carry.
#[inline]
pub const fn fold(total: u64) -> u16 {
    // The upper half of the sum of a value and its halves exchanged is the sum of both halves, with the carry of the
    // lower half.
    let total = (total.wrapping_add(total.rotate_left(32)) >> 32) as u32;
    (total.wrapping_add(total.rotate_left(16)) >> 16) as u16
}

/// The checksum after `old` bytes were replaced by `new` ones (RFC 1624, equation 3). Both have an even length and
/// start at an even offset.
#[must_use]
pub fn update(checksum: [u8; 2], old: &[u8], new: &[u8]) -> [u8; 2] {
    let removed = !fold(words(old));
    let total = u64::from(!u16::from_ne_bytes(checksum)) + u64::from(removed);
    (!fold(add(total, words(new)))).to_ne_bytes()
}

impl Sum {
    /// The sum of one piece.
    pub fn of(bytes: &[u8]) -> Self {
        let mut sum = Self::default();
        sum.add(bytes);
        sum
    }

    /// Adds the next bytes of the packet.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        self.add_words(words(bytes), bytes.len());
    }

    /// Adds the next `len` bytes of the packet, given as the precomputed sum of their words in native byte order; a
    /// final odd byte is padded with zero.
    #[inline]
    pub fn add_words(&mut self, total: u64, len: usize) {
        // A rotation by one byte moves each byte to the other half of a word.
        self.total = add(self.total, if self.odd { total.rotate_left(8) } else { total });
        self.odd ^= len % 2 == 1;
    }

    /// Sum of the TCP and UDP pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1); `addresses` as in the IPv4 or
    /// IPv6 header.
    #[must_use]
    pub fn pseudo(addresses: &[u8], protocol: u8, len: u32) -> Self {
        let mut sum = Self::of(addresses);
        sum.add(&len.to_be_bytes());
        sum.add(&[0, protocol]);
        sum
    }

    /// The unfolded sum of what was added, for [`Sum::add_words`].
    pub fn total(self) -> u64 {
        self.total
    }

    /// The checksum, in network byte order.
    pub fn finish(self) -> [u8; 2] {
        (!fold(self.total)).to_ne_bytes()
    }

    /// The UDP checksum, in network byte order: zero is replaced by 0xffff, because zero means no checksum (RFC 768).
    pub fn finish_nonzero(self) -> [u8; 2] {
        match self.finish() {
            [0, 0] => [0xff, 0xff],
            sum => sum,
        }
    }

    /// The sum without the complement: the value of the checksum field if the checksum is completed by offload.
    pub fn partial(self) -> [u8; 2] {
        fold(self.total).to_ne_bytes()
    }
}

/// Ones' complement sum of two sums.
#[inline]
pub const fn add(one: u64, other: u64) -> u64 {
    let (total, carry) = one.overflowing_add(other);
    total + carry as u64
}

/// Sum of the 16-bit words of `bytes`, in native byte order, with end-around carry.
#[inline]
fn words(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<32>();
    let (chunks, rest) = rest.as_chunks::<8>();
    let mut total = 0;
    for block in blocks {
        for chunk in block.as_chunks::<8>().0 {
            total = add(total, u64::from_ne_bytes(*chunk));
        }
    }
    for chunk in chunks {
        total = add(total, u64::from_ne_bytes(*chunk));
    }
    if rest.is_empty() {
        return total;
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    add(total, u64::from_ne_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;

    /// RFC 1071 section 4.1, verbatim.
    fn textbook(bytes: &[u8]) -> [u8; 2] {
        let mut sum: u32 = 0;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }

    #[test]
    fn matches_the_rfc_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::of(&bytes).partial(), [0xdd, 0xf2]);
        assert_eq!(Sum::of(&bytes).finish(), [0x22, 0x0d]);
    }

    #[test]
    fn carries_of_maximum_words_are_kept() {
        for len in [8, 16, 17, 64, 1500, 65_535] {
            let bytes = vec![0xff; len];
            let mut sum = Sum::of(&[0xff]);
            sum.add(&bytes);
            assert_eq!(sum.finish(), textbook(&vec![0xff; len + 1]));
        }
    }

    #[test]
    fn zero_checksum_is_written_as_ffff() {
        assert_eq!(Sum::of(&[0xff, 0xff]).finish(), [0, 0]);
        assert_eq!(Sum::of(&[0xff, 0xff]).finish_nonzero(), [0xff, 0xff]);
    }

    proptest! {
        #[test]
        fn folded_sums_keep_their_carries(total: u64, ones in 0_u32..64) {
            for total in [total, total | u64::MAX << ones, total | u64::MAX >> ones] {
                let mut expected = total;
                while expected > 0xffff {
                    expected = (expected & 0xffff) + (expected >> 16);
                }
                prop_assert_eq!(u64::from(fold(total)), expected);
            }
        }

        #[test]
        fn updated_checksum_is_valid(
            bytes in prop::collection::vec(any::<u8>(), 12..40), new: [u8; 4], at in 0_usize..4,
        ) {
            let mut bytes = bytes;
            let checksum = Sum::of(&bytes).finish();
            let updated = update(checksum, &bytes[2 * at..2 * at + 4], &new);
            bytes[2 * at..2 * at + 4].copy_from_slice(&new);
            let mut sum = Sum::of(&updated);
            sum.add(&bytes);
            prop_assert_eq!(sum.finish(), [0, 0]);
        }

        #[test]
        fn pieces_add_up_to_the_reference_sum(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..70), 0..8),
        ) {
            let mut sum = Sum::default();
            for piece in &pieces {
                sum.add(piece);
            }
            prop_assert_eq!(sum.finish(), textbook(&pieces.concat()));
        }
    }
}
