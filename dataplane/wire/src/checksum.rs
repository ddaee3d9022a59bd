//! The Internet checksum (RFC 1071): the complement of the ones' complement sum of all 16-bit words.
//!
//! A [`Sum`] adds up a packet piece by piece, wherever the pieces lie; a piece may have any length. The order of bytes
//! in a word does not matter until the end (RFC 1071 section 2, B), so sums are kept in the processor's own order.

/// Internet protocol numbers that have checksums of their own (IANA).
pub mod protocol {
    /// Transmission control.
    pub const TCP: u8 = 6;
    /// User datagrams.
    pub const UDP: u8 = 17;
    /// Stream control transmission.
    pub const SCTP: u8 = 132;
}

/// A sum that is not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    total: u64,
    /// Whether an odd number of bytes has been added, so that the next piece begins in the middle of a word.
    odd: bool,
}

/// Folds a sum of words into sixteen bits, carries added back in.
#[inline]
pub const fn fold(mut total: u64) -> u16 {
    total = (total & 0xffff_ffff) + (total >> 32);
    total = (total & 0xffff_ffff) + (total >> 32);
    total = (total & 0xffff) + (total >> 16);
    total = (total & 0xffff) + (total >> 16);
    total as u16
}

impl Sum {
    /// The sum of one piece.
    pub fn of(bytes: &[u8]) -> Self {
        let mut sum = Self::default();
        sum.add(bytes);
        sum
    }

    /// Adds the next bytes of the packet.
    pub fn add(&mut self, bytes: &[u8]) {
        self.add_words(words(bytes), bytes.len());
    }

    /// Adds the next `len` bytes of the packet, whose words somebody else has added up in this processor's order; a
    /// last odd byte counts as a word that ends with zero.
    pub fn add_words(&mut self, total: u64, len: usize) {
        let folded = fold(total);
        self.total += u64::from(if self.odd { folded.swap_bytes() } else { folded });
        self.odd ^= len % 2 == 1;
    }

    /// The pseudo header of TCP and UDP (RFC 9293 section 3.1, RFC 8200 section 8.1): `addresses` as they stand in the
    /// header of either version.
    #[must_use]
    pub fn pseudo(addresses: &[u8], protocol: u8, len: u32) -> Self {
        let mut sum = Self::of(addresses);
        sum.add(&len.to_be_bytes());
        sum.add(&[0, protocol]);
        sum
    }

    /// The checksum, in the order of the wire.
    pub fn finish(self) -> [u8; 2] {
        (!fold(self.total)).to_ne_bytes()
    }

    /// The checksum as UDP writes it, where zero would mean that there is none (RFC 768).
    pub fn finish_nonzero(self) -> [u8; 2] {
        match self.finish() {
            [0, 0] => [0xff, 0xff],
            sum => sum,
        }
    }

    /// The sum itself, not complemented: what stands in the field while the rest is left to somebody else.
    pub fn partial(self) -> [u8; 2] {
        fold(self.total).to_ne_bytes()
    }
}

/// The sum of the 16-bit words of `bytes`, in this processor's order. Adding 32 bits at a time is the same sum, and
/// leaves the compiler wide registers to do it in.
fn words(bytes: &[u8]) -> u64 {
    let (chunks, rest) = bytes.as_chunks::<4>();
    let mut total: u64 = chunks.iter().map(|chunk| u64::from(u32::from_ne_bytes(*chunk))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total += u64::from(u32::from_ne_bytes(last));
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 section 4.1, as written there.
    fn textbook(bytes: &[u8]) -> [u8; 2] {
        let mut sum: u32 = 0;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }

    #[test]
    fn the_example_of_the_rfc() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::of(&bytes).partial(), [0xdd, 0xf2]);
        assert_eq!(Sum::of(&bytes).finish(), [0x22, 0x0d]);
    }

    #[test]
    fn a_checksum_of_zero_is_written_as_its_other_form() {
        assert_eq!(Sum::of(&[0xff, 0xff]).finish(), [0, 0]);
        assert_eq!(Sum::of(&[0xff, 0xff]).finish_nonzero(), [0xff, 0xff]);
    }

    proptest! {
        #[test]
        fn pieces_of_any_length_add_up_to_the_textbooks_sum(
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
