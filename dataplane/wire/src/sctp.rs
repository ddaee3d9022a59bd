//! SCTP common header (RFC 9260 section 3.1), and changes of a packet that keep its CRC32c valid.

/// Length of the common header, in bytes.
pub const SCTP_HEADER: usize = 12;
/// Offset of the CRC32c in the header.
pub const SCTP_CHECKSUM: usize = 8;

/// The polynomial of CRC32c in reversed bit order: the coefficient of x^0 is the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// The polynomial 1.
const ONE: u32 = 1 << 31;

/// A complete common header.
#[derive(Clone, Copy, Debug)]
pub struct Sctp<'a> {
    header: &'a [u8; SCTP_HEADER],
}

impl<'a> Sctp<'a> {
    /// Returns `None` if the header is incomplete.
    pub fn new(packet: &'a [u8]) -> Option<Self> {
        packet.first_chunk().map(|header| Self { header })
    }

    /// Source port.
    pub fn source_port(self) -> u16 {
        u16::from_be_bytes([self.header[0], self.header[1]])
    }

    /// Destination port.
    pub fn destination_port(self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// CRC32c, as in the header.
    pub fn checksum(self) -> [u8; 4] {
        self.header.last_chunk().copied().unwrap_or_default()
    }
}

/// The checksum after `old` bytes were replaced by `new` ones of the same length, with `following` bytes from their end
/// to the end of the packet.
///
/// The CRC is linear, so the checksum changes by the remainder of the difference followed by zeros. No other byte is
/// read, and an invalid checksum remains invalid. The cost is at most 32 steps for each bit of `following`.
#[must_use]
pub fn crc32c_update(checksum: [u8; 4], old: &[u8], new: &[u8], following: usize) -> [u8; 4] {
    let difference = old.iter().zip(new).fold(0, |remainder, (old, new)| step(remainder, old ^ new));
    let change = multiply(difference, zeros(following));
    (u32::from_le_bytes(checksum) ^ change).to_le_bytes()
}

/// The remainder after one more byte.
fn step(remainder: u32, byte: u8) -> u32 {
    (0..8).fold(remainder ^ u32::from(byte), |remainder, _| times_x(remainder))
}

const fn times_x(value: u32) -> u32 {
    value >> 1 ^ if value & 1 == 0 { 0 } else { POLYNOMIAL }
}

/// Product modulo the polynomial.
const fn multiply(mut one: u32, mut other: u32) -> u32 {
    let mut product = 0;
    while one != 0 {
        if one & ONE != 0 {
            product ^= other;
        }
        one <<= 1;
        other = times_x(other);
    }
    product
}

/// x^(8 * bytes) modulo the polynomial.
fn zeros(bytes: usize) -> u32 {
    /// x^(8 * 2^i).
    const POWERS: [u32; 32] = {
        let mut powers = [ONE >> 8; 32];
        let mut i = 1;
        while i < powers.len() {
            powers[i] = multiply(powers[i - 1], powers[i - 1]);
            i += 1;
        }
        powers
    };
    let bits = POWERS.iter().enumerate().filter(|(i, _)| bytes >> i & 1 != 0);
    bits.fold(ONE, |product, (_, power)| multiply(product, *power))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;

    #[test]
    fn a_header_is_read() {
        let bytes = [0x12, 0x34, 0x56, 0x78, 0, 0, 0, 1, 9, 8, 7, 6];
        let view = Sctp::new(&bytes).unwrap();
        assert_eq!((view.source_port(), view.destination_port()), (0x1234, 0x5678));
        assert_eq!(view.checksum(), [9, 8, 7, 6]);
        assert!(Sctp::new(&bytes[..11]).is_none());
    }

    #[test]
    fn zeros_are_those_of_many_single_steps() {
        let slow = |bytes| (0..bytes).fold(ONE, |remainder, _| step(remainder, 0));
        for bytes in [0, 1, 2, 3, 255, 65_535] {
            assert_eq!(zeros(bytes), slow(bytes), "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn updated_checksum_is_that_of_the_changed_packet(
            bytes in prop::collection::vec(any::<u8>(), 12..3000), new: [u8; 4], at in 0..8_usize,
        ) {
            let old: [u8; 4] = *bytes[at..].first_chunk().unwrap();
            let mut changed = bytes.clone();
            changed[at..at + 4].copy_from_slice(&new);
            let checksum = crc32c::crc32c(&bytes).to_le_bytes();
            let updated = crc32c_update(checksum, &old, &new, bytes.len() - at - 4);
            prop_assert_eq!(updated, crc32c::crc32c(&changed).to_le_bytes());
        }
    }
}
