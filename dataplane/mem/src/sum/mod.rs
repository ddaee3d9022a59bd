//! Sums of 16-bit words over shared memory, for the Internet checksum.
//!
//! Bytes are read once, with volatile accesses or assembly, and never as a slice; if they change meanwhile, the sum is
//! unspecified. [`words`] selects the AVX2 variant; Miri and other processors use the portable one.

mod portable;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

use crate::VolatileSlice;

/// Minimum length in bytes for the AVX2 variant, which adds 128 bytes at a time.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const WIDE: usize = 128;

/// Unfolded sum of the segment's 16-bit words in native byte order. A final odd byte is padded with zero. Fold with
/// end-around carry (RFC 1071); add two of them with end-around carry as well.
///
/// # Safety
/// The memory table of the segment is alive.
#[inline]
pub unsafe fn words(seg: VolatileSlice) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if seg.len() >= WIDE && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the caller guarantees that the bytes are readable, and the processor has AVX2.
        return unsafe { x86::words(seg.as_ptr(), seg.len()) };
    }
    // SAFETY: the caller guarantees that the bytes are readable.
    unsafe { portable::words(seg.as_ptr(), seg.len()) }
}

/// [`words`] of private bytes.
#[inline]
pub fn private_words(bytes: &[u8]) -> u64 {
    // SAFETY: the bytes are borrowed.
    unsafe { words(VolatileSlice::of_private(bytes)) }
}

/// [`words`] without SIMD, as the reference in tests and benchmarks.
///
/// # Safety
/// The memory table of the segment is alive.
pub unsafe fn portable_words(seg: VolatileSlice) -> u64 {
    // SAFETY: the caller guarantees that the bytes are readable.
    unsafe { portable::words(seg.as_ptr(), seg.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;
    use crate::scale::scale;

    /// Folded sum as in RFC 1071, one word at a time.
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

    /// Does not use a guard page; the copy kernel tests do.
    fn check(bytes: &[u8]) {
        let region = Region::heap(0, 0, bytes.len().max(1) as u64 + 64);
        for shift in [0, 1, 3, 31] {
            let seg = region.seg(shift, bytes.len() as u32).unwrap();
            // SAFETY: the region is alive, and the slice has the segment's length. The same holds for the sums.
            let (wide, narrow) = unsafe {
                seg.copy_in::<crate::copy::Portable>(bytes);
                (words(seg), portable_words(seg))
            };
            assert_eq!(
                [fold(wide), fold(narrow), fold(private_words(bytes))],
                [textbook(bytes); 3],
                "{} bytes",
                bytes.len()
            );
        }
    }

    #[test]
    fn sum_matches_reference_for_every_length() {
        let mut state = 1_u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for len in 0..scale(600, 70) {
            check(&(0..len).map(|_| byte()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn carries_are_kept_for_maximum_words() {
        for len in [64, 127, 128, 1500, 65_535] {
            check(&vec![0xff; scale(len, len.min(200))]);
        }
    }
}
