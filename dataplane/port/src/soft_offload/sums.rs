//! Checksums over a packet whose head is private and whose rest is in its source's memory.
//!
//! The source may modify the rest meanwhile; the packet then has a wrong checksum, which affects only its sender.

use crate::{Burst, Frame};
use mem::VolatileSlice;
use mem::copy::Portable;
use wire::checksum::Sum;

/// Bytes copied at a time for checksums that need a slice.
const BLOCK: usize = 1024;

/// Adds all bytes from `start` on. `start` is inside the head.
pub(super) fn internet(mut sum: Sum, frame: &Frame<'_>, start: usize) -> Sum {
    sum.add(&frame.head[start..]);
    for seg in frame.rest() {
        // SAFETY: the burst that lent the frame pins the map of its segments.
        sum.add_words(unsafe { mem::sum::words(seg) }, seg.len());
    }
    sum
}

/// `CRC32c` (RFC 9260 appendix A) of all bytes from `start` on. `start` is inside the head.
pub(super) fn crc32c(frame: &Frame<'_>, start: usize) -> u32 {
    let crc = crc32c::crc32c(&frame.head[start..]);
    frame.rest().fold(crc, append)
}

fn append(mut crc: u32, seg: VolatileSlice) -> u32 {
    let mut block = [0; BLOCK];
    let mut left = seg;
    while !left.is_empty() {
        let (front, behind) = left.split_at(BLOCK);
        // SAFETY: the burst that lent the frame pins the map of its segments; the slice has the length of `front`.
        unsafe { front.copy_out::<Portable>(&mut block[..front.len()]) };
        crc = crc32c::crc32c_append(crc, &block[..front.len()]);
        left = behind;
    }
    crc
}

/// Writes a field to a head.
pub(super) fn put(burst: &mut Burst, i: usize, at: usize, bytes: &[u8]) {
    if let Some(field) = burst.head_mut(i).get_mut(at..at + bytes.len()) {
        field.copy_from_slice(bytes);
    }
}
