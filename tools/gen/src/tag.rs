//! The tag behind each payload, by which the meter identifies frames.
//!
//! A tag is the last 18 bytes of a frame, in network byte order:
//!
//! | bytes | content |
//! |---|---|
//! | 0-1 | stream number, below 32768; the highest bit marks warm-up frames |
//! | 2-7 | sequence number in the stream, from 0 |
//! | 8-13 | generation time in nanoseconds of the generator's clock, modulo 2^48 (78 hours) |
//! | 14-17 | CRC-32C (RFC 3720 section 12.1) of bytes 0-13 and two zeros, continued from the run's key |
//!
//! The tag is at the end because headers in front of it may be added or removed on the way. It just fits into a frame
//! of 60 bytes with UDP over IPv4. Each run has its own key, so the checksum rejects frames of other runs. A frame with
//! appended bytes (padding) has no valid tag.

use super::seal;

/// Bytes of a tag.
pub const TAG: usize = 18;
/// Number of possible streams.
pub const MAX_STREAMS: u16 = 1 << 15;
/// Bit of the stream number that marks warm-up frames.
const WARM_UP: u16 = 1 << 15;
/// Mask of sequence numbers and times, which have 48 bits.
pub const MASK: u64 = (1 << 48) - 1;

/// Content of a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Stream number.
    pub stream: u16,
    /// Whether the frame belongs to the warm-up.
    pub warm_up: bool,
    /// Sequence number in the stream.
    pub sequence: u64,
    /// Generation time in nanoseconds, modulo 2^48.
    pub time: u64,
}

impl Tag {
    /// Encodes the tag for a run with this key. Values too large for their field are truncated.
    #[inline]
    pub fn write(&self, key: u32) -> [u8; TAG] {
        let phase = if self.warm_up { WARM_UP } else { 0 };
        let front = (u64::from((self.stream % MAX_STREAMS) | phase) << 48) | (self.sequence & MASK);
        let time = (self.time & MASK) << 16;
        let mut bytes = [0; TAG];
        bytes[..8].copy_from_slice(&front.to_be_bytes());
        bytes[8..16].copy_from_slice(&time.to_be_bytes());
        bytes[14..].copy_from_slice(&seal::of(key, front, time).to_be_bytes());
        bytes
    }

    /// Decodes a tag of the run with this key. Returns `None` if the checksum does not match.
    #[inline]
    pub fn read(bytes: &[u8; TAG], key: u32) -> Option<Self> {
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |b| u64::from_be_bytes(*b));
        // Bytes 6 to 13 hold the last two bytes of the sequence number and the whole time.
        let (front, time) = (word(0), word(6) & MASK);
        let sum = bytes.last_chunk().map_or(0, |b| u32::from_be_bytes(*b));
        if seal::of(key, front, time << 16) != sum {
            return None;
        }
        let stream = (front >> 48) as u16;
        Some(Self {
            stream: stream % MAX_STREAMS,
            warm_up: stream & WARM_UP != 0,
            sequence: front & MASK,
            time,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout_is_as_documented() {
        let tag = Tag { stream: 0x0102, warm_up: true, sequence: 0x0304_0506_0708, time: 0x0a0b_0c0d_0e0f };
        let bytes = tag.write(0);
        assert_eq!(bytes[..14], [0x81, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15]);
        let mut sealed = bytes[..14].to_vec();
        sealed.extend([0, 0]);
        assert_eq!(bytes[14..], crc32c::crc32c(&sealed).to_be_bytes());
    }

    proptest! {
        #[test]
        fn tag_round_trips_for_its_own_run_only(
            stream in 0..MAX_STREAMS, warm_up: bool, sequence in 0..=MASK, time in 0..=MASK, key: u32, other: u32,
        ) {
            let tag = Tag { stream, warm_up, sequence, time };
            prop_assert_eq!(Tag::read(&tag.write(key), key), Some(tag));
            prop_assert_eq!(Tag::read(&tag.write(key), other).is_some(), key == other);
        }

        #[test]
        fn any_flipped_bit_is_detected(sequence in 0..=MASK, bit in 0..TAG * 8) {
            let mut bytes = Tag { sequence, ..Tag::default() }.write(7);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Tag::read(&bytes, 7), None);
        }
    }
}
