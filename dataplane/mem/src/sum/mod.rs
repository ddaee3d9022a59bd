//! Sums of 16-bit words over foreign memory: the part of the Internet checksum that touches every byte.
//!
//! The bytes are read once, with volatile accesses or assembly, and never become a slice; a writer that changes them while
//! they are read gets a sum of his own making. The wide variant hides behind [`words`]; the portable body is what Miri
//! and other processors run. What a sum means is not known here.

mod portable;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

use crate::VolatileSlice;

/// From here on the wide registers pay for being asked for.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const WIDE: usize = 64;

/// The sum of the segment's 16-bit words in this processor's order, unfolded; a last odd byte counts as a word that
/// ends with zero. Fold it with carries added back in (RFC 1071).
///
/// # Safety
/// The map that made the segment is alive.
#[inline]
pub unsafe fn words(seg: VolatileSlice) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if seg.len() >= WIDE && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the segment's bytes are readable by contract, and the processor has the registers.
        return unsafe { x86::words(seg.as_ptr(), seg.len()) };
    }
    // SAFETY: the segment's bytes are readable by contract.
    unsafe { portable::words(seg.as_ptr(), seg.len()) }
}

/// As [`words`], without wide registers: what it is compared with in tests and benchmarks.
///
/// # Safety
/// The map that made the segment is alive.
pub unsafe fn portable_words(seg: VolatileSlice) -> u64 {
    // SAFETY: the segment's bytes are readable by contract.
    unsafe { portable::words(seg.as_ptr(), seg.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;

    /// The sum of RFC 1071, one word after the other, folded.
    fn textbook(bytes: &[u8]) -> u16 {
        let mut sum: u32 = 0;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_ne_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    fn fold(mut total: u64) -> u16 {
        while total > 0xffff {
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    /// Bytes that end at a guard page would be better; the copy kernels' tests have one.
    fn check(bytes: &[u8]) {
        let region = Region::heap(0, 0, bytes.len().max(1) as u64 + 64);
        for shift in [0, 1, 3, 31] {
            let seg = region.seg(shift, bytes.len() as u32).unwrap();
            // SAFETY: the region is alive, and the slice has the segment's length; so for the sums.
            let (wide, narrow) = unsafe {
                seg.copy_in::<crate::copy::Portable>(bytes);
                (words(seg), portable_words(seg))
            };
            assert_eq!(
                (fold(wide), fold(narrow)),
                (textbook(bytes), textbook(bytes)),
                "{} bytes",
                bytes.len()
            );
        }
    }

    #[test]
    fn every_length_has_the_textbooks_sum() {
        let mut state = 1_u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let longest = if cfg!(miri) { 70 } else { 600 };
        for len in 0..longest {
            check(&(0..len).map(|_| byte()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn carries_of_the_largest_words_are_kept() {
        for len in [64, 127, 128, 1500, 65_535] {
            check(&vec![0xff; if cfg!(miri) { len.min(200) } else { len }]);
        }
    }
}
